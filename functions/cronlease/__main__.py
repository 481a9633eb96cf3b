"""The start of the command line: a Ctrl-C while it is still being imported ends it without a traceback."""

import signal


def main() -> None:
    usual = signal.getsignal(signal.SIGINT)
    if usual is signal.default_int_handler:  # not if our parent ignores it
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from cronlease.process.importing import uncollected

    with uncollected():
        from cronlease.cli.main import main as verbs

    signal.signal(signal.SIGINT, usual)
    verbs()


if __name__ == "__main__":
    main()
