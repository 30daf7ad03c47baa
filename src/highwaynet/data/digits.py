"""scikit-learn's `digits`: 1797 handwritten digits, the default data set."""

import gzip
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np

from highwaynet.base.errors import HighwayError
from highwaynet.base.files import read_bytes
from highwaynet.data.samples import Samples

SAMPLES = 1797


def read_digits() -> Samples:
    """Read inputs (1797, 1, 8, 8) uint8 with values 0…16, and targets (1797,) int64.

    The file is read from scikit-learn's folder without importing scikit-learn, which would load a second OpenMP runtime
    into the process, besides torch's.
    """
    try:
        path = Path(str(distribution("scikit-learn").locate_file("sklearn/datasets/data/digits.csv.gz")))
    except PackageNotFoundError as error:
        raise HighwayError("the data set digits comes with scikit-learn: install it with `pip install scikit-learn`") from error
    try:
        lines = gzip.decompress(read_bytes(path)).decode("ascii").splitlines()
        table = np.loadtxt(lines, delimiter=",", dtype=np.float64)
    except (OSError, EOFError, ValueError) as error:
        raise HighwayError(f"{path} is damaged ({error}): reinstall scikit-learn") from error
    if table.shape != (SAMPLES, 65):
        raise HighwayError(f"{path} has shape {table.shape} instead of ({SAMPLES}, 65): reinstall scikit-learn")
    return Samples(table[:, :64].astype(np.uint8).reshape(SAMPLES, 1, 8, 8), table[:, 64].astype(np.int64))
