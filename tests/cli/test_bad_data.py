"""Damaged and malicious data through the real command: one sentence, exit code 2, nothing run."""

import gzip
import pickle
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data.formats import Images, idx_bytes, member, tar_gz, write_cifar_binary, write_cifar_python, write_idx
from support import Highway

RNG = np.random.default_rng(0)


def mnist(root: Path) -> Path:
    """Small files in MNIST's genuine form, gzipped."""
    return write_idx(root / "mnist", Images.random(0, 40, (28, 28)), Images.random(1, 20, (28, 28)), zipped=True)


def cifar(count: int) -> Images:
    return Images.random(2, count, (3, 32, 32))


def truncated_gz(root: Path) -> list[str]:
    path = mnist(root) / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-400])
    return ["mnist"]


def corrupted_gz(root: Path) -> list[str]:
    path = mnist(root) / "t10k-images-idx3-ubyte.gz"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(content)
    return ["mnist"]


def wrong_magic(root: Path) -> list[str]:
    (mnist(root) / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(b"\x00\x00\x0b\x01" + bytes(8)))
    return ["mnist"]


def label_out_of_range(root: Path) -> list[str]:
    labels = np.arange(40, dtype=np.uint8) % 10
    labels[5] = 77
    (mnist(root) / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx_bytes(labels)))
    return ["mnist"]


class Evil:
    """Unpickling this would create a file."""

    def __init__(self, trap: Path) -> None:
        self.trap = trap

    def __reduce__(self) -> tuple[object, tuple[str]]:
        import os

        return os.system, (f"touch {self.trap}",)


def evil_pickle(root: Path) -> list[str]:
    folder = write_cifar_python(root / "cifar-10-batches-py", "cifar-10", cifar(10), cifar(10))
    (folder / "data_batch_3").write_bytes(pickle.dumps({b"data": Evil(root / "trap"), b"labels": []}))
    return ["cifar-10"]


def tar_outside(root: Path) -> list[str]:
    (root / "cifar-10-binary.tar.gz").write_bytes(tar_gz(member("../data_batch_1.bin", b"x"), member("../../trap", b"x")))
    return ["cifar-10"]


def short_batch(root: Path) -> list[str]:
    folder = write_cifar_binary(root / "cifar-100-binary", "cifar-100", cifar(10), cifar(10))
    path = folder / "train.bin"
    path.write_bytes(path.read_bytes()[:-1])
    return ["cifar-100"]


def pictures(root: Path, *sizes: int, classes: tuple[str, ...] = ("cats", "dogs")) -> Path:
    for name in classes:
        (root / "pictures" / name).mkdir(parents=True)
        for number, size in enumerate(sizes or (6,) * 6):
            Image.fromarray(RNG.integers(0, 256, (size, size), dtype=np.uint8)).save(root / "pictures" / name / f"{number}.png")
    return root / "pictures"


def undecodable_image(root: Path) -> list[str]:
    (pictures(root) / "cats" / "0.png").write_bytes(b"\x89PNG\r\n\x1a\nnonsense")
    return ["./pictures"]


def empty_class(root: Path) -> list[str]:
    (pictures(root) / "birds").mkdir()
    return ["./pictures"]


def one_class(root: Path) -> list[str]:
    pictures(root, classes=("cats",))
    return ["./pictures"]


def ragged_row(root: Path) -> list[str]:
    (root / "set.csv").write_text("a,b,price\n1,2,3\n4,5\n")
    return ["set.csv", "--target", "price"]


def nan_targets(root: Path) -> list[str]:
    np.savez(root / "set.npz", x=np.zeros((20, 3), np.float32), y=np.array([0.5] * 19 + [np.nan], np.float32))
    return ["set.npz"]


def gap_in_target(root: Path) -> list[str]:
    (root / "set.csv").write_text("a,price\n1,2.5\n2,\n3,4.5\n")
    return ["set.csv", "--target", "price"]


def missing_target_column(root: Path) -> list[str]:
    (root / "set.csv").write_text("a,b,price\n1,2,3\n")
    return ["set.csv", "--target", "weight"]


