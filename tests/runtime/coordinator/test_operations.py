"""The rules of operations: decided one at a time, all or nothing, answered when committed."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from fencepost.machines.coordinator import Decision, Producer
from fencepost.runtime.coordinator import CoordinatorState
from fencepost.runtime.coordinator.batches import RECORDS_AT_ONCE
from fencepost.runtime.coordinator.coordinator import ANSWERED_AT_ONCE, RETRY_MS
from fencepost.wire.errors import ErrorCode

from .coordinator_world import INDEX, CoordinatorWorld
from .toy import Toy, Wait

NONE = ErrorCode.NONE
NOT_AVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.fixture
def world() -> CoordinatorWorld:
    world = CoordinatorWorld(followers=1)
    world.start()
    return world


# Answers


def test_a_reply_leaves_when_its_records_are_committed(world: CoordinatorWorld) -> None:
    token = world.set("a", "1")
    assert world.records() == [("a", "1")]
    assert world.toy.texts["a"] == ("1", 0), "applied when appended"
    assert world.replies == {} and world.sent == []
    world.commit()
    assert world.replies == {token: (NONE, "set")}
    assert world.sent == [(("was set", ("a",)), 1)]


def test_a_reply_to_a_read_waits_for_the_writes_before_it(world: CoordinatorWorld) -> None:
    first = world.get("a")
    assert world.replies[first] == (NONE, None), "nothing is on its way"
    write, read = world.set("a", "1"), world.get("a")
    later_write = world.set("a", "2")
    assert world.order == [first]
    world.commit()
    assert world.order == [first, write, read, later_write]
    assert world.replies[read] == (NONE, "1")


def test_replies_leave_in_the_order_of_their_decisions(world: CoordinatorWorld) -> None:
    waiting = world.wait("a")
    tokens = [world.set(name, "1") for name in "bca"]
    world.commit()
    assert world.order == [tokens[0], tokens[1], tokens[2], waiting]
    assert world.replies[waiting] == (NONE, "1")


def test_what_is_asked_while_an_answer_is_given_comes_after_it(world: CoordinatorWorld) -> None:
    order: list[str] = []

    def ask(name: str, then: Any = None) -> None:
        def decide(toy: Toy, token: Any) -> Decision[Any]:
            order.append(f"decide {name}")
            return toy.decide_get(token, name)

        def on_reply(error: ErrorCode, reply: Any) -> None:
            if then is not None:
                then()
            order.append(f"answered {name}")

        world.runtime.submit(3, decide, on_reply)

    ask("a", lambda: ask("b"))
    assert order == ["decide a", "answered a", "decide b", "answered b"]


def test_a_handler_that_fails_does_not_fail_others(world: CoordinatorWorld) -> None:
    def on_reply(error: ErrorCode, reply: Any) -> None:
        raise RuntimeError("the client is gone")

    world.runtime.submit(3, lambda toy, token: toy.decide_get(token, "a"), on_reply)
    assert world.replies[world.get("a")] == (NONE, None)


def test_thousands_of_queued_operations_are_worked_off(world: CoordinatorWorld) -> None:
    tokens: list[int] = []

    def decide(toy: Toy, token: Any) -> Decision[Any]:
        tokens.extend(world.set(f"n{number}", "1") for number in range(5_000))
        assert toy.texts == {}, "decided after this one"
        return toy.decide_get(token, "n1")

    first = world.ask(decide)
    world.commit()
    assert world.replies[first] == (NONE, None)
    assert len(world.replies) <= ANSWERED_AT_ONCE, "the rest waits for later turns"
    world.run()
    assert [world.replies[token] for token in tokens] == [(NONE, "set")] * 5_000
    assert world.order == sorted(world.order)


def test_an_append_that_waits_for_its_turn_keeps_decisions_waiting(world: CoordinatorWorld) -> None:
    """Within a step of the driver an append is only queued: nothing may be built on it yet."""
    seen: list[Any] = []

    def work() -> None:
        world.set("a", "1")
        world.ask(lambda toy, token: seen.append(toy.texts.get("a")) or toy.decide_get(token, "a"))
        assert seen == [] and world.records() == []

    world.within_a_step(work)
    assert seen == [("1", 0)], "decided when it was appended"


def test_an_append_that_comes_back_after_the_unload_changes_nothing(
    world: CoordinatorWorld,
) -> None:
    toy = world.toy

    def work() -> None:
        world.set("a", "1", expires_ms=1_000)
        world.runtime.unload(INDEX, None)

    world.within_a_step(work)
    assert world.replies == {1: (ErrorCode.NOT_COORDINATOR, None)}
    world.commit()
    world.advance(60_000)
    assert toy.fired == [] and world.sent == []


def test_what_follows_from_a_refused_append_is_decided_before_what_waits(
    world: CoordinatorWorld,
) -> None:
    waiting = world.wait("a")
    world.toy.cannot_apply = "a"
    tokens: list[int] = []

    def decide(toy: Toy, token: Any) -> Decision[Any]:
        tokens.extend((world.set("a", "1"), world.wait("a")))
        return toy.decide_get(token, "a")

    world.ask(decide)
    refused, later = tokens
    assert world.replies[refused] == (ErrorCode.UNKNOWN_SERVER_ERROR, None)
    assert world.replies[waiting] == (NONE, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert later not in world.replies, "it came behind"


def test_a_request_is_answered_once(world: CoordinatorWorld) -> None:
    token = world.ask(lambda toy, token: Decision(replies=[(token, "first"), (token, "second")]))
    assert world.replies == {token: (NONE, "first")} and world.order == [token]


# Refused appends


def test_a_refused_append_has_not_happened(world: CoordinatorWorld) -> None:
    world.set("a", "1")
    world.commit()
    world.wait("b")
    before = world.toy.view()
    world.set_in_sync(1)
    token = world.ask(lambda toy, token: toy.decide_set(token, ("a", "2"), ("b", "1"), ("a", None)))
    assert world.replies[token] == (NOT_AVAILABLE, None)
    texts, pending, _ = world.toy.view()
    assert (texts, pending) == before[:2]
    assert world.toy.applied == [(0, ("a", "1"))]
    assert world.records() == [("a", "1")] and len(world.sent) == 1


def test_what_follows_from_a_refused_append_is_decided_on_the_state_before(
    world: CoordinatorWorld,
) -> None:
    waiting = world.wait("a")
    world.set_in_sync(1)
    token = world.set("a", "1")
    assert world.replies[token] == (NOT_AVAILABLE, None)
    assert world.replies[waiting] == (NONE, NOT_AVAILABLE), "told by `on_refused`"
    assert world.toy.view() == ({}, {}, {})


def test_what_was_appended_before_a_refused_append_stays(world: CoordinatorWorld) -> None:
    first = world.set("a", "1")
    world.set_in_sync(1)
    second = world.set("a", "2")
    assert world.toy.texts["a"] == ("1", 0)
    world.set_in_sync(1, 2)
    world.commit()
    assert world.replies == {first: (NONE, "set"), second: (NOT_AVAILABLE, None)}


def test_a_log_that_refuses_every_write_is_logged_once(
    world: CoordinatorWorld, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING", logger="fencepost.runtime.coordinator")
    world.set_in_sync(1)
    for _ in range(50):
        world.set("a", "1")
    world.set_in_sync(1, 2)
    world.set("a", "1")
    world.set("a", "2")
    assert [record.getMessage() for record in caplog.records] == [
        "__toy-3: a write was refused: NOT_ENOUGH_REPLICAS",
        "__toy-3: writes succeed again; 50 were refused",
    ]


def test_what_a_sender_gets_wrong_is_no_trouble_of_the_log(
    world: CoordinatorWorld, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING", logger="fencepost.runtime.coordinator")
    stranger = Decision(records=[("a", "1")], producer=Producer(7, 0))
    token = world.ask(lambda toy, token: stranger)
    assert world.replies[token] == (ErrorCode.INVALID_TXN_STATE, None)
    assert world.toy.view() == ({}, {}, {})
    assert not caplog.records


def test_a_refused_append_sets_no_timer(world: CoordinatorWorld) -> None:
    world.set_in_sync(1)
    world.set("a", "1", expires_ms=1_000)
    world.advance(10_000)
    assert world.toy.fired == []


def test_records_that_cannot_be_applied_never_reach_the_log(world: CoordinatorWorld) -> None:
    world.set("a", "1")
    before = world.toy.view()
    world.toy.cannot_apply = "b"
    token = world.ask(lambda toy, token: toy.decide_set(token, ("c", "1"), ("b", "1"), ("d", "1")))
    assert world.replies[token] == (ErrorCode.UNKNOWN_SERVER_ERROR, None)
    assert world.toy.view() == before and world.records() == [("a", "1")]
    assert world.coordinator.state is CoordinatorState.ACTIVE


def test_a_decision_that_fails_costs_only_who_asked(world: CoordinatorWorld) -> None:
    world.set("a", "1")
    before = world.toy.view()

    def decide(toy: Toy, token: Any) -> Decision[Any]:
        raise AssertionError("a mistake of ours")

    assert world.replies[world.ask(decide)] == (ErrorCode.UNKNOWN_SERVER_ERROR, None)
    assert world.toy.view() == before
    world.commit()
    assert world.replies[world.get("a")] == (NONE, "1")


def test_a_disk_that_fails_under_an_append_has_it_refused(world: CoordinatorWorld) -> None:
    world.disk.fault = lambda operation, path, count: (
        OSError("broken") if operation.startswith("write") or operation == "append" else None
    )
    token = world.set("a", "1")
    assert world.replies[token] == (ErrorCode.NOT_COORDINATOR, None)
    assert world.toy.view() == ({}, {}, {})


def test_changes_in_memory_alone_need_no_log(world: CoordinatorWorld) -> None:
    world.set_in_sync(1)
    waiting = world.wait("a")
    assert (
        world.toy.waiting == {"a": tuple(world.toy.waiting["a"])} and waiting not in world.replies
    )
    token = world.ask(lambda toy, token: Decision(changes=[Wait("a")], replies=[(token, "ok")]))
    assert world.replies[token] == (NONE, "ok") and world.toy.waiting == {}


# Large decisions


def test_records_that_must_stay_together_and_are_too_many_are_refused(
    world: CoordinatorWorld,
) -> None:
    records = [(f"n{number}", "x" * 100) for number in range(100)]
    token = world.ask(lambda toy, token: toy.decide_set(token, *records))
    assert world.replies[token] == (ErrorCode.UNKNOWN_SERVER_ERROR, None)
    assert world.toy.view() == ({}, {}, {}) and world.records() == []


def test_records_that_may_be_split_are_written_in_several_batches(world: CoordinatorWorld) -> None:
    records = [(f"n{number}", "x" * 100) for number in range(100)]
    token = world.ask(lambda toy, token: toy.decide_set(token, *records, is_atomic=False))
    log = world.log
    sizes = [header.size_bytes for header, _ in log.read_all_batches(0, log.end_offset)]
    assert max(sizes) <= 4_096 < sum(sizes) and world.records() == records
    assert world.replies == {}
    world.commit()
    assert world.replies[token] == (NONE, "set")
    assert world.reloaded().view() == world.toy.view()


def test_changes_happen_once_however_many_batches_there_are(world: CoordinatorWorld) -> None:
    records = [(f"n{number}", "x" * 100) for number in range(100)]
    world.ask(lambda toy, token: Decision(records, changes=[Wait("w", token)], is_atomic=False))
    assert len(world.toy.waiting["w"]) == 1


def test_of_split_records_the_first_ones_stay_when_later_ones_are_refused(
    world: CoordinatorWorld,
) -> None:
    records = [(f"n{number}", "x" * 100) for number in range(100)]
    world.toy.cannot_apply = "n90"
    token = world.ask(lambda toy, token: toy.decide_set(token, *records, is_atomic=False))
    assert world.replies[token] == (ErrorCode.UNKNOWN_SERVER_ERROR, None)
    world.toy.cannot_apply = None
    written = world.records()
    assert 0 < len(written) < 90
    assert world.reloaded().view() == world.toy.view()


@pytest.mark.parametrize("place", [0, 50, 99])
@pytest.mark.parametrize("is_atomic", [True, False])
def test_a_record_that_no_batch_has_room_for_leaves_the_state_as_the_log_is(
    world: CoordinatorWorld, place: int, is_atomic: bool
) -> None:
    """KAFKA-20845: no batch without records is written for it, and refused."""
    records = [(f"n{number}", "x" * (5_000 if number == place else 100)) for number in range(100)]
    token = world.ask(lambda toy, token: toy.decide_set(token, *records, is_atomic=is_atomic))
    assert world.replies[token] == (ErrorCode.UNKNOWN_SERVER_ERROR, None)
    assert len(world.records()) <= place
    assert world.reloaded().view() == world.toy.view()
    after = world.ask(lambda toy, token: toy.decide_set(token, ("after", "y")))
    world.commit()
    assert world.replies[after] == (NONE, "set")


# Transactions


def test_transactional_records_count_when_their_marker_is_written(world: CoordinatorWorld) -> None:
    for producer_id, name in ((7, "kept"), (8, "dropped")):
        world.ask(lambda toy, token, p=producer_id, n=name: toy.decide_write(token, p, (n, "1")))
    world.set("kept", "0")
    assert set(world.toy.texts) == {"kept"} and world.toy.texts["kept"][0] == "0"
    world.ask(lambda toy, token: toy.decide_end(token, 7, committed=True))
    world.ask(lambda toy, token: toy.decide_end(token, 8, committed=False))
    assert world.toy.view() == ({"kept": ("0", 2)}, {}, {}), "the later record wins"
    assert world.reloaded().view() == world.toy.view()
    world.commit()
    assert {error for error, _ in world.replies.values()} == {NONE}


def test_a_refused_marker_leaves_the_transaction_open(world: CoordinatorWorld) -> None:
    world.ask(lambda toy, token: toy.decide_write(token, 7, ("a", "1")))
    before = world.toy.view()
    world.set_in_sync(1)
    token = world.ask(lambda toy, token: toy.decide_end(token, 7, committed=True))
    assert world.replies[token] == (NOT_AVAILABLE, None)
    assert world.toy.view() == before != ({}, {}, {})


# Timers


def test_a_timer_is_decided_when_its_delay_is_over(world: CoordinatorWorld) -> None:
    world.set("a", "1", expires_ms=1_000)
    world.advance(999)
    assert world.toy.fired == []
    world.advance(1)
    assert world.toy.fired == [("expire", "a")] and world.records()[-1] == ("a", None)


def test_a_timer_that_is_set_again_fires_once_at_its_last_deadline(world: CoordinatorWorld) -> None:
    before = world.ports.timers.armed_count
    for _ in range(100):
        world.set("a", "1", expires_ms=1_000)
        world.commit()
        world.advance(50)
    assert world.toy.fired == []
    assert world.ports.timers.armed_count - before < 50, "moved later, not armed again"
    world.advance(950)
    world.advance(60_000)
    assert world.toy.fired == [("expire", "a")]
    world.set("b", "1", expires_ms=9_000)
    world.set("b", "1", expires_ms=1_000)
    world.advance(1_000)
    assert world.toy.fired[1:] == [("expire", "b")], "moved earlier"


def test_a_cancelled_timer_does_not_fire(world: CoordinatorWorld) -> None:
    world.set("a", "1", expires_ms=1_000)
    world.ask(lambda toy, token: Decision(timers=[(("expire", "a"), None)]))
    world.advance(60_000)
    assert world.toy.fired == []


def test_what_a_timer_decided_and_the_log_refused_is_decided_again(world: CoordinatorWorld) -> None:
    world.set("a", "1", expires_ms=1_000)
    world.commit()
    world.set_in_sync(1)
    world.advance(1_000 + 3 * RETRY_MS)
    assert world.toy.fired == [("expire", "a")] * 4 and world.records() == [("a", "1")]
    world.set_in_sync(1, 2)
    world.advance(RETRY_MS)
    assert world.records() == [("a", "1"), ("a", None)]
    world.advance(60_000)
    assert len(world.toy.fired) == 5


def test_a_timer_that_was_set_again_is_not_brought_forward_by_a_refused_write(
    world: CoordinatorWorld,
) -> None:
    world.set("a", "1", expires_ms=1_000)
    world.commit()

    def work() -> None:
        world.set("a", "2", expires_ms=60_000)
        world.ask(lambda toy, token: setattr(toy, "cannot_apply", "a") or Decision())
        world.advance(1_000)  # the first timer fires, and its decision waits behind both

    world.within_a_step(work)
    assert world.toy.fired == [("expire", "a")] and world.toy.texts["a"][0] == "2"
    world.toy.cannot_apply = None
    world.advance(59_000)
    assert len(world.toy.fired) == 1
    world.advance(1_000)
    assert len(world.toy.fired) == 2 and "a" not in world.toy.texts


def test_a_decision_without_a_request_that_the_log_refused_is_made_again(
    world: CoordinatorWorld,
) -> None:
    world.set("a", "1")
    world.set_in_sync(1)
    world.runtime.tell_all(lambda toy: Decision(records=[("a", None)]))
    assert world.records() == [("a", "1")]
    assert world.coordinator.retried_count == 1
    world.set_in_sync(1, 2)
    world.advance(RETRY_MS)
    assert world.records() == [("a", "1"), ("a", None)]
    assert world.coordinator.retried_count == 0


# Bounds


def test_a_write_that_is_not_committed_in_time_is_answered_and_stays(
    world: CoordinatorWorld,
) -> None:
    early = world.set("a", "1")
    world.advance(3_000)
    late = world.set("b", "1")
    world.advance(1_999)
    assert world.replies == {}
    world.advance(1)
    assert world.replies == {early: (NOT_AVAILABLE, None)}
    assert world.toy.texts["a"] == ("1", 0), "it is in the log and may be committed yet"
    world.commit()
    assert world.replies == {early: (NOT_AVAILABLE, None), late: (NONE, "set")}
    assert [message for message, _ in world.sent] == [("was set", ("a",)), ("was set", ("b",))]


def test_every_write_has_a_time_of_its_own(world: CoordinatorWorld) -> None:
    tokens = []
    for _ in range(3):
        tokens.append(world.set("a", "1"))
        world.advance(2_000)
    assert world.order == tokens[:1], "after 5 s of 6"
    world.advance(1_000)
    assert world.order == tokens[:2]
    world.advance(2_000)
    assert world.order == tokens
    world.advance(60_000)
    assert world.order == tokens


def test_only_so_many_answers_may_wait() -> None:
    world = CoordinatorWorld(followers=1, max_waiting=4)
    world.start()
    tokens = [world.set("a", "1") for _ in range(2)]  # an answer and a message each
    refused = [world.set("a", "2"), world.get("a")]
    assert [world.replies[token] for token in refused] == [(NOT_AVAILABLE, None)] * 2
    world.commit()
    assert [world.replies[token] for token in tokens] == [(NONE, "set")] * 2
    world.set("a", "3")
    assert world.records()[-1] == ("a", "3")


def test_only_so_many_bytes_may_wait_for_their_commit() -> None:
    world = CoordinatorWorld(followers=1, max_uncommitted_bytes=2_000)
    world.start()
    tokens = [world.set("a", "x" * 1_000) for _ in range(2)]
    refused = world.set("a", "x")
    assert world.replies == {refused: (NOT_AVAILABLE, None)}
    world.commit()
    assert [world.replies[token] for token in tokens] == [(NONE, "set")] * 2
    again = [world.set("a", "y" * 1_000) for _ in range(3)]
    assert world.replies[again[2]] == (NOT_AVAILABLE, None), "all of the room was free again"
    world.commit()
    assert [world.replies[token] for token in again[:2]] == [(NONE, "set")] * 2


def test_notes_are_given_to_the_writer_of_the_log(world: CoordinatorWorld) -> None:
    world.ask(lambda toy, token: Decision(notes=["seen"]))
    world.set_in_sync(1)
    world.ask(lambda toy, token: Decision(records=[("a", "1")], notes=["never happened"]))
    assert world.notes == ["seen"]


def test_a_decision_may_have_to_leave_room(world: CoordinatorWorld) -> None:
    """What follows from it will be larger, and must fit then."""
    limit = world.coordinator.partition.max_batch_bytes
    fits = world.set("a", "x" * (limit // 2), spare_bytes=limit // 4)
    world.commit()
    refused = world.set("a", "y" * (limit // 2), spare_bytes=limit // 2)
    world.commit()
    assert world.replies[fits] == (NONE, "set")
    assert world.replies[refused] == (ErrorCode.UNKNOWN_SERVER_ERROR, None)
    assert world.coordinator.machine.texts["a"][0] == "x" * (limit // 2)


def test_a_long_decision_is_appended_in_pieces() -> None:
    """Others have turns between its batches; further operations wait for the last."""
    world = CoordinatorWorld(max_message_bytes=1_000_000)
    world.start()
    world.commit()
    count = 5 * RECORDS_AT_ONCE + 1
    records = [(f"n{number}", "1") for number in range(count)]
    token = world.ask(lambda toy, token: toy.decide_set(token, *records, is_atomic=False))
    assert len(world.toy.texts) == RECORDS_AT_ONCE
    behind = world.get("n0")
    lengths = []
    while world.turns:
        world.run(1)
        lengths.append(len(world.toy.texts))
        world.commit()
    assert max(after - before for before, after in pairwise(lengths)) == RECORDS_AT_ONCE
    assert lengths[-1] == count
    assert world.order == [token, behind]


def test_a_coordinator_that_is_unloaded_writes_no_more_of_a_long_decision(
    world: CoordinatorWorld,
) -> None:
    records = [(f"n{number}", "1") for number in range(3 * RECORDS_AT_ONCE)]
    token = world.ask(lambda toy, token: toy.decide_set(token, *records, is_atomic=False))
    end_offset = world.log.end_offset
    world.follow(2)
    world.run()
    assert world.log.end_offset == end_offset
    assert world.replies[token] == (ErrorCode.NOT_COORDINATOR, None)


def test_answers_that_wait_for_their_turn_are_dropped_with_the_coordinator(
    world: CoordinatorWorld,
) -> None:
    tokens = [world.set(f"n{number}", "1") for number in range(3 * ANSWERED_AT_ONCE)]
    world.commit()
    world.follow(2)
    world.run()
    errors = [world.replies[token][0] for token in tokens]
    answered = errors.count(NONE)
    assert 0 < answered <= ANSWERED_AT_ONCE
    assert set(errors[answered:]) == {ErrorCode.NOT_COORDINATOR}


def test_an_answer_that_waits_for_its_turn_is_not_late(world: CoordinatorWorld) -> None:
    tokens = [world.set(f"n{number}", "1") for number in range(3 * ANSWERED_AT_ONCE)]
    world.commit()
    world.advance(6_000)
    world.run()
    assert {world.replies[token][0] for token in tokens} == {NONE}
    late = world.set("n", "1")
    world.advance(6_000)
    assert world.replies[late][0] is ErrorCode.COORDINATOR_NOT_AVAILABLE
