"""A transaction coordinator: who may begin and end, what survives it, what it sends."""

from __future__ import annotations

from itertools import product

import pytest

from fencepost.batch.records import build_batch
from fencepost.machines.transaction.coordinator import ABORTS_AT_ONCE, ABORTS_PAUSE_MS
from fencepost.machines.transaction.ending import Ended
from fencepost.machines.transaction.epochs import EPOCH_MAX, EXHAUSTED, Identity
from fencepost.machines.transaction.initialization import Granted
from fencepost.machines.transaction.listing import filters_for
from fencepost.machines.transaction.memory import TransactionMemory
from fencepost.machines.transaction.model import (
    NEVER_MS,
    STATE_NAMES,
    Transaction,
    TransactionState,
)
from fencepost.machines.transaction.partitions import END_BYTES
from fencepost.machines.transaction.records import TransactionCodec, TransactionRecord
from fencepost.machines.transaction.requests import AddPartitions
from fencepost.machines.transaction.shard import EXPIRY_TIMER, TIMEOUT_TIMER
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.transaction import (
    TransactionLogKey,
    decode_key,
    decode_value,
    encode_key,
)
from tests.machines.transaction_world import ID, P0, P1, TIMEOUT_MS, TransactionWorld

FENCED = ErrorCode.PRODUCER_FENCED
BUSY = ErrorCode.CONCURRENT_TRANSACTIONS
INVALID = ErrorCode.INVALID_TXN_STATE
MAPPING = ErrorCode.INVALID_PRODUCER_ID_MAPPING
NONE = ErrorCode.NONE

S = TransactionState


def at(state: TransactionState, identity: Identity, version: int) -> Transaction:
    """The id in a state."""
    has_partitions = state in (S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT)
    partitions = frozenset({P0}) if has_partitions else frozenset()
    return Transaction(ID, identity, TIMEOUT_MS, state, partitions, 5, 6, version)


# -- InitProducerId --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"timeout_ms": 0}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"timeout_ms": 900_001}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"two_phase_commit": True}, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ({"keep_prepared": True}, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_what_is_refused_to_every_producer(asked: dict[str, object], error: ErrorCode) -> None:
    world = TransactionWorld()
    assert world.init(**asked) == Granted(error)  # type: ignore[arg-type]
    assert not world.log and not world.coordinator.transactions


@pytest.mark.parametrize("timeout_ms", [1, 900_000])
def test_the_shortest_and_the_longest_timeout_are_granted(timeout_ms: int) -> None:
    world = TransactionWorld()
    assert world.init(timeout_ms=timeout_ms) == Granted(NONE, 1_001, 0)
    assert world.present.timeout_ms == timeout_ms


def test_the_id_is_written_before_the_producer_has_it() -> None:
    world = TransactionWorld()
    granted = world.init()
    assert granted == Granted(NONE, 1_001, 0)
    world.restart()
    assert world.present.identity[:2] == (1_001, 0)
    assert world.present.state is S.EMPTY and world.present.timeout_ms == TIMEOUT_MS
    assert world.init() == Granted(NONE, 1_001, 1)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_new_producer_aborts_what_is_open_and_bumps_once_for_each(level: int) -> None:
    world = TransactionWorld(level=level)
    producer = world.begun()
    assert world.init().error is BUSY
    assert world.present.state is S.PREPARE_ABORT
    assert world.present.identity.epoch == 1, "by the fence or by the end, not by both"
    assert [one.partitions for one in world.sent] == [frozenset({P0})]
    assert world.init().error is BUSY, "until the markers are written"
    assert len(world.sent) == 1
    world.write_markers()
    assert world.init() == Granted(NONE, producer[0], 2)


def test_another_producer_id_cannot_take_a_transaction_over() -> None:
    world = TransactionWorld()
    world.begun()
    assert world.init(expected=(4_711, 0)) == Granted(FENCED)
    assert world.present.state is S.ONGOING


