"""The in-sync set and the high watermark with several replicas, seen from the leader."""

from __future__ import annotations

import pytest

from fencepost.batch.control import build_end_txn_marker
from fencepost.batch.record_batch import RecordBatch
from fencepost.batch.records import build_batch
from fencepost.machines.effects import CONTROLLER, Append
from fencepost.machines.partition import (
    TICKET_NOT_NEEDED,
    AlterPartition,
    AlterPartitionAnswered,
    BecomeLeader,
    BrokersChanged,
    FollowerFetched,
    PartitionConfig,
    Produce,
    RecoveryState,
)
from fencepost.machines.partition.in_sync import ALTER_PARTITION_TIMER
from fencepost.wire.errors import ErrorCode

from .test_partition_produce import KEY, Leader

LAG_MS = PartitionConfig().replica_lag_time_max_ms


def proposals(leader: Leader) -> list[tuple[int, ...]]:
    """The in-sync sets asked for since the last call."""
    asked = []
    for _, to, message in leader.world.take_sent():
        assert to == CONTROLLER and isinstance(message, AlterPartition)
        asked.append(tuple(replica.broker_id for replica in message.new_isr))
    return asked


def accept(leader: Leader, isr: tuple[int, ...], partition_epoch: int) -> None:
    leader.feed(AlterPartitionAnswered(0, leader.machine.leader_epoch, partition_epoch, isr))


def test_the_high_watermark_is_the_least_durable_position_in_sync() -> None:
    leader = Leader((1, 2, 3))
    token = leader.produce(count=10)
    leader.fetched(2, 10)
    leader.fetched(3, 4)
    assert leader.machine.high_watermark == 0, "the leader itself has not flushed"
    leader.flush()
    assert leader.machine.high_watermark == 4
    leader.fetched(3, 10)
    assert leader.machine.high_watermark == 10
    assert leader.error(token) is ErrorCode.NONE


def test_a_follower_of_another_epoch_proves_nothing() -> None:
    leader = Leader((1, 2))
    leader.lead(2, 2, (1, 2), (1, 2))
    leader.produce()
    leader.flush()
    leader.fetched(2, 1, leader_epoch=1)
    assert leader.machine.high_watermark == 0
    leader.fetched(2, 1, leader_epoch=2)
    assert leader.machine.high_watermark == 1


def test_positions_of_an_earlier_leader_epoch_are_forgotten() -> None:
    leader = Leader((1, 2))
    leader.produce(count=5)
    leader.flush()
    leader.fetched(2, 5)
    leader.produce(count=5)
    leader.fetched(2, 10)
    leader.lead(2, 2, (1, 2), (1, 2))
    leader.flush()
    assert leader.machine.high_watermark == 5


def test_positions_outlive_a_change_of_the_assignment() -> None:
    leader = Leader((1, 2))
    leader.produce(count=5)
    leader.fetched(2, 5)
    leader.lead(1, 2, (1, 2, 3), (1, 2))
    leader.flush()
    assert leader.machine.high_watermark == 5


def test_transactions_below_the_high_watermark_are_forgotten() -> None:
    leader = Leader()
    of_producer = {"timestamp_ms": 1, "producer_id": 7, "producer_epoch": 0}
    data = build_batch([(None, b"v")], base_sequence=0, transactional=True, **of_producer)
    leader.feed(Produce(RecordBatch.parse(data), 1, "t", 0, TICKET_NOT_NEEDED))
    marker = build_end_txn_marker(committed=True, coordinator_epoch=1, **of_producer)
    leader.log.append(Append((RecordBatch.parse(marker),), 1))
    states = leader.log.producers
    assert (leader.machine.last_stable_offset, states.first_unstable_offset(0)) == (0, 0)
    leader.flush()
    assert (leader.machine.high_watermark, leader.machine.last_stable_offset) == (2, 2)
    assert states.first_unstable_offset(0) is None


@pytest.mark.parametrize("fetcher", [FollowerFetched(9, 1), FollowerFetched(2, 99, 102)])
def test_a_fetch_that_cannot_be_changes_nothing(fetcher: FollowerFetched) -> None:
    leader = Leader((1, 2))
    leader.produce()
    leader.flush()
    leader.feed(fetcher)
    assert leader.machine.high_watermark == 0 and proposals(leader) == []


