"""Writes docs/RESULTS.md and the tables of README.md and docs/SEARCH.md from the records in results/: python docs/results.py.

A test fails if they disagree. The record of a claim is results/NAME/record.json, as `highway reproduce NAME` wrote it; claims without
one are listed as not run.
"""

import json
import re
import textwrap
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from highwaynet.base.text import loss_text
from highwaynet.experiments.claim_records import JUDGED, ClaimRecord, RowRecord, RuleRecord, load_claim
from highwaynet.experiments.claims import Claim, Scale
from highwaynet.experiments.registry import CLAIMS, WITHOUT_A_CLAIM

ROOT = Path(__file__).parents[1]
RESULTS, WIDTH = ROOT / "results", 120
BEGIN, END = "<!-- results: written by docs/results.py -->", "<!-- results end -->"
NONE_FRESH = "No verdict is *fresh* yet: every rule was written or changed after the results of these or similar runs were known."
FRESH = "Fresh: the rules were committed before the runs, whose seeds had not been used before; `plan.json` names the commit."

HEAD = """# Results of the paper, reproduced

This page compares the claims of the paper and of two later reports (of 2016 and 2021, both from Columbia University)
with the results of runs on a laptop. Each claim has numbers, figures, and rules that hold or do not.
"""

GUIDE = """## How to read it

A claim has one or more rules. The verdict on a rule is one of these:

- *reproduced*: the rule holds, with several seeds for more than half of them;
- *differs*: the rule does not hold;
- *not reached at this budget*: the rule does not hold, but the runs had fewer epochs than at scale `paper`;
- *not run*: there are no runs for it.

If all rules of a claim have the same verdict, it is the verdict on the claim; otherwise the table counts the rules that
are reproduced. *One seed* means that each network was trained once, so that another seed may give another verdict.
*Fresh* means that the rules were committed before the runs, whose seeds had not been used before; `plan.json` names the
commit.

To repeat the results (needs the extra `figures`):

```
highway reproduce list                     # figures, tables and claims of the paper
highway reproduce fig1 --scale smoke       # a minute, on digits: shows that everything works
highway reproduce table1 --plan            # what would be run, and how long that takes here
highway reproduce table1                   # the runs, the paper's numbers next to yours, the figure, a verdict
```

The same command continues after an interruption. Every ten minutes, and when it is interrupted, it also writes what the
rules need of finished runs to the folder of the claim (`ended.zip`, without weights). Copied into the folder `--out` of
another machine, the claim continues there, and makes only the runs that are missing.

The runs below have scale `laptop`. [PAPER_SCALE.md](PAPER_SCALE.md) explains how to run the original budgets on a GPU.

The files are in [results](../results). `plan.json` next to each record holds the rules as they were when the plan was
written, and names the runs that existed before. `python docs/results.py` writes this page from the records.

"""


def records() -> dict[str, ClaimRecord]:
    """Return the records of the claims that were run."""
    found = {name: load_claim(RESULTS / name) for name in CLAIMS}
    return {name: record for name, record in found.items() if record is not None}


def fresh_note(claims: Iterable[str] = CLAIMS) -> list[str]:
    """Return a sentence about rules of these claims that were, or were not, committed before the runs."""
    known = [record for name, record in records().items() if name in set(claims)]
    return [FRESH if any(rule.fresh for record in known for rule in record.rules) else NONE_FRESH]


def overview() -> list[str]:
    """The table of the claims that were run; the names of claims are links, see `links`. The others are named below it."""
    known = records()
    lines = ["| claim | the paper | here | verdict |", "|---|---|---|---|"]
    for name in _run():
        claim, record = CLAIMS[name], known[name]
        scale = "" if record.scale == "laptop" else f" (scale {record.scale})"
        place = re.split("[:,]", claim.title)[0].removeprefix("The ")
        lines.append(f"| [{place}][{name}] | {claim.short} | {record.headline} | {record.shown}{scale} |")
    waiting = [f"`{name}`" for name in CLAIMS if name not in _run()]
    note = [f"Not run yet: {', '.join(waiting)}."] if waiting else []
    return [*lines, "", *wrapped(" ".join([*note, *fresh_note()]))]


def _run() -> list[str]:
    """The claims that were run."""
    known = records()
    return [name for name in CLAIMS if name in known and known[name].verdict != "not run"]


def coverage() -> list[str]:
    """What is covered, and what is not."""
    known = records()
    rules = [rule for name, claim in CLAIMS.items() for rule in (known[name].rules if name in known else claim.rules)]
    verdicts = Counter(rule.verdict if isinstance(rule, RuleRecord) else "not run" for rule in rules)
    judged = [rule for rule in rules if isinstance(rule, RuleRecord) and rule.verdict in JUDGED]
    counts = ", ".join(f"{number} {word}" for word in (*JUDGED, "not run") if (number := verdicts[word]))
    thin = sum(rule.seeds == 1 for rule in judged)
    waiting = [f"`{name}`" for name in CLAIMS if name not in _run()]
    lines = [f"- Covered: {len(CLAIMS)} claims with {len(rules)} rules: {counts}."]
    lines += [f"- Of the {len(judged)} rules that were judged, {thin} rest on one seed and {sum(rule.fresh for rule in judged)} are fresh."]
    lines += [f"- Not run yet: {', '.join(waiting)}."] if waiting else []
    lines += ["- Not covered by any claim:"]
    lines += [f"  - {text}{';' if text is not WITHOUT_A_CLAIM[-1] else '.'}" for text in WITHOUT_A_CLAIM]
    return ["", *(row for line in lines for row in _bullet(line)), ""]


