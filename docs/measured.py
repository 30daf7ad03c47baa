"""Writes tables of measured numbers into pages, between marks: python docs/measured.py (a test fails if one is out of date).

Each table comes from a record in results/, which its benchmark wrote.
"""

import json
import re
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "results"
NAMES = {
    "mnist-50": "MNIST, dense, 50 layers",
    "mnist-100": "MNIST, dense, 100 layers",
    "digits-50": "digits, dense, 50 layers",
    "cifar-100-50": "CIFAR-100, dense, 50 layers",
    "highway-a": "CIFAR-10, `highway-a`",
}


def table(headings: list[str], rows: list[list[str]]) -> str:
    """Return a table in Markdown."""
    rule = "|" + "---|" * len(headings)
    first, *others = [f"| {' | '.join(line)} |" for line in (headings, *rows)]
    return "\n".join([first, rule, *others])


def _span(values: list[float], text: str) -> str:
    return text.format(values[0]) if len(set(values)) == 1 else f"{text.format(min(values))} to {text.format(max(values))}"


def shrinking() -> str:
    """Networks before and after shrinking."""
    record = json.loads((RESULTS / "shrinking.json").read_text())
    rows = []
    for name, group in groupby(record["networks"], key=lambda one: one["network"]):
        ones: list[Any] = list(group)
        accuracy = {kind: fmean(100 * one["test_accuracy"][kind] for one in ones) for kind in ("intact", "healed", "from_scratch")}
        rows.append(
            [
                NAMES[name],
                str(len(ones)),
                f"{_span([one['kept'] for one in ones], '{:g}')} of {ones[0]['layers']}",
                f"{accuracy['intact']:.2f} %",
                f"{accuracy['healed']:.2f} %",
                f"{accuracy['from_scratch']:.2f} %",
                *(f"{fmean(one['speed_up'][size] for one in ones):.1f}×" for size in ("1", "256")),
            ]
        )
    headings = ["network", "seeds", "layers kept", "intact", "healed", "from scratch", "batch 1", "batch 256"]
    return table(headings, rows)


def layer_drop() -> str:
    """What random removal of half of the layers costs."""
    record = json.loads((RESULTS / "layer-drop.json").read_text())
    names = {"without": "without `layer_drop`", "with": "with `layer_drop = 0.5`, constant"}
    rows = [
        [name, *(f"{fmean(one[value] for one in record['test_accuracy'][kind]):.2f} %" for value in ("intact", "half_removed"))]
        for kind, name in names.items()
    ]
    return table(["50 layers, MNIST, 30 epochs", "intact", "half of the layers removed"], rows)


def first_try() -> str:
    """The default run on own data, before and now."""
    record = json.loads((RESULTS / "first-try.json").read_text())
    rows = []
    for one in record["sets"]:
        means = [one["test_percent"][kind] for kind in ("before", "now")]
        seconds = fmean(run["seconds"] for run in one["runs"]["now"])
        rows.append([one["data"], *("refused" if mean is None else f"{mean:.1f} %" for mean in means), f"{seconds:.0f} s"])
    return table(["data", "before", "now", "time now"], rows)


def export_latency() -> str:
    """Ours compared with ONNX Runtime on the exported file."""
    record = json.loads((RESULTS / "export-latency.json").read_text())
    rows = []
    for one in record["rows"]:
        taken = one["milliseconds"]
        numbers = [taken[name] for name in ("ours", "network", "onnxruntime")]
        rows.append([one["network"], str(one["batch"]), *(f"{number:.3g}" for number in numbers), f"{numbers[2] / numbers[0]:.2f}"])
    headings = ["network", "batch", "ours", "ours, network only", "ONNX Runtime", "ONNX Runtime / ours"]
    return table(headings, rows)


def explore_speed() -> str:
    """The page in the browser, next to torch."""
    record = json.loads((RESULTS / "explore-speed.json").read_text())
    rows = [
        [
            f"`{name.partition(',')[0]}`{''.join(name.partition(',')[1:])}",
            f"{one['answer_ms']:.1f} ms",
            f"{one['engine_ms']:.1f} ms",
            f"{one['torch_ms']:.1f} ms",
            f"{one['first_answer_ms']:.0f} ms",
            f"{one['megabytes']:.1f} MB",
        ]
        for name, one in record["networks"].items()
    ]
    return table(["network", "answer", "of it computing", "torch, same gates", "first answer after opening", "page"], rows)


def parity() -> str:
    """Right answers for strings longer than those of training, by depth."""
    record = json.loads((RESULTS / "parity.json").read_text())
    rows = []
    for depth, group in groupby(record["runs"], key=lambda one: one["depth"]):
        ones: list[Any] = list(group)
        shares = [fmean(100 * one["right"][length] for one in ones) for length in ones[0]["right"]]
        rows.append([str(depth), f"{fmean(one['steps'] for one in ones):.0f}", *(f"{share:.1f} %" for share in shares)])
    lengths = [f"{int(length):,} bits" for length in record["runs"][0]["right"]]
    return table(["micro-layers", "steps of training", *lengths], rows)


