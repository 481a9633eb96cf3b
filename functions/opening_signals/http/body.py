"""Decompresses the body of an answer in bounded pieces. Pure: bytes in, bytes out.

Streaming alone bounds nothing: ten kilobytes may expand to gigabytes in a single call.
"""

import zlib
from collections.abc import Iterator

from opening_signals.errors import FeedError

PIECE = 64 * 1024
# A million items take 400 MB. None of it is kept: this bounds the work that one answer can cost.
MOST_DECODED = 1024**3
# Feeds shrink to a tenth or a thirtieth, a board that repeats one long text perhaps to a hundredth; gzip's limit, and
# a bomb's, is a thousandth. The ratio of a small answer does not matter.
MOST_RATIO = 200
_ANY_RATIO_BELOW = 1024**2
_GZIP = 16 + zlib.MAX_WBITS


class Body:
    """One body, fed as it arrives. Raises FeedError for an unexpected encoding, broken gzip or too many bytes."""

    def __init__(self, encoding: str) -> None:
        encoding = encoding.strip().lower()
        if encoding not in ("", "identity", "gzip", "x-gzip"):
            raise FeedError("answered in an encoding that was not asked for")
        self._gzip = zlib.decompressobj(_GZIP) if encoding.endswith("gzip") else None
        self._received = 0
        self._decoded = 0

    def feed(self, wire: bytes) -> Iterator[bytes]:
        """The decoded pieces, none longer than PIECE if they were compressed."""
        self._received += len(wire)
        for piece in [wire] if self._gzip is None else self._decompress(wire):
            self._decoded += len(piece)
            if self._decoded > MOST_DECODED:
                raise FeedError(f"answered with more than {MOST_DECODED // 1024**2} MiB")
            if self._decoded > max(_ANY_RATIO_BELOW, self._received * MOST_RATIO):
                raise FeedError(f"its answer expands to more than {MOST_RATIO} times its size")
            yield piece

    def end(self) -> None:
        """Raises FeedError when the body is cut off."""
        if self._gzip is not None and not self._gzip.eof:
            raise FeedError("its answer is cut off: the gzip has no end")

    def _decompress(self, wire: bytes) -> Iterator[bytes]:
        assert self._gzip is not None
        while True:
            if self._gzip.eof:
                if not wire:
                    return
                # gzip files may be concatenated: another one follows the end.
                self._gzip = zlib.decompressobj(_GZIP)
            try:
                piece = self._gzip.decompress(wire, PIECE)
            except zlib.error:
                raise FeedError("its answer is broken gzip") from None
            wire = self._gzip.unused_data or self._gzip.unconsumed_tail
            if piece:
                yield piece
            elif not wire:
                return
