"""The commands as people and programs use them."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from forked import start
from highwaynet import RunSpec, __version__
from highwaynet.base.errors import InputError
from highwaynet.cli.overrides import gather_spec
from highwaynet.kernels.native import active_kernel
from highwaynet.runs.directory import RunDirectory
from holding import PATIENCE, wait_for
from support import Highway

COMMANDS = ["train", "evaluate", "predict", "networks", "report", "explore", "data list", "data fetch", "data verify", "data describe"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command: str, highway: Highway) -> None:
    result = highway(*command.split(), "--help")
    assert result.returncode == 0
    assert f"Example: highway {command}" in result.stdout


def test_help_does_not_wait_for_torch() -> None:
    code = "import sys; from highwaynet.cli.main import app; sys.exit('torch' in sys.modules or 'sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_help_of_a_field_is_its_docstring(highway: Highway) -> None:
    text = " ".join(highway("train", "--help").stdout.split())
    assert "exponential: ratio of the last to the first learning rate, 1 keeps it constant" in text


def test_version(highway: Highway) -> None:
    assert highway("--version").stdout == f"highwaynet {__version__} (kernel: {active_kernel()})\n"


def test_the_journey(highway: Highway, tmp_path: Path) -> None:
    result = highway("train", "--depth", 5, "--epochs", 2, "--json", fresh=True)
    answer = json.loads(result.stdout)
    assert answer["run"] == "runs/fc-highway-5-digits-seed0"
    assert answer["last_epoch"]["epoch"] == 2
    assert "epoch 1/2" in result.stderr
    assert "\x1b" not in result.stderr, "no control characters without a terminal"

    test = json.loads(highway("evaluate", answer["run"], "--json", fresh=True).stdout)
    train = json.loads(highway("evaluate", answer["run"], "--split", "train", "--json").stdout)
    validation = json.loads(highway("evaluate", answer["run"], "--split", "validation", "--json").stdout)
    assert (test["samples"], train["samples"], validation["samples"]) == (359, 1294, 144)
    assert validation["loss"] == answer["last_epoch"]["validation_loss"]

    report = highway("report", answer["run"], fresh=True)
    assert report.returncode == 0, report.stderr
    assert f"report: {tmp_path / 'report.html'}" in report.stdout
    numbers = json.loads(highway("report", answer["run"], "--json").stdout)["runs"][0]
    assert numbers["test"] == {key: test[key] for key in ("loss", "accuracy", "samples")}
    assert numbers["train"]["loss"] == train["loss"]


def test_networks_lists_the_papers_counts(highway: Highway) -> None:
    rows = json.loads(highway("networks", "--json", fresh=True).stdout)["networks"]
    counts = {(row["name"], row["depth"]): row["parameters"] for row in rows}
    assert counts["fc-highway", 100] == 544_660
    assert counts["fc-plain", 100] == 562_543
    assert counts["highway-c", 32] == 1_264_502
    text = highway("networks", "--input", 64).stdout
    assert "253,660" in text
    assert "do not fit them: mnist-highway-16, mnist-highway-32, highway-a" in text


def test_networks_shows_one_layer_by_layer(highway: Highway) -> None:
    text = highway("networks", "mnist-highway-16").stdout
    for line in ("16×24×24", "16×12×12", "16×6×6", "16×3×3", "38,986", "paper, table 1; layers from the released files", "recipe quick"):
        assert line in text
    answer = json.loads(highway("networks", "highway-b", "--outputs", 100, "--set", "network.gate_bias=auto", "--json").stdout)
    assert answer["parameters"] == sum(row["parameters"] for row in answer["table"]) == 2_265_928
    assert {row["gate_bias"] for row in answer["table"]} == {None, -1.9}
    assert answer["table"][-1]["number"] == 19
    assert set(answer["recipes"]) == {"paper", "released", "quick"}
    assert "2–50" in highway("networks", "fc-highway", "--depth", 50).stdout


def test_networks_lists_what_is_asked_for(highway: Highway) -> None:
    def listed(*arguments: object) -> list[str]:
        result = highway("networks", *arguments, "--json")
        assert result.returncode == 0, result.stderr
        return [row["label"] for row in json.loads(result.stdout)["networks"]]

    assert "highway-a (dense head)" in listed()
    assert not any("dense" in name for name in listed("--set", "network.head=gap"))
    assert "highway-b (gap head, released)" in listed("--variant", "released")
    assert "highway-a (gap head)" not in listed("--variant", "released")
    assert [name for name in listed("--variant", "2016") if "resnet" in name] == [
        "resnet-20 (2016)",
        "resnet-32 (2016)",
        "resnet-44 (2016)",
    ]


def test_data_list(highway: Highway) -> None:
    digits, *others = json.loads(highway("data", "list", "--json", fresh=True).stdout)["data"]
    assert [known["name"] for known in others] == ["mnist", "fashion-mnist", "cifar-10", "cifar-100"]
    assert (digits["name"], digits["train"], digits["test"], digits["classes"]) == ("digits", 1438, 359, 10)
    assert "digits" in highway("data", "list").stdout


def test_an_interrupted_run_ends_with_130(tmp_path: Path) -> None:
    import signal

    process = start("train", "--depth", 3, "--epochs", 100000, "--out", "run", cwd=tmp_path)
    history = tmp_path / "run" / "history.jsonl"
    wait_for(history.exists, process)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert stderr.endswith("and saved; continue with: highway train run --resume\n")
    assert "Traceback" not in stderr


def test_a_terminal_gets_a_bar(tmp_path: Path) -> None:
    import os
    import pty

    reader, writer = pty.openpty()
    terminal = {"TERM": "xterm-256color", "COLUMNS": "160"}
    process = start("train", "--depth", 3, "--epochs", 3, "--out", "run", cwd=tmp_path, stderr=writer, **terminal)
    os.close(writer)
    seen = b""
    while True:
        try:
            piece = os.read(reader, 4096)
        except OSError:
            break
        if not piece:
            break
        seen += piece
    os.close(reader)
    process.communicate()
    assert process.returncode == 0
    text = seen.decode()
    for part in ("fc-highway, 3 layers", "━", "epoch 3/3", "loss", "accuracy", "samples/s", "00:0"):
        assert part in text


class TestSettings:
    """TOML, then flags, then --set."""

    @pytest.fixture
    def toml(self, tmp_path: Path) -> Path:
        path = tmp_path / "run.toml"
        path.write_text('seed = 1\n[network]\nname = "fc-highway"\ndepth = 7\nwidth = 20\ngate_bias = -3.0\n')
        return path

    def test_order(self, toml: Path) -> None:
        spec = gather_spec(toml, {"seed": "2", "network.depth": "8", "network.width": None}, ["network.depth=9", "network.activation=relu"])
        assert (spec.seed, spec.network.depth, spec.network.width, spec.network.activation) == (2, 9, 20, "relu")
        assert spec.network.gate_bias == -3.0

    def test_another_network_takes_its_own_width_and_no_gates(self, toml: Path) -> None:
        spec = gather_spec(toml, {"network.name": "fc-plain"}, [])
        assert (spec.network.width, spec.network.depth, spec.network.gate_bias) == (71, 7, None)

    @pytest.mark.parametrize("changes", [{"network.name": "fc-plain"}, {}])
    def test_set_and_flag_choose_a_network_alike(self, toml: Path, changes: dict[str, str]) -> None:
        spec = gather_spec(toml, changes, [] if changes else ["network.name=fc-plain"])
        assert (spec.network.width, spec.network.gate_bias) == (71, None)

    def test_what_depends_on_a_changed_field_follows_it(self, tmp_path: Path) -> None:
        path = tmp_path / "run.toml"
        path.write_text(RunSpec(network={"init": "normal", "init_std": 0.3}).to_toml())
        assert gather_spec(path, {"network.activation": "relu"}, []).network.init == "he"
        assert gather_spec(path, {"network.init": "orthogonal"}, []).network.init_std is None
        assert gather_spec(path, {"network.activation": "tanh"}, []).network.init_std == 0.3
        assert gather_spec(path, {"data.name": "mnist"}, []).data.validation == 0

    def test_the_learning_rate_follows_the_network(self) -> None:
        assert gather_spec(None, {}, []).training.learning_rate == 0.2
        assert gather_spec(None, {"network.name": "fc-plain"}, []).training.learning_rate == 0.003
        assert gather_spec(None, {"network.name": "fc-plain", "training.learning_rate": "0.5"}, []).training.learning_rate == 0.5

    def test_a_section_cannot_be_a_number(self, toml: Path) -> None:
        with pytest.raises(InputError, match="seed is not a section"):
            gather_spec(toml, {}, ["seed.x=1"])


def test_a_run_that_may_only_be_read_can_be_reported_on(
    highway: Highway, tmp_path: Path, finished_run: Callable[..., RunDirectory]
) -> None:
    import os
    import shutil

    shutil.copytree(finished_run().path, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "analysis", ignore_errors=True)
    (tmp_path / "run").chmod(0o555)
    prefix = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if os.geteuid() == 0 else ()
    try:
        assert highway("report", "run", prefix=prefix).returncode == 0
    finally:
        (tmp_path / "run").chmod(0o755)
    assert not (tmp_path / "run" / "analysis").exists()
    assert (tmp_path / "report.html").stat().st_size > 10_000


@pytest.mark.parametrize("name", ["run [bold]x[/b]", "a$\\frac$d", "smile:heart:", "ünï 日本"])
def test_odd_names_are_printed_as_they_are(name: str, highway: Highway, tmp_path: Path, finished_run: Callable[..., RunDirectory]) -> None:
    import shutil

    shutil.copytree(finished_run().path, tmp_path / name / "run")
    shutil.copytree(finished_run().path, tmp_path / "other" / "run")
    result = highway("report", f"{name}/run", "other/run", "--out", f"{name}/report.html", COLUMNS="300")
    assert result.returncode == 0, result.stderr
    assert f"report: {tmp_path / name / 'report.html'}" in result.stdout
    assert f"6-layer highway ({name}/run)" in result.stdout
    assert "6-layer highway (other/run)" in result.stdout
    assert highway("evaluate", f"{name}/run", fresh=True, PYTHONIOENCODING="ascii").returncode == 0


def test_a_path_that_cannot_be_used_is_the_users_to_mend(highway: Highway) -> None:
    for command in (["train", "--out", "x" * 300], ["evaluate", "x" * 300], ["train", "x" * 300]):
        result = highway(*command)
        assert result.returncode == 2
        assert "file name too long" in result.stderr.lower()


def test_describe_and_verify(highway: Highway, tmp_path: Path) -> None:
    answer = json.loads(highway("data", "describe", "digits", "--json", fresh=True).stdout)
    assert (answer["train"], answer["validation"], answer["test"]) == (1294, 144, 359)
    assert sum(answer["classes"]["train"].values()) == 1294
    text = highway("data", "describe", "digits").stdout
    assert "1,294 samples to train on, 144 for validation, 359 for testing" in text
    result = highway("data", "verify", "mnist", "--data-root", tmp_path)
    assert result.returncode == 1
    assert "4 of 4 files" in result.stderr
    assert highway("data", "verify", "digits").returncode == 0
    assert "unknown data set 'mnits': did you mean 'mnist'?" in highway("data", "fetch", "mnits").stderr
