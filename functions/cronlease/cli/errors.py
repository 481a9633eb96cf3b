"""Errors in the command line itself."""

import click


class UsageError(click.ClickException):
    """What was asked for is impossible. Unlike click's own UsageError it does not print the usage."""

    exit_code = 2