def recurrent() -> str:
    """Time and memory of a training step of recurrent layers."""
    record, memory = (json.loads((RESULTS / f"{name}.json").read_text()) for name in ("bench-recurrent", "recurrent-memory"))
    rows = []
    for setting, group in groupby(record["recurrent"], key=lambda one: one["setting"]):
        ones: list[Any] = list(group)
        ours = ones[0]
        megabytes = [one["megabytes"] for one in memory["peers"] if one["setting"] == setting]
        size = f"{setting['width']}, {setting['depth']}, {setting['steps']}, {setting['batch']}"
        times = [*(f"{one['milliseconds']:.1f} ms" for one in ones), f"{ours['times_naive']:.1f}", f"{ours['times_lstm']:.2f}"]
        rows.append([size, *times, " / ".join(f"{one:.0f}" for one in megabytes)])
    headings = ["width, depth, steps, batch", "highwaynet", "naive loop", "nn.LSTM", "× naive", "× LSTM", "MB (same order)"]
    return table(headings, rows)


def depth_lstm() -> str:
    """Training losses of dense networks of four kinds, by depth."""
    record = json.loads((RESULTS / "depth-lstm.json").read_text())
    depths = sorted({one["depth"] for one in record["networks"]})
    rows = []
    for kind in dict.fromkeys(one["kind"] for one in record["networks"]):
        found = {one["depth"]: one["train_loss"] for one in record["networks"] if one["kind"] == kind}
        losses = [found.get(depth, []) for depth in depths]
        rows.append([kind, *("diverged" if loss is None else f"{loss[-1]:.4f}" if loss else "–" for loss in losses)])
    return table(["", *(f"{depth} layers" for depth in depths)], rows)


def wide() -> str:
    """Training steps of wide stacks, next to modules by hand, and with AVX2 only."""
    steps = json.loads((RESULTS / "bench-wide.json").read_text())["steps"]
    paths = json.loads((RESULTS / "stack-paths.json").read_text())["wide"]
    narrow = {one["system"]: one["times_by_hand"] for one in paths if one["instructions"] == "avx2"}
    rows = []
    for system, group in groupby(steps, key=lambda one: one["setting"]["system"]):
        ones = {one["peer"]: one for one in group}
        ours, naive, merged = ones["highwaynet"], ones["naive PyTorch"], ones["PyTorch, H and T merged"]
        setting = ours["setting"]
        rows.append(
            [
                f"{system}: {setting['layers']} of {setting['width']:,}, {setting['rows']:,} rows",
                *(f"{one['milliseconds']:.1f} ms" for one in (ours, naive, merged)),
                f"{ours['times_by_hand']:.2f}",
                f"{narrow[system]:.2f}",
            ]
        )
    return table(["highway layers", "highwaynet", "naive", "merged", "× the better", "the same, AVX2 only"], rows)


def conv() -> str:
    """Training steps of convolutional networks, next to torch's convolutions, bfloat16 and naive twins."""
    rows = []
    for one in json.loads((RESULTS / "conv-speed.json").read_text())["results"]:
        times = [f"{one[f'{peer}_ms']:.0f} ms" for peer in ("ours", "torch_convolutions", "bfloat16", "naive")]
        rows.append([f"`{one['network']}`", *times, f"{one['ratio']:.1f}"])
    return table(["network", "highwaynet", "PyTorch's convolutions", "the same, bfloat16", "naive", "× naive"], rows)


def tables() -> str:
    """Scores and times of four models on eight tables."""
    record = json.loads((RESULTS / "tables.json").read_text())
    rows = []
    for one in record["tables"]:
        models = one["models"]
        best = max(models, key=lambda model: fmean(models[model]["scores"]))
        cells = []
        for model, found in models.items():
            score = f"{fmean(found['scores']):.3f} ± {stdev(found['scores']):.3f}"
            cells.append(f"**{score}**" if model == best else score)
        rows.append([f"{one['table']} ({one['score']})", f"{one['rows']:,}", *cells])
    return table(["table", "rows", *record["tables"][0]["models"]], rows)


def table_times() -> str:
    """Times of `fit` of four models on eight tables."""
    record = json.loads((RESULTS / "tables.json").read_text())
    rows = [[one["table"], *(f"{fmean(found['seconds']):.2f} s" for found in one["models"].values())] for one in record["tables"]]
    return table(["seconds of `fit`", *record["tables"][0]["models"]], rows)


def table_ranks() -> str:
    """Mean ranks, and how often our estimators reach which aim."""
    found = json.loads((RESULTS / "tables.json").read_text())["summary"]
    count = len(json.loads((RESULTS / "tables.json").read_text())["tables"])
    rows = [["mean rank by score (1 is best)", ", ".join(f"{model} {rank:.2f}" for model, rank in found["mean_rank"].items())]]
    rows += [
        ["better than the MLP", f"{found['ahead_of_mlp']} of {count} tables"],
        ["within one standard deviation of the best model", f"{found['within_a_deviation_of_the_best']} of {count}"],
        ["`fit` takes no longer than that of the MLP", f"{found['as_fast_as_mlp']} of {count}"],
    ]
    return table(["highwaynet", "result"], rows)


