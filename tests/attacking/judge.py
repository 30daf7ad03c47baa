"""What counts as a finding.

A command that meets a damaged file has two ways: it ends with exit code 0, or with exit code 2 and one sentence. Whether its answer may
then differ depends on what the file is:

any      The file is the user's own data or settings: what it says now is the question, so that another answer is right. A pixel, a cell
         or a learning rate has no checksum.
same     The file belongs to a run: its answers must be the same, or refused.
noticed  The same, and the command is asked about damage: exit code 0 is a finding, unless the file still means the same.
listed   The command lists many things, of which this one may be damaged: exit code 0.
"""

import json
import re
from contextlib import suppress
from typing import Literal

from attacking.forks import MOST_MEMORY, Ended

Expects = Literal["any", "same", "noticed", "listed"]
LONGEST_SENTENCE = 1500


def finding_in(ended: Ended, calm: Ended, expects: Expects) -> str | None:
    """Return what is wrong with how a command ended, given how it ends with undamaged files; None if nothing is."""
    if wrong := _wrong_end(ended, calm, expects) or _wrong_words(ended):
        return wrong
    if ended.code == 0 and expects == "noticed":
        return "not noticed"
    return "silent change" if ended.code == 0 and expects == "same" and ended.out != calm.out else None


def _wrong_end(ended: Ended, calm: Ended, expects: Expects) -> str | None:
    if ended.hung:
        return "hangs"
    if ended.code < 0:
        return f"ended by signal {-ended.code}"
    if ended.peak - calm.peak > MOST_MEMORY:
        return f"needs {(ended.peak - calm.peak) / 2**20:.0f} MB more than with undamaged files"
    if "Traceback" in ended.err or "error in highwaynet itself" in ended.err:
        return "traceback"
    return f"exit code {ended.code}" if ended.code not in {0, 2} or (expects == "listed" and ended.code) else None


def _wrong_words(ended: Ended) -> str | None:
    if re.search(r"^\S*\bWarning\b|Warning:", ended.err, re.MULTILINE):
        return "warning"
    if re.search(r"[\x00-\x08\x0b-\x1f\x7f]", ended.err.replace("\r", "")):
        return "control characters in a message"
    if ended.code == 0:
        return None
    lines = ended.err.splitlines()  # the error comes last; notes may come before it
    if not lines or not lines[-1].startswith("highway: "):
        return "no sentence"
    return "long sentence" if len(lines[-1]) > LONGEST_SENTENCE else None


def means_the_same(before: bytes, after: bytes) -> bool:
    """Whether a JSON file says what it said before; a field that is null, and the version of the format, may be left out."""
    with suppress(ValueError, RecursionError, AttributeError):
        old, new = ({name: value for name, value in json.loads(one).items() if value is not None} for one in (before, after))
        return bool({"schema_version": 1} | old == {"schema_version": 1} | new)
    return False
