"""Opening Optuna's storages so that several processes can share them, with clear errors."""

import os
import sqlite3
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from highwaynet.base.errors import HighwayError, InputError, SpecError
from highwaynet.search.address import DATABASE, Address

if TYPE_CHECKING:
    from optuna.storages import RDBStorage
    from sqlalchemy.orm import Session

T = TypeVar("T")

PATIENCE = 600
"""Seconds that a study waits for a storage that does not answer, for instance while its server restarts."""
SILENCE = 5.0
"""After this many seconds without an answer the user is notified."""

# A machine that disappears must not hold a lock for hours, nobody should wait for a lock forever, and all times are in UTC.
_POSTGRES: dict[str, Any] = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
    "options": "-c lock_timeout=30s -c idle_in_transaction_session_timeout=60s -c timezone=UTC",
}


class StorageError(HighwayError):
    """The storage did not answer for too long."""


class UnreachableError(InputError):
    """The storage cannot be reached or refuses access; a later attempt may succeed."""


class EmptyError(InputError):
    """The storage has no studies."""


def heartbeat() -> int:
    """Return the seconds between two heartbeats of a worker; after three times as long without one, its trial goes to another worker."""
    text = os.environ.get("HIGHWAYNET_HEARTBEAT", "10")
    if not text.isdecimal() or not 1 <= int(text) <= 3600:
        raise InputError(f"HIGHWAYNET_HEARTBEAT={text}: give whole seconds, from 1 to 3600")
    return int(text)


def need_optuna() -> None:
    """Raise HighwayError if Optuna is missing; silence its log messages."""
    try:
        import optuna
    except ModuleNotFoundError as error:
        raise HighwayError(f"search needs {error.name}: install it with `pip install 'highwaynet[search]'`") from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)


