"""Which format a file or folder of own data has: the same for training and for prediction."""

from pathlib import Path

import pytest

from highwaynet.data.formats import format_of


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rows.CSV", "table"),
        ("rows.tsv.gz", "table"),
        ("rows.parquet", "table"),
        ("arrays.npz", "arrays"),
        ("x.npy", "arrays"),
        ("picture.JPG", "images"),
        ("notes.txt", None),
    ],
)
def test_a_file_has_it_by_its_name(name: str, expected: str | None, tmp_path: Path) -> None:
    assert format_of(tmp_path / name) == expected


@pytest.mark.parametrize("name", ["folder", "folder.csv", "folder.npz"])
def test_a_folder_has_it_by_what_it_holds(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    assert format_of(tmp_path / name) == "images"
    (tmp_path / name / "x.npy").touch()
    assert format_of(tmp_path / name) == "arrays"
