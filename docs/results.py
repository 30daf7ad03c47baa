"""Writes docs/RESULTS.md and the tables of README.md and docs/SEARCH.md from the records in results/: python docs/results.py.

A test fails when they disagree. A claim's record lies in results/NAME/record.json, as `highway reproduce NAME` made it; claims without
one are listed as not run.
"""

import json
from pathlib import Path
from typing import Any

from highwaynet.base.text import loss_text
from highwaynet.experiments.claims import Claim, Scale
from highwaynet.experiments.records import ClaimRecord, RowRecord, RuleRecord, load_claim
from highwaynet.experiments.registry import CLAIMS

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
NEEDS_A_GPU = ("table3",)
"""Claims that are not run at scale laptop."""
BEGIN, END = "<!-- results: written by docs/results.py -->", "<!-- results end -->"

KEYS = {
    "fig1": ["100 layers", "highway, all depths"],
    "fig2": ["MNIST: biases", "CIFAR-100: biases"],
    "fig3": ["MNIST: routes", "CIFAR-100: routes"],
    "report2016": ["alike"],
    "report2021": ["ReLU, Glorot's weights", "sigmoid, Glorot's weights"],
}
"""Rules whose numbers stand in the overview; all where a claim has none here."""

HEAD = """# The paper's results, here

What the paper and the two reports claim, beside what runs on a laptop gave, with a verdict by written rules. `plan.json` beside each record
holds the rules as they stood when it was written, and names the runs that were there already; ¹ marks verdicts by rules that were written
down, or changed, when the runs or similar ones were known, and so may have been shaped by them.
Made by `highway reproduce NAME`; written from the records in [results](../results) by
`python docs/results.py`.
Scale `laptop` is what two cores do in an evening; [PAPER_SCALE.md](PAPER_SCALE.md) says how to run the original budgets on a GPU.

A claim is *reproduced* where all its rules hold, *not reproduced* where none of those that could be judged holds, not even partly, and
*partly* in between, also where all hold that could be judged.

"""


FOOTNOTE = "¹ By rules that were written down, or changed, when runs or similar ones were known."


def overview(link: str) -> list[str]:
    """The table of all claims."""
    lines = ["| claim | the paper | here | scale | verdict | command |", "|---|---|---|---|---|---|"]
    for claim in CLAIMS.values():
        record = load_claim(RESULTS / claim.name)
        title = f"[{claim.title}]({link}#{claim.name})"
        here, scale, verdict = missing(claim), "–", "not run"
        if record is not None:
            here, scale, verdict = headline(record), record.scale, marked(record.verdict, *record.rules)
        repeat = command(claim, record.scale if record else None)
        lines.append(f"| {title} | {claim.paper} | {here} | {scale} | **{verdict}** | `{repeat}` |")
    return [*lines, "", FOOTNOTE]


def marked(verdict: str, *rules: RuleRecord) -> str:
    """A verdict, with ¹ where one of its rules may have been shaped by runs."""
    return verdict if verdict == "not run" or all(rule.written_before for rule in rules) else f"{verdict}¹"


def missing(claim: Claim) -> str:
    """Why there is no record."""
    return claim.notes["laptop"].rstrip(".") if claim.name in NEEDS_A_GPU else "not run yet"


def command(claim: Claim, scale: Scale | None = None) -> str:
    """What repeats it: at the scale of its record, or at the smallest at which it says something about the paper."""
    scale = scale or ("paper" if claim.name in NEEDS_A_GPU else "laptop")
    return f"highway reproduce {claim.name}" + ("" if scale == "laptop" else f" --scale {scale}")


def headline(record: ClaimRecord) -> str:
    """How many rules hold, and the numbers that tell most."""
    shown = KEYS.get(record.claim, [rule.name for rule in record.rules])
    texts = [f"{rule.name}: {rule.found.partition(';')[0]}" for rule in record.rules if rule.name in shown and rule.verdict != "not run"]
    return "; ".join([*([_counts(record)] if len(record.rules) > 1 else []), *texts])


def _counts(record: ClaimRecord) -> str:
    counts: dict[str, int] = {}
    for rule in record.rules:
        counts[rule.verdict] = counts.get(rule.verdict, 0) + 1
    order = ("reproduced", "partly", "not reproduced", "not run", "not judged")
    words = [f"{counts[word]} {word}" for word in order if word in counts]
    return f"of {len(record.rules)} findings " + ", ".join(words)


