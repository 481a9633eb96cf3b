"""The verbs of the command line, each imported when it is asked for. Never imported by a deployed function."""
