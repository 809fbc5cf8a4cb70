"""FetchQuorumRecords: what a leader answers, and a follower that speaks nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from fencepost.batch.records import build_batch
from fencepost.log.snapshots import SnapshotId
from fencepost.machines.effects import Effect, Reply, TimerFired
from fencepost.machines.quorum import (
    AppendRecords,
    DraftBounds,
    QuorumMachine,
    QuorumRecordsReceived,
    QuorumState,
    Role,
    inputs,
    messages,
)
from fencepost.sim.oracle import Violation
from fencepost.sim.rules import Rules
from fencepost.wire.api.fetch import EpochEndOffset
from fencepost.wire.draft.fetch_quorum_records import (
    FetchQuorumRecordsRequest,
    FetchQuorumRecordsResponse,
)
from fencepost.wire.errors import ErrorCode

from .quorum_stages import quorum
from .snapshot_fixtures import CONFIG, DROPPED, END, EPOCH, LATER, WHOLE, Bench, leader, take, works

BARE: dict[str, Any] = {"epochs": (1, 1, 2, 3, 3)}


def draft(
    offset: int,
    last: int,
    version: int = 1,
    epoch: int = EPOCH,
    replica: int = 3,
    is_follower: bool = False,
    wait_ms: int = 0,
) -> QuorumRecordsReceived:
    request = FetchQuorumRecordsRequest(
        replica_id=replica, leader_epoch=epoch, fetch_offset=offset, last_fetched_epoch=last
    )
    if version == 0:
        request.is_follower = is_follower
    else:
        request.cluster_id = CONFIG.cluster_id or ""
        request.max_wait_time_ms = wait_ms
    return QuorumRecordsReceived("t", request, version)


def reply(bench: Bench, input_: QuorumRecordsReceived) -> Any:
    return replied(bench.step(input_))


def replied(effects: list[Effect]) -> Any:
    return next((e.value for e in effects if isinstance(e, Reply)), None)


# -- the leader's table --------------------------------------------------------------------------


def spoiled(version: int, spoil: Callable[[FetchQuorumRecordsRequest], None]) -> Any:
    input_ = draft(2, 1, version)
    spoil(input_.request)
    return input_


OUT_OF_RANGE = ErrorCode.OFFSET_OUT_OF_RANGE
NOT_FOLLOWER = ErrorCode.INCONSISTENT_VOTER_SET

# row, log, request; the error, and (offset, epoch) to cut at or what may be read.
ANSWERS: list[tuple[str, dict[str, Any], Any, ErrorCode, Any]] = [
    (
        "a",
        BARE,
        spoiled(1, lambda r: setattr(r, "cluster_id", "another")),
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        None,
    ),
    (
        "a",
        BARE,
        spoiled(0, lambda r: setattr(r, "cluster_number", 7)),
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        None,
    ),
    (
        "a",
        BARE,
        spoiled(0, lambda r: setattr(r, "max_wait_time_ms", 7)),
        ErrorCode.INVALID_REQUEST,
        None,
    ),
    ("a", BARE, draft(-1, 1), ErrorCode.INVALID_REQUEST, None),
    ("a", BARE, draft(2, -1), ErrorCode.INVALID_REQUEST, None),
    ("b", BARE, draft(2, 1, epoch=EPOCH - 1), ErrorCode.FENCED_LEADER_EPOCH, None),
    ("b", BARE, draft(2, 1, epoch=EPOCH + 1), ErrorCode.UNKNOWN_LEADER_EPOCH, None),
    ("c", BARE, draft(4, 1), ErrorCode.NONE, (2, 1)),
    ("c", BARE, draft(4, 1, 0), OUT_OF_RANGE, (2, 1)),
    ("c", BARE, draft(4, 1, 0, replica=9, is_follower=True), OUT_OF_RANGE, (2, 1)),
    ("c", BARE, draft(1, 0), ErrorCode.NONE, (0, 0)),
    ("c", WHOLE, draft(1, 0), ErrorCode.NONE, (0, 0)),
    ("d", DROPPED, draft(0, 0), OUT_OF_RANGE, None),
    ("d", DROPPED, draft(0, 0, 0), OUT_OF_RANGE, None),
    ("d", DROPPED, draft(1, 1), OUT_OF_RANGE, None),
    ("d", DROPPED, draft(5, 0), OUT_OF_RANGE, None),
    ("e", BARE, draft(2, 1, 0, replica=9, is_follower=True), NOT_FOLLOWER, "reads"),
    ("f", BARE, draft(2, 1, 0, replica=9), ErrorCode.NONE, "reads"),
    ("f", BARE, draft(2, 1, 0, is_follower=True), ErrorCode.NONE, "reads"),
    ("f", BARE, draft(2, 1), ErrorCode.NONE, "reads"),
    ("f", WHOLE, draft(0, 0), ErrorCode.NONE, "reads"),
    ("f", DROPPED, draft(3, 2), ErrorCode.NONE, "reads"),
    ("f", BARE, draft(END, EPOCH), ErrorCode.NONE, None),
]


@pytest.mark.parametrize("case", ANSWERS, ids=lambda case: case[0])
def test_a_draft_is_answered_as_the_table_says(case: Any) -> None:
    row, log, input_, error, expected = case
    bench = leader(**log)
    bounds = reply(bench, input_)
    assert isinstance(bounds, DraftBounds) and bounds.error is error
    cut = expected if isinstance(expected, tuple) else (-1, -1)
    assert (bounds.next_fetch_offset, bounds.next_fetch_offset_epoch) == cut
    reads = bounds.upper_bound_offset > bounds.offset
    assert reads is (expected == "reads")
    if row == "a" and bounds.leader_id == -1:
        assert bounds.leader_epoch == -1, "a refused request hears nothing"
    elif row != "a":
        assert (bounds.leader_id, bounds.leader_epoch) == (1, EPOCH)
    response = messages.quorum_records_response(bounds, b"records" if reads else b"")
    for version in (0, 1):
        data = bytes(response.encode(version))
        assert FetchQuorumRecordsResponse.decode(data, version) == response


def test_every_row_of_the_drafts_table_has_a_case() -> None:
    assert {case[0] for case in ANSWERS} == set("abcdef")


def test_only_the_leader_answers() -> None:
    bench = Bench()
    bounds = reply(bench, draft(5, 3))
    assert bounds.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (bounds.leader_id, bounds.leader_epoch) == (2, EPOCH)


def test_the_place_where_logs_part_takes_as_many_rounds_as_it_takes() -> None:
    """A reader whose epochs interleave with ours walks down epoch by epoch, to nothing."""
    ours, theirs = leader(epochs=(2, 4)), speaking(1, epochs=(1,) * 6 + (3,) * 3)
    places = []
    for _ in range(3):
        asked = theirs.adapter.asked[2]
        assert isinstance(asked, FetchQuorumRecordsRequest)
        bounds = reply(ours, draft(asked.fetch_offset, asked.last_fetched_epoch))
        places.append((bounds.next_fetch_offset_epoch, bounds.next_fetch_offset))
        says(theirs, next_fetch_offset_epoch=places[-1][0], next_fetch_offset=places[-1][1])
    assert places == [(2, 1), (1, 0), (-1, -1)]
    assert theirs.machine.end_offset == 0


def test_a_voter_of_the_draft_moves_the_high_watermark_past_an_entry_of_the_epoch_only() -> None:
    bench = Bench(state=QuorumState(EPOCH - 1))
    yes = messages.vote_response(ErrorCode.NONE, -1, EPOCH - 1, True)
    asked = bench.asks(bench.step(TimerFired(inputs.ELECTION), 10_000_000))
    asked = bench.asks(bench.step(inputs.answered(2, asked, yes)))
    yes = messages.vote_response(ErrorCode.NONE, -1, EPOCH, True)
    bench.step(inputs.answered(2, asked, yes))
    bench.flush()
    assert reply(bench, draft(5, 3)).high_watermark == -1
    assert bench.machine.high_watermark == 0, "a majority has five records, none of this epoch"
    assert reply(bench, draft(END, EPOCH)).high_watermark == END
    assert bench.machine.high_watermark == END


def test_an_observer_of_the_draft_moves_nothing() -> None:
    bench = leader(**BARE)
    bench.step(AppendRecords([build_batch([(None, b"new")])], "a", EPOCH))
    bench.flush()
    assert reply(bench, draft(END + 1, EPOCH, replica=9)).high_watermark == END


def test_the_draft_is_told_what_no_snapshot_stands_for() -> None:
    bench = leader(**BARE)
    assert reply(bench, draft(2, 1)).first_dirty_offset == 0
    take(bench, 4)
    assert reply(bench, draft(2, 1)).first_dirty_offset == 4


def test_the_draft_is_told_when_it_had_caught_up() -> None:
    bench = leader(**BARE)
    assert reply(bench, draft(2, 1)).last_caught_up_ms == -1
    bench.now_ms += 100
    caught_up_ms = bench.wall_ms
    assert reply(bench, draft(END, EPOCH)).last_caught_up_ms == caught_up_ms
    bench.step(AppendRecords([build_batch([(None, b"new")])], "a", EPOCH))
    bench.now_ms += 1_000
    bench.step(AppendRecords([build_batch([(None, b"new")])], "b", EPOCH))
    assert reply(bench, draft(END, EPOCH)).last_caught_up_ms == caught_up_ms, "no longer since"
    assert reply(bench, draft(4, 3, replica=9)).last_caught_up_ms == -1


def test_a_draft_waits_for_records_and_for_a_high_watermark_it_was_not_told() -> None:
    bench = leader(**BARE)
    assert reply(bench, draft(END, EPOCH, wait_ms=500)).high_watermark == END, "that was an update"
    assert reply(bench, draft(END, EPOCH, wait_ms=500)) is None
    effects = bench.step(AppendRecords([build_batch([(None, b"new")])], "a", EPOCH))
    bounds = replied(effects)
    assert isinstance(bounds, DraftBounds) and bounds.upper_bound_offset == END + 1
    assert reply(bench, draft(END + 1, EPOCH, wait_ms=500)) is None
    told = [e.value for e in bench.flush() if isinstance(e, Reply)]
    (bounds,) = [value for value in told if isinstance(value, DraftBounds)]
    assert bounds.high_watermark == END + 1
    assert reply(bench, draft(END + 1, EPOCH, 0)).error is ErrorCode.NONE, "v0 never waits"


def test_drafts_that_wait_hear_of_the_end_of_a_leadership() -> None:
    bench = leader(**BARE)
    reply(bench, draft(END, EPOCH, wait_ms=500))
    assert reply(bench, draft(END, EPOCH, wait_ms=500)) is None
    bounds = replied(bench.step(inputs.Resign()))
    assert isinstance(bounds, DraftBounds)
    assert bounds.error is ErrorCode.NOT_LEADER_OR_FOLLOWER


# -- the follower --------------------------------------------------------------------------------


def speaking(version: int, **options: Any) -> Bench:
    config = replace(CONFIG, can_load_snapshots=False)
    return Bench(config=config, follows_with=version, **options)


def says(
    bench: Bench, error: ErrorCode = ErrorCode.NONE, records: bytes = b"", **fields: Any
) -> list[Effect]:
    """The leader's answer to the draft that is under way."""
    asked = bench.adapter.asked[2]
    assert isinstance(asked, FetchQuorumRecordsRequest)
    response = FetchQuorumRecordsResponse(
        error_code=error, leader_id=2, leader_epoch=EPOCH, records=records
    )
    for name, value in fields.items():
        setattr(response, name, value)
    return bench.step(inputs.answered(2, asked, response))