@pytest.mark.parametrize("epoch", [0, 2, EPOCH_MAX])
def test_who_was_fenced_cannot_abort_the_transaction_of_the_next(epoch: int) -> None:
    """Kafka looks at the producer id alone, and both producers are fenced then."""
    world = TransactionWorld()
    world.put(at(S.ONGOING, Identity(7, 1, 0, 7), 0))
    assert world.init(expected=(7, epoch)) == Granted(FENCED)
    assert world.present.state is S.ONGOING and not world.sent
    assert world.init(expected=(7, 1)).error is BUSY
    assert world.present.state is S.PREPARE_ABORT


def test_an_overflow_by_a_fence() -> None:
    for level in (0, 2):
        world = TransactionWorld(level=level)
        world.put(at(S.ONGOING, Identity(7, EXHAUSTED, 3, 7), 0))
        assert world.init().error is BUSY
        assert world.sent[0].identity.epoch == EPOCH_MAX
        world.write_markers()
        granted = world.init()
        assert granted.error is NONE and granted.producer_id > 1_000
        assert granted.epoch == (0 if level == 0 else 1)


def test_two_phase_commits_have_no_timeout() -> None:
    world = TransactionWorld(two_phase_commit=True)
    granted = world.init(two_phase_commit=True, timeout_ms=-5)
    producer = (granted.producer_id, granted.epoch)
    assert world.present.timeout_ms == NEVER_MS
    assert world.add(producer, P0) is NONE
    world.wall_ms += 1 << 40
    world.carry_out(world.coordinator.decide_timer(TIMEOUT_TIMER, world.wall_ms))
    assert not world.late


# -- AddPartitionsToTxn ----------------------------------------------------------------------


def test_adding_begins_a_transaction_and_what_is_in_it_is_written_again_as_it_was() -> None:
    world = TransactionWorld()
    granted = world.init()
    producer = (granted.producer_id, granted.epoch)
    assert world.add(producer, P0) is NONE
    began_ms, length = world.present.start_ms, len(world.log)
    before = world.present
    assert began_ms == world.wall_ms
    world.wall_ms += 10
    assert world.add(producer, P0) is NONE
    assert len(world.log) == length + 1 and world.present == before
    assert world.add(producer, P0, P1, version=2) is NONE
    assert world.present.partitions == {P0, P1}
    assert world.present.start_ms == began_ms and world.present.client_version == 2


def test_who_may_add() -> None:
    world = TransactionWorld()
    assert world.add((1, 0), P0) is MAPPING
    pid, epoch = world.begun()
    assert world.add((pid + 1, epoch), P1) is MAPPING
    assert world.add((pid, epoch + 1), P1) is FENCED
    assert world.add((pid, epoch - 1), P1) is FENCED
    assert world.end((pid, epoch), committed=True).error is NONE
    assert world.add((pid, epoch), P1) is BUSY
    assert world.add((pid + 5, epoch), P1) is BUSY, "it may be the id that comes next"
    world.write_markers()
    assert world.add((pid, epoch), P1) is NONE


def test_a_leader_asks() -> None:
    world = TransactionWorld()
    assert world.verify((1, 0), P0) == {P0: MAPPING}
    pid, epoch = world.begun()
    outside = ErrorCode.TRANSACTION_ABORTABLE
    assert world.verify((pid, epoch), P0, P1) == {P0: NONE, P1: outside}
    assert world.verify((pid + 1, epoch), P0) == {P0: MAPPING}
    assert world.verify((pid, epoch + 1), P0) == {P0: FENCED}
    world.end((pid, epoch), committed=True)
    assert world.verify((pid, epoch), P0) == {P0: BUSY}
    world.write_markers()
    assert world.verify((pid, epoch), P0) == {P0: outside}


# -- EndTxn ----------------------------------------------------------------------------------

CLASSIC = {
    S.EMPTY: (INVALID, INVALID),
    S.ONGOING: (NONE, NONE),
    S.PREPARE_COMMIT: (BUSY, BUSY),
    S.PREPARE_ABORT: (BUSY, BUSY),
    S.COMPLETE_COMMIT: (NONE, INVALID),
    S.COMPLETE_ABORT: (INVALID, NONE),
}
"""(commit, abort)"""

