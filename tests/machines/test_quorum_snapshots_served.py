"""The leader and its snapshots: what a fetch hears of, and FetchSnapshot."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.log.snapshots import BOOTSTRAP_ID, SnapshotId
from fencepost.machines.effects import Reply, TimerFired
from fencepost.machines.quorum import (
    QuorumState,
    Role,
    SnapshotBounds,
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
    FRESH,
    LATER,
    NODE,
    WHOLE,
    Bench,
    fetch,
    fetch_snapshot,
    leader,
)

# row, log, fetch offset, last fetched epoch, high watermark known; what is heard of.
FETCHES: list[tuple[str, dict[str, Any], int, int, int, Any]] = [
    ("a", DROPPED, 0, 0, -1, SnapshotId(3, 2)),
    ("a", WHOLE, 0, 0, -1, SnapshotId(3, 2)),
    ("b", FRESH, 0, 0, -1, "reads"),
    ("b", BARE, 0, 0, -1, "reads"),
    ("b", BARE, 0, 4, -1, "reads"),
    ("c", DROPPED, 1, 1, -1, SnapshotId(3, 2)),
    ("d", DROPPED, 2, 2, -1, SnapshotId(3, 2)),
    ("d", DROPPED, 2, 0, -1, SnapshotId(3, 2)),
    ("e", DROPPED, 5, 0, -1, SnapshotId(3, 2)),
    ("f", DROPPED, 4, 1, -1, (1, 2)),
    ("f", DROPPED, 4, 2, -1, (2, 3)),
    ("f", DROPPED, 9, 5, -1, (5, 6)),
    ("f", DROPPED, 5, 4, -1, (3, 5)),
    ("f", BARE, 4, 1, -1, (1, 2)),
    ("f", BARE, 1, 0, -1, (0, 0)),
    ("f", WHOLE, 2, 0, -1, (0, 0)),
    ("g", DROPPED, 2, 1, -1, "reads"),
    ("g", DROPPED, 3, 2, -1, "reads"),
    ("g", BARE, 5, 3, -1, "reads"),
    ("h", DROPPED, 6, 5, 5, "high watermark"),
    ("h", BARE, 6, 5, -1, "high watermark"),
    ("i", DROPPED, 6, 5, 6, "waits"),
    ("i", BARE, 6, 5, 9, "waits"),
]


@pytest.mark.parametrize("case", FETCHES, ids=lambda case: f"{case[0]}-{case[2]}-e{case[3]}")
def test_a_fetch_hears_of_what_the_table_says(case: Any) -> None:
    _, log, offset, last, known, expected = case
    bench = leader(**log)
    request = fetch(offset, last, known=known)
    bounds = bench.reply(request)
    if expected == "waits":
        assert bounds is None
        return
    assert bounds.error is ErrorCode.NONE and bounds.high_watermark == END
    assert bounds.log_start_offset == log.get("start", 0)
    if isinstance(expected, SnapshotId):
        assert (bounds.snapshot_id, bounds.diverging) == (expected, None)
    elif isinstance(expected, tuple):
        assert (bounds.snapshot_id, bounds.diverging) == (None, expected)
    else:
        assert bounds.snapshot_id is bounds.diverging is None
    upper = END if expected == "reads" else offset
    assert bounds.upper_bound_offset == upper
    said = messages.fetch_response_of(fetch_response(bounds))
    assert said is not None
    told = (said.snapshot_id.end_offset, said.snapshot_id.epoch)
    assert told == (expected if isinstance(expected, SnapshotId) else (-1, -1))


def test_every_row_of_the_fetch_table_has_a_case() -> None:
    assert {case[0] for case in FETCHES} == set("abcdefghi")


def test_a_reader_that_must_go_elsewhere_does_not_count_as_holding_the_log() -> None:
    bench = Bench(state=QuorumState(EPOCH - 1), **DROPPED)
    asked = bench.asks(bench.step(TimerFired(inputs.ELECTION), LATER))
    yes = messages.vote_response(ErrorCode.NONE, -1, EPOCH - 1, True)
    asked = bench.asks(bench.step(answered(2, asked, yes)))
    bench.step(answered(2, asked, messages.vote_response(ErrorCode.NONE, -1, EPOCH, True)))
    bench.flush()
    assert bench.reply(fetch(9, 5)).diverging == (5, 6)
    assert bench.reply(fetch(6, 0)).snapshot_id == SnapshotId(3, 2)
    assert bench.machine.high_watermark == 3, "what the snapshot stands for, and no more"
    bounds = bench.reply(fetch(5, 3))
    assert bounds.high_watermark == -1, "nothing of this epoch is committed yet"


def test_a_fetch_that_waits_is_looked_at_again() -> None:
    """A reader without a vote waits at the high watermark; the log moves on under it."""
    bench = leader(**BARE)
    asked = fetch(END, 5, known=END)
    assert bench.reply(asked) is None
    bench.log.snapshots.put(SnapshotId(END, 5), bench.log.entries)
    effects = bench.step(TimerFired(inputs.FETCH_WAIT), 500)
    bounds = next(e.value for e in effects if isinstance(e, Reply))
    assert (bounds.offset, bounds.upper_bound_offset, bounds.snapshot_id) == (END, END, None)


def test_a_piece_of_a_snapshot_is_served() -> None:
    bench = leader(**DROPPED)
    size = bench.log.snapshots.size_bytes(SnapshotId(3, 2))
    assert bench.reply(fetch_snapshot(position=7)) == SnapshotBounds(
        ErrorCode.NONE, NODE, EPOCH, SnapshotId(3, 2), size, 7, 100
    )
    small = fetch_snapshot()
    small.max_bytes = 5
    assert bench.reply(small).max_bytes == 5


SIZE = 3 * 71 + 4


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (fetch_snapshot((9, 9)), ErrorCode.SNAPSHOT_NOT_FOUND),
        (fetch_snapshot((3, 1)), ErrorCode.SNAPSHOT_NOT_FOUND),
        (fetch_snapshot(BOOTSTRAP_ID), ErrorCode.SNAPSHOT_NOT_FOUND),
        (fetch_snapshot(position=-1), ErrorCode.POSITION_OUT_OF_RANGE),
        (fetch_snapshot(position=SIZE), ErrorCode.POSITION_OUT_OF_RANGE),
        (fetch_snapshot((9, 9), epoch=EPOCH - 1), ErrorCode.FENCED_LEADER_EPOCH),
        (fetch_snapshot((9, 9), epoch=EPOCH + 1), ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_snapshot_that_cannot_be_served(request_: Any, error: ErrorCode) -> None:
    bench = leader(**WHOLE)
    assert bench.log.snapshots.size_bytes(SnapshotId(3, 2)) == SIZE
    bounds = bench.reply(request_)
    assert (bounds.error, bounds.leader_id, bounds.leader_epoch) == (error, NODE, EPOCH)
    said = messages.fetch_snapshot_response_of(messages.fetch_snapshot_response(bounds))
    assert said is not None and said.error_code == error
    assert (said.current_leader.leader_id, said.current_leader.leader_epoch) == (NODE, EPOCH)


def test_requests_for_snapshots_that_are_refused_before_they_are_looked_at() -> None:
    bench = leader(**WHOLE)
    other_cluster = fetch_snapshot()
    other_cluster.cluster_id = "another"
    bounds = bench.reply(other_cluster)
    assert (bounds.error, bounds.is_whole_request) == (ErrorCode.INCONSISTENT_CLUSTER_ID, True)
    for spoil in (
        lambda request: request.topics.clear(),
        lambda request: request.topics.append(request.topics[0]),
        lambda request: request.topics[0].partitions.append(request.topics[0].partitions[0]),
        lambda request: setattr(request, "max_bytes", -1),
    ):
        request = fetch_snapshot()
        spoil(request)
        bounds = bench.reply(request)
        assert (bounds.error, bounds.is_whole_request) == (ErrorCode.INVALID_REQUEST, True)
        assert messages.fetch_snapshot_response(bounds).error_code == ErrorCode.INVALID_REQUEST
    elsewhere = fetch_snapshot(epoch=EPOCH - 1)
    elsewhere.topics[0].name = "elsewhere"
    elsewhere.topics[0].partitions[0].partition = 7
    response = messages.fetch_snapshot_response(bench.reply(elsewhere))
    (topic,) = response.topics
    assert (topic.name, topic.partitions[0].index) == ("elsewhere", 7)
    assert topic.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_voter_that_loads_a_snapshot_is_alive() -> None:
    bench = leader(**WHOLE)
    for _ in range(5):
        bench.step(TimerFired(inputs.CHECK_QUORUM), CONFIG.check_quorum_timeout_ms // 2)
        assert bench.reply(fetch_snapshot(replica=3)).error is ErrorCode.NONE
        assert bench.machine.role is Role.LEADER
    for _ in range(5):
        bench.reply(fetch_snapshot(replica=7))  # an observer does not keep it in office
        bench.step(TimerFired(inputs.CHECK_QUORUM), CONFIG.check_quorum_timeout_ms // 2)
    assert bench.machine.role is Role.RESIGNED
