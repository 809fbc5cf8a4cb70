"""`Coordinator`: one partition's coordinator from the beginning of its load to its unload.

Theory of operation
-------------------
    LOADING ──> ACTIVE ──> CLOSED      its partition is led by another node, or gone
       │
       └──────> FAILED ──> CLOSED      its partition cannot be read

While it is LOADING, its partition is applied to a new machine in pieces (`loader`), and then it
waits until all of that is committed. Requests are answered COORDINATOR_LOAD_IN_PROGRESS meanwhile.

An ACTIVE one takes operations one at a time: the machine decides, what it decided is applied and
appended, and the answers are held until the high watermark has passed what was appended
(`machines.coordinator.decision` has the steps). An append is over when the records are in the
leader's log or were refused; until then further operations wait in a queue. So a refused append is
reverted by one step back, and no decision is ever built on one that did not happen. What is in the
log stays applied: it is committed sooner or later, unless another leader cuts it off, and then this
coordinator is unloaded.

The client whose append is refused gets an error that clients know (`FOR_CLIENTS`). What no client
asked for (a timer, a topic's deletion) is tried again after `RETRY_MS`.

Work that a decision begins elsewhere ends in another operation, which decides what follows from its
result (`elsewhere`). It begins when the records are appended, like timers: should they be cut off,
this coordinator is closed, and no result is looked at then.

Every request is known here from its arrival to its answer, wherever its token is meanwhile: in the
machine, in a decision, or held until a write is committed. All are answered NOT_COORDINATOR when
the coordinator is closed, and its timers are cancelled.

Memory is bounded by `max_waiting` operations and answers and by `max_uncommitted_bytes` of records
that are appended and not committed; beyond either, requests get COORDINATOR_NOT_AVAILABLE.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from msgspec import Struct

from fencepost.batch.compression import DECOMPRESSED_BYTES_MAX
from fencepost.batch.errors import BatchError
from fencepost.log.errors import LogError
from fencepost.machines.coordinator import CoordinatorMachine, Decision, TimerName, Work, WorkResult
from fencepost.runtime.cooperative import Lane, Pieces
from fencepost.runtime.coordinator.batches import RECORDS_AT_ONCE, Chunk, batches_of
from fencepost.runtime.coordinator.elsewhere import RunElsewhere, WorkElsewhere, run_at_once
from fencepost.runtime.coordinator.held import NO_TOKEN, HeldAnswers
from fencepost.runtime.coordinator.loader import Decompress, ReadLog, RecordCodec, load_pieces
from fencepost.runtime.coordinator.partition import LedPartition
from fencepost.runtime.coordinator.rules import RULES, CoordinatorRules
from fencepost.runtime.coordinator.timers import NamedTimers
from fencepost.runtime.ports import TimerQueue
from fencepost.wire.errors import DecodeError, ErrorCode

log = logging.getLogger(__name__)

RETRY_MS: Final = 500
"""After so long, what no client asked for and the log refused is decided again."""

MAX_WAITING: Final = 100_000
MAX_UNCOMMITTED_BYTES: Final = 64 * 1024 * 1024

ANSWERED_AT_ONCE: Final = 100
"""So many answers leave in one turn of the event loop; a rebalance may have thousands."""

CONCERNS_SENDER: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    }
)
"""What is wrong with a transaction's offsets, or with its marker: no trouble of the log's."""

FOR_CLIENTS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    **{error: error for error in CONCERNS_SENDER},
}
"""The error that clients get for an append's error; for any other, UNKNOWN_SERVER_ERROR."""

R = TypeVar("R")
M = TypeVar("M", bound="CoordinatorMachine[Any]")

OnReply = Callable[[ErrorCode, Any], None]
"""Takes (NONE, the reply), or (why there is none, None). It is the token of its request."""


class CoordinatorPorts(Protocol):
    """What a node or a simulator provides."""

    @property
    def timers(self) -> TimerQueue:
        """Timers on the monotonic clock."""
        ...

    def now_ms(self) -> int:
        """Milliseconds of the monotonic clock."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch, to stamp records with."""
        ...


