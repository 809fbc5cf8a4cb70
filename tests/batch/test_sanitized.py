"""The kernels under AddressSanitizer and UndefinedBehaviorSanitizer: no byte out of bounds."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import fencepost.batch

from .. import sanitized

KERNELS = Path(fencepost.batch.__file__).resolve().with_name("_kernels.pyx")
PRODUCE = KERNELS.with_name("_produce.pyx")
SECONDS = os.environ.get("FENCEPOST_FUZZ_SECONDS", "2")

pytestmark = pytest.mark.long


def fuzz(
    built: Path, seconds: str, program: str = "tests.batch.fuzz_kernels"
) -> subprocess.CompletedProcess[str]:
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


def test_a_hostile_produce_request_is_not_read_past_its_end(backend_name, tmp_path):
    if backend_name != "c":
        pytest.skip("only the kernels can")
    done = fuzz(sanitized.build(PRODUCE, tmp_path), SECONDS, "tests.batch.fuzz_produce")
    assert done.returncode == 0, done.stderr[-4000:]
    _, rounds, _, sound, _, taken = done.stdout.split()
    assert int(rounds) > 100 and int(sound) > 100 and int(taken) > 100


def test_a_missing_check_of_a_produce_request_would_be_noticed(backend_name, tmp_path):
    if backend_name != "c":
        pytest.skip("only the kernels can")
    planted = ("_produce.h", "size < FPOST_BATCH_HEADER_BYTES || ", "")
    done = fuzz(
        sanitized.build(PRODUCE, tmp_path, planted=planted), "5", "tests.batch.fuzz_produce"
    )
    assert done.returncode != 0
    assert "ERROR: AddressSanitizer" in done.stderr
