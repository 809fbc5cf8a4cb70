"""Batches that cannot be read: who leads, who votes, how a log heals."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from fencepost.batch.records import build_batch
from fencepost.machines.effects import DropPrefix, RepairBatch, Send, SendAfterPersist, TimerFired
from fencepost.machines.quorum import (
    FetchBounds,
    QuorumState,
    Role,
    answered,
    fetch_response,
    inputs,
    messages,
)
from fencepost.wire.errors import ErrorCode

from .snapshot_fixtures import (
    BARE,
    CONFIG,
    DROPPED,
    END,
    EPOCH,
    LATER,
    NODE,
    WHOLE,
    Bench,
    again,
    damage,
    leader,
    take,
    works,
)


def test_a_leader_with_a_damaged_log_resigns_and_is_healed_by_a_snapshot() -> None:
    bench = leader(**BARE)
    effects = bench.step(damage(2))
    assert bench.machine.role is Role.RESIGNED and bench.machine.damaged_at == 2
    assert not works(effects), "what is committed is not cut"
    bench.step(TimerFired(inputs.ELECTION), LATER)
    assert bench.machine.role is Role.UNATTACHED, "who cannot read its log does not stand"
    assert bench.machine.epoch == EPOCH, "and asks who leads"
    assert DropPrefix(4) in works(take(bench, 4))
    assert bench.machine.damaged_at is None
    bench.step(TimerFired(inputs.ELECTION), LATER)
    assert bench.machine.role is Role.PROSPECTIVE


def test_a_snapshot_that_is_there_heals_at_once() -> None:
    bench = leader(**WHOLE)
    effects = bench.step(damage(1))
    assert works(effects) == [DropPrefix(3)]
    assert bench.machine.role is Role.LEADER and bench.machine.damaged_at is None


def test_a_snapshot_that_ends_below_the_damage_does_not_heal() -> None:
    bench = leader(**BARE)
    bench.step(damage(4))
    take(bench, 3)
    assert bench.machine.damaged_at == 4


def test_a_damaged_end_is_fetched_again_and_votes_remember_it() -> None:
    bench = Bench()
    bench.step(damage(3))
    assert (bench.machine.end_offset, bench.machine.damaged_at) == (3, None)
    bench.step(TimerFired(inputs.FETCH), LATER)
    assert bench.machine.role is Role.FOLLOWER, "it does not stand with less than it had promised"

    def is_granted(log_end: tuple[int, int]) -> bool:
        request = messages.vote_request(CONFIG, NODE, 3, EPOCH, log_end, True)
        said = bench.reply(request)
        return bool(said.topics[0].partitions[0].vote_granted)

    assert not is_granted((3, 4)), "longer than ours, shorter than ours was"
    assert is_granted((3, 5))
    assert bench.machine.damaged_at is None


def test_a_former_leader_that_may_not_stand_asks_who_leads() -> None:
    """Those that lead now may not have it among their voters, and then they do not call it."""
    state = QuorumState(EPOCH, leader_id=NODE, voted_id=NODE, acknowledged_end=(EPOCH, 99))
    bench = Bench(state=state, config=replace(CONFIG, bootstrap_servers=1))
    assert bench.machine.role is Role.RESIGNED
    effects = bench.step(TimerFired(inputs.ELECTION), LATER)
    assert bench.machine.role is Role.UNATTACHED
    (asked,) = [e for e in effects if isinstance(e, Send | SendAfterPersist)]
    assert asked.to == -2 and asked.message.topics[0].partitions[0].current_leader_epoch == EPOCH
    bounds = FetchBounds(ErrorCode.FENCED_LEADER_EPOCH, 3, EPOCH + 1)
    bench.step(answered(-2, asked.message, fetch_response(bounds, b"")))
    assert bench.machine.role is Role.FOLLOWER
    assert (bench.machine.epoch, bench.machine.leader_id) == (EPOCH + 1, 3)


def test_a_leaders_own_records_are_no_promise() -> None:
    bench = leader(**BARE)
    bench.step(inputs.AppendRecords([build_batch([(None, b"new")])], "t", EPOCH))
    bench.flush()
    bench.step(damage(6))
    assert (bench.machine.role, bench.machine.end_offset) == (Role.RESIGNED, 6)
    bench.step(TimerFired(inputs.ELECTION), LATER)
    assert bench.machine.role is Role.PROSPECTIVE


def test_a_nominee_with_a_damaged_log_stands_down() -> None:
    bench = Bench(state=QuorumState(EPOCH))
    bench.step(TimerFired(inputs.ELECTION), LATER)
    assert bench.machine.role is Role.PROSPECTIVE
    bench.step(damage(2))
    assert bench.machine.role is Role.UNATTACHED
    bench.step(TimerFired(inputs.ELECTION), LATER)
    assert bench.machine.role is Role.UNATTACHED


def test_a_lone_voter_cannot_be_repaired_by_anybody() -> None:
    bench = Bench(voters=(NODE,), state=QuorumState(EPOCH))
    assert bench.machine.role is Role.LEADER and bench.machine.high_watermark == 0
    bench.step(damage(2))
    assert bench.machine.role is Role.FAILED


def test_damage_that_is_no_longer_in_the_log_is_none() -> None:
    bench = leader(**DROPPED)
    for offset in (0, 1, END, 99):
        bench.step(damage(offset))
        assert bench.machine.role is Role.LEADER and bench.machine.damaged_at is None


def test_a_fetched_batch_with_a_wrong_checksum_is_fetched_again() -> None:
    bench = Bench()
    batch = build_batch([(None, b"new")], base_offset=5, leader_epoch=5)
    batch[-1] ^= 1
    asked = bench.machine.requests.in_flight[2][0]
    bounds = FetchBounds(ErrorCode.NONE, 2, EPOCH, 5, 6, 5)
    effects = bench.step(answered(2, asked, fetch_response(bounds, batch)))
    assert not works(effects) and bench.machine.end_offset == 5
    assert again(bench) == "FetchRequest"


def test_a_damaged_batch_is_replaced_by_the_same_batch_and_by_nothing_else() -> None:
    bench = Bench()

    def give(batch: bytes) -> list[Any]:
        bounds = FetchBounds(ErrorCode.NONE, 2, EPOCH, 5, 6, 5)
        asked = bench.machine.requests.in_flight[2][0]
        return works(bench.step(answered(2, asked, fetch_response(bounds, batch))))

    give(b"")
    assert bench.machine.high_watermark == 5
    bench.step(damage(2))
    assert bench.machine.damaged_at == 2, "it is committed, and not cut"
    again(bench)
    good = build_batch([(None, b"old")], base_offset=2, leader_epoch=2)
    corrupt = bytearray(good)
    corrupt[-1] ^= 1
    for lie in (
        b"",
        good[:-1],
        corrupt,
        build_batch([(None, b"old")], base_offset=1, leader_epoch=2),
        build_batch([(None, b"old")], base_offset=2, leader_epoch=3),
        build_batch([(None, b"old")] * 9, base_offset=2, leader_epoch=2),
    ):
        assert give(bytes(lie)) == []
        assert bench.machine.damaged_at == 2
        assert again(bench) == "FetchRequest"
    assert give(bytes(good)) == [RepairBatch(2, bytes(good))]
    assert bench.machine.damaged_at is None


def test_what_cannot_be_read_is_answered_with_an_error() -> None:
    bounds = FetchBounds(ErrorCode.NONE, 2, EPOCH, 5, 6, 5)
    answer = messages.unreadable(bounds)
    assert answer.error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert answer.upper_bound_offset == answer.offset == 5


def test_a_fetch_that_waited_for_what_is_cut_is_sent_again() -> None:
    """It is held back until the batch is on disk, which it will never be."""
    bench = Bench()
    asked = bench.machine.requests.in_flight[2][0]
    batch = build_batch([(None, b"new")], base_offset=5, leader_epoch=5)
    bounds = FetchBounds(ErrorCode.NONE, 2, EPOCH, 5, 6, 0)
    held = bench.step(answered(2, asked, fetch_response(bounds, batch)))
    assert [type(e) for e in held if getattr(e, "to", None) == 2] == [SendAfterPersist]
    effects = bench.step(damage(5))
    assert bench.asks(effects).topics[0].partitions[0].fetch_offset == 5
