"""Requests to add partitions that come while the transaction before is being completed."""

from __future__ import annotations

import pytest

from fencepost.machines.transaction.epochs import EXHAUSTED
from fencepost.machines.transaction.model import Transaction, TransactionState
from fencepost.machines.transaction.requests import AddPartitions
from fencepost.machines.transaction.shard import EXPIRY_TIMER
from fencepost.machines.transaction.waiting import ADD_TIMER, WAITING_MAX
from fencepost.wire.errors import ErrorCode
from tests.machines.transaction_world import ID, P0, P1, TransactionWorld

BUSY = ErrorCode.CONCURRENT_TRANSACTIONS
FENCED = ErrorCode.PRODUCER_FENCED
MAPPING = ErrorCode.INVALID_PRODUCER_ID_MAPPING
NONE = ErrorCode.NONE

Producer = tuple[int, int]


def ending(
    world: TransactionWorld, version: int = 2, *, committed: bool = True
) -> tuple[Producer, Producer]:
    """Producers of a transaction whose end is decided and not complete, and of the next one."""
    before = world.begun(version)
    told = world.end(before, committed=committed, version=version)
    assert told.error is NONE
    return before, before if version < 2 else (told.producer_id, told.epoch)


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("version", [0, 2])
def test_the_next_transaction_begins_when_the_one_before_is_complete(
    version: int, committed: bool
) -> None:
    world = TransactionWorld()
    _, producer = ending(world, version, committed=committed)
    token = world.begin_add(producer, P1, version=version)
    assert token not in world.replies
    world.write_markers()
    assert token not in world.replies
    world.fire_due()
    assert world.replies[token] is NONE
    assert world.present.state is TransactionState.ONGOING
    assert world.present.partitions == {P1} and world.present.client_version == version
    assert not [name for name in world.timers if name[0] == "add"]


def test_it_waits_only_so_long() -> None:
    """The answer is Kafka's then, and the request that comes again may wait again."""
    world = TransactionWorld()
    _, producer = ending(world)
    assert world.add(producer, P1, version=2) is BUSY
    assert world.present.is_ending
    token = world.begin_add(producer, P1, version=2)
    assert token not in world.replies
    world.write_markers()
    world.fire_due()
    assert world.replies[token] is NONE


def test_no_other_producer_waits() -> None:
    world = TransactionWorld()
    before, producer = ending(world)
    assert before != producer
    pid, epoch = producer
    for other in (before, (pid, epoch + 1), (pid + 1, epoch)):
        assert world.replies[world.begin_add(other, P1, version=2)] is BUSY


def test_the_producer_of_the_next_id_waits_when_the_epochs_are_used_up() -> None:
    world = TransactionWorld()
    pid, _ = world.begun(2)
    last = world.present.identity._replace(epoch=EXHAUSTED)
    world.put(world.present._replace(identity=last))
    told = world.end((pid, EXHAUSTED), committed=True, version=2)
    assert told.epoch == 0 and told.producer_id != pid
    token = world.begin_add((told.producer_id, 0), P1, version=2)
    world.write_markers()
    world.fire_due()
    assert world.replies[token] is NONE


def test_nobody_waits_for_an_id_that_is_still_to_be_drawn() -> None:
    """The end of an older broker, which has not written which producer id comes next."""
    world = TransactionWorld()
    pid, _ = world.begun(2)
    last = world.present.identity._replace(epoch=EXHAUSTED)
    world.put(world.present._replace(identity=last))
    world.end((pid, EXHAUSTED), committed=True, version=2)
    lost = world.present.identity._replace(next_producer_id=-1)
    world.put(world.present._replace(identity=lost))
    assert world.replies[world.begin_add((pid, EXHAUSTED + 1), P1, version=2)] is BUSY


def test_each_leader_of_the_next_transaction_may_wait_and_not_many_more() -> None:
    world = TransactionWorld()
    _, producer = ending(world)
    partitions = [("orders", index) for index in range(WAITING_MAX + 1)]
    tokens = [world.begin_add(producer, one, version=2) for one in partitions]
    assert world.replies == {**world.replies, tokens.pop(): BUSY}
    assert not set(tokens) & set(world.replies)
    world.write_markers()
    world.fire_due()
    assert [world.replies[token] for token in tokens] == [NONE] * WAITING_MAX
    assert world.present.partitions == set(partitions[:-1])
    told = world.end(producer, committed=True, version=2)
    token = world.begin_add((told.producer_id, told.epoch), P0, version=2)
    assert token not in world.replies, "there is room again"


