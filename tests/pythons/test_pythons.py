"""Every Python that Fencepost says it runs on: installed there from source, C extensions and all.

Each interpreter that is on this machine or in Maven Central gets a virtual environment in
`.cache/pythons`, with the versions that `requirements/dev.txt` pins, and Fencepost built in it as
pip builds it for anybody. Then the tests of codec and record batches that need no foreign client
run in it, on both backends.
An interpreter that cannot be had is skipped by its name. Needs a package index and a C compiler, so
only `make pythons` runs this.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from .interpreters import CACHE, ROOT, PythonUnavailableError, interpreter

PINS = re.compile(r"^[\w.-]+==[^\\\n]+", re.MULTILINE)
CLASSIFIER = re.compile(r"Programming Language :: Python :: (3\.\d+)")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSIONS = ["3.11", "3.12", "3.13", "3.14"]
PACKAGES = [
    *("cython", "setuptools", "pytest", "pytest-timeout", "hypothesis", "psutil"),
    *PROJECT["dependencies"],
    *PROJECT["optional-dependencies"]["arrow"],
]
COPIED = ["src", "tests", "examples", "setup.py", "pyproject.toml", "README.md", "LICENSE"]
CORE = [
    *(f"tests/wire/test_{name}.py" for name in ("objects", "hostile_objects", "element_limit")),
    *(f"tests/wire/test_{name}.py" for name in ("message", "types", "codecs_agree")),
    *(f"tests/batch/test_{name}.py" for name in ("crc", "records", "produced", "hostile")),
    *(f"tests/batch/test_{name}.py" for name in ("columns", "columns_encode", "light")),
    *(f"tests/batch/test_{name}.py" for name in ("key_offsets", "sound_headers")),
    "tests/broker/apis/test_fetch_bytes.py",
    "tests/log/test_page_cache.py",
]


def run(*command: object, cwd: Path) -> str:
    """What the command prints; the test fails with the end of it when the command does."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("FENCEPOST_")}
    for name in ("PYTHONPATH", "VIRTUAL_ENV"):
        clean.pop(name, None)
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=clean, capture_output=True, text=True, check=False)
    shown = (done.stdout + done.stderr)[-6000:]
    assert done.returncode == 0, f"{' '.join(words)}\n{shown}"
    return done.stdout


def environment(version: str, scratch: Path) -> Path:
    """The Python of a virtual environment with what building and testing need."""
    home = CACHE / version
    python = home / "bin" / "python"
    try:
        base = interpreter(version)
    except PythonUnavailableError as error:
        pytest.skip(str(error))
    if not python.exists():
        run(base, "-m", "venv", home, cwd=scratch)
    pins = scratch / "pins.txt"
    pins.write_text("\n".join(PINS.findall((ROOT / "requirements" / "dev.txt").read_text())))
    pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    run(*pip, "-c", pins, *PACKAGES, cwd=scratch)
    return python


def test_every_version_that_the_package_names_is_tried():
    named = {found[1] for line in PROJECT["classifiers"] if (found := CLASSIFIER.fullmatch(line))}
    assert named and named <= set(VERSIONS)


def test_what_is_to_run_everywhere_is_there():
    assert [name for name in CORE if not (ROOT / name).is_file()] == []


@pytest.mark.pythons
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("version", VERSIONS)
def test_extensions_are_built_and_work(version: str, tmp_path: Path):
    python = environment(version, tmp_path)
    source = tmp_path / "source"
    source.mkdir()
    built = shutil.ignore_patterns("*.so", "*.c", "__pycache__", "*.egg-info", "_not_built.json")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=built)
        else:
            shutil.copy(ROOT / name, source / name)
    pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--force-reinstall"]
    run(*pip, "--no-deps", "--no-build-isolation", source, cwd=tmp_path)

    said = run(python, "-m", "fencepost.cli.main", "--version", cwd=tmp_path)
    assert re.fullmatch(
        r"fencepost \S+ \(wire: c, batch: c, produce: c, fetch: c, read: c, sync: c;"
        rf" Python {re.escape(version)}\.\d+\)\n",
        said,
    ), said

    shutil.rmtree(source / "src")  # what is installed is tested
    options = ["-q", "-m", "not slow", "--timeout", "600"]
    print(version, run(python, "-m", "pytest", *options, *CORE, cwd=source).splitlines()[-1])