def new_batch(offset: int = 5) -> bytes:
    return bytes(build_batch([(None, b"new")], base_offset=offset, leader_epoch=EPOCH))


@pytest.mark.parametrize("version", [0, 1])
def test_a_follower_asks_in_the_drafts_words(version: int) -> None:
    bench = speaking(version)
    asked = bench.adapter.asked[2]
    assert isinstance(asked, FetchQuorumRecordsRequest)
    assert (asked.replica_id, asked.leader_epoch) == (1, EPOCH)
    assert (asked.fetch_offset, asked.last_fetched_epoch) == (5, 3)
    assert FetchQuorumRecordsRequest.decode(bytes(asked.encode(version)), version) == asked
    if version == 0:
        assert (asked.is_follower, asked.cluster_number) == (True, -1)
    else:
        assert (asked.cluster_id, asked.max_wait_time_ms) == ("world", 500)


@pytest.mark.parametrize(
    ("cluster_id", "number"),
    [("17", 17), ("-3", -3), ("2147483648", -1), ("world", -1), ("٣", -1), ("", -1)],
)
def test_the_first_draft_knows_clusters_by_number(cluster_id: str, number: int) -> None:
    config = replace(CONFIG, can_load_snapshots=False, cluster_id=cluster_id)
    bench = Bench(config=config, follows_with=0)
    assert bench.adapter.asked[2].cluster_number == number


