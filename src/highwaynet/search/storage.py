"""Optuna's storages, opened so that several processes can share them, with sentences for what goes wrong."""

import os
import sqlite3
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from highwaynet.base.errors import HighwayError, InputError
from highwaynet.search.address import DATABASE, Address

if TYPE_CHECKING:
    from optuna.storages import RDBStorage
    from sqlalchemy.orm import Session

T = TypeVar("T")

PATIENCE = 600
"""Seconds for which a study waits for a storage that does not answer, for instance while its server is restarted."""
SILENCE = 5.0
"""After so many seconds without an answer a person is told."""

# A machine that vanishes must not hold a lock for hours, a lock must not hold others for ever, and times are the same in all zones.
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
    """There is no such storage, or none that lets us in; it may be there a little later."""


class EmptyError(InputError):
    """There is a storage, and no study in it."""


def heartbeat() -> int:
    """Seconds between two signs of life of a worker; after three times as long without one its trial is given to another."""
    text = os.environ.get("HIGHWAYNET_HEARTBEAT", "10")
    if not text.isdecimal() or not 1 <= int(text) <= 3600:
        raise InputError(f"HIGHWAYNET_HEARTBEAT={text}: give whole seconds, from 1 to 3600")
    return int(text)


def need_optuna() -> None:
    """Raise HighwayError where the extra is missing; silence what Optuna says about itself."""
    try:
        import optuna
    except ModuleNotFoundError as error:
        raise HighwayError(f"search needs {error.name}: install it with `pip install 'highwaynet[search]'`") from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)


