"""Snapshots and the quorum: served, fetched, installed, taken, retained; and what damage does.

The node is 1 of the voters 1, 2, 3 as in `test_quorum_table.py`, in epoch 5, with a log of epochs
that a test chooses.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fencepost.batch.records import build_batch
from fencepost.log.snapshots import BOOTSTRAP_ID, SnapshotId
from fencepost.machines.effects import (
    Append,
    DropPrefix,
    Effect,
    InstallSnapshot,
    Persist,
    Persisted,
    Reply,
    Send,
    SendAfterPersist,
    StoreSnapshot,
    TimerFired,
    Truncate,
)
from fencepost.machines.quorum import (
    FetchBounds,
    QuorumConfig,
    QuorumMachine,
    QuorumState,
    RequestFailed,
    Role,
    SnapshotBounds,
    SnapshotInstalled,
    SnapshotRefused,
    SnapshotTaken,
    Start,
    answered,
    fetch_response,
    inputs,
    messages,
    received,
)
from fencepost.wire.api.fetch_snapshot import FetchSnapshotResponse
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

from .quorum_log import ListLog

NODE = 1
EPOCH = 5
LATER = 10_000_000
CONFIG = QuorumConfig(cluster_id="world", fetch_snapshot_max_bytes=100)


class Bench:
    """A machine on a log with one batch per epoch in `epochs`, beginning at `start`."""

    def __init__(
        self,
        epochs: tuple[int, ...] = (1, 1, 2, 3, 3),
        snapshots: tuple[tuple[int, int], ...] = (),
        start: int = 0,
        state: QuorumState | None = None,
        voters: tuple[int, ...] = (1, 2, 3),
        config: QuorumConfig = CONFIG,
    ) -> None:
        self.log = ListLog()
        for epoch in epochs:
            self.log.append(Append([build_batch([(None, b"old")])], epoch))
        for end_offset, epoch in snapshots:
            entries = [e for e in self.log.entries if e.next_offset <= end_offset]
            self.log.snapshots.put(SnapshotId(end_offset, epoch), entries)
        if start:
            self.log.drop_prefix(start)
        self.log.durable_offset = self.log.end_offset
        self.machine = QuorumMachine(
            NODE, voters, self.log, state or QuorumState(EPOCH, leader_id=2), config
        )
        self.now_ms = 1_000
        self.effects = self.step(Start([0]))

    def step(self, input_: Any, after_ms: int = 0) -> list[Effect]:
        self.now_ms += after_ms
        effects = self.machine.step(input_, self.now_ms)
        for work in works(effects):
            if isinstance(work, Append):
                self.log.append(work)
            elif isinstance(work, Truncate):
                self.log.cut(work.end_offset)
            elif isinstance(work, StoreSnapshot):
                self.log.snapshots.store(work)
            elif isinstance(work, DropPrefix):
                self.log.drop_prefix(work.start_offset)
        return effects

    def flush(self) -> list[Effect]:
        self.log.durable_offset = self.log.end_offset
        return self.step(Persisted(self.log.end_offset))

    def reply(self, request: Message) -> Any:
        """What the request is answered with at once; None if it waits."""
        effects = self.step(received("t", request))
        return next((e.value for e in effects if isinstance(e, Reply)), None)

    def asks(self, effects: list[Effect]) -> Any:
        """The last message that is sent to the leader among the effects."""
        sent = [e.message for e in effects if isinstance(e, Send | SendAfterPersist) and e.to == 2]
        return sent[-1] if sent else None


def works(effects: list[Effect]) -> list[Any]:
    return [effect.work for effect in effects if isinstance(effect, Persist)]


def leader(**options: Any) -> Bench:
    """Leads epoch 5; its log and its first record are on disk and committed."""
    bench = Bench(state=QuorumState(EPOCH - 1), **options)
    asked = bench.asks(bench.step(TimerFired(inputs.ELECTION), LATER))
    yes = messages.vote_response(ErrorCode.NONE, -1, EPOCH - 1, True)
    asked = bench.asks(bench.step(answered(2, asked, yes)))
    yes = messages.vote_response(ErrorCode.NONE, -1, EPOCH, True)
    bench.step(answered(2, asked, yes))
    bench.flush()
    assert bench.machine.role is Role.LEADER
    bench.reply(fetch(bench.log.end_offset, EPOCH, replica=2))
    assert bench.machine.is_active_leader
    return bench


def fetch(
    offset: int, last: int, replica: int = 3, known: int = -1, wait_ms: int = 500, **fields: Any
) -> Any:
    request = messages.fetch_request(CONFIG, replica, EPOCH, (last, offset), known)
    request.max_wait_ms = wait_ms
    return request


# -- what a fetch hears of: the table of `serving.py` --------------------------------------------

DROPPED = {"epochs": (1, 1, 2, 3, 3), "snapshots": ((2, 1), (3, 2)), "start": 2}
WHOLE = {"epochs": (1, 1, 2, 3, 3), "snapshots": ((0, 0), (3, 2))}
FRESH = {"epochs": (1, 1, 2, 3, 3), "snapshots": ((0, 0),)}
BARE: dict[str, Any] = {"epochs": (1, 1, 2, 3, 3)}
END = 6  # five batches and the LeaderChange

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


def test_a_fetch_that_waits_is_looked_at_anew() -> None:
    """A reader without a vote waits at the high watermark; the log moves on under it."""
    bench = leader(**BARE)
    asked = fetch(END, 5, known=END)
    assert bench.reply(asked) is None
    bench.log.snapshots.put(SnapshotId(END, 5), bench.log.entries)
    effects = bench.step(TimerFired(inputs.FETCH_WAIT), 500)
    bounds = next(e.value for e in effects if isinstance(e, Reply))
    assert (bounds.offset, bounds.upper_bound_offset, bounds.snapshot_id) == (END, END, None)


# -- FetchSnapshot, served -----------------------------------------------------------------------


def fetch_snapshot(
    id_: tuple[int, int] = (3, 2), position: int = 0, epoch: int = EPOCH, replica: int = 3
) -> Any:
    return messages.fetch_snapshot_request(CONFIG, replica, epoch, SnapshotId(*id_), position)


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


# -- fetching a snapshot: the table of `snapshots.py` --------------------------------------------

OFFERED = SnapshotId(9, 4)
OTHER = Bench((1, 1, 2, 3, 3, 3, 3, 3, 4), snapshots=(OFFERED,))
DATA = OTHER.log.snapshots.files[OFFERED]


def offer(bench: Bench, snapshot_id: tuple[int, int] = OFFERED, epoch: int = EPOCH) -> list[Effect]:
    """The leader answers the fetch that is under way with a snapshot's id."""
    asked = bench.machine._in_flight[2][0]
    bounds = FetchBounds(ErrorCode.NONE, 2, epoch, 5, 5, 9, 9, snapshot_id=SnapshotId(*snapshot_id))
    return bench.step(answered(2, asked, fetch_response(bounds)))