def test_a_follower_appends_and_fetches_on_when_that_is_on_disk() -> None:
    bench = speaking(1)
    effects = says(bench, records=new_batch(), high_watermark=5)
    assert [type(w).__name__ for w in works(effects)] == ["Append"]
    assert (bench.machine.end_offset, bench.machine.high_watermark) == (6, 5)
    assert any(type(e).__name__ == "SendAfterPersist" for e in effects)


@pytest.mark.parametrize(
    ("version", "error"), [(0, OUT_OF_RANGE), (1, ErrorCode.NONE), (1, OUT_OF_RANGE)]
)
@pytest.mark.parametrize(("epoch", "cut"), [(2, 3), (1, 2), (0, 0)])
def test_a_follower_cuts_its_log_also_to_nothing(
    version: int, error: ErrorCode, epoch: int, cut: int
) -> None:
    bench = speaking(version)
    says(bench, error, next_fetch_offset=cut, next_fetch_offset_epoch=epoch)
    assert bench.machine.end_offset == cut
    if version == 1:
        asked = bench.adapter.asked[2]
        assert asked.fetch_offset == cut  # type: ignore[attr-defined]


def test_a_follower_that_must_load_a_snapshot_says_that_it_cannot() -> None:
    bench = speaking(1)
    effects = says(bench, OUT_OF_RANGE, first_dirty_offset=70)
    assert bench.machine.role is Role.FAILED
    (fail,) = [e for e in effects if type(e).__name__ == "Fail"]
    assert "snapshots" in fail.reason  # type: ignore[union-attr]


