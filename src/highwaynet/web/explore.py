"""`explore(run)`: a page in which a trained network can be tried, as one HTML file."""

import os
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from highwaynet.analysis.collect import Study
from highwaynet.base.errors import InputError
from highwaynet.base.files import write_atomically
from highwaynet.networks.description import describe_plan
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.names import Kept
from highwaynet.runs.stages import check_outputs
from highwaynet.web.contents import input_contents, network_contents, sample_contents
from highwaynet.web.page import is_own_page, render_explorer, shows

SAMPLES, MOST_SAMPLES = 200, 5000
"""Number of samples in a page by default, and at most."""
SAMPLE_BYTES, SAMPLE_EFFORT = 600_000, 20e9
"""The default is smaller if that many samples need more memory, or more multiply-adds to count the right answers."""
FORM = ("kind", "task", "input_shape", "class_names", "full_scale", "encoder", "target_name")
"""Fields of the data record that two runs in one page must share."""


def explore(
    run: str | PathLike[str],
    other: str | PathLike[str] | None = None,
    *,
    out: str | PathLike[str] | None = None,
    samples: int | None = None,
    checkpoint: Kept | None = None,
    data: Any = None,
    overwrite: bool = False,
) -> Path:
    """Write a page in which a trained network can be tried: one HTML file that holds the network, runs it, and works offline.

    Args:
        run: The run that `train` returned, or its directory.
        other: A second run on the same data, to compare both side by side.
        out: The file to write; by default `RUN-explore.html` next to the run.
        samples: How many samples of the test data the page holds; by default up to 200.
        checkpoint: Which weights, "final", "best" or "average"; by default those that are the run's answer.
        data: The data, if the runs were trained on data in memory.
        overwrite: Replace a file that is not a page of this package.

    Returns:
        The path of the page.

    Raises:
        InputError: If a run is damaged, its data are missing, its network is too large for a page, or the file cannot be written.
    """
    runs = [Path(one) for one in (run, other) if one is not None]
    path = Path(out) if out is not None else page_path(runs)
    check_target(path, overwrite=overwrite)
    if samples is not None and not 1 <= samples <= MOST_SAMPLES:
        raise InputError(f"samples = {samples}: choose a number from 1 to {MOST_SAMPLES:,}")
    studies = [Study(RunDirectory.open(one), checkpoint, data) for one in runs]
    for study in studies:
        check_outputs(study.spec, study.run.path)
    _check_alike(studies)
    first = studies[0].data
    count = samples or _usual_samples(studies)
    networks = [network_contents(study, count) for study in studies]
    facts, values = sample_contents(first, count)
    title = " and ".join(study.title for study in studies) + f" on {studies[0].spec.data.title}"
    page = render_explorer(
        title,
        {
            "title": title,
            "data": studies[0].spec.data.title,
            "input": input_contents(first),
            "samples": facts,
            "networks": [network.facts for network in networks],
        },
        {f"network-{place}": network.numbers for place, network in enumerate(networks)} | {"samples": values},
        [study.run.fingerprint(study.checkpoint) for study in studies],
    )
    write_atomically(path, page)
    return path


def page_path(runs: Sequence[Path]) -> Path:
    """Return where the page of these runs is written by default."""
    names = "-and-".join(run.resolve().name for run in runs)
    return runs[0].resolve().with_name(f"{names}-explore.html")


def pages_about(run: RunDirectory, beside: Sequence[Path] = ()) -> list[Path]:
    """Return the pages at their default places that show the network of a run as it is now, alone or with one of the runs beside it."""
    own = run.path.resolve()
    others = [path.resolve() for path in beside if path.resolve() != own]
    candidates = [[own], *([own, other] for other in others), *([other, own] for other in others)]
    fingerprint = run.fingerprint(run.answer)
    return [path for one in candidates if shows(path := page_path(one), fingerprint)]


def check_target(path: Path, *, overwrite: bool) -> None:
    """Raise InputError if the page cannot be written there."""
    if path.is_dir():
        raise InputError(f"--out {path}: this is a folder; name the HTML file to write")
    if path.exists() and not path.is_file():
        raise InputError(f"--out {path}: this is not a regular file; name another file")
    if path.exists() and not overwrite and not is_own_page(path):
        raise InputError(
            f"--out {path}: the file exists and is not a page of highwaynet; name another file, or replace it with --overwrite"
        )
    if not path.parent.is_dir():
        raise InputError(f"--out {path}: the folder {path.parent} does not exist; create it, or name another")
    if not os.access(path.parent, os.W_OK):  # before anything is computed
        raise InputError(f"cannot write {path}: permission denied")


def _check_alike(studies: Sequence[Study]) -> None:
    """Raise InputError if two runs take different inputs or give different answers."""
    first, *others = [study.run.load_preparation().record for study in studies]  # before any data are read
    for study, record in zip(studies[1:], others, strict=True):
        for field in FORM:
            if getattr(record, field) != getattr(first, field):
                raise InputError(
                    f"{study.run.path}: it was trained on data of another form than {studies[0].run.path} ({field.replace('_', ' ')}); "
                    "one page can compare only runs on the same data: write a page for each"
                )


def _usual_samples(studies: Sequence[Study]) -> int:
    data, work = studies[0].data, sum(describe_plan(study.network.plan).multiply_adds for study in studies)
    size = data.test.inputs[:1].numel() * data.test.inputs.element_size()
    classes = len(data.preparation.record.class_names)
    return max(20, min(2 * classes, SAMPLES), min(SAMPLES, SAMPLE_BYTES // size, int(SAMPLE_EFFORT / work)))