@pytest.mark.parametrize("registered", [102, 500])
def test_a_former_incarnation_changes_nothing(registered: int) -> None:
    """KAFKA-15221: its fetch may come late, when a younger one has fetched or is registered."""
    leader = Leader((1, 2), isr=(1,))
    leader.produce()
    leader.flush()
    if registered == 102:
        leader.feed(FollowerFetched(2, 0, 103))
    else:
        leader.feed(BrokersChanged({1: 101, 2: registered}))
    before = leader.machine.follower_state(2).offset
    leader.fetched(2, 1)
    assert leader.machine.follower_state(2).offset == before
    assert proposals(leader) == []
    asked = leader.machine.check_fetch(fetch_offset=1, replica_id=2, broker_epoch=102)
    assert asked is ErrorCode.NOT_LEADER_OR_FOLLOWER
    leader.feed(FollowerFetched(2, 1))
    assert leader.machine.follower_state(2).offset == 1, "one of before KIP-903 names no epoch"


# Expansion


def test_a_follower_that_caught_up_is_proposed_and_counts_at_once() -> None:
    leader = Leader((1, 2, 3), isr=(1,))
    leader.produce(count=4)
    leader.flush()
    assert leader.machine.high_watermark == 4
    leader.fetched(2, 4)
    assert proposals(leader) == [(1, 2)]
    token = leader.produce()
    leader.flush()
    assert leader.answer(token) is None, "the controller may have accepted already"
    accept(leader, (1, 2), 2)
    assert leader.machine.isr == {1, 2}
    leader.fetched(2, 5)
    assert leader.error(token) is ErrorCode.NONE


def test_changes_of_the_in_sync_set_are_counted() -> None:
    leader = Leader((1, 2, 3), isr=(1, 3))

    def counted() -> tuple[int, int, int]:
        changes = leader.machine.isr_changes
        return changes.shrinks, changes.expands, changes.failures

    leader.fetched(2, 0)
    assert counted() == (0, 0, 0), "it is asked for"
    accept(leader, (1, 2, 3), 2)
    assert counted() == (0, 1, 0)
    leader.lead(1, 3, (1, 2, 3), (1, 2))
    assert counted() == (1, 1, 0), "the controller dropped one"
    leader.lead(1, 3, (1, 2, 3), (1, 2))
    assert counted() == (1, 1, 0), "it is told twice"
    leader.fetched(3, 0)
    refused = int(ErrorCode.INELIGIBLE_REPLICA)
    leader.feed(AlterPartitionAnswered(refused, leader.machine.leader_epoch))
    assert counted() == (1, 1, 1)
    leader.lead(2, 4, (1, 2, 3), (1, 2, 3))
    assert counted() == (1, 1, 1), "a leader epoch begins with the set that it is told"


def test_one_request_at_a_time() -> None:
    leader = Leader((1, 2, 3), isr=(1,))
    leader.fetched(2, 0)
    leader.fetched(3, 0)
    assert proposals(leader) == [(1, 2)]
    accept(leader, (1, 2), 2)
    leader.fetched(3, 0)
    assert proposals(leader) == [(1, 2, 3)]


def test_reaching_the_high_watermark_below_the_epochs_start_is_not_enough() -> None:
    """KAFKA-7128: what lies between may have been acknowledged by an earlier leader."""
    leader = Leader((1, 2, 3), isr=(1, 3))
    leader.fetched(3, 0)
    leader.produce(count=10)
    leader.flush()
    leader.lead(2, 2, (1, 2, 3), (1, 3))
    assert leader.machine.high_watermark == 0
    leader.fetched(2, 6)
    assert proposals(leader) == []
    leader.fetched(2, 10)
    assert proposals(leader) == [(1, 2, 3)]


def test_with_too_few_in_sync_who_joins_is_caught_up() -> None:
    """KAFKA-19996: the high watermark stands still, and who has reached it may be far behind."""
    leader = Leader((1, 2, 3), isr=(1,), config=PartitionConfig(min_insync_replicas=2))
    leader.produce(count=10, acks=1)
    leader.flush()
    assert leader.machine.high_watermark == 0
    leader.fetched(2, 0)
    leader.fetched(2, 9)
    assert proposals(leader) == []
    leader.fetched(2, 10)
    assert proposals(leader) == [(1, 2)]
    accept(leader, (1, 2), 2)
    assert leader.machine.high_watermark == 10
    leader.produce(count=10)
    leader.fetched(3, 10)
    assert proposals(leader) == [(1, 2, 3)], "with enough of them, as ever"


