"""What a starting broker loads: nothing of what it was not asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

STRANGERS = frozenset(
    {
        "fencepost.sim",
        "fencepost.spark",
        "fencepost.testing",
        "fencepost.broker.node.observation",
        "fencepost.client.producer",
        "fencepost.client.consumer",
        "fencepost.log.dump",
        "prometheus_client",
        "cramjam",
        "lz4",
        "numpy",
        "psutil",
        "pyarrow",
        "pyspark",
        "snappy",
        "zstandard",
        "email",
        "http",
        "multiprocessing",
        "sqlite3",
        "tempfile",
        "unittest",
        "urllib.request",
        "xml",
    }
)
"""Of the client, a broker has what connects it to other nodes (`fencepost.client.protocol`)."""

_SERVE = """
import os, signal, sys
from fencepost.broker.node.node import Node
from fencepost.cli.main import main

start = Node.start
async def start_and_tell(node, **settings):
    await start(node, **settings)
    print("loaded", *sorted(sys.modules), file=sys.stderr)
    os.kill(os.getpid(), signal.SIGTERM)
Node.start = start_and_tell
sys.exit(main(["serve", *sys.argv[1:]]))
"""


def loaded_by_a_start(data_dir: Path, *options: str) -> set[str]:
    """The modules that are there once a node has started."""
    command = [sys.executable, "-c", _SERVE, "--data-dir", str(data_dir)]
    served = subprocess.run(
        [*command, "--listen", "127.0.0.1:0", *options], capture_output=True, text=True, timeout=60
    )
    told = [line for line in served.stderr.splitlines() if line.startswith("loaded ")]
    assert served.returncode == 0 and told, served.stderr
    return set(told[0].split())


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    return loaded_by_a_start(tmp_path_factory.mktemp("node") / "data")


@pytest.mark.parametrize("stranger", sorted(STRANGERS))
def test_a_broker_starts_without(loaded: set[str], stranger: str):
    assert "fencepost.broker.node.broker_part" in loaded
    assert not {name for name in loaded if f"{name}.".startswith(f"{stranger}.")}


def test_metrics_are_loaded_where_they_are_wanted(tmp_path: Path):
    options = ("-o", "fencepost.metrics.listener=127.0.0.1:0")
    assert "prometheus_client" in loaded_by_a_start(tmp_path / "data", *options)
