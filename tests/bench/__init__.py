"""Ratios, side by side in one run: python -m tests.bench.<name>, from the root of the repository. Asserts nothing."""

import sys
from pathlib import Path

# The source root, so that a checkout needs no installation.
_SOURCES = str(Path(__file__).resolve().parents[2] / "functions")
if _SOURCES not in sys.path:
    sys.path.insert(0, _SOURCES)
