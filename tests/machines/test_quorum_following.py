"""Following: what is appended, cut, refused; who stands next; how observers find a leader."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.batch.records import build_batch
from fencepost.machines.effects import (
    Append,
    Fail,
    Persist,
    Persisted,
    SendAfterPersist,
    TimerFired,
    Truncate,
)
from fencepost.machines.quorum import (
    FetchBounds,
    QuorumState,
    Role,
    answered,
    inputs,
    membership,
    messages,
    received,
)
from fencepost.machines.quorum.voters import Endpoint, ReplicaKey
from fencepost.wire.api import end_quorum_epoch
from fencepost.wire.errors import ErrorCode

from .quorum_fixtures import CONFIG, EPOCH, FETCH_TIMEOUT_MS, FOUR, Bench, answer_to_fetch, follower
from .quorum_stages import quorum

# -- following ---------------------------------------------------------------------------------


def leader_says(bench: Bench, records: Any = b"", **changes: Any) -> Any:
    values = {
        "error": ErrorCode.NONE,
        "leader_id": 2,
        "leader_epoch": EPOCH,
        "offset": 2,
        "upper_bound_offset": 2,
        "high_watermark": 1,
        "log_start_offset": 0,
        **changes,
    }
    input_ = answer_to_fetch(bench, FetchBounds(**values))
    input_.response.responses[0].partitions[0].records = records
    return input_


def batch_at(offset: int, epoch: int, value: bytes = b"v") -> bytearray:
    return build_batch([(None, value)], base_offset=offset, leader_epoch=epoch)


def test_a_follower_appends_and_fetches_again_after_the_flush() -> None:
    bench = follower()
    effects = bench.step(leader_says(bench, batch_at(2, 4) + batch_at(3, 5), high_watermark=3))
    works = [e.work for e in effects if isinstance(e, Persist)]
    assert len(works) == 1 and isinstance(works[0], Append) and not works[0].as_leader
    sent = bench.sent(effects, 2)
    asked = sent.topics[0].partitions[0]
    assert (asked.fetch_offset, asked.last_fetched_epoch, asked.high_watermark) == (4, 5, 3)
    assert any(isinstance(e, SendAfterPersist) for e in effects)
    assert bench.machine.high_watermark == 3


def test_a_batch_that_was_cut_short_is_left_for_the_next_fetch() -> None:
    bench = follower()
    bench.step(leader_says(bench, batch_at(2, 5) + batch_at(3, 5)[:-3], high_watermark=9))
    assert (bench.machine.end_offset, bench.machine.high_watermark) == (3, 3)


@pytest.mark.parametrize(
    "records",
    [
        batch_at(3, 5),
        batch_at(1, 5),
        batch_at(2, 3),
        batch_at(2, 6),
        batch_at(2, 5)[:-1] + b"!",
        batch_at(2, 5) + batch_at(4, 5),
        bytes(40),
        bytes(17) + b"\xff" * 60,
    ],
)
def test_batches_that_cannot_be_are_not_appended(records: Any) -> None:
    bench = follower()
    effects = bench.step(leader_says(bench, records, high_watermark=9))
    is_short = len(records) == 40
    assert not [e for e in effects if isinstance(e, Persist)]
    assert bench.machine.role is Role.FOLLOWER and bench.machine.end_offset == 2
    if not is_short:
        assert bench.machine.high_watermark == 0, "an invalid answer says nothing"
        resent = bench.step(TimerFired(inputs.RETRY), CONFIG.retry_backoff_ms)
        assert bench.sent(resent, 2).topics[0].partitions[0].fetch_offset == 2


def test_an_answer_that_comes_twice_counts_once() -> None:
    bench = follower()
    input_ = leader_says(bench, batch_at(2, 5))
    bench.step(input_)
    effects = bench.step(input_)
    assert effects == [] and bench.machine.end_offset == 3


def test_a_follower_cuts_where_the_logs_part() -> None:
    bench = follower()
    effects = bench.step(leader_says(bench, diverging=(4, 1)))
    assert [e.work for e in effects if isinstance(e, Persist)] == [Truncate(1)]
    asked = bench.sent(effects, 2).topics[0].partitions[0]
    assert (asked.fetch_offset, asked.last_fetched_epoch) == (1, 4)
    effects = bench.step(leader_says(bench, diverging=(3, 0)))
    asked = bench.sent(effects, 2).topics[0].partitions[0]
    assert (asked.fetch_offset, asked.last_fetched_epoch) == (0, 0)


def test_a_follower_never_cuts_what_is_committed() -> None:
    bench = follower()
    bench.step(leader_says(bench, high_watermark=2))
    effects = bench.step(leader_says(bench, diverging=(4, 1), high_watermark=2))
    assert any(isinstance(e, Fail) for e in effects)
    assert bench.machine.role is Role.FAILED and bench.machine.end_offset == 2


@pytest.mark.parametrize("diverging", [(4, 2), (4, 7), (5, 9), (4, -1)])
def test_a_divergence_that_cannot_be_ends_the_node(diverging: tuple[int, int]) -> None:
    bench = follower()
    bench.step(leader_says(bench, diverging=diverging))
    assert bench.machine.role is Role.FAILED


def test_a_divergence_inside_a_batch_is_none() -> None:
    """The log could not be cut there, and would end elsewhere than the machine believes."""
    bench = follower()
    three = build_batch([(None, b"v")] * 3, base_offset=2, leader_epoch=EPOCH)
    bench.step(leader_says(bench, three))
    assert bench.machine.end_offset == 5
    bench.step(Persisted(5))
    effects = bench.step(leader_says(bench, diverging=(EPOCH, 4)))
    assert bench.machine.role is Role.FAILED and bench.log.end_offset == 5
    (fail,) = [effect for effect in effects if isinstance(effect, Fail)]
    assert fail.reason == "the leader sees a divergence at 4, inside our batch at 2"


def test_a_leader_that_speaks_keeps_its_followers() -> None:
    bench = follower()
    for _ in range(5):
        bench.step(leader_says(bench), after_ms=CONFIG.fetch_timeout_ms - 1)
        bench.step(TimerFired(inputs.FETCH))
        assert bench.machine.role is Role.FOLLOWER
    bench.step(TimerFired(inputs.FETCH), FETCH_TIMEOUT_MS)
    assert bench.machine.role is Role.PROSPECTIVE


def test_who_stands_next_is_a_matter_of_place() -> None:
    def backoff(candidates: tuple[int, ...]) -> int:
        bench = follower()
        keys = [ReplicaKey(id_) for id_ in candidates]
        request = messages.end_request(CONFIG, QuorumState(EPOCH, 2), keys)
        bench.step(received("t", request))
        if bench.machine.role is Role.PROSPECTIVE:
            return 0
        return bench.machine.timers.deadlines[inputs.FETCH] - bench.now_ms

    most = CONFIG.election_backoff_max_ms
    assert backoff((1, 3)) == 0
    assert backoff((3, 1)) == most // 2
    assert [backoff((7, 8, 9)[:n] + (1,) + (7, 8, 9)[n:]) for n in range(4)] == [0, 125, 250, 500]
    assert backoff((3, 7)) == most
    assert backoff(()) == most


def test_the_old_form_of_the_list_of_successors_is_read_too() -> None:
    partition = end_quorum_epoch.PartitionDataRequest(preferred_successors=[2, 1])
    assert messages.preferred_candidates_of(partition) == [ReplicaKey(2), ReplicaKey(1)]


def test_an_observer_asks_the_voters_in_turn_and_follows() -> None:
    world = quorum(3, observers=1)
    world.start(4)
    targets = []
    while len(targets) < 6:
        asked = [flight.target for flight in world.flights() if flight.kind == "request"]
        targets += asked[:1]
        world.tick()
    assert targets == [2, 3, 1, 2, 3, 1]
    world.start(1, 2, 3)
    world.run(lambda: world.leader() is not None and world.has_converged())
    assert world.machine(4).role is Role.FOLLOWER
    leader_id = world.leader()
    assert leader_id is not None
    world.crash(leader_id)
    world.run(lambda: world.leader() is not None and world.has_converged())
    assert world.machine(4).leader_id == world.leader()


def test_who_takes_no_update_says_where_the_leader_is() -> None:
    bench = follower()
    asked = membership.update_request(CONFIG, EPOCH, FOUR)
    where = Endpoint("CONTROLLER", "three", 3)
    for epoch, endpoint in ((EPOCH + 1, where), (EPOCH + 2, None)):
        response = membership.update_response(ErrorCode.FENCED_LEADER_EPOCH, 3, epoch, endpoint)
        bench.step(answered(2, asked, response))
        assert (bench.machine.epoch, bench.machine.leader_id) == (epoch, 3)
        assert bench.machine.address_of(3) == where, "and what is not said is not forgotten"
