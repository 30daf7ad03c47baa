"""Defaults that suit the user's own data."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from highwaynet import HighwayClassifier, InputError, RunSpec
from highwaynet.data.glance import Glance, glance
from highwaynet.data.spec import DataSpec
from highwaynet.networks.presets import PRESETS
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.suited import suited_values
from support import Highway


def images(size: int = 32, samples: int = 1500, **more: Any) -> Glance:
    return Glance("images", samples, (size, size), **{"from_files": True, "classes": ("cat", "dog")} | more)


def filled(seen: Glance, **given: dict[str, Any]) -> dict[str, Any]:
    return suited_values(given, seen)[0]


@pytest.mark.parametrize(("size", "network"), [(16, "highway-a"), (32, "highway-a"), (48, "highway-a"), (64, "highway-64")])
def test_images_get_a_convolutional_network_for_their_size(size: int, network: str) -> None:
    chosen = filled(images(size))
    assert chosen["network"]["name"] == network
    assert "resize" not in chosen.get("data", {})
    assert network in PRESETS


@pytest.mark.parametrize(
    ("seen", "given", "resized", "network"),
    [
        (images(224), {}, (64, 64), "highway-64"),
        (images(50, alike=False), {}, (32, 32), "highway-a"),
        (images(300, alike=False), {}, (64, 64), "highway-64"),
        (images(224), {"resize": (224, 224)}, (224, 224), "highway-128"),
    ],
)
def test_large_images_and_images_of_different_sizes_are_resized(
    seen: Glance, given: dict[str, Any], resized: tuple[int, int], network: str
) -> None:
    chosen, notes = suited_values({"data": given}, seen)
    assert (chosen["data"]["resize"], chosen["network"]["name"]) == (resized, network)
    assert any("resized" in note and "--resize" in note for note in notes) == (not given)


def test_arrays_are_not_resized() -> None:
    assert "resize" not in filled(images(224, from_files=False)).get("data", {})


def test_epochs_follow_from_the_number_of_images() -> None:
    epochs = {samples: filled(images(samples=samples))["training"]["epochs"] for samples in (100, 1500, 5000, 50_000)}
    assert epochs == {100: 100, 1500: 67, 5000: 20, 50_000: 15}
    assert filled(images(), training={"epochs": 4})["training"]["epochs"] == 4


@pytest.mark.parametrize(
    ("seen", "mirror"),
    [
        (images(), True),
        (images(grey=True), False),
        (images(classes=("left", "straight", "right")), False),
        (images(classes=tuple("abc")), False),
    ],
)
def test_mirroring_only_where_classes_allow_it(seen: Glance, mirror: bool) -> None:
    chosen, notes = suited_values({}, seen)
    assert (chosen["training"]["mirror"], chosen["training"]["crop"]) == (mirror, 4)
    assert any("training.mirror=" in note for note in notes)
    assert "mirror" not in filled(seen, training={"crop": 0})["training"], "the user's augmentation is used as it is"


def test_few_images_get_fewer_layers() -> None:
    assert [filled(images(32, samples=samples))["network"]["name"] for samples in (100, 399, 400)] == [
        *("highway-a-8", "highway-a-8"),
        "highway-a",
    ]
    assert len(filled(images(32, samples=100))["network"]["dropout"]) == 4
    assert filled(images(64, samples=100))["network"]["name"] == "highway-64", "larger images have no such network"
    _, notes = suited_values({}, images(32, samples=100))
    assert (
        "network highway-a-8: a convolutional highway network for images of about 32×32, with 8 layers because there are few; "
        "choose another with --network"
    ) in notes


def test_few_images_get_dropout_and_label_smoothing() -> None:
    few = filled(images())
    assert few["network"]["dropout"] == (0.0, 0.1, 0.1, 0.3)
    assert few["training"]["label_smoothing"] == 0.1
    assert len(filled(images(64))["network"]["dropout"]) == 5, "one for the input, and one for each stage"
    for many in (filled(images(samples=20_000)), filled(images(classes=())), filled(images(), network={"name": "highway-a"})):
        assert "dropout" not in many["network"]
        assert "label_smoothing" not in many["training"]


def test_dense_settings_keep_the_dense_network() -> None:
    assert filled(images(), network={"depth": 7})["network"] == {"depth": 7}
    assert filled(images(), network={"name": "fc-plain"})["network"] == {"name": "fc-plain"}


def test_tables_get_the_recipe_table_and_a_budget_for_their_rows() -> None:
    chosen = {rows: filled(Glance("table", rows)) for rows in (600, 5000, 100_000)}
    assert [one["training"]["batch_size"] for one in chosen.values()] == [64, 64, 256]
    assert [one["training"]["epochs"] for one in chosen.values()] == [40, 36, 20]
    assert [one["training"]["weight_average"] for one in chosen.values()] == [0.9286, 0.99, 0.99], "over a twentieth of the steps"
    for one in chosen.values():
        assert one["network"] == {"depth": 4, "width": 64, "activation": "relu"}
        assert (one["training"]["recipe"], one["training"]["patience"]) == ("table", 10)
        assert one["data"]["preprocessing"] == ("piecewise",)
    assert [one["data"]["bins"] for one in chosen.values()] == [8, 36, 48]
    assert filled(Glance("features", 600))["data"] == {"preprocessing": ("standardise", "piecewise"), "bins": 8}
    spec = RunSpec.for_data((np.zeros((600, 3)), np.arange(600) % 2))
    assert (spec.training.optimiser, spec.training.schedule, spec.network.depth) == ("adamw", "one-cycle", 4)


def test_the_users_settings_for_tables_win() -> None:
    assert "patience" not in filled(Glance("table", 600), data={"validation": 0.0})["training"], "nothing decides when to stop"
    mine = filled(Glance("table", 600), training={"patience": 3, "batch_size": 8}, network={"depth": 7})
    assert (mine["training"]["patience"], mine["training"]["batch_size"], mine["network"]["depth"]) == (3, 8, 7)
    assert filled(Glance("table", 600), network={"name": "fc-plain"})["network"]["name"] == "fc-plain"
    assert "batch_size" not in filled(Glance("table", 600), training={"recipe": "paper"})["training"]
    assert filled(Glance("table", 600), network={"members": 4})["network"]["members"] == 4


def test_small_tables_are_trained_in_full_batches_without_validation() -> None:
    small = filled(Glance("features", 99))
    assert small["data"] == {"validation": 0.0, "preprocessing": ("standardise",)}
    assert small["training"] == {
        "recipe": "table",
        "batch_size": 100,
        "epochs": 200,
        "weight_average": 0.9,
        "precision": "float64",
        "patience": None,
    }
    spec = RunSpec.for_data((np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 2))
    assert (spec.data.validation, spec.training.precision) == (0.0, "float64")


def write_images(root: Path, *sizes: int, grey: bool = True) -> Path:
    for name in ("cats", "dogs"):
        (root / name).mkdir(parents=True)
        for number, size in enumerate(sizes):
            shape = (size, size) if grey else (size, size, 3)
            Image.fromarray(np.random.default_rng(number).integers(0, 256, shape, dtype=np.uint8)).save(root / name / f"{number}.png")
    return root


def test_a_first_look_at_files(tmp_path: Path) -> None:
    seen = glance(DataSpec(name=str(write_images(tmp_path / "grey", 20, 20, 20))))
    assert seen == Glance("images", 6, (20, 20), True, True, True, ("cats", "dogs"))
    mixed = glance(DataSpec(name=str(write_images(tmp_path / "mixed", 20, 30, 40, grey=False))))
    assert mixed is not None
    assert (mixed.size, mixed.alike, mixed.grey) == ((30, 30), False, False)
    (tmp_path / "t.csv").write_text("a,b\n" + "1,2\n" * 7)
    assert glance(DataSpec(name=str(tmp_path / "t.csv"))) == Glance("table", 7)
    np.savez(tmp_path / "a.npz", x=np.zeros((9, 3, 8, 8), np.float32), y=np.arange(9) % 3)
    assert glance(DataSpec(name=str(tmp_path / "a.npz"))) == Glance("images", 9, (8, 8), classes=("0", "1", "2"))
    assert glance(DataSpec(name=str(tmp_path / "nothing.csv"))) is None


def test_from_python(tmp_path: Path) -> None:
    spec = RunSpec.for_data(write_images(tmp_path / "pictures", 16, 16, 16), training={"epochs": 3})
    assert (spec.network.name, spec.training.epochs, spec.training.crop, spec.training.patience) == ("highway-a-8", 3, 2, None)
    rows = np.random.default_rng(0).normal(size=(300, 4)), np.arange(300) % 2
    spec = RunSpec.for_data(rows)
    assert (spec.data.name, spec.network.depth, spec.training.patience) == ("memory", 4, 10)
    with pytest.raises(InputError, match=r"training\.epochs"):
        RunSpec.for_data(rows, training={"epochs": -1})


def test_the_command_says_what_it_chose_and_the_run_repeats(tmp_path: Path, highway: Highway) -> None:
    write_images(tmp_path / "pictures", *[12] * 12, grey=False)
    done = highway("train", "--data", "./pictures", "--epochs", 1, "--out", "run")
    assert done.returncode == 0, done.stderr
    for sentence in (
        "network highway-a-8: a convolutional highway network for images of about 12×12, with 8 layers because there are few; choose",
        "augmentation: shifts of up to 1 pixel and mirroring; if a mirrored image is wrong for your classes, --set training.mirror=false",
    ):
        assert sentence in done.stderr
    again = highway("train", "run", "--out", "again")
    assert again.returncode == 0, again.stderr
    assert "choose another" not in again.stderr, "everything is in spec.toml"
    assert (tmp_path / "again" / "history.jsonl").read_text() == (tmp_path / "run" / "history.jsonl").read_text()


def test_depth_auto(tmp_path: Path, highway: Highway) -> None:
    done = highway("train", "--depth", "auto", "--width", 10, "--epochs", 2, "--threads", 1, "--out", "run")
    assert done.returncode == 0, done.stderr
    tried = [line for line in done.stderr.splitlines() if line.startswith("depth ")]
    assert tried[0].startswith("depth 2: validation loss")
    chosen = int(tried[-1].split(":")[1].split()[0])
    assert f"depth = {chosen}" in (tmp_path / "run" / "spec.toml").read_text()
    for flags, sentence in {
        ("--network", "highway-a"): "network.depth = 'auto': highway-a has a fixed depth; omit it, or choose fc-highway",
        ("--validation", 0): "network.depth = 'auto': validation data decide, and there are none",
    }.items():
        wrong = highway("train", "--depth", "auto", *flags, "--out", "wrong")
        assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
        assert sentence in wrong.stderr
        assert not (tmp_path / "wrong").exists()


@pytest.mark.parametrize("name", ["epochs", "batch_size"])
@pytest.mark.parametrize("rows", [60, 300])
def test_texts_for_numbers_get_the_usual_sentence(name: str, rows: int) -> None:
    data = np.random.default_rng(0).normal(size=(rows, 4)), np.arange(rows) % 2
    with pytest.raises(InputError, match=rf"^training\.{name} = 'three': should be a valid integer"):
        RunSpec.for_data(data, training={name: "three"})
    if rows >= 100:  # below, an estimator uses all rows in each step, whatever its batch_size
        with pytest.raises(InputError, match=rf"{name} = 'three'"):
            HighwayClassifier(**{name: "three"}).fit(*data)


def test_sentences_about_tables_are_true(tmp_path: Path, highway: Highway) -> None:
    numbers = np.random.default_rng(0).normal(size=200)
    (tmp_path / "data.csv").write_text("a,y\n" + "".join(f"{number},{number > 0}\n" for number in numbers))
    wrong = highway("train", "--data", "data.csv", "--target", "y", "--epochs", "three", "--out", "wrong")
    assert (wrong.returncode, wrong.stderr.splitlines()) == (2, ["highway: training.epochs = 'three': should be a valid integer"])
    found = highway("train", "--data", "data.csv", "--target", "y", "--epochs", 1, "--depth", "auto", "--threads", 1, "--out", "run")
    assert found.returncode == 0
    depth = RunDirectory(tmp_path / "run").read_spec().network.depth
    assert f"recipe table: fc-highway with {depth} layers of 64 units" in found.stderr
    assert f"fc-highway, {depth} layers" in found.stderr
    (tmp_path / "small.csv").write_text("a,y\n" + "1,x\n2,z\n" * 3)
    small = highway("train", "--data", "small.csv", "--target", "y", "--epochs", 1, "--threads", 1, "--out", "small")
    assert "all training rows in each step" in small.stderr, "some of the six are for testing"
