"""Ray Data and Daft read what `fencepost.arrow` gives, by their own Arrow doors.

In processes of their own: both leave loggers, environment and children behind.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest

from ..arrow.test_scanning import fill
from ..client.fake_cluster import FakeCluster

pytestmark = pytest.mark.interop

SCAN = """
import sys
import fencepost.arrow

scan = fencepost.arrow.scan(sys.argv[1], topics="t", columns=["partition", "value"], text=True)
rows = [{"partition": p, "value": f"t-{p}-{n}"} for p in (0, 1) for n in range(20 - 15 * p)]
"""
DAFT = """
import daft

assert daft.from_arrow(scan).to_pylist() == rows
"""
RAY = """
import ray

ray.init(num_cpus=1, include_dashboard=False, object_store_memory=100_000_000, log_to_driver=False)
assert ray.data.from_arrow(scan.read_all()).take_all() == rows
read = ray.remote(lambda piece: piece.read_all())
pieces = ray.data.from_arrow_refs([read.remote(piece) for piece in scan.split()])
assert sorted(map(str, pieces.take_all())) == sorted(map(str, rows))
ray.shutdown()
"""


@pytest.mark.parametrize(("library", "script"), [("daft", DAFT), ("ray", RAY)])
def test_a_library_reads_a_scan(library: str, script: str):
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    with FakeCluster(brokers=2) as fake:
        fake.create_topic("t", 2)
        fill(fake, 20)
        fill(fake, 5, 1)
        done = subprocess.run(
            [sys.executable, "-c", SCAN + script, fake.bootstrap_servers],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    assert done.returncode == 0, done.stderr
