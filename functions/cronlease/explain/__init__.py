"""Why a schedule did or did not run: its rows as values, and sentences for both the command line and the page."""