def test_whatever_came_between_has_its_say() -> None:
    """A new producer, and the next end, are decided before the timer fires."""
    world = TransactionWorld()
    _, producer = ending(world)
    token = world.begin_add(producer, P1, version=2)
    assert world.init().error is BUSY
    world.write_markers()
    assert world.init().error is NONE
    world.fire_due()
    assert world.replies[token] is FENCED

    _, producer = ending(world)
    token = world.begin_add(producer, P1, version=2)
    world.write_markers()
    assert world.end(producer, committed=False, version=2).error is NONE
    world.fire_due()
    assert world.replies[token] is BUSY, "it does not wait for a second time"


def test_a_retry_of_the_end_does_not_end_what_waits_to_begin() -> None:
    world = TransactionWorld()
    before, producer = ending(world)
    token = world.begin_add(producer, P1, version=2)
    assert world.end(before, committed=True, version=2).error is BUSY
    world.write_markers()
    assert world.end(before, committed=True, version=2).error is NONE
    world.fire_due()
    assert world.replies[token] is NONE
    assert world.present.state is TransactionState.ONGOING


def test_a_timer_that_fires_behind_the_answer_finds_nothing() -> None:
    world = TransactionWorld()
    _, producer = ending(world)
    assert world.add(producer, P1, version=2) is BUSY
    name = ("add", ID, "1")
    decision = world.coordinator.decide_timer(name, world.wall_ms)
    assert not decision.replies and not decision.records and not decision.changes


def test_what_waits_is_taken_back_with_a_refused_write() -> None:
    """The client gets the log's error, once."""
    world = TransactionWorld()
    _, producer = ending(world)
    token = world.begin_add(producer, P1, version=2)
    world.write_markers()
    [name] = [name for name, delay_ms in world.timers.items() if delay_ms == 0]
    coordinator, before = world.coordinator, world.present
    decision = coordinator.decide_timer(name, world.wall_ms)
    coordinator.undo_log.begin()
    for change in decision.changes:
        coordinator.apply_change(change)
    coordinator.apply(decision.records[0], 99)
    coordinator.undo_log.revert()
    assert world.present == before
    assert coordinator.decide_timer(name, world.wall_ms).replies == [(token, NONE)]
    assert decision.on_refused is not None
    world.carry_out(decision.on_refused(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    assert world.replies[token] is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not coordinator.decide_timer(name, world.wall_ms).replies


def test_a_request_that_cannot_begin_to_wait_is_taken_back() -> None:
    world = TransactionWorld()
    _, producer = ending(world)
    coordinator = world.coordinator
    asked = AddPartitions(ID, *producer, frozenset([P1]), 2)
    decision = coordinator.decide_add(asked, object(), world.wall_ms)
    [wait], [(name, _)] = decision.changes, decision.timers
    coordinator.undo_log.begin()
    coordinator.apply_change(wait)
    assert coordinator.decide_timer(name, world.wall_ms).replies
    coordinator.undo_log.revert()
    assert not coordinator.decide_timer(name, world.wall_ms).replies


def test_an_id_that_expires_meanwhile_is_unknown_to_what_waits() -> None:
    world = TransactionWorld()
    _, producer = ending(world)
    token = world.begin_add(producer, P1, version=2)
    world.write_markers()
    world.wall_ms += world.config.expiration_ms
    world.carry_out(world.coordinator.decide_timer(EXPIRY_TIMER, world.wall_ms))
    assert ID not in world.coordinator.transactions
    world.fire_due()
    assert world.replies[token] is MAPPING
    assert ID not in world.coordinator.transactions, "and nothing is written about it"


def test_of_an_id_for_which_no_request_waits_nothing_is_kept() -> None:
    world = TransactionWorld()
    _, producer = ending(world)
    waiting = world.coordinator._shard.waiting
    world.begin_add(producer, P1, version=2)
    assert list(waiting._waiting) == [ID]
    world.write_markers()
    world.fire_due()
    assert not waiting._waiting


def test_the_next_coordinator_knows_of_nobody_who_waits() -> None:
    world = TransactionWorld()
    _, producer = ending(world)
    token = world.begin_add(producer, P1, version=2)
    [name] = [name for name in world.timers if name[0] == ADD_TIMER]
    before = world.coordinator
    world.restart()
    for coordinator in (before, world.coordinator):
        assert not coordinator.decide_timer(name, world.wall_ms).replies
    world.write_markers()
    assert world.present.state is TransactionState.COMPLETE_COMMIT
    assert token not in world.replies, "the runtime has answered it"


def test_a_marker_that_is_missing_keeps_the_request_waiting() -> None:
    world = TransactionWorld()
    producer = world.begun(2)
    assert world.add(producer, P1, version=2) is NONE
    told = world.end(producer, committed=True, version=2)
    [sent] = world.sent
    token = world.begin_add((told.producer_id, told.epoch), P0, version=2)
    assert isinstance(sent, Transaction)
    world.mark(sent, [P0])
    world.fire_due()
    assert token not in world.replies
    world.mark(sent, [P1])
    world.fire_due()
    assert world.replies[token] is NONE
