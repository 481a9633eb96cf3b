"""What starts a run, and who may: HTTP, Lambda, a block, run-due, the worker."""
