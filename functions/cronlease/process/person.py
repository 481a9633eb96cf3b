"""Who uses this machine, for the record of operations on schedules."""

import getpass
import socket


def actor() -> str:
    """For example ann@laptop."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        # Accounts in many containers have no name.
        name = "somebody"
    return f"{name}@{socket.gethostname()}"
