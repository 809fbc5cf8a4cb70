"""The kernels under AddressSanitizer and UndefinedBehaviorSanitizer: no byte out of bounds."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import fencepost.batch

from .. import sanitized

KERNELS = Path(fencepost.batch.__file__).resolve().with_name("_kernels.pyx")
SECONDS = os.environ.get("FENCEPOST_FUZZ_SECONDS", "2")

pytestmark = pytest.mark.slow


def fuzz(built: Path, seconds: str) -> subprocess.CompletedProcess[str]:
    program = "tests.batch.fuzz_kernels"
    return sanitized.run(program, str(built), "1", seconds, timeout_s=240 + float(seconds))


def test_nothing_is_read_or_written_out_of_bounds(backend_name, tmp_path):
    if backend_name != "c":
        pytest.skip("only the kernels can")
    done = fuzz(sanitized.build(KERNELS, tmp_path), SECONDS)
    assert done.returncode == 0, done.stderr[-4000:]
    _, rounds, _, sound = done.stdout.split()
    assert int(rounds) > 100 and int(sound) > 100


def test_a_missing_check_would_be_noticed(backend_name, tmp_path):
    """The tester tested: without its check, a length may pass the end of its record."""
    if backend_name != "c":
        pytest.skip("only the kernels can")
    planted = ("_records.h", "*size < -1 || *size > end - *cursor)", "*size < -1)")
    done = fuzz(sanitized.build(KERNELS, tmp_path, planted=planted), "30")
    assert done.returncode != 0
    assert "ERROR: AddressSanitizer" in done.stderr