def test_a_voter_that_is_told_that_it_is_none_steps_down_and_keeps_the_records() -> None:
    bench = speaking(0)
    says(bench, NOT_FOLLOWER, records=new_batch(), high_watermark=5)
    assert (bench.machine.end_offset, bench.machine.high_watermark) == (6, 5)
    for _ in range(3):
        bench.step(TimerFired(inputs.FETCH), LATER)
        assert bench.machine.role is Role.FOLLOWER, "it does not stand in this epoch"
    begin = messages.begin_request(CONFIG, 1, QuorumState(EPOCH + 1, 3))
    bench.step(inputs.received("t", begin))
    bench.step(TimerFired(inputs.FETCH), CONFIG.fetch_timeout_ms)
    assert bench.machine.role is Role.PROSPECTIVE, "the next leader may think otherwise"


def test_a_follower_of_the_first_draft_does_not_ask_without_pause() -> None:
    bench = speaking(0)
    says(bench, high_watermark=5)
    says(bench, high_watermark=5)
    assert 2 not in bench.machine.requests.in_flight
    bench.step(TimerFired(inputs.RETRY), CONFIG.retry_backoff_ms)
    assert 2 in bench.machine.requests.in_flight


def test_half_an_order_to_cut_is_no_order() -> None:
    bench = speaking(1)
    says(bench, next_fetch_offset=2, next_fetch_offset_epoch=-1)
    assert bench.machine.end_offset == 5 and bench.machine.role is Role.FOLLOWER
    bench.step(TimerFired(inputs.RETRY), CONFIG.retry_backoff_ms)
    assert 2 in bench.machine.requests.in_flight