def test_who_was_at_the_end_a_moment_ago_joins_though_too_few_are_in_sync() -> None:
    """A leader that is written to all the time never sees a follower at its very end."""
    leader = Leader((1, 2), isr=(1,), config=PartitionConfig(min_insync_replicas=2))
    leader.produce(count=10, acks=1)
    leader.fetched(2, 5)
    leader.produce(count=10, acks=1)
    assert proposals(leader) == []
    leader.fetched(2, 10)
    assert proposals(leader) == [(1, 2)]


@pytest.mark.parametrize("eligible", [{1: 101}, {1: 101, 2: 999}])
def test_a_fenced_broker_or_another_incarnation_is_not_proposed(eligible: dict[int, int]) -> None:
    leader = Leader((1, 2), isr=(1,))
    leader.feed(BrokersChanged(eligible))
    leader.fetched(2, 0)
    assert proposals(leader) == []
    leader.feed(BrokersChanged({1: 101, 2: 102}))
    leader.fetched(2, 0)
    assert proposals(leader) == [(1, 2)]


def test_the_proposal_names_the_incarnation_that_fetched() -> None:
    """KIP-903: the controller is to refuse if the broker was born again meanwhile."""
    leader = Leader((1, 2), isr=(1,))
    leader.fetched(2, 0)
    leader.feed(BrokersChanged({1: 101, 2: 500}))
    leader.world.advance(2_000)
    sent = [message.new_isr for _, _, message in leader.world.take_sent()]
    assert len(sent) >= 2 and set(sent) == {((1, 101), (2, 102))}