def piece(
    position: int,
    size: int = 100,
    total: int = len(DATA),
    id_: SnapshotId = OFFERED,
    error: ErrorCode = ErrorCode.NONE,
    leader: tuple[int, int] = (2, EPOCH),
) -> FetchSnapshotResponse:
    bounds = SnapshotBounds(error, *leader, None if error else id_, total, position)
    return messages.fetch_snapshot_response(bounds, DATA[position : position + size])


def give(bench: Bench, response: FetchSnapshotResponse) -> list[Effect]:
    """The leader's answer to the request that is under way."""
    return bench.step(answered(2, bench.machine._in_flight[2][0], response))


def loading() -> Bench:
    """A follower that has the first piece and asks for the second."""
    bench = Bench()
    asked = bench.asks(offer(bench))
    partition = asked.topics[0].partitions[0]
    assert (partition.snapshot_id.end_offset, partition.snapshot_id.epoch) == OFFERED
    assert (partition.position, partition.current_leader_epoch) == (0, EPOCH)
    assert asked.max_bytes == CONFIG.fetch_snapshot_max_bytes
    give(bench, piece(0))
    return bench


def loaded() -> Bench:
    """A follower that has all pieces and waits for them to be installed."""
    bench = loading()
    effects: list[Effect] = []
    for position in range(100, len(DATA), 100):
        assert not [w for w in works(effects) if isinstance(w, InstallSnapshot)]
        effects = give(bench, piece(position))
    assert isinstance(works(effects)[-1], InstallSnapshot)
    assert bench.asks(effects) is None, "the log is left alone"
    return bench


