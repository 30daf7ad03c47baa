"""The kernels under the compiler's own checks: memory past an end, undefined arithmetic. Alone, and through the registered operators."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from highwaynet.kernels.native import native_module

ROOT = Path(__file__).parents[2]
KERNELS = ROOT / "src" / "highwaynet" / "kernels"
FLAGS = {  # as in CMakeLists.txt
    "baseline": ["-DHIGHWAYNET_LANES=4"],
    "avx2": ["-DHIGHWAYNET_LANES=8", "-mavx2", "-mfma"],
    "avx512": ["-DHIGHWAYNET_LANES=16", *(f"-mavx512{part}" for part in ("f", "dq", "bw", "vl")), "-mfma", "-mprefer-vector-width=512"],
}
CHECKED = ["-std=c++17", "-O1", "-g", "-ffp-contract=fast", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", f"-I{KERNELS}"]

native = native_module()


@pytest.mark.skipif(native is None or shutil.which("g++") is None, reason="needs the compiled kernels and g++")
@pytest.mark.parametrize(("kernel", "source"), [("dense_stack", "driver.cpp"), ("recurrent", "recurrent_driver.cpp")])
def test_nothing_is_read_or_written_past_an_end(kernel: str, source: str, tmp_path: Path) -> None:
    assert native is not None
    x86 = ["-DHIGHWAYNET_X86"] if "avx2" in native.instruction_sets() else []
    names = list(FLAGS) if x86 else ["baseline"]
    compilers = []
    for name in names:
        own = [*FLAGS[name], f"-DHIGHWAYNET_TABLE={kernel}_{name}", *x86]
        command = ["g++", *CHECKED, *own, "-c", str(KERNELS / f"{kernel}.cpp"), "-o", f"{name}.o"]
        compilers.append(subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True))
    for compiler in compilers:
        _, errors = compiler.communicate()
        assert compiler.returncode == 0, errors
    driver = ["g++", *CHECKED, *x86, str(Path(__file__).with_name(source)), *(f"{name}.o" for name in names), "-o", "driver"]
    subprocess.run(driver, cwd=tmp_path, check=True)
    result = subprocess.run(["./driver", *native.instruction_sets()], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert ", 0 failures" in result.stdout


def _runtimes() -> list[str]:
    """The libraries that have to be loaded before Python's own: AddressSanitizer's, and C++'s, whose exceptions it watches."""
    if not shutil.which("g++"):
        return []
    names = ("libasan.so", "libstdc++.so.6")
    found = [
        subprocess.run(["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip() for name in names
    ]
    return found if all(Path(path).is_absolute() for path in found) else []


@pytest.mark.skipif(native is None or shutil.which("cmake") is None or not _runtimes(), reason="needs the kernels, cmake and g++ with ASan")
def test_random_calls_of_the_operators(tmp_path: Path) -> None:
    options = ["-DHIGHWAYNET_CHECKED=ON", "-DCMAKE_CXX_COMPILER=g++", f"-DPython_EXECUTABLE={sys.executable}"]
    for command in (["cmake", "-S", str(ROOT), "-B", str(tmp_path), *options], ["cmake", "--build", str(tmp_path), "-j2"]):
        built = subprocess.run(command, capture_output=True, text=True, check=False)
        assert built.returncode == 0, built.stdout + built.stderr
    (module,) = tmp_path.glob("_native*.so")
    script = Path(__file__).with_name("fuzz_operators.py")
    command = [sys.executable, str(script), "--module", str(module), "--cases", "600", "--minutes", "5", "--verbose"]
    # Leaks of Python and torch are not ours. Memory that torch takes from the C library lies between guarded zones then.
    checked = {"LD_PRELOAD": " ".join(_runtimes()), "ASAN_OPTIONS": "detect_leaks=0"}
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | checked)
    assert result.returncode == 0, "\n".join(result.stdout.splitlines()[-3:]) + result.stderr
    assert "600 cases: " in result.stdout.splitlines()[-1]
    assert "failed" not in result.stdout.splitlines()[-1]
