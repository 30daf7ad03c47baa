"""Addresses of storages: what is accepted, and that no password is printed."""

from pathlib import Path
from urllib.parse import unquote

import pytest

from highwaynet.base.errors import InputError
from highwaynet.search.address import Address, masked


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://me:secret@host/db", "postgresql://me:***@host/db"),
        ("postgres://me:sec%40ret@host:5/db", "postgresql://me:***@host:5/db"),
        ("postgresql+psycopg2://me:secret@host/db?sslmode=require", "postgresql+psycopg2://me:***@host/db?sslmode=require"),
        ("postgresql:///db?host=/run/socket&user=me&password=secret", "postgresql:///db?host=/run/socket&user=me&password=***"),
        ("postgresql://host/db", "postgresql://host/db"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
    ],
)
def test_what_is_shown_has_no_password(text: str, shown: str) -> None:
    address = Address.parse(text)
    assert address.shown == shown
    assert address.file is None
    said = address.scrubbed(f"driver says: {text} and {address.url}; secret, sec@ret, sec%40ret")
    assert not any(form in said for form in ("secret", "sec@ret", "sec%40ret") if form in unquote(text) or form in text)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("postgresql://me:secret@/", "write it as postgresql://USER:PASSWORD@HOST:PORT/DATABASE"),
        ("postgresql://me:secret@host:port/db", "postgresql://me:***@host:port/db: write it as"),
        ("postgresql://me:secret@host", "write it as"),
        ("mysql://me:secret@host/db", "--storage mysql://me:***@host/db: give postgresql://"),
        ("me:secret@host/db", "--storage ***@host/db: give postgresql://"),
        ("postgresql://me:pa@secret@host/db", "postgresql://me:***@host/db: write it as"),
        ("postgresql://me:pa@secret/tail@host/db", "postgresql://me:***@host/db: write it as"),
        ("sqlite://", "give postgresql://"),
        ("sqlite:///:memory:", "give postgresql://"),
    ],
)
def test_other_addresses_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        Address.parse(text)
    assert sentence in str(caught.value)
    assert "secret" not in str(caught.value)


def test_files(tmp_path: Path) -> None:
    address = Address.of_file(tmp_path / "study.db")
    assert address.file == tmp_path / "study.db"
    assert address.shown == str(tmp_path / "study.db")
    assert Address.parse("sqlite:////a/b.db").file == Path("/a/b.db")
    assert masked("nothing to hide") == "nothing to hide"
    with pytest.raises(InputError, match="a question mark in its name"):
        Address.of_file(tmp_path / "what?" / "study.db")
