"""Studies on a real PostgreSQL server, shared by parents that know nothing of each other, also while it is restarted.

Where there is no server these tests are skipped, unless HIGHWAYNET_REQUIRE_POSTGRES=1 says that there must be one.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from highwaynet.base.errors import InputError
from highwaynet.search.address import Address
from highwaynet.search.study import locate, open_stored
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


def begin(out: Path, *arguments: object, server: Server) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "highwaynet", "search", *map(str, arguments), "--out", str(out), "--workers", "1"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "HIGHWAYNET_HEARTBEAT": "1", "HIGHWAYNET_STORAGE": server.url},
    )


def ended(process: subprocess.Popen[str]) -> str:
    _, errors = process.communicate(timeout=300)
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
    study = named(tmp_path / "study.toml", "shared", trials=20, epochs=1)
    one = begin(tmp_path / "one", study, server=server)
    two = begin(tmp_path / "two", study, server=server)
    errors = [ended(one), ended(two)]
    assert all("40 of 40 done" in text for text in errors)
    assert all("storage postgresql://tester:***@127.0.0.1:" in text for text in errors)
    trials = all_trials(server, "shared")
    assert Counter(trial.state.name for trial in trials) == {"COMPLETE": 40}
    runs = Counter(path.relative_to(out / "runs") for out in (tmp_path / "one", tmp_path / "two") for path in (out / "runs").glob("*/*"))
    assert sorted(map(str, runs)) == sorted(f"fc-{kind}/{index:05}" for kind in ("highway", "plain") for index in range(20))
    assert set(runs.values()) == {1}, "each was run by one of them"
    assert all((tmp_path / name / "runs").is_dir() for name in ("one", "two"))
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


def test_a_restarted_server_does_not_end_a_study_and_dead_machines_give_their_trials_back(server: Server, tmp_path: Path) -> None:
    study = named(tmp_path / "study.toml", "restarted", trials=3, epochs=25)
    process = begin(tmp_path / "one", study, server=server)
    while not list((tmp_path / "one").rglob("history.jsonl")):
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.02)
    server.stop()  # as in a power failure
    time.sleep(2)
    server.start()
    # Another machine joins by name and dies with its worker: its folder is not on this machine's disk, so that only silence tells.
    other = begin(tmp_path / "two", "--join", "restarted", server=server)
    while not list((tmp_path / "two").rglob("history.jsonl")):
        if other.poll() is not None:
            break
        time.sleep(0.02)
    other.kill()
    other.communicate()
    for pid in worker_pids(tmp_path / "two"):
        kill(pid)
    ended(process)
    done = Counter(
        (tuple(sorted(trial.params)), trial.user_attrs["index"], trial.value) for trial in all_trials(server, "restarted") if trial.value
    )
    assert len(done) == 6
    assert set(done.values()) == {1}
