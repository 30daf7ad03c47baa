"""The number format of convolutional networks in claims."""

from pathlib import Path

import pytest

from experiments.fakes import Fake, evaluation, evidence_of
from highwaynet.experiments.claim_records import PlanRecord
from highwaynet.experiments.claims import Scale
from highwaynet.experiments.keys import key_of
from highwaynet.experiments.precision import FORMATS, Format, formats, in_format
from highwaynet.experiments.registry import CLAIMS
from highwaynet.experiments.reproduce import judged


@pytest.mark.parametrize("name", CLAIMS)
@pytest.mark.parametrize("scale", ["smoke", "laptop", "paper"])
@pytest.mark.parametrize("wanted", FORMATS)
def test_only_convolutional_networks_change(name: str, scale: Scale, wanted: Format) -> None:
    runs = CLAIMS[name].plan(scale, 1)
    assert in_format(runs, "float32") == runs
    for run in in_format(runs, wanted):
        convolutional = run.spec.network.preset.family == "convolutional"
        assert run.spec.training.precision == (wanted if convolutional else "float32"), run.label


@pytest.mark.parametrize("name", ["race-maxout", "fitnets", "table2"])
def test_teachers_change_with_their_students(name: str) -> None:
    runs = CLAIMS[name].plan("laptop", 2)
    changed = in_format(runs, "bfloat16")
    assert in_format(changed, "float32") == runs
    assert [formats(made) for made in (runs, changed)] == [{"float32"}, {"bfloat16"}]
    assert not {key_of(run.spec) for run in runs} & {key_of(run.spec) for run in changed}
    taught = [run for run in changed if run.teacher]
    assert bool(taught) == (name != "table2")
    for run in taught:
        assert run.teacher
        assert run.spec.teacher
        assert run.teacher == changed[0]
        assert run.spec.teacher.run == key_of(changed[0].spec)


@pytest.mark.parametrize("wanted", FORMATS)
def test_records_say_the_number_format(wanted: Format, tmp_path: Path) -> None:
    claim = CLAIMS["table1"]
    runs = in_format(claim.plan("laptop", 1), wanted)
    evidence = evidence_of(
        tmp_path, {run.label: Fake([0.1] * 30, records=evaluation(0.99)) for run in runs}, specs={run.label: run.spec for run in runs}
    )
    plan = PlanRecord(claim="table1", scale="laptop", rules=(), runs={}, there=(), commit=None)
    note = judged(claim, evidence, plan).note
    assert note.startswith(claim.notes["laptop"])
    assert note.endswith("Convolutional networks were trained in mixed bfloat16.") == (wanted == "bfloat16")