def again(bench: Bench) -> str:
    """What is asked of the leader once the retry is due."""
    effects = bench.step(TimerFired(inputs.RETRY), CONFIG.request_timeout_ms)
    return type(bench.asks(effects)).__name__


@pytest.mark.parametrize("epoch", [EPOCH, EPOCH + 1, (1 << 31) - 1])
@pytest.mark.parametrize("leader_id", [-77, -2])
def test_a_leader_that_no_node_can_be_is_not_believed(leader_id: int, epoch: int) -> None:
    """Its id would stand in quorum-state, which could then not be read at the next start."""
    bench = Bench()
    offer(bench, (-1, -1))
    bench.step(TimerFired(inputs.RETRY), LATER)
    asked = bench.machine._in_flight[2][0]
    before = bench.machine.state
    bounds = FetchBounds(ErrorCode.NONE, leader_id, epoch, 5, 5, 9)
    effects = bench.step(answered(2, asked, fetch_response(bounds)))
    assert bench.machine.state == before and bench.machine.role is Role.FOLLOWER
    assert bench.asks(effects) is None, "and it is not asked again at once"


def test_a_the_next_piece_is_asked_for() -> None:
    bench = loading()
    asked = bench.machine._in_flight[2][0]
    assert asked.topics[0].partitions[0].position == 100
    effects = give(bench, piece(100))
    (work,) = works(effects)
    assert (work.snapshot_id, work.position_bytes, bytes(work.data)) == (
        OFFERED,
        100,
        DATA[100:200],
    )
    assert bench.asks(effects).topics[0].partitions[0].position == 200
    assert (bench.machine.end_offset, bench.machine.high_watermark) == (5, 0)


def test_b_the_last_piece_has_it_installed() -> None:
    bench = loaded()
    assert bytes(bench.log.snapshots.partial[1]) == DATA  # type: ignore[index]
    assert (bench.machine.end_offset, bench.machine.high_watermark) == (5, 0), "nothing shows yet"


def test_c_a_piece_that_does_not_come_is_asked_for_again() -> None:
    bench = loading()
    first = bench.machine._in_flight[2][0]
    bench.step(RequestFailed(2, first))
    bench.step(TimerFired(inputs.RETRY), CONFIG.retry_backoff_ms)
    second = bench.machine._in_flight[2][0]
    assert second is not first and second.topics[0].partitions[0].position == 100
    assert not works(bench.step(answered(2, first, piece(100)))), "the late answer counts no more"
    bench.step(TimerFired(inputs.RETRY), CONFIG.request_timeout_ms)
    third = bench.machine._in_flight[2][0]
    assert third is not second and third.topics[0].partitions[0].position == 100
    assert works(give(bench, piece(100)))


GIVEN_UP: dict[str, FetchSnapshotResponse] = {
    "d gone": piece(100, error=ErrorCode.SNAPSHOT_NOT_FOUND),
    "e out of range": piece(100, error=ErrorCode.POSITION_OUT_OF_RANGE),
    "e broken": piece(100, error=ErrorCode.UNKNOWN_SERVER_ERROR),
    "f refused whole": FetchSnapshotResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR),
    "f says nothing": FetchSnapshotResponse(),
    "g another snapshot": piece(100, id_=SnapshotId(9, 3)),
    "g another place": piece(0),
    "g a place further on": piece(200),
    "g an older epoch": piece(100, leader=(2, EPOCH - 1)),
    "g another size": piece(100, total=len(DATA) + 1),
    "h nothing": piece(100, size=0),
    "h too much": piece(100, size=150, total=200),
}


