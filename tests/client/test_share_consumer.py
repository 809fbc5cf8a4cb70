"""Share consumers against a broker (KIP-932), blocking and asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from fencepost.client.admin import GROUP_RESOURCE, Admin, ConfigChange
from fencepost.client.aio import AsyncCluster, AsyncShareConsumer
from fencepost.client.cluster import Cluster
from fencepost.client.errors import BrokerError, ClientError, ConfigError
from fencepost.client.metadata import TopicPartition
from fencepost.client.producer import Producer
from fencepost.client.share_consumer import ShareConsumer
from fencepost.client.share_records import AcknowledgeType, ShareRecord
from fencepost.wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest
from fencepost.wire.errors import ErrorCode

from ..waiting import DEADLINE_S, eventually

pytestmark = pytest.mark.slow

ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType
PARTITIONS, RECORDS = 2, 5
QUICK = {
    "group.share.assignment.interval.ms": 0,
    "group.share.min.heartbeat.interval.ms": 50,
    "group.share.heartbeat.interval.ms": 50,
    "group.share.min.record.lock.duration.ms": 1_000,
}
"""Broker configs with which members hear of assignments soon, and locks can be short."""


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
def group(quick: str) -> str:
    """A share group that begins with the first record; locks last a second."""
    name = f"g-{uuid.uuid4().hex[:10]}"
    with Cluster(quick) as cluster:
        changes = [
            ConfigChange("share.auto.offset.reset", "earliest"),
            ConfigChange("share.record.lock.duration.ms", "1000"),
        ]
        Admin(cluster).alter_configs(GROUP_RESOURCE, name, changes)
    return name


@pytest.fixture
def filled(quick: str, topic: str) -> str:
    """A topic with some records in each partition."""
    with Cluster(quick) as cluster:
        Admin(cluster).create_topic(topic, PARTITIONS)
        Admin(cluster).wait_for_topic(topic)
    produce(quick, topic, RECORDS)
    return topic


@pytest.fixture
def join(quick: str, group: str, filled: str) -> Iterator[Callable[..., ShareConsumer]]:
    """Members of the group, which are closed in the end."""
    with contextlib.ExitStack() as stack:

        def open_one(**settings: Any) -> ShareConsumer:
            cluster = stack.enter_context(Cluster(quick, group_id=group, **settings))
            member = ShareConsumer(cluster, [filled])
            stack.callback(member.close)
            return member

        yield open_one


def produce(servers: str, topic: str, count: int) -> None:
    with Cluster(servers) as cluster, Producer(cluster) as producer:
        for number in range(PARTITIONS):
            for index in range(count):
                producer.send(topic, b"%d-%d" % (number, index), partition=number)


def take(member: ShareConsumer, count: int) -> list[ShareRecord]:
    """So many records; in explicit mode what one poll brings, which has to be acknowledged."""
    found: list[ShareRecord] = []

    def poll() -> bool:
        found.extend(member.poll(50))
        return len(found) >= count or (bool(found) and member._is_explicit)

    eventually(poll, f"{count} records")
    return found


def explicit(**more: Any) -> dict[str, Any]:
    return {"share_acknowledgement_mode": "explicit", **more}


def put_out(member: ShareConsumer) -> None:
    """Have the coordinator remove a member that does not know it."""
    request = ShareGroupHeartbeatRequest(
        group_id=member.group, member_id=member._member.member_id, member_epoch=-1
    )
    response = member.cluster.request_coordinator(member.group, request, what="leaving")
    assert response.error_code == ErrorCode.NONE


class Outcomes:
    """What the callback of a consumer is told."""

    def __init__(self) -> None:
        self.told: list[tuple[TopicPartition, frozenset[int], int | None]] = []

    def __call__(
        self, offsets: Mapping[TopicPartition, frozenset[int]], error: ClientError | None
    ) -> None:
        ((where, which),) = offsets.items()
        self.told.append((where, which, None if error is None else error.code))


def test_every_record_is_handed_out_once_and_accepted_by_the_next_poll(join, filled):
    member = join()
    outcomes = Outcomes()
    member.set_acknowledgement_commit_callback(outcomes)
    found = take(member, PARTITIONS * RECORDS)
    assert {(one.partition, one.value) for one in found} == {
        (number, b"%d-%d" % (number, index))
        for number in range(PARTITIONS)
        for index in range(RECORDS)
    }
    assert {one.delivery_count for one in found} == {1}
    assert member.acquisition_lock_timeout_ms == 1_000
    member.poll(0)
    assert {where for where, _, _ in outcomes.told} == {
        TopicPartition(filled, number) for number in range(PARTITIONS)
    }
    assert {code for _, _, code in outcomes.told} == {None}
    member.close()
    assert join().poll(1_200) == []  # longer than any lock


def test_members_share_the_records_of_one_partition(quick, join, filled):
    first, second = join(max_poll_records=1), join(max_poll_records=1)
    for member in (first, second):
        take(member, 1)
    seen: set[tuple[int, int]] = set()
    produce(quick, filled, 4 * RECORDS)
    read: dict[ShareConsumer, int] = {first: 0, second: 0}

    def poll() -> bool:
        for member in (first, second):
            for one in member.poll(20):
                at = (one.partition, one.offset)
                assert one.delivery_count > 1 or at not in seen
                seen.add(at)
                read[member] += 1
        return all(read.values()) and len(seen) >= 4 * RECORDS * PARTITIONS

    eventually(poll, "both to read")


def test_what_a_consumer_that_fails_has_not_accepted_comes_again(quick, group, filled):
    found: list[ShareRecord] = []

    def fail() -> None:
        with Cluster(quick, group_id=group) as cluster, ShareConsumer(cluster, [filled]) as member:
            found.extend(take(member, 1))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with Cluster(quick, group_id=group) as cluster, ShareConsumer(cluster, [filled]) as member:
        again = take(member, PARTITIONS * RECORDS)
    counts = {(one.partition, one.offset): one.delivery_count for one in again}
    assert {counts[one.partition, one.offset] for one in found} == {2}


def test_in_explicit_mode_each_record_has_its_own_fate(join, filled):
    member = join(**explicit(share_acquire_mode="record_limit", max_poll_records=3))
    outcomes = Outcomes()
    member.set_acknowledgement_commit_callback(outcomes)
    found = take(member, 1)
    assert len(found) == 3
    with pytest.raises(ClientError, match=f"offset {found[0].offset} has to be acknowledged"):
        member.poll(0)
    for record, kind in zip(found, (ACCEPT, RELEASE, REJECT), strict=True):
        member.acknowledge(record, kind)
    where = TopicPartition(filled, found[0].partition)
    assert member.commit_sync() == {where: None}
    assert outcomes.told == [(where, frozenset(one.offset for one in found), None)]
    with pytest.raises(ClientError, match="not this consumer's to acknowledge"):
        member.acknowledge(found[0])
    seen: dict[tuple[int, int], int] = {}
    while len(seen) < PARTITIONS * RECORDS - 2:
        for one in take(member, 1):
            seen[one.partition, one.offset] = one.delivery_count
            member.acknowledge_offset(one.topic, one.partition, one.offset)
    assert seen.pop((found[1].partition, found[1].offset)) == 2
    assert set(seen.values()) == {1}
    assert not {(one.partition, one.offset) for one in (found[0], found[2])} & seen.keys()


def test_a_renewed_record_stays_locked_and_others_can_be_read_meanwhile(join, filled):
    member = join(**explicit(share_acquire_mode="record_limit", max_poll_records=1))
    (record,) = take(member, 1)
    for _ in range(8):  # longer than a lock lasts
        member.acknowledge(record, RENEW)
        assert set(member.commit_sync().values()) == {None}
        for one in member.poll(200):
            assert (one.partition, one.offset) != (record.partition, record.offset)
            member.acknowledge(one)
    member.acknowledge(record)
    assert member.commit_sync()[TopicPartition(filled, record.partition)] is None


def test_who_acknowledges_too_late_is_told_so(join, filled):
    member = join(**explicit())
    outcomes = Outcomes()
    member.set_acknowledgement_commit_callback(outcomes)
    (late, *others) = take(member, 1)
    for record in others:
        member.acknowledge(record)
    assert set(member.commit_sync().values()) == {None}
    put_out(member)  # so that another member gets its partition; the lock stays
    other = join(**explicit())
    again: list[ShareRecord] = []

    def poll() -> bool:
        for one in other.poll(100):
            if (one.partition, one.offset) == (late.partition, late.offset):
                again.append(one)
            else:
                other.acknowledge(one)
        return bool(again)

    eventually(poll, "the lock to run out")
    assert again[0].delivery_count == 2
    member.acknowledge(late)
    where = TopicPartition(filled, late.partition)
    error = member.commit_sync()[where]
    assert isinstance(error, BrokerError)
    assert error.code == ErrorCode.INVALID_RECORD_STATE
    assert outcomes.told[-1] == (where, frozenset([late.offset]), error.code)


def test_records_of_a_connection_that_was_lost_come_again(join, filled):
    member = join(**explicit())
    outcomes = Outcomes()
    member.set_acknowledgement_commit_callback(outcomes)
    found = take(member, 1)
    member.cluster.close()  # the session ends with it
    for record in found:
        member.acknowledge(record)
    again = take(member, 1)
    assert {code for _, _, code in outcomes.told} == {ErrorCode.SHARE_SESSION_NOT_FOUND}
    for record in again:
        member.acknowledge(record)
    assert set(member.commit_sync().values()) == {None}


def test_a_member_that_was_put_out_joins_again(join, group):
    member = join()
    take(member, 1)
    put_out(member)

    def rejoined() -> bool:
        member.poll(50)
        (found,) = Admin(member.cluster).describe_group(group).members or (None,)
        return found is not None and len(found.assigned) == PARTITIONS

    eventually(rejoined, "the member to join again")


def test_implicit_mode_takes_no_single_acknowledgement(join):
    member = join()
    (record, *_) = take(member, 1)
    with pytest.raises(ClientError, match="acknowledged implicitly"):
        member.acknowledge(record)


def test_properties_are_checked(quick):
    with pytest.raises(ConfigError, match=r"group\.id"):
        ShareConsumer(Cluster(quick))
    for name in ("share_acknowledgement_mode", "share_acquire_mode"):
        with pytest.raises(ConfigError, match=name.replace("_", r"\.")):
            ShareConsumer(Cluster(quick, group_id="g", **{name: "other"}))


def test_asyncio_consumers_share(quick, group, filled):
    async def main() -> None:
        outcomes = Outcomes()
        async with (
            AsyncCluster(quick, group_id=group) as cluster,
            AsyncShareConsumer(cluster, [filled]) as member,
        ):
            member.set_acknowledgement_commit_callback(outcomes)
            found: list[ShareRecord] = []
            while len(found) < PARTITIONS * RECORDS:
                found += await member.poll(50)
            member.commit_async()
            assert set((await member.commit_sync()).values()) <= {None}  # or the task's
            offsets = {(where, one) for where, which, _ in outcomes.told for one in which}
            assert len(offsets) == PARTITIONS * RECORDS
            assert {code for _, _, code in outcomes.told} == {None}
        async with AsyncCluster(quick, group_id=group) as cluster:
            again = AsyncShareConsumer(cluster, [filled])
            with pytest.raises(ClientError, match="not started"):
                await again.poll(0)

    asyncio.run(asyncio.wait_for(main(), DEADLINE_S))


def test_a_poll_that_is_cancelled_leaves_a_consumer_that_goes_on(quick, group, filled):
    async def main() -> None:
        async with (
            AsyncCluster(quick, group_id=group) as cluster,
            AsyncShareConsumer(cluster, [filled]) as member,
        ):
            found: list[ShareRecord] = []
            while len(found) < PARTITIONS * RECORDS:
                found += await member.poll(50)
            await member.commit_sync()
            waiting = asyncio.create_task(member.poll(30_000))
            await asyncio.sleep(0.2)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            await asyncio.to_thread(produce, quick, filled, 1)
            found = []
            while len(found) < PARTITIONS:
                found += await member.poll(50)

    asyncio.run(asyncio.wait_for(main(), DEADLINE_S))
