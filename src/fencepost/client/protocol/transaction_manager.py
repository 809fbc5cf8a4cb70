"""One transactional producer, without I/O: what it may do, what to send next, what answers mean.

    UNINITIALIZED --initialize--> INITIALIZING --InitProducerId--> READY
    READY --begin--> IN_TRANSACTION --end--> COMMITTING or ABORTING --EndTxn--> READY
    IN_TRANSACTION or COMMITTING --an error--> ABORTABLE_ERROR --end(abort)--> ABORTING
    COMMITTING, and something is still to be added --end(abort)--> ABORTING
    IN_TRANSACTION --prepare--> PREPARED --end--> COMMITTING or ABORTING
    any --fenced, or what nothing helps--> FATAL_ERROR

A face (blocking or asyncio) calls what the application wants (`begin`, `add_partition`,
`add_offsets`, `end`), and then sends what `next_request` says to the coordinator that it names,
hands the answer to `on_response`, or the failure to `on_failure`, and does what the `Reaction` says
(pause, find the coordinator again), until there is no request left. One request is on its way at a
time. What an error means is a table in `transaction_errors`.

Two protocols (KIP-890), by the level at which the cluster runs `transaction.version`:

* below 2 (TV1) the producer tells the coordinator of every partition before it writes there
  (AddPartitionsToTxn), of the group (AddOffsetsToTxn), and keeps its epoch over transactions;
* from 2 on (TV2) the first Produce or TxnOffsetCommit to a partition adds it, and every EndTxn
  answers with the producer id and epoch of the next transaction.

The level counts between transactions only; going from TV1 to TV2 the epoch is raised, so that a
late TV1 batch does not become part of a TV2 transaction (KAFKA-18227). After a failed batch the
epoch is raised too, so that nothing of it appears later (KIP-360): by EndTxn in TV2, by
InitProducerId with the current id and epoch in TV1.

With two-phase commits (KIP-939) the coordinator never aborts a transaction that lasts long. A
prepared one can only be ended; `initialize` may keep the one that an earlier producer prepared,
where the broker can, and then it is PREPARED here, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from fencepost.client.errors import (
    AbortableTransactionError,
    BrokerError,
    ClientError,
    FatalTransactionError,
    ProducerFenced,
    TransactionError,
    UnsupportedApi,
    refusal,
)
from fencepost.client.metadata import CommittedOffset, TopicPartition
from fencepost.client.produce_queue import Identity
from fencepost.client.protocol.prepared import PreparedTxnState
from fencepost.client.protocol.transaction_errors import Kind, Reaction, reaction_to, worst
from fencepost.client.protocol.transaction_requests import (
    ConsumerGroupMetadata,
    add_offsets_request,
    add_partitions_request,
    end_request,
    init_request,
    offset_commit_request,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Request
from fencepost.wire.types import Uuid

GROUP: Final = 0
TRANSACTION: Final = 1
"""Kinds of coordinators, as FindCoordinator has them."""
FIRST_TV2: Final = 2
"""Level of the feature `transaction.version` from which on clients speak TV2."""

INIT_LOWEST_FOR_BUMP: Final = 3
INIT_HIGHEST: Final = 5
INIT_FIRST_2PC: Final = 6
ADD_PARTITIONS_HIGHEST: Final = 3  # later versions are for brokers
END_FIRST_TV2: Final = 5
OFFSET_COMMIT_FIRST_TV2: Final = 5
OFFSET_COMMIT_BY_ID: Final = 6
NO_IDS: Final[Mapping[str, Uuid]] = MappingProxyType({})
OFFSET_COMMIT_FIRST_OF_MEMBERS: Final = 3
PRODUCE_FIRST_TV2: Final = 12


class State(Enum):
    """Where the producer stands; see the module."""

    UNINITIALIZED = auto()
    INITIALIZING = auto()
    READY = auto()
    IN_TRANSACTION = auto()
    PREPARED = auto()
    COMMITTING = auto()
    ABORTING = auto()
    ABORTABLE_ERROR = auto()
    FATAL_ERROR = auto()


class Ask(NamedTuple):
    """A request for the coordinator of `key` (of kind GROUP or TRANSACTION), in one of the versions
    from `lowest` to `highest`, where these are not None."""

    kind: Kind
    message: Request[Any]
    coordinator: int
    key: str
    lowest: int | None = None
    highest: int | None = None


@dataclass(slots=True)
class _Offsets:
    """Offsets that are to become part of the transaction, less those that are."""

    group: ConsumerGroupMetadata
    left: dict[TopicPartition, CommittedOffset]
    topic_ids: Mapping[str, Uuid]


class TransactionManager:
    """The state of one producer with a transactional id; see the module."""

    def __init__(
        self, transactional_id: str, timeout_ms: int, *, two_phase_commit: bool = False
    ) -> None:
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self.two_phase_commit = two_phase_commit
        self.state = State.UNINITIALIZED
        self.identity: Identity | None = None
        self.is_tv2 = False
        """Which protocol the present transaction uses."""
        self.transaction_version = 0
        """Level of the feature as the face last saw it; it counts from the next transaction on."""
        self.error: TransactionError | None = None
        """Why the state is ABORTABLE_ERROR or FATAL_ERROR."""
        self.refused: BrokerError | None = None
        """Why the last request that was answered is sent again, if it is."""
        self.prepared = PreparedTxnState()
        """The transaction that is prepared."""
        self._keeps_prepared = False
        self._new: list[TopicPartition] = []
        self._partitions: set[TopicPartition] = set()
        self._groups: set[str] = set()
        self._offsets: list[_Offsets] = []
        self._is_started = False  # the coordinator may know of the transaction
        self._is_in_doubt = False  # the same, because an answer got lost
        self._is_unknown_to_coordinator = False  # so EndTxn would be refused
        self._needs_bump = False
        self._ended: bool | None = None  # what the epoch is raised after: a commit, or an abort

    # -- what the application wants --------------------------------------------------------------

    def initialize(self, *, keep_prepared: bool = False) -> None:
        """Get a producer id, fence other producers of the transactional id, and end what they left
        open; not if it is to be kept, because it is prepared. Again after an error of the way: go
        on with it."""
        self._require("initialize", State.UNINITIALIZED, State.INITIALIZING)
        if keep_prepared:
            self.require_two_phase_commit("keep a prepared transaction")
        self._keeps_prepared = keep_prepared
        self.state = State.INITIALIZING

    def adopt(self, identity: Identity, *, is_tv2: bool, is_open: bool) -> None:
        """Go on as the producer that another process initialized, inside of the transaction that
        it left open or between transactions, in the protocol that it spoke."""
        self._require("adopt a producer", State.UNINITIALIZED)
        self.identity, self.is_tv2, self._is_started = identity, is_tv2, is_open
        self.state = State.IN_TRANSACTION if is_open else State.READY

    def begin(self) -> None:
        """Begin a transaction; there is nothing to send yet."""
        self._require("begin a transaction", State.READY)
        self.state = State.IN_TRANSACTION

    def require_transaction(self) -> None:
        """Raise unless records can become part of a transaction now."""
        self._require("send records", State.IN_TRANSACTION)

    def add_partition(self, partition: TopicPartition) -> None:
        """Records for `partition` are part of the transaction."""
        self.require_transaction()
        if partition in self._partitions or partition in self._new:
            return
        if self.is_tv2:
            self._partitions.add(partition)
            self._is_started = True
        else:
            self._new.append(partition)

    def may_produce(self, partition: TopicPartition) -> bool:
        """Whether batches may leave for `partition`: TV1 asks for it to be added before."""
        return partition in self._partitions and self.state in _SENDING

    def add_offsets(
        self,
        offsets: Mapping[TopicPartition, CommittedOffset],
        group: ConsumerGroupMetadata,
        topic_ids: Mapping[str, Uuid] = NO_IDS,
    ) -> None:
        """Offsets of `group` are part of the transaction. Where the ids of all their topics are
        given they are for topics of these ids, and for no others of the same names."""
        self._require("send offsets", State.IN_TRANSACTION)
        if offsets:
            self._offsets.append(_Offsets(group, dict(offsets), topic_ids))

    def prepare(self) -> PreparedTxnState:
        """From now on the transaction can only be ended. All batches and offsets are delivered."""
        self.require_two_phase_commit("prepare a transaction")
        self._require("prepare a transaction", State.IN_TRANSACTION)
        assert not self._new and not self._offsets, "what is not delivered cannot be prepared"
        self.state = State.PREPARED
        self.prepared = PreparedTxnState(*self._known)
        return self.prepared

    def is_prepared_as(self, state: PreparedTxnState) -> bool:
        """Whether `state` is the transaction that is prepared. ClientError if none is."""
        ending = State.COMMITTING, State.ABORTING  # `complete_transaction` was interrupted
        self._require("complete a transaction", State.PREPARED, *ending)
        if not self.prepared.has_transaction:
            raise ClientError("cannot complete a transaction: none is prepared")
        return state == self.prepared

    def end(self, *, commit: bool) -> None:
        """Commit, or abort; to be repeated when it was interrupted. All batches are decided.

        A commit may be given up for an abort while partitions or offsets are still to be added:
        they come before EndTxn, so no coordinator knows of it.
        """
        if self.state is State.INITIALIZING and self._ended is commit:
            return
        wanted = State.COMMITTING if commit else State.ABORTING
        allowed = {State.IN_TRANSACTION, State.PREPARED, wanted}
        if not commit:
            allowed.add(State.ABORTABLE_ERROR)
            if self._new or self._offsets:
                allowed.add(State.COMMITTING)
        self._require("commit" if commit else "abort", *allowed)
        self.state = wanted
        if not commit:
            self._new, self._offsets, self.error = [], [], None

    @property
    def is_open(self) -> bool:
        """Whether a transaction was begun and is not ended."""
        ending = State.PREPARED, State.ABORTING, State.ABORTABLE_ERROR
        return self.state in (*_SENDING, *ending)

    @property
    def is_started(self) -> bool:
        """Whether the coordinator knows of the transaction, or will have to be asked."""
        return self._is_started or self._is_in_doubt

    def check(self) -> None:
        """Raise why nothing but `end` to abort, or nothing at all, is possible any more."""
        if self.state in (State.ABORTABLE_ERROR, State.FATAL_ERROR):
            assert self.error is not None
            raise self.error

    # -- the face --------------------------------------------------------------------------------

    def produce_versions(self) -> tuple[int | None, int | None]:
        """Lowest and highest version of Produce for the transaction's batches."""
        if self.is_tv2:
            return PRODUCE_FIRST_TV2, None
        return None, PRODUCE_FIRST_TV2 - 1

    def next_request(self) -> Ask | None:
        """What is to be sent now; None when nothing is left to do, or can be done."""
        if self.state is State.INITIALIZING:
            return self._initialize()
        if self.state in _SENDING:
            if self._new:
                return self._add_partitions()
            if self._offsets:
                return self._send_offsets(self._offsets[0])
        if self.state not in (State.COMMITTING, State.ABORTING):
            return None
        if self.is_started and not self._is_unknown_to_coordinator:
            return self._end()
        self._complete()
        return self.next_request()

    def on_response(self, ask: Ask, response: Any) -> Reaction:
        """Take in an answer to `next_request`; what is to be done before the next."""
        self.refused = None
        answers = _answers(ask, response)
        reaction, code = worst([(reaction_to(ask.kind, one), one) for one, _ in answers])
        if ask.kind is Kind.ABORT and code == ErrorCode.INVALID_TXN_STATE and not self._is_started:
            self._needs_bump = True  # nothing had been added after all
            self._complete()
            return Reaction.DONE
        if reaction is Reaction.DONE:
            return Reaction.DONE if self._carry_out(ask, response) else Reaction.AGAIN
        if ask.kind is Kind.OFFSET_COMMIT:
            self._take_off(ask, response)
        what = f"{ask.kind.value} was refused: {refusal(code)}"
        if self._keeps_prepared and code == ErrorCode.UNSUPPORTED_VERSION:
            what = "the coordinator cannot keep a prepared transaction (keep_prepared_txn)"
        where = next((place for one, place in answers if one == code), None)
        topic, partition = where or (None, None)
        self.refused = BrokerError.of(code, what, topic=topic, partition=partition)
        self._react(reaction, self.refused)
        return reaction

    def on_failure(self, ask: Ask, error: ClientError) -> Reaction:
        """There was no answer, or no coordinator to ask."""
        if isinstance(error, UnsupportedApi) and ask.lowest == INIT_FIRST_2PC:
            error = UnsupportedApi(
                f"{NEEDS_2PC}, which the coordinator does not offer: {error.message}",
                host=error.host,
            )
        if error.code is not None:
            reaction = reaction_to(Kind.FIND_COORDINATOR, error.code)
        else:
            reaction = Reaction.FIND_COORDINATOR if error.retriable else Reaction.FATAL
        self._is_in_doubt |= ask.kind in (Kind.ADD_PARTITIONS, Kind.ADD_OFFSETS)
        self._react(reaction, error)
        return reaction

    def on_produce_failure(self, error: ClientError) -> None:
        """A batch of the transaction was not delivered."""
        if self.state not in _SENDING:
            return
        code = error.code
        reaction = Reaction.ABORT if code is None else reaction_to(Kind.PRODUCE, code)
        if reaction not in (Reaction.FENCED, Reaction.FATAL):
            reaction = Reaction.ABORT  # retrying is over
        self._react(reaction, error)

    # -- requests --------------------------------------------------------------------------------

    def _ask(
        self, kind: Kind, message: Request[Any], lowest: int | None, highest: int | None
    ) -> Ask:
        return Ask(kind, message, TRANSACTION, self.transactional_id, lowest, highest)

    def _initialize(self) -> Ask:
        lowest, highest = None, INIT_HIGHEST
        if self.two_phase_commit:
            lowest = highest = INIT_FIRST_2PC
        elif self.identity is not None:
            lowest = INIT_LOWEST_FOR_BUMP
        message = init_request(
            self.transactional_id,
            self.timeout_ms,
            self.identity,
            two_phase_commit=self.two_phase_commit,
            keep_prepared=self._keeps_prepared,
        )
        return self._ask(Kind.INIT_PRODUCER_ID, message, lowest, highest)

    def _add_partitions(self) -> Ask:
        message = add_partitions_request(self.transactional_id, self._known, self._new)
        return self._ask(Kind.ADD_PARTITIONS, message, None, ADD_PARTITIONS_HIGHEST)

    def _send_offsets(self, offsets: _Offsets) -> Ask:
        group = offsets.group
        if not self.is_tv2 and group.group_id not in self._groups:
            message = add_offsets_request(self.transactional_id, self._known, group.group_id)
            return self._ask(Kind.ADD_OFFSETS, message, None, None)
        lowest, highest = OFFSET_COMMIT_FIRST_OF_MEMBERS, OFFSET_COMMIT_FIRST_TV2 - 1
        if self.is_tv2:
            self._is_started = True  # whatever becomes of the answer
            lowest = highest = OFFSET_COMMIT_FIRST_TV2
            if all(one.topic in offsets.topic_ids for one in offsets.left):
                highest = OFFSET_COMMIT_BY_ID
        commit = offset_commit_request(
            self.transactional_id, self._known, group, offsets.left, offsets.topic_ids
        )
        return Ask(Kind.OFFSET_COMMIT, commit, GROUP, group.group_id, lowest, highest)

    def _end(self) -> Ask:
        commits = self.state is State.COMMITTING
        message = end_request(self.transactional_id, self._known, commit=commits)
        lowest = END_FIRST_TV2 if self.is_tv2 else None
        highest = None if self.is_tv2 else END_FIRST_TV2 - 1
        return self._ask(Kind.COMMIT if commits else Kind.ABORT, message, lowest, highest)

    @property
    def _known(self) -> Identity:
        assert self.identity is not None, self.state
        return self.identity

    # -- answers ---------------------------------------------------------------------------------

    def _carry_out(self, ask: Ask, response: Any) -> bool:
        """No error is in the answer; False when a part of what was asked for is not there."""
        match ask.kind:
            case Kind.INIT_PRODUCER_ID:
                self.identity = Identity(response.producer_id, response.producer_epoch)
                self._needs_bump = False
                self._settle_version(may_bump=False)
                self.state = State.READY
                if self._keeps_prepared and response.ongoing_txn_producer_id >= 0:
                    self.prepared = PreparedTxnState(
                        response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch
                    )
                    self.state, self._is_started = State.PREPARED, True
                self._keeps_prepared = False
            case Kind.ADD_PARTITIONS:
                self._partitions.update(
                    TopicPartition(topic.name, entry.partition_index)
                    for topic in response.results_by_topic_v3_and_below
                    for entry in topic.results_by_partition
                )
                self._is_started = True
                self._new = [one for one in self._new if one not in self._partitions]
                return not self._new
            case Kind.ADD_OFFSETS:
                self._groups.add(self._offsets[0].group.group_id)
                self._is_started = True
            case Kind.OFFSET_COMMIT:
                return self._take_off(ask, response)
            case Kind.COMMIT | Kind.ABORT:
                if self.is_tv2 and response.producer_id >= 0:
                    self.identity = Identity(response.producer_id, response.producer_epoch)
                    self._needs_bump = False
                self._complete()
        return True

    def _take_off(self, ask: Ask, response: Any) -> bool:
        """Offsets that were taken are not sent again; whether all were."""
        left = self._offsets[0].left
        for code, partition in _answers(ask, response):
            if code == ErrorCode.NONE and partition is not None:
                left.pop(partition, None)
        if not left:
            self._offsets.pop(0)
        return not left

    def _react(self, reaction: Reaction, error: ClientError) -> None:
        if reaction is Reaction.ABORT and self.state in (State.INITIALIZING, State.ABORTING):
            reaction = Reaction.FATAL  # there is no transaction that could be aborted
        if reaction is Reaction.ABORT:
            self._needs_bump = True
            self._is_unknown_to_coordinator |= error.code in _UNKNOWN_PRODUCER
            self._fail(
                State.ABORTABLE_ERROR,
                AbortableTransactionError(
                    f"the transaction must be aborted: {error.message}", error
                ),
            )
        elif reaction is Reaction.FENCED:
            text = f"another producer uses transactional.id {self.transactional_id!r}, or the "
            text += f"transaction took longer than {self.timeout_ms} ms: {error.message}"
            self._fail(State.FATAL_ERROR, ProducerFenced(text, error))
        elif reaction is Reaction.FATAL:
            text = f"the transactional producer cannot go on: {error.message}"
            self._fail(State.FATAL_ERROR, FatalTransactionError(text, error))

    def _fail(self, state: State, error: TransactionError) -> None:
        self.state, self.error = state, error

    def _complete(self) -> None:
        """The transaction is over; the level of `transaction.version` counts again."""
        self._partitions, self._groups = set(), set()
        self.prepared = PreparedTxnState()
        self._is_started = self._is_in_doubt = self._is_unknown_to_coordinator = False
        self._ended = self.state is State.COMMITTING
        self._settle_version(may_bump=True)
        self.state = State.INITIALIZING if self._needs_bump else State.READY

    def _settle_version(self, *, may_bump: bool) -> None:
        before, self.is_tv2 = self.is_tv2, self.transaction_version >= FIRST_TV2
        if may_bump and self.is_tv2 and not before:
            self._needs_bump = True

    def require_two_phase_commit(self, what: str) -> None:
        """ClientError unless the producer takes part in two-phase commits."""
        if not self.two_phase_commit:
            raise ClientError(f"cannot {what} without transaction.two.phase.commit.enable=true")

    def _require(self, what: str, *allowed: State) -> None:
        if self.state in allowed:
            return
        self.check()
        raise ClientError(f"cannot {what}: the producer is {_STANDING[self.state]}")


