"""Other people's clients in groups of ours: by the consumer protocol, and while groups migrate."""

from __future__ import annotations

import itertools
import threading
import uuid
from collections.abc import Callable, Iterator

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as Client
from fencepost.client.producer import Producer

from ..waiting import eventually
from .conftest import node_of_each_kind
from .group_readers import (
    CLASSIC,
    CONSUMER,
    SHARE,
    Line,
    Reader,
    Readers,
    conflicts,
    missing,
)
from .maven import JarSet

pytestmark = [pytest.mark.interop, pytest.mark.slow]

PARTITIONS = 6
GROUP, SET = 32, 0
CONFIG = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.session.timeout.ms": "1000",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


servers = node_of_each_kind(**CONFIG)


@pytest.fixture
def readers(servers: str, kafka_jars: JarSet) -> Iterator[Readers]:
    made = Readers(servers, kafka_jars)
    yield made
    made.close()


class Load:
    """Records that are written to every partition of a topic all the time."""

    def __init__(self, servers: str, topic: str, partitions: int = PARTITIONS) -> None:
        self.ends = dict.fromkeys(range(partitions), 0)
        self._servers, self._topic = servers, topic
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _write(self) -> None:
        with Client(self._servers) as client, Producer(client) as producer:
            while not self._is_over.wait(0.02):
                for partition in self.ends:
                    producer.send(self._topic, b"value", partition=partition)
                producer.flush()
                for partition in self.ends:
                    self.ends[partition] += 1


def create(servers: str, topic: str, partitions: int = PARTITIONS) -> str:
    with Client(servers) as client:
        Admin(client).create_topic(topic, partitions)
        Admin(client).wait_for_topic(topic)
    return topic


@pytest.fixture
def topic(servers: str) -> str:
    return create(servers, f"t{uuid.uuid4().hex[:8]}")


@pytest.fixture
def group() -> str:
    return f"g{uuid.uuid4().hex[:8]}"


def shared_out(readers: list[Reader], partitions: int = PARTITIONS) -> Callable[[], bool]:
    """Whether the readers have all partitions between them, and each of them some."""

    def are() -> bool:
        held = [one for reader in readers for one in reader.held]
        return sorted(held) == list(range(partitions)) and all(one.held for one in readers)

    return are


def check(readers: Readers, load: Load) -> None:
    """Every record is read, and no partition was with two readers at once."""
    eventually(lambda: not missing(readers.lines(), load.ends), "all records")
    assert conflicts(readers.lines()) == []
    assert [error for one in readers.all for error in one.errors] == []


LIBRARIES = ("java", "confluent", "franz")


@pytest.mark.parametrize("library", LIBRARIES)
def test_members_come_and_go(
    servers: str, readers: Readers, topic: str, group: str, library: str
) -> None:
    """Two members by the consumer protocol; the first leaves, and another comes."""
    start = getattr(readers, library)
    with Load(servers, topic) as load:
        first = start(group, topic, CONSUMER)
        eventually(shared_out([first]), "everything for one")
        second = start(group, topic, CONSUMER)
        eventually(shared_out([first, second]), "a share for each")
        first.leave()
        eventually(shared_out([second]), "everything for the other")
        third = start(group, topic, CONSUMER)
        eventually(shared_out([second, third]), "a share for each again")
    check(readers, load)


def test_one_group_of_three_libraries(
    servers: str, readers: Readers, topic: str, group: str
) -> None:
    with Load(servers, topic) as load:
        members = [getattr(readers, one)(group, topic, CONSUMER) for one in LIBRARIES]
        eventually(shared_out(members), "a share for each")
        members[0].leave()
        eventually(shared_out(members[1:]), "shares without the first")
    check(readers, load)


@pytest.mark.parametrize("library", ["java", "confluent"])
def test_a_member_that_is_killed(
    servers: str, readers: Readers, topic: str, group: str, library: str
) -> None:
    """Its partitions go to the other when its session is over; nothing is skipped."""
    start = getattr(readers, library)
    with Client(servers) as client:
        change = ("consumer.session.timeout.ms", "4000", SET)
        Admin(client).alter_configs(GROUP, group, [change])
    with Load(servers, topic) as load:
        victim = start(group, topic, CONSUMER)
        other = start(group, topic, CONSUMER)
        eventually(shared_out([victim, other]), "a share for each")
        victim.kill()
        eventually(lambda: len(other.held) == PARTITIONS, "everything for the other")
    eventually(lambda: not missing(readers.lines(), load.ends), "all records")
    assert other.errors == []