CASES = {
    truncated_gz: "train-images-idx3-ubyte.gz",
    corrupted_gz: "t10k-images-idx3-ubyte.gz",
    wrong_magic: "train-labels-idx1-ubyte.gz",
    label_out_of_range: "77",
    evil_pickle: "system",
    tar_outside: "../data_batch_1.bin",
    short_batch: "train.bin",
    undecodable_image: "--skip-bad",
    empty_class: "birds",
    one_class: "cats",
    ragged_row: "row 2",
    nan_targets: "set.npz",
    gap_in_target: "row 2",
    missing_target_column: "a, b, price",
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_one_sentence_and_exit_code_two(case: object, highway: Highway, tmp_path: Path) -> None:
    arguments = case(tmp_path)
    result = highway("data", "describe", *arguments, "--data-root", tmp_path)
    assert result.returncode == 2, result.stderr
    assert CASES[case] in result.stderr
    assert result.stderr.startswith("highway: ")
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""
    assert not (tmp_path / "trap").exists()
    assert not (tmp_path.parent / "trap").exists()


def test_pictures_of_different_sizes_are_resized_and_it_is_said(highway: Highway, tmp_path: Path) -> None:
    pictures(tmp_path, 6, 7, 6, 6, 6, 6)
    flags = ["--network", "fc-highway", "--epochs", 1, "--batch-size", 4, "--out", "run"]
    result = highway("train", "--data", "./pictures", *flags)
    assert result.returncode == 0, result.stderr
    assert "images of different sizes (median 6×6) are resized to 32×32; choose another size with --resize" in result.stderr
    assert "resize = [\n    32,\n    32,\n]" in (tmp_path / "run" / "spec.toml").read_text()


def test_skip_bad_counts_and_goes_on(highway: Highway, tmp_path: Path) -> None:
    undecodable_image(tmp_path)
    flags = ["--depth", 2, "--epochs", 1, "--batch-size", 4, "--out", "run"]
    result = highway("train", "--data", "./pictures", "--skip-bad", *flags)
    assert result.returncode == 0, result.stderr
    assert "a folder of 11 grey images of 6×6 pixels" in result.stderr
    assert "left out, because they cannot be read: 1" in result.stderr


def test_the_genuine_layouts_are_found_below_the_data_root(highway: Highway, tmp_path: Path) -> None:
    mnist(tmp_path)
    result = highway("data", "describe", "mnist", "--data-root", tmp_path)
    assert "40 samples to train on, 0 for validation, 20 for testing" in result.stdout
    write_cifar_python(tmp_path / "cifar-10-batches-py", "cifar-10", cifar(20), cifar(10))
    result = highway("data", "describe", "cifar-10", HIGHWAYNET_DATA=str(tmp_path))
    assert "20 samples to train on" in result.stdout


def test_flags_for_other_data_are_refused(highway: Highway, tmp_path: Path) -> None:
    (tmp_path / "set.csv").write_text("a,y\n" + "".join(f"{row},{'no' if row % 2 else 'yes'}\n" for row in range(60)))
    for name in ("cat", "dog"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(6):
            Image.new("L", (8, 8), number).save(tmp_path / "photos" / name / f"{number}.png")
    table = ("--data", "set.csv", "--target", "y")
    for arguments, sentence in (
        ((*table, "--resize", 32), "data.resize = [32, 32]: this is for folders of images, and "),
        ((*table, "--colour", "grey"), "data.colour = grey: this is for folders of images, and "),
        ((*table, "--skip-bad"), "data.skip_bad = true: this is for folders of images, and "),
        (("--data", "./photos", "--target", "foo"), "data.target = foo: this is for tables, and "),
    ):
        refused = highway("train", *arguments, "--epochs", 1, "--out", "run")
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), refused.stderr
        assert sentence in refused.stderr
        assert refused.stderr.endswith("is none; leave it out\n")
    assert not (tmp_path / "run").exists()
