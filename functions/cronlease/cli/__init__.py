"""The command line. Never imported by a deployed function."""
