"""Leading: who fetches what, when it is committed, reminding, resigning, describing."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.batch.records import build_batch
from fencepost.machines.effects import Persist, Persisted, Reply, TimerFired
from fencepost.machines.quorum import (
    AppendRecords,
    FetchBounds,
    QuorumState,
    answered,
    config as limits,
    fetch_response,
    inputs,
    messages,
    received,
)
from fencepost.machines.quorum.serving import Serving
from fencepost.machines.quorum.waiting_fetches import WaitingFetch
from fencepost.wire.api.fetch import FetchRequest
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

from .quorum_fixtures import (
    CONFIG,
    EPOCH,
    NODE,
    Bench,
    append,
    describe,
    fetch_request,
    leader,
    reply_to,
    resigned,
)
from .quorum_stages import quorum

# -- fetching from a leader --------------------------------------------------------------------


def fetch(**changes: Any) -> FetchRequest:
    request = fetch_request(EPOCH)
    partition = request.topics[0].partitions[0]
    for name, value in changes.items():
        setattr(partition if hasattr(partition, name) else request, name, value)
    return request


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"max_wait_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"fetch_offset": -1}, ErrorCode.INVALID_REQUEST),
        ({"last_fetched_epoch": -1}, ErrorCode.INVALID_REQUEST),
        ({"last_fetched_epoch": EPOCH + 1}, ErrorCode.INVALID_REQUEST),
        ({"current_leader_epoch": EPOCH - 1}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"current_leader_epoch": EPOCH + 1}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({}, ErrorCode.NONE),
    ],
)
def test_fetches_are_checked(changes: dict[str, Any], error: ErrorCode) -> None:
    bounds = reply_to(leader(), fetch(**changes))
    assert bounds.error == error
    assert (bounds.leader_id, bounds.leader_epoch) == (NODE, EPOCH)


def test_fetches_of_another_cluster_or_topic_are_refused_whole() -> None:
    bounds = reply_to(leader(), fetch(cluster_id="other"))
    assert fetch_response(bounds).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    bounds = reply_to(leader(), FetchRequest())
    response = fetch_response(bounds)
    assert response.error_code == ErrorCode.INVALID_REQUEST and response.responses == []


def test_old_fetches_name_the_topic_and_the_replica_as_they_did() -> None:
    request = fetch(replica_id=3)
    request.topics[0].topic_id = Uuid.ZERO
    request.replica_state.replica_id = -1
    bench = leader()
    assert reply_to(bench, request).upper_bound_offset == 3
    assert messages.replica_id_of(request) == 3


@pytest.mark.parametrize(
    ("last", "offset", "diverging"),
    [
        (4, 2, None),
        (4, 1, None),
        (0, 0, None),
        (4, 3, (4, 2)),
        (3, 2, (3, 0)),
        (5, 9, (5, 3)),
        (2, 1, (2, 0)),
    ],
)
def test_readers_are_told_where_they_diverge(
    last: int, offset: int, diverging: tuple[int, int] | None
) -> None:
    bench = leader()
    bounds = reply_to(bench, fetch(last_fetched_epoch=last, fetch_offset=offset))
    assert bounds.diverging == diverging
    if diverging:
        assert bounds.upper_bound_offset == bounds.offset, "nothing to read"
        assert bench.machine.node.role_state.tracker.voters[3].end_offset == -1, "no progress"
        said = fetch_response(bounds).responses[0].partitions[0].diverging_epoch
        assert (said.epoch, said.end_offset) == diverging


def test_a_caught_up_fetch_waits_for_data_or_time() -> None:
    bench = leader()
    asked = fetch(fetch_offset=3, last_fetched_epoch=EPOCH)
    assert bench.step(received("first", asked))[-1:] != []
    effects = bench.step(append())
    assert [e.token for e in effects if isinstance(e, Reply)] == ["first"]
    bench.step(received("second", fetch(fetch_offset=4, last_fetched_epoch=EPOCH)))
    effects = bench.step(TimerFired(inputs.FETCH_WAIT), CONFIG.fetch_max_wait_ms)
    bounds = [e.value for e in effects if isinstance(e, Reply)]
    assert [(b.offset, b.upper_bound_offset) for b in bounds] == [(4, 4)]


def test_a_reader_with_an_old_high_watermark_is_answered_at_once() -> None:
    bench = leader()
    bench.step(Persisted(3))
    bounds = reply_to(bench, fetch(fetch_offset=3, last_fetched_epoch=EPOCH, high_watermark=0))
    assert (bounds.upper_bound_offset, bounds.high_watermark) == (3, 3)


def test_what_is_no_replica_reads_up_to_the_high_watermark() -> None:
    bench = leader()
    asked = fetch(fetch_offset=0, last_fetched_epoch=0, max_wait_ms=0)
    asked.replica_state.replica_id = -1
    assert reply_to(bench, asked).upper_bound_offset == 0
    bench.step(Persisted(3))
    bench.step(received("t", fetch(fetch_offset=3, last_fetched_epoch=EPOCH)))
    assert reply_to(bench, asked).upper_bound_offset == 3


def test_parked_fetches_and_pending_appends_hear_of_the_end_of_a_leadership() -> None:
    bench = leader()
    bench.step(append())
    bench.step(received("parked", fetch(fetch_offset=4, last_fetched_epoch=EPOCH)))
    effects = bench.step(received("begin", messages.begin_request(CONFIG, NODE, QuorumState(9, 2))))
    assert isinstance(effects[0], Persist), "the new epoch is on disk before anybody hears of it"
    told = {e.token: e.value for e in effects if isinstance(e, Reply)}
    assert told["t"].error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert told["parked"].error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (told["parked"].leader_id, told["parked"].leader_epoch) == (2, 9)


def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MAX_PENDING_APPENDS", "MAX_PARKED_FETCHES", "MAX_OBSERVERS"):
        assert getattr(limits, name) > 0
        module = "serving" if name == "MAX_PARKED_FETCHES" else "replication"
        monkeypatch.setattr(f"fencepost.machines.quorum.{module}.{name}", 1)
    bench = leader()
    bench.step(append())
    effects = bench.step(append())
    outcome = next(e.value for e in effects if isinstance(e, Reply))
    assert outcome.error is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    end = {"fetch_offset": 4, "last_fetched_epoch": EPOCH}
    assert not [e for e in bench.step(received("t", fetch(**end))) if isinstance(e, Reply)]
    assert reply_to(bench, fetch(**end)).error is ErrorCode.NONE
    for observer in (7, 8, 9):
        asked = fetch(**end)
        asked.replica_state.replica_id = observer
        reply_to(bench, asked)
    observers = bench.machine.node.role_state.tracker.observers  # type: ignore[union-attr]
    assert [key.id for key in observers] == [7]
    bench.step(received("t", asked), CONFIG.observer_session_ms + 1)
    assert [key.id for key in observers] == [9], "7 is silent by now"


# -- committing --------------------------------------------------------------------------------


def test_a_majority_on_disk_commits() -> None:
    bench = leader()
    bench.step(append())
    bench.step(received("f", fetch(fetch_offset=4, last_fetched_epoch=EPOCH)))
    assert bench.machine.high_watermark == 0, "the leader's own disk is not there yet"
    effects = bench.step(Persisted(4))
    assert bench.machine.high_watermark == 4
    outcome = next(e.value for e in effects if isinstance(e, Reply) and e.token == "t")
    assert (outcome.error, outcome.base_offset) == (ErrorCode.NONE, 3)


def test_a_leader_is_active_once_its_first_record_is_committed() -> None:
    bench = leader()
    bench.step(Persisted(3))
    assert not bench.machine.is_active_leader
    bench.step(received("f", fetch(fetch_offset=2)))
    assert not bench.machine.is_active_leader
    bench.step(received("f", fetch(fetch_offset=3, last_fetched_epoch=EPOCH)))
    assert bench.machine.is_active_leader and bench.machine.epoch_start_offset == 2


def test_a_voter_that_lost_its_disk_takes_nothing_back() -> None:
    bench = leader()
    bench.step(Persisted(3))
    bench.step(received("f", fetch(fetch_offset=3, last_fetched_epoch=EPOCH)))
    bench.step(received("f", fetch(fetch_offset=0, last_fetched_epoch=0)))
    assert bench.machine.high_watermark == 3
    bench.step(append())
    bench.step(Persisted(4))
    assert bench.machine.high_watermark == 3, "it does not count for what it no longer has"


def test_appends_name_their_epoch_and_may_name_their_place() -> None:
    bench = leader()

    def outcome(epoch: int, base_offset: int) -> ErrorCode | None:
        batch = build_batch([(None, b"x")])
        effects = bench.step(AppendRecords([batch], "t", epoch, base_offset))
        return next((e.value.error for e in effects if isinstance(e, Reply)), None)

    assert outcome(EPOCH - 1, -1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert outcome(EPOCH, 7) is ErrorCode.INVALID_UPDATE_VERSION
    assert outcome(EPOCH, 3) is None
    assert bench.machine.end_offset == 4


def test_batches_of_several_records_count_all_of_them() -> None:
    bench = leader()
    batches = [build_batch([(None, b"x")] * 3), build_batch([(None, b"y")] * 2)]
    bench.step(AppendRecords(batches, "t", EPOCH))
    assert bench.machine.end_offset == 8 == bench.log.end_offset


# -- resigning, failing, describing ------------------------------------------------------------


def test_a_leader_that_resigns_names_the_most_advanced_first() -> None:
    bench = leader()
    asked = fetch(fetch_offset=3, last_fetched_epoch=EPOCH)
    bench.step(received("t", asked))
    request = bench.sent(bench.step(inputs.Resign()), 2)
    partition = request.topics[0].partitions[0]
    assert [key.id for key in messages.preferred_candidates_of(partition)] == [3, 2]
    assert (partition.leader_id, partition.leader_epoch) == (NODE, EPOCH)
    assert bench.machine.leader_id == -1, "it is not to be turned to any more"


def test_a_resigned_leader_tells_until_it_is_heard() -> None:
    bench = leader()
    request = bench.sent(bench.step(inputs.Resign()), 2)
    response = messages.end_response(ErrorCode.NONE, -1, EPOCH)
    bench.step(answered(2, request, response))
    effects = bench.step(TimerFired(inputs.RETRY), CONFIG.request_timeout_ms)
    assert [e.to for e in effects if hasattr(e, "to")] == [3]


def test_a_handover_is_quick() -> None:
    world = quorum(3)
    world.start()
    world.run(lambda: world.leader() is not None and world.has_converged())
    old, before_ms = world.leader(), world.world.now_ms
    assert old is not None
    world.feed(old, inputs.Resign())
    world.run(lambda: world.leader() not in (None, old))
    assert world.world.now_ms - before_ms < CONFIG.election_timeout_ms


def test_a_leader_reminds_those_that_do_not_fetch() -> None:
    bench = leader()
    for voter in (2, 3):
        asked = bench.machine.requests.in_flight[voter][0]
        response = messages.begin_response(ErrorCode.NONE, NODE, EPOCH)
        bench.step(answered(voter, asked, response))
    interval = CONFIG.begin_quorum_interval_ms
    bench.step(received("t", fetch(max_wait_ms=0)), after_ms=interval - 1)
    effects = bench.step(TimerFired(inputs.BEGIN_QUORUM), after_ms=1)
    assert [e.to for e in effects if hasattr(e, "to")] == [2]


def test_the_quorum_describes_itself() -> None:
    bench = leader()
    bench.step(received("f", fetch(fetch_offset=3, last_fetched_epoch=EPOCH)), after_ms=5)
    asked = fetch(fetch_offset=2)
    asked.replica_state.replica_id = 9
    bench.step(received("f", asked), after_ms=5)
    said = description(bench, describe())
    assert (said.error_code, said.leader_id, said.leader_epoch) == (0, NODE, EPOCH)
    assert said.high_watermark == -1, "nothing of this epoch is committed yet"
    voters = [(v.replica_id, v.log_end_offset) for v in said.current_voters]
    assert voters == [(1, 3), (2, -1), (3, 3)]
    assert [(o.replica_id, o.log_end_offset) for o in said.observers] == [(9, 2)]
    later = description(bench, describe(), after_ms=CONFIG.observer_session_ms + 1)
    assert later.observers == []
    strange = describe()
    strange.request.topics[0].topic_name = "other"
    assert description(bench, strange).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def description(bench: Bench, input_: Any, after_ms: int = 0) -> Any:
    effects = bench.step(input_, after_ms)
    [reply] = [e for e in effects if isinstance(e, Reply) and not isinstance(e.value, FetchBounds)]
    return reply.value.topics[0].partitions[0]


def test_a_restarted_leader_is_nobodys_leader() -> None:
    bench = resigned()
    assert bench.machine.leader_id == -1 and bench.machine.state.leader_id == NODE
    bounds = reply_to(bench, fetch())
    assert (bounds.error, bounds.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


def test_no_fetch_waits_longer_than_a_fetch_timeout() -> None:
    """Fetches of disconnected clients would stay, and one client could take all places."""
    bench = leader()
    parked = fetch(fetch_offset=3, last_fetched_epoch=EPOCH, max_wait_ms=(1 << 31) - 1)
    assert not [e for e in bench.step(received("t", parked)) if isinstance(e, Reply)]
    effects = bench.step(TimerFired(inputs.FETCH_WAIT), CONFIG.fetch_timeout_ms)
    assert [e.value.error for e in effects if isinstance(e, Reply)] == [ErrorCode.NONE]


def test_those_who_wait_are_looked_at_when_there_is_something_new(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every fetch is a step: with a thousand observers each would look at a thousand others."""
    looked: list[Any] = []
    may_have_update = Serving._may_have_update

    def counting(self: Serving, parked: WaitingFetch) -> bool:
        looked.append(parked.token)
        return may_have_update(self, parked)

    monkeypatch.setattr(Serving, "_may_have_update", counting)
    bench = leader()
    waiting = [10 + n for n in range(50)]
    for n in waiting:
        asked = fetch_request(EPOCH, 3, EPOCH, replica=n)
        assert not [e for e in bench.step(received(n, asked)) if isinstance(e, Reply)]
    assert len(looked) <= 1
    told = [e.token for e in bench.step(append()) if isinstance(e, Reply)]
    assert told == waiting, "all hear of it"
