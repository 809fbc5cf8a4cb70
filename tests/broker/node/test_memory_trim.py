"""Memory that was freed goes back to the operating system, once, and only when it is much."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .memory_checks import CHECKS, IMPOSSIBLE

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", [one.__name__ for one in CHECKS])
def test_freed_memory(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.broker.node.memory_checks", name],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode == IMPOSSIBLE:
        pytest.skip("this C library has no malloc_trim and mallinfo2")
    assert done.returncode == 0, done.stderr
