"""Reads pickles of plain containers and arrays without unpickling: nothing that a file names is ever called. Does not import torch.

A pickle is a program for a small stack machine. Python's own loader calls whatever that program names. This one knows only the opcodes
that build plain values and the few names with which numpy stores arrays, and raises InputError for everything else.
"""

import io
import math
import pickletools
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import numpy as np
from numpy.typing import NDArray

from highwaynet.base.errors import InputError

MOST_STEPS = 2_000_000
"""Maximal number of opcodes in a file, ten times what CIFAR-100 needs. It limits time and memory."""
MOST_BITS = 64
MOST_DIMENSIONS = 8
ELEMENTS = re.compile(r"b1|[iu][1248]|f[248]")
PLAIN = {dict, list, tuple, bytes, str, int, float, bool, type(None), np.ndarray}


class _Name(Enum):
    """The names that a pickle may use. They are only markers: the objects are never looked up."""

    RECONSTRUCT = auto()
    FROM_BUFFER = auto()
    ARRAY = auto()
    ELEMENT = auto()
    ENCODE = auto()


NAMES = {
    "numpy.core.multiarray _reconstruct": _Name.RECONSTRUCT,
    "numpy._core.multiarray _reconstruct": _Name.RECONSTRUCT,
    "numpy.core.numeric _frombuffer": _Name.FROM_BUFFER,  # how protocol 5 stores arrays
    "numpy._core.numeric _frombuffer": _Name.FROM_BUFFER,
    "numpy ndarray": _Name.ARRAY,
    "numpy dtype": _Name.ELEMENT,
    "_codecs encode": _Name.ENCODE,  # how protocols 0 to 2 store bytes
}


class _DamagedError(Exception):
    """The pickle is invalid; the message says why."""


class _ForeignError(Exception):
    """The pickle uses something that is not allowed; the message says what."""


class _Arguments(tuple[Any, ...]):
    """A tuple that contains markers or unfinished objects: allowed for REDUCE and BUILD, not in the result."""

    __slots__ = ()


@dataclass(eq=False)
class _Unfinished:
    """An array or element type between REDUCE and BUILD."""

    element: str | None
    """The code of an element type such as u1; None for an array."""
    finished: Any = None


def read_plain_pickle(content: bytes, name: str) -> Any:
    """Read a pickle that contains only dicts with text keys, lists, tuples, bytes, text, numbers and numeric arrays.

    Byte strings of Python 2 stay bytes. Arrays are read-only.

    Args:
        content: The whole file.
        name: Its name in errors.

    Raises:
        InputError: If the pickle is damaged, or names anything else, which is never called.
    """
    machine = _Machine(content)
    try:
        # Invalid escapes in byte strings are damage, whatever the user's warning filters.
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return machine.run()
    except _ForeignError as error:
        raise InputError(f"{name} {error}: only plain containers and arrays are allowed") from error
    except _DamagedError as error:
        raise InputError(f"{name} is damaged: {error} (byte {machine.position}); fetch it again") from error


