"""The command line. A function never imports it."""
