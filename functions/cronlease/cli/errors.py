"""What was asked for cannot be: the command line itself is wrong."""

import click


class UsageError(click.ClickException):
    """One sentence; the exit status is that of a wrong command line."""

    exit_code = 2
