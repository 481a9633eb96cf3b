"""When an answer is too unlikely to be acted on at once. Pure.

A vendor's mistake looks like a board that was emptied or lost most of its openings. Such an answer closes nothing
until a later run gets one that is as unlikely.
"""

# Of fewer openings, half may well go in a day.
_MANY = 20


def why_doubtful(*, open_before: int, gone: int, is_empty: bool) -> str | None:
    """Why a source that had so many openings, of which so many are gone, has to say so twice; None if it need not."""
    if gone and is_empty:
        return f"it has no openings any more, and had {open_before}"
    if open_before >= _MANY and gone * 2 > open_before:
        return f"{gone} of its {open_before} openings are gone"
    return None