class _Machine:
    """The stack machine. It does not recurse and hashes only text, so that nested or shared values cannot make it slow."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.position = 0
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}
        self.encodable = len(content)  # limits memory if a text is encoded again and again

    def run(self) -> Any:
        stream = io.BytesIO(self.content)
        opcodes = pickletools.genops(stream)
        for _ in range(MOST_STEPS):
            self.position = stream.tell()
            if self.content[self.position : self.position + 1] in LENGTH_BYTES:
                stream.seek(self.push_long_bytes())
                continue
            try:
                opcode, argument, _position = next(opcodes)
            except (ValueError, OverflowError, Warning) as error:
                raise _DamagedError("no valid opcode") from error
            if opcode.name == "STOP":
                return plain(self.pop())
            self.step(opcode.name, argument)
        raise _DamagedError(f"more than {MOST_STEPS} opcodes")

    def step(self, opcode: str, argument: Any) -> None:
        if opcode in WITH_ARGUMENT:
            WITH_ARGUMENT[opcode](self, argument)
        elif opcode in WITHOUT_ARGUMENT:
            WITHOUT_ARGUMENT[opcode](self)
        elif opcode not in IGNORED:
            raise _ForeignError(f"names {readable(argument)}" if opcode == "INST" else f"uses {opcode}")

    def push_long_bytes(self) -> int:
        """Push a byte string, which genops would copy twice, and return its end."""
        start = self.position + 1 + LENGTH_BYTES[self.content[self.position : self.position + 1]]
        end = start + int.from_bytes(self.content[self.position + 1 : start], "little")
        if end > len(self.content):
            raise _DamagedError("a byte string goes beyond the end")
        self.stack.append(self.content[start:end])
        return end

    def pop(self) -> Any:
        if len(self.stack) <= (self.marks[-1] if self.marks else 0):
            raise _DamagedError("nothing on the stack")
        return self.stack.pop()

    def pop_many(self, count: int) -> list[Any]:
        return [self.pop() for _ in range(count)][::-1]

    def pop_to_mark(self) -> list[Any]:
        if not self.marks:
            raise _DamagedError("no mark on the stack")
        start = self.marks.pop()
        items = self.stack[start:]
        del self.stack[start:]
        return items

    def top(self, kind: type) -> Any:
        value = self.pop()
        if type(value) is not kind:
            raise _DamagedError(f"a {kind.__name__} was expected on the stack")
        self.stack.append(value)
        return value

    def push(self, value: Any) -> None:
        if type(value) is int and value.bit_length() > MOST_BITS:
            raise _DamagedError(f"an integer of more than {MOST_BITS} bits")
        self.stack.append(value)

    def push_old_string(self, value: str) -> None:
        self.stack.append(value.encode("latin-1"))

    def check_protocol(self, version: int) -> None:
        if version > 5:
            raise _DamagedError(f"unknown protocol {version}")

    def push_tuple(self, items: list[Any]) -> None:
        self.stack.append(tuple(items) if all(type(item) in PLAIN for item in items) else _Arguments(items))

    def extend_list(self, items: list[Any]) -> None:
        self.top(list).extend(map(plain, items))

    def extend_dict(self, items: list[Any]) -> None:
        filled(self.top(dict), items)

    def remember(self, index: int) -> None:
        if not 0 <= index <= MOST_STEPS:
            raise _DamagedError("a memo number out of range")
        value = self.pop()
        self.stack.append(value)
        self.memo[index] = value

    def recall(self, index: int) -> None:
        if index not in self.memo:
            raise _DamagedError("an unknown memo number")
        value = self.memo[index]
        finished = value.finished if isinstance(value, _Unfinished) else None
        self.stack.append(value if finished is None else finished)

    def name(self, both: str) -> None:
        if both not in NAMES:
            raise _ForeignError(f"names {readable(both)}")
        self.stack.append(NAMES[both])

    def name_from_stack(self) -> None:
        attribute, module = self.pop(), self.pop()
        if type(module) is not str or type(attribute) is not str:
            raise _DamagedError("a name that is not text")
        self.name(f"{module} {attribute}")

    def reduce(self) -> None:
        """Make the object that a marker stands for, where Python would call a function."""
        arguments, function = self.pop(), self.pop()
        if type(arguments) not in (tuple, _Arguments) or not isinstance(function, _Name):
            raise _DamagedError("a call without a function or without arguments")
        match function, len(arguments):
            case _Name.RECONSTRUCT, 3 if arguments[0] is _Name.ARRAY:
                self.stack.append(_Unfinished(None))
            case _Name.ELEMENT, 3:
                self.stack.append(_Unfinished(text(arguments[0])))
            case _Name.FROM_BUFFER, 4:
                self.stack.append(array(*arguments))
            case _Name.ENCODE, 2:
                self.stack.append(self.encoded(*arguments))
            case _:
                raise _ForeignError(f"calls numpy with {len(arguments)} arguments")

    def encoded(self, value: Any, encoding: Any) -> bytes:
        if type(value) is not str or text(encoding) not in ("latin1", "latin-1"):
            raise _DamagedError("text that cannot become bytes")
        self.encodable -= len(value)
        if self.encodable < 0:
            raise _DamagedError("more bytes than the file has")
        try:
            return value.encode("latin-1")
        except UnicodeEncodeError as error:
            raise _DamagedError("text that cannot become bytes") from error

    def build(self) -> None:
        """Complete an array or an element type with its state; raises _ForeignError for anything else."""
        state, target = self.pop(), self.pop()
        if not isinstance(target, _Unfinished) or target.finished is not None or type(state) not in (tuple, _Arguments):
            raise _ForeignError("uses BUILD")
        if target.element is not None:
            target.finished = element_type(target.element, state)
        elif len(state) == 5 and type(state[3]) in (bool, int):
            _version, shape, element, by_columns, data = state
            target.finished = array(data, element, shape, "F" if by_columns else "C")
        else:
            raise _DamagedError("an array with an unknown state")
        self.stack.append(target.finished)


def plain(value: Any) -> Any:
    """Return the value; raises _ForeignError if it is not allowed in the result."""
    if type(value) not in PLAIN:
        raise _ForeignError("contains something that is not a plain value")
    return value


def filled(target: dict[str | bytes, Any], items: list[Any]) -> dict[str | bytes, Any]:
    """Add items, which alternate between keys and values, to a dict and return it."""
    if len(items) % 2:
        raise _DamagedError("a key without a value")
    for key, value in zip(items[::2], items[1::2], strict=True):
        if type(key) not in (str, bytes):  # the hash of nested tuples could take forever
            raise _ForeignError(f"has a key of type {type(key).__name__}")
        target[key] = plain(value)
    return target


def readable(value: object) -> str:
    """Make a name from a file safe to print in an error."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(value)[:80]).replace(" ", ".")