BUMPING = {
    (S.EMPTY, "again"): (FENCED, FENCED),
    (S.EMPTY, "current"): (INVALID, NONE),
    (S.ONGOING, "again"): (FENCED, FENCED),
    (S.ONGOING, "current"): (NONE, NONE),
    (S.COMPLETE_COMMIT, "again"): (NONE, INVALID),
    (S.COMPLETE_COMMIT, "current"): (INVALID, NONE),
    (S.COMPLETE_ABORT, "again"): (INVALID, NONE),
    (S.COMPLETE_ABORT, "current"): (INVALID, NONE),
}


@pytest.mark.parametrize(("state", "committed"), list(product(CLASSIC, (True, False))))
def test_an_end_of_versions_0_and_1(state: TransactionState, committed: bool) -> None:
    world = TransactionWorld()
    world.put(at(state, Identity(7, 3, -1, 7), 0))
    length = len(world.log)
    assert world.end((8, 3), committed=committed) == Ended(MAPPING)
    for epoch in (2, 4):
        assert world.end((7, epoch), committed=committed) == Ended(FENCED)
    before, expected = world.present, CLASSIC[state][not committed]
    assert world.end((7, 3), committed=committed) == Ended(expected)
    if state is S.ONGOING:
        assert world.present.state is (S.PREPARE_COMMIT if committed else S.PREPARE_ABORT)
        assert world.present.identity.epoch == 3 and len(world.sent) == 1
    else:
        is_repeated = expected is NONE
        assert len(world.log) == length + is_repeated and not world.sent
        assert world.present == before


@pytest.mark.parametrize(
    ("state", "who", "committed", "epoch"),
    [
        (state, who, committed, epoch)
        for (state, who), committed, epoch in product(BUMPING, (True, False), (1, 30, EXHAUSTED))
    ],
)
def test_an_end_of_version_2(
    state: TransactionState, who: str, committed: bool, epoch: int
) -> None:
    world = TransactionWorld()
    world.put(at(state, Identity(7, epoch, epoch - 1, 7), 2))
    length = len(world.log)
    named = (7, epoch - (who == "again"))
    expected = BUMPING[state, who][not committed]
    answer = world.end(named, committed=committed, version=2)
    assert answer.error is expected
    if expected is not NONE or who == "again":
        assert len(world.log) == length
        if expected is NONE:
            assert answer == Ended(NONE, 7, epoch)
        return
    assert world.present.identity.epoch == epoch + 1, "the markers have the epoch after"
    assert world.end(named, committed=committed, version=2).error is BUSY
    assert world.add((answer.producer_id, answer.epoch), P1).name == BUSY.name
    world.write_markers()
    assert world.present.identity[:2] == (answer.producer_id, answer.epoch)
    if epoch == EXHAUSTED:
        assert answer.producer_id > 1_000 and answer.epoch == 0
    else:
        assert answer == Ended(NONE, 7, epoch + 1)
    again = world.end(named, committed=committed, version=2)
    assert again == answer, "who heard no answer asks again"


@pytest.mark.parametrize("named", [(7, 5), (7, 1), (8, 3), (7, EPOCH_MAX), (-1, -1)])
def test_no_other_producer_ends_a_transaction_of_version_2(named: tuple[int, int]) -> None:
    for state in (S.EMPTY, S.ONGOING, S.COMPLETE_COMMIT, S.COMPLETE_ABORT):
        world = TransactionWorld()
        world.put(at(state, Identity(7, 3, 2, 7), 2))
        answer = world.end(named, committed=False, version=2)
        assert answer.error is (FENCED if named[0] == 7 else MAPPING)
        assert world.present.state is state


def test_an_empty_abort_of_version_2_has_no_markers_and_begins_the_next_epoch() -> None:
    world = TransactionWorld()
    granted = world.init()
    world.wall_ms += 50
    answer = world.end((granted.producer_id, granted.epoch), committed=False, version=2)
    assert answer == Ended(NONE, granted.producer_id, 1)
    assert world.present.start_ms == world.wall_ms
    world.write_markers()
    assert world.present.state is S.COMPLETE_ABORT and world.present.identity.epoch == 1
    assert world.add((granted.producer_id, 1), P0, version=2) is NONE


