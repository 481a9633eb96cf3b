"""One run: claim or skip, work under a heartbeat, write the end. Knows nothing of HTTP or the command line."""