@pytest.mark.parametrize("name", sorted(GIVEN_UP))
def test_d_to_h_a_snapshot_is_given_up(name: str) -> None:
    bench = loading()
    effects = give(bench, GIVEN_UP[name])
    assert not works(effects) and bench.asks(effects) is None, "not at once"
    assert bench.machine.role is Role.FOLLOWER
    assert again(bench) == "FetchRequest"
    newer = bench.asks(offer(bench, (12, 5)))
    partition = newer.topics[0].partitions[0]
    assert (partition.snapshot_id.end_offset, partition.position) == (12, 0)


def test_i_another_leader_begins_anew() -> None:
    bench = loading()
    effects = bench.step(
        received("t", messages.begin_request(CONFIG, NODE, QuorumState(EPOCH + 1, 3)))
    )
    sent = [e for e in effects if isinstance(e, Send)]
    assert [(e.to, type(e.message).__name__) for e in sent] == [(3, "FetchRequest")]
    asked = sent[0].message
    offered = FetchBounds(ErrorCode.NONE, 3, EPOCH + 1, 5, 5, 9, 9, snapshot_id=SnapshotId(9, 4))
    effects = bench.step(answered(3, asked, fetch_response(offered)))
    (request,) = [e.message for e in effects if isinstance(e, Send)]
    assert request.topics[0].partitions[0].position == 0, "another leader, another file"


def test_i_a_leader_heard_of_in_the_answer_itself() -> None:
    bench = loading()
    give(bench, piece(100, error=ErrorCode.FENCED_LEADER_EPOCH, leader=(3, EPOCH + 2)))
    assert (bench.machine.epoch, bench.machine.leader_id) == (EPOCH + 2, 3)


def install(bench: Bench) -> list[Effect]:
    shelf = bench.log.snapshots
    assert shelf.finish(OFFERED) is None
    bench.log.start_over(OFFERED)
    return bench.step(SnapshotInstalled(OFFERED))


def test_j_the_log_begins_and_ends_where_the_snapshot_does() -> None:
    bench = loaded()
    effects = install(bench)
    machine = bench.machine
    assert (machine.end_offset, machine.high_watermark) == (9, 9)
    asked = bench.asks(effects).topics[0].partitions[0]
    assert (asked.fetch_offset, asked.last_fetched_epoch, asked.high_watermark) == (9, 4, 9)
    assert not works(effects)
    vote = received("t", messages.vote_request(CONFIG, NODE, 3, EPOCH, (4, 8), True))
    refused = next(e.value for e in bench.step(vote) if isinstance(e, Reply))
    assert not refused.topics[0].partitions[0].vote_granted, "the snapshot's log is longer"


def test_j_what_is_behind_a_snapshot_can_be_cut_off_again_and_no_more() -> None:
    bench = loaded()
    install(bench)
    asked = bench.machine._in_flight[2][0]
    batch = build_batch([(None, b"new")], base_offset=9, leader_epoch=5)
    bench.step(
        answered(2, asked, fetch_response(FetchBounds(ErrorCode.NONE, 2, EPOCH, 9, 10, 9), batch))
    )
    bench.flush()
    bench.step(TimerFired(inputs.RETRY))
    asked = bench.machine._in_flight[2][0]
    cut = FetchBounds(ErrorCode.NONE, 2, EPOCH, 10, 10, 9, diverging=(4, 9))
    effects = bench.step(answered(2, asked, fetch_response(cut)))
    (work,) = works(effects)
    assert work == Truncate(9)
    asked = bench.asks(effects).topics[0].partitions[0]
    assert (asked.fetch_offset, asked.last_fetched_epoch) == (9, 4), "the snapshot's epoch again"