# -- markers and loading ---------------------------------------------------------------------


def test_an_end_is_complete_when_every_partition_has_its_marker() -> None:
    world = TransactionWorld()
    producer = world.begun()
    world.add(producer, P1)
    world.end(producer, committed=True)
    (sent,) = world.sent
    world.mark(sent, {P1})
    assert world.present.state is S.PREPARE_COMMIT and world.present.partitions == {P0}
    world.mark(sent, {P0})
    assert world.present.state is S.COMPLETE_COMMIT and not world.present.partitions
    world.mark(sent, {P0})
    assert world.present.state is S.COMPLETE_COMMIT


def test_a_late_answer_completes_no_later_transaction_of_the_same_epoch() -> None:
    world = TransactionWorld(level=0)
    producer = world.begun()
    world.end(producer, committed=True)
    (first,) = world.sent
    world.write_markers()
    world.wall_ms += 1
    world.add(producer, P0)
    world.end(producer, committed=True)
    world.mark(first, {P0})
    assert world.present.state is S.PREPARE_COMMIT


def test_the_next_coordinator_sends_all_markers_again() -> None:
    for version, committed in product((0, 2), (True, False)):
        world = TransactionWorld()
        producer = world.begun(version)
        world.add(producer, P1, version=version)
        world.end(producer, committed=committed, version=version)
        world.mark(world.sent[0], {P0})
        world.restart()
        (sent,) = world.sent
        assert sent.partitions == {P0, P1} and sent.is_committed is committed
        assert sent.identity.epoch == (1 if version == 2 else 0)
        world.write_markers()
        assert world.present.state is (S.COMPLETE_COMMIT if committed else S.COMPLETE_ABORT)
        world.restart()
        assert not world.sent


def test_the_ids_of_an_overflow_survive_the_coordinator() -> None:
    for restarts in product((False, True), repeat=2):
        world = TransactionWorld()
        world.put(at(S.ONGOING, Identity(7, EXHAUSTED, 1, 7), 2))
        answer = world.end((7, EXHAUSTED), committed=True, version=2)
        assert answer.epoch == 0
        if restarts[0]:
            world.restart()
        world.write_markers()
        if restarts[1]:
            world.restart()
        assert world.present.identity[:2] == (answer.producer_id, 0)
        assert world.end((7, EXHAUSTED), committed=True, version=2) == answer


def test_an_overflow_whose_next_id_was_not_written_gets_another() -> None:
    world = TransactionWorld()
    world.put(at(S.PREPARE_COMMIT, Identity(7, EPOCH_MAX), 2))
    world.restart()
    world.write_markers()
    assert world.present.state is S.COMPLETE_COMMIT
    assert world.present.identity[:2] == (1_001, 0)


def test_versions_of_records() -> None:
    for level, version in ((0, 0), (1, 1), (2, 1)):
        world = TransactionWorld(level=level)
        world.init()
        value = world.log[-1][1]
        assert value is not None and value[:2] == version.to_bytes(2, "big")


def test_records_that_are_not_known_are_passed_over() -> None:
    key = encode_key(TransactionLogKey(transactional_id=ID))
    assert TransactionCodec.decode(b"\x00\x07abc", b"\x00\x00") is None
    assert TransactionCodec.decode(key, b"\x00\x02rest") is None
    assert TransactionCodec.decode(key, None) == TransactionRecord(ID, None)


def test_a_refused_write_changes_nothing() -> None:
    world = TransactionWorld()
    producer = world.begun()
    before, used_bytes = world.present, world.memory.used_bytes
    coordinator = world.coordinator
    coordinator.undo_log.begin()
    coordinator.apply(TransactionRecord(ID, before._replace(partitions=frozenset())), 9)
    coordinator.apply(TransactionRecord("other", before._replace(transactional_id="other")), 10)
    coordinator.undo_log.revert()
    assert coordinator.transactions == {ID: before} and world.memory.used_bytes == used_bytes
    assert world.end(producer, committed=True).error is NONE


