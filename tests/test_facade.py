"""What `import highwaynet` offers."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import matplotlib.figure
import numpy as np
import pytest

import highwaynet
from highwaynet import HighwayError, InputError, RunSpec, evaluate, inspect, list_networks, load, train, train_seeds
from highwaynet.data.load import load_dataset
from highwaynet.networks.presets import PRESETS
from highwaynet.runs.directory import RunDirectory
from highwaynet.training import evaluation
from support import small_spec

Run = Callable[..., RunDirectory]


def test_importing_is_quick_and_all_names_are_there() -> None:
    code = "import sys, highwaynet; assert 'torch' not in sys.modules and 'numpy' not in sys.modules; from highwaynet import *"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
    assert set(dir(highwaynet)) == set(highwaynet.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = highwaynet.nothing


def test_errors_are_one_family() -> None:
    for error in (highwaynet.InputError, highwaynet.DivergenceError, highwaynet.InterruptedRunError):
        assert issubclass(error, HighwayError)


def test_evaluate_is_the_loop_s_own_measure(finished_run: Run) -> None:
    run = finished_run()
    model, data = load(run), load_dataset("digits")
    assert evaluate(run) == evaluate(run.path, "test") == evaluation.evaluate(model.network, data.test)
    assert evaluate(run, "validation").loss == pytest.approx(run.read_history()[-1].validation_loss, rel=1e-5)
    assert evaluate(run, "validation", checkpoint="best").loss <= evaluate(run, "validation").loss
    with pytest.raises(InputError, match="no such run directory"):
        evaluate("nowhere")
    for ask in (lambda: load(run, "last"), lambda: evaluate(run, checkpoint="last")):
        with pytest.raises(InputError, match="checkpoint = 'last': choose final, best or average"):
            ask()
    for ask in (lambda: evaluate(run, "tset"), lambda: inspect(run).lesions("tset")):
        with pytest.raises(InputError, match="unknown part of the data 'tset': did you mean 'test'"):
            ask()
    with pytest.raises(InputError, match="sample = 100000: there are 1,294 training samples"):
        inspect(run).gates(sample=100_000)
    with pytest.raises(InputError, match="samples = 0"):
        inspect(run).lesions(samples=0)
    assert repr(run) == f"RunDirectory('{run.path}')"
    assert "6-layer highway" in repr(inspect(run))
    assert "fc-highway" in repr(load(run))


def test_wrong_arguments_are_one_sentence(tmp_path: Path) -> None:
    for make, sentence in (
        (lambda: RunSpec(training={"epoch": 1}), "did you mean 'epochs'"),
        (lambda: RunSpec(network={"name": "resnet-50"}), "unknown network 'resnet-50'"),
        (lambda: highwaynet.TrainingSpec(epochs=-1), "training.epochs = -1: should be greater than or equal to 0"),
        (lambda: train({"training": {}}, tmp_path / "run"), "pass a RunSpec"),
        (lambda: train(RunSpec(), None), "path = None: name a folder"),
        (lambda: train(RunSpec(), "a\0b"), "name a folder for the run"),
        (lambda: train(RunSpec(), "x" * 300), "cannot create"),
        (lambda: train(RunSpec(), tmp_path / "run", overwrite=True, resume=True), "overwrite and resume: choose one"),
    ):
        with pytest.raises(InputError) as error:
            make()
        assert sentence in str(error.value)
        assert "\n" not in str(error.value)
    assert RunSpec(seed=np.int64(3), training={"epochs": np.int32(2)}).training.epochs == 2


def test_questions_and_their_records(finished_run: Run) -> None:
    inside = inspect(finished_run())
    for record in (
        inside.mistakes(),
        inside.gates(),
        inside.routing(),
        inside.flow(),
        inside.refinement(),
        inside.lesions("test"),
        inside.deletions("test"),
    ):
        assert isinstance(record.plot(), matplotlib.figure.Figure)
        assert "6-layer highway" in record._repr_html_()
    assert inside.lesions("test").intact == evaluate(inside.run)
    assert "accuracy" in inside.evaluation()._repr_html_()


@pytest.mark.parametrize("question", ["gates", "routing", "lesions", "pairs", "deletions"])
def test_questions_that_a_network_cannot_be_asked(question: str, finished_run: Run) -> None:
    with pytest.raises(InputError, match=f"{question} does not apply to this network: it has no"):
        getattr(inspect(finished_run("fc-plain")), question)()


def test_the_list_of_networks() -> None:
    listed = {network.name: network for network in list_networks()}
    assert list(listed) == list(PRESETS)
    assert (listed["mnist-highway-32"].parameters, listed["mnist-highway-32"].layers) == (151_690, 10)
    assert (listed["resnet-44"].parameters, listed["resnet-44"].input_shape) == (658_586, (3, 32, 32))


def test_several_seeds(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)
    data = (x, (x[:, 0] > 0).astype(int))
    record = train_seeds(small_spec(), tmp_path / "seeds", 2, data=data)
    assert [run.seed for run in record.runs] == [0, 1]
    for run in record.runs:
        assert run.score == evaluate(tmp_path / "seeds" / run.run, data=data)
    assert (tmp_path / "seeds" / "seeds.json").is_file()
    assert "over 2 seeds" in record.summary
    again = train_seeds(small_spec(), tmp_path / "seeds", 2, data=data, resume=True)
    assert again == record
    with pytest.raises(InputError, match="is a run: name another folder"):
        train_seeds(small_spec(), tmp_path / "seeds" / "seed0", 2, data=data)
    with pytest.raises(InputError, match="seeds = 0"):
        train_seeds(small_spec(), tmp_path / "none", 0)


def test_data_in_memory_are_needed_again(tmp_path: Path) -> None:
    x, y = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32), np.arange(60) % 3
    run = train(RunSpec(network={"depth": 4, "width": 6}, training={"epochs": 1}), tmp_path / "run", data=(x, y))
    for ask in (
        lambda: evaluate(run),
        lambda: inspect(run).gates(),
        lambda: train(run.read_spec(), run.path, resume=True),
        lambda: train(run.read_spec(), tmp_path / "again"),
    ):
        with pytest.raises(InputError, match=r"data\.name = 'memory': .*pass them in Python, with data="):
            ask()
    with pytest.raises(InputError, match="the data have changed"):
        evaluate(run, data=(x, y[::-1]))
    again = train(run.read_spec(), tmp_path / "again", data=(x, y))
    assert (again.path / "history.jsonl").read_bytes() == (run.path / "history.jsonl").read_bytes()
    assert load(run).predict(x).dtype == load(run).classes.dtype == np.int64  # as they were given
    assert load(run).predict(x).tolist() == load(again).predict(x).tolist()  # prediction needs no data
