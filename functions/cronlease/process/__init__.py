"""The life of the process: how it ends, what its children may not do, and that it is the emulator's."""
