"""What type checkers see of messages: a small program, and the complaints it is due."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "typing" / "user_program.py"
SOURCES = Path(__file__).parents[2] / "src"

pytestmark = pytest.mark.slow

Found = set[tuple[int, str]]


def expected(checker: str) -> Found:
    """Line and code of every complaint the program asks for."""
    wanted: Found = set()
    for number, line in enumerate(PROGRAM.read_text().splitlines(), 1):
        said = re.search(rf"# .*{checker}: ([\w, -]+?)(?: \w+:|$)", line)
        if said and not line.lstrip().startswith("#"):
            wanted |= {(number, code.strip()) for code in said[1].split(",")}
    return wanted


def mypy(directory: Path) -> Found:
    command = ["--strict", "--config-file=", f"--cache-dir={directory}", "--no-error-summary"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *command, str(PROGRAM)],
        capture_output=True,
        text=True,
        cwd=directory,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    complaints = [
        re.fullmatch(r".*user_program\.py:(\d+): error: .*\[([\w-]+)\]", line)
        for line in done.stdout.splitlines()
        if ": note: " not in line
    ]
    assert all(complaints), done.stdout
    return {(int(one[1]), one[2]) for one in complaints if one}


def pyright(directory: Path) -> Found:
    settings = {
        "include": [str(PROGRAM)],
        "extraPaths": [str(SOURCES)],
        "typeCheckingMode": "strict",
    }
    config = directory / "pyrightconfig.json"
    config.write_text(json.dumps(settings))
    options = ["--pythonpath", sys.executable, "--outputjson", "--project", str(config)]
    done = subprocess.run(
        [sys.executable, "-m", "basedpyright", *options],
        capture_output=True,
        text=True,
        cwd=directory,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return {
        (one["range"]["start"]["line"] + 1, one["rule"])
        for one in json.loads(done.stdout)["generalDiagnostics"]
        if not one["rule"].startswith("reportUnknown")  # follows from another one on the line
    }


def test_the_program_asks_for_complaints() -> None:
    assert len(expected("mypy")) > 15
    assert {line for line, _ in expected("mypy")} == {line for line, _ in expected("pyright")}


def test_mypy_sees_every_field_and_argument(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    assert mypy(tmp_path) == expected("mypy")


def test_pyright_sees_every_field_and_argument(tmp_path: Path) -> None:
    pytest.importorskip("basedpyright", reason="pyright with its Node.js: pip install basedpyright")
    assert pyright(tmp_path) == expected("pyright")
