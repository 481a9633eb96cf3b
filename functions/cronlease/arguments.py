"""The one check of a run's arguments, wherever they come from: HTTP, the command line, or a job's own code.

A run gets exactly the numbers and texts that were written. JSON that Python or PostgreSQL would have to change is
refused with one sentence, before anything is stored.
"""

import json
import sys
from collections.abc import Mapping
from math import isinf
from typing import Any

# The limits of args_mistake in schema/cronlease/functions.
_MOST_LEVELS = 200
_LARGEST = 10**300
_SHOWN_DIGITS = 40
_TOO_LARGE = "a number that large cannot be stored"


def decode(text: str | bytes) -> Any:
    """The JSON value. Raises ValueError, also for a number that a float cannot hold exactly as written."""
    return json.loads(text, parse_constant=_refuse_constant, parse_float=_exact, parse_int=_whole)


def encode(args: Mapping[str, Any]) -> str:
    """The arguments as JSON that the database stores unchanged. Raises ValueError, which says why it cannot."""
    try:
        text = json.dumps(dict(args), ensure_ascii=False)
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("text with a NUL or half a character in it cannot be stored") from None
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    except ValueError as error:
        # Python's own advice is for programmers; the other cause is a circular reference.
        raise ValueError(_TOO_LARGE if "digits" in str(error) else str(error)) from None
    # An escaped backslash before u0000 is harmless.
    if "\\u0000" in text.replace("\\\\", ""):
        raise ValueError("text with a NUL or half a character in it cannot be stored")
    _check_bounds(args)
    return text


def _check_bounds(args: Mapping[str, Any]) -> None:
    """Raises ValueError for what args_mistake in the database would refuse."""
    values: list[Any] = [dict(args)]
    for _ in range(_MOST_LEVELS + 1):
        if not values:
            return
        numbers = [value for value in values if isinstance(value, int | float)]
        if any(number != number for number in numbers):
            raise ValueError("NaN is not a number that JSON has")
        if any(abs(number) >= _LARGEST for number in numbers):
            raise ValueError(_TOO_LARGE)
        parts = [
            value.values() if isinstance(value, dict) else value
            for value in values
            if isinstance(value, dict | list | tuple)
        ]
        values = [each for part in parts for each in part]
    if values:
        raise ValueError(f"nested more than {_MOST_LEVELS} levels deep")


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _whole(number: str) -> int:
    try:
        return int(number)
    except ValueError:
        raise ValueError(f"a number in it has more than {sys.get_int_max_str_digits()} digits") from None


def _exact(number: str) -> float:
    from decimal import Decimal

    value = float(number)
    if isinf(value):
        # Too large, which encode reports.
        return value
    try:
        is_exact = Decimal(number) == Decimal(repr(value))
    except ArithmeticError:
        # The exponent is beyond what Decimal holds.
        is_exact = False
    if not is_exact:
        raise ValueError(f"{number[:_SHOWN_DIGITS]} has more digits than a number can have here: write it as text")
    return value
