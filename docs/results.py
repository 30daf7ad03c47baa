"""Writes docs/RESULTS.md and the tables of README.md and docs/SEARCH.md from the records in results/: python docs/results.py.

A test fails if they disagree. The record of a claim is results/NAME/record.json, as `highway reproduce NAME` wrote it; claims without
one are listed as not run.
"""

import json
import re
import textwrap
from pathlib import Path
from typing import Any

from highwaynet.base.text import loss_text
from highwaynet.experiments.claim_records import ClaimRecord, RowRecord, RuleRecord, load_claim
from highwaynet.experiments.claims import Claim, Scale
from highwaynet.experiments.registry import CLAIMS
from highwaynet.experiments.reproduce import stored_evidence

ROOT = Path(__file__).parents[1]
RESULTS, WIDTH = ROOT / "results", 120
NEEDS_A_GPU = ("table3",)
"""Claims that are not run at scale laptop."""
BEGIN, END = "<!-- results: written by docs/results.py -->", "<!-- results end -->"
ALL_LATE = "All rules were written, or changed, when these or similar runs were known."
SOME_LATE = "¹ By a rule that was written, or changed, when these or similar runs were known."

HEAD = """# The paper's results, repeated

This page compares what the paper and two later reports claim with what runs on a laptop gave. Each claim has numbers,
figures and a verdict. Verdicts follow from written rules:

- *reproduced*: all rules of the claim hold;
- *not reproduced*: of the rules that could be judged, none holds, not even partly;
- *partly*: everything in between, also if all rules hold that could be judged but some could not be.

Repeat it with (extra `figures`):

```
highway reproduce list                     # figures, tables and claims of the paper
highway reproduce fig1 --scale smoke       # a minute, on digits: shows that everything works
highway reproduce table1 --plan            # what would be run, and how long that takes here
highway reproduce table1                   # the runs, the paper's numbers next to yours, the figure, a verdict
```

The runs below have scale `laptop`, which takes two cores up to an evening. [PAPER_SCALE.md](PAPER_SCALE.md) explains
how to run the original budgets on a GPU.

The files are in [results](../results). `plan.json` next to each record holds the rules as they were when the plan was
written, and names the runs that existed before. Rules that were written, or changed, when runs were known may have been
influenced by them. `python docs/results.py` writes this page from the records.

"""


def records() -> dict[str, ClaimRecord]:
    """Return the records of the claims that were run."""
    found = {name: load_claim(RESULTS / name) for name in CLAIMS}
    return {name: record for name, record in found.items() if record is not None}


def late_note() -> list[str]:
    """Return a sentence about rules that were not written before the runs; empty if there are none."""
    before = {rule.written_before for record in records().values() for rule in record.rules}
    return {frozenset({False}): [ALL_LATE], frozenset({True, False}): [SOME_LATE]}.get(frozenset(before), [])


def marked(verdict: str, *rules: RuleRecord) -> str:
    """Return a verdict, with ¹ if one of its rules was written late; without it if all rules on the page were."""
    is_marked = SOME_LATE in late_note() and verdict != "not run" and not all(rule.written_before for rule in rules)
    return f"{verdict}¹" if is_marked else verdict


def overview() -> list[str]:
    """Return the table of all claims; their names are links, defined by `links`."""
    lines = ["| claim | the paper | here | verdict |", "|---|---|---|---|"]
    for claim in CLAIMS.values():
        record, here, verdict = load_claim(RESULTS / claim.name), missing(claim), "not run"
        if record is not None:
            here = claim.headline(stored_evidence(RESULTS / claim.name, record))
            scale = "" if record.scale == "laptop" else f" (scale {record.scale})"
            verdict = marked(record.verdict, *record.rules) + scale
        place = re.split("[:,]", claim.title)[0]
        lines.append(f"| [{place}][{claim.name}] | {claim.short} | {here} | {verdict} |")
    return [*lines, "", *late_note()]


def links(page: str) -> list[str]:
    """Return the link definitions of the table."""
    return [f"[{name}]: {page}#{name}" for name in CLAIMS]


def missing(claim: Claim) -> str:
    """Say why there is no record."""
    return "needs a GPU" if claim.name in NEEDS_A_GPU else "not run yet"


