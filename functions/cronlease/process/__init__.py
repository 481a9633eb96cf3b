"""The life of the process: its imports, its end, what its children may not do, and whether it is the emulator's."""