def test_a_proposal_names_every_member_as_it_fetched_not_as_it_is_registered_now() -> None:
    """KIP-903: the leader does not know the log of a member's newer incarnation."""
    leader = Leader((1, 2, 3))
    leader.fetched(2, 0)
    leader.fetched(3, 0)
    leader.produce()
    leader.world.advance(3 * LAG_MS // 4)
    leader.fetched(3, 1)
    leader.feed(BrokersChanged({1: 101, 2: 102, 3: 500}))
    leader.world.advance(LAG_MS)
    asked = [message.new_isr for _, _, message in leader.world.take_sent()]
    assert asked and set(asked) == {((1, 101), (3, 103))}


def test_a_proposal_names_no_incarnation_for_a_follower_that_named_none() -> None:
    leader = Leader((1, 2), isr=(1,))
    leader.feed(FollowerFetched(2, 0))
    ((_, _, message),) = leader.world.take_sent()
    assert message.new_isr == ((1, 101), (2, -1))


def test_a_proposed_member_does_not_count_towards_the_minimum() -> None:
    leader = Leader((1, 2), isr=(1,), config=PartitionConfig(min_insync_replicas=2))
    leader.fetched(2, 0)
    assert proposals(leader) == [(1, 2)]
    assert leader.error(leader.produce()) is ErrorCode.NOT_ENOUGH_REPLICAS
    leader.produce(1)
    leader.flush()
    leader.fetched(2, 1)
    assert leader.machine.high_watermark == 0
    accept(leader, (1, 2), 2)
    assert leader.machine.high_watermark == 1


def test_a_caught_up_replica_that_is_joining_is_waited_for() -> None:
    """Or it would never be caught up at the moment it is added."""
    leader = Leader((1, 2, 3), isr=(1, 3))
    leader.fetched(3, 0)
    leader.feed(AlterPartitionAnswered(ErrorCode.UNKNOWN_SERVER_ERROR))
    leader.fetched(2, 0)
    proposals(leader)
    leader.feed(AlterPartitionAnswered(ErrorCode.INELIGIBLE_REPLICA))
    leader.produce()
    leader.flush()
    leader.fetched(3, 1)
    assert leader.machine.high_watermark == 0
    leader.fetched(2, 1)
    assert leader.machine.high_watermark == 1


def test_a_replica_in_controlled_shutdown_is_not_waited_for() -> None:
    """KAFKA-15021: it left the set without a new leader epoch and still looks caught up."""
    leader = Leader((1, 2))
    leader.fetched(2, 0)
    leader.produce()
    leader.flush()
    leader.eligible = {1: 101}
    leader.lead(1, 2, (1, 2), (1,))
    assert leader.machine.high_watermark == 1


# Shrinking


def test_a_follower_that_falls_behind_is_dropped_after_the_lag() -> None:
    leader = Leader((1, 2, 3))
    leader.fetched(2, 0)
    leader.fetched(3, 0)
    leader.produce(count=4)
    leader.flush()
    for _ in range(4):
        leader.world.advance(LAG_MS // 2)
        leader.fetched(3, 4)
    assert (1, 3) in proposals(leader)
    assert leader.machine.high_watermark == 0, "a shrink counts when it is committed"
    accept(leader, (1, 3), 2)
    assert leader.machine.high_watermark == 4


def test_a_follower_that_asks_for_the_end_of_its_last_fetch_keeps_up() -> None:
    """It is never at the end while writes go on, but not behind for long either."""
    leader = Leader((1, 2))
    offset = 0
    for _ in range(10):
        leader.produce()
        leader.fetched(2, offset)
        offset = leader.machine.log_end_offset
        leader.world.advance(LAG_MS // 4)
    assert proposals(leader) == []


def test_asking_for_the_end_of_the_last_fetch_counts_as_of_that_fetch() -> None:
    """Not as of now: what was written since then it does not have."""
    leader = Leader((1, 2))
    leader.produce()
    leader.fetched(2, 0)
    leader.world.advance(LAG_MS - 1)
    leader.produce()
    leader.fetched(2, 1)
    leader.world.advance(LAG_MS // 2)
    assert proposals(leader) == []
    leader.world.advance(1)
    assert (1,) in proposals(leader)


def test_who_asks_all_the_time_and_never_for_what_was_the_end_is_dropped() -> None:
    leader = Leader((1, 2))
    for offset in range(0, 40, 2):
        leader.produce(count=4)
        leader.fetched(2, offset)
        leader.world.advance(LAG_MS // 4)
    assert (1,) in proposals(leader)


def test_no_replica_is_dropped_while_a_request_is_in_flight() -> None:
    """One at a time: the answer to the first would be taken for one to the second."""
    leader = Leader((1, 2, 3), isr=(1, 3))
    leader.produce()
    leader.fetched(2, 1)
    assert proposals(leader) == [(1, 2, 3)]
    asked = leader.machine.proposal
    leader.world.advance(2 * LAG_MS)
    assert leader.machine.proposal == asked
    assert set(proposals(leader)) == {(1, 2, 3)}, "asked again, and for nothing else"


def test_a_joining_replica_that_falls_behind_is_waited_for_no_longer_than_the_lag() -> None:
    """No other replica fetches meanwhile: the timer alone has to notice."""
    leader = Leader((1, 2, 3), isr=(1, 3))
    leader.fetched(2, 0)
    leader.feed(AlterPartitionAnswered(ErrorCode.INELIGIBLE_REPLICA))
    token = leader.produce(timeout_ms=10 * LAG_MS)
    leader.flush()
    leader.fetched(3, 1)
    assert leader.answer(token) is None
    leader.world.advance(2 * LAG_MS)
    assert leader.error(token) is ErrorCode.NONE


def test_an_idle_follower_at_the_end_stays() -> None:
    leader = Leader((1, 2))
    leader.fetched(2, 0)
    leader.world.advance(10 * LAG_MS)
    assert proposals(leader) == []


def test_who_has_everything_is_not_watched() -> None:
    """Thousands of partitions without writes cost no timers."""
    leader = Leader((1, 2, 3))
    assert (KEY, "isr") in leader.world.timers, "no follower has fetched yet"
    leader.fetched(2, 0)
    leader.fetched(3, 0)
    leader.world.advance(LAG_MS)
    assert (KEY, "isr") not in leader.world.timers
    leader.produce(1)
    leader.world.advance(2 * LAG_MS)
    assert (1,) in proposals(leader), "an append starts the timer"


def test_a_follower_that_has_less_than_before_is_watched() -> None:
    """It came back with an empty disk, and no producer writes."""
    leader = Leader((1, 2))
    leader.produce()
    leader.fetched(2, 1)
    leader.world.advance(LAG_MS)
    assert (KEY, "isr") not in leader.world.timers
    leader.fetched(2, 0)
    leader.world.advance(2 * LAG_MS)
    assert (1,) in proposals(leader)


def test_a_joining_replica_alone_is_not_waited_for_without_end() -> None:
    leader = Leader((1, 2), isr=(1,))
    leader.fetched(2, 0)
    leader.feed(AlterPartitionAnswered(ErrorCode.INELIGIBLE_REPLICA))
    token = leader.produce(timeout_ms=10 * LAG_MS)
    leader.flush()
    assert leader.answer(token) is None
    leader.world.advance(2 * LAG_MS)
    assert leader.error(token) is ErrorCode.NONE


def test_a_lone_leader_watches_no_follower() -> None:
    leader = Leader()
    leader.produce()
    assert (KEY, "isr") not in leader.world.timers


# What the controller answers


@pytest.mark.parametrize("error", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
def test_a_refused_member_is_given_up_and_tried_again(error: ErrorCode) -> None:
    leader = Leader((1, 2), isr=(1,))
    leader.fetched(2, 0)
    assert proposals(leader) == [(1, 2)]
    leader.feed(AlterPartitionAnswered(error))
    leader.world.advance(60_000)
    assert proposals(leader) == []
    leader.fetched(2, 0)
    assert proposals(leader) == [(1, 2)]


def test_a_refused_member_is_not_waited_for() -> None:
    leader = Leader((1, 2), isr=(1,))
    leader.fetched(2, 0)
    token = leader.produce()
    leader.feed(BrokersChanged({1: 101}))
    leader.flush()
    assert leader.answer(token) is None, "it may have been added before it was fenced"
    leader.feed(AlterPartitionAnswered(ErrorCode.INELIGIBLE_REPLICA))
    assert leader.error(token) is ErrorCode.NONE


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    ],
)
def test_an_outdated_request_counts_as_possible_until_metadata_comes(error: ErrorCode) -> None:
    leader = Leader((1, 2), isr=(1,))
    leader.fetched(2, 0)
    proposals(leader)
    leader.feed(AlterPartitionAnswered(error))
    leader.world.advance(60_000)
    assert proposals(leader) == []
    leader.produce(1)
    leader.flush()
    assert leader.machine.high_watermark == 0, "it may have been accepted"
    leader.lead(1, 7, (1, 2), (1,))
    leader.feed(BrokersChanged({1: 101}))
    assert leader.machine.high_watermark == 1


@pytest.mark.parametrize("error", [ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, 999])
def test_anything_else_is_asked_again_unchanged(error: int) -> None:
    leader = Leader((1, 2), isr=(1,))
    leader.fetched(2, 0)
    first = leader.world.take_sent()
    leader.feed(AlterPartitionAnswered(error))
    leader.world.advance(leader.machine.config.alter_partition_retry_ms)
    assert leader.world.take_sent() == first


def test_a_lost_request_is_asked_again() -> None:
    leader = Leader((1, 2), isr=(1,))
    leader.fetched(2, 0)
    assert proposals(leader) == [(1, 2)]
    leader.world.advance(3 * leader.machine.config.alter_partition_retry_ms)
    assert proposals(leader) == [(1, 2)] * 3


@pytest.mark.parametrize(
    "answer",
    [
        AlterPartitionAnswered(0, 9, 5, (1, 2)),
        AlterPartitionAnswered(0, 1, 0, (1, 2)),
    ],
)
def test_answers_of_another_leader_epoch_or_of_the_past_are_ignored(
    answer: AlterPartitionAnswered,
) -> None:
    leader = Leader((1, 2), isr=(1,))
    leader.fetched(2, 0)
    leader.feed(answer)
    assert leader.machine.isr == {1}


def test_a_doubled_answer_changes_nothing_more() -> None:
    leader = Leader((1, 2, 3), isr=(1,))
    leader.fetched(2, 0)
    accept(leader, (1, 2), 2)
    leader.fetched(3, 0)
    accept(leader, (1, 2, 3), 3)
    leader.feed(AlterPartitionAnswered(0, 1, 2, (1, 2)))
    assert leader.machine.isr == {1, 2, 3}


def test_metadata_may_be_faster_than_the_answer() -> None:
    leader = Leader((1, 2), isr=(1,))
    leader.fetched(2, 0)
    assert (KEY, ALTER_PARTITION_TIMER) in leader.world.timers
    leader.lead(1, 2, (1, 2), (1, 2))
    assert (KEY, ALTER_PARTITION_TIMER) not in leader.world.timers, "it is not asked again"
    accept(leader, (1, 2), 2)
    assert leader.machine.isr == {1, 2}
    leader.lead(1, 1, (1, 2), (1,))
    assert leader.machine.isr == {1, 2}, "an outdated answer"


def test_a_leader_elected_uncleanly_says_so_with_its_next_request_alone() -> None:
    """KIP-704: nothing is sent to end the recovery; whatever is asked for next ends it."""
    leader = Leader((1, 2))
    leader.feed(BecomeLeader(2, 2, (1, 2), (1,), {1: 101, 2: 102}, RecoveryState.RECOVERING))
    leader.world.advance(10 * LAG_MS)
    assert leader.world.take_sent() == []
    leader.fetched(2, 0)
    ((_, _, asked),) = leader.world.take_sent()
    assert asked.recovery_state is RecoveryState.RECOVERED
    assert [replica.broker_id for replica in asked.new_isr] == [1, 2]


def test_an_answer_to_something_else_changes_nothing() -> None:
    """What is asked for now may have been accepted, whatever became of what was asked before."""
    leader = Leader((1, 2, 3), isr=(1,))
    leader.fetched(2, 0)
    ((_, _, first),) = leader.world.take_sent()
    leader.lead(1, 2, (1, 2, 3), (1,))
    leader.fetched(3, 0)
    ((_, _, second),) = leader.world.take_sent()
    assert first.new_isr != second.new_isr
    leader.feed(AlterPartitionAnswered(ErrorCode.INELIGIBLE_REPLICA, asked=first))
    assert leader.machine.proposal == second
    leader.feed(AlterPartitionAnswered(0, 1, 2, (1, 2), asked=first))
    assert leader.machine.isr == {1}
    leader.feed(AlterPartitionAnswered(0, 1, 3, (1, 3), asked=second))
    assert leader.machine.isr == {1, 3}


def test_an_answer_that_changes_nothing_is_an_answer() -> None:
    """The controller has that in-sync set already, and so the same partition epoch."""
    leader = Leader((1, 2), isr=(1,))
    leader.fetched(2, 0)
    proposal = leader.machine.proposal
    assert proposal is not None
    accept(leader, (1, 2), proposal.partition_epoch)
    assert (leader.machine.proposal, leader.machine.isr) == (None, {1, 2})


def test_an_answer_overtakes_the_image() -> None:
    """The image has the same partition epoch then, and says who the replicas are now."""
    leader = Leader((1, 2, 3), isr=(1,))
    leader.fetched(2, 0)
    accept(leader, (1, 2), 5)
    leader.fetched(3, 0)
    proposals(leader)
    proposal = leader.machine.proposal
    assert proposal is not None and proposal.partition_epoch == 5
    leader.lead(1, 5, (1, 2, 3), (1, 2))
    assert leader.machine.proposal == proposal, "it is still under way"
    leader.lead(1, 5, (1, 2), (1, 2))
    assert leader.machine.replica_count == 2
    leader.lead(1, 4, (1,), (1,))
    assert leader.machine.replica_count == 2, "older than what is known"


def test_a_leader_that_stops_adds_no_replica() -> None:
    """The controller takes no in-sync set with a broker that is about to stop."""
    leader = Leader((1, 2), isr=(1,))
    leader.feed(BrokersChanged({2: 102}))
    leader.fetched(2, 0)
    assert proposals(leader) == []
    assert leader.machine.follower_state(2).offset == 0


# A leader that was stopped itself


def pause(leader: Leader, by_ms: int) -> None:
    """The process does not run for a while (SIGSTOP): timers fire late, and at once."""
    leader.world.now += by_ms


def test_a_paused_leader_does_not_blame_its_followers_when_it_wakes() -> None:
    """What they have sent meanwhile is still to be read."""
    leader = Leader((1, 2, 3))
    leader.fetched(2, 0)
    leader.fetched(3, 0)
    leader.produce()
    pause(leader, 10 * LAG_MS)
    leader.world.advance(0)
    assert proposals(leader) == []
    leader.fetched(2, 1)
    for _ in range(4):
        leader.world.advance(LAG_MS // 4)
        leader.fetched(2, 1)
    leader.world.advance(LAG_MS // 2)
    assert proposals(leader)[:1] == [(1, 2)], "who stays away has as long as ever"


def test_a_pause_excuses_no_follower_that_fell_behind_before() -> None:
    leader = Leader((1, 2))
    leader.fetched(2, 0)
    leader.produce()
    leader.world.advance(LAG_MS)
    assert proposals(leader) == []
    pause(leader, 10 * LAG_MS)
    leader.world.advance(0)
    assert (1,) in proposals(leader)


def test_what_a_follower_asked_for_before_the_pause_counts_as_of_then() -> None:
    """It asks next for what was the end when it asked last: the pause lies between."""
    leader = Leader((1, 2))
    leader.produce()
    leader.world.advance(LAG_MS // 4)
    leader.fetched(2, 0)
    pause(leader, 10 * LAG_MS)
    leader.world.advance(0)
    state = leader.machine.follower_state(2)
    assert state is not None
    before = state.last_caught_up_ms
    leader.produce()
    leader.fetched(2, 1)
    assert state.last_caught_up_ms == before + LAG_MS // 4
