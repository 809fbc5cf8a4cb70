"""Directories with open transactions change hands between Fencepost and Apache Kafka, both ways."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as Client
from fencepost.client.fetcher import Fetcher
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import LATEST, list_offsets
from fencepost.client.producer import Producer
from fencepost.testing import Cluster

from ..waiting import eventually
from . import apache

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(300)]

TOPIC = "t"
WHERE = TopicPartition(TOPIC, 0)
FEW = {"transaction.state.log.num.partitions": "2", "offsets.topic.num.partitions": "2"}


@contextlib.contextmanager
def run(kind: str, place: Path) -> Iterator[str]:
    """A node of the kind on the directory; it is stopped in order."""
    if kind == "apache":
        with apache.apache_broker(place, **FEW) as kafka:
            yield kafka.bootstrap_servers
    else:
        options = {key.replace(".", "_"): value for key, value in FEW.items()}
        with Cluster(faults=False, data_dir=place / "data", **options) as ours:
            yield ours.bootstrap_servers
            assert ours.stop() == 0


def committed(servers: str) -> tuple[list[bytes], int]:
    """What readers of committed data find, and where they stop."""
    with Client(servers, isolation_level="read_committed") as client:
        end = list_offsets(client, {WHERE: LATEST})[WHERE].offset
        found = [
            record.value or b""
            for fetched in Fetcher(client).read_range(WHERE, 0, end)
            for record in fetched.read_records(end)
        ]
        return found, end


def producers(servers: str) -> list[str]:
    """What Apache Kafka's tool says of the partition's producers."""
    where = ("--topic", TOPIC, "--partition", "0")
    tool = ("--bootstrap-server", servers, "describe-producers", *where)
    return sorted(apache.run_tool("transactions", *tool).lines)


def producer_of(client: Client) -> Producer:
    producer = Producer(client)
    producer.init_transactions()
    return producer


@pytest.mark.parametrize(("first", "second"), [("fencepost", "apache"), ("apache", "fencepost")])
def test_the_next_one_ends_what_the_last_one_left_open(
    kafka_jars, tmp_path: Path, first: str, second: str
) -> None:
    """One transaction is open in each of two partitions' logs: that of records and of offsets."""
    with run(first, tmp_path) as servers, contextlib.ExitStack() as left_open:
        with Client(servers) as client:
            Admin(client).create_topic(TOPIC, 1)
            Admin(client).wait_for_topic(TOPIC)
        done = Producer(left_open.enter_context(Client(servers, transactional_id="done")))
        done.init_transactions()
        for value, is_committed in ((b"a", True), (b"aborted", False)):
            done.begin_transaction()
            done.send(TOPIC, value, partition=0)
            done.flush()
            (done.commit_transaction if is_committed else done.abort_transaction)()
        hangs = Client(servers, transactional_id="hangs")
        producer = producer_of(hangs)
        producer.begin_transaction()
        producer.send(TOPIC, b"open", partition=0)
        producer.send_offsets_to_transaction({WHERE: 7}, "g")
        producer.flush()
        hangs.close()  # as if it had died: nothing is ended
        assert eventually(lambda: committed(servers) == ([b"a"], 4))
        described = producers(servers)
        assert len(described) == 3, "a line of names, and two producers"
    with run(second, tmp_path) as servers:
        assert eventually(lambda: committed(servers) == ([b"a"], 4))
        with Client(servers) as client:
            assert Admin(client).group_offsets("g") == {}
        assert producers(servers) == described
        with Client(servers, transactional_id="hangs") as client:
            producer = producer_of(client)  # aborts what its predecessor left
            assert eventually(lambda: committed(servers) == ([b"a"], 6))
            producer.begin_transaction()
            producer.send(TOPIC, b"b", partition=0)
            producer.send_offsets_to_transaction({WHERE: 9}, "g")
            producer.commit_transaction()
        with Client(servers) as client:
            admin = Admin(client)
            assert admin.group_offsets("g", [WHERE], require_stable=True)[WHERE].offset == 9
    with run(first, tmp_path) as servers:
        assert eventually(lambda: committed(servers) == ([b"a", b"b"], 8))