def open_storage(address: Address, *, read_only: bool = False) -> "RDBStorage":
    """Open a storage and create its tables if they are missing; raises InputError if it cannot be reached.

    Args:
        address: Its address.
        read_only: Open for reading only: a file may be read-only, and one without studies raises EmptyError.
    """
    need_optuna()
    import optuna
    from sqlalchemy.exc import SQLAlchemyError

    for attempt in range(5):  # another process may be creating the tables
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
                if read_only:
                    _check_tables(address)
                return _opened(address, read_only=read_only)
        except ImportError as error:
            raise HighwayError(f"{address.shown} needs a driver: install it with `pip install 'highwaynet[postgres]'`") from error
        except RuntimeError as error:  # Optuna raises it for tables of another version
            raise InputError(f"{address.shown} was made by another version of Optuna: use that version, or another storage") from error
        except (SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
            if attempt == 4 or _is_refused(error):
                raise _unreachable(address, error, read_only=read_only) from error
            time.sleep(0.2 * (attempt + 1))
    raise AssertionError("the last attempt raises")


def _opened(address: Address, *, read_only: bool) -> "RDBStorage":
    import optuna

    file = address.file
    if file is not None and not read_only:
        file.parent.mkdir(parents=True, exist_ok=True)
    # Optuna formats the URL, so braces in a password must be doubled.
    url, beat = address.url.replace("{", "{{").replace("}", "}}"), heartbeat()
    storage = optuna.storages.RDBStorage(
        url, engine_kwargs=_arguments(address), skip_table_creation=read_only, heartbeat_interval=beat, grace_period=3 * beat
    )
    if file and not read_only:
        _one_writer(storage)
    return storage


def _arguments(address: Address) -> dict[str, Any]:
    return {"connect_args": {"timeout": 60}} if address.file else {"pool_pre_ping": True, "pool_size": 2, "connect_args": _POSTGRES}


def _check_tables(address: Address) -> None:
    """Raise EmptyError if there are no tables, or not all of them; reading must not create any.

    Whoever created them may have been killed. The version of the tables is stored last, before any study.
    """
    import sqlalchemy

    engine = sqlalchemy.create_engine(address.url, **_arguments(address))
    try:
        there = set(sqlalchemy.inspect(engine).get_table_names()) & {"studies", "alembic_version"}
        with engine.connect() as connection:
            counts = [sqlalchemy.select(sqlalchemy.func.count()).select_from(sqlalchemy.table(name)) for name in there]
            rows = sum(connection.execute(count).scalar() or 0 for count in counts)
    finally:
        engine.dispose()
    if not rows:
        raise EmptyError(f"{address.shown}: there is no study in it")


def _one_writer(storage: "RDBStorage") -> None:
    """Make every transaction on SQLite lock the file from its start; otherwise Optuna's read-then-write sequences are not atomic.

    The write-ahead log avoids waiting for the disk. What a power failure loses is restored from the run directories.
    """
    from sqlalchemy import Connection, event
    from sqlalchemy.pool import ConnectionPoolEntry

    engine = storage.engine
    engine.dispose()

    @event.listens_for(engine, "connect")
    def _connect(connection: "object", entry: ConnectionPoolEntry) -> None:
        connection.isolation_level = None  # type: ignore[attr-defined]  # the driver starts no transactions of its own
        cursor = connection.cursor()  # type: ignore[attr-defined]
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute("PRAGMA synchronous = NORMAL")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def _is_refused(error: Exception) -> bool:
    """Whether trying again would give the same error."""
    text = str(error.__cause__ or error).lower()
    return any(
        words in text
        for words in (
            "not a database",
            "refused",
            "password",
            "resolve",
            "does not exist",
            "unable to open",
            "timeout",
            "malformed",
            "no such column",
        )
    )


def _unreachable(address: Address, error: Exception, *, read_only: bool) -> UnreachableError:
    reason = " ".join(address.scrubbed(str(getattr(error.__cause__ or error, "orig", None) or error.__cause__ or error)).split())
    if address.file and read_only:
        way = "an unfinished study can only be read if its folder is writable" if "readonly" in reason else "choose another folder"
        return UnreachableError(f"cannot use {address.shown} as the storage of a study ({reason}): {way}")
    if address.file:
        return UnreachableError(f"cannot use {address.shown} as the storage of a study ({reason}): name another folder with --out")
    return UnreachableError(
        f"cannot reach the storage {address.shown} ({reason.rstrip('.')}): check that the server runs and accepts this machine, "
        "and check host, port, user, password and database in --storage"
    )


@contextmanager
def reading(address: Address) -> Iterator[None]:
    """Context manager for reading a study: whatever a damaged file makes Optuna and its driver raise becomes one sentence."""
    from optuna.exceptions import StorageInternalError
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (StorageInternalError, SQLAlchemyError, LookupError, ValueError, TypeError, AttributeError, AssertionError) as error:
        if address.file is None or isinstance(error, SpecError):
            raise
        reason = " ".join(str(error.__cause__ or error).split())[:120] or type(error).__name__
        raise InputError(
            f"{address.shown} is damaged ({reason}): restore it from a copy, or start the study again in another folder; "
            "the runs of finished trials are in its folder runs"
        ) from error


class Patience:
    """Retries calls to a storage that may be unavailable for a while.

    Args:
        address: The storage, for the error.
        hurry: Whether to wait only briefly, because the program is ending.
        tell: Called once with a sentence if the storage does not answer.
    """

    def __init__(
        self, address: Address, hurry: Callable[[], bool] = lambda: False, tell: Callable[[str], None] = lambda sentence: None
    ) -> None:
        self._address, self._hurry, self._tell = address, hurry, tell
        self.troubled = time.monotonic()
        """When the storage last failed to answer, or when this object was made; heartbeats from before may be missing."""

    def __call__(self, call: Callable[[], T]) -> T:
        """Make a call, repeated until it succeeds. It must be safe to repeat: the connection may break after the storage has done it.

        Raises:
            StorageError: If the storage does not answer for too long, or the error is permanent.
        """
        from optuna.exceptions import StorageInternalError
        from sqlalchemy.exc import DBAPIError

        began, told = time.monotonic(), False
        while True:
            try:
                return call()
            except (StorageInternalError, DBAPIError, UnreachableError) as error:
                self.troubled = time.monotonic()
                texts = [" ".join(self._address.scrubbed(str(one)).split()) for one in _causes(error)]
                reason = next(filter(None, reversed(texts)), type(error).__name__)[:300]
                waited = self.troubled - began
                if any(map(_is_final, texts)) or waited > (min(PATIENCE, 10) if self._hurry() else PATIENCE):
                    raise StorageError(f"the storage {self._address.shown} no longer answers ({reason})") from error
                if waited > SILENCE and not told:
                    self._tell(f"the storage {self._address.shown} does not answer ({reason[:100]}); waiting for it")
                    told = True
                time.sleep(0.5)


FINAL = (
    "readonly",
    "no such table",
    "undefinedtable",
    "permission denied",
    "disk is full",
    "disk i/o error",
    "unable to open database file",
    "malformed",
    "not a database",
)


def _causes(error: BaseException) -> list[BaseException]:
    """Return the error and its causes; what the driver raised, which says what is wrong, comes last."""
    found = [error]
    while (cause := found[-1].__cause__) is not None:
        found.append(cause)
    return found


def _is_final(reason: str) -> bool:
    """Whether an error is permanent, so that waiting does not help."""
    return any(words in reason.lower() for words in FINAL)


@contextmanager
def transaction(storage: "RDBStorage") -> Iterator["Session"]:
    """Context manager for a transaction on Optuna's tables: commit at the end, roll back on an error."""
    session = storage.scoped_session()
    try:
        yield session
        session.commit()
    except BaseException:
        session.rollback()
        raise
    finally:
        session.close()


def database_of(folder: Path) -> Address:
    """Return the address of the SQLite storage in a study's folder."""
    return Address.of_file(folder / DATABASE)


def make_portable(address: Address) -> None:
    """Turn a SQLite storage that is no longer in use into a single file, which can be copied and read without write access."""
    if address.file is not None:
        with suppress(sqlite3.Error), closing(sqlite3.connect(address.file, timeout=1)) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")
