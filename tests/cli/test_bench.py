"""`highway bench` runs, its peers compute the same network, and its record is whole. No time is asserted."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from highwaynet.bench.bench_records import BenchRecord, RecurrentSetting, Setting, WideRecord, WideSetting
from highwaynet.bench.measure import best_times, run_bench
from highwaynet.bench.peers import peers_for, product, stack_alone
from highwaynet.bench.recurrent import NaiveRecurrentHighway, lstm_width, modules_for
from highwaynet.bench.wide import run_wide, wide_peers
from highwaynet.cli.bench import bench_command
from support import Highway


def test_the_record_is_whole_and_counts_operations_right() -> None:
    setting = Setting(layers=4, width=5, batch=6)
    assert setting.operations == 6 * 2 * 6 * 25 * 3
    settings = [setting, Setting(kind="plain", layers=3, width=7, batch=4)]
    record = run_bench(settings=settings, recurrent=[], seconds=0.01, threads=1)
    assert BenchRecord.model_validate_json(record.model_dump_json()) == record
    assert record.environment["threads"] == 1
    for kind, peers in (
        ("highway", {"highwaynet", "naive PyTorch", "PyTorch, H and T merged"}),
        ("plain", {"highwaynet", "naive PyTorch"}),
    ):
        assert peers <= {row.peer for row in record.steps if row.setting.kind == kind}
    for row in (*record.steps, *record.stacks):
        assert row.milliseconds > 0
        assert row.gflops == pytest.approx(row.setting.operations / row.milliseconds / 1e6)
        assert row.peer != "naive PyTorch" or row.times_naive == 1


def test_recurrent_peers_compute_the_same_and_their_record_is_whole() -> None:
    setting = RecurrentSetting(steps=3, batch=2, inputs=4, width=5, depth=2)
    assert setting.operations == 6 * 3 * 2 * 2 * 5 * (4 + 2 * 5)
    ours, naive, lstm = modules_for(setting).values()
    assert isinstance(naive, NaiveRecurrentHighway)
    with torch.no_grad():
        ours.input_weight.copy_(torch.cat((naive.input_transform.weight, naive.input_gate.weight)))
        for place, (transform, gate) in enumerate(zip(naive.transforms, naive.gates, strict=True)):
            ours.weight[place].copy_(torch.cat((transform.weight, gate.weight)))
            ours.bias[place].copy_(torch.cat((transform.bias, gate.bias)))
    x = torch.randn(3, 2, 4)
    torch.testing.assert_close(ours(x)[0], naive(x)[0])
    wide = RecurrentSetting(width=300)
    assert 4 * lstm_width(wide) * (lstm_width(wide) + 128) == pytest.approx(wide.multiply_adds, rel=0.01)
    assert lstm.hidden_size == lstm_width(setting)
    record = run_bench(settings=[], recurrent=[setting], seconds=0.01, threads=1)
    assert BenchRecord.model_validate_json(record.model_dump_json()) == record
    assert [row.peer for row in record.recurrent] == ["highwaynet", "naive PyTorch", f"nn.LSTM, width {lstm_width(setting)}"]
    assert record.recurrent[1].times_naive == record.recurrent[2].times_lstm == 1


def test_every_peer_can_take_steps() -> None:
    for kind in ("highway", "plain"):
        setting = Setting(kind=kind, layers=5, width=8, batch=7)
        for name, make in peers_for(setting).items():
            step = make(setting)
            for _ in range(3):
                step()
            assert name
    stack_alone(Setting(layers=3, width=4, batch=2))()
    product()()


def test_turns_alternate() -> None:
    turns: list[str] = []
    times = best_times({"a": lambda: turns.append("a"), "b": lambda: turns.append("b")}, 0.0)
    assert set(times) == {"a", "b"}
    runs = [turns[0], *(now for before, now in pairwise(turns) if now != before)]
    assert runs == ["a", "b"] * (len(runs) // 2)
    assert torch.get_num_threads() >= 1


def test_the_command(tmp_path: Path, highway: Highway, monkeypatch: pytest.MonkeyPatch) -> None:
    result = highway("bench", "--only", "dense", "--seconds", 0.01, "--threads", 1, "--out", "bench.json", fresh=True)
    assert result.returncode == 0, result.stderr
    assert "highwaynet, stack alone" in result.stdout
    assert "GFLOP/s" in result.stdout
    record = json.loads((tmp_path / "bench.json").read_text())
    assert record["schema_version"] == 1
    assert record["environment"]["kernel"]
    result = highway("bench", "--out", "bench.txt")
    assert result.returncode == 2
    assert "--out bench.txt: name a file that ends in .json" in result.stderr


def test_the_table_of_recurrent_layers(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from highwaynet.bench import measure

    original, asked = measure.run_bench, []

    def small(**arguments: object) -> BenchRecord:
        asked.append(arguments)
        return original(settings=[], recurrent=[RecurrentSetting(steps=2, batch=2, inputs=3, width=4, depth=2)], seconds=0.01, threads=1)

    monkeypatch.setattr(measure, "run_bench", small)
    bench_command(only="recurrent", seconds=0.01)
    assert asked[0]["settings"] == ()
    assert len(asked[0]["recurrent"]) == 4  # type: ignore[arg-type]
    shown = capsys.readouterr().out
    assert "× LSTM" in shown
    assert "depth 2, width 4, 2 steps, batch 2" in shown
    assert "ms per step" in shown
    assert shown.count("highwaynet") == 1, "no table of dense networks"


def test_wide_peers_compute_the_same_and_the_record_is_whole() -> None:
    setting = WideSetting(system="tiny", layers=2, width=6, rows=5)
    assert setting.operations == 3 * 2 * (5 * 6 * 12) * 2
    stacks = wide_peers(setting)
    stack, x = stacks.pop("highwaynet"), torch.randn(5, 6)
    for peer in stacks.values():
        for number, layer in enumerate(peer):
            for part, name in ((0, "transform"), (1, "gate")):
                rows = slice(6 * part, 6 * part + 6)
                both = getattr(layer, "both", None)
                weight, bias = (
                    (getattr(layer, name).weight, getattr(layer, name).bias) if both is None else (both.weight[rows], both.bias[rows])
                )
                weight.data.copy_(stack.weight[number, rows])
                bias.data.copy_(stack.bias[number, rows])
        torch.testing.assert_close(peer(x), stack(x))
    record = run_wide(settings=[setting], seconds=0.01, threads=1)
    assert WideRecord.model_validate_json(record.model_dump_json()) == record
    assert [row.peer for row in record.steps] == ["highwaynet", *stacks]
    assert max(row.times_by_hand for row in record.steps[1:]) == 1


def test_the_wide_command(tmp_path: Path, highway: Highway, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = (WideSetting(system="CBHG", layers=2, width=8, rows=5),)
    monkeypatch.setitem(run_wide.__kwdefaults__, "settings", tiny)
    tables: list[object] = []
    monkeypatch.setattr("highwaynet.cli.bench.print_table", lambda columns, rows, title: tables.append(rows))
    bench_command(wide=True, seconds=0.01, threads=1, out=tmp_path / "wide.json")
    assert tables[0][0][:2] == ["CBHG, 2×8, 5 rows", "highwaynet"]  # type: ignore[index]
    assert json.loads((tmp_path / "wide.json").read_text())["steps"][0]["peer"] == "highwaynet"
    result = highway("bench", "--wide", "--sweep")
    assert result.returncode == 2
    assert "--wide and --sweep: choose one" in result.stderr


def test_the_picture(tmp_path: Path) -> None:
    from highwaynet.bench.bench_records import Measurement
    from highwaynet.bench.measure import BATCHES, DEPTHS
    from highwaynet.figures.bench_plot import draw_sweep

    rows = [
        Measurement(setting=setting, peer=peer, milliseconds=setting.layers * factor, gflops=1.0, share_of_product=0.1)
        for setting in [Setting(layers=depth) for depth in DEPTHS] + [Setting(batch=batch) for batch in BATCHES]
        for peer, factor in (("highwaynet", 0.05), ("naive PyTorch", 0.3))
    ]
    record = BenchRecord(
        environment={"threads": 2, "processor": "x", "kernel": "y"}, product_gflops=1, steps=(), stacks=(), sweep=tuple(rows)
    )
    figure = draw_sweep(record)
    assert [len(line.get_xdata()) for axes in figure.axes for line in axes.lines] == [7, 7, 6, 6]
    assert [axes.get_xscale() for axes in figure.axes] == ["log", "log"]
    figure.savefig(tmp_path / "sweep.png")
