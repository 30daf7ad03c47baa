"""Small files that unpack to much: limits count what is really needed, and memory is not taken before it is known to be useful."""

import gzip
import io
import itertools
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from highwaynet.data.glance import Glance, glance
from highwaynet.data.spec import DataSpec

LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({megabytes} * 2**20,) * 2)
from pathlib import Path
from highwaynet.base.errors import InputError
from highwaynet.data.array_files import read_arrays
try:
    read_arrays(Path(sys.argv[1]))
except InputError as error:
    print(error)
"""


def refusal(path: Path, megabytes: int) -> str:
    """What the reader of arrays says, with limited memory."""
    code = LIMITED.format(megabytes=megabytes)
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def zeros(path: Path, **shapes: tuple[int, ...]) -> None:
    """An .npz file with arrays of zeros (uint8), written without making them."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, shape in shapes.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                np.lib.format.write_array_header_1_0(stream, {"descr": "|u1", "fortran_order": False, "shape": shape})
                left = int(np.prod(shape))
                while left:
                    stream.write(bytes(min(left, 2**22)))
                    left -= min(left, 2**22)


def test_millions_of_equal_labels_are_refused_in_little_memory(tmp_path: Path) -> None:
    zeros(tmp_path / "bomb.npz", x=(50_000_000, 1), y=(50_000_000,))
    assert (tmp_path / "bomb.npz").stat().st_size < 200_000
    assert "has only the class 0" in refusal(tmp_path / "bomb.npz", megabytes=700)  # 100 MB are data; sorting took 1.5 GB


def test_numbers_of_samples_are_compared_before_they_are_read(tmp_path: Path) -> None:
    zeros(tmp_path / "bomb.npz", x=(300_000_000, 1), y=(2,))
    assert "the numbers must be equal" in refusal(tmp_path / "bomb.npz", megabytes=500)


@pytest.mark.parametrize("labels", [np.arange(20_000), np.array([str(number) for number in range(20_000)])])
def test_too_many_classes_are_noticed_early(labels: np.ndarray, tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "many.npz", x=np.zeros((20_000, 1), np.uint8), y=labels)
    assert "more than 10,000 different values" in refusal(tmp_path / "many.npz", megabytes=900)


def test_rows_are_not_counted_beyond_what_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "data.csv.gz"
    path.write_bytes(gzip.compress(b"a,y\n" + b"1,x\n" * 1000))
    spec, endless = DataSpec(name=str(path)), itertools.cycle([b"1,x\n" * 2**18])
    assert glance(spec) == Glance("table", 1000)
    taken: list[int] = []

    class Endless(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            taken.append(size or 0)
            return next(endless)

    monkeypatch.setattr("highwaynet.data.glance.gzip.open", lambda *_: Endless())
    assert glance(spec) is None, "reading the table then says that it is too large"
    assert sum(taken) <= 2**30 + 2**20
