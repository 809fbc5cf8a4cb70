"""The kernels under AddressSanitizer and UndefinedBehaviorSanitizer: no byte out of bounds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import fencepost.batch

HERE = Path(__file__).resolve().parent
SOURCES = Path(fencepost.batch.__file__).resolve().parent
SECONDS = os.environ.get("FENCEPOST_FUZZ_SECONDS", "5")

pytestmark = pytest.mark.slow


def library(name: str) -> str:
    found = subprocess.run(
        ["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not Path(found).is_absolute():
        pytest.skip(f"gcc has no {name}")
    return found


def build(place: Path, *, canary: tuple[str, str] | None = None) -> Path:
    """The kernels with every check the compiler has, and with a bug if one is asked for."""
    pytest.importorskip("Cython")
    if shutil.which("gcc") is None:
        pytest.skip("there is no gcc")
    for source in [*SOURCES.glob("*.h"), SOURCES / "_kernels.pyx"]:
        text = source.read_text()
        if canary is not None and source.name == "_records.h":
            assert canary[0] in text
            text = text.replace(*canary)
        (place / source.name).write_text(text)
    translate = [sys.executable, "-m", "cython", "-3", str(place / "_kernels.pyx")]
    subprocess.run(translate, check=True, capture_output=True)
    flags = ["-shared", "-fPIC", "-O1", "-g", "-fsanitize=address,undefined"]
    include = f"-I{sysconfig.get_paths()['include']}"
    built = place / "_kernels.so"
    subprocess.run(
        ["gcc", *flags, "-fno-sanitize-recover=all", include, f"{place}/_kernels.c", "-o", built],
        check=True,
    )
    return built


def fuzz(built: Path, seconds: str) -> subprocess.CompletedProcess[str]:
    preloaded = f"{library('libasan.so')} {library('libubsan.so')}"
    return subprocess.run(
        [sys.executable, str(HERE / "fuzz_kernels.py"), str(built), "1", seconds],
        env=os.environ
        | {
            "LD_PRELOAD": preloaded,
            "ASAN_OPTIONS": "detect_leaks=0:symbolize=0",
            "PYTHONMALLOC": "malloc",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=240 + float(seconds),
    )


def test_nothing_is_read_or_written_out_of_bounds(backend_name, tmp_path):
    if backend_name != "c":
        pytest.skip("only the kernels can")
    done = fuzz(build(tmp_path), SECONDS)
    assert done.returncode == 0, done.stderr[-4000:]
    _, rounds, _, sound = done.stdout.split()
    assert int(rounds) > 100 and int(sound) > 100


def test_a_missing_check_would_be_noticed(backend_name, tmp_path):
    """The tester tested: without its check, a length may pass the end of its record."""
    if backend_name != "c":
        pytest.skip("only the kernels can")
    canary = ("*size < -1 || *size > end - *cursor)", "*size < -1)")
    done = fuzz(build(tmp_path, canary=canary), "30")
    assert done.returncode != 0
    assert "ERROR: AddressSanitizer" in done.stderr
