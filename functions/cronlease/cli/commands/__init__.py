"""One module per verb, each imported when it is asked for."""