def section(claim: Claim) -> list[str]:
    """A claim with its numbers, rules and figures."""
    lines = [f'<a id="{claim.name}"></a>', "", f"## {claim.title}", "", claim.paper, ""]
    record = load_claim(RESULTS / claim.name)
    if record is None:
        return [*lines, f"{_sentence(missing(claim))}. Command: `{command(claim)}`.", ""]
    runs = f"{len(record.runs)} run{'s' if len(record.runs) > 1 else ''}"
    before = f", {record.made_before} of which had been made before the rules were written down" if record.made_before else ""
    seen = f" Known when the rules were written: {claim.seen}." if claim.seen else ""
    lines += [f"**{marked(record.verdict, *record.rules)}**, scale {record.scale}, {runs}{before}. {_sentence(record.note)}{seen}", ""]
    if record.rows:
        lines += [f"| | {claim.source} | here |", "|---|---|---|", *map(_row, record.rows), ""]
    lines += [f"| {claim.source} | rule | here | |", "|---|---|---|---|"]
    text = ""
    for rule in record.rules:
        same, text = rule.text == text, rule.text
        verdict = marked(rule.verdict, rule)
        lines.append(f"| {rule.name}: {rule.paper} | {'the same' if same else text} | {rule.found} | **{verdict}** |")
    lines.append("")
    for name in record.figures:
        lines += [f"![{claim.title}: {Path(name).stem}](../results/{claim.name}/figures/{name})", ""]
    return [*lines, f"Repeat it: `{command(claim, record.scale)}`. Record: [results/{claim.name}](../results/{claim.name}).", ""]


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _row(row: RowRecord) -> str:
    return f"| {row.what} | {row.paper} | {row.here} |"


def page() -> str:
    """docs/RESULTS.md."""
    lines = [*overview(""), ""]
    for claim in CLAIMS.values():
        lines += section(claim)
    return HEAD + "\n".join(lines).rstrip() + "\n"


def readme(text: str) -> str:
    """The README with its table as the records have it; one without a place for it stays as it is."""
    before, mark, rest = text.partition(BEGIN)
    if not mark:
        return text
    return "\n".join([before + BEGIN, *overview("docs/RESULTS.md"), END]) + rest.partition(END)[2]


def study_table() -> list[str]:
    """The paper's study: how many settings train, and how far the best ones come."""
    short, longer = (_configurations(RESULTS / "paper-mnist" / name) for name in ("study.json", "finals.json"))
    headings = ["network", "settings that train", "diverged", "best, 5 epochs", "ten best, 5 epochs"]
    headings += ["best, 40 epochs", "ten best, 40 epochs"] if longer else []
    lines = [f"| {' | '.join(headings)} |", "|---" * len(headings) + "|"]
    for label, one in short.items():
        network = f"{one['axes']['network.name'].removeprefix('fc-')}, {one['axes']['network.depth']} layers"
        cells = [network, f"{100 * one['trained_share']:.0f} %", str(one["diverged"])]
        for part in (one, longer[label]) if longer else (one,):
            cells += [loss_text(part["top"][0]["value"]), _mean(part)]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _configurations(path: Path) -> dict[str, dict[str, Any]]:
    """What a study came to, by configuration; nothing where it was not run."""
    known = json.loads(path.read_text(encoding="utf-8"))["configurations"] if path.is_file() else []
    return {one["label"]: one for one in known}


def _mean(one: dict[str, Any]) -> str:
    return f"{loss_text(one['top_mean'])} ± {loss_text(one['top_std'])}"


def search_page(text: str) -> str:
    """docs/SEARCH.md with its table as the records have it."""
    before, _, rest = text.partition(BEGIN)
    return "\n".join([before + BEGIN, *study_table(), END]) + rest.partition(END)[2]


if __name__ == "__main__":
    (ROOT / "docs" / "RESULTS.md").write_text(page(), encoding="utf-8")
    for path, write in ((ROOT / "README.md", readme), (ROOT / "docs" / "SEARCH.md", search_page)):
        path.write_text(write(path.read_text(encoding="utf-8")), encoding="utf-8")
