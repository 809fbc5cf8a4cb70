"""The transactional producer's machine: what it asks for, and what it makes of every answer."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.client.errors import (
    AbortableTransactionError,
    BrokerError,
    ClientError,
    ConnectionFailed,
    FatalTransactionError,
    ProducerFenced,
    UnsupportedApi,
)
from fencepost.client.metadata import CommittedOffset, TopicPartition
from fencepost.client.produce_queue import Identity
from fencepost.client.protocol.prepared import PreparedTxnState
from fencepost.client.protocol.transaction_errors import Kind, Reaction
from fencepost.client.protocol.transaction_manager import (
    GROUP,
    TRANSACTION,
    Ask,
    State,
    TransactionManager,
)
from fencepost.client.protocol.transaction_requests import ConsumerGroupMetadata
from fencepost.wire.api.add_offsets_to_txn import AddOffsetsToTxnResponse
from fencepost.wire.api.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from fencepost.wire.api.end_txn import EndTxnResponse
from fencepost.wire.api.init_producer_id import InitProducerIdResponse
from fencepost.wire.api.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from fencepost.wire.errors import ErrorCode as E

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
MEMBER = ConsumerGroupMetadata("g", 7, "m", "i")
OFFSETS = {P0: CommittedOffset(5, 2, "note"), P1: CommittedOffset(6)}


def answer(ask: Ask, code: int = 0, identity: tuple[int, int] = (-1, -1)) -> Any:
    """The whole answer to `ask` with one error code."""
    match ask.kind:
        case Kind.INIT_PRODUCER_ID:
            pid, epoch = identity
            return InitProducerIdResponse(error_code=code, producer_id=pid, producer_epoch=epoch)
        case Kind.ADD_PARTITIONS:
            return added(
                {
                    (topic.name, number): code
                    for topic in ask.message.v3_and_below_topics
                    for number in topic.partitions
                }
            )
        case Kind.ADD_OFFSETS:
            return AddOffsetsToTxnResponse(error_code=code)
        case Kind.OFFSET_COMMIT:
            return committed(
                {
                    (topic.name, entry.partition_index): code
                    for topic in ask.message.topics
                    for entry in topic.partitions
                }
            )
    pid, epoch = identity
    return EndTxnResponse(error_code=code, producer_id=pid, producer_epoch=epoch)


def added(codes: dict[tuple[str, int], int]) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(
                name=name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(
                        partition_index=number, partition_error_code=code
                    )
                ],
            )
            for (name, number), code in codes.items()
        ]
    )


def committed(codes: dict[tuple[str, int], int]) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=name,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=number, error_code=code)
                ],
            )
            for (name, number), code in codes.items()
        ]
    )


class Driven:
    """A machine and what it asked for."""

    def __init__(self, level: int) -> None:
        self.manager = TransactionManager("tx", 1234)
        self.manager.transaction_version = level
        self.manager.initialize()
        self.answers(identity=(9, 0))
        assert self.manager.state is State.READY

    def ask(self, kind: Kind) -> Ask:
        found = self.manager.next_request()
        assert found is not None and found.kind is kind, found
        return found

    def answers(self, code: int = 0, identity: tuple[int, int] = (-1, -1)) -> Kind:
        """Answer what is asked for next."""
        ask = self.manager.next_request()
        assert ask is not None
        self.manager.on_response(ask, answer(ask, code, identity))
        return ask.kind

    def begun(self) -> TransactionManager:
        self.manager.begin()
        return self.manager


@pytest.fixture
def tv1() -> Driven:
    return Driven(1)


@pytest.fixture
def tv2() -> Driven:
    return Driven(2)


def test_the_first_request_asks_for_a_producer_id():
    manager = TransactionManager("tx", 1234)
    with pytest.raises(ClientError, match="call init_transactions first"):
        manager.begin()
    assert manager.next_request() is None
    manager.initialize()
    ask = manager.next_request()
    assert ask is not None
    assert (ask.coordinator, ask.key, ask.lowest, ask.highest) == (TRANSACTION, "tx", None, 5)
    sent = ask.message
    assert (sent.transactional_id, sent.transaction_timeout_ms) == ("tx", 1234)
    assert (sent.producer_id, sent.producer_epoch) == (-1, -1)
    assert manager.on_response(ask, answer(ask, E.CONCURRENT_TRANSACTIONS)) is Reaction.SOON
    assert manager.next_request() == ask
    assert manager.on_response(ask, answer(ask, 0, (9, 3))) is Reaction.DONE
    assert (manager.identity, manager.state) == (Identity(9, 3), State.READY)


def test_tv1_adds_partitions_before_batches_may_leave_and_ends(tv1: Driven):
    manager = tv1.begun()
    manager.add_partition(P1)
    manager.add_partition(P0)
    manager.add_partition(P1)
    assert not manager.may_produce(P0)
    ask = tv1.ask(Kind.ADD_PARTITIONS)
    assert ask.highest == 3
    topics = [(t.name, t.partitions) for t in ask.message.v3_and_below_topics]
    assert topics == [("t", [0, 1])]
    assert ask.message.v3_and_below_producer_id == 9
    assert manager.on_response(ask, answer(ask)) is Reaction.DONE
    assert manager.may_produce(P0) and manager.may_produce(P1)
    assert manager.next_request() is None
    assert manager.produce_versions() == (None, 11)
    manager.end(commit=True)
    ask = tv1.ask(Kind.COMMIT)
    assert (ask.lowest, ask.highest, ask.message.committed) == (None, 4, True)
    manager.on_response(ask, answer(ask))
    assert (manager.state, manager.identity) == (State.READY, Identity(9, 0))
    manager.begin()
    assert not manager.may_produce(P0)  # of the transaction before


def test_tv2_sends_neither_partitions_nor_groups_and_takes_over_the_next_epoch(tv2: Driven):
    manager = tv2.begun()
    manager.add_partition(P0)
    assert manager.may_produce(P0) and not manager.may_produce(P1)
    assert manager.next_request() is None
    assert manager.produce_versions() == (12, None)
    manager.add_offsets(OFFSETS, MEMBER)
    ask = tv2.ask(Kind.OFFSET_COMMIT)
    assert (ask.coordinator, ask.key, ask.lowest, ask.highest) == (GROUP, "g", 5, 5)
    manager.on_response(ask, answer(ask))
    manager.end(commit=True)
    ask = tv2.ask(Kind.COMMIT)
    assert ask.lowest == 5
    manager.on_response(ask, answer(ask, 0, (9, 1)))
    assert (manager.state, manager.identity) == (State.READY, Identity(9, 1))


def test_the_epoch_may_run_out_and_another_producer_id_come(tv2: Driven):
    tv2.begun().add_partition(P0)
    tv2.manager.end(commit=False)
    assert tv2.answers(identity=(10, 0)) is Kind.ABORT
    assert tv2.manager.identity == Identity(10, 0)


@pytest.mark.parametrize("level", [1, 2])
def test_nothing_is_sent_to_end_a_transaction_in_which_nothing_was_done(level: int):
    driven = Driven(level)
    for commit in (True, False):
        driven.begun().end(commit=commit)
        assert driven.manager.next_request() is None
        assert driven.manager.state is State.READY


def test_tv1_offsets_go_to_the_transaction_coordinator_and_then_to_the_groups(tv1: Driven):
    manager = tv1.begun()
    manager.add_offsets({}, MEMBER)
    assert manager.next_request() is None
    manager.add_offsets(OFFSETS, MEMBER)
    ask = tv1.ask(Kind.ADD_OFFSETS)
    assert (ask.coordinator, ask.message.group_id) == (TRANSACTION, "g")
    manager.on_response(ask, answer(ask))
    ask = tv1.ask(Kind.OFFSET_COMMIT)
    assert (ask.coordinator, ask.lowest, ask.highest) == (GROUP, 3, 4)
    sent = ask.message
    assert (sent.generation_id_or_member_epoch, sent.member_id, sent.group_instance_id) == MEMBER[
        1:
    ]
    assert [
        (p.partition_index, p.committed_offset, p.committed_leader_epoch, p.committed_metadata)
        for p in sent.topics[0].partitions
    ] == [(0, 5, 2, "note"), (1, 6, -1, "")]
    # What was taken is not sent again.
    half = committed({P0: 0, P1: E.COORDINATOR_LOAD_IN_PROGRESS})
    assert manager.on_response(ask, half) is Reaction.AGAIN
    ask = tv1.ask(Kind.OFFSET_COMMIT)
    assert [p.partition_index for p in ask.message.topics[0].partitions] == [1]
    manager.on_response(ask, answer(ask))
    assert manager.next_request() is None
    manager.add_offsets(OFFSETS, MEMBER)
    tv1.ask(Kind.OFFSET_COMMIT)  # the group is known


def test_what_an_answer_leaves_out_is_asked_for_again_after_a_pause(tv1: Driven):
    manager = tv1.begun()
    manager.add_partition(P0)
    manager.add_partition(P1)
    ask = tv1.ask(Kind.ADD_PARTITIONS)
    assert manager.on_response(ask, added({P0: 0})) is Reaction.AGAIN
    assert manager.may_produce(P0) and not manager.may_produce(P1)
    ask = tv1.ask(Kind.ADD_PARTITIONS)
    assert [t.partitions for t in ask.message.v3_and_below_topics] == [[1]]
    assert manager.on_response(ask, added({})) is Reaction.AGAIN
    tv1.answers()
    manager.add_offsets(OFFSETS, MEMBER)
    tv1.answers()
    assert manager.on_response(tv1.ask(Kind.OFFSET_COMMIT), committed({})) is Reaction.AGAIN


@pytest.mark.parametrize("level", [1, 2])
def test_after_a_failed_batch_only_an_abort_is_left_which_raises_the_epoch(level: int):
    driven = Driven(level)
    manager = driven.begun()
    manager.add_partition(P0)
    if level == 1:
        driven.answers()
    manager.on_produce_failure(BrokerError.of(E.OUT_OF_ORDER_SEQUENCE_NUMBER, "refused"))
    assert manager.state is State.ABORTABLE_ERROR
    assert not manager.may_produce(P0)
    for forbidden in (lambda: manager.add_partition(P0), lambda: manager.end(commit=True)):
        with pytest.raises(AbortableTransactionError, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
            forbidden()
    assert manager.next_request() is None
    manager.end(commit=False)
    assert driven.answers(identity=(-1, -1) if level == 1 else (9, 1)) is Kind.ABORT
    if level == 1:  # KIP-360
        ask = driven.ask(Kind.INIT_PRODUCER_ID)
        assert (ask.lowest, ask.message.producer_id, ask.message.producer_epoch) == (3, 9, 0)
        manager.end(commit=False)  # called again by an application that was interrupted
        with pytest.raises(ClientError, match="being initialized"):
            manager.end(commit=True)
        manager.on_response(ask, answer(ask, 0, (9, 1)))
    assert (manager.state, manager.identity, manager.error) == (State.READY, (9, 1), None)


def test_the_level_of_the_feature_counts_between_transactions_only(tv1: Driven):
    manager = tv1.begun()
    manager.transaction_version = 2
    manager.add_partition(P0)
    tv1.answers()
    assert manager.produce_versions() == (None, 11)
    manager.end(commit=True)
    assert tv1.answers() is Kind.COMMIT
    # KAFKA-18227: a late batch of the old protocol must not join the next transaction.
    assert tv1.answers(identity=(9, 1)) is Kind.INIT_PRODUCER_ID
    assert manager.produce_versions() == (12, None)
    manager.begin()
    manager.transaction_version = 1
    manager.add_partition(P0)
    assert manager.may_produce(P0)
    manager.end(commit=True)
    assert tv1.answers(identity=(9, 2)) is Kind.COMMIT
    assert (manager.state, manager.identity) == (State.READY, Identity(9, 2))
    assert manager.produce_versions() == (None, 11)


@pytest.mark.parametrize("code", [E.PRODUCER_FENCED, E.INVALID_PRODUCER_EPOCH])
def test_a_fenced_producer_is_of_no_use_any_more(tv1: Driven, code: E):
    manager = tv1.begun()
    manager.add_partition(P0)
    tv1.answers(code)
    assert manager.state is State.FATAL_ERROR
    assert manager.next_request() is None
    for call in (manager.begin, lambda: manager.end(commit=False), manager.initialize):
        with pytest.raises(ProducerFenced, match="another producer uses transactional"):
            call()


def test_a_timed_out_transaction_is_abortable_and_goes_on_under_the_coordinators_epoch(tv2: Driven):
    """KIP-588, KIP-890: the coordinator has aborted it, and EndTxn is a retry of that."""
    manager = tv2.begun()
    manager.add_partition(P0)
    manager.on_produce_failure(BrokerError.of(E.INVALID_PRODUCER_EPOCH, "refused"))
    assert manager.state is State.ABORTABLE_ERROR
    manager.end(commit=False)
    tv2.answers(identity=(9, 1))
    assert (manager.state, manager.identity) == (State.READY, Identity(9, 1))


def test_an_unknown_producer_id_skips_endtxn(tv1: Driven):
    manager = tv1.begun()
    manager.add_partition(P0)
    tv1.answers()
    manager.add_partition(P1)
    tv1.answers(E.INVALID_PRODUCER_ID_MAPPING)
    assert manager.state is State.ABORTABLE_ERROR
    manager.end(commit=False)
    assert tv1.answers(identity=(12, 0)) is Kind.INIT_PRODUCER_ID
    assert manager.identity == Identity(12, 0)


def test_a_lost_answer_leaves_in_doubt_whether_there_is_a_transaction_to_abort(tv1: Driven):
    for code in (E.NONE, E.INVALID_TXN_STATE):
        manager = tv1.begun()
        manager.add_partition(P0)
        ask = tv1.ask(Kind.ADD_PARTITIONS)
        assert manager.on_failure(ask, ConnectionFailed("gone")) is Reaction.FIND_COORDINATOR
        assert tv1.ask(Kind.ADD_PARTITIONS) == ask
        manager.end(commit=False)
        assert tv1.answers(code) is Kind.ABORT
        if code:
            assert tv1.answers(identity=(9, 1)) is Kind.INIT_PRODUCER_ID
        assert manager.state is State.READY


def test_the_doubt_outlasts_an_abort_without_an_answer(tv1: Driven):
    """Otherwise the transaction, if there is one, would stay open until it times out."""
    manager = tv1.begun()
    manager.add_partition(P0)
    manager.on_failure(tv1.ask(Kind.ADD_PARTITIONS), ConnectionFailed("gone"))
    manager.end(commit=False)
    for _ in range(2):
        ask = tv1.ask(Kind.ABORT)
        assert manager.on_failure(ask, ConnectionFailed("gone")) is Reaction.FIND_COORDINATOR
        assert manager.is_started
    assert tv1.answers() is Kind.ABORT
    assert manager.state is State.READY and not manager.is_started


def test_a_commit_can_be_given_up_until_it_was_asked_for(tv1: Driven, tv2: Driven):
    """Offsets of a topic that is not there are refused for as long as the application waits."""
    for driven in (tv1, tv2):
        manager = driven.begun()
        manager.add_offsets({P0: CommittedOffset(5)}, MEMBER)
        if driven is tv1:
            driven.answers()
        driven.answers(E.UNKNOWN_TOPIC_OR_PARTITION)
        assert str(manager.refused).startswith("t-0: TxnOffsetCommit was refused")
        manager.end(commit=True)
        assert driven.answers(E.UNKNOWN_TOPIC_OR_PARTITION) is Kind.OFFSET_COMMIT
        manager.end(commit=False)
        assert driven.ask(Kind.ABORT).message.committed is False
        driven.answers(identity=(9, 1))
        assert (manager.state, manager.refused) == (State.READY, None)
        driven.begun()
        manager.add_offsets({P0: CommittedOffset(5)}, MEMBER)
        for _ in range(2 if driven is tv1 else 1):
            driven.answers()
        manager.end(commit=True)
        driven.ask(Kind.COMMIT)
        with pytest.raises(ClientError, match="call commit_transaction again"):
            manager.end(commit=False)


def test_a_commit_can_be_given_up_while_a_partition_is_not_added(tv1: Driven):
    manager = tv1.begun()
    manager.add_partition(P0)
    assert tv1.answers(E.UNKNOWN_TOPIC_OR_PARTITION) is Kind.ADD_PARTITIONS
    assert "t-0: " in str(manager.refused)
    manager.end(commit=True)
    manager.end(commit=False)
    assert manager.next_request() is None and manager.state is State.READY


def test_an_abort_that_is_refused_for_good_is_fatal(tv1: Driven):
    manager = tv1.begun()
    manager.add_partition(P0)
    tv1.answers()
    manager.end(commit=False)
    tv1.answers(E.INVALID_TXN_STATE)
    with pytest.raises(FatalTransactionError, match="INVALID_TXN_STATE"):
        manager.check()


def test_an_abort_whose_coordinator_cannot_be_found_for_good_is_fatal(tv1: Driven):
    """An abort that asks for an abort would be repeated for ever."""
    manager = tv1.begun()
    manager.add_partition(P0)
    tv1.answers()
    manager.end(commit=False)
    refused = BrokerError.of(E.TRANSACTION_ABORTABLE, "no coordinator")
    manager.on_failure(tv1.ask(Kind.ABORT), refused)
    assert manager.state is State.FATAL_ERROR
    with pytest.raises(FatalTransactionError, match="no coordinator"):
        manager.check()


def test_without_a_transaction_there_is_nothing_to_abort():
    manager = TransactionManager("tx", 1234)
    manager.initialize()
    ask = manager.next_request()
    assert ask is not None
    manager.on_response(ask, answer(ask, E.TRANSACTION_ABORTABLE))
    with pytest.raises(FatalTransactionError, match="TRANSACTION_ABORTABLE"):
        manager.begin()


def test_a_commit_goes_on_where_it_was_interrupted(tv1: Driven):
    manager = tv1.begun()
    manager.add_partition(P0)
    tv1.answers()
    manager.end(commit=True)
    ask = tv1.ask(Kind.COMMIT)
    assert manager.on_failure(ask, ConnectionFailed("gone")) is Reaction.FIND_COORDINATOR
    assert manager.on_response(ask, answer(ask, E.NOT_COORDINATOR)) is Reaction.FIND_COORDINATOR
    assert manager.on_response(ask, answer(ask, E.CONCURRENT_TRANSACTIONS)) is Reaction.SOON
    manager.end(commit=True)
    with pytest.raises(ClientError, match="cannot abort: the producer is committing"):
        manager.end(commit=False)  # it may be committed
    assert tv1.ask(Kind.COMMIT) == ask


def test_failures_without_an_answer(tv1: Driven):
    manager = tv1.begun()
    manager.add_offsets(OFFSETS, MEMBER)
    ask = tv1.ask(Kind.ADD_OFFSETS)
    busy = BrokerError.of(E.COORDINATOR_NOT_AVAILABLE, "no coordinator")
    assert manager.on_failure(ask, busy) is Reaction.AGAIN
    refused = BrokerError.of(E.GROUP_AUTHORIZATION_FAILED, "not authorized")
    assert manager.on_failure(ask, refused) is Reaction.ABORT
    assert manager.state is State.ABORTABLE_ERROR
    manager.end(commit=False)
    ask = tv1.ask(Kind.ABORT)
    assert manager.on_failure(ask, UnsupportedApi("too old")) is Reaction.FATAL
    assert manager.state is State.FATAL_ERROR


def test_a_failure_after_the_end_does_not_touch_the_next_transaction(tv2: Driven):
    tv2.manager.on_produce_failure(BrokerError.of(E.PRODUCER_FENCED, "late"))
    assert tv2.manager.state is State.READY


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("is_answered", [True, False])
def test_a_transaction_of_offsets_alone_is_ended(tv2: Driven, commit: bool, is_answered: bool):
    """Also when nobody knows whether the offsets have come (TV2 adds the group by them)."""
    manager = tv2.begun()
    manager.add_offsets(OFFSETS, MEMBER)
    ask = tv2.ask(Kind.OFFSET_COMMIT)
    if is_answered:
        manager.on_response(ask, answer(ask))
    elif commit:
        manager.on_failure(ask, ConnectionFailed("gone"))
        assert tv2.answers() is Kind.OFFSET_COMMIT
    else:
        manager.on_failure(ask, ConnectionFailed("gone"))
    manager.end(commit=commit)
    assert tv2.answers(identity=(9, 1)) is (Kind.COMMIT if commit else Kind.ABORT)
    assert manager.state is State.READY and manager.identity == (9, 1)


def test_tv1_a_group_that_was_added_is_part_of_what_is_ended(tv1: Driven):
    manager = tv1.begun()
    manager.add_offsets(OFFSETS, MEMBER)
    assert [tv1.answers(), tv1.answers()] == [Kind.ADD_OFFSETS, Kind.OFFSET_COMMIT]
    manager.end(commit=True)
    assert tv1.answers() is Kind.COMMIT


def test_the_epoch_is_raised_once_for_one_failure(tv1: Driven):
    manager = tv1.begun()
    manager.add_partition(P0)
    tv1.answers()
    manager.on_produce_failure(BrokerError.of(E.OUT_OF_ORDER_SEQUENCE_NUMBER, "refused"))
    manager.end(commit=False)
    assert tv1.answers() is Kind.ABORT
    assert tv1.answers(identity=(9, 1)) is Kind.INIT_PRODUCER_ID
    for commit in (True, False):
        tv1.begun().add_partition(P0)
        tv1.answers()
        manager.end(commit=commit)
        assert tv1.answers() is (Kind.COMMIT if commit else Kind.ABORT)
        assert manager.state is State.READY


@pytest.mark.parametrize("level", [1, 2])
def test_what_was_not_sent_before_an_abort_is_not_sent_in_the_next_transaction(level: int):
    driven = Driven(level)
    manager = driven.begun()
    manager.add_partition(P0)
    manager.add_offsets(OFFSETS, MEMBER)
    if level == 1:
        driven.answers()
        manager.add_partition(P1)
    manager.end(commit=False)  # with an error or without
    driven.answers(identity=(9, 1))
    driven.begun()
    assert manager.next_request() is None
    manager.add_offsets(OFFSETS, MEMBER)
    if level == 1:
        driven.answers()
    ask = driven.ask(Kind.OFFSET_COMMIT)
    assert manager.on_response(ask, answer(ask, E.GROUP_AUTHORIZATION_FAILED)) is Reaction.ABORT
    manager.end(commit=False)
    driven.answers(identity=(9, 2))
    if manager.state is State.INITIALIZING:
        driven.answers(identity=(9, 2))
    driven.begun()
    assert manager.next_request() is None


def test_what_became_of_one_transaction_says_nothing_of_the_next(tv1: Driven):
    """What was added, what is in doubt, and that the coordinator had forgotten the producer."""
    manager = tv1.begun()
    manager.add_partition(P0)
    tv1.answers()
    manager.end(commit=True)
    assert tv1.answers() is Kind.COMMIT
    tv1.begun().end(commit=True)
    assert manager.next_request() is None, "nothing was added"

    tv1.begun().add_partition(P0)
    manager.on_failure(tv1.ask(Kind.ADD_PARTITIONS), ConnectionFailed("gone"))
    manager.end(commit=False)
    assert tv1.answers() is Kind.ABORT
    tv1.begun().end(commit=False)
    assert manager.next_request() is None, "nothing is in doubt"

    tv1.begun().add_partition(P0)
    tv1.answers()
    manager.on_produce_failure(BrokerError.of(E.UNKNOWN_PRODUCER_ID, "forgotten"))
    manager.end(commit=False)
    assert tv1.answers(identity=(9, 1)) is Kind.INIT_PRODUCER_ID
    tv1.begun().add_partition(P0)
    tv1.answers()
    manager.end(commit=True)
    assert tv1.answers() is Kind.COMMIT, "the coordinator knows of this one"


# -- two-phase commits (KIP-939) -------------------------------------------------------------------


def two_phase(*, keep_prepared: bool = False, **response: int) -> TransactionManager:
    manager = TransactionManager("tx", 1234, two_phase_commit=True)
    manager.transaction_version = 2
    manager.initialize(keep_prepared=keep_prepared)
    ask = manager.next_request()
    assert ask is not None and (ask.lowest, ask.highest) == (6, 6)
    assert ask.message.enable_2pc and ask.message.keep_prepared_txn is keep_prepared
    manager.on_response(ask, InitProducerIdResponse(producer_id=9, producer_epoch=3, **response))
    return manager


@pytest.mark.parametrize("commit", [True, False])
def test_a_prepared_transaction_can_only_be_ended(commit: bool):
    manager = two_phase()
    manager.begin()
    manager.add_partition(P0)
    prepared = manager.prepare()
    assert (prepared, manager.state) == (PreparedTxnState(9, 3), State.PREPARED)
    assert manager.is_open and manager.next_request() is None
    for forbidden in (
        manager.begin,
        manager.initialize,
        manager.prepare,
        lambda: manager.add_partition(P1),
        lambda: manager.add_offsets(OFFSETS, MEMBER),
    ):
        with pytest.raises(ClientError, match="in a prepared transaction"):
            forbidden()
    assert manager.is_prepared_as(prepared)
    assert not manager.is_prepared_as(PreparedTxnState(9, 2))
    manager.end(commit=commit)
    ask = manager.next_request()
    assert ask is not None and ask.kind is (Kind.COMMIT if commit else Kind.ABORT)
    assert manager.is_prepared_as(prepared), "should the end be interrupted"
    manager.on_response(ask, answer(ask, identity=(9, 4)))
    assert (manager.state, manager.prepared) == (State.READY, PreparedTxnState())
    with pytest.raises(ClientError, match="call begin_transaction first"):
        manager.is_prepared_as(prepared)


def test_what_another_producer_prepared_is_kept_and_ended_with_the_new_epoch():
    manager = two_phase(keep_prepared=True, ongoing_txn_producer_id=7, ongoing_txn_producer_epoch=2)
    assert (manager.state, manager.prepared) == (State.PREPARED, PreparedTxnState(7, 2))
    manager.end(commit=True)
    ask = manager.next_request()
    assert ask is not None and ask.kind is Kind.COMMIT
    assert (ask.message.producer_id, ask.message.producer_epoch) == (9, 3)


def test_without_a_kept_transaction_the_producer_is_ready():
    manager = two_phase(keep_prepared=True)
    assert (manager.state, manager.prepared.has_transaction) == (State.READY, False)


def test_a_transaction_that_is_not_prepared_is_not_completed():
    manager = two_phase()
    manager.begin()
    with pytest.raises(ClientError, match="committed or aborted first"):
        manager.is_prepared_as(PreparedTxnState(9, 3))
    manager.end(commit=False)
    with pytest.raises(ClientError, match="none is prepared"):
        manager.is_prepared_as(PreparedTxnState(9, 3))


def test_two_phase_commits_have_to_be_asked_for():
    manager = TransactionManager("tx", 1234)
    for forbidden in (lambda: manager.initialize(keep_prepared=True), manager.prepare):
        with pytest.raises(ClientError, match=r"two\.phase\.commit\.enable=true"):
            forbidden()


def test_a_broker_without_version_6_is_told_of_by_name():
    manager = TransactionManager("tx", 1234, two_phase_commit=True)
    manager.initialize()
    ask = manager.next_request()
    assert ask is not None
    manager.on_failure(ask, UnsupportedApi("it serves versions 0-5"))
    with pytest.raises(FatalTransactionError, match=r"needs InitProducerId version 6 .*0-5"):
        manager.check()


def test_a_broker_that_cannot_keep_a_prepared_transaction_is_told_of():
    manager = TransactionManager("tx", 1234, two_phase_commit=True)
    manager.initialize(keep_prepared=True)
    ask = manager.next_request()
    assert ask is not None
    manager.on_response(ask, answer(ask, E.UNSUPPORTED_VERSION))
    with pytest.raises(FatalTransactionError, match="cannot keep a prepared transaction"):
        manager.check()
