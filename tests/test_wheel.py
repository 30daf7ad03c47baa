"""A real wheel holds the whole package: an editable installation would hide what is missing."""

import importlib.machinery
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NATIVE = {".cpp", ".h"}  # in the source distribution only


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    code = (
        "import sys; from scikit_build_core.build import build_sdist; "
        "print(build_sdist(sys.argv[1]), file=open(sys.argv[1] + '/name', 'w'))"
    )
    subprocess.run([sys.executable, "-c", code, str(folder)], cwd=ROOT, check=True, capture_output=True)
    return folder / (folder / "name").read_text().strip()


def package_files(sdist: Path, folder: Path, **environment: str) -> set[str]:
    """The package's files in the wheel that pip makes from the source distribution."""
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(sdist)]
    subprocess.run(command, check=True, capture_output=True, env=os.environ | environment)
    (wheel,) = folder.glob("*.whl")
    return {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("highwaynet/")}


def source_files() -> set[Path]:
    return {path for path in (ROOT / "src").rglob("*") if path.is_file() and "__pycache__" not in path.parts}


def wanted_files() -> set[str]:
    return {str(path.relative_to(ROOT / "src")) for path in source_files() if path.suffix not in NATIVE}


def compiled(files: set[str]) -> list[str]:
    return [name for name in files if name.endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES))]


def test_the_source_distribution_holds_what_a_build_needs(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    assert {str(path.relative_to(ROOT)) for path in source_files()} <= packed
    assert {"CMakeLists.txt", "pyproject.toml", "src/highwaynet/kernels/gating.cpp", "src/highwaynet/kernels/gating.h"} <= packed
    assert not any(name.endswith((".so", ".o")) for name in packed)


def test_the_wheel_holds_every_file_and_the_compiled_kernels(sdist: Path, tmp_path: Path) -> None:
    packed = package_files(sdist, tmp_path)
    assert wanted_files() <= packed
    assert "highwaynet/runs/directory.py" in packed
    assert not any(name.endswith(tuple(NATIVE)) for name in packed)
    if any(shutil.which(name) for name in ("c++", "g++", "clang++")):
        assert [Path(name).name.partition(".")[0] for name in compiled(packed)] == ["_native"]


def test_without_a_compiler_the_wheel_holds_every_python_file(sdist: Path, tmp_path: Path) -> None:
    packed = package_files(sdist, tmp_path, CC="/nonexistent/cc", CXX="/nonexistent/c++")
    assert wanted_files() == packed