def _bullet(line: str) -> list[str]:
    indent = "    " if line.startswith("  ") else "  "
    return wrapped(line.strip(), indent[2:], indent)


def links() -> list[str]:
    """Return the link definitions of the table."""
    return [f"[{name}]: #{name}" for name in _run()]


def command(claim: Claim, scale: Scale = "laptop") -> str:
    """What repeats it."""
    return f"highway reproduce {claim.name}" + ("" if scale == "laptop" else f" --scale {scale}")


def wrapped(text: str, first: str = "", rest: str = "") -> list[str]:
    """Wrap prose to the lines of a page."""
    held = re.sub(r" (?=(?:[-+=>#*]|\d+[.)]) )", "\xa0", text)  # no line may start like a Markdown list
    lines = textwrap.wrap(held, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False)
    return [line.replace("\xa0", " ") for line in lines]


def section(claim: Claim) -> list[str]:
    """Return the section about a claim, with its numbers, rules and figures."""
    lines = [f'<a id="{claim.name}"></a>', "", f"## {claim.title}", "", *wrapped(claim.paper), ""]
    record = records().get(claim.name)
    if record is None:
        return [*lines, *wrapped(f"Not run yet. Command: `{command(claim)}`."), "", *_rule_texts(claim), ""]
    runs = f"{len(record.runs)} run{'s' if len(record.runs) > 1 else ''}"
    before = f", {record.made_before} of which were made before the rules were written" if record.made_before else ""
    lines += [*wrapped(f"Verdict: **{record.shown}** (scale {record.scale}, {runs}{before})."), ""]
    lines += [*wrapped(f"- Setting: {sentence(record.note)}", rest="  ")] if record.note else []
    lines += [*wrapped(f"- Known when the rules were written: {claim.seen}.", rest="  ")] if claim.seen else []
    lines += [f"- Repeat it: `{command(claim, record.scale)}`. Record: [results/{claim.name}](../results/{claim.name}).", ""]
    if record.rows:
        lines += [f"| | {claim.source} | here |", "|---|---|---|", *map(_row, record.rows), ""]
    lines += [f"Rule{'s' if len(record.rules) > 1 else ''}:", ""]
    for rule in record.rules:
        lines += finding(rule, claim.source)
    lines.append("")
    if record.verdict == "not run":  # figures of runs that were judged by other rules
        return lines
    for name in record.figures:
        lines += [f"![{claim.name}: {Path(name).stem}](../results/{claim.name}/figures/{name})", ""]
    return lines


def _rule_texts(claim: Claim) -> list[str]:
    """The rules by which it will be judged."""
    return [line for rule in claim.rules for line in wrapped(f"- **{rule.name}**: {rule.text}.", rest="  ")]


def finding(rule: RuleRecord, source: str) -> list[str]:
    """A rule: what the paper says, when that is reproduced, and what was found."""
    lines = [f"- **{rule.name}**: {rule.shown}"]
    here = (("here", rule.found),) if rule.verdict != "not run" else ()
    for word, text in ((source, rule.paper), ("rule", rule.text), *here):
        lines += wrapped(f"{sentence(word)}: {text}.", "  - ", "    ")
    return lines


def sentence(text: str) -> str:
    """Capitalise the first letter."""
    return f"{text[:1].upper()}{text[1:]}"


def _row(row: RowRecord) -> str:
    return f"| {row.what} | {row.paper} | {row.here} |"


def page() -> str:
    """docs/RESULTS.md."""
    lines = [*coverage(), *overview(), "", *links(), "", *GUIDE.splitlines()]
    for claim in CLAIMS.values():
        lines += section(claim)
    return HEAD + "\n".join(lines).rstrip() + "\n"


def readme(text: str) -> str:
    """Return the README with its table updated from the records; unchanged if it has no place for the table."""
    before, mark, rest = text.partition(BEGIN)
    if not mark:
        return text
    table = re.sub(r"^\| \[(.*?)\]\[.*?\]", r"| \1", "\n".join(overview()), flags=re.MULTILINE)  # without links: it is a short page
    return "\n".join([before + BEGIN, table, END]) + rest.partition(END)[2]


def study_table() -> list[str]:
    """Return the table of the paper's study: how many settings train, and the losses of the best ones."""
    short, longer = (_configurations(RESULTS / "paper-mnist" / name) for name in ("study.json", "finals.json"))
    headings = ["network", "train", "diverged", "best, 5 epochs", "ten best, 5 epochs"]
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
    """Return the results of a study, by configuration; empty if it was not run."""
    known = json.loads(path.read_text(encoding="utf-8"))["configurations"] if path.is_file() else []
    return {one["label"]: one for one in known}


def _mean(one: dict[str, Any]) -> str:
    return f"{loss_text(one['top_mean'])} ± {loss_text(one['top_std'])}"


def search_page(text: str) -> str:
    """Return docs/SEARCH.md with its table updated from the records."""
    before, _, rest = text.partition(BEGIN)
    return "\n".join([before + BEGIN, *study_table(), END]) + rest.partition(END)[2]


if __name__ == "__main__":
    (ROOT / "docs" / "RESULTS.md").write_text(page(), encoding="utf-8")
    for path, write in ((ROOT / "README.md", readme), (ROOT / "docs" / "SEARCH.md", search_page)):
        path.write_text(write(path.read_text(encoding="utf-8")), encoding="utf-8")