def _inline(work: Callable[[int], Any]) -> Pieces[Any]:
    """Decompress here, however much it is."""
    yield from ()
    return work(DECOMPRESSED_BYTES_MAX)


def _read_at_once(work: Callable[[], Any]) -> Pieces[Any]:
    """Wait for the disk here."""
    yield from ()
    return work()


def _log_note(note: str) -> None:
    log.info("%s", note)


class CoordinatorKind(Struct, Generic[M], frozen=True):
    """What distinguishes one kind of coordinator from another, and how it is run."""

    make_machine: Callable[[], M]
    codec: RecordCodec[Any]
    write_timeout_ms: int
    compression: int = 0
    max_waiting: int = MAX_WAITING
    max_uncommitted_bytes: int = MAX_UNCOMMITTED_BYTES
    read: ReadLog = _read_at_once
    decompress: Decompress = _inline
    elsewhere: RunElsewhere = run_at_once
    """Does what decisions begin in `works`."""
    on_loaded: Callable[[Coordinator[M]], None] = lambda coordinator: None
    on_send: Callable[[Any, int], None] = lambda message, leader_epoch: None
    """Takes `Decision.sends` once committed, with the coordinator's epoch."""
    on_note: Callable[[str], None] = _log_note
    rules: CoordinatorRules = RULES


class CoordinatorState(Enum):
    """Its value is the error that requests are answered with."""

    LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    ACTIVE = ErrorCode.NONE
    FAILED = ErrorCode.COORDINATOR_NOT_AVAILABLE
    CLOSED = ErrorCode.NOT_COORDINATOR


class _Operation(NamedTuple):
    """Something to be decided: for a request, or again later under `retry_name`."""

    decide: Callable[[Any], Decision[Any]]
    token: OnReply | None = None
    retry_name: Any = None