def command(claim: Claim, scale: Scale | None = None) -> str:
    """Return the command for a claim, at the given scale or at the smallest one that is judged."""
    scale = scale or ("paper" if claim.name in NEEDS_A_GPU else "laptop")
    return f"highway reproduce {claim.name}" + ("" if scale == "laptop" else f" --scale {scale}")


def wrapped(text: str, first: str = "", rest: str = "") -> list[str]:
    """Wrap prose to the lines of a page."""
    held = re.sub(r" (?=(?:[-+=>#*]|\d+[.)]) )", "\xa0", text)  # no line may start like a Markdown list
    lines = textwrap.wrap(held, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False)
    return [line.replace("\xa0", " ") for line in lines]


def section(claim: Claim) -> list[str]:
    """Return the section about a claim, with its numbers, rules and figures."""
    lines = [f'<a id="{claim.name}"></a>', "", f"## {claim.title}", "", *wrapped(claim.paper), ""]
    record = load_claim(RESULTS / claim.name)
    if record is None:
        why = claim.notes["laptop"].rstrip(".") if claim.name in NEEDS_A_GPU else "not run yet"
        return [*lines, *wrapped(f"{sentence(why)}. Command: `{command(claim)}`."), ""]
    runs = f"{len(record.runs)} run{'s' if len(record.runs) > 1 else ''}"
    before = f", {record.made_before} of which were made before the rules were written" if record.made_before else ""
    verdict = f"**{marked(record.verdict, *record.rules)}**" + (f", {counts(record)}" if len(record.rules) > 1 else "")
    lines += [*wrapped(f"Verdict: {verdict} (scale {record.scale}, {runs}{before})."), ""]
    lines += [*wrapped(f"- Setting: {sentence(record.note)}", rest="  ")] if record.note else []
    lines += [*wrapped(f"- Known when the rules were written: {claim.seen}.", rest="  ")] if claim.seen else []
    lines += [f"- Repeat it: `{command(claim, record.scale)}`. Record: [results/{claim.name}](../results/{claim.name}).", ""]
    if record.rows:
        lines += [f"| | {claim.source} | here |", "|---|---|---|", *map(_row, record.rows), ""]
    lines += [f"Finding{'s' if len(record.rules) > 1 else ''}:", ""]
    for rule in record.rules:
        lines += finding(rule, claim.source)
    lines.append("")
    for name in record.figures:
        lines += [f"![{claim.name}: {Path(name).stem}](../results/{claim.name}/figures/{name})", ""]
    return lines


def counts(record: ClaimRecord) -> str:
    """Say how many findings of a claim have each verdict."""
    verdicts = [rule.verdict for rule in record.rules]
    order = ("reproduced", "partly", "not reproduced", "not run", "not judged")
    words = [f"{verdicts.count(word)} {word}" for word in order if word in verdicts]
    return f"of {len(verdicts)} findings " + ", ".join(words)


def finding(rule: RuleRecord, source: str) -> list[str]:
    """Return the lines about a rule: what the paper says, when it counts as reproduced, and what was found."""
    lines = [f"- **{rule.name}**: {marked(rule.verdict, rule)}"]
    for word, text in ((source, rule.paper), ("rule", rule.text), ("here", rule.found)):
        lines += wrapped(f"{sentence(word)}: {text}.", "  - ", "    ")
    return lines


def sentence(text: str) -> str:
    """Capitalise the first letter."""
    return f"{text[:1].upper()}{text[1:]}"


def _row(row: RowRecord) -> str:
    return f"| {row.what} | {row.paper} | {row.here} |"


def page() -> str:
    """Return docs/RESULTS.md."""
    lines = [*overview(), "", *links(""), ""]
    for claim in CLAIMS.values():
        lines += section(claim)
    return HEAD + "\n".join(lines).rstrip() + "\n"


def readme(text: str) -> str:
    """Return the README with its table updated from the records; unchanged if it has no place for the table."""
    before, mark, rest = text.partition(BEGIN)
    if not mark:
        return text
    return "\n".join([before + BEGIN, *overview(), "", *links("docs/RESULTS.md"), END]) + rest.partition(END)[2]


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
