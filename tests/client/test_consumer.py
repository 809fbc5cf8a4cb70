"""`Consumer` against a broker, alone and in one group with other people's consumers."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from kafka import KafkaConsumer
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.consumer import Consumer
from fencepost.client.errors import BrokerError, ConfigError, OffsetOutOfRange
from fencepost.client.fetch_core import Fetched, FetchPosition
from fencepost.client.groups import CommittedOffset
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import EpochEnd
from fencepost.client.producer import Producer
from fencepost.wire.api.heartbeat import HeartbeatRequest
from fencepost.wire.api.join_group import JoinGroupRequest
from fencepost.wire.api.metadata import MetadataRequest
from fencepost.wire.api.offset_fetch import OffsetFetchRequest
from fencepost.wire.errors import ErrorCode

from ..waiting import eventually

PARTITIONS = 4


@pytest.fixture
def topic(served: str) -> str:
    name = f"t-{uuid.uuid4().hex[:10]}"
    with Cluster(served) as cluster:
        Admin(cluster).create_topic(name, PARTITIONS)
        Admin(cluster).wait_for_topic(name)
    return name


@pytest.fixture
def group() -> str:
    return f"g-{uuid.uuid4().hex[:10]}"


@pytest.fixture
def produce(served: str, topic: str) -> Callable[[int], None]:
    """Writes so many records to each partition; the values count up."""

    def write(count: int) -> None:
        with Cluster(served) as cluster, Producer(cluster) as producer:
            for number in range(PARTITIONS):
                for index in range(count):
                    producer.send(topic, b"%d-%d" % (number, index), partition=number)

    return write


@pytest.fixture
def join(
    served: str, topic: str, group: str, connect: Callable[..., Cluster]
) -> Iterator[Callable[..., Consumer]]:
    """Members of the group, which leave it in the end."""
    members: list[Consumer] = []

    def open_one(**properties: Any) -> Consumer:
        properties.setdefault("heartbeat_interval_ms", 50)
        properties.setdefault("auto_offset_reset", "earliest")
        cluster = connect(served, group_id=group, **properties)
        members.append(Consumer(cluster, [topic]))
        return members[-1]

    yield open_one
    for member in members:
        member.close()


def read(consumer: Consumer) -> list[bytes | None]:
    """What one poll brings, stored."""
    values = []
    for fetched in consumer.poll():
        values += [record.value for record in fetched.read_records()]
        consumer.store(fetched.partition, fetched.next_offset, fetched.last_epoch)
    return values


def read_until(consumer: Consumer, count: int) -> list[bytes | None]:
    """So many values."""
    values: list[bytes | None] = []

    def is_enough() -> bool:
        values.extend(read(consumer))
        return len(values) >= count

    eventually(is_enough, f"{count} records to be read")
    return values


class Elsewhere:
    """Polls another test's consumer in a thread until it is stopped. All is asked of it there:
    confluent-kafka's `assignment` waits for a `poll` that must not wait for it."""

    def __init__(self, consumer: Any, poll: Callable[[], object]) -> None:
        self.numbers: set[int] = set()
        self._consumer = consumer
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(poll,))
        self._thread.start()

    def _run(self, poll: Callable[[], object]) -> None:
        while not self._stopped.is_set():
            poll()
            self.numbers = {one.partition for one in self._consumer.assignment()}
        self._consumer.close()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()


def test_it_goes_on_where_the_group_has_committed(join, produce, served, group, topic):
    produce(3)
    consumer = join()
    assert sorted(read_until(consumer, 12)) == sorted(
        b"%d-%d" % (number, index) for number in range(PARTITIONS) for index in range(3)
    )
    consumer.commit()
    consumer.close()
    with Cluster(served) as cluster:
        assert {at.offset for at in Admin(cluster).group_offsets(group).values()} == {3}
        assert Admin(cluster).describe_group(group).members == ()  # it has left
    produce(1)
    assert sorted(read_until(join(), 4)) == [b"%d-0" % number for number in range(PARTITIONS)]


def test_what_is_not_stored_is_read_again(join, produce):
    produce(1)
    consumer = join()
    eventually(consumer.poll, "records")
    consumer.seek_to_committed()
    assert len(read_until(consumer, 4)) == 4
    for partition in consumer.assignment:
        consumer.store(partition, 1)
    consumer.seek_to_committed()
    consumer.close()
    assert len(read_until(join(), 4)) == 4, "what was stored is forgotten"


def test_stored_offsets_are_committed_when_it_is_closed(join, produce, served, group, topic):
    produce(2)
    consumer = join()
    eventually(consumer.poll, "records")
    consumer.store(TopicPartition(topic, 1), 1, 0)
    consumer.store(TopicPartition("not-assigned", 0), 1)
    consumer.close()
    with Cluster(served) as cluster:
        committed = Admin(cluster).group_offsets(group)
    assert committed == {TopicPartition(topic, 1): CommittedOffset(1, 0, "")}


