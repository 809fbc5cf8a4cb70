"""A coordinator small enough to hold in one's head: texts under names, and who waits for one.

Its records are (name, text), None being a tombstone; a text may be part of a transaction. Who waits
for a name that is not set is a change that lives in memory alone. A name may be set to expire.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from fencepost.machines.coordinator import (
    Decision,
    Producer,
    TimerName,
    TransactionEnd,
    UndoLog,
)
from fencepost.machines.partition import TICKET_NOT_NEEDED
from fencepost.wire.errors import DecodeError, ErrorCode

Record = tuple[str, str | None]


class Wait(NamedTuple):
    """Change: the token waits for the name; without a token, none waits any more."""

    name: str
    token: Any = None


class ToyCodec:
    """Names that begin with "?" are of a type that is not known here, "!" are nonsense."""

    @staticmethod
    def encode(record: Record) -> tuple[bytes, bytes | None]:
        name, text = record
        return name.encode(), None if text is None else text.encode()

    @staticmethod
    def decode(key: bytes, value: bytes | None) -> Record | None:
        name = key.decode()
        if name.startswith("!"):
            raise DecodeError("nonsense")
        if name.startswith("?"):
            return None
        return name, None if value is None else bytes(value).decode()


class Toy:
    """The machine."""

    def __init__(self) -> None:
        self.undo_log = UndoLog()
        self.max_batch_bytes = 0
        self.texts: dict[str, tuple[str, int]] = {}  # name -> (text, offset of its record)
        self.pending: dict[int, dict[str, tuple[str, int]]] = {}  # producer -> its open transaction
        self.waiting: dict[str, tuple[Any, ...]] = {}
        self.applied: list[tuple[int, Record]] = []
        self.fired: list[TimerName] = []
        self.is_discarded = False
        self.cannot_apply: str | None = None

    # Applying

    def apply(self, record: Record, offset: int, producer_id: int) -> None:
        name, text = record
        self.applied.append((offset, record))
        self.undo_log.note(self.applied.pop)
        if text is None:
            self.undo_log.pop(self.texts, name)
            for pending in self.pending.values():
                self.undo_log.pop(pending, name)
        elif producer_id >= 0:
            if producer_id not in self.pending:
                self.undo_log.put(self.pending, producer_id, {})
            self.undo_log.put(self.pending[producer_id], name, (text, offset))
        else:
            self.undo_log.put(self.texts, name, (text, offset))
        assert name != self.cannot_apply, "half of it is applied"

    def apply_transaction_end(self, producer_id: int, *, committed: bool) -> None:
        pending = self.undo_log.pop(self.pending, producer_id) or {}
        for name, (text, offset) in pending.items() if committed else ():
            present = self.texts.get(name)
            if present is None or present[1] < offset:
                self.undo_log.put(self.texts, name, (text, offset))

    def apply_change(self, change: Wait) -> None:
        if change.token is None:
            self.undo_log.pop(self.waiting, change.name)
        else:
            before = self.waiting.get(change.name, ())
            self.undo_log.put(self.waiting, change.name, (*before, change.token))

    # Deciding

    def decide_loaded(self, wall_ms: int) -> Decision[Record]:
        decision: Decision[Record] = Decision()
        for name in self.texts:
            if name.startswith("brief"):
                decision.set_timer(("expire", name), 60_000)
        return decision

    def decide_timer(self, name: TimerName, wall_ms: int) -> Decision[Record]:
        self.fired.append(name)
        return Decision(records=[(name[1], None)] if name[1] in self.texts else [])

    def decide_set(
        self, token: Any, *records: Record, expires_ms: int | None = None, **said: Any
    ) -> Decision[Record]:
        """Set names; a token that waits for one is answered the text, or the error."""
        decision: Decision[Record] = Decision(list(records), **said)
        decision.reply(token, "set")
        for name, text in records:
            for waiting in self.waiting.get(name, ()):
                decision.reply(waiting, text)
                decision.changes.append(Wait(name))
            if expires_ms is not None:
                decision.set_timer(("expire", name), expires_ms)
        names = [name for name, _ in records if name in self.waiting]
        if names:
            decision.on_refused = lambda error: self._give_up(names, error)
        decision.sends.append(("was set", tuple(name for name, _ in records)))
        return decision

    def _give_up(self, names: list[str], error: ErrorCode) -> Decision[Record]:
        decision: Decision[Record] = Decision()
        for name in names:
            decision.changes.append(Wait(name))
            for waiting in self.waiting.get(name, ()):
                decision.reply(waiting, error)
        return decision

    def decide_get(self, token: Any, name: str) -> Decision[Record]:
        decision: Decision[Record] = Decision()
        decision.reply(token, self.texts.get(name, (None, -1))[0])
        return decision

    def decide_wait(self, token: Any, name: str) -> Decision[Record]:
        """Answered when the name is set."""
        return Decision(changes=[Wait(name, token)])

    def decide_write(self, token: Any, producer_id: int, *records: Record) -> Decision[Record]:
        producer = Producer(producer_id, 0, TICKET_NOT_NEEDED)
        decision: Decision[Record] = Decision(list(records), producer=producer)
        decision.reply(token, "written")
        return decision

    def decide_end(self, token: Any, producer_id: int, *, committed: bool) -> Decision[Record]:
        end = TransactionEnd(producer_id, 0, 0, committed)
        decision: Decision[Record] = Decision(transaction_end=end)
        decision.reply(token, "ended")
        return decision

    def discard(self) -> None:
        self.is_discarded = True

    # Comparing

    def view(self) -> Any:
        """All of its state, as it is now."""
        pending = {producer: dict(of) for producer, of in self.pending.items() if of}
        return dict(self.texts), pending, dict(self.waiting)
