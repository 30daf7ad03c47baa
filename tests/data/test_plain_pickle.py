"""Pickles of plain containers and arrays: read as Python reads them, and nothing a file names ever runs."""

import os
import pickle
import struct
import tracemalloc
from collections import OrderedDict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data.formats import python2_pickle
from highwaynet.base.errors import InputError
from highwaynet.data import plain_pickle
from highwaynet.data.plain_pickle import read_plain_pickle

FUZZ = partial(settings, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])

# Written by Python 2.7.18 with numpy 1.16.6: cPickle.dumps({'labels': [1, 300], 'data': ..., 'filenames': ['a.png', 'b.png']}, 2).
GENUINE = (
    b"\x80\x02}q\x01(U\x06labelsq\x02]q\x03(K\x01M,\x01eU\x04dataq\x04cnumpy.core.multiarray\n_reconstruct\nq\x05cnumpy\nndarray\nq\x06"
    b"K\x00\x85U\x01b\x87Rq\x07(K\x01K\x02M,\x01\x86cnumpy\ndtype\nq\x08U\x02u1K\x00K\x01\x87Rq\t(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff"
    b"K\x00tb\x89TX\x02\x00\x00" + bytes(range(256)) * 2 + bytes(range(88)) + b"tbU\tfilenamesq\n]q\x0b(U\x05a.pngq\x0cU\x05b.pngq\reu."
)
PIXELS = np.arange(600).astype(np.uint8).reshape(2, 300)
FIELDS = {"labels": [1, 300], "data": PIXELS, "filenames": ["a.png", "b.png"]}

RECONSTRUCT = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85C\x01b\x87R"


def element(code: bytes = b"u1", order: bytes = b"|", rest: bytes = b"NNN", end: bytes = b"K\x00") -> bytes:
    """The opcodes of an element type."""
    made = b"cnumpy\ndtype\nC" + bytes([len(code)]) + code + b"K\x00K\x01\x87R"
    return made + b"(K\x03C" + bytes([len(order)]) + order + rest + b"J\xff\xff\xff\xffJ\xff\xff\xff\xff" + end + b"tb"


def stored_array(shape: bytes = b"K\x02\x85", kind: bytes = element(), flag: bytes = b"\x89", data: bytes = b"C\x02ab") -> bytes:
    """The opcodes of an array."""
    return RECONSTRUCT + b"(K\x01" + shape + kind + flag + data + b"tb."


def refusal(content: bytes) -> str:
    """The sentence with which a pickle is refused."""
    with pytest.raises(InputError) as caught:
        read_plain_pickle(content, "batch")
    sentence = str(caught.value)
    assert sentence.isprintable()
    assert len(sentence) < 300
    return sentence


def equal(left: Any, right: Any) -> bool:
    if isinstance(left, np.ndarray):
        return isinstance(right, np.ndarray) and left.dtype == right.dtype and np.array_equal(left, right)
    if isinstance(left, dict):
        return type(right) is dict and left.keys() == right.keys() and all(equal(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)):
        return type(left) is type(right) and len(left) == len(right) and all(map(equal, left, right))
    return type(left) is type(right) and bool(left == right)


def test_the_genuine_form_is_read() -> None:
    value = read_plain_pickle(GENUINE, "batch")
    assert equal(value, {b"labels": [1, 300], b"data": PIXELS, b"filenames": [b"a.png", b"b.png"]})


def test_the_assembled_form_is_the_genuine_one() -> None:
    assert python2_pickle(FIELDS) == GENUINE


@pytest.mark.parametrize("protocol", range(6))
def test_every_protocol_of_today_is_read(protocol: int) -> None:
    columns = np.asfortranarray(np.arange(6, dtype=">i4").reshape(2, 3))
    shared = [1, 2]
    value = FIELDS | {
        "numbers": (0, -1, 255, 256, 65536, -(2**31), 2**40, -(2**63), 2**63, 1.5, True, False, None),
        "texts": ("", "é\n", "\U0001f600", b"a\x00\xff", b"x" * 300, "y" * 300),
        "nested": {"a": [[], {}, (), ((),)], "b": (1, 2, (3, [4]))},
        "arrays": [np.array(True), columns, columns[:, ::2], np.linspace(0, 1, 3), np.arange(3, dtype=np.float16), PIXELS],
        "shared": [shared, shared],
        "many": list(range(2500)),
    }
    assert equal(read_plain_pickle(pickle.dumps(value, protocol), "batch"), value)


