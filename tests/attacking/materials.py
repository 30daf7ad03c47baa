"""The undamaged files of all kinds, each as small as it can be: data, runs, a study, a claim."""

import csv
import datetime
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np

from data.formats import Images, pack, python2_pickle, write_cifar_binary, write_cifar_python, write_idx
from forked import start
from holding import PATIENCE

RUN = """
seed = 3
[network]
depth = 4
width = 5
[data]
name = "{data}"
{more}
[training]
epochs = {epochs}
batch_size = 6
learning_rate = 0.05
threads = 1
checkpoint = "3 steps"
"""
STUDY = """
name = "small"
trials = 2
[run.network]
depth = 3
width = 5
[run.training]
epochs = 1
[axes]
"network.name" = ["fc-highway", "fc-plain"]
[space]
"training.learning_rate" = { kind = "log-uniform", low = 0.01, high = 0.1 }
"network.activation" = { kind = "choice", choices = ["tanh", "relu"] }
"""
CLAIM = "carry"
"""The claim whose runs at scale smoke take the least time."""


def highway(*arguments: object, cwd: Path, **environment: str) -> str:
    """Run a command that has to succeed; returns what it printed."""
    process = start(*arguments, cwd=cwd, **environment)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, f"highway {' '.join(map(str, arguments))}: {err}"
    return out


def rows(count: int) -> list[list[str]]:
    """Rows of a table with all kinds of columns."""
    chance, made = random.Random(1), []
    for number in range(count):
        day = datetime.date(2024, 1, 1) + datetime.timedelta(days=chance.randrange(900))
        size, colour = chance.uniform(-2, 2), chance.choice(["red", "green", "blue", "é, ü"])
        gap = "" if chance.random() < 0.1 else f"{chance.gauss(0, 1):.4f}"
        kind = "yes" if size + (colour == "red") > 0.3 else "no"
        made.append([f"{size:.4f}", gap, str(number % 7), colour, day.isoformat(), chance.choice(["true", "false"]), kind])
    return made


NAMES = ["size", "gap", "count", "colour", "day", "flag", "kind"]


def tables(folder: Path) -> None:
    import gzip

    import pyarrow as pa
    import pyarrow.parquet as pq

    made = rows(60)
    with (folder / "t.csv").open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([NAMES, *made])
    (folder / "new.csv").write_bytes((folder / "t.csv").read_bytes())
    (folder / "t.csv.gz").write_bytes(gzip.compress((folder / "t.csv").read_bytes(), mtime=0))
    (folder / "t.tsv").write_text((folder / "t.csv").read_text(encoding="utf-8").replace(",", "\t"), encoding="utf-8")
    columns = list(zip(*made, strict=True))
    arrays = {
        "size": pa.array(map(float, columns[0])),
        "gap": pa.array([float(cell) if cell else None for cell in columns[1]]),
        "count": pa.array(map(int, columns[2])),
        "colour": pa.array(columns[3]).dictionary_encode(),
        "day": pa.array([datetime.date.fromisoformat(cell) for cell in columns[4]]),
        "flag": pa.array([cell == "true" for cell in columns[5]]),
        "kind": pa.array(columns[6]),
    }
    pq.write_table(pa.table(arrays), folder / "t.parquet", compression="snappy")
    pq.write_table(pa.table(arrays), folder / "plain.parquet", compression="none", use_dictionary=False)


def images(folder: Path) -> None:
    from PIL import Image

    generator = np.random.default_rng(0)
    for label in ("cat", "dog"):
        (folder / "images" / label).mkdir(parents=True)
        for number, suffix in enumerate(("png", "jpg", "webp", "png", "jpg", "png")):
            pixels = generator.integers(0, 256, (8, 8, 3), np.uint8) // (1 + (label == "cat"))
            Image.fromarray(pixels).convert("P" if number == 3 else "RGB").save(folder / "images" / label / f"{number}.{suffix}")


def arrays(folder: Path) -> None:
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(40, 6)).astype(np.float32), generator.integers(0, 3, 40)
    np.savez(folder / "plain.npz", x=x, y=y)
    np.savez_compressed(folder / "packed.npz", x=x, y=np.array(["a", "b", "c"])[y])
    (folder / "arrays").mkdir()
    np.save(folder / "arrays" / "x.npy", np.asfortranarray(x))
    np.save(folder / "arrays" / "y.npy", y)
    np.save(folder / "new.npy", x)