@pytest.mark.parametrize("library", ["java", "confluent"])
def test_a_static_member_returns(
    servers: str, readers: Readers, topic: str, group: str, library: str
) -> None:
    """It gets what it had, and the other member loses nothing meanwhile."""
    start = getattr(readers, library)
    with Load(servers, topic) as load:
        one = start(group, topic, CONSUMER, group_instance_id="one")
        two = start(group, topic, CONSUMER, group_instance_id="two")
        eventually(shared_out([one, two]), "a share for each")
        had, moves = one.held, len([line for line in two.lines if line.what in "+-"])
        one.leave()
        again = start(group, topic, CONSUMER, group_instance_id="one")
        eventually(lambda: again.held == had, "the same partitions")
        assert len([line for line in two.lines if line.what in "+-"]) == moves
    check(readers, load)


def test_a_regular_expression_of_the_servers(servers: str, readers: Readers, group: str) -> None:
    """Java's SubscriptionPattern: what matches whole, and topics that are made later."""
    name = f"r{uuid.uuid4().hex[:8]}"
    create(servers, f"{name}-a", 2)
    create(servers, f"{name}-a-not", 2)
    reader = readers.java(group, f"~{name}-[a-c]", CONSUMER)
    eventually(lambda: len([one for one in reader.lines if one.what == "+"]) == 2, "the first")
    create(servers, f"{name}-b", 3)
    eventually(lambda: len([one for one in reader.lines if one.what == "+"]) == 5, "the second")
    assert reader.errors == []


def test_a_group_rolls_to_the_consumer_protocol_and_back(
    servers: str, readers: Readers, topic: str, group: str
) -> None:
    """Three clients of different libraries are restarted one after the other, under load."""
    with Load(servers, topic) as load:
        members = [getattr(readers, one)(group, topic, CLASSIC) for one in LIBRARIES]
        eventually(shared_out(members), "a share for each, by the classic protocol")
        for protocol in (CONSUMER, CLASSIC):
            for number, library in enumerate(LIBRARIES):
                members[number].leave()
                members[number] = getattr(readers, library)(group, topic, protocol)
                eventually(shared_out(members), f"a share for each, {library} by {protocol}")
    check(readers, load)


def test_share_groups_of_franz_go(servers: str, readers: Readers, topic: str, group: str) -> None:
    """Two members share every partition; each record is accepted by one of them."""
    with Client(servers) as client:
        Admin(client).alter_configs(GROUP, group, [("share.auto.offset.reset", "earliest", SET)])
    with Load(servers, topic) as load:
        members = [readers.franz(group, topic, SHARE) for _ in range(2)]
        eventually(lambda: all(len(one.read) > 50 for one in members), "records for both")
    eventually(lambda: not missing(readers.lines(), load.ends), "all records")
    for one in members:
        one.leave()
    read = sorted(itertools.chain.from_iterable(one.read for one in members))
    assert read == sorted(set(read))
    assert [error for one in members for error in one.errors] == []


# The judges


def test_a_conflict_is_seen() -> None:
    lines = [Line(1, "a", "+", 0), Line(2, "b", "+", 0), Line(3, "a", "-", 0)]
    assert conflicts(lines) == ["partition 0: b beside a"]
    assert conflicts([lines[0], Line(2, "a", "-", 0), Line(3, "b", "+", 0)]) == []
    assert conflicts([lines[0], Line(2, "b", "r", 0, 7)]) == ["partition 0: b reads 7 beside a"]
    assert conflicts([lines[0], Line(2, "a", "r", 0, 7), Line(3, "b", "+", 1)]) == []


def test_a_missing_record_is_seen() -> None:
    lines = [Line(1, "a", "r", 0, 0), Line(2, "b", "r", 1, 0), Line(3, "b", "r", 0, 2)]
    assert missing(lines, {0: 3, 1: 1}) == [(0, 1)]
    assert missing(lines, {0: 1, 1: 1}) == []