# -- timeouts, expiry, memory ----------------------------------------------------------------


@pytest.mark.parametrize("level", [0, 2])
def test_what_lasts_too_long_is_aborted_and_its_producer_fenced(level: int) -> None:
    world = TransactionWorld(level=level)
    pid, epoch = world.begun()
    world.restart()
    assert world.timers[TIMEOUT_TIMER] == 10_000
    world.wall_ms += TIMEOUT_MS
    world.carry_out(world.coordinator.decide_timer(TIMEOUT_TIMER, world.wall_ms))
    assert not world.late, "it may last as long as it says"
    world.wall_ms += 1
    world.carry_out(world.coordinator.decide_timer(TIMEOUT_TIMER, world.wall_ms))
    late = list(world.late)
    world.wall_ms -= 1
    assert world.abort_late() == [FENCED], "the clock was set back"
    world.late, world.wall_ms = late, world.wall_ms + 1
    assert world.abort_late() == [NONE]
    world.write_markers()
    assert world.present.state is S.COMPLETE_ABORT
    assert world.add((pid, epoch), P0) is FENCED
    assert world.end((pid, epoch), committed=True).error is FENCED
    goes_on = world.init(expected=(pid, epoch))
    assert goes_on == (Granted(NONE, pid, epoch + 1) if level == 2 else Granted(FENCED))


def test_of_many_that_last_too_long_a_few_are_aborted_at_once() -> None:
    world = TransactionWorld()
    count = 2 * ABORTS_AT_ONCE + 1
    for number in range(count):
        granted = world.init(transactional_id=f"txn-{number}")
        asked = AddPartitions(f"txn-{number}", *granted[1:], frozenset([P0]))
        world.carry_out(world.coordinator.decide_add(asked, object(), world.wall_ms))
    world.wall_ms += TIMEOUT_MS + 1
    for some, delay_ms in ((10, ABORTS_PAUSE_MS), (10, ABORTS_PAUSE_MS), (1, 10_000)):
        world.carry_out(world.coordinator.decide_timer(TIMEOUT_TIMER, world.wall_ms))
        assert world.timers[TIMEOUT_TIMER] == delay_ms
        assert world.abort_late() == [NONE] * some
    assert len(world.sent) == count


def test_a_transaction_that_ends_meanwhile_is_not_aborted() -> None:
    world = TransactionWorld()
    producer = world.begun()
    world.wall_ms += TIMEOUT_MS + 1
    world.carry_out(world.coordinator.decide_timer(TIMEOUT_TIMER, world.wall_ms))
    world.end(producer, committed=True)
    assert world.abort_late() == [FENCED]
    assert world.present.state is S.PREPARE_COMMIT


def test_ids_expire_unless_a_transaction_is_open() -> None:
    world = TransactionWorld(expiration_ms=1_000)
    producer = world.begun()
    world.init(transactional_id="idle")
    world.wall_ms += 999
    world.carry_out(world.coordinator.decide_timer(EXPIRY_TIMER, world.wall_ms))
    assert set(world.coordinator.transactions) == {ID, "idle"}
    world.wall_ms += 1
    world.carry_out(world.coordinator.decide_timer(EXPIRY_TIMER, world.wall_ms))
    assert set(world.coordinator.transactions) == {ID}
    world.restart()
    assert set(world.coordinator.transactions) == {ID}
    assert world.end(producer, committed=True).error is NONE
    world.write_markers()
    world.wall_ms += 1_000
    world.carry_out(world.coordinator.decide_timer(EXPIRY_TIMER, world.wall_ms))
    assert not world.coordinator.transactions and not world.memory.used_bytes


def test_memory_is_bounded() -> None:
    world = TransactionWorld(memory=TransactionMemory(10_000))
    producer = world.begun()
    many = [("orders", index) for index in range(60)]
    assert world.add(producer, *many) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.present.partitions == {P0}
    given = [world.init(transactional_id=f"id-{n}").error for n in range(20)]
    assert given[0] is NONE and given[-1] is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.memory.used_bytes <= 10_000
    assert world.end(producer, committed=True).error is NONE, "what is open can end"
    world.coordinator.discard()
    assert world.memory.used_bytes == 0


