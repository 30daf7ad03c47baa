"""Bad input through the real command: one sentence, exit code 2, nothing lost or half written, never a traceback."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from highwaynet.runs.directory import RunDirectory
from support import Highway


def refused(result: object, sentence: str, code: int = 2) -> None:
    assert sentence in result.stderr
    assert result.returncode == code
    assert result.stdout == ""
    assert result.stderr.startswith("highway: ")
    assert result.stderr.count("\n") == 1, "one sentence"
    assert "Traceback" not in result.stderr


TOML = "[network]\ndepth = 4\n[training]\nepochs = 1\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--data", "digit"], "unknown data set 'digit': did you mean 'digits'? Allowed: digits, mnist"),
        (["--network", "fc-highwya"], "unknown network 'fc-highwya': did you mean 'fc-highway'?"),
        (["--set", "network.dpeth=3"], "unknown field of [network] 'dpeth': did you mean 'depth'?"),
        (["--set", "netwrok.depth=3"], "unknown field 'netwrok': did you mean 'network'?"),
        (["--set", "network.depth"], "--set 'network.depth': write it as section.field=value"),
        (["--set", "seed.x=3", "--seed", "1"], "seed is not a section"),
        (["--depth", "0"], "network.depth = 0: should be greater than or equal to 1"),
        (["--depth", "ten"], "network.depth = 'ten': should be a valid integer"),
        (["--learning-rate", "-0.1"], "training.learning_rate = -0.1: should be greater than 0"),
        (["--learning-rate", "nan"], "training.learning_rate = nan"),
        (["--momentum", "1"], "training.momentum = 1: should be less than 1"),
        (["--epochs", "0"], "training.epochs = 0"),
        (["--batch-size", "5000"], "training.batch_size = 5000: digits has 1294 training samples; choose at most this many"),
        (["--gate-bias", "low"], "network.gate_bias = 'low': should be a valid number, or 'auto'"),
        (["--network", "fc-plain", "--gate-bias", "-2"], "network.gate_bias = -2.0: fc-plain has no gates"),
        (["--network", "highway-bb"], "unknown network 'highway-bb': did you mean 'highway-b'?"),
        (["--network", "fitnet-a"], "images of 8×8 are too small for fitnet-a: it needs at least 32×32; resize your own images"),
        (["--network", "highway-a", "--data", "set.npz"], "highway-a takes images, not samples of 6 values: choose fc-highway"),
        (["--network", "highway-a", "--depth", "20"], "network.depth = 20: highway-a has 11 layers"),
        (["--network", "highway-a", "--variant", "released"], "network.variant = 'released': highway-a comes as 'paper'"),
        (["--recipe", "released"], "training.recipe = 'released': fc-highway does not have this recipe; choose paper"),
        (["--network", "nin", "--recipe", "paper"], "training.recipe = 'paper': nin does not have this recipe; choose quick"),
        (["--network", "highway-a", "--recipe", "quck"], "unknown recipe 'quck': did you mean 'quick'?"),
        (["--set", "training.schedule=multi-step"], "training.schedule = 'multi-step': needs training.milestones"),
        (["--set", "training.optimiser=adam"], "training.optimiser = 'adam': should be 'sgd', 'rmsprop' or 'adamw'"),
        (["--validation", "0.9"], "data.validation = 0.9: should be less than or equal to 0.5"),
        (["--seed", "-1"], "seed = -1"),
        (["--dept", "3"], "No such option: --dept"),
        (["missing.toml"], "cannot read missing.toml: no such file or directory"),
        (["broken.toml"], "broken.toml is not valid TOML: "),
        (["unknown.toml"], "unknown.toml: unknown field of [training] 'epoch': did you mean 'epochs'?"),
        (["latin.toml"], "latin.toml: it is not UTF-8 text"),
        (["wrong.toml"], "wrong.toml: network = 3: should be a section"),
        (["empty"], "cannot read empty/spec.toml: no such file or directory"),
    ],
)
def test_train(arguments: list[str], sentence: str, highway: Highway, tmp_path: Path) -> None:
    (tmp_path / "broken.toml").write_text("[network\ndepth = 3")
    (tmp_path / "unknown.toml").write_text("[training]\nepoch = 3\n")
    (tmp_path / "latin.toml").write_bytes(b"# \xe9\n")
    (tmp_path / "wrong.toml").write_text("network = 3\n")
    (tmp_path / "empty").mkdir()
    np.savez(tmp_path / "set.npz", x=np.random.default_rng(0).normal(size=(60, 6)), y=np.arange(60) % 2)
    refused(highway("train", *arguments, "--out", "run"), sentence)
    assert not (tmp_path / "run").exists(), "nothing is written"
    assert not (tmp_path / "runs").exists()


def test_teachers_and_hints(highway: Highway, tmp_path: Path) -> None:
    small = ["--width", 10, "--epochs", 1, "--threads", 1]
    assert highway("train", "--depth", 3, *small, "--out", "wise").returncode == 0
    shutil.copytree(tmp_path / "wise", tmp_path / "unfinished")
    (tmp_path / "unfinished/checkpoints/final.json").unlink()
    shutil.copytree(tmp_path / "wise", tmp_path / "damaged")
    for path in (tmp_path / "damaged/checkpoints").glob("*.safetensors"):
        path.write_bytes(path.read_bytes()[:-9] + b"something")
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "flat.npz", x=rng.normal(size=(60, 6)), y=np.arange(60) % 2)
    np.savez(tmp_path / "fewer.npz", x=rng.normal(size=(60, 1, 8, 8)), y=np.arange(60) % 3)
    there = sorted(path.name for path in tmp_path.iterdir())
    for arguments, sentence in (
        (["--hints", "2:1"], "teacher.run is missing (The run whose network is the teacher"),
        (["--teacher", "nowhere"], "nowhere': there is no run directory; name the folder of a finished run"),
        (["--teacher", "unfinished"], "the run did not finish; continue it with: highway train"),
        (["--teacher", "damaged"], "is damaged"),
        (
            ["--teacher", "wise", "--data", "flat.npz"],
            "it was trained with another shape of samples ([1, 8, 8], here [6]); choose a teacher",
        ),
        (["--teacher", "wise", "--data", "fewer.npz"], "it was trained with another list of classes (['0', '1', "),
        (["--teacher", "wise", "--hints", "two"], "teacher.hints = 'two': should be two layers, counted from 1 as `highway networks "),
        (
            ["--teacher", "wise", "--hints", "5:1"],
            "teacher.hints = '5:1': the student: fc-highway has no hidden layer 5; choose one from 1 to 4",
        ),
        (
            ["--teacher", "wise", "--hints", "2:4"],
            "teacher.hints = '2:4': the teacher: fc-highway has no hidden layer 4; choose one from 1 to 3",
        ),
        (["--teacher", "wise", "--hints", "2:1", "--start", "wise"], "training with hints begins with new weights; omit start"),
        (["--teacher", "wise", "--set", "teacher.temperature=0"], "teacher.temperature = 0: should be greater than 0"),
    ):
        depth = [] if "--start" in arguments else ["--depth", 4, *small]
        refused(highway("train", *depth, *arguments, "--out", "run"), sentence)
        assert sorted(path.name for path in tmp_path.iterdir()) == there, "nothing is written"


def test_an_output_folder_that_exists(highway: Highway, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "precious.txt").write_text("keep me")
    (tmp_path / "spec.toml").write_text(TOML)
    refused(highway("train", "spec.toml", "--out", "run"), "run already exists: name another folder with --out")
    refused(highway("train", "spec.toml", "--out", "run", "--overwrite"), "run is not a run directory (it has no spec.toml)")
    refused(highway("train", "spec.toml", "--out", "spec.toml"), "spec.toml is a file: name a folder for the run")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["precious.txt"]


def test_overwriting_a_run_needs_the_flag_and_then_works(highway: Highway, tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(TOML)
    assert highway("train", "spec.toml", "--out", "run").returncode == 0
    before = (tmp_path / "run" / "history.jsonl").read_bytes()
    refused(highway("train", "spec.toml", "--out", "run", "--seed", 2), "already exists")
    refused(highway("train", "spec.toml", "--out", "run", "--overwrite", "--batch-size", 9999), "training.batch_size = 9999")
    assert (tmp_path / "run" / "history.jsonl").read_bytes() == before, "a refused run leaves the old one"
    assert highway("train", "spec.toml", "--out", "run", "--seed", 2, "--overwrite").returncode == 0
    assert (tmp_path / "run" / "history.jsonl").read_bytes() != before


def test_a_read_only_target(highway: Highway, tmp_path: Path, finished_run: Callable[..., RunDirectory]) -> None:
    # Root may write anywhere; without its capabilities it is refused like everybody else.
    prefix = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if os.geteuid() == 0 else ()
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    (tmp_path / "spec.toml").write_text(TOML)
    shelf.chmod(0o555)
    try:
        refused(highway("train", "spec.toml", "--out", "shelf/run", prefix=prefix), "cannot create shelf/run: permission denied")
        assert list(shelf.iterdir()) == []
        refused(
            highway("report", finished_run().path, "--out", "shelf/report.html", prefix=prefix),
            "cannot write shelf/report.html: permission denied",
        )
        assert list(shelf.iterdir()) == []
    finally:
        shelf.chmod(0o755)


@pytest.mark.parametrize("command", ["evaluate", "report"])
@pytest.mark.parametrize(
    ("name", "damage", "sentence"),
    [
        ("checkpoints/best-*.safetensors", b"garbage", ".safetensors is damaged: its checksum is not the one in best-"),
        ("checkpoints/best-*.safetensors", None, ".safetensors: no such file or directory"),
        ("checkpoints/final.json", None, "run has no checkpoint 'final' (final.json is missing)"),
        ("spec.toml", b"seed = ", "run/spec.toml is not valid TOML"),
        ("spec.toml", None, "run is not a run directory: it has no spec.toml"),
    ],
)
def test_a_damaged_run(
    command: str,
    name: str,
    damage: bytes | None,
    sentence: str,
    highway: Highway,
    tmp_path: Path,
    finished_run: Callable[..., RunDirectory],
) -> None:
    shutil.copytree(finished_run().path, tmp_path / "run")
    path = next((tmp_path / "run").glob(name))
    path.unlink() if damage is None else path.write_bytes(damage)
    refused(highway(command, "run"), sentence)
    assert not (tmp_path / "report.html").exists()


def test_a_damaged_history(highway: Highway, tmp_path: Path, finished_run: Callable[..., RunDirectory]) -> None:
    shutil.copytree(finished_run().path, tmp_path / "run")
    with (tmp_path / "run" / "history.jsonl").open("a") as stream:
        stream.write('{"epoch": 3, "step\n')
    refused(highway("report", "run"), "run/history.jsonl, line 3, is damaged")
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["networks", "highway-d"], "unknown network 'highway-d': did you mean 'highway-"),
        (["networks", "--set", "network.gatebias=3"], "unknown field of [network] 'gatebias': did you mean 'gate_bias'?"),
        (["networks", "highway-a", "--set", "network.name=resnet-20"], "name the network itself"),
        (["networks", "highway-a", "--set", "seed=3"], "only fields of the network apply here"),
        (["networks", "fc-highway", "--depth", "10", "--depth", "20"], "--depth 20: a single network is shown at one depth"),
        (["networks", "highway-a", "--input", "3x0x4"], "--input '3x0x4': write it as 784, 28x28 or 3x32x32"),
        (["networks", "maxout-teacher", "--input", "3x9x9"], "images of 9×9 are too small for maxout-teacher: it needs at least 15×15"),
        (["evaluate", "nowhere"], "nowhere: no such run directory"),
        (["report", "nowhere"], "nowhere: no such run directory"),
        (["evaluate", "nowhere", "--split", "all"], "'all' is not one of 'train', 'validation', 'test'"),
        (["report"], "Missing argument"),
        (["networks", "--depth", "0"], "depth = 0: should be greater than or equal to 1"),
        (["trian"], "unknown command 'trian': did you mean 'train'? Allowed: train, evaluate"),
        (["higway"], "unknown command 'higway': after `highway` comes a command: train, evaluate"),
        (["lstm"], "unknown command 'lstm': Allowed: train, evaluate"),
        (["data", "lst"], "unknown command 'lst': did you mean 'list'? Allowed: list, fetch, verify, describe"),
        (["networks", "higway"], "unknown network 'higway': did you mean 'highway-a', 'highway-b' or 'highway-c'?"),
        (["networks", "FC-Highway"], "unknown network 'FC-Highway': did you mean 'fc-highway'?"),
        (["reproduce", "fig9"], "unknown claim 'fig9': Allowed: fig1"),
        (["data", "describe", "a/", "--resize", "small"], "--resize small: write it as 32, for height and width, or as 32x48"),
        (["data", "describe", "a/", "--resize", "0"], "data.resize"),
    ],
)
def test_other_commands(arguments: list[str], sentence: str, highway: Highway) -> None:
    refused(highway(*arguments), sentence)


def test_report_does_not_replace_somebody_elses_file(highway: Highway, tmp_path: Path, finished_run: Callable[..., RunDirectory]) -> None:
    run = finished_run().path
    (tmp_path / "index.html").write_text("<h1>mine</h1>")
    refused(highway("report", run, "--out", "index.html"), "the file exists and is not a report")
    assert (tmp_path / "index.html").read_text() == "<h1>mine</h1>"
    refused(highway("report", run, "--out", "."), "this is a folder")
    refused(highway("report", run, "--out", "no/report.html"), "the folder no does not exist")
    assert highway("report", run, "--out", "index.html", "--overwrite").returncode == 0
    assert highway("report", run, "--out", "index.html").returncode == 0, "our own report may be replaced"


def test_a_diverging_run_ends_with_one(highway: Highway) -> None:
    arguments = ["--network", "fc-residual", "--activation", "relu", "--depth", 6, "--learning-rate", 1e6]
    result = highway("train", *arguments, "--out", "run")
    assert result.returncode == 1
    assert "highway: the loss is no longer finite in epoch 1, step 2: the output of layer 6 (DenseResidual) failed first" in result.stderr
    assert "try a training.learning_rate below 1e+06" in result.stderr
    assert "Traceback" not in result.stderr
