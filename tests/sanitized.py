"""C sources under AddressSanitizer and UndefinedBehaviorSanitizer: built, loaded and run.

The first byte that is read or written out of bounds ends the process that `run` starts. Memory of
Python's objects comes from malloc there, so that no other object lies right behind an object.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
PATTERNS = ["*.h", "*.pxi", "*.pyx"]
# Nothing is optimised away that would be checked, and it compiles in a quarter of the time.
FLAGS = ["-shared", "-fPIC", "-O0", "-g", "-fsanitize=address,undefined"]

Planted = tuple[str, str, str]
"""A mistake: the file, what it says, and what it is to say instead."""


def build(module: Path, place: Path, *, planted: Planted | None = None) -> Path:
    """The .pyx `module` with every check the compiler has, and with a mistake if one is given."""
    pytest.importorskip("Cython")
    if shutil.which("gcc") is None:
        pytest.skip("there is no gcc")
    _library("libasan.so")
    for source in [path for pattern in PATTERNS for path in module.parent.glob(pattern)]:
        text = source.read_text()
        if planted is not None and source.name == planted[0]:
            assert text.count(planted[1]) == 1
            text = text.replace(*planted[1:])
        (place / source.name).write_text(text)
    translate = [sys.executable, "-m", "cython", "-3", str(place / module.name)]
    subprocess.run(translate, check=True, capture_output=True)
    translated, built = place / f"{module.stem}.c", place / f"{module.stem}.so"
    include = f"-I{sysconfig.get_paths()['include']}"
    subprocess.run(
        ["gcc", *FLAGS, "-fno-sanitize-recover=all", include, translated, "-o", built], check=True
    )
    return built


def _library(name: str) -> str:
    found = subprocess.run(
        ["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not Path(found).is_absolute():
        pytest.skip(f"gcc has no {name}")
    return found


def run(program: str, *arguments: str, timeout_s: float = 600) -> subprocess.CompletedProcess[str]:
    """`python -m PROGRAM ARGUMENTS` with what a sanitized extension needs loaded before."""
    return subprocess.run(
        [sys.executable, "-m", program, *arguments],
        cwd=ROOT,
        env=os.environ
        | {
            "LD_PRELOAD": f"{_library('libasan.so')} {_library('libubsan.so')}",
            "ASAN_OPTIONS": "detect_leaks=0:symbolize=0",
            "PYTHONMALLOC": "malloc",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )


def load(name: str, path: str) -> Any:
    """The extension built at `path`, for all who import `name` from now on."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