def text(value: Any) -> str:
    """Return a short text, which Python 2 stored as bytes."""
    if type(value) is bytes and len(value) < 80:
        return value.decode("latin-1")
    if type(value) is not str:
        raise _DamagedError("a name that is not text")
    return value


def element_type(code: str, state: tuple[Any, ...]) -> np.dtype[Any]:
    """Return the element type of an array: numbers only, no fields, no metadata."""
    if not ELEMENTS.fullmatch(code):
        raise _ForeignError(f"has an array of type {readable(code)}")
    if len(state) != 8 or any(value is not None for value in state[2:5]):
        raise _ForeignError("has an array with fields")
    order = text(state[1])
    if order not in (("|",) if code[1] == "1" else ("<", ">")):
        raise _DamagedError("an unknown byte order")
    return np.dtype(order + code)


def array(data: Any, element: Any, shape: Any, order: Any) -> NDArray[Any]:
    """Make an array on the bytes of the file; raises _DamagedError if their number does not fit."""
    if type(data) is not bytes or not isinstance(element, np.dtype) or type(shape) is not tuple or text(order) not in ("C", "F"):
        raise _DamagedError("an array with an unknown state")
    if len(shape) > MOST_DIMENSIONS or any(type(size) is not int or size < 1 for size in shape):
        raise _DamagedError("an array with an unknown shape")
    if math.prod(shape) * element.itemsize != len(data):
        raise _DamagedError(f"an array of shape {shape} and type {element} over {len(data)} bytes")
    return np.frombuffer(data, element).reshape(shape, order="F" if text(order) == "F" else "C")


# BINSTRING, BINBYTES, BINBYTES8, BYTEARRAY8, and the number of bytes of their length.
LENGTH_BYTES = {b"T": 4, b"B": 4, b"\x8e": 8, b"\x96": 8}

PUSHED = "INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT UNICODE BINUNICODE BINUNICODE8 SHORT_BINUNICODE SHORT_BINBYTES"
WITH_ARGUMENT: dict[str, Callable[[_Machine, Any], None]] = {
    **dict.fromkeys(PUSHED.split(), _Machine.push),
    **dict.fromkeys(("STRING", "SHORT_BINSTRING"), _Machine.push_old_string),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), _Machine.remember),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), _Machine.recall),
    "PROTO": _Machine.check_protocol,
    "GLOBAL": _Machine.name,
}
WITHOUT_ARGUMENT: dict[str, Callable[[_Machine], object]] = {
    "NONE": lambda machine: machine.push(None),
    "NEWTRUE": lambda machine: machine.push(True),
    "NEWFALSE": lambda machine: machine.push(False),
    "EMPTY_TUPLE": lambda machine: machine.push(()),
    "EMPTY_LIST": lambda machine: machine.push([]),
    "EMPTY_DICT": lambda machine: machine.push({}),
    "TUPLE1": lambda machine: machine.push_tuple(machine.pop_many(1)),
    "TUPLE2": lambda machine: machine.push_tuple(machine.pop_many(2)),
    "TUPLE3": lambda machine: machine.push_tuple(machine.pop_many(3)),
    "TUPLE": lambda machine: machine.push_tuple(machine.pop_to_mark()),
    "LIST": lambda machine: machine.push([plain(item) for item in machine.pop_to_mark()]),
    "DICT": lambda machine: machine.push(filled({}, machine.pop_to_mark())),
    "APPEND": lambda machine: machine.extend_list(machine.pop_many(1)),
    "APPENDS": lambda machine: machine.extend_list(machine.pop_to_mark()),
    "SETITEM": lambda machine: machine.extend_dict(machine.pop_many(2)),
    "SETITEMS": lambda machine: machine.extend_dict(machine.pop_to_mark()),
    "MARK": lambda machine: machine.marks.append(len(machine.stack)),
    "POP": _Machine.pop,
    "POP_MARK": _Machine.pop_to_mark,
    "MEMOIZE": lambda machine: machine.remember(len(machine.memo)),
    "STACK_GLOBAL": _Machine.name_from_stack,
    "REDUCE": _Machine.reduce,
    "BUILD": _Machine.build,
}
# FRAME matters only when reading from a stream.
IGNORED = {"FRAME"}