def sets(folder: Path) -> None:
    train, test = Images.random(1, 40, (28, 28)), Images.random(2, 10, (28, 28))
    write_idx(folder / "plain" / "mnist", train, test)
    write_idx(folder / "zipped" / "mnist", train, test, zipped=True)
    train, test = Images.random(1, 10, (3, 32, 32)), Images.random(2, 3, (3, 32, 32))
    write_cifar_binary(folder / "binary" / "cifar-10-batches-bin", "cifar-10", train, test)
    write_cifar_python(folder / "python" / "cifar-10-batches-py", "cifar-10", train, test, python2_pickle)
    write_cifar_python(folder / "modern" / "cifar-10-batches-py", "cifar-10", train, test)
    train, test = Images.random(1, 4, (3, 32, 32), 100), Images.random(2, 3, (3, 32, 32), 100)
    write_cifar_binary(folder / "binary" / "cifar-100-binary", "cifar-100", train, test)
    write_cifar_python(folder / "python" / "cifar-100-python", "cifar-100", train, test, python2_pickle)
    (folder / "archived").mkdir()
    pack(folder / "archived" / "cifar.tar.gz", folder / "binary" / "cifar-100-binary")


def run_file(data: str, more: str = "", epochs: int = 2) -> str:
    return RUN.format(data=data, more=more, epochs=epochs)


def run_of_table(folder: Path) -> None:
    """A finished run with the best weights of an earlier epoch, and records."""
    tables(folder)
    text = run_file("t.csv", 'target = "kind"\nvalidation = 0.2', epochs=5).replace("learning_rate = 0.05", "learning_rate = 2.0")
    (folder / "run.toml").write_text(text)
    highway("train", "run.toml", "--out", "run", cwd=folder)
    (best,) = folder.glob("run/checkpoints/best-*.safetensors")
    assert best.read_bytes() != (best.parent / "final.safetensors").read_bytes(), "the last epoch was to be worse than an earlier one"
    highway("evaluate", "run", cwd=folder)
    highway("inspect", "run", "--what", "gates", cwd=folder)


def run_of_images(folder: Path) -> None:
    images(folder)
    (folder / "run.toml").write_text(run_file("images"))
    highway("train", "run.toml", "--out", "run", cwd=folder)


def unfinished_run(folder: Path) -> None:
    """A run that was killed in its second epoch."""
    arrays(folder)
    (folder / "run.toml").write_text(run_file("plain.npz", "validation = 0.2", epochs=4))
    highway("train", "run.toml", "--out", "whole", cwd=folder)
    process = start(60, "train", "run.toml", "--out", "run", module="shaken", cwd=folder)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == -9, "the run was to be killed"
    assert list((folder / "run" / "checkpoints").glob("step-*.json"))


def spec(folder: Path) -> None:
    arrays(folder)
    (folder / "run.toml").write_text(run_file("plain.npz"))
    (folder / "conv.toml").write_text(
        'seed = 1\n[network]\nname = "mnist-highway-16"\ndropout = [0.1, 0.1, 0.1, 0.2]\n[data]\nname = "digits"\nvalidation = 0.1\n'
        '[training]\nrecipe = "quick"\nepochs = 1\nbatch_size = 32\ncrop = 1\nrotate = 5.0\ncheckpoint = "1 epochs"\n'
    )
    (folder / "study.toml").write_text(STUDY)


def study(folder: Path) -> None:
    (folder / "study.toml").write_text(STUDY)
    highway("search", "study.toml", "--out", "done", "--workers", "1", cwd=folder)


def claim(folder: Path) -> None:
    highway("reproduce", CLAIM, "--scale", "smoke", "--out", "out", "--workers", "1", cwd=folder)


MATERIALS: dict[str, Callable[[Path], None]] = {
    "tables": tables,
    "images": images,
    "arrays": arrays,
    "sets": sets,
    "run": run_of_table,
    "image-run": run_of_images,
    "unfinished": unfinished_run,
    "spec": spec,
    "study": study,
    "claim": claim,
}


def make(name: str, folder: Path) -> Path:
    """Make the files of a kind in a new folder."""
    folder.mkdir(parents=True)
    MATERIALS[name](folder)
    return folder
