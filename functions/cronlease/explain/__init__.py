"""Why a schedule did or did not run: its rows as values, and sentences for the command line and the page."""
