"""Optuna's storages, opened so that several processes can share them, with sentences for what goes wrong."""

import os
import sqlite3
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from highwaynet.base.errors import HighwayError, InputError
from highwaynet.search.address import DATABASE, Address

if TYPE_CHECKING:
    from optuna.storages import RDBStorage
    from sqlalchemy.orm import Session

T = TypeVar("T")

HEARTBEAT = int(os.environ.get("HIGHWAYNET_HEARTBEAT", "10"))
"""Seconds between two signs of life of a worker; after three times as long without one its trial is given to another."""

PATIENCE = float(os.environ.get("HIGHWAYNET_PATIENCE", "600"))
"""Seconds for which a study waits for a storage that does not answer, for instance while its server is restarted."""


class StorageError(HighwayError):
    """The storage did not answer for too long."""


class UnreachableError(InputError):
    """There is no such storage, or none that lets us in; it may be there a little later."""


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
        reading: Whether nothing will be written, so that a file may be one that cannot be.
    """
    need_optuna()
    import optuna
    from sqlalchemy.exc import SQLAlchemyError

    for attempt in range(5):  # others may be making the tables at this moment
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
                return _opened(address, reading=reading)
        except ImportError as error:
            raise HighwayError(f"{address.shown} needs a driver: install it with `pip install 'highwaynet[postgres]'`") from error
        except RuntimeError as error:  # Optuna's own, about tables of another version
            raise InputError(f"{address.shown} is of another version of Optuna: use that one, or another storage") from error
        except (SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
            if attempt == 4 or _is_refused(error):
                raise _unreachable(address, error) from error
            time.sleep(0.2 * (attempt + 1))
    raise AssertionError("the last attempt raises")


def _opened(address: Address, *, reading: bool) -> "RDBStorage":
    import optuna

    file = address.file
    if file is not None and not reading:
        file.parent.mkdir(parents=True, exist_ok=True)
    arguments = (
        {"connect_args": {"timeout": 60}} if file else {"pool_pre_ping": True, "pool_size": 2, "connect_args": {"connect_timeout": 10}}
    )
    # Optuna fills in names in braces, so that those in a password must be doubled.
    url = address.url.replace("{", "{{").replace("}", "}}")
    storage = optuna.storages.RDBStorage(url, engine_kwargs=arguments, heartbeat_interval=HEARTBEAT, grace_period=3 * HEARTBEAT)
    if file and not reading:
        _one_writer(storage)
    return storage


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


def _unreachable(address: Address, error: Exception) -> UnreachableError:
    reason = " ".join(address.scrubbed(str(getattr(error.__cause__ or error, "orig", None) or error.__cause__ or error)).split())
    if address.file:
        return UnreachableError(f"cannot use {address.shown} as a study's storage ({reason}): name another folder with --out")
    return UnreachableError(
        f"cannot reach the storage {address.shown} ({reason.rstrip('.')}): check that the server runs and lets this machine in, "
        "and the host, port, user, password and database in --storage"
    )


def patiently(call: Callable[[], T], address: Address, *, hurry: Callable[[], bool] = lambda: False) -> T:
    """The answer of a storage that may be away for a while; raises StorageError where it stays away.

    Args:
        call: What to ask. It must be safe to ask it twice: the storage may have done it before the connection broke.
        address: The storage, for the error.
        hurry: Whether there is little time, because the program is being ended.
    """
    from optuna.exceptions import StorageInternalError
    from sqlalchemy.exc import DBAPIError

    began = time.monotonic()
    while True:
        try:
            return call()
        except (StorageInternalError, DBAPIError, UnreachableError) as error:
            if time.monotonic() - began > (min(PATIENCE, 10) if hurry() else PATIENCE):
                reason = " ".join(address.scrubbed(str(error.__cause__ or error)).split())[:300]
                raise StorageError(f"the storage {address.shown} does not answer any more ({reason})") from error
            time.sleep(0.5)


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