def test_an_interrupt_commits_what_is_stored_and_leaves(join, produce, served, group, topic):
    produce(1)
    consumer = join()
    read_until(consumer, 4)
    before = list(consumer.cluster._connections.values())
    consumer.__exit__(KeyboardInterrupt, None, None)
    assert before
    assert not any(one.is_open for one in before), "an answer may be half read there"
    with Cluster(served) as cluster:
        assert {at.offset for at in Admin(cluster).group_offsets(group).values()} == {1}
        assert Admin(cluster).describe_group(group).state == "Empty"


class Listening(Cluster):
    """Notes what is sent to whom it is for alone, for how long answers are awaited, and how often
    metadata are asked for."""

    def __init__(self, *said: Any, **properties: Any) -> None:
        super().__init__(*said, **properties)
        self.sent: list[tuple[Any, float | None]] = []
        self.described = 0

    def _exchange(self, asked: Any) -> Any:
        self.sent.append((asked.message, asked.timeout_ms))
        self.described += isinstance(asked.message, MetadataRequest)
        return super()._exchange(asked)

    def waits_ms(self, kind: type) -> set[float | None]:
        return {wait_ms for request, wait_ms in self.sent if isinstance(request, kind)}


def test_a_member_waits_for_a_rebalance_and_for_offsets_of_open_transactions(
    produce, served, group, topic
):
    """The coordinator holds a JoinGroup as long as any member may take to join (KIP-62)."""
    produce(1)
    timeouts = {"request_timeout_ms": 20_000, "max_poll_interval_ms": 60_000}
    settings = {"group_id": group, "auto_offset_reset": "earliest", "heartbeat_interval_ms": 1}
    with Listening(served, **settings, **timeouts) as cluster:
        with Consumer(cluster, [topic]) as consumer:
            read_until(consumer, 4)
            asked = cluster.described
            eventually(
                lambda: consumer.poll(1) or cluster.waits_ms(HeartbeatRequest), "a heartbeat"
            )
            assert cluster.described == asked, "metadata are asked for when they are old"
            assert {at.last_epoch for at in consumer.positions.values()} == {0}
        assert min(cluster.waits_ms(JoinGroupRequest)) > 60_000
        assert cluster.waits_ms(HeartbeatRequest) == {20_000}
        fetches = [one for one, _ in cluster.sent if isinstance(one, OffsetFetchRequest)]
        assert [one.require_stable for one in fetches] == [True]


def test_where_the_log_was_cut_reading_goes_on_at_the_first_offset_that_differs(join, topic):
    """KIP-320; and what has no records is nothing to read."""
    consumer = join()
    where = TopicPartition(topic, 0)
    consumer.positions[where] = FetchPosition(9, 3)
    empty = Fetched(where, memoryview(b""), 9, 3, 9, 9, 0, start_offset=9)
    assert not consumer._brings_records(empty)
    assert consumer.positions[where] == FetchPosition(9, 3)
    cut = empty._replace(diverging=EpochEnd(2, 5))
    assert not consumer._brings_records(cut._replace(start_offset=8)), (
        "the application has moved on"
    )
    assert consumer.positions[where] == FetchPosition(9, 3)
    assert not consumer._brings_records(cut)
    assert consumer.positions[where] == FetchPosition(5)
    consumer.positions.clear()


def test_two_members_share_and_the_one_that_stays_gets_all(join, produce, topic):
    first, second = join(), join()

    def both_share() -> bool:
        first.poll()
        return [len(first.assignment), len(second.assignment)] == [2, 2]

    # Each may wait for the other in a rebalance, so each has to poll until both are through.
    stopped = threading.Event()

    def poll_second() -> None:
        while not stopped.is_set():
            second.poll()

    with_second = threading.Thread(target=poll_second)
    with_second.start()
    try:
        eventually(both_share, "two partitions for each")
    finally:
        stopped.set()
        with_second.join()
    assert sorted(first.assignment + second.assignment) == [
        TopicPartition(topic, number) for number in range(PARTITIONS)
    ]
    second.close()
    produce(1)
    assert len(read_until(first, 4)) == 4
    assert len(first.assignment) == PARTITIONS