# -- looking at them -------------------------------------------------------------------------


def test_every_state_has_kafkas_name() -> None:
    assert set(STATE_NAMES) == set(TransactionState)


def test_the_id_before_is_no_retry_once_the_next_transaction_has_begun() -> None:
    world = TransactionWorld()
    world.put(at(S.ONGOING, Identity(7, EXHAUSTED, 1, 7), 2))
    answer = world.end((7, EXHAUSTED), committed=True, version=2)
    world.write_markers()
    assert world.add((answer.producer_id, answer.epoch), P0, version=2) is NONE
    assert world.end((7, EXHAUSTED), committed=True, version=2) == Ended(MAPPING)


def test_a_timeout_does_not_hit_the_next_transaction_of_the_same_epoch() -> None:
    world = TransactionWorld(level=0)
    producer = world.begun()
    world.wall_ms += TIMEOUT_MS + 1
    world.carry_out(world.coordinator.decide_timer(TIMEOUT_TIMER, world.wall_ms))
    assert world.end(producer, committed=True).error is NONE
    world.write_markers()
    assert world.add(producer, P1) is NONE
    assert world.abort_late() == [FENCED]
    assert world.present.state is S.ONGOING
    assert world.end(producer, committed=True).error is NONE
    world.wall_ms += TIMEOUT_MS + 1
    world.carry_out(world.coordinator.decide_timer(TIMEOUT_TIMER, world.wall_ms))
    assert not world.late, "what ends takes as long as it takes"


def test_a_timeout_does_not_hit_the_next_transaction_of_a_later_epoch() -> None:
    world = TransactionWorld()
    producer = world.begun()
    world.wall_ms += TIMEOUT_MS + 1
    world.carry_out(world.coordinator.decide_timer(TIMEOUT_TIMER, world.wall_ms))
    assert world.end(producer, committed=True).error is NONE
    world.write_markers()
    world.begun()
    world.wall_ms += TIMEOUT_MS + 1
    assert world.abort_late() == [FENCED] and world.present.state is S.ONGOING


@pytest.mark.parametrize(
    ("timer", "interval_ms"), [(TIMEOUT_TIMER, 10_000), (EXPIRY_TIMER, 3_600_000)]
)
def test_what_is_looked_for_is_looked_for_again(timer: tuple[str, ...], interval_ms: int) -> None:
    world = TransactionWorld()
    world.restart()
    assert world.timers.pop(timer) == interval_ms
    world.carry_out(world.coordinator.decide_timer(timer, world.wall_ms))
    assert world.timers[timer] == interval_ms


def test_made_up_ids_leave_room_for_those_that_are_there() -> None:
    world = TransactionWorld(memory=TransactionMemory(100_000))
    producer = world.begun()
    new = [world.init(transactional_id=f"id-{n}").error for n in range(100)]
    refused = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert new.index(refused) > 70 and set(new[new.index(refused) :]) == {refused}
    assert world.memory.used_bytes <= 90_000
    assert world.add(producer, *(("orders", index) for index in range(20))) is NONE
    assert world.init(transactional_id="id-0").error is NONE


def test_an_id_whose_memory_is_loaded_over_the_bound_may_take_less() -> None:
    world = TransactionWorld(memory=TransactionMemory(1))
    world.put(at(S.COMPLETE_COMMIT, Identity(7, 3), 0))
    assert world.memory.used_bytes > 1
    assert world.init() == Granted(NONE, 7, 4)


def test_a_new_producer_follows_the_version_of_the_one_before_until_it_begins() -> None:
    world = TransactionWorld()
    world.put(at(S.COMPLETE_COMMIT, Identity(7, 3), 2))
    world.init()
    assert world.present.state is S.EMPTY and world.present.client_version == 2


