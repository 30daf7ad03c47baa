"""Several seeds that replace earlier runs."""

from pathlib import Path
from typing import Any

import pytest
from torch.distributed import HashStore

from highwaynet import InputError, InterruptedRunError, train, train_seeds
from highwaynet.data.record import DataRecord
from highwaynet.runs.spec import StartSpec
from highwaynet.training import loop, several
from highwaynet.training.distribution import World
from highwaynet.training.interruption import Interruption
from highwaynet.training.watcher import Watcher
from support import Notes, mark_logs, small_spec, unmarked_logs


class StopsAt(Watcher):
    """Asks for a stop in the first step of one of several runs."""

    def __init__(self, number: int) -> None:
        self.left, self.interruption = number, Interruption()

    def started(self, data: DataRecord, epochs: int, steps: int) -> None:
        self.left -= 1

    def step(self, samples: int) -> None:
        if self.left == 0:
            self.interruption.requested = 130


@pytest.mark.parametrize("stopped", [1, 2])
def test_an_interrupted_replacement_of_several_seeds_does_not_take_the_earlier_runs_for_new_ones(stopped: int, tmp_path: Path) -> None:
    place = tmp_path / "seeds"
    train_seeds(small_spec(), place, 3)
    (place / "seed2" / "mine.txt").write_text("a note")
    mark_logs(place)
    stop = StopsAt(stopped)
    with pytest.raises(InterruptedRunError):
        train_seeds(small_spec(), place, 3, overwrite=True, watcher=stop, interruption=stop.interruption)
    assert (place / "seed2.before" / "mine.txt").exists(), "nothing is lost"
    train_seeds(small_spec(), place, 3, resume=True)
    assert unmarked_logs(place) == ["seed0", "seed1", "seed2"], "all are new"
    assert (place / "seed2" / "mine.txt").read_text() == "a note"


def test_places_of_all_seeds_are_checked_before_the_first_is_trained(tmp_path: Path) -> None:
    train(small_spec(), tmp_path / "seeds" / "seed1")
    with pytest.raises(InputError, match="seed1 already exists"):
        train_seeds(small_spec(), tmp_path / "seeds", 2)
    (tmp_path / "other" / "seed1").mkdir(parents=True)
    (tmp_path / "other" / "seed1" / "mine.txt").write_text("a note")
    with pytest.raises(InputError, match="seed1 is not a run directory"):
        train_seeds(small_spec(), tmp_path / "other", 2, overwrite=True)
    assert [path.name for path in tmp_path.glob("*/seed*")] == ["seed1", "seed1"]


def test_ctrl_c_before_the_first_step_does_not_make_earlier_runs_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, notes = tmp_path / "seeds", Notes()
    train_seeds(small_spec(), place, 3)
    mark_logs(place)

    def pressed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as at_first:
        at_first.setattr(loop, "Fitting", pressed)
        with pytest.raises(InterruptedRunError):
            train_seeds(small_spec(), place, 3, overwrite=True, watcher=notes)
    assert [f"seed{seed}.before" in sentence for seed, sentence in enumerate(notes.all)] == [True] * 3
    train_seeds(small_spec(), place, 3, resume=True)
    assert unmarked_logs(place) == ["seed0", "seed1", "seed2"]


def test_processes_that_are_restarted_between_two_seeds_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, store = tmp_path / "seeds", HashStore()
    train_seeds(small_spec(), place, 3)
    mark_logs(place)

    def killed(*_: Any, **__: Any) -> None:
        raise SystemExit(9)

    with monkeypatch.context() as once:
        once.setattr(several, "evaluate_run", killed)
        with pytest.raises(SystemExit):
            train_seeds(small_spec(), place, 3, overwrite=True, world=World(store=store))
    train_seeds(small_spec(), place, 3, overwrite=True, world=World(store=store, restarts=1))
    assert unmarked_logs(place) == ["seed0", "seed1", "seed2"]


def test_a_name_that_no_folder_can_have_is_refused() -> None:
    with pytest.raises(InputError, match=r"path = .*: name a folder"):
        train_seeds(small_spec(), "a\0b", 2)


def test_a_run_that_others_start_from_is_not_set_aside(tmp_path: Path) -> None:
    train(small_spec(), tmp_path / "seeds" / "seed1")
    spec = small_spec().model_copy(update={"start": StartSpec(run=str(tmp_path / "seeds" / "seed1"))})
    with pytest.raises(InputError, match=r"start.run = .*: a run cannot start from itself"):
        train_seeds(spec, tmp_path / "seeds", 2, overwrite=True)
    assert [path.name for path in (tmp_path / "seeds").iterdir()] == ["seed1"]