def confluent_consumer(served: str, group: str, topic: str, strategy: str) -> Any:
    consumer = ConfluentConsumer(
        {
            "bootstrap.servers": served,
            "group.id": group,
            "partition.assignment.strategy": strategy,
            "heartbeat.interval.ms": 50,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    return consumer, lambda: consumer.poll(0.05)


def kafka_python_consumer(served: str, group: str, topic: str, strategy: str) -> Any:
    assignors = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=served,
        group_id=group,
        partition_assignment_strategy=[assignors[strategy]],
        heartbeat_interval_ms=50,
        auto_offset_reset="earliest",
    )
    return consumer, lambda: consumer.poll(50)


@pytest.mark.clients
@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
@pytest.mark.parametrize("theirs", [confluent_consumer, kafka_python_consumer])
def test_one_group_with_other_clients(join, served, group, topic, theirs: Any, strategy: str):
    """The leader assigns, so ours leads theirs and is led by them."""
    everything = set(range(PARTITIONS))
    first = join()
    eventually(lambda: first.poll() or len(first.assignment) == PARTITIONS, "ours to lead")
    elsewhere = Elsewhere(*theirs(served, group, topic, strategy))
    try:
        eventually(lambda: first.poll() or len(first.assignment) == 2, "half for each")
        ours = {one.partition for one in first.assignment}
        eventually(lambda: first.poll() or elsewhere.numbers == everything - ours, "the rest")
        first.close()
        eventually(lambda: elsewhere.numbers == everything, "all for the one that stays")
        second = join()
        eventually(lambda: second.poll() or len(second.assignment) == 2, "theirs to assign")
    finally:
        elsewhere.stop()
    eventually(lambda: second.poll() or len(second.assignment) == PARTITIONS, "all for ours")


def test_a_member_removed_from_the_group_reads_again_and_says_so(join, produce, served, group):
    produce(1)
    consumer = join()
    read_until(consumer, 4)
    member_id = consumer._member.member_id
    with Cluster(served) as cluster:
        put_out(cluster, group, member_id)
    with pytest.raises(BrokerError) as caught:
        consumer.commit()
    assert caught.value.code == ErrorCode.UNKNOWN_MEMBER_ID
    assert len(read_until(consumer, 4)) == 4
    consumer.commit()


def test_offsets_stored_before_removal_are_not_committed_later(join, produce, served, group):
    """Another member may have had the partitions in between, and its word counts."""
    produce(1)
    consumer = join()
    read_until(consumer, 4)
    with Cluster(served) as cluster:
        put_out(cluster, group, consumer._member.member_id)
        eventually(lambda: consumer.poll() or consumer.rebalances == 2, "it to join again")
        consumer.commit()
        assert Admin(cluster).group_offsets(group) == {}


def test_nothing_is_sent_to_commit_what_is_committed_already(join, produce):
    produce(1)
    consumer = join()
    read_until(consumer, 4)
    consumer.commit()
    consumer.cluster.close()
    consumer.commit()
    assert not consumer.cluster._connections


def put_out(cluster: Cluster, group: str, member_id: str) -> None:
    """What a session timeout does."""
    from fencepost.wire.api.leave_group import LeaveGroupRequest, MemberIdentity

    request = LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=member_id)])
    cluster.request_coordinator(group, request, lambda r: r.error_code, what="putting out")


def test_new_partitions_are_noticed(join, served, topic):
    consumer = join(metadata_max_age_ms=1)
    eventually(lambda: consumer.poll() or len(consumer.assignment) == PARTITIONS, "the partitions")
    with Cluster(served) as cluster:
        Admin(cluster).create_partitions(topic, PARTITIONS + 1)
    eventually(lambda: consumer.poll() or len(consumer.assignment) == PARTITIONS + 1, "one more")


def test_where_to_read_without_a_committed_offset(join, produce, served, topic):
    produce(1)
    late = join(auto_offset_reset="latest")
    eventually(lambda: late.poll() or late.rebalances, "partitions")
    assert {position.offset for position in late.positions.values()} == {1}
    late.close()
    with pytest.raises(BrokerError, match=r"auto\.offset\.reset=none"):
        join(auto_offset_reset="none").poll()


def test_retention_that_overtakes_a_group(join, produce, served, group, topic):
    produce(2)
    consumer = join()
    eventually(lambda: consumer.poll() or consumer.rebalances, "partitions")
    for partition in consumer.assignment:
        consumer.store(partition, 0)
    consumer.close()
    with Cluster(served) as cluster:
        Admin(cluster).delete_records({TopicPartition(topic, n): 1 for n in range(PARTITIONS)})
    consumer = join()
    values = read_until(consumer, 4)
    assert sorted(values) == [b"%d-1" % number for number in range(PARTITIONS)]
    consumer.close()
    with Cluster(served) as cluster:
        gone = dict.fromkeys(
            [TopicPartition(topic, n) for n in range(PARTITIONS)], CommittedOffset(0, -1, "")
        )
        Admin(cluster).alter_group_offsets(group, gone)
    strict = join(auto_offset_reset="none")
    with pytest.raises(OffsetOutOfRange):
        eventually(strict.poll, "an error")


def test_a_static_member_stays_in_the_group(join, served, group):
    consumer = join(group_instance_id="one")
    eventually(lambda: consumer.poll() or consumer.rebalances, "partitions")
    consumer.close()
    with Cluster(served) as cluster:
        (member,) = Admin(cluster).describe_group(group).members
    assert member.instance_id == "one"


def test_it_needs_a_group(connect, served):
    with pytest.raises(ConfigError, match=r"group\.id"):
        Consumer(connect(served), ["t"])
