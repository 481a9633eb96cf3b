"""Sample feeds for the emulator, in their vendors' formats."""
