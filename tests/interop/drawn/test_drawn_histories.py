"""Histories of producers and transactions, of groups, and of fetch sessions on both brokers."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Any

import pytest

from fencepost.batch.header import stamp_producer
from fencepost.batch.records import build_batch
from fencepost.wire.api.add_offsets_to_txn import AddOffsetsToTxnRequest
from fencepost.wire.api.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from fencepost.wire.api.delete_groups import DeleteGroupsRequest
from fencepost.wire.api.describe_transactions import DescribeTransactionsRequest
from fencepost.wire.api.end_txn import EndTxnRequest
from fencepost.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from fencepost.wire.api.heartbeat import HeartbeatRequest
from fencepost.wire.api.init_producer_id import InitProducerIdRequest
from fencepost.wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from fencepost.wire.api.leave_group import LeaveGroupRequest, MemberIdentity
from fencepost.wire.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from fencepost.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from fencepost.wire.api.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from fencepost.wire.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from fencepost.wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from fencepost.wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from fencepost.wire.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from fencepost.wire.errors import ErrorCode

from ...waiting import eventually
from ..topic_words import fresh
from .comparing import Ask, Settling, Side, Step, compare
from .drawing import INT16_MAX, often, own_name
from .topics import make_topics

pytestmark = [pytest.mark.interop, pytest.mark.slow]

PARTITIONS = 2
TIMESTAMP_MS = 1_700_000_000_000
PASSING = frozenset((14, 15, 16, 19, 51))
"""A coordinator loads, is not there yet or not here yet; a transaction is being ended, which a
Produce hears as NOT_ENOUGH_REPLICAS."""


@pytest.fixture(scope="module")
def topic(sides: Sequence[Side]) -> str:
    """A topic on both sides."""
    name = fresh()
    make_topics(sides, {name: {}}, PARTITIONS)
    return name


# -- transactions --------------------------------------------------------------------------------


class Transactions:
    """Draws the steps of a few producers that share two transactional ids."""

    def __init__(self, rng: random.Random, topic: str) -> None:
        self.rng, self.topic = rng, topic
        self.ids = [own_name(rng, "history"), own_name(rng, "history")]
        self.sequences: dict[tuple[str, int], int] = {}
        # A producer keeps to its version of transactions (KIP-890): of one that changes it, Apache
        # Kafka may remember the older requests that it has refused, or the newer ones.
        self.bumps_epochs = {name: rng.random() < 0.5 for name in self.ids}

    def drawn(self) -> Step:
        kinds = (self.init, self.add, self.produce, self.produce, self.offsets, self.end, self.end)
        return self.rng.choice(kinds)(self.rng.choice(self.ids))

    def epoch(self, side: Side, name: str, shift: int) -> tuple[int, int]:
        producer_id, epoch = side.values.get(name, (4_000_000, 0))
        return producer_id, max(-1, min(INT16_MAX, epoch + shift))

    def keep(self, name: str) -> Any:
        def keep(side: Side, answer: Any) -> None:
            if answer.error_code == 0 and answer.producer_id != -1:
                side.values[name] = (answer.producer_id, answer.producer_epoch)

        return keep

    def init(self, name: str) -> Step:
        rng = self.rng
        version = rng.randint(2, 5)
        # Not with another epoch than the last one: Fencepost does not abort a transaction for that.
        goes_on = version >= 3 and rng.random() < 0.3
        timeout_ms = often(rng, 60_000, (0, -1, 900_000, 900_001), 0.9)

        def make(side: Side) -> InitProducerIdRequest:
            request = InitProducerIdRequest(
                transactional_id=name, transaction_timeout_ms=timeout_ms
            )
            if goes_on and name in side.values:
                request.producer_id, request.producer_epoch = self.epoch(side, name, 0)
            return request

        self.sequences.clear()
        told = f"{name} {goes_on} {timeout_ms}"
        return Patient("InitProducerId", make, version, told, keep=self.keep(name))

    def add(self, name: str) -> Step:
        rng = self.rng
        shift = often(rng, 0, (-1, 1), 0.85)
        partitions = rng.sample(range(PARTITIONS), k=rng.randint(1, PARTITIONS))
        named = often(rng, self.topic, ("no-such-topic",), 0.95)

        def make(side: Side) -> AddPartitionsToTxnRequest:
            producer_id, epoch = self.epoch(side, name, shift)
            return AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=producer_id,
                v3_and_below_producer_epoch=epoch,
                v3_and_below_topics=[AddPartitionsToTxnTopic(name=named, partitions=partitions)],
            )

        told = f"{name} {shift} {partitions} {named}"
        return Patient("AddPartitionsToTxn", make, rng.randint(0, 3), told)

    def produce(self, name: str) -> Step:
        rng = self.rng
        partition = rng.randrange(PARTITIONS)
        shift = often(rng, 0, (-1, 1), 0.9)
        sequence = self.sequences.get((name, partition), 0)
        drawn = often(rng, sequence, (sequence + 1, sequence - 1, 0), 0.85)
        if drawn == sequence:
            self.sequences[name, partition] = sequence + 1
        is_transactional = rng.random() < 0.9
        if not is_transactional:
            # Apache Kafka refuses a later one for as long as it remembers that it has asked about
            # a batch of a transaction; Fencepost's leader remembers while it waits for the answer.
            drawn = 0
            # Where an epoch has come ahead of the transaction's, neither broker takes the marker of
            # its end: it never ends then.
            shift = min(shift, 0)

        def make(side: Side) -> ProduceRequest:
            producer_id, epoch = self.epoch(side, name, shift)
            batch = build_batch([(None, b"v")], timestamp_ms=TIMESTAMP_MS)
            stamp_producer(
                batch, producer_id, max(0, epoch), max(0, drawn), transactional=is_transactional
            )
            data = [PartitionProduceData(index=partition, records=batch)]
            return ProduceRequest(
                transactional_id=name if is_transactional else None,
                acks=-1,
                timeout_ms=30_000,
                topic_data=[TopicProduceData(name=self.topic, partition_data=data)],
            )

        told = f"{name} {partition} {shift} {drawn} {is_transactional}"
        version = 12 if self.bumps_epochs[name] else rng.choice((9, 11))
        return Patient("Produce", make, version, told, only=errors_of_produce)

    def offsets(self, name: str) -> Step:
        rng = self.rng
        shift = often(rng, 0, (-1, 1), 0.9)
        group = f"{name}-group"
        if rng.random() < 0.5:

            def add(side: Side) -> AddOffsetsToTxnRequest:
                producer_id, epoch = self.epoch(side, name, shift)
                return AddOffsetsToTxnRequest(
                    transactional_id=name,
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    group_id=group,
                )

            return Patient("AddOffsetsToTxn", add, rng.randint(0, 4), f"{name} {shift}")
        generation = often(rng, -1, (0, 1), 0.9)

        def commit(side: Side) -> TxnOffsetCommitRequest:
            producer_id, epoch = self.epoch(side, name, shift)
            partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=5)
            return TxnOffsetCommitRequest(
                transactional_id=name,
                group_id=group,
                producer_id=producer_id,
                producer_epoch=epoch,
                generation_id_or_member_epoch=generation,
                topics=[TxnOffsetCommitRequestTopic(name=self.topic, partitions=[partition])],
            )

        told = f"{name} {shift} {generation}"
        return Patient("TxnOffsetCommit", commit, rng.randint(3, 5), told)

    def end(self, name: str) -> Step:
        rng = self.rng
        committed = rng.random() < 0.5
        version = 5 if self.bumps_epochs[name] else rng.choice((2, 3, 4))
        # Apache Kafka takes v5 with the epoch before for a retry, whatever has raised the epoch.
        shift = often(rng, 0, (1,) if version >= 5 else (-1, 1), 0.9)

        def make(side: Side) -> EndTxnRequest:
            producer_id, epoch = self.epoch(side, name, shift)
            return EndTxnRequest(
                transactional_id=name,
                producer_id=producer_id,
                producer_epoch=epoch,
                committed=committed,
            )

        keep = self.keep(name) if version >= 5 else None
        self.sequences.clear()
        return Ending("EndTxn", make, version, f"{name} {shift} {committed}", keep=keep)


class Patient(Ask):
    """An `Ask` that repeats its request while a coordinator loads, or the markers of the last
    transaction are on their way."""

    def __call__(self, side: Side) -> Any:
        seen: Any = None

        def is_settled() -> bool:
            nonlocal seen
            seen = Ask.__call__(self, side)
            codes = {int(code) for code in re.findall(r"error_code': (-?\d+)", repr(seen))}
            return codes.isdisjoint(PASSING)

        eventually(is_settled, f"{side.name} answers {self!r}")
        return seen


class Ending(Patient):
    """An EndTxn that waits until the markers are written, which both coordinators do after their
    answer: a Produce of the same epoch that overtakes them adds nothing to the next transaction."""

    def __call__(self, side: Side) -> Any:
        seen = super().__call__(side)
        asked = DescribeTransactionsRequest(transactional_ids=[self.make(side).transactional_id])

        def is_over() -> bool:
            (state,) = side.request(asked).transaction_states
            return not state.transaction_state.startswith("Prepare")

        eventually(is_over, f"{side.name} writes the markers after {self!r}")
        return seen


def errors_of_produce(seen: dict) -> Any:
    return [
        {"index": one["index"], "error_code": one["error_code"]}
        for topic in seen["responses"]
        for one in topic["partition_responses"]
    ]


def ends_of(topic: str, isolation_level: int) -> Ask:
    """The ends of all partitions, that readers of committed data see, too."""
    asked = [
        ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(PARTITIONS)
    ]
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation_level,
        topics=[ListOffsetsTopic(name=topic, partitions=asked)],
    )
    return Settling("ListOffsets", lambda _: request, 7, f"{isolation_level}")


def test_transactions(sides: Sequence[Side]) -> None:
    def draw(rng: random.Random) -> list[Step]:
        # A topic for each history: what one leaves open must not hold the next one's readers.
        topic = own_name(rng, "transactions")
        make_topics(sides, {topic: {}}, PARTITIONS)
        for side in sides:
            side.start_history()
        drawing = Transactions(rng, topic)
        steps = [drawing.init(name) for name in drawing.ids]
        steps += [drawing.drawn() for _ in range(rng.randint(5, 25))]
        return [*steps, ends_of(topic, 0)]

    assert compare(sides, draw) > 0


# -- groups --------------------------------------------------------------------------------------


class Groups:
    """Draws the steps of one group that has one member at a time, and of strangers."""

    def __init__(self, rng: random.Random, topic: str) -> None:
        self.rng, self.topic, self.group = rng, topic, own_name(rng, "history")
        # Apache Kafka makes a group for a request that it then refuses, or that leaves nothing in
        # it, and has that until it next looks for expired offsets. So such requests are drawn
        # for groups that are there anyway, by an offset that is never deleted.
        self.is_kept = rng.random() < 0.5

    def steps(self, count: int) -> list[Step]:
        kinds = [
            self.join, self.join, self.sync, self.sync, self.heartbeat, self.leave, self.commit,
            self.commit, self.fetch, self.delete_offsets,
        ]  # fmt: skip
        if self.is_kept:
            return [self.commit(is_first=True), *(self.rng.choice(kinds)() for _ in range(count))]
        kinds.append(self.delete_group)
        return [self.rng.choice(kinds)() for _ in range(count)]

    def member(self, side: Side, is_stranger: bool, shift: int) -> tuple[str, int]:
        member_id, generation = side.values.get("member", ("", -1))
        return ("stranger" if is_stranger else member_id), generation + shift

    def who(self) -> tuple[bool, int]:
        return self.rng.random() < 0.1, often(self.rng, 0, (-1, 1), 0.85)

    def join(self) -> Step:
        rng = self.rng
        version = rng.randint(2, 9)
        is_new = rng.random() < 0.1
        is_stranger, _ = self.who()
        session_ms = often(rng, 60_000, (0, -1, 99, 1_800_001), 0.95)
        kind = often(rng, "consumer", ("", "connect") if self.is_kept else ("connect",), 0.95)
        # A protocol without a name, which Apache Kafka takes and then calls null, is not drawn.
        others: list[list[str]] = [["range", "sticky"], ["sticky"]]
        if self.is_kept:
            others.append([])
        protocols = often(rng, ["range"], others, 0.85)

        def make(side: Side) -> JoinGroupRequest:
            member_id, _ = self.member(side, is_stranger, 0)
            return JoinGroupRequest(
                group_id=self.group,
                session_timeout_ms=session_ms,
                rebalance_timeout_ms=60_000,
                member_id="" if is_new and not member_id else member_id,
                protocol_type=kind,
                protocols=[JoinGroupRequestProtocol(name=one, metadata=b"") for one in protocols],
            )

        def keep(side: Side, answer: Any) -> None:
            if answer.member_id and answer.error_code in (0, 79):
                side.values["member"] = (answer.member_id, answer.generation_id)

        told = f"{session_ms} {kind} {protocols} {is_stranger}"
        return Patient("JoinGroup", make, version, told, keep=keep, only=without_leader)

    def sync(self) -> Step:
        rng = self.rng
        is_stranger, shift = self.who()
        named = often(rng, ("consumer", "range"), (("connect", "range"), ("consumer", "x")), 0.95)
        version = rng.randint(1, 5)
        gives = rng.random() < 0.9

        def make(side: Side) -> SyncGroupRequest:
            member_id, generation = self.member(side, is_stranger, shift)
            given = [SyncGroupRequestAssignment(member_id=member_id, assignment=b"all")]
            return SyncGroupRequest(
                group_id=self.group,
                generation_id=generation,
                member_id=member_id,
                protocol_type=named[0] if version >= 5 else None,
                protocol_name=named[1] if version >= 5 else None,
                assignments=given if gives else [],
            )

        return Patient("SyncGroup", make, version, f"{is_stranger} {shift} {named} {gives}")

    def heartbeat(self) -> Step:
        is_stranger, shift = self.who()

        def make(side: Side) -> HeartbeatRequest:
            member_id, generation = self.member(side, is_stranger, shift)
            return HeartbeatRequest(
                group_id=self.group, generation_id=generation, member_id=member_id
            )

        return Patient("Heartbeat", make, self.rng.randint(0, 4), f"{is_stranger} {shift}")

    def leave(self) -> Step:
        is_stranger, _ = self.who()
        version = self.rng.randint(0, 5)

        def make(side: Side) -> LeaveGroupRequest:
            member_id, generation = self.member(side, is_stranger, 0)
            if generation < 0 and not self.is_kept:
                member_id = "stranger"
            if version < 3:
                return LeaveGroupRequest(group_id=self.group, member_id=member_id)
            return LeaveGroupRequest(
                group_id=self.group, members=[MemberIdentity(member_id=member_id)]
            )

        return Patient("LeaveGroup", make, version, f"{is_stranger}")

    def commit(self, *, is_first: bool = False) -> Step:
        rng = self.rng
        is_stranger, shift = self.who()
        is_simple = is_first or rng.random() < 0.3
        offset = often(rng, 7, (-1, -2, 2**63 - 1), 0.9)
        others = [None, "", "x" * 4096]
        if self.is_kept:
            others.append("x" * 4097)
        metadata = often(rng, "m", others, 0.8)
        index = often(rng, rng.randrange(PARTITIONS), (-1, 9), 0.9)
        named = often(rng, self.topic, ("no-such-topic", ""), 0.95)
        if is_first:  # of the partition that `delete_offsets` leaves alone
            offset, metadata, index, named = 7, "m", 1, self.topic

        def make(side: Side) -> OffsetCommitRequest:
            member_id, generation = self.member(side, is_stranger, shift)
            partition = OffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata=metadata
            )
            return OffsetCommitRequest(
                group_id=self.group,
                generation_id_or_member_epoch=-1 if is_simple else generation,
                member_id="" if is_simple else member_id,
                topics=[OffsetCommitRequestTopic(name=named, partitions=[partition])],
            )

        told = f"{is_stranger} {shift} {is_simple} {offset} {index} {named} {metadata!s:.4}"
        return Patient("OffsetCommit", make, rng.randint(2, 9), told)

    def fetch(self) -> Step:
        rng = self.rng
        topics = [OffsetFetchRequestTopics(name=self.topic, partition_indexes=[0, 1, 9])]
        group = OffsetFetchRequestGroup(
            group_id=self.group, topics=often(rng, topics, (None, []), 0.7)
        )
        request = OffsetFetchRequest(groups=[group], require_stable=rng.random() < 0.5)
        return Patient("OffsetFetch", lambda _: request, rng.choice((8, 9)), only=in_order)

    def delete_offsets(self) -> Step:
        rng = self.rng
        partitions = [
            OffsetDeleteRequestPartition(partition_index=index)
            for index in rng.sample((0, 9) if self.is_kept else (0, 1, 9), k=rng.randint(1, 2))
        ]
        named = often(rng, self.topic, ("no-such-topic",), 0.9)
        request = OffsetDeleteRequest(
            group_id=self.group,
            topics=[OffsetDeleteRequestTopic(name=named, partitions=partitions)],
        )
        told = f"{named} {partitions}"
        return Patient("OffsetDelete", lambda _: request, 0, told, only=what_was_deleted)

    def delete_group(self) -> Step:
        request = DeleteGroupsRequest(groups_names=[self.group])
        return Patient("DeleteGroups", lambda _: request, self.rng.randint(0, 2))


def without_leader(seen: dict) -> Any:
    """Whose id the leader's is, since that id is each broker's own."""
    leads = bool(seen["leader"]) and len(seen["members"])
    return {**seen, "leader": bool(seen["leader"]), "leads": leads}


def what_was_deleted(seen: dict) -> Any:
    """Nothing, if the group does not exist: Kafka keeps one that never had a generation."""
    errors = [one["error_code"] for topic in seen["topics"] for one in topic["partitions"]]
    if seen["error_code"] == ErrorCode.GROUP_ID_NOT_FOUND or (errors and all(errors)):
        return "nothing"
    return seen


def in_order(seen: dict) -> Any:
    for group in seen["groups"]:
        for one in group["topics"]:
            one["partitions"].sort(key=lambda partition: partition["partition_index"])
    return seen


def test_groups(sides: Sequence[Side], topic: str) -> None:
    def draw(rng: random.Random) -> list[Step]:
        return Groups(rng, topic).steps(rng.randint(5, 40))

    assert compare(sides, draw) > 0


# -- fetch sessions ------------------------------------------------------------------------------


def test_fetch_sessions(sides: Sequence[Side], topic: str) -> None:
    def draw(rng: random.Random) -> list[Step]:
        return [session_step(rng, topic) for _ in range(rng.randint(3, 25))]

    assert compare(sides, draw) > 0


def session_step(rng: random.Random, topic: str) -> Step:
    """A fetch in the session that the history has, with drawn epochs, additions, removals."""
    version = rng.randint(7, 17)
    fresh_one = rng.random() < 0.15
    shift = often(rng, 0, (-1, 1, 5), 0.9)
    end = rng.random() < 0.05
    partitions = [
        FetchPartition(
            partition=often(rng, rng.randrange(PARTITIONS), (7, -1), 0.95),
            fetch_offset=often(rng, 0, (1, 10**6, -1), 0.8),
            partition_max_bytes=1 << 20,
        )
        for _ in range(rng.choice((0, 1, 1, 2)))
    ]
    forgotten = [rng.choice((0, 1, 7))] if rng.random() < 0.2 else []

    def make(side: Side) -> FetchRequest:
        session_id, epoch = side.values.get("session", (0, 0))
        if fresh_one or not session_id:
            session_id, epoch = 0, 0
        asked, left = FetchTopic(partitions=partitions), ForgottenTopic(partitions=forgotten)
        if version >= 13:
            asked.topic_id = left.topic_id = side.topic_id(topic)
        else:
            asked.topic = left.topic = topic
        return FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1 << 20,
            session_id=session_id,
            session_epoch=-1 if end else epoch + shift,
            topics=[asked] if partitions else [],
            forgotten_topics_data=[left] if forgotten and session_id else [],
        )

    def keep(side: Side, answer: Any) -> None:
        session_id, epoch = side.values.get("session", (0, 0))
        if answer.error_code == 0:
            is_same = answer.session_id == session_id
            side.values["session"] = (answer.session_id, epoch + 1 if is_same else 1)

    told = f"new {fresh_one} shift {shift} end {end} {partitions} forgotten {forgotten}"
    return Ask("Fetch", make, version, told, keep=keep)