def test_frozen_arrays_and_pickles_of_the_pure_python_pickler_are_read() -> None:
    frozen = PIXELS.copy()
    frozen.flags.writeable = False
    assert equal(read_plain_pickle(pickle.dumps(frozen, 5), "batch"), PIXELS)
    for protocol in range(6):
        assert equal(read_plain_pickle(pickle._dumps(FIELDS, protocol), "batch"), FIELDS)


def test_numpy_before_version_2_is_read() -> None:
    for protocol in range(6):
        content = pickle.dumps(FIELDS, protocol)
        old = content
        for module in (b"multiarray", b"numeric"):  # protocols from 4 on store the length of a name before it
            new_name, old_name = b"numpy._core." + module, b"numpy.core." + module
            old = old.replace(bytes([len(new_name)]) + new_name, bytes([len(old_name)]) + old_name).replace(new_name, old_name)
        assert b"numpy._core" not in old
        assert equal(read_plain_pickle(old, "batch"), FIELDS)


def test_python_2_wrote_older_protocols_too() -> None:
    # From Python 2.7.18 with numpy 1.16.6, protocols 0 and 1.
    zero = (
        b"(dp1\nS'labels'\np2\n(lp3\nI1\naI300\nasS'data'\np4\ncnumpy.core.multiarray\n_reconstruct\np5\n(cnumpy\nndarray\np6\n(I0\ntS'b'\ntRp7\n"
        b"(I1\n(I1\nI3\ntcnumpy\ndtype\np8\n(S'u1'\nI0\nI1\ntRp9\n(I3\nS'|'\nNNNI-1\nI-1\nI0\ntbI00\nS'\\x00\\x01\\n'\ntbs."
    )
    one = (
        b"}q\x01(U\x06labelsq\x04]q\x05(K\x01M,\x01eU\x04dataq\x06cnumpy.core.multiarray\n_reconstruct\nq\x07(cnumpy\nndarray\nq\x08(K\x00tU\x01btRq\t"
        b"(K\x01(K\x01K\x03tcnumpy\ndtype\nq\n(U\x02u1K\x00K\x01tRq\x0b(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tbI00\nU\x03\x00\x01\ntbu."
    )
    for content in (zero, one):
        assert equal(read_plain_pickle(content, "batch"), {b"labels": [1, 300], b"data": np.array([[0, 1, 10]], np.uint8)})


