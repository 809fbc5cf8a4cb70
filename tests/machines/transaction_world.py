"""A transaction coordinator with a log: decisions carried out as the runtime would, in bytes.

Producer ids are drawn when a decision needs one, as the host does. `restart` loads a new
coordinator from the log; `write_markers` has every partition answer that it has its marker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from fencepost.machines.transaction.config import TransactionConfig
from fencepost.machines.transaction.coordinator import TransactionCoordinator
from fencepost.machines.transaction.ending import Ended, EndTxn
from fencepost.machines.transaction.epochs import NEEDS_PRODUCER_ID
from fencepost.machines.transaction.initialization import Granted, InitProducerId
from fencepost.machines.transaction.memory import TransactionMemory
from fencepost.machines.transaction.model import TopicPartition, Transaction
from fencepost.machines.transaction.records import TransactionCodec
from fencepost.machines.transaction.requests import AddPartitions
from fencepost.machines.transaction.rules import RULES, TransactionRules
from fencepost.machines.transaction.sends import AbortTimedOut, CompleteWith, SendMarkers
from fencepost.machines.transaction.shard import Decision
from fencepost.machines.transaction.waiting import ADD_TIMER, WAIT_MS
from fencepost.wire.errors import ErrorCode

ID = "payments"
P0: TopicPartition = ("orders", 0)
P1: TopicPartition = ("orders", 1)
TIMEOUT_MS = 60_000


class TransactionWorld:
    """One shard, and what its clients and leaders hear."""

    def __init__(
        self,
        *,
        level: int = 2,
        memory: TransactionMemory | None = None,
        rules: TransactionRules = RULES,
        **settings: Any,
    ) -> None:
        self.level = level
        self.config = TransactionConfig(**settings)
        self.memory = memory or TransactionMemory()
        self.rules = rules
        self.log: list[tuple[bytes, bytes | None]] = []
        self.sent: list[Transaction] = []
        """Ends whose markers were sent, and are not written."""
        self.late: list[AbortTimedOut] = []
        self.timers: dict[tuple[str, ...], int | None] = {}
        self.replies: dict[Any, Any] = {}
        """By token."""
        self.wall_ms = 1_700_000_000_000
        self.next_producer_id = 1_000
        self.coordinator = self._new()

    def _new(self) -> TransactionCoordinator:
        return TransactionCoordinator(self.config, self.memory, lambda: self.level, self.rules)

    def restart(self) -> None:
        """Another coordinator loads the log."""
        self.coordinator.discard()
        self.coordinator = self._new()
        self.sent.clear()
        for offset, (key, value) in enumerate(self.log):
            record = TransactionCodec.decode(key, value)
            if record is not None:
                self.coordinator.apply(record, offset)
        self.carry_out(self.coordinator.decide_loaded(self.wall_ms))

    def carry_out(self, decision: Decision) -> Any:
        """Apply a decision; the reply."""
        undo_log = self.coordinator.undo_log
        undo_log.begin()
        for change in decision.changes:
            self.coordinator.apply_change(change)
        for record in decision.records:
            entry = TransactionCodec.encode(record)
            self.log.append(entry)
            self.coordinator.apply(record, len(self.log) - 1)
        undo_log.commit()
        self.timers.update(decision.timers)
        for token, reply in decision.replies:
            assert token not in self.replies, "answered twice"
            self.replies[token] = reply
        for message in decision.sends:
            if isinstance(message, SendMarkers):
                self.sent.extend(message.transactions)
            elif isinstance(message, AbortTimedOut):
                self.late.append(message)
            else:
                assert isinstance(message, CompleteWith)
                self.mark(message.sent, message.written, self.draw())
        return decision.replies[0][1] if decision.replies else None

    def draw(self) -> int:
        """A fresh producer id."""
        self.next_producer_id += 1
        return self.next_producer_id

    def _with_id(self, decide: Callable[[int | None], Decision]) -> Any:
        reply = self.carry_out(decide(None))
        return self.carry_out(decide(self.draw())) if reply is NEEDS_PRODUCER_ID else reply

    # What is asked

    def init(
        self,
        expected: tuple[int, int] | None = None,
        transactional_id: str = ID,
        timeout_ms: int = TIMEOUT_MS,
        **more: bool,
    ) -> Granted:
        """InitProducerId."""
        asked = InitProducerId(transactional_id, timeout_ms, expected, **more)
        reply = self._with_id(
            lambda fresh: self.coordinator.decide_init(asked, fresh, object(), self.wall_ms)
        )
        assert isinstance(reply, Granted)
        return reply

    def add(
        self, producer: tuple[int, int], *partitions: TopicPartition, version: int = 0
    ) -> ErrorCode:
        """AddPartitionsToTxn; if it has to wait, then as long as it may."""
        token = self.begin_add(producer, *partitions, version=version)
        if token not in self.replies:
            [*_, (name, delay_ms)] = self.timers.items()
            assert name[0] == ADD_TIMER and delay_ms == WAIT_MS
            self.fire(name)
        reply = self.replies[token]
        assert isinstance(reply, ErrorCode)
        return reply

    def begin_add(
        self, producer: tuple[int, int], *partitions: TopicPartition, version: int = 0
    ) -> object:
        """AddPartitionsToTxn, which may wait; its token."""
        token = object()
        asked = AddPartitions(ID, *producer, frozenset(partitions), version)
        self.carry_out(self.coordinator.decide_add(asked, token, self.wall_ms))
        return token

    def fire(self, name: tuple[str, ...]) -> None:
        """The timer fires."""
        del self.timers[name]
        self.carry_out(self.coordinator.decide_timer(name, self.wall_ms))

    def fire_due(self) -> None:
        """Every timer that is to fire at once does."""
        for name in [name for name, delay_ms in self.timers.items() if delay_ms == 0]:
            self.fire(name)

    def verify(self, producer: tuple[int, int], *partitions: TopicPartition) -> Any:
        """AddPartitionsToTxn with VerifyOnly."""
        asked = AddPartitions(ID, *producer, frozenset(partitions), 2)
        return self.carry_out(self.coordinator.decide_verify(asked, object()))

    def end(self, producer: tuple[int, int], *, committed: bool, version: int = 0) -> Ended:
        """EndTxn."""
        asked = EndTxn(ID, *producer, committed, version)
        reply = self._with_id(
            lambda fresh: self.coordinator.decide_end(asked, fresh, object(), self.wall_ms)
        )
        assert isinstance(reply, Ended)
        return reply

    def abort_late(self) -> list[Any]:
        """What the timer found to have lasted too long is aborted."""
        late, self.late = self.late, []
        return [
            self._with_id(
                lambda fresh, one=one: self.coordinator.decide_abort(  # type: ignore[misc]
                    one, fresh, object(), self.wall_ms
                )
            )
            for one in late
        ]

    def mark(
        self, sent: Transaction, partitions: Iterable[TopicPartition], fresh: int | None = None
    ) -> None:
        """Leaders have written the markers."""
        written = frozenset(partitions)
        self.carry_out(self.coordinator.decide_marked(sent, written, fresh, self.wall_ms))

    def write_markers(self) -> None:
        """Everything that was sent is written."""
        sent, self.sent = self.sent, []
        for one in sent:
            self.mark(one, one.partitions)

    # What is there

    @property
    def present(self) -> Transaction:
        """The transactional id."""
        return self.coordinator.transactions[ID]

    def begun(self, version: int = 0) -> tuple[int, int]:
        """A producer with an open transaction."""
        granted = self.init()
        producer = (granted.producer_id, granted.epoch)
        assert self.add(producer, P0, version=version) is ErrorCode.NONE
        return producer

    def put(self, transaction: Transaction) -> None:
        """The id is this, whatever it was."""
        decision: Decision = Decision()
        decision.records.append(self.coordinator._shard.record(transaction))
        self.carry_out(decision)
