"""What a starting broker loads: nothing of what it was not asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.batch import backend
from fencepost.broker.net.served import BROKER, CONTROLLER, SERVED, SERVED_BY_KIND

STRANGERS = frozenset(
    {
        "fencepost.sim",
        "fencepost.arrow",
        "fencepost.spark",
        "fencepost.testing",
        "fencepost.broker.node.observation",
        "fencepost.client.producer",
        "fencepost.client.consumer",
        "fencepost.broker.cluster.acl_requests",
        "fencepost.broker.cluster.controller_access",
        "fencepost.broker.cluster.encoded_topics",
        "fencepost.broker.cluster.mutation_charges",
        "fencepost.broker.cluster.streams_topics",
        "fencepost.broker.cluster.transaction_link",
        "fencepost.broker.groups.group_host",
        "fencepost.broker.net.address_rates",
        "fencepost.broker.net.handshakes",
        "fencepost.broker.net.login",
        "fencepost.broker.net.logins",
        "fencepost.broker.net.tls_transport",
        "fencepost.broker.node.coordinators",
        "fencepost.broker.node.fetch_serving",
        "fencepost.broker.node.fetchers",
        "fencepost.broker.node.memory_trim",
        "fencepost.broker.node.verification",
        "fencepost.broker.replicas.fetch_channel",
        "fencepost.broker.security",
        "fencepost.broker.storage.cold_reads",
        "fencepost.broker.transactions.transaction_host",
        "fencepost.log.cleaner.job",
        "fencepost.log.cleaner.swap",
        "fencepost.log.dump",
        "fencepost.log.future_logs",
        "fencepost.log.recovery",
        "fencepost.log.reopening",
        "fencepost.machines.authorizer",
        "fencepost.machines.controller.security",
        "fencepost.machines.coordinator.undo_log",
        "fencepost.machines.fetch",
        "fencepost.machines.fetcher",
        "fencepost.machines.group.coordinator",
        "fencepost.machines.quorum.log_damage",
        "fencepost.machines.quota",
        "fencepost.machines.sasl",
        "fencepost.machines.scram_keys",
        "fencepost.machines.transaction.coordinator",
        "fencepost.runtime.authorizer",
        "fencepost.runtime.coordinator",
        "fencepost.runtime.fetchers",
        "fencepost.runtime.log_dir_moves",
        "fencepost.runtime.metadata.damage",
        "fencepost.runtime.verification",
        "fencepost.wire.records.group",
        "fencepost.wire.records.transaction",
        "prometheus_client",
        "cramjam",
        "ctypes",
        "lz4",
        "numpy",
        "psutil",
        "pyarrow",
        "pyspark",
        "snappy",
        "zstandard",
        "email",
        "encodings.idna",
        "hashlib",
        "http",
        "json",
        "multiprocessing",
        "shutil",
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
from fencepost.broker.net.served import BROKER, CONTROLLER
from fencepost.broker.node.node import Node
from fencepost.cli.main import main

start = Node.start
async def start_and_tell(node, **settings):
    await start(node, **settings)
    print("loaded", *sorted(sys.modules), file=sys.stderr)
    made = {
        f"{module.__name__}.{name}"
        for module in list(sys.modules.values())
        if module.__name__.startswith("fencepost.")
        for name, value in vars(module).items()
        if "__dataclass_fields__" in getattr(value, "__dict__", ())
    }
    print("dataclasses", *sorted(made), file=sys.stderr)
    for kind, part in ((BROKER, node.broker), (CONTROLLER, node.controller)):
        routes = part.listener.routes
        print(kind, *(key for key in sorted(routes) if routes[key]), file=sys.stderr)
    os.kill(os.getpid(), signal.SIGTERM)
Node.start = start_and_tell
sys.exit(main(["serve", *sys.argv[1:]]))
"""


MODULES_MAX = 386
"""How many of our own modules a start may load: each costs it some 0.3 ms of CPU."""
WHAT_IS_TOLD = frozenset({"loaded", "dataclasses", BROKER, CONTROLLER})


def told_by_a_start(data_dir: Path, *options: str) -> dict[str, list[str]]:
    """What a node tells once it has started: the modules that are there, and which APIs have a
    handler that has what it needs."""
    command = [sys.executable, "-c", _SERVE, "--data-dir", str(data_dir)]
    served = subprocess.run(
        [*command, "--listen", "127.0.0.1:0", *options], capture_output=True, text=True, timeout=300
    )
    lines = [line.split(" ") for line in served.stderr.splitlines()]
    told = {line[0]: line[1:] for line in lines if line[0] in WHAT_IS_TOLD}
    assert served.returncode == 0 and told.keys() == WHAT_IS_TOLD, served.stderr
    return told


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    return told_by_a_start(tmp_path_factory.mktemp("node") / "data")


@pytest.fixture(scope="module")
def loaded(told: dict[str, list[str]]) -> set[str]:
    return set(told["loaded"])


@pytest.mark.parametrize("stranger", sorted(STRANGERS))
def test_a_broker_starts_without(loaded: set[str], stranger: str):
    assert "fencepost.broker.node.broker_part" in loaded
    assert not {name for name in loaded if f"{name}.".startswith(f"{stranger}.")}


def test_a_broker_starts_with_few_modules(loaded: set[str]):
    own = {name for name in loaded if name.startswith("fencepost.")}
    assert len(own) <= MODULES_MAX


def test_a_broker_starts_without_making_dataclasses(told: dict[str, list[str]]):
    """Each takes half a millisecond of a start, a `msgspec.Struct` a hundredth of one."""
    assert told["dataclasses"] == []


@pytest.mark.skipif(
    backend.kernels is None or not backend.kernels.CRC_IN_HARDWARE,
    reason="no kernel of ours computes CRCs in hardware here",
)
def test_a_broker_with_a_kernel_for_crcs_starts_without_another(loaded: set[str]):
    assert "google_crc32c" not in loaded


@pytest.mark.parametrize("module", sorted({row.module for row in SERVED}))
def test_a_handler_waits_for_its_first_request(loaded: set[str], module: str):
    assert f"fencepost.broker.apis.{module}" not in loaded


@pytest.mark.parametrize("kind", [BROKER, CONTROLLER])
def test_every_row_has_a_handler_and_a_node_what_it_needs(told: dict[str, list[str]], kind: str):
    assert [int(key) for key in told[kind]] == sorted(SERVED_BY_KIND[kind])


def test_metrics_are_loaded_where_they_are_wanted(tmp_path: Path):
    options = ("-o", "fencepost.metrics.listener=127.0.0.1:0")
    assert "prometheus_client" in told_by_a_start(tmp_path / "data", *options)["loaded"]
