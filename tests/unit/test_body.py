"""Unfolding a body: whatever the pieces it arrives in, the same comes out, and never more than is allowed."""

import gzip
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opening_signals.errors import FeedError
from opening_signals.http import body
from opening_signals.http.body import PIECE, Body


def unfold(parts: list[bytes], encoding: str = "gzip") -> list[bytes]:
    unfolding = Body(encoding)
    pieces = [piece for part in parts for piece in unfolding.feed(part)]
    unfolding.end()
    return pieces


@given(st.lists(st.binary(max_size=300).map(lambda seed: seed * 400), min_size=1, max_size=4), st.integers(1, 5000))
def test_joined_gzips_come_out_whole_however_they_are_cut(documents: list[bytes], length: int) -> None:
    wire = b"".join(map(gzip.compress, documents))
    pieces = unfold([wire[at : at + length] for at in range(0, len(wire), length)])
    assert b"".join(pieces) == b"".join(documents)
    assert all(0 < len(piece) <= PIECE for piece in pieces)


@given(st.binary(max_size=2000), st.integers(1, 40))
def test_a_gzip_that_is_cut_off_is_noticed(document: bytes, missing: int) -> None:
    wire = gzip.compress(document)
    with pytest.raises(FeedError):
        unfold([wire[:-missing]])


@given(st.lists(st.binary(max_size=100)))
def test_no_bytes_do_worse_than_a_feed_error(parts: list[bytes]) -> None:
    with suppress(FeedError):
        unfold(parts)


def test_a_bomb_is_noticed_while_it_unfolds() -> None:
    lengths: list[int] = []
    with pytest.raises(FeedError, match=r"^its answer expands to more than 200 times its size$"):
        lengths.extend(map(len, Body("gzip").feed(gzip.compress(bytes(50 * 1024**2)))))
    assert max(lengths) <= PIECE
    assert sum(lengths) <= 200 * 52 * 1024


def test_a_small_answer_may_be_as_dense_as_it_likes() -> None:
    assert b"".join(unfold([gzip.compress(bytes(1024**2))])) == bytes(1024**2)


@pytest.mark.parametrize("encoding", ["gzip", ""])
def test_more_than_is_allowed_is_refused_in_any_encoding(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "MOST_DECODED", 1024**2)
    wire = bytes(1024**2 + 1)
    with pytest.raises(FeedError, match=r"^answered with more than 1 MiB$"):
        unfold([gzip.compress(wire) if encoding else wire], encoding)


@pytest.mark.parametrize("encoding", ["br", "zstd", "deflate", "compress", "gzip, gzip", "gzip,", "notgzip"])
def test_only_gzip_is_unfolded(encoding: str) -> None:
    with pytest.raises(FeedError, match=r"^answered in an encoding that was not asked for$"):
        Body(encoding)
