"""Offsets in transactions: who may commit them, and what becomes of them at a marker."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.machines.coordinator import Producer, TransactionEnd, UndoLog
from fencepost.machines.group.commits import TxnOffset
from fencepost.machines.group.config import GroupConfig
from fencepost.machines.group.group import Committer
from fencepost.machines.group.offsets import OffsetStore
from fencepost.machines.group.rules import GroupRules
from fencepost.machines.group.shard import Decision
from fencepost.wire.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.group import OffsetCommitValue
from fencepost.wire.types import Uuid

from .group_world import GroupWorld

PRODUCER = Producer(9, 3, 77)
NONE = ErrorCode.NONE


def decide(
    world: GroupWorld,
    *,
    group: str = "g",
    member_id: str = "",
    generation: int = -1,
    instance: str | None = None,
    metadata: tuple[str | None, ...] = ("",),
    version: int = 5,
) -> tuple[list[ErrorCode], Decision]:
    """One offset for each of `metadata`, in partitions 0 and up: the errors, and the decision."""
    request = TxnOffsetCommitRequest(
        transactional_id="tx",
        group_id=group,
        producer_id=9,
        producer_epoch=3,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance,
    )
    offsets = [
        TxnOffset(
            "t",
            Uuid.ZERO,
            TxnOffsetCommitRequestPartition(
                partition_index=index, committed_offset=42, committed_metadata=text
            ),
        )
        for index, text in enumerate(metadata)
    ]
    decision = world.coordinator.decide_txn_offset_commit(
        request, version, offsets, PRODUCER, "token", world.wall
    )
    [(token, errors)] = decision.replies
    assert token == "token"
    return errors, decision


def apply(world: GroupWorld, decision: Decision, producer_id: int = 9) -> None:
    for record in decision.records:
        world.log.append((b"", b""))
        world.coordinator.apply(record, len(world.log) - 1, producer_id)


def generation_of(world: GroupWorld) -> int:
    return world.coordinator.groups["g"].generation


def joined(world: GroupWorld, instance: str | None = None) -> str:
    """The only member of the stable group."""
    token = world.join(version=3, instance=instance)
    world.advance(world.coordinator._shard.config.initial_rebalance_delay_ms)
    member_id = world.replies[token].member_id
    world.sync(member_id, generation_of(world), {member_id: b"all"})
    return str(member_id)


def test_the_records_are_the_producers() -> None:
    errors, decision = decide(GroupWorld(), metadata=("a", None))
    assert errors == [NONE, NONE]
    assert decision.producer == PRODUCER and decision.is_atomic
    [(key, value), (_, other)] = decision.records
    assert (key.group, key.topic, key.partition, value.offset) == ("g", "t", 0, 42)
    assert (value.metadata, other.metadata, value.expire_timestamp) == ("a", "", -1)


def test_too_much_metadata_is_refused_by_itself() -> None:
    limit = GroupConfig().offset_metadata_max_length
    errors, decision = decide(GroupWorld(), metadata=("x" * (limit + 1), "x" * limit))
    assert errors == [ErrorCode.OFFSET_METADATA_TOO_LARGE, NONE]
    assert [key.partition for key, _ in decision.records] == [1]


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({}, NONE),
        ({"generation": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation": 0, "version": 6}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"version": 6}, NONE),
    ],
)
def test_a_group_that_does_not_exist(said: Any, error: ErrorCode) -> None:
    errors, decision = decide(GroupWorld(), **said)
    assert errors == [error]
    assert bool(decision.records) is bool(decision.producer) is (error is NONE)


@pytest.mark.parametrize(
    ("member", "generation", "error"),
    [
        (True, 0, NONE),
        (True, 1, ErrorCode.ILLEGAL_GENERATION),
        (True, -1, ErrorCode.ILLEGAL_GENERATION),
        (False, 0, ErrorCode.UNKNOWN_MEMBER_ID),
        (None, -1, NONE),
    ],
)
def test_a_group_with_members(member: bool | None, generation: int, error: ErrorCode) -> None:
    """`generation` behind the present one; without member and generation, one of before KIP-447."""
    world = GroupWorld()
    member_id = joined(world)
    said = {True: member_id, False: "no-member", None: ""}[member]
    wanted = -1 if generation < 0 else generation_of(world) - generation
    assert decide(world, member_id=said, generation=wanted)[0] == [error]


@pytest.mark.parametrize(
    ("version", "said", "error"),
    [
        (5, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION),
        (6, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.STALE_MEMBER_EPOCH),
        (5, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_ID_NOT_FOUND),  # of a share group
    ],
)
def test_an_old_member_epoch_has_a_name_of_its_own_from_v6_on(
    monkeypatch: pytest.MonkeyPatch, version: int, said: ErrorCode, error: ErrorCode
) -> None:
    """KIP-1319. The type of the group says what it is, told the version that asks."""
    world = GroupWorld()
    member_id = joined(world)
    seen = []

    def refuse(committer: Committer, rules: GroupRules) -> ErrorCode:
        seen.append((committer.api_version, committer.is_transactional))
        return said

    kind = type(world.coordinator.groups["g"])
    monkeypatch.setattr(kind, "refuse_commit", lambda group, *given: refuse(*given))
    assert decide(world, member_id=member_id, generation=3, version=version)[0] == [error]
    assert seen == [(version, True)]


def test_a_member_that_was_replaced_is_fenced() -> None:
    world = GroupWorld()
    member_id = joined(world, instance="i")
    said = {"member_id": member_id, "generation": generation_of(world)}
    assert decide(world, instance="i", **said)[0] == [NONE]
    other = decide(world, instance="i", member_id="old", generation=generation_of(world))
    assert other[0] == [ErrorCode.FENCED_INSTANCE_ID]


def test_members_may_commit_while_they_wait_for_their_assignment() -> None:
    """Unlike a plain commit, as in Kafka."""
    world = GroupWorld()
    token = world.join(version=3)
    world.advance(world.coordinator._shard.config.initial_rebalance_delay_ms)
    member_id = world.replies[token].member_id
    assert decide(world, member_id=member_id, generation=generation_of(world))[0] == [NONE]


def test_a_marker_is_a_decision_of_its_own() -> None:
    world = GroupWorld()
    end = TransactionEnd(9, 3, 1, committed=True)
    decision = world.coordinator.decide_transaction_end(end, "token")
    assert decision.transaction_end == end and not decision.records
    assert decision.replies == [("token", None)]


def test_pending_offsets_protect_the_group_and_the_offset() -> None:
    """KAFKA-19163: expiry must not take what a transaction is about to decide."""
    world = GroupWorld()
    world.offset_commit(5)
    apply(world, decide(world)[1])
    far = world.wall + 10**12
    assert world.coordinator._commits.expire(far).records == []
    world.coordinator.apply_transaction_end(9, committed=False)
    assert len(world.coordinator._commits.expire(far).records) == 2, "the offset, and the group"


# The store: reverting, and who is counted


def put(store: OffsetStore, group: str, index: int, producer_id: int, at: int = 0) -> None:
    value = OffsetCommitValue(offset=at, metadata="", commit_timestamp=1)
    store.put(group, ("t", index), value, at, producer_id)


def test_what_is_undecided_is_known_until_the_last_transaction_ends() -> None:
    store = OffsetStore(UndoLog())
    put(store, "g", 0, 1)
    put(store, "g", 0, 1, at=1)
    put(store, "g", 0, 2, at=2)
    put(store, "h", 0, 2, at=3)
    assert store.end_transaction(1, committed=True) == ["g"]
    assert store.is_undecided("g", ("t", 0)) and store.undecided_of("g") == [("t", 0)]
    assert store.end_transaction(2, committed=False) == ["g", "h"]
    assert not store.is_undecided("g", ("t", 0)) and store.undecided_of("g") == []
    assert store.has_any("g") and not store.has_any("h")
    assert store.of_group("g")["t", 0].record_offset == 1


@pytest.mark.parametrize("what", ["put", "remove", "commit", "abort"])
def test_what_is_reverted_has_not_happened(what: str) -> None:
    undo_log = UndoLog()
    store = OffsetStore(undo_log)
    put(store, "g", 0, 1)
    put(store, "g", 1, 2, at=1)
    put(store, "g", 1, -1, at=2)

    def view() -> Any:
        pending = {pid: dict(of) for pid, of in store._undecided.items()}
        counts = {group: dict(of) for group, of in store._counts.items()}
        return store.snapshot(), pending, counts

    before = view()
    undo_log.begin()
    if what == "put":
        put(store, "g", 0, 2, at=3)
        put(store, "h", 0, 5, at=4)
    elif what == "remove":
        store.remove("g", ("t", 0))
        store.remove("g", ("t", 1))
    else:
        store.end_transaction(1, committed=what == "commit")
        store.end_transaction(2, committed=what == "commit")
    assert view() != before
    undo_log.revert()
    assert view() == before
