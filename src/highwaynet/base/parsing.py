"""Parsing of TOML and JSON from files that anybody may have written: sizes are limited first, and every failure is an InputError."""

import json
import re
import tomllib
from typing import Any

from highwaynet.base.errors import InputError

MOST_TOML = 1_000_000
"""Characters of a TOML text: settings take a few thousand."""
DEEPEST = 60
"""Parts of a dotted key: the parser's time grows with their square."""

# A match begins at the beginning of a word, so that the time of a search is proportional to the length of the text.
_DOTTED = re.compile(rf"""(?<![A-Za-z0-9_-])(?:(?:"[^"\n]*+"|'[^'\n]*+'|[A-Za-z0-9_-]++)[ \t]*+\.[ \t]*+){{{DEEPEST}}}""")


def parse_toml(text: str, source: object) -> dict[str, Any]:
    """Parse a TOML text; raises InputError, which names `source`, if it is invalid, too large or too deeply nested."""
    if len(text) > MOST_TOML:
        raise InputError(f"{source} is too large for settings: it has {len(text):,} characters, and {MOST_TOML:,} are read at most")
    if _DOTTED.search(text):
        raise InputError(f"{source} is not valid: a name in it has more than {DEEPEST} sections")
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))  # some editors write a byte order mark
    except RecursionError as error:
        raise InputError(f"{source} is not valid TOML: it is too deeply nested") from error
    except ValueError as error:  # also numbers with thousands of digits
        raise InputError(f"{source} is not valid TOML: {_reason(error)}") from error


def parse_json(text: str | bytes, source: object) -> Any:
    """Parse a JSON text; raises InputError, which names `source`, if it is invalid or too deeply nested."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise InputError(f"{source} is damaged: it is too deeply nested") from error
    except ValueError as error:  # also numbers with thousands of digits, and bytes that are not text
        raise InputError(f"{source} is damaged: {_reason(error)}") from error


def _reason(error: ValueError) -> str:
    """The message of the error, without Python's advice on how to raise its limit."""
    return "a number has too many digits" if "integer string conversion" in str(error) else str(error)
