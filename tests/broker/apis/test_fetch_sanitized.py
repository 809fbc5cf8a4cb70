"""The kernel of Fetch under AddressSanitizer and UndefinedBehaviorSanitizer: no byte out of
bounds."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import fencepost.wire
from fencepost.wire import backend

from ... import sanitized

FETCH = Path(fencepost.wire.__file__).resolve().with_name("_fetch.pyx")
SECONDS = os.environ.get("FENCEPOST_FUZZ_SECONDS", "2")

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(backend.fetch_kernel is None, reason="only what is compiled can"),
]


def fuzz(built: Path, seconds: str) -> subprocess.CompletedProcess[str]:
    program = "tests.broker.apis.fuzz_fetch_bytes"
    return sanitized.run(program, str(built), "1", seconds, timeout_s=240 + float(seconds))


def test_a_hostile_fetch_is_not_read_past_its_end(tmp_path: Path) -> None:
    done = fuzz(sanitized.build(FETCH, tmp_path), SECONDS)
    assert done.returncode == 0, done.stderr[-4000:]
    _, rounds, _, usual = done.stdout.split()
    assert int(rounds) > 100 and int(usual) > 100


PLANTED = {
    "a topic": ("size >= LENGTH_MAX or size >= self.end - self.at", "size >= LENGTH_MAX"),
    "a topic's last byte": ("size >= self.end - self.at:", "size > self.end - self.at:"),
    "a topic's tags": (
        "if self.end - self.at <= <Py_ssize_t>count[0]",
        "if self.end - self.at < <Py_ssize_t>count[0]",
    ),
    "the next topic": ("        if self.at >= self.end:", "        if self.at > self.end:"),
    "what is forgotten": ("wanted) or cursor.at >= cursor.end:", "wanted):"),
    "the replica": ("if cursor.end - at < 4 or", "if cursor.end - at < 3 or"),
    "its partitions": ("<Py_ssize_t>count[0] * partition_bytes + 1:", "0:"),
    "the head": ("if cursor.end - at < HEAD_BYTES:", "if cursor.end - at < HEAD_BYTES - 1:"),
    "an answer": ("+ records_size + 1\n", "+ records_size - 40\n"),
}
PLANTED_IN_RUNS = {
    "a frame's end": ("size > end - self.start - LENGTH_BYTES", "size > (1 << 30)"),
    "a frame's head": ("LENGTH_BYTES + CORRELATION_BYTES + head_bytes\n", "0\n"),
}


@pytest.mark.parametrize("place", [*PLANTED, *PLANTED_IN_RUNS])
def test_a_missing_check_of_a_fetch_would_be_noticed(place: str, tmp_path: Path) -> None:
    """The tester tested."""
    planted = (FETCH.name, *PLANTED[place]) if place in PLANTED else None
    planted = planted or ("_fetch_runs.pxi", *PLANTED_IN_RUNS[place])
    done = fuzz(sanitized.build(FETCH, tmp_path, planted=planted), "5")
    assert done.returncode != 0
    assert "ERROR: AddressSanitizer" in done.stderr
