"""Who sits at this machine, for the record of what people do to schedules."""

import getpass
import socket


def actor() -> str:
    """Such as ann@laptop."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        # An account without a name, as in many containers.
        name = "somebody"
    return f"{name}@{socket.gethostname()}"
