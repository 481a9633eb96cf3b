"""Imports without the garbage collector: on a cold start it only costs time, since nothing is garbage yet."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Around imports. Collecting during them would walk everything that is loaded, a tenth of a cold start. Frozen
    objects are not walked again, nor copied by a worker that is forked later."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if collecting:
            gc.enable()
