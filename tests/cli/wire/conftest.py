"""Fixtures of the tests of commands."""

from __future__ import annotations

import io
import sys

import pytest

from fencepost.cli.main import main

from .wire_command import Ran, Wire


@pytest.fixture
def wire(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Wire:
    """Runs `fencepost wire ...` in this process; `stdin` is what it reads."""

    def run(*words: str, stdin: bytes = b"") -> Ran:
        capfdbinary.readouterr()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        try:
            code = main(["wire", *words])
        except SystemExit as error:  # argparse's way to say that the command line is wrong
            code = int(error.code or 0)
        sys.stdout.flush()
        captured = capfdbinary.readouterr()
        return Ran(code, captured.out, captured.err.decode())

    return run
