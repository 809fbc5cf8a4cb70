"""What brokers do, each step taken once and then looked up.

A broker is stepped on its own: its next state, and what it lets out, depend on its state and on
what happens to it, and on nothing else. Both are numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fencepost.batch.record_batch import RecordBatch
from fencepost.batch.records import build_batch
from fencepost.machines.fetcher import LeaderAnswered, LeaderFailed
from fencepost.machines.partition import Produce
from fencepost.machines.partition.acknowledging import ALL_IN_SYNC
from fencepost.sim.explore.cell import Entry
from fencepost.sim.explore.flights import Messages, Numbers
from fencepost.sim.explore.known import Event, KnownOutcomes
from fencepost.sim.explore.partition.bounds import Bounds
from fencepost.sim.explore.partition.cell import CONTROLLER_ID, NEVER_EXPIRES_MS, BrokerCell
from fencepost.sim.explore.partition.metadata import Metadata
from fencepost.sim.explore.partition.serving import answer_to
from fencepost.sim.rules import Rules
from fencepost.wire.errors import ErrorCode

MOST_STATES = 1 << 22
"""How many states of brokers there can be: what `Space.pack` has room for."""


class View(NamedTuple):
    """What the laws look at of a broker's state. `log` are numbers of entries."""

    broker_id: int
    is_up: bool
    accepts: bool
    is_leader: bool
    leader_id: int
    epoch: int
    high_watermark: int
    log: tuple[int, ...]
    durable: int
    isr: frozenset[int]
    maximal_isr: frozenset[int]
    has_asked: bool


@dataclass(slots=True)
class Outcome:
    """What comes of an event: the broker's next state, and what it lets out.

    `sent` are (leader or `CONTROLLER_ID`, message), `acked` numbers of batches, `matters` says that
    the laws have something to look at, `violation` that one is broken.
    """

    cell: int
    sent: tuple[tuple[int, int], ...] = ()
    answer: int = -1
    acked: tuple[int, ...] = ()
    has_died: bool = False
    matters: bool = False
    violation: str | None = None
    number: int = -1


