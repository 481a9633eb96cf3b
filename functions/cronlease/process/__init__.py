"""The life of the process: how it ends, and what its children may not do."""
