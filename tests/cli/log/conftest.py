"""Fixtures of the tests of `fencepost log`."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.cli.main import main

from ...log.data_dir import ROOT, files_of, make_dir
from .commands import Output


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A sound log directory."""
    disk = make_dir()
    for path in files_of(disk):
        target = tmp_path / "data" / path.removeprefix(f"{ROOT}/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(disk.read(path))
    return tmp_path / "data"


@pytest.fixture
def run(capsys):
    def run_one(*words: object) -> Output:
        code = main(["log", *map(str, words)])
        captured = capsys.readouterr()
        return Output(code, captured.out, captured.err)

    return run_one
