"""Where a study's storage is: a SQLite file, or a PostgreSQL server whose password is never printed. Free of torch and Optuna."""

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
    """A storage."""

    url: str
    """As SQLAlchemy takes it; may hold a password."""

    @classmethod
    def of_file(cls, path: Path) -> "Address":
        """That of a SQLite file; raises InputError where an address cannot hold its path."""
        if "?" in str(path.resolve()):
            raise InputError(f"{path}: a study cannot lie in a folder with a question mark in its name; choose another one")
        return cls(f"sqlite:///{path.resolve()}")

    @classmethod
    def parse(cls, text: str) -> "Address":
        """The storage that a user names; raises InputError where it is of no kind that we know."""
        scheme, colon, rest = text.partition("://")
        if colon and re.fullmatch(_POSTGRES, scheme):
            driver = scheme.partition("+")[2] or "psycopg"
            try:
                # A second @ would split the password elsewhere than meant, and the rest of it would be quoted as a host.
                valid = (bool(urlsplit(text).hostname) or "host=" in rest) and rest.partition("?")[0].count("@") <= 1
                _ = urlsplit(text).port
            except ValueError:
                valid = False
            if not valid or not urlsplit(text).path.strip("/"):
                raise InputError(
                    f"--storage {masked(text)}: write it as postgresql://USER:PASSWORD@HOST:PORT/DATABASE, "
                    "with special characters of the password as in other addresses (%40 for @)"
                )
            return cls(f"postgresql+{driver}://{rest}")
        if colon and scheme == "sqlite" and rest.strip("/") and not set("?:") & set(rest.strip("/")):
            return cls(text)
        raise InputError(f"--storage {masked(text)}: give postgresql://USER:PASSWORD@HOST:PORT/DATABASE, or leave it out for a file")

    @property
    def file(self) -> Path | None:
        """The file of SQLite; None where a server has it."""
        return Path(self.url.removeprefix("sqlite:///")) if self.url.startswith("sqlite:") else None

    @property
    def shown(self) -> str:
        """For people: without the password and the driver."""
        return str(self.file) if self.file else masked(self.url).replace("postgresql+psycopg:", "postgresql:")

    def scrubbed(self, text: str) -> str:
        """A text of a library without the password, should it have quoted it."""
        for secret in _secrets(self.url):
            text = text.replace(secret, "***")
        return text


def masked(url: str) -> str:
    """An address without its password, wherever it stands in it.

    >>> masked("postgresql://me:secret@host/db"), masked("postgresql://host/db?user=me&password=secret")
    ('postgresql://me:***@host/db', 'postgresql://host/db?user=me&password=***')
    """
    scheme, colon, rest = url.partition("://")
    if not colon:  # mistyped: whatever stands before an @ may be a password
        return re.sub(r".*@", "***@", url)
    rest = re.sub(r"^([^/?#]*?):(.*)@", r"\1:***@", rest)
    return f"{scheme}://" + re.sub(r"(?i)(password|sslpassword|passfile)=[^&]*", r"\1=***", rest)


def _secrets(url: str) -> set[str]:
    rest = url.partition("://")[2]
    found = re.findall(r"^[^/?#]*?:(.*)@", rest) + re.findall(r"(?i)password=([^&]*)", rest)
    return {form for secret in found for form in (secret, unquote(secret)) if form}