def test_a_transaction_follows_the_version_of_who_begins_it() -> None:
    """A client that speaks version 0 has the id of one that spoke version 2 (a downgrade)."""
    world = TransactionWorld()
    world.put(at(S.COMPLETE_COMMIT, Identity(7, 3), 2))
    assert world.add((7, 3), P0) is NONE
    assert world.present.client_version == 0
    assert world.end((7, 3), committed=True).error is NONE
    [marker] = world.sent
    assert (marker.client_version, marker.identity.epoch) == (0, 3)
    world.write_markers()
    assert world.add((7, 3), P0, version=2) is NONE
    assert world.present.client_version == 2
    assert world.end((7, 3), committed=True, version=2) == Ended(NONE, 7, 4)


def test_no_id_follows_an_end_of_version_0() -> None:
    world = TransactionWorld()
    world.put(at(S.ONGOING, Identity(7, 3, next_producer_id=9), 0))
    assert world.end((7, 3), committed=True).error is NONE
    assert world.present.identity.next_producer_id == -1
    world.write_markers()
    assert (world.present.identity.producer_id, world.present.identity.epoch) == (7, 3)


def test_partitions_are_null_in_the_record_of_an_empty_id() -> None:
    world = TransactionWorld()
    world.begun()
    world.end((1_001, 0), committed=True)
    world.write_markers()
    written = []
    for key, value in world.log:
        assert value is not None
        record = decode_value(decode_key(key), value)
        written.append(record.transaction_partitions)  # type: ignore[attr-defined]
    assert written[0] is None
    assert [[one.topic for one in some] for some in written[1:]] == [["orders"], ["orders"], []]


def test_what_is_listed() -> None:
    world = TransactionWorld()
    world.begun()
    world.init(transactional_id="idle")
    world.wall_ms += 1_000

    def listed(*names: str, ids: tuple[int, ...] = (), duration_ms: int = -1) -> list[str]:
        filters, _ = filters_for(names, ids, duration_ms)
        some = world.carry_out(world.coordinator.decide_list(filters, object(), world.wall_ms))
        return [one.transactional_id for one in some]

    assert listed() == [ID, "idle"]
    assert listed("Empty", "Nonsense") == ["idle"] and listed("Nonsense") == []
    assert listed(ids=(1_001,)) == [ID]
    assert listed(duration_ms=999) == [ID, "idle"], "what is not open began long ago"
    assert listed(duration_ms=1_000) == ["idle"]
    assert filters_for(["Empty", "Nonsense"], [], -1)[1] == ["Nonsense"]


@pytest.mark.parametrize("version", [0, 1])
def test_the_end_of_a_transaction_fits_where_its_partitions_did(version: int) -> None:
    """Whatever of the producer ids and versions is written with it for the first time."""
    largest = (1 << 63) - 1
    partitions = frozenset((f"{name}" * 200, index) for name in "ab" for index in range(300))
    before = at(S.ONGOING, Identity(1, 0), 0)._replace(partitions=partitions)
    after = before._replace(
        identity=Identity(largest, EPOCH_MAX, EXHAUSTED, largest, largest),
        state=S.PREPARE_COMMIT,
        client_version=2,
        next_producer_epoch=EPOCH_MAX,
    )

    def size_bytes(transaction: Transaction, version: int) -> int:
        record = TransactionRecord(ID, transaction, version)
        return len(build_batch([TransactionCodec().encode(record)], timestamp_ms=0))

    grown_bytes = size_bytes(after, 1) - size_bytes(before, version)
    assert grown_bytes <= END_BYTES
    world = TransactionWorld()
    granted = world.init()
    asked = AddPartitions(ID, granted.producer_id, granted.epoch, partitions)
    decision = world.coordinator.decide_add(asked, object(), world.wall_ms)
    assert decision.records and decision.spare_bytes == END_BYTES


@pytest.mark.parametrize("version", [0, 2])
def test_an_id_is_unused_from_when_its_transaction_is_complete(version: int) -> None:
    """Not from when its end was decided: markers may take long, and then it would expire early."""
    world = TransactionWorld()
    producer = world.begun(version)
    world.end(producer, committed=True, version=version)
    world.wall_ms += 5_000
    world.write_markers()
    assert world.present.state is S.COMPLETE_COMMIT
    assert world.present.last_update_ms == world.wall_ms
