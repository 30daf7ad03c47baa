"""The real data sets, where they are at hand: every layout gives the same pixels and labels, known by their SHA-256.

HIGHWAYNET_DATA names the folder. What is there is read as it is; the other layouts are written from its pixels and read back.
"""

import os
import pickle
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data.formats import Images, pack, python2_pickle, write_cifar_binary, write_cifar_python, write_idx
from highwaynet.base.files import sha256
from highwaynet.data.cifar import find_cifar, read_cifar
from highwaynet.data.idx import find_idx_folder, read_idx_set
from highwaynet.data.samples import Samples

REASON = "set HIGHWAYNET_DATA to a folder with the real mnist, cifar-10 and cifar-100 to check them"

# SHA-256 of the training pixels, training labels, test pixels and test labels; each value is one byte.
DIGESTS = {
    "mnist": (
        "741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757",
        "1feba77c54802fa5339a11837ea4b2866434b83314ec45192930f1df69120c13",
        "6d87418db22cc8025d05968bec9bd5c3932904b23485740db143a061a2c9d161",
        "ddeff807876a9661a1110d45c266c86239a3a1b7d37da0c3716a7a683c852ff5",
    ),
    "cifar-10 fine": (
        "9d5c2eddadb0deff02c14c350c0385aab7b1d5ff1edfeb4997c8dc8644960111",
        "2b7cd2f24487317614016b72ffd53071c3062f592f0eb300c18a770d41ae1253",
        "177777c33ba79825320efa646ad04a94bdc3c80e4ebe3bd21724f8cdfd4b9d56",
        "cec8a24a1e92aa2ecaa0bbd3dbfa86bf6cd8759fbd209a832824c8cf0afca9d5",
    ),
    "cifar-100 fine": (
        "de64658905c6b161606e3649ddafce7cf86c7634a0cf9116d518e64ef46a33c5",
        "9f11b9f97aad759ba6df0a33e3218b01d8deaf4ed3a14aa1185d69b9ad7ebcb3",
        "83c56492b2c11211ad1bb2dbd4f2eef4170a0441e41a41f3039c3144b1f5a511",
        "4dad7d09c7c97d33f6cb928d705cf4196221316fd6e31bdd978a08ed9103ee0b",
    ),
    "cifar-100 coarse": (
        "de64658905c6b161606e3649ddafce7cf86c7634a0cf9116d518e64ef46a33c5",
        "1804078d4e89b6b90bd5da6ffead1404596f6eecba15ceb8d95b6a09dfbba4c0",
        "83c56492b2c11211ad1bb2dbd4f2eef4170a0441e41a41f3039c3144b1f5a511",
        "48df17fb3bf299f43dd7e131db11ca0ea8b07d750be8b6dcf7ad6ff1b4cc721d",
    ),
}
MNIST_COUNTS = (
    [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
    [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009],
)
LABELS: list[tuple[Any, Any]] = [("cifar-10", "fine"), ("cifar-100", "fine"), ("cifar-100", "coarse")]


def digests(*parts: Samples) -> tuple[str, ...]:
    return tuple(sha256(array.astype(np.uint8).tobytes()) for part in parts for array in (part.inputs, part.targets))


def there(find: Callable[[Path, Any], Path | None], name: str) -> Path:
    """Where a real set lies; without it the test is skipped."""
    root = os.environ.get("HIGHWAYNET_DATA")
    path = find(Path(root), name) if root else None
    if path is None:
        pytest.skip(REASON)
    return path


def real_cifar(name: Any) -> tuple[Images, Images]:
    path = there(find_cifar, name)
    fine = read_cifar(path, name, "fine")[:2]
    coarse = read_cifar(path, name, "coarse")[:2] if name == "cifar-100" else fine
    train, test = (Images(one.inputs, one.targets, other.targets) for one, other in zip(fine, coarse, strict=True))
    return train, test


@pytest.fixture
def workplace(tmp_path: Path) -> Iterator[Path]:
    """A folder that is gone afterwards: the sets are large."""
    yield tmp_path
    shutil.rmtree(tmp_path)


def test_mnist_is_what_it_should_be() -> None:
    train, test = read_idx_set(there(find_idx_folder, "mnist"))
    assert (train.inputs.shape, test.inputs.shape) == ((60000, 1, 28, 28), (10000, 1, 28, 28))
    assert tuple(np.bincount(part.targets).tolist() for part in (train, test)) == MNIST_COUNTS
    assert digests(train, test) == DIGESTS["mnist"]


@pytest.mark.parametrize(("place", "zipped"), [("mnist", False), ("MNIST/raw", False), ("MNIST/raw", True), (".", True)])
def test_mnist_in_other_layouts(workplace: Path, place: str, zipped: bool) -> None:
    train, test = (Images(part.inputs[:, 0], part.targets, part.targets) for part in read_idx_set(there(find_idx_folder, "mnist")))
    write_idx(workplace / place, train, test, zipped=zipped)
    folder = find_idx_folder(workplace, "mnist")
    assert folder == workplace / place
    assert digests(*read_idx_set(folder)) == DIGESTS["mnist"]


@pytest.mark.parametrize(("name", "labels"), LABELS)
def test_cifar_is_what_it_should_be(name: Any, labels: Any) -> None:
    train, test, names = read_cifar(there(find_cifar, name), name, labels)
    assert (train.inputs.shape, test.inputs.shape) == ((50000, 3, 32, 32), (10000, 3, 32, 32))
    for part in (train, test):
        assert np.bincount(part.targets).tolist() == [len(part) // len(names)] * len(names)  # every class alike
    expected = {10: ("airplane", "truck"), 100: ("apple", "worm"), 20: ("aquatic_mammals", "vehicles_2")}
    assert (names[0], names[-1]) == expected[len(names)]
    assert digests(train, test) == DIGESTS[f"{name} {labels}"]


@pytest.mark.parametrize("name", ["cifar-10", "cifar-100"])
@pytest.mark.parametrize("form", ["binary", "python of Python 2", "python of today"])
def test_cifar_in_other_layouts(workplace: Path, name: Any, form: str) -> None:
    train, test = real_cifar(name)
    if form == "binary":
        folder = write_cifar_binary(workplace / ("cifar-10-batches-bin" if name == "cifar-10" else "cifar-100-binary"), name, train, test)
    else:
        dump = python2_pickle if "Python 2" in form else partial(pickle.dumps, protocol=5)
        place = workplace / ("cifar-10-batches-py" if name == "cifar-10" else "cifar-100-python")
        folder = write_cifar_python(place, name, train, test, dump)
    assert find_cifar(workplace, name) == folder
    archive = pack(workplace / "packed" / f"{name}-{form[:6]}.tar.gz", folder)
    assert find_cifar(workplace / "packed", name) == archive
    for path in (folder, archive):
        for labels in ("fine", "coarse") if name == "cifar-100" else ("fine",):
            assert digests(*read_cifar(path, name, labels)[:2]) == DIGESTS[f"{name} {labels}"]