class Coordinator(Generic[M]):
    """See the module docstring. Everything happens on the thread that runs the node."""

    def __init__(
        self,
        kind: CoordinatorKind[M],
        ports: CoordinatorPorts,
        lane: Lane,
        partition: LedPartition,
        leader_epoch: int,
    ) -> None:
        self._kind = kind
        self._ports = ports
        self._lane = lane
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.machine = kind.make_machine()
        self.state = CoordinatorState.LOADING
        self.load_ms = 0
        """How long loading took, from when this node led the partition."""
        self._began_ms = ports.now_ms()
        self._timers = NamedTimers(ports.timers)
        self._elsewhere = WorkElsewhere(kind.elsewhere, self._work_done)
        self._held = HeldAnswers(ports.timers, ports.now_ms, kind.write_timeout_ms, self._late)
        self._unanswered: dict[OnReply, None] = {}  # in the order they came
        self._queue: deque[_Operation] = deque()
        self._is_draining = False  # the queue is being worked on
        self._is_writing = False  # an operation is decided, and not yet appended or refused
        self._releases_later = False  # answers that may leave wait for a later turn
        self._next_offset = partition.log.start_offset
        self._is_read = False  # all of the partition is applied, perhaps not committed
        self._appended_offset = 0
        self._committed_offset = 0
        self._uncommitted: deque[tuple[int, int]] = deque()  # (offset behind a batch, its bytes)
        self._uncommitted_bytes = 0
        self._last_retry = 0
        self._refused_count = 0  # since a write was last accepted

    # -- loading ---------------------------------------------------------------------------

    def load(self) -> None:
        """Begin to load when it is its turn: by then the partition's machine knows its role."""
        self._lane.later(self._begin_load)

    def _begin_load(self) -> None:
        if self._is_loading():
            self._lane.begin(self._load(), is_wanted=self._is_loading)

    def _is_loading(self) -> bool:
        return self.state is CoordinatorState.LOADING

    def _load(self) -> Pieces[None]:
        source, kind = self.partition.log, self._kind
        try:
            self._next_offset = yield from load_pieces(
                source, self._next_offset, self.machine, kind.codec, kind.read, kind.decompress
            )
        except (LogError, BatchError, DecodeError, OSError) as error:
            log.error("%s cannot be loaded: %s", self.partition, error)
            self._end(CoordinatorState.FAILED)
        except Exception:
            log.exception("%s cannot be loaded", self.partition)
            self._end(CoordinatorState.FAILED)
        else:
            self._is_read = True
            self.high_watermark_moved()

    def _activate(self) -> None:
        self.state = CoordinatorState.ACTIVE
        self.load_ms = self._ports.now_ms() - self._began_ms
        self._appended_offset = self._committed_offset = self._next_offset
        self._enqueue(_Operation(lambda machine: machine.decide_loaded(self._ports.wall_ms())))
        self._kind.on_loaded(self)

    # -- what happens to the partition -----------------------------------------------------

    def high_watermark_moved(self) -> None:
        """The partition's high watermark may have moved."""
        committed_offset = self.partition.committed_offset(self.leader_epoch)
        if self.state is CoordinatorState.LOADING:
            if self._is_read and committed_offset >= self._next_offset:
                self._activate()
        elif self.state is CoordinatorState.ACTIVE and committed_offset > self._committed_offset:
            self._committed_offset = committed_offset
            while self._uncommitted and self._uncommitted[0][0] <= committed_offset:
                self._uncommitted_bytes -= self._uncommitted.popleft()[1]
            self._release()

    def led_on(self, leader_epoch: int) -> None:
        """This node leads on in a new epoch, and no other node has led between."""
        self.leader_epoch = leader_epoch
        self.high_watermark_moved()

    def close(self) -> None:
        """Unload: requests are answered NOT_COORDINATOR, those that wait and later ones."""
        self._end(CoordinatorState.CLOSED)

    def _end(self, state: CoordinatorState) -> None:
        self.state = state
        self._timers.cancel_all()
        self._elsewhere.drop_all()
        self._held.clear()
        self._queue.clear()
        self._uncommitted.clear()
        self._uncommitted_bytes = 0
        self.machine.discard()
        unanswered, self._unanswered = self._unanswered, {}
        for token in unanswered:
            _tell(token, state.value, None)

    # -- deciding --------------------------------------------------------------------------

    @property
    def waiting_count(self) -> int:
        """How many requests have no answer yet."""
        return len(self._unanswered)

    @property
    def retried_count(self) -> int:
        """How many operations that no client asked for were refused, and are tried again."""
        return sum(isinstance(name, int) for name in self._timers)

    def submit(self, decide: Callable[[M, OnReply], Decision[Any]], on_reply: OnReply) -> None:
        """Have the machine decide about a request.

        `decide` is given the machine and the token to decide with, which is `on_reply`. It is
        called at once, or soon.
        """
        if self.state is not CoordinatorState.ACTIVE:
            _tell(on_reply, self.state.value, None)
        elif self._is_full:
            _tell(on_reply, ErrorCode.COORDINATOR_NOT_AVAILABLE, None)
        else:
            self._unanswered[on_reply] = None
            self._enqueue(_Operation(lambda machine: decide(machine, on_reply), on_reply))

    def tell(self, decide: Callable[[M], Decision[Any]]) -> None:
        """Decide something that no client asked for, if the coordinator is active."""
        if self.state is CoordinatorState.ACTIVE:
            self._last_retry += 1
            self._enqueue(_Operation(decide, None, self._last_retry))

    @property
    def _is_full(self) -> bool:
        kind = self._kind
        return (
            len(self._held) + len(self._queue) >= kind.max_waiting
            or self._uncommitted_bytes >= kind.max_uncommitted_bytes
        )

    def _enqueue(self, operation: _Operation) -> None:
        self._queue.append(operation)
        self._decide_next()

    def _decide_next(self) -> None:
        """Decide what waits, one after the other; an append that is not over keeps it waiting."""
        if self._is_draining:
            return
        self._is_draining = True
        try:
            while self._queue and not self._is_writing:
                self._is_writing = True
                self._decide(self._queue.popleft())
        finally:
            self._is_draining = False

    def _decide(self, operation: _Operation) -> None:
        """Decide and begin to carry it out; a mistake of ours costs only who asked."""
        self.machine.max_batch_bytes = self.partition.max_batch_bytes
        decision: Decision[Any] = Decision()
        try:
            decision = operation.decide(self.machine)
        except Exception:
            log.exception("%s: a decision failed", self.partition)
            self._refuse(operation, decision, ErrorCode.UNKNOWN_SERVER_ERROR)
        else:
            self._carry_out(operation, decision, self._batches_of(decision))

    # -- writing ---------------------------------------------------------------------------

    def _batches_of(self, decision: Decision[Any]) -> Iterator[Chunk]:
        return batches_of(
            decision,
            self._kind.codec,
            most_bytes=self.partition.max_batch_bytes,
            wall_ms=self._ports.wall_ms(),
            compression=self._kind.compression,
        )

    def _carry_out(
        self, operation: _Operation, decision: Decision[Any], chunks: Iterator[Chunk]
    ) -> None:
        """Apply and append the next batch, or finish behind the last one."""
        try:
            chunk = next(chunks, None)
        except Exception:
            log.exception("%s: cannot encode the records of a decision", self.partition)
            self._refuse(operation, decision, ErrorCode.UNKNOWN_SERVER_ERROR)
            return
        if chunk is None and not decision.changes:
            self._finish(operation, decision)
            return
        undo_log = self.machine.undo_log
        undo_log.begin()
        try:
            self._apply(decision, chunk)
        except Exception:
            log.exception("%s: cannot apply the records of a decision", self.partition)
            self._refuse(operation, decision, ErrorCode.UNKNOWN_SERVER_ERROR)
            return
        decision.changes = []  # applied along with the first batch
        if chunk is None:
            undo_log.commit()
            self._finish(operation, decision)
        elif len(chunk.batch) + decision.spare_bytes > self.partition.max_batch_bytes:
            self._refuse(operation, decision, ErrorCode.RECORD_LIST_TOO_LARGE)
        else:
            self._append(operation, decision, chunk, chunks)

    def _apply(self, decision: Decision[Any], chunk: Chunk | None) -> None:
        machine = self.machine
        for change in decision.changes:
            machine.apply_change(change)
        if chunk is None:
            return
        end, producer = decision.transaction_end, decision.producer
        if end is not None:
            machine.apply_transaction_end(end.producer_id, committed=end.committed)
        producer_id = -1 if producer is None else producer.producer_id
        for offset, record in enumerate(chunk.records, self.partition.log.end_offset):
            machine.apply(record, offset, producer_id)

    def _append(
        self,
        operation: _Operation,
        decision: Decision[Any],
        chunk: Chunk,
        rest: Iterator[Chunk],
    ) -> None:
        def on_appended(error: ErrorCode, next_offset: int) -> None:
            if self.state is not CoordinatorState.ACTIVE:
                return
            if error is not ErrorCode.NONE:
                self._refuse(operation, decision, error)
                return
            self.machine.undo_log.commit()
            self._note_accepted()
            self._appended_offset = next_offset
            self._uncommitted.append((next_offset, len(chunk.batch)))
            self._uncommitted_bytes += len(chunk.batch)
            if len(decision.records) > RECORDS_AT_ONCE and not decision.is_atomic:
                self._lane.later(lambda: self._go_on(operation, decision, rest))
            else:
                self._carry_out(operation, decision, rest)

        self.partition.append(
            chunk.batch,
            self.leader_epoch,
            on_appended,
            producer=decision.producer,
            end=decision.transaction_end,
        )

    def _go_on(
        self, operation: _Operation, decision: Decision[Any], chunks: Iterator[Chunk]
    ) -> None:
        """The next batch of many, in a later turn; further operations wait until the last."""
        if self.state is CoordinatorState.ACTIVE:
            self._carry_out(operation, decision, chunks)

    def _finish(self, operation: _Operation, decision: Decision[Any]) -> None:
        """All of it is in the log: set timers, hold the answers, go on with what waits."""
        for note in decision.notes:
            self._kind.on_note(note)
        now_ms = self._ports.now_ms()
        for name, delay_ms in decision.timers:
            if delay_ms is None:
                self._timers.cancel(name)
            else:
                self._set_timer(name, now_ms + delay_ms)
        for work_name, work in decision.works:
            if work is None:
                self._elsewhere.drop(work_name)
            else:
                self._elsewhere.begin(work)
        for token, reply in decision.replies:
            self._held.hold(self._appended_offset, token, reply)
        for message in decision.sends:
            self._held.hold(self._appended_offset, NO_TOKEN, message)
        self._is_writing = False
        self._release()
        self._decide_next()

    def _refuse(self, operation: _Operation, decision: Decision[Any], error: ErrorCode) -> None:
        """It has not happened. A request is answered; what no client asked for is tried again."""
        undo_log = self.machine.undo_log
        if undo_log.is_open:
            undo_log.revert()
        if error not in CONCERNS_SENDER:
            self._note_refused(error)
        for_clients = FOR_CLIENTS.get(error, ErrorCode.UNKNOWN_SERVER_ERROR)
        if decision.on_refused is not None:
            on_refused = decision.on_refused
            self._queue.appendleft(_Operation(lambda machine: on_refused(for_clients)))
        name = operation.retry_name
        if name is not None and name not in self._timers:
            self._retry_later(operation, name)
        self._is_writing = False
        self._answer(operation.token, for_clients, None)
        self._decide_next()

    def _note_refused(self, error: ErrorCode) -> None:
        """Log the first of many: while the log refuses one write, it refuses all."""
        if not self._refused_count:
            log.error("%s: a write was refused: %s", self.partition, error.name)
        self._refused_count += 1

    def _note_accepted(self) -> None:
        if self._refused_count > 1:
            count = self._refused_count
            log.warning("%s: writes succeed again; %d were refused", self.partition, count)
        self._refused_count = 0

    # -- timers ----------------------------------------------------------------------------

    def _set_timer(self, name: TimerName, deadline_ms: int) -> None:
        if self._timers.postpone(name, deadline_ms):  # a session's, with every heartbeat
            return

        def decide(machine: M) -> Decision[Any]:
            return machine.decide_timer(name, self._ports.wall_ms())

        operation = _Operation(decide, None, name)
        self._timers.set(name, deadline_ms, lambda: self._enqueue(operation))

    def _retry_later(self, operation: _Operation, name: Any) -> None:
        deadline_ms = self._ports.now_ms() + RETRY_MS
        self._timers.set(name, deadline_ms, lambda: self._enqueue(operation))

    # -- work elsewhere --------------------------------------------------------------------

    @property
    def works_elsewhere(self) -> int:
        """How many works other threads do for this coordinator, or are to do."""
        return len(self._elsewhere)

    def _work_done(self, work: Work[Any], result: WorkResult) -> None:
        self.tell(lambda machine: work.on_done(result, self._ports.wall_ms()))

    # -- answering -------------------------------------------------------------------------

    def _release(self) -> None:
        """Let go what rests on nothing but committed records; of many some, the rest later."""
        if self._releases_later:
            return
        rules = self._kind.rules
        end = rules.answers_up_to(self._appended_offset, self._committed_offset)
        for number, answer in enumerate(self._held.release(end), 1):
            if answer.token is NO_TOKEN:
                self._kind.on_send(answer.value, self.leader_epoch)
            else:
                self._answer(answer.token, ErrorCode.NONE, answer.value)
            if number == ANSWERED_AT_ONCE:
                self._releases_later = True
                self._lane.later(self._release_more)
                return

    def _release_more(self) -> None:
        self._releases_later = False
        self._release()

    def _late(self, tokens: list[Any]) -> None:
        """Answer requests that have waited for a commit for too long; it may still come."""
        log.warning("%s: %d writes were not committed in time", self.partition, len(tokens))
        error = FOR_CLIENTS[ErrorCode.REQUEST_TIMED_OUT]
        for token in tokens:
            self._answer(token, error, None)

    def _answer(self, token: OnReply | None, error: ErrorCode, reply: Any) -> None:
        """Answer a request, unless it is answered already."""
        if token is not None and token in self._unanswered:
            del self._unanswered[token]
            _tell(token, error, reply)


def _tell(token: OnReply, error: ErrorCode, reply: Any) -> None:
    """Answer one request; its trouble is not that of the others."""
    try:
        token(error, reply)
    except Exception:
        log.exception("answering a request failed")
