"""The pytest fixture, in a pytest session of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from ..waiting import DEADLINE_S, eventually

pytestmark = pytest.mark.slow

TESTS = """
import os, pytest
from pathlib import Path

def test_that_breaks_everything(fencepost_cluster):
    cluster = fencepost_cluster
    assert sorted(cluster.brokers) == [1, 2]
    cluster.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER", count=None)
    cluster.hold("Fetch")
    cluster.cut(1, 2)
    cluster.kill(2)
    cluster.pause(1)
    raise RuntimeError("and fails")

def test_that_finds_nothing_of_it(fencepost_cluster):
    cluster = fencepost_cluster
    assert (cluster.faults, cluster.cuts, cluster.running) == ([], [], True)
    assert not any(node.is_paused for node in cluster.nodes.values())
    pids = [node.pid for node in cluster.nodes.values()]
    Path("pids").write_text(" ".join(map(str, pids)))
    Path("directory").write_text(str(cluster.directory))
"""


def test_no_fault_outlives_its_test_and_no_process_the_session(tmp_path: Path):
    (tmp_path / "test_broken.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nfencepost_brokers = 2\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=2 * DEADLINE_S,
        check=False,
    )
    assert "1 failed, 1 passed" in done.stdout, done.stdout
    assert "and fails" in done.stdout
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 3
    eventually(lambda: not any(psutil.pid_exists(pid) for pid in pids))
    assert not Path((tmp_path / "directory").read_text()).exists()
