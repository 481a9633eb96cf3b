"""What starts a run, and who may: HTTP, run-due, the worker."""
