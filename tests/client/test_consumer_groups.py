"""Consumers with `group.protocol=consumer` against a broker (KIP-848), blocking and asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import os
import uuid
from collections.abc import Callable, Collection, Iterator
from typing import Any

import pytest

from fencepost.client.admin import Admin
from fencepost.client.aio import AsyncCluster, AsyncConsumer
from fencepost.client.cluster import Cluster
from fencepost.client.consumer import Consumer
from fencepost.client.consumer_core import ConsumerRebalanceListener
from fencepost.client.errors import BrokerError, ConfigError
from fencepost.client.metadata import TopicPartition
from fencepost.client.producer import Producer
from fencepost.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from fencepost.wire.errors import ErrorCode

from ..waiting import DEADLINE_S, eventually

pytestmark = pytest.mark.slow

PARTITIONS = 4
QUICK = {
    "group.consumer.min.heartbeat.interval.ms": 50,
    "group.consumer.heartbeat.interval.ms": 50,
    "group.consumer.min.session.timeout.ms": 1_000,
}
"""Broker configs with which members hear of assignments soon."""


@pytest.fixture(scope="module")
def quick() -> Iterator[str]:
    """Where a broker listens: the one FENCEPOST_TEST_BOOTSTRAP names, else our own."""
    named = os.environ.get("FENCEPOST_TEST_BOOTSTRAP")
    if named:
        yield named
        return
    from fencepost.testing import Cluster as Brokers

    with Brokers(faults=False, config=QUICK) as brokers:
        yield brokers.bootstrap_servers


@pytest.fixture
def parts(quick: str, topic: str) -> list[TopicPartition]:
    """The partitions of a new topic, with three records each."""
    return filled(quick, topic)


def filled(servers: str, topic: str) -> list[TopicPartition]:
    with Cluster(servers) as cluster:
        Admin(cluster).create_topic(topic, PARTITIONS)
        Admin(cluster).wait_for_topic(topic)
        with Producer(cluster) as producer:
            for number in range(PARTITIONS):
                for index in range(3):
                    producer.send(topic, b"%d-%d" % (number, index), partition=number)
    return [TopicPartition(topic, number) for number in range(PARTITIONS)]


@pytest.fixture
def join(quick: str, topic: str) -> Iterator[Callable[..., Consumer]]:
    """Members of one group, which are closed in the end."""
    group = f"g-{uuid.uuid4().hex[:10]}"
    with contextlib.ExitStack() as stack:

        def open_one(
            topics: Collection[str] = (topic,),
            listener: ConsumerRebalanceListener | None = None,
            pattern: str | None = None,
            **settings: Any,
        ) -> Consumer:
            settings = {"auto_offset_reset": "earliest", "client_id": "ours", **settings}
            cluster = Cluster(quick, group_id=group, group_protocol="consumer", **settings)
            stack.enter_context(cluster)
            member = Consumer(cluster, topics, listener, pattern=pattern)
            stack.callback(member.close)
            return member

        yield open_one


class Noting(ConsumerRebalanceListener):
    """Notes what it is told, with what the consumer owned then."""

    def __init__(self) -> None:
        self.told: list[tuple[str, tuple[TopicPartition, ...]]] = []
        self.member: Consumer | None = None

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        self.told.append(("assigned", tuple(assigned)))

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        assert self.member is not None
        assert set(revoked) <= set(self.member.assignment)  # nothing is acknowledged before
        self.told.append(("revoked", tuple(revoked)))

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        self.told.append(("lost", tuple(lost)))


def take(member: Consumer) -> list[bytes | None]:
    """What one poll brings, stored."""
    values = []
    for fetched in member.poll(50):
        values += [record.value for record in fetched.read_records()]
        member.store(fetched.partition, fetched.next_offset, fetched.last_epoch)
    return values


def until(condition: Callable[[], Any], *members: Consumer) -> list[bytes | None]:
    """Poll until the condition holds; what was read."""
    values: list[bytes | None] = []

    def poll() -> bool:
        for member in members:
            values.extend(take(member))
        return bool(condition())

    eventually(poll, "the group to come to rest")
    return values


def heartbeat(member: Consumer, **said: Any) -> int:
    """The error of a heartbeat in the name of a member."""
    group = member.group
    request = ConsumerGroupHeartbeatRequest(
        group_id=group, member_id=member._member.member_id, **said
    )
    with Cluster(member.config.bootstrap_servers) as cluster:
        return cluster.request_coordinator(group, request, what="heartbeat").error_code


def test_a_member_reads_everything_and_goes_on_where_it_has_committed(join, parts):
    first = join()
    values = until(lambda: len(first.positions) == 4, first)
    while len(values) < 12:
        values += take(first)
    assert len(set(values)) == len(values) == 12
    first.commit()
    assert first.committed(parts[0]).offset == 3
    first.close()
    second = join()
    assert until(lambda: len(second.assignment) == 4 and take(second) == [], second) == []


def test_partitions_go_over_one_by_one_and_the_rest_is_read_on(join, parts):
    listener = Noting()
    first = listener.member = join(listener=listener)
    until(lambda: len(first.assignment) == 4, first)
    second = join()
    until(lambda: len(second.assignment) == 2, first, second)
    kept = set(first.assignment)
    assert set(second.assignment) == set(parts) - kept
    assert [what for what, _ in listener.told] == ["assigned", "revoked", "assigned"]
    assert set(listener.told[1][1]) == set(second.assignment)
    assert listener.told[2][1] == ()
    assert all(first.positions[at].offset == 3 for at in kept)  # not placed again
    assert second.committed(second.assignment[0]).offset == 3  # before it was given up
    second.close()
    until(lambda: len(first.assignment) == 4, first)
    assert set(listener.told[-1][1]) == set(parts) - kept


def test_a_member_that_was_put_out_loses_its_partitions_and_joins_again(join, parts):
    listener = Noting()
    member = listener.member = join(listener=listener)
    until(lambda: len(member.positions) == 4, member)
    before = member.consumer_group_metadata()
    assert heartbeat(member, member_epoch=-1) == ErrorCode.NONE
    with pytest.raises(BrokerError) as raised:
        member.commit({parts[0]: 1})
    assert raised.value.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)
    assert member.consumer_group_metadata() == before  # not one that every coordinator takes
    until(lambda: len(member.assignment) == 4, member)
    assert [what for what, _ in listener.told] == ["assigned", "lost", "assigned"]
    assert member.consumer_group_metadata().member_id == before.member_id
    member.commit({parts[0]: 1})


def test_an_epoch_that_the_coordinator_has_left_behind_is_learned_before_committing(join, parts):
    member = join()
    until(lambda: len(member.positions) == 4, member)
    machine: Any = member._member
    machine._machine.commit_epoch += 7  # STALE_MEMBER_EPOCH
    member.commit({parts[0]: 2})
    assert member.committed(parts[0]).offset == 2


def test_a_static_member_finds_its_partitions_again(join, parts):
    member = join(group_instance_id="i")
    until(lambda: len(member.assignment) == 4, member)
    with Cluster(member.config.bootstrap_servers) as cluster:
        member.close()
        (kept,) = Admin(cluster).describe_group(member.group).members
        assert (kept.member_epoch, kept.instance_id, len(kept.assigned)) == (-2, "i", 4)
        again = join(group_instance_id="i")
        until(lambda: len(again.assignment) == 4, again)
        (found,) = Admin(cluster).describe_group(member.group).members
        assert found.member_id != kept.member_id
        third = join(group_instance_id="i")
        with pytest.raises(BrokerError) as raised:
            third.poll(0)
        assert raised.value.code == ErrorCode.UNRELEASED_INSTANCE_ID


def test_a_pattern_matches_whole_names(join, parts, topic):
    member = join((), pattern=f"{topic[:-1]}.")
    until(lambda: len(member.assignment) == 4, member)
    partial = join((), pattern=f"^{topic[:-1]}")
    until(lambda: partial._member.may_commit and not partial.has_to_join, partial, member)
    assert partial.assignment == ()
    broken = join((), pattern="a(")
    with pytest.raises(BrokerError, match="INVALID_REGULAR_EXPRESSION"):
        broken.poll(0)


def test_another_assignor_is_asked_for(join, parts):
    member = join(group_remote_assignor="range")
    until(lambda: len(member.assignment) == 4, member)
    with Cluster(member.config.bootstrap_servers) as cluster:
        assert Admin(cluster).describe_group(member.group).assignor == "range"
    with pytest.raises(BrokerError, match="UNSUPPORTED_ASSIGNOR"):
        join(group_remote_assignor="sticky").poll(0)


def test_a_pattern_needs_the_consumer_protocol(quick):
    with Cluster(quick, group_id="g") as cluster, pytest.raises(ConfigError, match="a pattern"):
        Consumer(cluster, pattern="a")
    with pytest.raises(ConfigError, match=r"group\.protocol"):
        Consumer(Cluster(quick, group_id="g", group_protocol="new"), ["t"])
    with pytest.raises(ConfigError, match=r"group\.remote\.assignor"):
        Consumer(Cluster(quick, group_id="g", group_remote_assignor="range"), ["t"])


async def eventually_async(condition: Callable[[], bool]) -> None:
    """Wait while other tasks run."""
    while not condition():  # noqa: ASYNC110 - what is waited for has no event
        await asyncio.sleep(0.02)


def test_asyncio_members_share_and_read_on(quick, parts, topic):
    async def main() -> None:
        settings: dict[str, Any] = {"group_id": f"g-{topic}", "group_protocol": "consumer"}
        async with (
            AsyncCluster(quick, auto_offset_reset="earliest", **settings) as cluster,
            AsyncConsumer(cluster, [topic]) as first,
        ):
            found = [await first.getone() for _ in range(12)]
            assert len({(one.partition, one.offset) for one in found}) == 12
            await first.commit()
            assert await first.committed(parts[0]) == 3
            async with AsyncCluster(quick, **settings) as other, AsyncConsumer(other) as second:
                second.subscribe(pattern=f"{topic}|x")
                while len(second.assignment()) != 2 or len(first.assignment()) != 2:
                    assert await first.getmany(timeout_ms=20) == {}  # it goes on where it is
                    assert await second.getmany(timeout_ms=20) == {}
            while len(first.assignment()) != 4:
                assert await first.getmany(timeout_ms=20) == {}

    asyncio.run(asyncio.wait_for(main(), DEADLINE_S))


def test_heartbeats_go_on_while_a_listener_of_asyncio_waits(quick, parts, topic):
    async def main() -> None:
        released = asyncio.Event()

        class Waiting(ConsumerRebalanceListener):
            async def on_partitions_assigned(self, assigned: Any) -> None:
                if assigned:
                    await released.wait()

        settings: dict[str, Any] = {"group_id": f"g-{topic}", "group_protocol": "consumer"}
        async with (
            AsyncCluster(quick, **settings) as cluster,
            AsyncConsumer(cluster, [topic], Waiting()) as member,
        ):
            polling = asyncio.create_task(member.getmany(timeout_ms=50))
            sent: list[int] = []
            beating = member.beating

            def counted() -> Any:
                sent.append(1)
                return beating()

            member.beating = counted  # type: ignore[method-assign]
            while len(sent) < 3:
                await asyncio.sleep(0.01)
                assert not polling.done() or not member.assignment()
                if polling.done():
                    polling = asyncio.create_task(member.getmany(timeout_ms=50))
            released.set()
            await polling

    asyncio.run(asyncio.wait_for(main(), DEADLINE_S))


def test_an_asyncio_member_that_does_not_poll_leaves_and_joins_again(quick, parts, topic):
    async def main() -> None:
        settings: dict[str, Any] = {"group_id": f"g-{topic}", "group_protocol": "consumer"}
        async with (
            AsyncCluster(quick, max_poll_interval_ms=300, **settings) as cluster,
            AsyncConsumer(cluster, [topic]) as member,
        ):
            while len(member.assignment()) != 4:
                await member.getmany(timeout_ms=20)
            rebalances = member.rebalances
            await eventually_async(lambda: not member.assignment())
            while len(member.assignment()) != 4:
                await member.getmany(timeout_ms=20)
            assert member.rebalances > rebalances

    asyncio.run(asyncio.wait_for(main(), DEADLINE_S))
