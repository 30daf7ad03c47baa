"""Damaged storages of studies: one sentence, whatever is wrong with the file."""

import random
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest
from optuna.exceptions import StorageInternalError
from optuna.storages._rdb import models
from sqlalchemy import create_engine, inspect
from sqlalchemy.exc import OperationalError, ProgrammingError

from highwaynet.base.errors import HighwayError, InputError
from highwaynet.search.address import Address
from highwaynet.search.results import collect
from highwaynet.search.storage import Patience, StorageError, UnreachableError, open_storage, reading
from highwaynet.search.study import locate, open_stored, prepare
from support import Highway


def read_all(folder: Path) -> None:
    """What `highway search show` reads."""
    place = locate(str(folder), None, None)
    spec, storage = open_stored(place)
    try:
        with reading(place.storage):
            collect(spec, storage)
    finally:
        storage.engine.dispose()


STUDY = """
name = "small"
trials = 2
[run.network]
depth = 3
width = 5
[run.training]
epochs = 1
[space]
"training.learning_rate" = { kind = "log-uniform", low = 0.01, high = 0.1 }
"""


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study."""
    from forked import start

    folder = tmp_path_factory.mktemp("study")
    (folder / "small.toml").write_text(STUDY)
    process = start("search", "small.toml", "--out", "done", "--workers", "1", cwd=folder)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return folder / "done"


@pytest.mark.parametrize(
    "damage",
    [
        "update study_user_attributes set value_json = '{'",
        "update trial_user_attributes set value_json = '[' where key = 'index'",
        "update trial_user_attributes set key = 'other' where key = 'index'",
        "update trial_user_attributes set value_json = 'null' where key = 'index'",
        "update trials set state = 'NONSENSE'",
        "update trials set datetime_start = 'yesterday'",
        "update trial_params set distribution_json = '{}'",
        "update trial_params set param_name = 'x'",
        "update studies set study_name = cast(x'736d616c6cff' as text)",
        "update study_user_attributes set value_json = '\"x = ]\"' where key = 'spec'",
        "delete from study_user_attributes where key = 'spec'",
        "drop table trial_user_attributes",
    ],
)
def test_edited_storages(damage: str, study: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(study, tmp_path / "copy")
    with closing(sqlite3.connect(copy / "study.db")) as connection, connection:
        connection.execute(damage)
    with pytest.raises(InputError, match=r"damaged|not valid TOML|no study|another version|unknown study"):
        read_all(copy)
    with suppress(InputError):  # or what is missing is trained again
        prepare(locate(str(copy / "study.toml"), None, copy), join=False)


def test_the_command_says_it_in_one_sentence(study: Path, tmp_path: Path, highway: Highway) -> None:
    copy = shutil.copytree(study, tmp_path / "copy")
    with closing(sqlite3.connect(copy / "study.db")) as connection, connection:
        connection.execute("update trials set state = 'NONSENSE'")
    for arguments in (("show", copy), ("run", copy / "study.toml", "--out", copy, "--workers", 1)):
        done = highway("search", *arguments)
        assert done.returncode == 2, done.stderr
        assert "study.db is damaged (" in done.stderr
        assert "Traceback" not in done.stderr


def test_flipped_bits(study: Path, tmp_path: Path) -> None:
    whole = (study / "study.db").read_bytes()
    shutil.copy(study / "study.toml", tmp_path / "study.toml")
    refused = 0
    for seed in range(40):
        drawn, content = random.Random(seed), bytearray(whole)
        for _ in range(drawn.choice([1, 20, 400])):
            content[drawn.randrange(len(content))] = drawn.randrange(256)
        (tmp_path / "study.db").write_bytes(content[: drawn.randrange(len(content))] if seed % 5 == 0 else content)
        try:
            read_all(tmp_path)
        except HighwayError:
            refused += 1
        for file in tmp_path.glob("study.db-*"):
            with suppress(OSError):
                file.unlink()
    assert refused > 10


@pytest.mark.parametrize(
    "reason", ["disk I/O error", "attempt to write a readonly database", "database or disk is full", "unable to open database file"]
)
def test_a_disk_that_cannot_be_written_to_ends_a_study_at_once(reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other failures of a storage may pass, and are waited for."""

    def fail() -> None:
        raise StorageInternalError("Optuna's own words") from OperationalError("insert", {}, sqlite3.OperationalError(reason))

    def wait(seconds: float) -> None:
        pytest.fail("it waits for the disk")

    monkeypatch.setattr("highwaynet.search.storage.time.sleep", wait)
    patience = Patience(Address("sqlite:///study.db"))
    with pytest.raises(StorageError, match=f"no longer answers .*{reason}"):
        patience(fail)

    def open_it() -> None:
        try:
            fail()
        except StorageInternalError as error:
            raise UnreachableError("cannot use it") from error

    with pytest.raises(StorageError, match=f"no longer answers .*{reason}"):
        patience(open_it)


@pytest.mark.parametrize("tables", [0, 1, 4, 20])
def test_a_study_that_was_killed_while_its_tables_were_created_begins(tables: int, tmp_path: Path) -> None:
    folder = tmp_path / "begun"
    folder.mkdir()
    (tmp_path / "small.toml").write_text(STUDY)
    place = locate(str(tmp_path / "small.toml"), None, folder)
    engine = create_engine(place.storage.url)
    metadata = models.BaseModel.metadata
    metadata.create_all(engine, tables=metadata.sorted_tables[:tables])
    engine.dispose()
    (folder / "study.db").touch()
    prepare(place, join=False)
    storage = open_storage(place.storage)
    assert set(inspect(storage.engine).get_table_names()) >= set(metadata.tables)
    storage.engine.dispose()
    with pytest.raises(InputError, match="there is no study in it"):
        read_all(folder)


@pytest.mark.parametrize("name", ["UndefinedTable", "ReadOnlySqlTransaction"])
def test_errors_of_a_server_that_do_not_pass_end_a_study_at_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL's own text does not say what kind of error it is; SQLAlchemy's does."""
    errors = pytest.importorskip("psycopg.errors")

    def fail() -> None:
        cause = ProgrammingError("select", {}, getattr(errors, name)("it cannot be"))
        cause.__cause__ = cause.orig
        raise StorageInternalError("Optuna's own words") from cause

    monkeypatch.setattr("highwaynet.search.storage.time.sleep", lambda seconds: pytest.fail("it waits for the server"))
    with pytest.raises(StorageError, match=r"no longer answers \(it cannot be\)"):
        Patience(Address("postgresql+psycopg://host/name"))(fail)