def table_study() -> str:
    """What changing one default costs."""
    record = json.loads((RESULTS / "table-study.json").read_text())
    rows = [
        [one["change"], f"{one['error_percent']:+.1f} %", f"{one['better']} of {one['of']}"]
        for one in record["changes"]
        if one["change"] != "start"
    ]
    return table(["change", "error", "better in"], rows)


def member_study() -> str:
    """What members and other budgets change."""
    record = json.loads((RESULTS / "member-study.json").read_text())
    rows = []
    for one in record["changes"]:
        if one["change"] != "start":
            sizes = [f"{one[size]['error_percent']:+.1f} ± {one[size]['standard_error']:.1f} %" for size in ("medium", "small")]
            rows.append([one["change"], *sizes, f"{one['all']['error_percent']:+.1f} %", f"{one['all']['better']} of {one['all']['of']}"])
    return table(["change", "16 medium tables", "15 small tables", "all", "better in"], rows)


def tables_members() -> str:
    """One network beside one with four members: scores, and what they are beside the other models."""
    records = [json.loads((RESULTS / f"{name}.json").read_text()) for name in ("tables", "tables-members")]
    rows = []
    for pair in zip(*(record["tables"] for record in records), strict=True):
        scores = [one["models"]["highwaynet"]["scores"] for one in pair]
        rows.append([f"{pair[0]['table']} ({pair[0]['score']})", *(f"{fmean(each):.3f} ± {stdev(each):.3f}" for each in scores)])
    rows.append(["mean rank", *(f"{record['summary']['mean_rank']['highwaynet']:.2f}" for record in records)])
    counts = {"ahead_of_mlp": "better than the MLP", "within_a_deviation_of_the_best": "within one standard deviation of the best"}
    rows += [[words, *(f"{record['summary'][name]} of {len(record['tables'])}" for record in records)] for name, words in counts.items()]
    return table(["table", "one network (default)", "4 members, half the steps"], rows)


def two_runtimes() -> str:
    """A training step beside scikit-learn's OpenMP runtime."""
    record = json.loads((RESULTS / "two-runtimes.json").read_text())
    threads = list(record["steps"][0]["milliseconds"])
    rows = [[one["process"], *(f"{one['milliseconds'][count]:.2f} ms" for count in threads)] for one in record["steps"]]
    rows.append(["search of 12 fits, `n_jobs=1` and `n_jobs=2`", *(f"{seconds:.1f} s" for seconds in record["search_seconds"].values())])
    return table(["process", *(f"{count} thread{'s' * (count != '1')}" for count in threads)], rows)


TABLES: dict[str, tuple[str, str, Callable[[], str]]] = {
    "shrinking": ("SHRINKING.md", "shrinking.json", shrinking),
    "layer-drop": ("SHRINKING.md", "layer-drop.json", layer_drop),
    "export-latency": ("EXPORT.md", "export-latency.json", export_latency),
    "wide": ("SPEED.md", "bench-wide.json", wide),
    "conv": ("SPEED.md", "conv-speed.json", conv),
    "first-try": ("DATA.md", "first-try.json", first_try),
    "explore-speed": ("EXPLORE.md", "explore-speed.json", explore_speed),
    "parity": ("RECURRENT.md", "parity.json", parity),
    "recurrent": ("RECURRENT.md", "recurrent-memory.json", recurrent),
    "depth-lstm": ("RECURRENT.md", "depth-lstm.json", depth_lstm),
    "tables": ("ESTIMATOR.md", "tables.json", tables),
    "table-times": ("ESTIMATOR.md", "tables.json", table_times),
    "table-ranks": ("ESTIMATOR.md", "tables.json", table_ranks),
    "table-study": ("ESTIMATOR.md", "table-study.json", table_study),
    "member-study": ("ESTIMATOR.md", "member-study.json", member_study),
    "tables-members": ("ESTIMATOR.md", "tables-members.json", tables_members),
    "two-runtimes": ("ESTIMATOR.md", "two-runtimes.json", two_runtimes),
}
"""By mark: page, record, and the function that makes the table."""


def written(mark: str, page: str, made: str) -> str:
    """Return the page with this table between its marks."""
    pattern = rf"(<!-- {mark}: written by docs/measured\.py -->\n).*?(<!-- end -->)"
    text, count = re.subn(pattern, lambda found: f"{found[1]}{made}\n{found[2]}", page, flags=re.DOTALL)
    if count != 1:
        raise SystemExit(f"{page[:40]}… has no mark {mark}")
    return text


def main() -> None:
    """Write all tables."""
    for mark, (name, record, make) in TABLES.items():
        if (RESULTS / record).is_file():
            path = DOCS / name
            path.write_text(written(mark, path.read_text(), make()))


if __name__ == "__main__":
    main()
