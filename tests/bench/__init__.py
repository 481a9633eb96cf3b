"""Ratios, side by side in one run. Nothing here asserts on speed.

From the root of the repository, `python -m tests.bench` runs all benches and prints one table with their goals, and
`python -m tests.bench.bench_<name>` runs one and says more. Two modules are tools and no benches: `trace_modules`
counts the modules that a hit passes, and `profile_handler` shows where its time goes. pg-boss needs Node.js and River
needs Go, so neither can run here.
"""

import sys
from pathlib import Path

# The source root, so that a checkout needs no installation.
_SOURCES = str(Path(__file__).resolve().parents[2] / "functions")
if _SOURCES not in sys.path:
    sys.path.insert(0, _SOURCES)
