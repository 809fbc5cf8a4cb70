"""A broker of one kind under controllers of the other: registration to controlled shutdown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as Client
from fencepost.client.metadata import PartitionInfo

from ..waiting import eventually
from . import apache
from .quorum import APACHE, FENCEPOST, Node, Quorum
from .quorum_images import image_of

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(240)]

BROKER = 101
SESSION = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}


@pytest.fixture(params=[(APACHE, FENCEPOST), (FENCEPOST, APACHE)], ids=":".join)
def quorum(request: pytest.FixtureRequest, kafka_jars, tmp_path: Path) -> Iterator[Quorum]:
    """One controller of the first kind, one broker of the second."""
    controller, broker = request.param
    with Quorum(tmp_path, (controller,), (broker,), config=SESSION) as quorum:
        quorum.format()
        quorum.start()
        quorum.wait_for_leader()
        yield quorum


def run(tool: str, broker: Node, *arguments: str, stdin: str | None = None) -> list[str]:
    server = ("--bootstrap-server", broker.address)
    return apache.run_tool(tool, *server, *arguments, stdin=stdin).lines


def read(broker: Node, topic: str, count: int) -> list[str]:
    return apache.consume(broker.address, topic, count, "--from-beginning")


def test_a_brokers_life(quorum: Quorum) -> None:
    broker = quorum.nodes[BROKER]
    with Client(broker.address) as client:
        Admin(client).create_topic("numbers", 2)
    # Idempotent, so it needs a producer id, and thereby a block of them from the controller.
    run("console-producer", broker, "--topic", "numbers", stdin="1\n2\n3\n")
    assert sorted(read(broker, "numbers", 3)) == ["1", "2", "3"]
    run("topics", broker, "--alter", "--topic", "numbers", "--partitions", "5")
    entity = ("--entity-type", "topics", "--entity-name", "numbers")
    run("configs", broker, *entity, "--alter", "--add-config", "retention.ms=-1")

    def described() -> str:
        return "\n".join(run("topics", broker, "--describe", "--topic", "numbers"))

    eventually(
        lambda: "PartitionCount: 5" in described() and "retention.ms=-1" in described(),
        "the broker knows what the controller has written",
    )
    broker.stop()
    broker.start()
    assert sorted(read(broker, "numbers", 3)) == ["1", "2", "3"], "back after a controlled shutdown"
    broker.kill()
    broker.start()
    assert sorted(read(broker, "numbers", 3)) == ["1", "2", "3"], "back after a crash"
    run("topics", broker, "--delete", "--topic", "numbers")
    eventually(lambda: "numbers" not in run("topics", broker, "--list"), "the topic is gone")


def test_a_broker_that_is_silent_is_fenced(quorum: Quorum) -> None:
    broker = quorum.nodes[BROKER]
    with Client(broker.address) as client:
        Admin(client).create_topic("led", 1)

    def partition() -> PartitionInfo:
        with Client(broker.address) as client:
            return Admin(client).describe_topic("led").partitions[0]

    assert (partition().leader_id, partition().leader_epoch) == (BROKER, 0)
    broker.kill()
    controller = quorum.voters[0]
    before = len(controller.metadata_log())
    # Only the controller writes, and no broker is left to ask: the log shows it.
    eventually(lambda: len(controller.metadata_log()) > before, "the controller fences it")
    broker.start()
    eventually(lambda: partition().leader_id == BROKER, "it leads again")
    assert partition().leader_epoch >= 2, "it had lost the lead, and got it back"


def test_a_broker_is_unregistered_and_comes_back(quorum: Quorum) -> None:
    broker, controller = quorum.nodes[BROKER], quorum.voters[0]
    with Client(broker.address) as client:
        Admin(client).create_topic("led", 1)
    run("console-producer", broker, "--topic", "led", stdin="1\n")
    broker.stop()
    where = ("--bootstrap-controller", quorum.bootstrap_controllers)
    unregister = ("unregister", *where, "--id", str(BROKER))
    said = apache.run_tool("cluster", *unregister).stdout
    assert said.strip() == f"Broker {BROKER} is no longer registered."
    image = image_of(controller.metadata_log())
    partition = image.topics_by_name["led"].partitions[0]
    # With eligible leader replicas the in-sync set may be empty; it led last, and may lead again.
    has_elr = image.features.get("eligible.leader.replicas.version", 0) > 0
    assert (set(image.brokers), partition.leader) == (set(), -1)
    assert partition.isr == (() if has_elr else (BROKER,))
    again = apache.run_tool("cluster", *unregister, check=False)
    assert "BrokerIdNotRegistered" in again.stdout + again.stderr
    broker.start()
    eventually(lambda: image_of(controller.metadata_log()).brokers, "it has registered")
    assert read(broker, "led", 1) == ["1"]


def test_a_finalized_feature_that_we_lack_is_named_with_what_lets_us_in(
    kafka_jars, tmp_path: Path
) -> None:
    with Quorum(tmp_path, (APACHE,), (FENCEPOST,), config=SESSION) as quorum:
        quorum.nodes[1].write_config(**{"unstable.feature.versions.enable": "true"})
        quorum.format()
        quorum.start(1)
        controller = ("--bootstrap-controller", quorum.bootstrap_controllers)
        eventually(quorum.leader, "the controller leads")
        apache.run_tool("features", *controller, "upgrade", "--feature", "metadata.version=34")
        broker = quorum.nodes[BROKER]
        broker.start(wait=False)
        assert broker.process is not None
        assert broker.process.wait(60) == 1
        said = broker.log_path.read_text()
        assert (
            "the cluster has finalized metadata.version 34, which this broker does not run" in said
        )
        (advice,) = {line.split("`")[1] for line in said.splitlines() if "lets it in" in line}
        assert advice == "fencepost features downgrade metadata.version=33"
        level = advice.rpartition(" ")[2]
        apache.run_tool("features", *controller, "downgrade", "--feature", level)
        broker.process = None
        broker.start()
