"""Which schema everything of ours is in: CRONLEASE_SCHEMA. The one place that puts its name into SQL.

All SQL is written for the schema public, and valid as it is. Where another schema is named, that name takes the
place of `public` in qualified names, in literals and after the word schema; the pseudo role PUBLIC, which SQL writes
without any of these, stays. A literal that means the role is written lower('PUBLIC'). Our roles get the name as a
suffix.
"""

import functools
import os
import re

from cronlease.readers import schema_name
from cronlease.settings import SettingsError

PUBLIC = "public"
_NAMES = r"\bpublic(?=\.)|(?<=')public(?=')|(?<=\bschema )public\b|\bcronlease_(?:runner|reader)\b"
# The first keys of advisory locks that version 0.1 takes, too; refresh_lock_key has the others.
_KEYS = {"migrate": 3}


def schema() -> str:
    """Its name. Read at each call, so that a test may set it: that costs a microsecond."""
    return _checked(os.environ.get("CRONLEASE_SCHEMA") or PUBLIC)


def in_schema(text: str) -> str:
    """The text, with the name of that schema in it."""
    name = schema()
    return text if name == PUBLIC else _substituted(text, name)


def lock_key(purpose: str) -> int:
    """The key that refresh_lock_key answers, for what is locked before that function exists."""
    name = schema()
    if name == PUBLIC:
        return _KEYS[purpose]
    # Imported by a migration only: a deployed function starts without it.
    import hashlib

    return int.from_bytes(hashlib.sha256(f"{name}.{purpose}".encode()).digest()[:4], "big", signed=True)


@functools.lru_cache(maxsize=1000)
def _substituted(text: str, name: str) -> str:
    return re.sub(_NAMES, lambda match: name if match[0] == PUBLIC else f"{match[0]}_{name}", text)


@functools.cache
def _checked(name: str) -> str:
    try:
        return schema_name(name)
    except ValueError as error:
        raise SettingsError(f"CRONLEASE_SCHEMA: {error}") from None
