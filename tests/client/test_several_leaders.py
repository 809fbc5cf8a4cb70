"""Consumers of partitions that several brokers lead: no poll waits for what one of them holds back.

The brokers may hold fetches for minutes, so whatever comes, comes while others are held.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fencepost.client import (
    Admin,
    AsyncCluster,
    AsyncConsumer,
    ClientConfig,
    Cluster,
    Consumer,
    Producer,
)
from fencepost.client.admin import GROUP_RESOURCE, ConfigChange
from fencepost.client.aio import AsyncShareConsumer
from fencepost.client.clock import now_ms
from fencepost.client.errors import ClientError
from fencepost.client.metadata import TopicPartition
from fencepost.client.share_consumer import ShareConsumer
from fencepost.client.share_core import ShareConsumerCore
from fencepost.client.share_records import AcknowledgeType, ShareRecord
from fencepost.client.share_session import Arrived
from fencepost.testing import Cluster as Brokers
from fencepost.wire.types import Uuid

from ..waiting import eventually

pytestmark = pytest.mark.slow

PARTITIONS = 3
HOLD_MS = 240_000
"""For so long a leader without records holds a fetch: no test lasts that long."""
CONFIG = {
    "group.consumer.assignment.interval.ms": 0,
    "group.share.assignment.interval.ms": 0,
    "group.consumer.min.heartbeat.interval.ms": 50,
    "group.consumer.heartbeat.interval.ms": 50,
    "group.share.min.heartbeat.interval.ms": 200,
    "group.share.heartbeat.interval.ms": 200,
}


@pytest.fixture(scope="module")
def brokers() -> Iterator[Brokers]:
    with Brokers(3, faults=False, config=CONFIG) as running:
        yield running


@pytest.fixture
def topic(brokers: Brokers) -> str:
    return create_topic(brokers, 1)


def create_topic(brokers: Brokers, replicas: int, **settings: Any) -> str:
    """A topic with a partition on each broker."""
    name = f"t-{uuid.uuid4().hex[:10]}"
    with Cluster(brokers.bootstrap_servers, **settings) as cluster:
        admin = Admin(cluster)
        admin.create_topic(name, PARTITIONS, replication_factor=replicas)
        admin.wait_for_topic(name)
        leaders = {one.leader_id for one in cluster.topic(name).partitions.values()}
    assert len(leaders) == PARTITIONS
    return name


def produce(brokers: Brokers, topic: str, partition: int, value: bytes, **settings: Any) -> None:
    servers = brokers.bootstrap_servers
    with Cluster(servers, **settings) as cluster, Producer(cluster) as producer:
        producer.send(topic, value, partition=partition)


def leader_of(brokers: Brokers, topic: str, partition: int, **settings: Any) -> int:
    with Cluster(brokers.bootstrap_servers, **settings) as cluster:
        return cluster.topic(topic).partitions[partition].leader_id


class Face(ABC):
    """A consumer, as a test that blocks uses it; a context manager."""

    core: Any

    def __init__(self, servers: str, topic: str, **settings: Any) -> None:
        self.topic = topic
        self.settings = {
            "group_id": f"g-{uuid.uuid4().hex[:10]}",
            "auto_offset_reset": "earliest",
            "fetch_max_wait_ms": HOLD_MS,
            "retry_backoff_ms": 10,
            **settings,
        }
        self.servers = servers
        self.stack = contextlib.ExitStack()

    def __enter__(self) -> Any:
        try:
            self.open()
        except BaseException:
            self.stack.close()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
        self.stack.close()

    @abstractmethod
    def open(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def poll(self, timeout_ms: float = 100) -> list[bytes]: ...

    def held(self) -> dict[int, Any]:
        """The requests that leaders hold."""
        if isinstance(self.core, ShareConsumerCore):
            sessions = self.core._sessions._open.items()
            return {node: one.pending.begun for node, one in sessions if one.pending}
        return {node: one.begun for node, one in self.core._fetches._in_flight.items()}

    def at_rest(self) -> dict[int, Any]:
        """Poll until every leader holds a fetch."""

        def is_held() -> bool:
            assert self.poll(20) == []
            return len(self.held()) == PARTITIONS

        eventually(is_held, "every leader to hold a fetch")
        return self.held()

    def read(self, count: int) -> list[bytes]:
        found: list[bytes] = []

        def is_enough() -> bool:
            found.extend(self.poll())
            return len(found) >= count

        eventually(is_enough, f"{count} records")
        return sorted(found)

    def connections(self) -> set[str]:
        return {where.purpose for where in self.core.cluster._connections}


class Blocking(Face):
    core: Consumer

    def open(self) -> None:
        self.cluster = self.stack.enter_context(Cluster(self.servers, **self.settings))
        self.core = Consumer(self.cluster, [self.topic])

    def close(self) -> None:
        self.core.close()

    def poll(self, timeout_ms: float = 100) -> list[bytes]:
        return [
            record.value or b""
            for fetched in self.core.poll(timeout_ms)
            for record in fetched.read_records()
        ]


class OnLoop(Face):
    """One on an event loop, which does nothing while the test does other things."""

    def open(self) -> None:
        self.runner = self.stack.enter_context(asyncio.Runner())
        self.core = self.run(self.start())

    def run(self, what: Any) -> Any:
        return self.runner.run(what)

    async def start(self) -> Any:
        cluster = AsyncCluster(self.servers, **self.settings)
        self.stack.callback(lambda: self.run(cluster.close()))
        return await self.make(cluster).__aenter__()

    def make(self, cluster: AsyncCluster) -> Any:
        return AsyncConsumer(cluster, [self.topic])

    def close(self) -> None:
        self.run(self.core.__aexit__(None, None, None))


class Getmany(OnLoop):
    core: AsyncConsumer

    def poll(self, timeout_ms: float = 100) -> list[bytes]:
        found = self.run(self.core.getmany(timeout_ms=timeout_ms))
        return [record.value or b"" for records in found.values() for record in records]


class AsyncPoll(OnLoop):
    core: AsyncConsumer

    def poll(self, timeout_ms: float = 100) -> list[bytes]:
        found = self.run(self.core.poll(timeout_ms))
        return [record.value or b"" for fetched in found for record in fetched.read_records()]


class Share(Face):
    core: ShareConsumer

    def open(self) -> None:
        begin_at_the_start(self)
        self.cluster = self.stack.enter_context(Cluster(self.servers, **self.settings))
        self.core = ShareConsumer(self.cluster, [self.topic])

    def close(self) -> None:
        self.core.close()

    def poll(self, timeout_ms: float = 100) -> list[bytes]:
        return [record.value or b"" for record in self.core.poll(timeout_ms)]


class AsyncShare(OnLoop):
    core: AsyncShareConsumer

    def make(self, cluster: AsyncCluster) -> Any:
        begin_at_the_start(self)
        return AsyncShareConsumer(cluster, [self.topic])

    def poll(self, timeout_ms: float = 100) -> list[bytes]:
        return [record.value or b"" for record in self.run(self.core.poll(timeout_ms))]


def begin_at_the_start(face: Face) -> None:
    with Cluster(face.servers) as cluster:
        change = ConfigChange("share.auto.offset.reset", "earliest")
        Admin(cluster).alter_configs(GROUP_RESOURCE, face.settings["group_id"], [change])


Make = Callable[..., Face]


@pytest.fixture(params=[Blocking, Getmany, AsyncPoll])
def make(request: pytest.FixtureRequest, brokers: Brokers, topic: str) -> Make:
    def made(**settings: Any) -> Face:
        face: Face = request.param(brokers.bootstrap_servers, topic, **settings)
        return face

    return made


@pytest.fixture(params=[Share, AsyncShare])
def make_share(request: pytest.FixtureRequest, brokers: Brokers, topic: str) -> Make:
    def made(**settings: Any) -> Face:
        face: Face = request.param(brokers.bootstrap_servers, topic, **settings)
        return face

    return made


# -- consumers -----------------------------------------------------------------------------------


def test_records_come_while_other_leaders_hold_their_fetches(make, brokers, topic):
    with make() as reader:
        held = reader.at_rest()
        busy = leader_of(brokers, topic, 0)
        for number in range(5):
            produce(brokers, topic, 0, b"%d" % number)
            assert reader.read(1) == [b"%d" % number]
        del held[busy]
        now = reader.held()
        assert all(now[node] is begun for node, begun in held.items()), "they hold them still"


def test_a_busy_leader_does_not_keep_others_from_being_read(make, brokers, topic):
    with make(max_partition_fetch_bytes=1) as reader:
        reader.at_rest()
        for partition in range(PARTITIONS):
            for number in range(10):  # a batch each, of which an answer has one
                produce(brokers, topic, partition, b"%d-%d" % (partition, number))
        found: list[bytes] = []
        while len(found) < 10 * PARTITIONS:
            found += reader.poll()
        for partition in range(PARTITIONS):
            mine = [value for value in found if value.startswith(b"%d-" % partition)]
            assert mine == [b"%d-%d" % (partition, number) for number in range(10)]


def test_a_seek_does_not_wait_for_what_the_leader_holds(make, brokers, topic):
    for partition in range(PARTITIONS):
        produce(brokers, topic, partition, b"%d" % partition)
    with make() as reader:
        assert reader.read(PARTITIONS) == [b"0", b"1", b"2"]
        held = reader.at_rest()
        sought = leader_of(brokers, topic, 1)
        reader.core.seek(TopicPartition(topic, 1), 0)
        assert reader.read(1) == [b"1"]
        now = reader.held()
        assert all(now[node] is one for node, one in held.items() if node != sought)


def test_what_is_paused_is_not_handed_out_and_comes_after(make, brokers, topic):
    where = TopicPartition(topic, 2)
    with make() as reader:
        held = reader.at_rest()
        leader = leader_of(brokers, topic, 2)
        reader.core.pause(where)
        produce(brokers, topic, 2, b"a")

        def is_answered() -> bool:
            assert reader.poll(20) == []
            return reader.held().get(leader) is not held[leader]

        eventually(is_answered, "the answer to be dropped")
        assert reader.poll(20) == []
        reader.core.resume(where)
        assert reader.read(1) == [b"a"]
        assert reader.poll(20) == []


def test_partitions_that_change_hands_with_fetches_in_flight_are_read_once(make, brokers, topic):
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(make(group_protocol="consumer"))
        first.at_rest()
        group = first.settings["group_id"]
        second = stack.enter_context(make(group_protocol="consumer", group_id=group))

        def is_shared() -> bool:
            assert first.poll(10) == second.poll(10) == []
            held = [len(one.core._assigned) for one in (first, second)]
            return sorted(held) == [1, 2]

        eventually(is_shared, "both to have partitions")
        found: list[bytes] = []
        for number in range(5):
            for partition in range(PARTITIONS):
                produce(brokers, topic, partition, b"%d-%d" % (partition, number))
            wanted = len(found) + PARTITIONS
            while len(found) < wanted:
                found += first.poll(20) + second.poll(20)
        found += first.poll(20) + second.poll(20)
        assert sorted(found) == sorted(
            b"%d-%d" % (partition, number) for partition in range(PARTITIONS) for number in range(5)
        )


def test_what_is_in_flight_ends_with_the_consumer(make):
    reader = make()
    with reader:
        reader.at_rest()
        assert len(reader.connections()) > 1
        reader.close()
        assert reader.held() == {}
        assert reader.connections() == {""}, "the connections that it had for itself are closed"


def test_a_cluster_that_is_closed_in_between_is_connected_to_again(make, brokers, topic):
    with make() as reader:
        reader.at_rest()
        closing = reader.core.cluster.close()
        if closing is not None:
            reader.run(closing)
        produce(brokers, topic, 1, b"a")
        assert reader.read(1) == [b"a"]


@pytest.mark.parametrize("face", [Blocking, Getmany])
def test_a_leader_that_is_killed_holds_back_nothing(face):
    with Brokers(3, faults=False, config=CONFIG) as brokers:
        topic = create_topic(brokers, 3)
        with face(brokers.bootstrap_servers, topic) as reader:
            reader.at_rest()
            dead = leader_of(brokers, topic, 0)
            brokers.kill(dead)
            for number in range(3):
                for partition in range(PARTITIONS):
                    produce(brokers, topic, partition, b"%d-%d" % (partition, number))
                assert len(reader.read(PARTITIONS)) == PARTITIONS
            assert dead not in reader.held()


def test_a_call_that_is_cancelled_loses_nothing(brokers, topic):
    async def cancelled(consumer: AsyncConsumer) -> None:
        for call in (consumer.getmany(timeout_ms=60_000), consumer.getone(), consumer.poll()):
            task = asyncio.create_task(call)
            await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    with Getmany(brokers.bootstrap_servers, topic) as reader:
        held = reader.at_rest()
        reader.run(cancelled(reader.core))
        assert reader.held() == held
        produce(brokers, topic, 0, b"a")
        assert reader.read(1) == [b"a"]


def test_what_is_buffered_is_not_fetched_again(brokers, topic):
    for number in range(3):
        produce(brokers, topic, 0, b"%d" % number)
    with Getmany(brokers.bootstrap_servers, topic) as reader:
        found: dict[Any, Any] = {}

        def is_found() -> bool:
            found.update(reader.run(reader.core.getmany(timeout_ms=100, max_records=1)))
            return bool(found)

        eventually(is_found, "a record")
        elsewhere = TopicPartition(topic, 1)
        assert reader.run(reader.core.getmany(elsewhere, timeout_ms=20)) == {}
        leaders = [leader_of(brokers, topic, number) for number in range(PARTITIONS)]
        assert reader.held().keys() == set(leaders[1:])
        assert reader.read(2) == [b"1", b"2"]


def test_consumers_of_one_cluster_do_not_wait_for_each_other(brokers, topic):
    async def story() -> None:
        settings = {"fetch_max_wait_ms": HOLD_MS, "auto_offset_reset": "earliest"}
        async with contextlib.AsyncExitStack() as stack:
            cluster = await stack.enter_async_context(
                AsyncCluster(brokers.bootstrap_servers, **settings)
            )
            readers = []
            for _ in range(2):
                made = AsyncConsumer(cluster)
                made.assign([TopicPartition(topic, 0)])
                readers.append(await stack.enter_async_context(made))
            for one in readers:
                assert await one.getmany(timeout_ms=20) == {}
            await asyncio.to_thread(produce, brokers, topic, 0, b"a")
            for one in readers:
                assert (await one.getone()).value == b"a"

    asyncio.run(story())


@pytest.mark.parametrize("face", [Blocking, Getmany])
def test_it_is_so_behind_tls_and_sessions_are_renewed_between_fetches(face):
    config = {**CONFIG, "connections.max.reauth.ms": 3_600_000}
    with Brokers(3, security=True, config=config) as brokers:
        login = brokers.security.login("admin").properties()
        settings = {"security": ClientConfig.from_props(login).security}
        topic = create_topic(brokers, 1, **settings)
        with face(brokers.bootstrap_servers, topic, **settings) as reader:
            held = reader.at_rest()
            busy = leader_of(brokers, topic, 0, **settings)
            connection = reader.core._fetches._in_flight[busy].exchange.connection
            # A broker takes the next login a second after the last one at the earliest.
            since = time.monotonic()
            eventually(lambda: reader.poll(50) == [] and time.monotonic() > since + 1.1)
            connection.session_ends_at = 0.0  # as far as the client knows
            value = b"a" * 100_000  # more than one record of TLS
            produce(brokers, topic, 0, value, **settings)
            assert reader.read(1) == [value]
            eventually(
                lambda: reader.poll(20) == [] and connection.session_ends_at,
                "another login before the next fetch",
            )
            assert reader.core._fetches._in_flight[busy].exchange.connection is connection
            now = reader.held()
            assert all(now[node] is begun for node, begun in held.items() if node != busy)


# -- share consumers -----------------------------------------------------------------------------


def test_shared_records_come_while_other_leaders_hold_their_fetches(make_share, brokers, topic):
    with make_share() as reader:
        produce(brokers, topic, 0, b"first")
        assert reader.read(1) == [b"first"]  # the group has been joined
        while_held = 0
        for number in range(5):
            writer = threading.Thread(
                target=produce, args=(brokers, topic, 0, b"%d" % number), daemon=True
            )
            writer.start()
            assert reader.poll(HOLD_MS) == [b"%d" % number]
            while_held += len(reader.held()) == PARTITIONS - 1
            writer.join()
        assert while_held, "the other leaders have answered each time"


def test_shared_records_are_accepted_and_come_once(make_share, brokers, topic):
    with make_share() as reader:
        for number in range(5):
            for partition in range(PARTITIONS):
                produce(brokers, topic, partition, b"%d-%d" % (partition, number))
        expected = sorted(b"%d-%d" % (p, n) for p in range(PARTITIONS) for n in range(5))
        assert reader.read(len(expected)) == expected
        told: list[ClientError | None] = []
        reader.core.set_acknowledgement_commit_callback(lambda _, error: told.append(error))
        committed = reader.core.commit_sync()
        if not isinstance(committed, dict):
            committed = reader.run(committed)
        assert set(committed.values()) | set(told) == {None}
        assert not any(one.has_to_send for one in reader.core._sessions._open.values())
        group = reader.settings["group_id"]
    with make_share(group_id=group) as other:
        produce(brokers, topic, 1, b"last")
        assert other.read(1) == [b"last"], "all before it is accepted"


def test_what_arrives_during_a_commit_is_handed_out_and_not_accepted(brokers, topic):
    settings = {"share_acknowledgement_mode": "explicit"}
    with Share(brokers.bootstrap_servers, topic, **settings) as reader:
        produce(brokers, topic, 0, b"a")
        found: list[Any] = []
        eventually(lambda: found.extend(reader.core.poll(100)) or found, "a record")
        (record,) = found
        reader.core.acknowledge(record, AcknowledgeType.RENEW)
        assert set(reader.core.commit_sync().values()) == {None}
        assert reader.poll(0) == []
        eventually(lambda: reader.poll(30) == [] and reader.held(), "a fetch to be held")
        produce(brokers, topic, 0, b"b")
        reader.core.acknowledge(record)
        assert set(reader.core.commit_sync().values()) == {None}, "after the fetch"
        again: list[Any] = []
        eventually(lambda: again.extend(reader.core.poll(100)) or again, "the other record")
        assert [one.value for one in again] == [b"b"]
        with pytest.raises(ClientError, match="has to be acknowledged"):
            reader.core.poll(0)
        reader.core.acknowledge(again[0])


def test_what_is_held_at_a_close_locks_nothing(make_share, brokers, topic):
    produce(brokers, topic, 0, b"first")
    with make_share() as reader:
        assert reader.read(1) == [b"first"]
        eventually(lambda: reader.poll(50) == [] and reader.held(), "a fetch to be held")
        group = reader.settings["group_id"]
        reader.close()
        assert not any("share" in purpose for purpose in reader.connections())
        for partition in range(PARTITIONS):
            produce(brokers, topic, partition, b"%d" % partition)
        with make_share(group_id=group) as other:
            assert other.read(PARTITIONS) == [b"0", b"1", b"2"]


def test_a_shared_poll_that_is_cancelled_loses_nothing(brokers, topic):
    async def cancelled(consumer: AsyncShareConsumer) -> None:
        task = asyncio.create_task(consumer.poll(60_000))
        while True:
            pending = [one.pending for one in consumer._sessions._open.values()]
            if all(one is not None and one.max_wait_ms > 1_000 for one in pending):
                break  # those of the polls before have come back
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with AsyncShare(brokers.bootstrap_servers, topic) as reader:
        produce(brokers, topic, 0, b"first")
        assert reader.read(1) == [b"first"]
        reader.run(cancelled(reader.core))
        sessions = dict(reader.core._sessions._open)
        assert len(reader.held()) == PARTITIONS
        for partition in range(PARTITIONS):
            produce(brokers, topic, partition, b"%d" % partition)
        assert reader.read(PARTITIONS) == [b"0", b"1", b"2"]
        assert reader.core._sessions._open == sessions, "none is lost"


class Carrying(Share):
    """A member that has acknowledged a record of the first partition with a fetch that is held."""

    def __init__(self, brokers: Brokers, topic: str) -> None:
        super().__init__(brokers.bootstrap_servers, topic)
        self.brokers = brokers
        self.told: list[tuple[set[TopicPartition], ClientError | None]] = []

    def open(self) -> None:
        super().open()
        self.core.set_acknowledgement_commit_callback(
            lambda offsets, error: self.told.append((set(offsets), error))
        )
        produce(self.brokers, self.topic, 0, b"a")
        assert self.read(1) == [b"a"]
        writer = threading.Thread(target=produce, args=(self.brokers, self.topic, 1, b"b"))
        writer.start()
        assert self.read(1) == [b"b"]
        writer.join()

    def outcomes(self, number: int) -> list[ClientError | None]:
        where = TopicPartition(self.topic, number)
        return [error for about, error in self.told if where in about]


def test_a_commit_says_what_became_of_acknowledgements_on_their_way(brokers, topic):
    with Carrying(brokers, topic) as reader:
        results = reader.core.commit_sync()
        assert results[TopicPartition(topic, 1)] is None
        assert reader.outcomes(0) == reader.outcomes(1) == [None]


def test_acknowledgements_on_their_way_fail_with_their_connection(brokers, topic):
    with Carrying(brokers, topic) as reader:
        sessions = list(reader.core._sessions._open.values())
        carrying = [one for one in sessions if one.pending and one.pending.sent]
        for session in carrying:
            session.connection.close()
        expected = bool(carrying)
        eventually(lambda: reader.poll(50) or reader.outcomes(0), "an outcome")
        assert [error is not None for error in reader.outcomes(0)] == [expected]


def test_records_whose_lock_has_run_out_are_not_handed_out(brokers, topic):
    with Share(brokers.bootstrap_servers, topic) as reader:
        produce(brokers, topic, 0, b"a")
        assert reader.read(1) == [b"a"]
        (session,) = [one for one in reader.core._sessions._open.values() if one.outstanding()]
        where, topic_id = TopicPartition(topic, 0), Uuid.ZERO
        record = ShareRecord(topic, 0, 7, 0, 0, None, b"late", (), 1)
        late = Arrived(session, where, topic_id, [record], lapsed_at_ms=now_ms() - 1)
        sessions = reader.core._sessions
        sessions._arrived = [late]
        assert sessions._hand_out() == []
        sessions._arrived = [late._replace(lapsed_at_ms=now_ms() + 60_000)]
        assert sessions._hand_out() == [record]
        session.delivered.clear()
