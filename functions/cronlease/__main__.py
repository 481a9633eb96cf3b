"""Where the command line begins: a Ctrl-C while it is still being imported ends it without a traceback."""

import signal


def main() -> None:
    usual = signal.getsignal(signal.SIGINT)
    if usual is signal.default_int_handler:  # not where whoever started us has it ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from cronlease.cli.main import main as verbs

    signal.signal(signal.SIGINT, usual)
    verbs()


if __name__ == "__main__":
    main()
