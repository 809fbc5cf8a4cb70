"""A data directory changes hands: from Fencepost to Apache Kafka and back, and the other way."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as Client
from fencepost.client.groups import CommittedOffset
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import LATEST, list_offsets
from fencepost.client.producer import Producer
from fencepost.testing import Cluster, ClusterError

from . import apache

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(240)]

WITHOUT_WHAT_WE_LACK = [
    "group.version",
    "share.version",
    "streams.version",
    "eligible.leader.replicas.version",
]
WHERE = TopicPartition("numbers", 0)


def write(servers: str, values: list[str], *, create: bool = False) -> None:
    with Client(servers) as cluster:
        if create:
            Admin(cluster).create_topic("numbers", 1, configs={"retention.ms": "-1"})
        with Producer(cluster) as producer:
            for value in values:
                producer.send("numbers", value.encode())


def read_with_kafka(servers: str, count: int) -> list[str]:
    return apache.consume(servers, "numbers", count, "--from-beginning")


def end_and_committed(servers: str, group: str) -> tuple[int, int]:
    with Client(servers) as cluster:
        end = list_offsets(cluster, {WHERE: LATEST})[WHERE].offset
        return end, Admin(cluster).group_offsets(group)[WHERE].offset


def test_from_us_to_kafka_and_back(kafka_jars, tmp_path: Path):
    with Cluster(faults=False, data_dir=tmp_path / "data") as ours:
        write(ours.bootstrap_servers, ["1", "2", "3"], create=True)
        with Client(ours.bootstrap_servers) as cluster:
            Admin(cluster).alter_group_offsets("readers", {WHERE: CommittedOffset(2, -1, "")})
        assert ours.stop() == 0
    with apache.apache_broker(tmp_path) as kafka:
        assert read_with_kafka(kafka.bootstrap_servers, 3) == ["1", "2", "3"]
        assert end_and_committed(kafka.bootstrap_servers, "readers") == (3, 2)
        described = apache.run_tool(
            "topics", "--bootstrap-server", kafka.bootstrap_servers, "--describe"
        ).stdout
        assert "retention.ms=-1" in described
        write(kafka.bootstrap_servers, ["4"])
    with Cluster(faults=False, data_dir=tmp_path / "data") as ours:
        assert end_and_committed(ours.bootstrap_servers, "readers") == (4, 2)
        assert read_with_kafka(ours.bootstrap_servers, 4) == ["1", "2", "3", "4"]


def format_by_kafka(place: Path, *features: str) -> None:
    """Format `place`/data as `apache_broker` would, with features of our choice."""
    config = place / "format.properties"
    place.mkdir(parents=True, exist_ok=True)
    config.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:9093\n"
        "controller.listener.names=CONTROLLER\n"
        "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093\n"
        f"log.dirs={place / 'data'}\n"
    )
    chosen = [word for feature in features for word in ("--feature", f"{feature}=0")]
    apache.run_tool("storage", "format", "-t", apache.CLUSTER_ID, "-c", str(config), *chosen)


def test_from_kafka_to_us(kafka_jars, tmp_path: Path):
    format_by_kafka(tmp_path, *WITHOUT_WHAT_WE_LACK)
    with apache.apache_broker(tmp_path) as kafka:
        write(kafka.bootstrap_servers, ["1", "2", "3"], create=True)
        with Client(kafka.bootstrap_servers) as cluster:
            Admin(cluster).alter_group_offsets("readers", {WHERE: CommittedOffset(1, -1, "")})
    with Cluster(faults=False, data_dir=tmp_path / "data") as ours:
        assert end_and_committed(ours.bootstrap_servers, "readers") == (3, 1)
        write(ours.bootstrap_servers, ["4"])
        assert read_with_kafka(ours.bootstrap_servers, 4) == ["1", "2", "3", "4"]


def test_features_that_we_lack_are_refused(kafka_jars, tmp_path: Path):
    with apache.apache_broker(tmp_path):
        pass  # Kafka finalizes its features when it first starts
    with (
        pytest.raises(ClusterError, match="is finalized at level 1, and it runs 0 to 0"),
        Cluster(faults=False, data_dir=tmp_path / "data"),
    ):
        pass
