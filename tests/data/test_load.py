"""From a spec to a divided data set, for every kind of source."""

import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from data.formats import Images, write_cifar_binary, write_idx
from highwaynet import DataSpec
from highwaynet.base.errors import InputError
from highwaynet.data.load import load_dataset
from support import Highway

RNG = np.random.default_rng(1)


def test_a_tables_encoding_comes_from_the_training_rows_alone(tmp_path: Path) -> None:
    path = tmp_path / "set.csv"
    rows = [f"{RNG.normal():.4f},{RNG.choice(['a', 'b'])},{RNG.normal():.4f}" for _ in range(200)]

    def write() -> DataSpec:
        path.write_text("\n".join(["size,kind,price", *rows]) + "\n")
        return DataSpec(name=str(path), target="price")

    first = load_dataset(write())
    record = first.preparation.record
    inside = set(first.train.rows.tolist())
    for row in set(range(200)) - inside:  # absurd numbers, unknown kinds, gaps
        rows[row] = ["1e6,zebra,9e5", ",,-9e5"][row % 2]
    again = load_dataset(write()).preparation.record
    assert record.encoder is not None
    assert again.encoder == record.encoder
    assert (again.target_mean, again.target_std) == (record.target_mean, record.target_std)


def test_the_split_seed_moves_test_and_validation_of_own_data_and_the_shares_are_kept(tmp_path: Path) -> None:
    np.savez(tmp_path / "set.npz", x=RNG.normal(size=(200, 3)), y=np.arange(200) % 4)
    path = str(tmp_path / "set.npz")
    first, again, other = (load_dataset(DataSpec(name=path, split_seed=seed, test=0.3, validation=0.2)) for seed in (0, 0, 1))
    assert (len(first.train), len(first.validation), len(first.test)) == (112, 28, 60)
    assert torch.equal(first.test.rows, again.test.rows)
    assert not torch.equal(first.test.rows, other.test.rows)
    everything = torch.cat([first.train.rows, first.validation.rows, first.test.rows])
    assert torch.equal(everything.sort().values, torch.arange(200))
    record = first.preparation.record
    assert (record.train, record.validation, record.test) == (112, 28, 60)


def test_mapped_arrays_stay_mapped_and_official_test_parts_stay_whole(tmp_path: Path) -> None:
    pixels = RNG.integers(0, 256, (50, 1, 4, 4), dtype=np.uint8)
    for name, array in (("x_train", pixels), ("y_train", np.arange(50) % 2), ("x_test", pixels[:7]), ("y_test", np.arange(7) % 2)):
        np.save(tmp_path / f"{name}.npy", array)
    data = load_dataset(DataSpec(name=str(tmp_path), validation=0.2))
    assert (len(data.train), len(data.validation), len(data.test)) == (40, 10, 7)
    pixels[:] = 0  # what was in memory does not matter: the file is read when a batch is made
    on_disk = np.load(tmp_path / "x_train.npy", mmap_mode="r+")
    on_disk[int(data.train.rows[0])] = 255
    on_disk.flush()
    assert torch.equal(next(iter(data.train.batches(1)))[0], torch.ones(1, 1, 4, 4))


def test_mnist_and_cifar_through_the_spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIGHWAYNET_DATA", str(tmp_path))
    digits, photos = Images.random(0, 30, (28, 28)), Images.random(1, 30, (3, 32, 32), classes=100)
    write_idx(tmp_path / "mnist", digits, digits)
    write_cifar_binary(tmp_path / "cifar-100-binary", "cifar-100", photos, photos)
    mnist = load_dataset(DataSpec(name="mnist"))
    assert (len(mnist.train), mnist.validation, len(mnist.test)) == (30, None, 30)
    inputs, targets = next(iter(mnist.test.batches(30)))
    np.testing.assert_allclose(inputs[:, 0].numpy(), digits.pixels / 255, rtol=1e-6)
    assert targets.tolist() == digits.fine.tolist()
    fine, coarse = (load_dataset(DataSpec(name="cifar-100", labels=labels)) for labels in ("fine", "coarse"))
    assert fine.train.targets.tolist() == photos.fine.tolist()
    assert coarse.train.targets.tolist() == photos.coarse.tolist()
    assert (fine.preparation.record.outputs, coarse.preparation.record.outputs) == (100, 20)


def test_resize_and_colour_through_the_spec(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for number in range(8):
            Image.fromarray(np.full((6 + number, 9, 3), 20 * number, np.uint8)).save(tmp_path / name / f"{number}.png")
    with pytest.raises(InputError, match="different sizes"):
        load_dataset(DataSpec(name=f"{tmp_path}/"))
    assert load_dataset(DataSpec(name=f"{tmp_path}/", resize=(5, 4))).preparation.record.input_shape == (3, 5, 4)
    assert load_dataset(DataSpec(name=f"{tmp_path}/", resize=(5, 4), colour="grey")).preparation.record.input_shape == (1, 5, 4)


def test_one_number_is_height_and_width(highway: Highway, tmp_path: Path) -> None:
    assert DataSpec(name="a/", resize=32).resize == (32, 32)  # type: ignore[arg-type]
    for name in ("a", "b"):
        (tmp_path / "pictures" / name).mkdir(parents=True)
        for number in range(8):
            Image.fromarray(np.full((6 + number, 9, 3), 20 * number, np.uint8)).save(tmp_path / "pictures" / name / f"{number}.png")
    (tmp_path / "run.toml").write_text('[data]\nname = "pictures/"\nresize = 5\n[network]\ndepth = 2\nwidth = 4\n[training]\nepochs = 1\n')
    few = ["--data", "pictures/", "--depth", 2, "--width", 4, "--epochs", 1]
    specs = []
    for number, arguments in enumerate(([*few, "--resize", 5], [*few, "--resize", "5x5"], ["run.toml"])):
        result = highway("train", *arguments, "--out", f"run{number}")
        assert result.returncode == 0, result.stderr
        specs.append((tmp_path / f"run{number}" / "spec.toml").read_text())
    assert tomllib.loads(specs[0])["data"]["resize"] == [5, 5]
    assert specs[0] == specs[1] == specs[2]


def test_large_numbers_to_predict_keep_their_digits(tmp_path: Path) -> None:
    y = 1.7e9 + 0.25 * np.arange(100)
    np.savez(tmp_path / "set.npz", x=RNG.normal(size=(100, 2)), y=y)
    data = load_dataset(DataSpec(name=str(tmp_path / "set.npz")))
    record = data.preparation.record
    rows = data.train.rows.numpy()
    np.testing.assert_allclose(data.train.targets[data.train.rows].numpy(), (y[rows] - y[rows].mean()) / y[rows].std(), atol=1e-5)
    assert record.target_std == pytest.approx(y[rows].std())


def test_a_constant_target_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "set.npz", x=RNG.normal(size=(100, 2)), y=np.full(100, 2.5))
    with pytest.raises(InputError, match=r"is 2\.5 in all training samples"):
        load_dataset(DataSpec(name=str(tmp_path / "set.npz")))
