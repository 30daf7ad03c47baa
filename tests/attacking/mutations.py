"""Damages to the bytes of a file: flipped bits, cuts, splices, huge sizes, deep nesting, odd encodings."""

import random
import re
from collections.abc import Callable

HUGE = (b"9" * 400, b"9" * 5000, b"1e400", b"-1", b"0", b"NaN", b"-Infinity", b"1e-320", b"9223372036854775808", b"4294967296", b"0x7f")
VALUES = (b"null", b"true", b'""', b"[]", b"{}", b"[[]]", b'{"a": 1}', b'"\\ud800"', b'"\\u0000"', b"''", b"1979-05-27T07:32:00Z", b"inf")
WORDS = (
    b"\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\r",
    b"\n",
    b"\xed\xa0\x80",
    b"\x1b[31m",
    b"%s%n",
    b"../../x",
    b"\xe2\x80\xae",
    b",",
    b'"',
)
LARGEST = 200_000
"""Bytes that a damage may add at most."""

Damage = Callable[[bytes, random.Random, bytes], bytes]


def _place(content: bytes, chance: random.Random) -> int:
    """A place in a file: headers are hit more often than what follows them."""
    return chance.randrange(min(len(content), 128) if chance.random() < 0.4 else len(content)) if content else 0


def _piece(content: bytes, chance: random.Random, longest: int = 2000) -> tuple[int, int]:
    start = _place(content, chance)
    return start, min(len(content), start + chance.choice([1, 4, 16, 100, longest]))


def flip(content: bytes, chance: random.Random, _: bytes) -> bytes:
    changed = bytearray(content)
    for _number in range(chance.choice([1, 1, 1, 3, 20])):
        if changed:
            changed[_place(content, chance)] ^= 1 << chance.randrange(8)
    return bytes(changed)


def random_bytes(content: bytes, chance: random.Random, _: bytes) -> bytes:
    start, end = _piece(content, chance, 64)
    return content[:start] + chance.randbytes(end - start) + content[end:]


def cut_end(content: bytes, chance: random.Random, _: bytes) -> bytes:
    return content[: chance.randrange(len(content) + 1)]


def cut_start(content: bytes, chance: random.Random, _: bytes) -> bytes:
    return content[_place(content, chance) :]


def remove(content: bytes, chance: random.Random, _: bytes) -> bytes:
    start, end = _piece(content, chance)
    return content[:start] + content[end:]


def repeat(content: bytes, chance: random.Random, _: bytes) -> bytes:
    start, end = _piece(content, chance)
    times = min(chance.choice([1, 2, 50, 1000]), LARGEST // max(1, end - start))
    return content[:end] + content[start:end] * times + content[end:]


def splice(content: bytes, chance: random.Random, other: bytes) -> bytes:
    start, end = _piece(content, chance)
    first, last = _piece(other, chance)
    return content[:start] + other[first:last] + content[end:]


def huge_size(content: bytes, chance: random.Random, _: bytes) -> bytes:
    """A number in binary: all ones, the largest signed one, one bit, zero."""
    width = chance.choice([1, 2, 4, 8])
    value = chance.choice([2 ** (8 * width) - 1, 2 ** (8 * width - 1) - 1, 2 ** (8 * width - 1), 1 << chance.randrange(8 * width), 0])
    start = _place(content, chance)
    return content[:start] + value.to_bytes(width, chance.choice(["little", "big"])) + content[start + width :]


def number(content: bytes, chance: random.Random, _: bytes) -> bytes:
    """A number in text: too long, too large, not finite."""
    return _replaced(rb"-?\d+(\.\d+)?(e-?\d+)?", content, chance, HUGE)


def value(content: bytes, chance: random.Random, _: bytes) -> bytes:
    """A value in JSON or TOML: of another type."""
    return _replaced(rb'"[^"\n]{0,80}"|\[[^\[\]]{0,200}\]|-?\d+\.?\d*|true|false|null', content, chance, VALUES)


def nest(content: bytes, chance: random.Random, _: bytes) -> bytes:
    opening, closing = chance.choice([(b"[", b"]"), (b'{"a":', b"}"), (b"{a=", b"}"), (b"(", b")"), (b"a.", b"")])
    depth = chance.choice([70, 1500, 30_000])
    deep = opening * depth + b"1" + closing * depth
    found = [match.span() for match in re.finditer(rb'(?<=[:=])\s*("[^"\n]*"|[\d.]+|\[)', content)]
    start, end = chance.choice(found) if found else _piece(content, chance)
    return content[:start] + deep + content[end:]


def lines(content: bytes, chance: random.Random, _: bytes) -> bytes:
    """Lines that are gone, there twice, or in another order."""
    parts = content.splitlines(keepends=True)
    if len(parts) < 2:
        return remove(content, chance, b"")
    first, second = chance.sample(range(len(parts)), 2)
    match chance.randrange(3):
        case 0:
            del parts[first]
        case 1:
            parts.insert(second, parts[first])
        case _:
            parts[first], parts[second] = parts[second], parts[first]
    return b"".join(parts)


def words(content: bytes, chance: random.Random, _: bytes) -> bytes:
    start = _place(content, chance)
    return content[:start] + chance.choice(WORDS) * chance.choice([1, 1, 3, 300]) + content[start:]


def encoding(content: bytes, chance: random.Random, _: bytes) -> bytes:
    text = content.decode("latin-1")
    match chance.randrange(6):
        case 0:
            return text.encode("utf-16")
        case 1:
            return text.encode("utf-32-be")
        case 2:
            return b"\xef\xbb\xbf" + content
        case 3:
            return content.replace(b"\n", b"\r")
        case 4:
            return content.replace(b"e", b"\xc3\xa9").replace(b"a", b"\xe4")
        case _:
            return content.replace(b" ", b"\xc2\xa0")


def empty(_: bytes, chance: random.Random, other: bytes) -> bytes:
    """Nothing, zeros, or another file."""
    return chance.choice([b"", b"\n", bytes(100), other])


def _replaced(pattern: bytes, content: bytes, chance: random.Random, values: tuple[bytes, ...]) -> bytes:
    found = [match.span() for match in re.finditer(pattern, content)]
    if not found:
        return flip(content, chance, b"")
    start, end = chance.choice(found)
    return content[:start] + chance.choice(values) + content[end:]


ALL: dict[str, Damage] = {
    one.__name__: one
    for one in (
        flip,
        random_bytes,
        cut_end,
        cut_start,
        remove,
        repeat,
        splice,
        huge_size,
        number,
        value,
        nest,
        lines,
        words,
        encoding,
        empty,
    )
}
TEXT = ("number", "value", "nest", "lines", "words", "encoding")
"""Damages that are made for texts; of binary files, they are tried less often."""
OFTEN = ("flip", "huge_size", "cut_end", "splice")


def damaged(content: bytes, chance: random.Random, other: bytes) -> tuple[str, bytes]:
    """Return the name of a damage, and a file that has it; now and then it has two."""
    is_text = b"\0" not in content[:2000] and content[:4] not in {b"PK\3\4", b"PAR1"}
    names = [*ALL, *(TEXT if is_text else OFTEN * 3)]
    chosen = [chance.choice(names)]
    if chance.random() < 0.2:
        chosen.append(chance.choice(names))
    for name in chosen:
        content = ALL[name](content, chance, other)
    return "+".join(chosen), content