class Harm:
    """What a hostile file asks for."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize(
    ("function", "argument", "named"), [(os.system, "touch {}", f"{os.name}.system"), (eval, "open('{}', 'w').close()", ".eval")]
)
def test_what_a_file_names_does_not_run(tmp_path: Path, protocol: int, function: Any, argument: str, named: str) -> None:
    trace = tmp_path / "trace"
    content = pickle.dumps({"data": PIXELS, "labels": [1, Harm(function, argument.format(trace))]}, protocol)
    sentence = refusal(content)
    assert named in sentence
    assert sentence.startswith("batch names ")
    assert sentence.endswith(": only plain containers and arrays are allowed")
    assert not trace.exists()
    pickle.loads(content)  # the trap is real
    assert trace.exists()


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"cos\nsystem\nC\x02ls\x85R.", "os.system"),
        (b"cbuiltins\neval\nC\x01a\x85R.", "builtins.eval"),
        (b"c__builtin__\neval\nU\x01a\x85R.", "__builtin__.eval"),
        (b"\x8c\x02os\x8c\x06system\x93.", "os.system"),
        (b"(C\x02lsios\nsystem\n.", "os.system"),
        (b"cnumpy\nload\n.", "numpy.load"),
        (b"cnumpy.core.multiarray\nscalar\n.", "numpy.core.multiarray.scalar"),
        (b"ccopy_reg\n_reconstructor\n.", "copy_reg._reconstructor"),
        (b"cnumpy\ndtype.__class__\n.", "numpy.dtype.__class__"),
        (b"c_codecs\ndecode\n.", "_codecs.decode"),
        (pickle.dumps(OrderedDict(a=1), 2), "collections.OrderedDict"),
        (b"c\x1b[31m\x07\nx\n.", "?[31m?.x"),
    ],
)
def test_other_names_are_refused(content: bytes, named: str) -> None:
    assert refusal(content) == f"batch names {named}: only plain containers and arrays are allowed"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"Pid\n.", "uses PERSID"),
        (b"K\x01Q.", "uses BINPERSID"),
        (b"\x82\x01.", "uses EXT1"),
        (b"\x83\x01\x00.", "uses EXT2"),
        (b"\x84\x01\x00\x00\x00.", "uses EXT4"),
        (b"cnumpy\nndarray\n)\x81.", "uses NEWOBJ"),
        (b"cnumpy\nndarray\n)}\x92.", "uses NEWOBJ_EX"),
        (b"(cnumpy\nndarray\no.", "uses OBJ"),
        (b"\x8f.", "uses EMPTY_SET"),
        (b"(\x91.", "uses FROZENSET"),
        (b"\x97.", "uses NEXT_BUFFER"),
        (b"}}b.", "uses BUILD"),
        (b"cnumpy\nndarray\n}b.", "uses BUILD"),
        (RECONSTRUCT + b"}b.", "uses BUILD"),
        (b"cnumpy\nndarray\nK\x02\x85R.", "calls numpy with 1 arguments"),
        (b"cnumpy.core.multiarray\n_reconstruct\n]\x85R.", "calls numpy with 1 arguments"),
        (b"cnumpy\nndarray\n.", "contains something that is not a plain value"),
        (b"]cnumpy\nndarray\na.", "contains something that is not a plain value"),
        (b"]cnumpy\nndarray\n\x85\x85a.", "contains something that is not a plain value"),
        (b"(cnumpy\ndtype\nl.", "contains something that is not a plain value"),
        (b"}U\x01a" + element() + b"s.", "contains something that is not a plain value"),
        (RECONSTRUCT + b".", "contains something that is not a plain value"),
        (b"}K\x01K\x02s.", "has a key of type int"),
        (b"}K\x01\x85K\x02s.", "has a key of type tuple"),
        (stored_array(kind=element(b"O8")), "has an array of type O8"),
        (stored_array(kind=element(b"V2")), "has an array of type V2"),
        (stored_array(kind=element(b"S2")), "has an array of type S2"),
        (stored_array(kind=element(b"M8", b"<")), "has an array of type M8"),
        (stored_array(kind=element(b"c8", b"<")), "has an array of type c8"),
        (stored_array(kind=element(rest=b"N]N")), "has an array with fields"),
        (stored_array(kind=element(rest=b"NN}")), "has an array with fields"),
        (stored_array(kind=element(end=b"K\x00}")), "has an array with fields"),
    ],
)
def test_other_means_are_refused(content: bytes, reason: str) -> None:
    assert refusal(content) == f"batch {reason}: only plain containers and arrays are allowed"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "no valid opcode (byte 0)"),
        (b"K\x01", "no valid opcode (byte 2)"),
        (b"\xff.", "no valid opcode"),
        (b"S'a\n.", "no valid opcode"),
        (b"S'\\q'\n.", "no valid opcode"),
        (b"X\x02\x00\x00\x00\xff\xff.", "no valid opcode"),
        (b"I1x\n.", "no valid opcode"),
        (b"I" + b"9" * 5000 + b"\n.", "no valid opcode"),
        (b"\x8a\x09" + b"\x01" * 9 + b".", "an integer of more than 64 bits"),
        (b".", "nothing on the stack"),
        (b"(.", "nothing on the stack"),
        (b"K\x01(\x86.", "nothing on the stack"),
        (b"0.", "nothing on the stack"),
        (b"t.", "no mark on the stack"),
        (b"K\x01K\x01a.", "a list was expected on the stack"),
        (b"]K\x01K\x02s.", "a dict was expected on the stack"),
        (b"}(U\x01au.", "a key without a value"),
        (b"h\x00.", "an unknown memo number"),
        (b"]p9999999\n.", "a memo number out of range"),
        (b"]p-1\n.", "a memo number out of range"),
        (b"\x80\x06].", "unknown protocol 6"),
        (b"K\x01K\x02\x93.", "a name that is not text"),
        (b"K\x01K\x02R.", "a call without a function or without arguments"),
        (b"K\x01)R.", "a call without a function or without arguments"),
        (GENUINE[:-1].rsplit(b"tbU", 1)[0] + b"tbR.", "a call without a function or without arguments"),
        (b"T\x05\x00\x00\x00abc.", "a byte string goes beyond the end"),
        (b"T\xff\xff\xff\xffabc.", "a byte string goes beyond the end"),
        (b"\x8e\xff\xff\xff\xff\xff\xff\xff\xff.", "a byte string goes beyond the end"),
        (b"B\x01", "a byte string goes beyond the end"),
        (b"c_codecs\nencode\nX\x03\x00\x00\x00\xe2\x82\xacX\x06\x00\x00\x00latin1\x86R.", "text that cannot become bytes"),
        (b"c_codecs\nencode\nX\x01\x00\x00\x00aX\x03\x00\x00\x00hex\x86R.", "text that cannot become bytes"),
        (stored_array(shape=b"K\x03\x85"), "an array of shape (3,) and type uint8 over 2 bytes"),
        (stored_array(shape=b"J\xfe\xff\xff\xff\x85"), "an array with an unknown shape"),
        (stored_array(shape=b"K\x00\x85", data=b"C\x00"), "an array with an unknown shape"),
        (stored_array(shape=b"(" + b"K\x01" * 9 + b"t"), "an array with an unknown shape"),
        (stored_array(shape=b"J\xff\xff\xff\x7f" * 3 + b"\x87"), "an array of shape (2147483647, 2147483647, 2147483647)"),
        (stored_array(data=b"]"), "an array with an unknown state"),
        (stored_array(flag=b"]"), "an array with an unknown state"),
        (stored_array(kind=b"K\x01"), "an array with an unknown state"),
        (stored_array(kind=element(b"i8", b"|")), "an unknown byte order"),
        (stored_array(kind=element(b"i8", b"=")), "an unknown byte order"),
    ],
)
def test_damage_is_named(content: bytes, reason: str) -> None:
    sentence = refusal(content)
    assert sentence.startswith("batch is damaged: ")
    assert reason in sentence
    assert sentence.endswith("; fetch it again")


def test_an_array_is_built_once() -> None:
    twice = RECONSTRUCT + b"q\x00(K\x01K\x02\x85" + element() + b"\x89C\x02abtb0h\x00(K\x01K\x02\x85" + element() + b"\x89C\x02abtb."
    assert "uses BUILD" in refusal(twice)
    once = RECONSTRUCT + b"q\x00(K\x01K\x02\x85" + element() + b"\x89C\x02abtb0h\x00."
    assert read_plain_pickle(once, "batch").tolist() == [97, 98]


def test_bytes_after_the_end_are_ignored_as_python_ignores_them() -> None:
    assert read_plain_pickle(b"K\x01.rest", "batch") == 1


def peak(content: bytes) -> int:
    """The most memory that reading takes, in bytes."""
    tracemalloc.start()
    try:
        read_plain_pickle(content, "batch")
    except InputError:
        pass
    finally:
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return most


def test_an_array_is_copied_once() -> None:
    pixels = np.zeros((1000, 3072), np.uint8)
    for content in (python2_pickle({"data": pixels}), pickle.dumps({"data": pixels}, 3), pickle.dumps({"data": pixels}, 5)):
        assert peak(content) < 1.1 * pixels.nbytes


def test_a_text_encoded_again_and_again_does_not_fill_the_memory() -> None:
    text = b"X" + struct.pack("<I", 10**6) + b"a" * 10**6
    bomb = b"]" + text + b"q\x000(" + b"c_codecs\nencode\nh\x00X\x06\x00\x00\x00latin1\x86R" * 1000 + b"e."
    assert "more bytes than the file has" in refusal(bomb)
    assert peak(bomb) < 10**7


def test_the_number_of_opcodes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_pickle, "MOST_STEPS", 1000)
    assert "more than 1000 opcodes" in refusal(b"(" + b"}" * 1000 + b"t.")
    assert "more than 1000 opcodes" in refusal(b"C\x010" * 1000 + b".")
    assert "more than 1000 opcodes" in refusal(b"T\x00\x00\x00\x000" * 1000 + b".")


def test_deep_and_shared_structures_take_no_time() -> None:
    depth = 100_000
    value = read_plain_pickle(b"]" * depth + b"a" * (depth - 1) + b".", "batch")
    for _ in range(depth - 1):
        (value,) = value
    assert value == []
    # A tuple of twice the tuple before, sixty times: its hash would take 2^60 steps.
    doubling = b")" + b"q\x00h\x00\x86" * 60
    assert "has a key of type tuple" in refusal(b"}" + doubling + b"K\x01s.")
    assert len(read_plain_pickle(doubling + b".", "batch")) == 2
    itself = read_plain_pickle(b"]q\x00h\x00a.", "batch")
    assert itself[0] is itself


def harmless(content: bytes) -> None:
    """Either a plain value or a sentence, never anything else."""
    try:
        value = read_plain_pickle(content, "batch")
    except InputError as error:
        sentence = str(error)
    else:
        sentence = ""
        assert type(value) in plain_pickle.PLAIN
    assert sentence.isprintable()


@FUZZ(max_examples=500)
@given(st.binary(max_size=200))
def test_random_bytes(content: bytes) -> None:
    harmless(content)


OPCODES = [
    *(bytes([code]) for code in b"(.01]})lde\x85\x86\x87tausRb\x88\x89N\x93\x94oQ\x81\x8f\x90\x91"),
    *(b"K\x01", b"M\x00\x01", b"J\xff\xff\xff\xff", b"I01\n", b"L5L\n"),
    *(b"C\x01a", b"U\x02u1", b"T\x01\x00\x00\x00|", b"\x96\x01" + b"\x00" * 7 + b"x"),
    *(b"X\x01\x00\x00\x00C", b"X\x06\x00\x00\x00latin1", b"\x8c\x05numpy", b"\x8c\x05dtype"),
    *(b"q\x00", b"q\x01", b"h\x00", b"h\x01"),
    *(b"cnumpy\ndtype\n", b"cnumpy\nndarray\n", b"cnumpy.core.multiarray\n_reconstruct\n", b"c_codecs\nencode\n"),
    *(b"cnumpy.core.numeric\n_frombuffer\n", RECONSTRUCT, element()),
]


@FUZZ(max_examples=1500)
@given(st.lists(st.sampled_from(OPCODES), max_size=30))
def test_random_programs(opcodes: list[bytes]) -> None:
    harmless(b"".join(opcodes) + b".")


SMALL = FIELDS | {"data": PIXELS[:, :4]}
VALID = [GENUINE, *(pickle.dumps(SMALL, protocol) for protocol in range(6))]


@FUZZ(max_examples=1500)
@given(st.sampled_from(VALID), st.data())
def test_flipped_and_missing_bytes(content: bytes, data: st.DataObject) -> None:
    damaged = bytearray(content)
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=4)):
        damaged[place] = data.draw(st.integers(0, 255))
    harmless(bytes(damaged))
    harmless(bytes(damaged[: data.draw(st.integers(0, len(content)))]))
    if content != GENUINE:
        harmless(bytes(damaged) + b".")