def test_k_a_snapshot_that_is_not_sound_is_fetched_again() -> None:
    bench = loaded()
    bench.step(SnapshotRefused(OFFERED, "crc"))
    bench.step(TimerFired(inputs.RETRY), CONFIG.fetch_timeout_ms // 2 - 1)
    assert not bench.machine._in_flight, "the leader is not made to send it all again at once"
    assert again(bench) == "FetchRequest"
    assert bench.asks(offer(bench)).topics[0].partitions[0].position == 0


def test_nobody_stands_or_fetches_while_a_snapshot_takes_the_logs_place() -> None:
    bench = loaded()
    for _ in range(4):
        bench.step(TimerFired(inputs.FETCH), CONFIG.fetch_timeout_ms)
        bench.step(TimerFired(inputs.ELECTION), CONFIG.fetch_timeout_ms)
        assert bench.machine.role is Role.FOLLOWER and not bench.machine._in_flight
    ask = received("t", messages.vote_request(CONFIG, NODE, 3, EPOCH + 1, (4, 9), False))
    granted = next(e.value for e in bench.step(ask) if isinstance(e, Reply))
    assert granted.topics[0].partitions[0].vote_granted, "it votes, by the log it had"
    for _ in range(4):
        bench.step(TimerFired(inputs.ELECTION), LATER)
        assert bench.machine.role is Role.UNATTACHED
    install(bench)
    bench.step(TimerFired(inputs.ELECTION), LATER)
    assert bench.machine.role is Role.PROSPECTIVE


def test_a_silent_leader_leaves_the_vote_of_who_is_installing_to_others() -> None:
    bench = loaded()
    pre_vote = received("t", messages.vote_request(CONFIG, NODE, 3, EPOCH, (4, 9), True))

    def is_granted() -> bool:
        said = next(e.value for e in bench.step(pre_vote) if isinstance(e, Reply))
        return bool(said.topics[0].partitions[0].vote_granted)

    assert not is_granted(), "the leader has just spoken"
    bench.step(TimerFired(inputs.FETCH), CONFIG.fetch_timeout_ms)
    assert is_granted()


def test_a_snapshot_below_the_high_watermark_is_none_of_our_leaders() -> None:
    bench = Bench(snapshots=((4, 3),))
    assert bench.machine.high_watermark == 4
    offer(bench, (3, 9))
    assert bench.machine.role is Role.FAILED


@pytest.mark.parametrize("half", [(0, 0), (-1, 4), (9, -1)])
def test_an_offer_that_makes_no_sense_is_not_taken_up(half: tuple[int, int]) -> None:
    bench = Bench()
    assert bench.asks(offer(bench, half)) is None
    assert again(bench) == "FetchRequest"


# -- starting, taking, retaining -----------------------------------------------------------------


def test_a_node_starts_on_its_snapshot() -> None:
    bench = Bench((1, 1, 2), snapshots=((3, 2),), start=3, state=QuorumState(2))
    machine = bench.machine
    assert (machine.high_watermark, machine.end_offset, machine.epoch) == (3, 3, 2)
    assert machine._log_end == (2, 3)


def lost_snapshot() -> ListLog:
    log = Bench((1, 1, 2), snapshots=((2, 1),), start=2).log
    log.snapshots.files.clear()
    return log


def old_snapshot() -> ListLog:
    log = Bench((1, 1, 2), snapshots=((1, 1), (2, 1)), start=2).log
    log.snapshots.put(SnapshotId(1, 1), [])
    del log.snapshots.files[SnapshotId(2, 1)]
    return log


def short_log() -> ListLog:
    log = Bench((1, 1, 2)).log
    log.snapshots.put(SnapshotId(4, 2), [])
    return log


def other_log() -> ListLog:
    log = Bench((1, 1, 2)).log
    log.snapshots.put(SnapshotId(3, 1), [])
    return log


@pytest.mark.parametrize("make", [lost_snapshot, old_snapshot, short_log, other_log])
def test_a_log_without_its_snapshot_is_no_start(make: Any) -> None:
    """KAFKA-14240; and what a crash has left half done is the shell's to finish first."""
    log = make()
    machine = QuorumMachine(NODE, (1, 2, 3), log, QuorumState(EPOCH), CONFIG)
    machine.step(Start([0]), 0)
    assert machine.role is Role.FAILED


def take(bench: Bench, end_offset: int, time_ms: int = 1_000) -> list[Effect]:
    entries = [e for e in bench.log.all_entries if e.next_offset <= end_offset]
    snapshot_id = SnapshotId(end_offset, entries[-1].epoch)
    bench.log.snapshots.put(snapshot_id, entries, time_ms)
    return bench.step(SnapshotTaken(snapshot_id))


def keeping(bytes_: int, ms: int = -1) -> dict[str, Any]:
    return {"config": replace(CONFIG, retention_bytes=bytes_, retention_ms=ms)}


def test_the_newest_snapshot_stays_whatever_its_size() -> None:
    bench = leader(**BARE, **keeping(0))
    assert not works(take(bench, 3))
    assert works(take(bench, 4)) == [DropPrefix(4)]
    assert bench.log.snapshots.ids() == [SnapshotId(4, 3)]
    assert works(take(bench, 5)) == [DropPrefix(5)], "a follower that lags keeps nothing back"


def test_no_more_goes_than_must_for_the_size() -> None:
    bench = leader(**BARE, **keeping(-1))
    for end in (2, 3, 4):
        assert not works(take(bench, end))
    total = bench.log.size_bytes + sum(len(d) for d in bench.log.snapshots.files.values())
    smaller = leader(**BARE, **keeping(total - 1))
    for end in (2, 3):
        assert not works(take(smaller, end))
    assert works(take(smaller, 4)) == [DropPrefix(3)]
    assert not works(smaller.step(TimerFired(inputs.CLEAN))), "now it fits"


def test_one_goes_after_another_while_there_is_too_much() -> None:
    bench = leader(**BARE, **keeping(-1))
    for end in (2, 3, 4):
        take(bench, end)
    starved = Bench(config=replace(CONFIG, retention_bytes=0), snapshots=((2, 1), (3, 2), (4, 3)))
    assert DropPrefix(3) in works(starved.effects)
    assert works(starved.step(TimerFired(inputs.CLEAN))) == [DropPrefix(4)]
    assert not works(starved.step(TimerFired(inputs.CLEAN)))


def test_the_oldest_goes_when_its_time_has_come() -> None:
    bench = leader(**BARE, **keeping(-1, ms=60_000))
    assert not works(take(bench, 3, time_ms=bench.now_ms))
    effects = take(bench, 4, time_ms=bench.now_ms)
    assert not works(effects)
    assert bench.machine._deadlines[inputs.CLEAN] == bench.now_ms + 60_001
    assert not works(bench.step(TimerFired(inputs.CLEAN), 60_000)), "not before its time"
    assert works(bench.step(TimerFired(inputs.CLEAN), 1)) == [DropPrefix(4)]
    bench.step(TimerFired(inputs.CLEAN))
    assert inputs.CLEAN not in bench.machine._deadlines, "one snapshot has no time to go"


# -- damage --------------------------------------------------------------------------------------


def damage(offset: int) -> inputs.LogDamaged:
    return inputs.LogDamaged(offset, "crc")


def test_a_leader_with_a_damaged_log_resigns_and_is_healed_by_a_snapshot() -> None:
    bench = leader(**BARE)
    effects = bench.step(damage(2))
    assert bench.machine.role is Role.RESIGNED and bench.machine.damaged_at == 2
    assert not works(effects), "what is committed is not cut"
    bench.step(TimerFired(inputs.ELECTION), LATER)
    assert bench.machine.role is Role.RESIGNED, "who cannot read its log does not stand"
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
    bench.step(TimerFired(inputs.FETCH), CONFIG.fetch_timeout_ms)
    assert bench.machine.role is Role.FOLLOWER, "it does not stand with less than it had promised"

    def is_granted(log_end: tuple[int, int]) -> bool:
        request = messages.vote_request(CONFIG, NODE, 3, EPOCH, log_end, True)
        said = bench.reply(request)
        return bool(said.topics[0].partitions[0].vote_granted)

    assert not is_granted((3, 4)), "longer than ours, shorter than ours was"
    assert is_granted((3, 5))
    assert bench.machine.damaged_at is None


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
    asked = bench.machine._in_flight[2][0]
    bounds = FetchBounds(ErrorCode.NONE, 2, EPOCH, 5, 6, 5)
    effects = bench.step(answered(2, asked, fetch_response(bounds, batch)))
    assert not works(effects) and bench.machine.end_offset == 5
    assert again(bench) == "FetchRequest"


def test_what_cannot_be_read_is_answered_with_an_error() -> None:
    bounds = FetchBounds(ErrorCode.NONE, 2, EPOCH, 5, 6, 5)
    answer = messages.unreadable(bounds)
    assert answer.error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert answer.upper_bound_offset == answer.offset == 5
