"""Train on one's own data, then use the network on new files in a new process: the same numbers as in training."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import highwaynet
from highwaynet import DataSpec
from highwaynet.base.errors import InputError
from highwaynet.data.load import load_dataset
from highwaynet.runs.directory import RunDirectory
from support import Highway

RNG = np.random.default_rng(3)
QUICK = ("--depth", 4, "--width", 16, "--epochs", 12, "--batch-size", 16, "--threads", 1)


def image_folder(root: Path) -> Path:
    """Bright and dark pictures, which a small network can tell apart."""
    for name, level in (("dark", 60), ("bright", 190)):
        (root / name).mkdir(parents=True)
        for number in range(40):
            pixels = np.clip(RNG.normal(level, 30, (10, 8)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(root / name / f"{number:02}.png")
    return root


def table(path: Path, *, regression: bool) -> Path:
    """Numbers, categories, and gaps in both."""
    rows = []
    for number in range(240):
        size, colour = float(RNG.normal(10, 3)), RNG.choice(["red", "green", "blue"])
        price = 3 * size + {"red": 5, "green": 0, "blue": -5}[colour] + float(RNG.normal(0, 0.5))
        answer = f"{price:.3f}" if regression else ("dear" if price > 30 else "cheap")
        rows.append(["" if number % 17 == 5 else f"{size:.3f}", "" if number % 23 == 7 else colour, answer])
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([["size", "colour", "price"], *rows])
    return path


def arrays(path: Path) -> Path:
    x = RNG.normal(5, 2, (300, 6)).astype(np.float32)
    np.savez(path, x=x, y=np.where(x[:, 0] + x[:, 1] > 10, "high", "low"))
    return path


def predictions(highway: Highway, *arguments: object, fresh: bool = False) -> list[dict[str, object]]:
    result = highway("predict", *arguments, "--json", fresh=fresh)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)["predictions"]


def test_a_folder_of_images(highway: Highway, tmp_path: Path) -> None:
    folder = image_folder(tmp_path / "pictures")
    result = highway("train", "--data", "pictures/", *QUICK, "--out", "run")
    assert result.returncode == 0, result.stderr
    assert "a folder of 80 grey images of 10×8 pixels; 2 classes (bright, dark)" in result.stderr
    assert "58 to train on, 6 for validation, 16 for testing" in result.stderr
    run = RunDirectory.open(tmp_path / "run")
    data = load_dataset(run.read_spec().data, run.load_preparation())
    model = highwaynet.load(tmp_path / "run")
    test = json.loads(highway("evaluate", "run", "--json").stdout)
    assert test["accuracy"] > 0.9
    # New process, new files: what predict says of each picture is what the model in training says of its pixels.
    answers = predictions(highway, "run", folder, fresh=True)
    assert [answer["input"] for answer in answers] == sorted(str(path) for path in folder.rglob("*.png"))
    expected = model.predict_proba(data.train.inputs.numpy())
    np.testing.assert_allclose([list(answer["probabilities"].values()) for answer in answers], expected, rtol=1e-6, atol=1e-7)
    rows = data.test.rows.numpy()
    right = [answers[row]["class"] == Path(str(answers[row]["input"])).parent.name for row in rows]
    assert np.mean(right) == test["accuracy"]
    losses = -np.log(expected[data.validation.rows.numpy(), data.train.targets[data.validation.rows].numpy()])
    assert losses.mean() == pytest.approx(run.read_history()[-1].validation_loss, rel=1e-4)


def test_a_picture_of_another_size_and_colour_is_brought_to_the_form(highway: Highway, tmp_path: Path) -> None:
    image_folder(tmp_path / "pictures")
    assert highway("train", "--data", "pictures/", *QUICK, "--out", "run").returncode == 0
    Image.fromarray(np.full((40, 32, 3), 200, np.uint8)).save(tmp_path / "big.jpg")
    (answer,) = predictions(highway, "run", "big.jpg")
    assert answer["class"] == "bright"


CONVOLUTIONAL = ("--network", "mnist-highway-16", "--epochs", 3, "--batch-size", 8, "--threads", 1)


def test_a_convolutional_network_on_own_images(highway: Highway, tmp_path: Path) -> None:
    folder = image_folder(tmp_path / "pictures")
    result = highway("train", "--data", "pictures/", *CONVOLUTIONAL, "--set", "training.crop=1", "--out", "run")
    assert result.returncode == 0, result.stderr
    again = highway("train", "run", "--out", "again")
    assert again.returncode == 0, again.stderr
    first, second = ((tmp_path / name / "history.jsonl").read_bytes() for name in ("run", "again"))
    assert first == second, "dropout and augmentation repeat to the bit"
    weights = [(tmp_path / name / "checkpoints" / "final.safetensors").read_bytes() for name in ("run", "again")]
    assert weights[0] == weights[1]
    assert json.loads(highway("evaluate", "run", "--json").stdout)["accuracy"] > 0.9
    answers = predictions(highway, "run", folder / "bright" / "00.png", folder / "dark" / "00.png")
    assert [answer["class"] for answer in answers] == ["bright", "dark"]
    report = highway("report", "run", "again")
    assert report.returncode == 0, report.stderr
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "mnist-highway-16" in page
    assert "of 8 layers can be closed" in page


@pytest.mark.parametrize("network", [("resnet-20",), ("resnet-20", "2016"), ("plain-a",), ("fitnet-a",)], ids="-".join)
def test_rivals_from_training_to_report(network: tuple[str, ...], highway: Highway, tmp_path: Path) -> None:
    draw = np.random.default_rng(3)
    for name, level in (("dark", 60), ("bright", 190)):
        (tmp_path / "pictures" / name).mkdir(parents=True)
        for number in range(12):
            pixels = np.clip(draw.normal(level, 30, (32, 32, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "pictures" / name / f"{number:02}.png")
    chosen = ["--network", network[0], *(["--variant", network[1]] if len(network) > 1 else [])]
    extra = ["--set", "network.deep_supervision=true"] if network[0] == "plain-a" else []
    result = highway("train", "--data", "pictures/", *chosen, *extra, "--epochs", 2, "--threads", 1, "--out", "run")
    assert result.returncode == 0, result.stderr
    assert highway("evaluate", "run").returncode == 0
    report = highway("report", "run")
    assert report.returncode == 0, report.stderr


@pytest.mark.parametrize("regression", [False, True])
def test_a_table_with_categories_and_gaps(highway: Highway, tmp_path: Path, regression: bool) -> None:
    path = table(tmp_path / "prices.csv", regression=regression)
    result = highway("train", "--data", path, "--target", "price", *QUICK, "--learning-rate", 0.05, "--out", "run")
    assert result.returncode == 0, result.stderr
    assert "a table of 240 rows with 1 number and 1 category columns" in result.stderr
    with path.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    with (tmp_path / "new.csv").open("w", newline="") as stream:  # the target is not known for new rows
        writer = csv.DictWriter(stream, ["colour", "size"], extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    answers = predictions(highway, "run", "new.csv", fresh=True)
    score = json.loads(highway("evaluate", "run", "--json").stdout)
    run = RunDirectory.open(tmp_path / "run")
    tested = load_dataset(run.read_spec().data, run.load_preparation()).test.rows.tolist()
    if regression:
        errors = np.array([float(answers[row]["prediction"]) - float(rows[row]["price"]) for row in tested])
        assert np.sqrt(np.mean(errors**2)) == pytest.approx(score["rmse"], rel=1e-5)
        targets = np.array([float(rows[row]["price"]) for row in tested])
        assert 1 - np.sum(errors**2) / np.sum((targets - targets.mean()) ** 2) == pytest.approx(score["r2"], rel=1e-5)
        assert score["r2"] > 0.7
        assert "RMSE" in result.stdout
    else:
        assert np.mean([answers[row]["class"] == rows[row]["price"] for row in tested]) == score["accuracy"]
        assert score["accuracy"] > 0.8
    model = highwaynet.load(tmp_path / "run")
    columns = {name: [row[name] for row in rows] for name in ("size", "colour")}
    assert model.predict(columns).tolist() == model.predict(tmp_path / "new.csv").tolist()
    assert model.predict(columns).tolist() == [answer["prediction" if regression else "class"] for answer in answers]
    one = {"size": [None], "colour": ["purple"]}  # a gap, and a category that training never saw
    assert model.predict(one).shape == (1,)
    with pytest.raises(InputError, match="give a path, a mapping"):
        model.predict([[1.0, 2.0]])
    report = highway("report", "run")
    assert report.returncode == 0, report.stderr
    page = (tmp_path / "report.html").read_text()
    assert ("RMSE" in page) == regression


def test_arrays(highway: Highway, tmp_path: Path) -> None:
    path = arrays(tmp_path / "set.npz")
    assert highway("train", "--data", path, *QUICK, "--out", "run").returncode == 0
    model = highwaynet.load(tmp_path / "run")
    x = np.load(path)["x"]
    np.save(tmp_path / "new.npy", x[:50])
    answers = predictions(highway, "run", "new.npy")
    np.testing.assert_allclose([answer["probability"] for answer in answers], model.predict_proba(x[:50]).max(1), rtol=1e-6)
    assert [answer["class"] for answer in answers] == model.predict(x[:50]).tolist()
    text = highway("predict", "run", "new.npy", "--csv").stdout
    table = list(csv.DictReader(io.StringIO(text)))
    assert len(table) == 50
    assert float(table[0]["probability of high"]) + float(table[0]["probability of low"]) == pytest.approx(1)
    assert "the first 40 of 50" in highway("predict", "run", "new.npy").stdout


def test_images_and_arrays_together_are_refused_also_as_a_folder(highway: Highway, tmp_path: Path) -> None:
    image_folder(tmp_path / "pictures")
    assert highway("train", "--data", "pictures/", *QUICK, "--out", "run").returncode == 0
    np.save(tmp_path / "rows.npy", np.zeros((3, 1, 10, 8), np.uint8))
    result = highway("predict", "run", "pictures", "rows.npy")
    assert result.returncode == 2
    assert "not both" in result.stderr
    assert len(predictions(highway, "run", "rows.npy")) == 3
    np.save(tmp_path / "rows.npy", np.full((3, 1, 10, 8), 0.5, np.float32))
    assert "trained on pixels from 0 to 255" in highway("predict", "run", "rows.npy").stderr


@pytest.mark.parametrize("kind", [np.uint8, np.int64, np.float64])
def test_pixels_are_scaled_however_they_are_stored(kind: type, tmp_path: Path) -> None:
    pixels = RNG.integers(0, 256, (60, 5, 5, 3)).astype(kind)
    np.savez(tmp_path / "set.npz", images=pixels, labels=np.arange(60) % 2)
    data = load_dataset(DataSpec(name=str(tmp_path / "set.npz")))
    inputs = next(iter(data.train.batches(10)))[0]
    assert inputs.shape == (10, 3, 5, 5)
    np.testing.assert_allclose(inputs.numpy(), pixels[data.train.rows[:10]].transpose(0, 3, 1, 2) / 255, rtol=1e-6)


def test_data_that_changed_after_the_run_are_noticed(highway: Highway, tmp_path: Path) -> None:
    path = table(tmp_path / "prices.csv", regression=True)
    assert highway("train", "--data", path, "--target", "price", *QUICK, "--out", "run").returncode == 0
    header, *rows = path.read_text().splitlines()
    for changed in ([*rows, rows[0]], rows[::-1], [rows[0].replace("e", "x"), *rows[1:]] if "e" in rows[0] else rows[1:]):
        path.write_text("\n".join([header, *changed]) + "\n")
        result = highway("evaluate", "run")
        assert result.returncode == 2
        assert "the data have changed since the run was trained" in result.stderr
    path.write_text("\n".join([header, *rows]) + "\n")
    assert highway("evaluate", "run").returncode == 0


@pytest.mark.parametrize("target", ["input", "1", "true", "prix 😀"])
def test_a_target_may_have_any_name(target: str, highway: Highway, tmp_path: Path) -> None:
    lines = [f"size,{target}", *(f"{n / 2},{3.5 * n + n % 3}" for n in range(100))]
    (tmp_path / "1.5.csv").write_text("\n".join(lines) + "\n")
    result = highway("train", "--data", "1.5.csv", "--target", target, *QUICK, "--learning-rate", 0.05, "--out", "run")
    assert result.returncode == 0, result.stderr
    assert RunDirectory.open(tmp_path / "run").read_spec().data.target == target
    (tmp_path / "new.csv").write_text("size\n10\n")
    (answer,) = predictions(highway, "run", "new.csv")
    assert set(answer) == {"input", "prediction"}
    assert highway("predict", "run", "new.csv").returncode == 0


def test_a_run_repeats_from_another_folder(highway: Highway, tmp_path: Path) -> None:
    arrays(tmp_path / "set.npz")
    assert highway("train", "--data", "./set.npz", *QUICK, "--out", "run").returncode == 0
    (tmp_path / "elsewhere").mkdir()
    assert highway("train", tmp_path / "run", "--out", "again", cwd=tmp_path / "elsewhere").returncode == 0
    first, again = tmp_path / "run", tmp_path / "elsewhere" / "again"
    assert (first / "history.jsonl").read_bytes() == (again / "history.jsonl").read_bytes()


def test_augmented_runs_repeat_to_the_bit(highway: Highway, tmp_path: Path) -> None:
    image_folder(tmp_path / "pictures")
    augment = ("--set", "training.crop=2", "--set", "training.mirror=true", "--set", "training.rotate=10")
    assert highway("train", "--data", "pictures/", *QUICK, *augment, "--out", "a").returncode == 0
    assert highway("train", "a", "--out", "b").returncode == 0
    assert highway("train", "--data", "pictures/", *QUICK, "--out", "c").returncode == 0
    a, b, c = ((tmp_path / name / "history.jsonl").read_bytes() for name in "abc")
    assert a == b != c


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run", "nothing.npy"], "nothing.npy: no such file or folder"),
        (["run", "wrong.npy"], "wrong.npy: samples of 3 values; the run was trained on 6"),
        (["run", "rows.csv"], "rows.csv: the run was trained on features, not on a table"),
        (["run", "picture.png"], "picture.png: the run was trained on features, not on images"),
        (["run", "wrong.npy", "picture.png"], "give either images, or arrays and tables, not both"),
        (["run", "wrong.npy", "--json", "--csv"], "--json and --csv: choose one of them"),
        (["nowhere", "wrong.npy"], "nowhere: no such run directory"),
    ],
)
def test_predict_refuses_in_a_sentence(arguments: list[str], sentence: str, highway: Highway, array_run: Path) -> None:
    result = highway("predict", *arguments, cwd=array_run)
    assert result.returncode == 2
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.fixture(scope="module")
def array_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from highwaynet import DataSpec
    from highwaynet.training.loop import train
    from support import small_spec

    folder = tmp_path_factory.mktemp("arrays")
    spec = small_spec().model_copy(update={"data": DataSpec(name=str(arrays(folder / "set.npz")))})
    train(spec, folder / "run")
    np.save(folder / "wrong.npy", np.zeros((4, 3), np.float32))
    (folder / "rows.csv").write_text("a,b\n1,2\n")
    Image.fromarray(np.zeros((4, 4), np.uint8)).save(folder / "picture.png")
    return folder


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--data", "no/where"], "data.name = 'no/where': there is no such file or folder"),
        (["--data", "set.csv"], "data.target: choose with --target which column of"),
        (["--data", "set.csv", "--target", "prize"], "did you mean 'price'?"),
        (["--data", "ragged.csv", "--target", "price"], "row 2"),
        (["--data", "gaps.csv", "--target", "price"], "price"),
        (["--data", "empty/"], "neither a folder of class folders of images"),
        (["--data", "one/"], "one class"),
        (["--data", "mnist", "--data-root", "empty"], "data.name = 'mnist': not found below empty; get it with `highway data fetch mnist`"),
        (["--data", "digits", "--target", "x"], "data.target = 'x': this is for your own data; digits is built in"),
        (["--set", "data.labels=coarse"], "data.labels = 'coarse': only cifar-100 has two kinds of labels"),
        (["--set", 'data.preprocessing=["scale","scale"]'], "each step can occur only once"),
        (["--set", 'data.preprocessing=["wash"]'], "data.preprocessing"),
        (["--data", "set.csv", "--target", "price", "--set", "training.crop=2"], "augmentation needs images"),
    ],
)
def test_train_refuses_own_data_in_a_sentence(arguments: list[str], sentence: str, highway: Highway, tmp_path: Path) -> None:
    (tmp_path / "set.csv").write_text("size,price\n" + "".join(f"{n / 2},{n * 1.5 + n % 3}\n" for n in range(200)))
    (tmp_path / "ragged.csv").write_text("size,price\n1,2\n3\n")
    (tmp_path / "gaps.csv").write_text("size,price\n1,2.5\n3,\n4,1.5\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "one" / "cats").mkdir(parents=True)
    Image.fromarray(np.zeros((4, 4), np.uint8)).save(tmp_path / "one" / "cats" / "a.png")
    result = highway("train", *arguments, "--out", "run")
    assert result.returncode == 2, result.stderr
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()
