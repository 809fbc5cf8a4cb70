"""The fuzzer's finds stay found, and the fuzzer itself finds what is planted for it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.wire.api import HeartbeatRequest

from . import wire_target

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SECONDS = os.environ.get("FENCEPOST_FUZZ_SECONDS", "20")
CANARY_SECONDS = "240"  # at most: it ends when the mistake is found

needs_atheris = pytest.mark.skipif(
    importlib.util.find_spec("atheris") is None,
    reason="atheris is not installed (the extra `fuzz`; make fuzz)",
)


def finds() -> list[str]:
    """Lines `Class version hex` in the files of `found/`; `#` begins a comment."""
    lines = [line for path in sorted(HERE.glob("found/*.txt")) for line in path.open()]
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


@pytest.mark.parametrize("line", finds())
def test_what_was_found_once(line: str) -> None:
    name, version, *body = line.split(" ")
    cls, number = wire_target.BY_NAME[name, int(version)]
    wire_target.check(cls, number, bytes.fromhex("".join(body)))


def fuzz(
    corpus: Path, seeds: list[bytes], seconds: str, *options: str
) -> subprocess.CompletedProcess[str]:
    for number, seed in enumerate(seeds):
        (corpus / str(number)).write_bytes(seed)
    command = [sys.executable, "-m", "tests.fuzz.fuzz_wire", *options, str(corpus)]
    limits = [f"-max_total_time={seconds}", "-max_len=2048", f"-artifact_prefix={corpus}/"]
    return subprocess.run(
        [*command, *limits],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=float(seconds) + 240,
    )


@needs_atheris
@pytest.mark.slow
@pytest.mark.timeout(float(SECONDS) + 300)
def test_no_input_is_taken_wrongly(tmp_path: Path) -> None:
    done = fuzz(tmp_path, wire_target.seeds(), SECONDS)
    found = [line for line in done.stderr.splitlines() if line.startswith("FOUND")]
    assert done.returncode == 0, (found, done.stderr[-3000:])


@needs_atheris
@pytest.mark.slow
@pytest.mark.timeout(float(CANARY_SECONDS) + 300)
def test_a_planted_mistake_is_found(tmp_path: Path) -> None:
    seed = wire_target.as_input(HeartbeatRequest(group_id="g", unknown_tags={200: b""}), 4)
    done = fuzz(tmp_path, [seed], CANARY_SECONDS, "--canary")
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert "the canary was found" in said, said[-3000:]
