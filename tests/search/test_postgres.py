"""Studies on a real PostgreSQL server, shared by parents that know nothing of each other, also while it is restarted.

Where there is no server these tests are skipped, unless HIGHWAYNET_REQUIRE_POSTGRES=1 says that there must be one.
"""

import operator
import os
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from forked import Forked, start
from highwaynet.base.errors import InputError
from highwaynet.search.address import Address
from highwaynet.search.spec import read_study
from highwaynet.search.study import locate, open_stored
from highwaynet.search.trials import Trials
from holding import PATIENCE, Gate
from search.kill_search import kill, stored_trials, worker_pids, write_study
from search.postgres import PASSWORD, Server, find_binary
from support import Highway

MISSING = [name for name in ("initdb", "pg_ctl") if find_binary(name) is None]
if os.environ.get("HIGHWAYNET_REQUIRE_POSTGRES") != "1":
    pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"PostgreSQL is not installed ({', '.join(MISSING)}): apt-get install postgresql")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    assert not MISSING, f"HIGHWAYNET_REQUIRE_POSTGRES=1, and there is no {' and no '.join(MISSING)}"
    with tempfile.TemporaryDirectory() as folder:  # not pytest's own: the user postgres may not look into it
        Path(folder).chmod(0o755)
        server = Server(Path(folder) / "server")
        server.start()
        yield server
        server.stop()


def begin(out: Path, *arguments: object, server: Server, heartbeat: int, gate: Gate) -> Forked:
    environment = {"HIGHWAYNET_HEARTBEAT": f"{heartbeat}", "HIGHWAYNET_STORAGE": server.url} | gate.environment
    return start("search", *arguments, "--out", out, "--workers", 1, **environment)


def ended(process: Forked) -> str:
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    assert PASSWORD not in errors
    return errors


def all_trials(server: Server, name: str) -> list[Any]:
    return [trial for study, trials in stored_trials(Address.parse(server.url)).items() if study.startswith(f"{name}/") for trial in trials]


def named(path: Path, name: str, trials: int, epochs: int) -> Path:
    write_study(path, trials, epochs)
    path.write_text(path.read_text().replace('name = "shaken"', f'name = "{name}"'))
    return path


def test_two_parents_share_a_study_and_each_trial_is_run_once(server: Server, tmp_path: Path, highway: Highway) -> None:
    study = named(tmp_path / "study.toml", "shared", trials=20, epochs=6)
    gates = {name: Gate(tmp_path / f"gate-{name}") for name in ("one", "two")}
    parents = [begin(tmp_path / name, study, server=server, heartbeat=10, gate=gate) for name, gate in gates.items()]
    for gate, parent in zip(gates.values(), parents, strict=True):
        gate.wait(parent)
    for gate in gates.values():  # both have a trial now
        gate.open()
    errors = [ended(parent) for parent in parents]
    assert all("40 of 40 done" in text for text in errors)
    assert all("storage postgresql://tester:***@127.0.0.1:" in text for text in errors)
    trials = all_trials(server, "shared")
    assert Counter(trial.state.name for trial in trials) == {"COMPLETE": 40}
    runs = Counter(path.relative_to(out / "runs") for out in (tmp_path / "one", tmp_path / "two") for path in (out / "runs").glob("*/*"))
    assert sorted(map(str, runs)) == sorted(f"fc-{kind}/{index:05}" for kind in ("highway", "plain") for index in range(20))
    assert set(runs.values()) == {1}, "each was run by one of them"
    shares = {name: len(list((tmp_path / name / "runs").glob("*/*"))) for name in ("one", "two")}
    assert min(shares.values()) > 0, shares
    shown = highway("search", "show", "shared", HIGHWAYNET_STORAGE=server.url)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.count("20/20") == 2
    assert "highway search best shared --storage 'postgresql://tester:***@" in shown.stdout
    assert PASSWORD not in shown.stdout + shown.stderr
    with pytest.raises(InputError, match=r"tester:\*\*\*@.*: unknown study 'share': did you mean 'shared'\?"):
        open_stored(locate("share", server.url, None))
    with pytest.raises(InputError, match="password authentication failed") as caught:
        open_stored(locate("shared", server.url.replace(PASSWORD, "wrong-word"), None))
    assert "wrong-word" not in str(caught.value)


def test_a_restarted_server_does_not_end_a_study_and_dead_machines_give_their_trials_back(
    server: Server, tmp_path: Path, open_study: Callable[..., Trials], run_worker: Callable[..., None]
) -> None:
    study = named(tmp_path / "study.toml", "restarted", trials=5, epochs=40)
    gates = {name: Gate(tmp_path / f"gate-{name}") for name in ("one", "two")}
    process = begin(tmp_path / "one", study, server=server, heartbeat=2, gate=gates["one"])
    gates["one"].wait(process)
    server.stop()  # as in a power failure
    gates["one"].move(2)  # what it has to tell, nobody hears
    time.sleep(8)  # longer than it takes to be thought dead
    assert process.poll() is None
    server.start()
    gates["one"].wait(process, epoch=2)
    # Another machine joins by name and dies with its worker: its folder is not known to the first one, so that only silence tells.
    other = begin(tmp_path / "two", "--join", "restarted", server=server, heartbeat=2, gate=gates["two"])
    gates["two"].wait(other)
    pids = worker_pids(tmp_path / "two")
    other.send_signal(signal.SIGSTOP)  # or its workers would notice its end, and give their trial back
    for pid in pids:
        kill(pid)
    other.kill()
    other.communicate()
    held = [t for t in all_trials(server, "restarted") if t.state.name == "RUNNING" and f"-{pids[0]}-" in str(t.user_attrs.get("worker"))]
    assert len(held) == 1, "it died with a trial"
    gates["one"].open()
    ended(process)
    trials = all_trials(server, "restarted")
    assert Counter(trial.state.name for trial in trials) == {"COMPLETE": 10, "FAIL": 1}, "the living kept theirs while the server was away"
    (lost,) = (trial for trial in trials if trial._trial_id == held[0]._trial_id)
    assert lost.state.name == "FAIL"
    assert "error" not in lost.user_attrs
    run_worker(calm := open_study(read_study(study), tmp_path / "calm"))
    expected = [trial for configuration in calm.configurations for trial in calm.all(configuration)]
    key = operator.itemgetter(0)
    done = sorted(((str(t.params), t.value) for t in trials if t.state.name == "COMPLETE"), key=key)
    assert done == sorted(((str(t.params), t.value) for t in expected), key=key), "as without any of it"
