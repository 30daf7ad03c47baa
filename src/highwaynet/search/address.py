"""Addresses of storages: a SQLite file, or a PostgreSQL server whose password is never printed. Imports neither torch nor Optuna."""

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from highwaynet.base.errors import InputError

DATABASE = "study.db"
"""The SQLite file in a study's folder."""

_POSTGRES = r"postgres(ql)?(\+\w+)?"


@dataclass(frozen=True)
class Address:
    """The address of a storage."""

    url: str
    """URL for SQLAlchemy; may contain a password."""

    @classmethod
    def of_file(cls, path: Path) -> "Address":
        """Return the address of a SQLite file; raises InputError if its path cannot be part of a URL."""
        try:
            place = path.resolve()
        except (OSError, RuntimeError) as error:  # RuntimeError: a link that leads to itself
            raise InputError(f"{path}: cannot find out where this link leads") from error
        if "?" in str(place):
            raise InputError(f"{path}: a study cannot be in a folder with a question mark in its name; choose another folder")
        return cls(f"sqlite:///{place}")

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Parse the address that a user gives; raises InputError if it is not a supported one."""
        scheme, colon, rest = text.partition("://")
        if colon and re.fullmatch(_POSTGRES, scheme):
            driver = scheme.partition("+")[2] or "psycopg"
            try:
                # With a second @ the password would be cut short, and messages would print the rest of it as the host.
                valid = (bool(urlsplit(text).hostname) or "host=" in rest) and rest.partition("?")[0].count("@") <= 1
                _ = urlsplit(text).port
            except ValueError:
                valid = False
            if not valid or not urlsplit(text).path.strip("/"):
                raise InputError(
                    f"--storage {masked(text)}: write it as postgresql://USER:PASSWORD@HOST:PORT/DATABASE, "
                    "with special characters of the password percent-encoded (%40 for @)"
                )
            return cls(f"postgresql+{driver}://{rest}")
        if colon and scheme == "sqlite" and rest.strip("/") and not set("?:") & set(rest.strip("/")):
            return cls(text)
        raise InputError(f"--storage {masked(text)}: give postgresql://USER:PASSWORD@HOST:PORT/DATABASE, or omit it to use a file")

    @property
    def file(self) -> Path | None:
        """The SQLite file; None for a server."""
        return Path(self.url.removeprefix("sqlite:///")) if self.url.startswith("sqlite:") else None

    @property
    def shown(self) -> str:
        """The address for messages: without password and driver."""
        return str(self.file) if self.file else masked(self.url).replace("postgresql+psycopg:", "postgresql:")

    def scrubbed(self, text: str) -> str:
        """Return a library's message with the password masked."""
        for secret in _secrets(self.url):
            text = text.replace(secret, "***")
        return text


def masked(url: str) -> str:
    """Return an address with its passwords masked.

    >>> masked("postgresql://me:secret@host/db"), masked("postgresql://host/db?user=me&password=secret")
    ('postgresql://me:***@host/db', 'postgresql://host/db?user=me&password=***')
    >>> masked("postgresql://me:secret"), masked("postgresql://host:5432/db")
    ('postgresql://me:***', 'postgresql://host:5432/db')
    """
    scheme, colon, rest = url.partition("://")
    if not colon:  # mistyped: anything before an @ may be a password
        return re.sub(r".*@", "***@", url)
    rest = re.sub(r"^([^/?#]*?):(.*)@", r"\1:***@", rest)
    rest = re.sub(r"^([^/?#:@]*):(?!\d*(?:[/?#]|$))[^/?#@]*", r"\1:***", rest)  # without an @, what is not a port may be a password
    return f"{scheme}://" + re.sub(r"(?i)(password|sslpassword|passfile)=[^&]*", r"\1=***", rest)


def _secrets(url: str) -> set[str]:
    rest = url.partition("://")[2]
    found = re.findall(r"^[^/?#]*?:(.*)@", rest) + re.findall(r"(?i)password=([^&]*)", rest)
    return {form for secret in found for form in (secret, unquote(secret)) if form}