NEEDS_2PC: Final = "transaction.two.phase.commit.enable needs InitProducerId version 6 (KIP-939)"
_SENDING: Final = (State.IN_TRANSACTION, State.COMMITTING)
_UNKNOWN_PRODUCER: Final = (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.UNKNOWN_PRODUCER_ID)
_STANDING: Final = {
    State.UNINITIALIZED: "not initialized; call init_transactions first",
    State.INITIALIZING: "being initialized; call init_transactions again, or what was interrupted",
    State.READY: "not in a transaction; call begin_transaction first",
    State.IN_TRANSACTION: "in a transaction, which has to be committed or aborted first",
    State.PREPARED: "in a prepared transaction, which has to be committed, aborted or completed",
    State.COMMITTING: "committing; call commit_transaction again",
    State.ABORTING: "aborting; call abort_transaction again",
}


def _answers(ask: Ask, response: Any) -> list[tuple[int, TopicPartition | None]]:
    """The error codes in an answer, and what each is about where that is a partition."""
    match ask.kind:
        case Kind.ADD_PARTITIONS:
            return [
                (entry.partition_error_code, TopicPartition(topic.name, entry.partition_index))
                for topic in response.results_by_topic_v3_and_below
                for entry in topic.results_by_partition
            ]
        case Kind.OFFSET_COMMIT:
            message: Any = ask.message
            names = {one.topic_id: one.name for one in message.topics}
            return [
                (
                    entry.error_code,
                    TopicPartition(
                        topic.name or names.get(topic.topic_id, ""), entry.partition_index
                    ),
                )
                for topic in response.topics
                for entry in topic.partitions
            ]
        case _:
            return [(response.error_code, None)]