@dataclass
class Steps:
    """All states of brokers, and all outcomes."""

    bounds: Bounds
    rules: Rules = field(default_factory=Rules)
    doubts: int = 0

    def __post_init__(self) -> None:
        self.messages = Messages()
        self.metadata = Metadata(self.bounds, self.rules, self.messages)
        self.entries = Numbers()
        self.views: list[View] = []
        self.taken = 0
        self._cells: list[BrokerCell] = []
        self._numbers: dict[Any, int] = {}
        self._latest: dict[int, BrokerCell] = {}
        self._known = KnownOutcomes(self._step, self._cells, self._latest, self.doubts)
        self._own: list[tuple[Event, ...] | None] = []
        self._is_nothing: dict[tuple[int, int], bool] = {}

    def __len__(self) -> int:
        return len(self._cells)

    def first(self, broker_id: int) -> Outcome:
        """A broker that has started on an empty disk, with the first metadata."""
        cell = BrokerCell(broker_id, self.bounds, self.rules)
        return self._step(cell, ("start", self.metadata.first))

    @property
    def doubted(self) -> int:
        """How many outcomes were worked out again."""
        return self._known.doubted

    def outcome(self, number: int, event: Event) -> Outcome:
        """What comes of an event in a state."""
        return self._known.of(number, event)

    def own_events(self, number: int) -> tuple[Event, ...]:
        """What may happen in a broker by itself, but for power cuts."""
        events = self._own[number]
        if events is None:
            events = self._own[number] = tuple(self._cells[number].own_events())
        return events

    def image_of(self, number: int) -> int:
        """The metadata that a broker has taken over."""
        return self._cells[number].image_number

    def fetches_from(self, number: int, leader: int) -> bool:
        """Whether a broker has something to fetch from that one."""
        fetcher = self._cells[number].fetchers.get(leader) if self.views[number].is_up else None
        return fetcher is not None and len(fetcher.partitions) > 0

    def is_nothing_to(self, number: int, image: int) -> bool:
        """Whether a broker that is up is the same when it has taken over the next metadata, and
        will do the same; it may only lead or follow as before, and must not lead."""
        key = number, image
        known = self._is_nothing.get(key)
        if known is None:
            known = self._is_nothing[key] = self._looks_the_same(number, image)
        return known

    def _looks_the_same(self, number: int, image: int) -> bool:
        view, cell = self.views[number], self._cells[number]
        if not view.is_up or view.is_leader:
            return False
        before, after = cell.image, self.metadata[image]
        one, other = (self.metadata.partition(at) for at in (cell.image_number, image))
        if (one.leader, one.leader_epoch) != (other.leader, other.leader_epoch):
            return False
        if before.brokers[cell.id].epoch != after.brokers[cell.id].epoch:
            return False
        outcome = self.outcome(number, ("metadata", image))
        if outcome.sent or outcome.matters:
            return False
        return cell.key_but_image() == self._cells[outcome.cell].key_but_image()

    def deaths(self, number: int) -> tuple[Event, ...]:
        """The power cuts that may strike a broker."""
        cell = self._cells[number]
        if not cell.is_up:
            return ()
        unflushed = len(cell.disk.log.entries) - cell.disk.log.durable
        knows = (False, True) if cell.machine.high_watermark else (False,)
        return tuple(("crash", kept, also) for kept in range(unflushed + 1) for also in knows)

    # -- a step --------------------------------------------------------------------------------

    def _step(self, before: BrokerCell, event: Event) -> Outcome:
        cell = before.copy()
        self.taken += 1
        violation: str | None = None
        answer = -1
        try:
            answer = self._happen(cell, event)
            cell.settle()
        except AssertionError as error:
            violation = f"machine: {error or type(error).__name__}"
        if cell.gave_up is not None:
            violation = violation or f"machine: {cell.gave_up}"
        if violation is not None:
            return Outcome(self._number(before), matters=True, violation=violation)
        sent = tuple((to, self.messages.of(message)) for to, message in cell.sent)
        acked, lowest_cut = tuple(cell.acked), cell.lowest_cut
        cell.sent, cell.acked, cell.lowest_cut = [], [], None
        old, new = self._view(before), self._number(cell)
        view = self.views[new]
        has_died = event[0] == "crash"
        violation = _violation(old, view, has_restarted=has_died or event[0] == "start")
        matters = bool(acked) or violation is not None or lowest_cut is not None or old != view
        return Outcome(new, sent, answer, acked, has_died, matters, violation)

    def _happen(self, cell: BrokerCell, event: Event) -> int:
        """Let it happen; the answer's number if something was asked."""
        word = event[0]
        if word == "request":
            return self.messages.of(answer_to(cell, self.messages[event[1]]))
        if word == "start":
            cell.boot()
            cell.take_over(self.metadata[event[1]], event[1])
        elif word == "metadata":
            cell.take_over(self.metadata[event[1]], event[1])
        elif word in ("answer", "lost"):
            self._hear(cell, event)
        elif word == "crash":
            cell.lose_power(event[1], event[2])
        elif word == "flush":
            cell.flush()
        elif word == "timer":
            cell.fire(event[1])
        elif word == "abandon":
            cell.abandon(event[1])
        elif word == "go on":
            cell.go_on()
        else:
            assert word == "produce", word
            batch = RecordBatch.parse(build_batch([(None, b"%d" % event[1])], timestamp_ms=0))
            cell.produce(Produce(batch, ALL_IN_SYNC, event[1], NEVER_EXPIRES_MS))
        return -1

    def _hear(self, cell: BrokerCell, event: Event) -> None:
        """The controller or a leader has answered, or never will."""
        word, peer = event[:2]
        response = self.messages[event[2]] if word == "answer" else None
        if peer == CONTROLLER_ID:
            hears, cell.controller_hears = cell.controller_hears, None
            assert hears is not None, "only who asks is answered"
            hears(ErrorCode.NONE if response else ErrorCode.REQUEST_TIMED_OUT, response)
        elif response is not None:
            cell.leaders_hear.pop(peer)(LeaderAnswered(1, response))
        else:
            cell.leaders_hear.pop(peer)(LeaderFailed(1, "lost"))

    # -- what has become of the broker ---------------------------------------------------------

    def _number(self, cell: BrokerCell) -> int:
        key = cell.id, cell.key()
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._cells)
            if number >= MOST_STATES:
                raise OverflowError("more states of brokers than a packed state can name")
            self._cells.append(cell)
            self.views.append(self._view(cell))
            self._own.append(None)
        elif self.doubts:
            self._latest[number] = cell
        return number

    def _view(self, cell: BrokerCell) -> View:
        log = cell.disk.log
        entries = tuple(map(self.entries.of, log.entries))
        if not cell.is_up:
            nobody: frozenset[int] = frozenset()
            return View(
                cell.id, False, False, False, -1, -1, 0, entries, log.durable, nobody, nobody, False
            )
        machine = cell.machine
        leader = machine.leader_state
        return View(
            cell.id,
            True,
            cell.accepts,
            machine.is_leader,
            machine.leader_id,
            machine.leader_epoch,
            machine.high_watermark,
            entries,
            log.durable,
            machine.isr,
            machine.isr if leader is None else leader.maximal_isr,
            machine.proposal is not None,
        )

    def entry(self, number: int) -> Entry:
        """An entry of a log by number."""
        entry: Entry = self.entries.values[number]
        return entry


def _violation(old: View, new: View, *, has_restarted: bool) -> str | None:
    """What is wrong with a step by itself."""
    if new.high_watermark > len(new.log):
        return f"I05: the high watermark of {new.broker_id} is behind its log's end"
    if new.is_leader and new.high_watermark > new.durable:
        return f"I05: {new.broker_id} shows what is not on its disk"
    if not has_restarted and new.high_watermark < old.high_watermark:
        return f"I06: the high watermark of {new.broker_id} falls"
    return None
