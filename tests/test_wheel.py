"""A real wheel holds the whole package: an editable installation would hide what is missing."""

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_wheel_made_from_the_source_distribution_holds_every_file(tmp_path: Path) -> None:
    code = (
        "import sys; from scikit_build_core.build import build_sdist; "
        "print(build_sdist(sys.argv[1]), file=open(sys.argv[1] + '/name', 'w'))"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, check=True, capture_output=True)
    sdist = tmp_path / (tmp_path / "name").read_text().strip()
    command = ["-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path), str(sdist)]
    subprocess.run([sys.executable, *command], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("highwaynet/")}
    source = ROOT / "src"
    wanted = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert wanted <= packed
    assert "highwaynet/runs/directory.py" in packed