def open_storage(address: Address, *, reading: bool = False) -> "RDBStorage":
    """The storage; its tables are made where there are none. Raises InputError with what to check where it cannot be reached.

    Args:
        address: Where it is.
        reading: Whether nothing will be written, so that a file may be one that cannot be; raises EmptyError where there are no tables.
    """
    need_optuna()
    import optuna
    from sqlalchemy.exc import SQLAlchemyError

    for attempt in range(5):  # others may be making the tables at this moment
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
                if reading:
                    _check_tables(address)
                return _opened(address, reading=reading)
        except ImportError as error:
            raise HighwayError(f"{address.shown} needs a driver: install it with `pip install 'highwaynet[postgres]'`") from error
        except RuntimeError as error:  # Optuna's own, about tables of another version
            raise InputError(f"{address.shown} is of another version of Optuna: use that one, or another storage") from error
        except (SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
            if attempt == 4 or _is_refused(error):
                raise _unreachable(address, error, reading=reading) from error
            time.sleep(0.2 * (attempt + 1))
    raise AssertionError("the last attempt raises")


def _opened(address: Address, *, reading: bool) -> "RDBStorage":
    import optuna

    file = address.file
    if file is not None and not reading:
        file.parent.mkdir(parents=True, exist_ok=True)
    # Optuna fills in names in braces, so that those in a password must be doubled.
    url, beat = address.url.replace("{", "{{").replace("}", "}}"), heartbeat()
    storage = optuna.storages.RDBStorage(
        url, engine_kwargs=_arguments(address), skip_table_creation=reading, heartbeat_interval=beat, grace_period=3 * beat
    )
    if file and not reading:
        _one_writer(storage)
    return storage


def _arguments(address: Address) -> dict[str, Any]:
    return {"connect_args": {"timeout": 60}} if address.file else {"pool_pre_ping": True, "pool_size": 2, "connect_args": _POSTGRES}


def _check_tables(address: Address) -> None:
    """Raise EmptyError where there are none: whoever looks leaves nothing behind."""
    import sqlalchemy

    engine = sqlalchemy.create_engine(address.url, **_arguments(address))
    try:
        there = sqlalchemy.inspect(engine).has_table("studies")
    finally:
        engine.dispose()
    if not there:
        raise EmptyError(f"{address.shown}: there is no study in it")


def _one_writer(storage: "RDBStorage") -> None:
    """Let every transaction on SQLite lock the file from its beginning: what Optuna reads and then writes is not atomic otherwise.

    With a write-ahead log nobody waits for the disk; what a power failure takes away from it is computed again, from run directories.
    """
    from sqlalchemy import Connection, event
    from sqlalchemy.pool import ConnectionPoolEntry

    engine = storage.engine
    engine.dispose()

    @event.listens_for(engine, "connect")
    def _connect(connection: "object", entry: ConnectionPoolEntry) -> None:
        connection.isolation_level = None  # type: ignore[attr-defined]  # the driver begins no transactions by itself
        cursor = connection.cursor()  # type: ignore[attr-defined]
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute("PRAGMA synchronous = NORMAL")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def _is_refused(error: Exception) -> bool:
    """Whether trying again would give the same answer."""
    text = str(error.__cause__ or error).lower()
    return any(
        words in text for words in ("not a database", "refused", "password", "resolve", "does not exist", "unable to open", "timeout")
    )


def _unreachable(address: Address, error: Exception, *, reading: bool) -> UnreachableError:
    reason = " ".join(address.scrubbed(str(getattr(error.__cause__ or error, "orig", None) or error.__cause__ or error)).split())
    if address.file and reading:
        way = "an unfinished study can only be read where its folder can be written" if "readonly" in reason else "choose another folder"
        return UnreachableError(f"cannot use {address.shown} as a study's storage ({reason}): {way}")
    if address.file:
        return UnreachableError(f"cannot use {address.shown} as a study's storage ({reason}): name another folder with --out")
    return UnreachableError(
        f"cannot reach the storage {address.shown} ({reason.rstrip('.')}): check that the server runs and lets this machine in, "
        "and the host, port, user, password and database in --storage"
    )


class Patience:
    """Asks a storage that may be away for a while.

    Args:
        address: The storage, for the error.
        hurry: Whether there is little time, because the program is being ended.
        tell: Told once where the storage stays away.
    """

    def __init__(
        self, address: Address, hurry: Callable[[], bool] = lambda: False, tell: Callable[[str], None] = lambda sentence: None
    ) -> None:
        self._address, self._hurry, self._tell = address, hurry, tell
        self.troubled = time.monotonic()
        """When the storage last failed to answer, or when this began: before, others may not have been able to tell it that they live."""

    def __call__(self, call: Callable[[], T]) -> T:
        """The answer to a question that may be asked twice: the storage may have done it before the connection broke.

        Raises:
            StorageError: It stays away, or will never answer.
        """
        from optuna.exceptions import StorageInternalError
        from sqlalchemy.exc import DBAPIError

        began, told = time.monotonic(), False
        while True:
            try:
                return call()
            except (StorageInternalError, DBAPIError, UnreachableError) as error:
                self.troubled = time.monotonic()
                reason = " ".join(self._address.scrubbed(str(error.__cause__ or error)).split())[:300]
                waited = self.troubled - began
                if _is_final(reason) or waited > (min(PATIENCE, 10) if self._hurry() else PATIENCE):
                    raise StorageError(f"the storage {self._address.shown} does not answer any more ({reason})") from error
                if waited > SILENCE and not told:
                    self._tell(f"the storage {self._address.shown} does not answer ({reason[:100]}); waiting for it")
                    told = True
                time.sleep(0.5)


def _is_final(reason: str) -> bool:
    """Whether waiting helps nobody."""
    return any(words in reason.lower() for words in ("readonly", "no such table", "undefinedtable", "permission denied", "disk is full"))


@contextmanager
def transaction(storage: "RDBStorage") -> Iterator["Session"]:
    """One transaction with Optuna's tables: all of it, or nothing."""
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
    """The SQLite storage in a study's folder."""
    return Address.of_file(folder / DATABASE)


def make_portable(address: Address) -> None:
    """Bring a SQLite storage that nobody uses any more into one file, which can be copied, and read where nothing can be written."""
    if address.file is not None:
        with suppress(sqlite3.Error), closing(sqlite3.connect(address.file, timeout=1)) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")