def test_an_answer_of_a_later_epoch_is_followed() -> None:
    bench = speaking(1)
    says(bench, ErrorCode.FENCED_LEADER_EPOCH, leader_id=3, leader_epoch=EPOCH + 4)
    assert (bench.machine.epoch, bench.machine.leader_id) == (EPOCH + 4, 3)


# -- both together -------------------------------------------------------------------------------


def drafts(
    versions: Mapping[int, int], machine_class: type[QuorumMachine] = QuorumMachine
) -> Rules:
    """These nodes follow with that version of the draft."""
    return Rules(machine=machine_class, draft_versions=versions)


@pytest.mark.parametrize("version", [0, 1])
def test_a_follower_of_the_draft_keeps_up_with_a_quorum_that_speaks_fetch(version: int) -> None:
    world = quorum(3, observers=1, rules=drafts({3: version, 4: version}))
    world.start()
    world.fire(1, "election")
    world.run(world.has_converged)
    for number in range(20):
        world.append(1, f"record {number};")
    world.run(world.has_converged)
    assert len(world.entries(4)) == len(world.entries(3)) == 21
    world.crash(2)
    world.append(1, "needs node 3;")
    world.run(lambda: "needs node 3;" in world.outcomes)
    assert world.outcomes["needs node 3;"].error is ErrorCode.NONE
    world.check()


@pytest.mark.parametrize("version", [0, 1])
def test_a_follower_of_the_draft_leads_if_it_must(version: int) -> None:
    world = quorum(3, rules=drafts({3: version}))
    world.start()
    world.fire(1, "election")
    world.append(1, "first;")
    world.run(lambda: world.leader() == 1 and world.has_converged())
    world.append(1, "first;")
    world.run(world.has_converged)
    world.crash(1)
    world.run(lambda: world.leader() in (2, 3))
    assert world.leader() == 3, "its election timeout is the next to come"
    world.start(1)
    world.run(world.has_converged)
    world.check()


class TakesZeroForNotSet(QuorumMachine):
    """As followers of the branch did: only offsets above 0 are an order to cut."""

    def step(self, input_: Any, now_ms: int, wall_ms: int) -> list[Effect]:
        if isinstance(input_, inputs.FetchAnswered) and input_.response.responses:
            said = input_.response.responses[0].partitions[0]
            if said.diverging_epoch.end_offset == 0:
                said.diverging_epoch = EpochEndOffset()
        return super().step(input_, now_ms, wall_ms)


@pytest.mark.parametrize("machine_class", [QuorumMachine, TakesZeroForNotSet])
def test_a_log_that_must_be_cut_to_nothing(machine_class: type[QuorumMachine]) -> None:
    """Node 3 led epoch 1 alone; nodes 1 and 2 know nothing of it."""
    world = quorum(3, rules=drafts({3: 1}, machine_class))
    world.start()
    world.fire(3, "election")
    for _ in range(4):
        for flight in [f for f in world.flights() if {f.source, f.target} == {2, 3}]:
            if world.leader() is None:
                world.deliver(flight)
    assert world.leader() == 3
    world.flush(3)
    world.crash(3)
    world.drop_all()
    world.run(lambda: world.leader() in (1, 2))
    world.append(world.leader() or 0, "second;")
    world.run(lambda: "second;" in world.outcomes)
    world.start(3)
    if machine_class is QuorumMachine:
        world.run(world.has_converged)
        assert world.entries(3) == world.entries(1)
    else:
        with pytest.raises(Violation, match="I24"):
            world.run(world.has_converged)


def test_snapshots_do_not_trouble_a_follower_of_the_draft_while_the_log_is_whole() -> None:
    world = quorum(3, observers=1, rules=drafts({4: 1}))
    world.start(1, 2, 3)
    world.fire(1, "election")
    world.run(world.has_converged)
    world.append(1, "one;")
    world.run(world.has_converged)
    world.node(1).take_snapshot()
    assert world.node(1).metadata.snapshots.latest() == SnapshotId(2, 1)
    world.start(4)
    world.run(world.has_converged)
    assert len(world.entries(4)) == 2
