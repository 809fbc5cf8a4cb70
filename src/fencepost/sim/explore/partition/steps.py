"""What a broker does, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from fencepost.batch.record_batch import RecordBatch
from fencepost.batch.records import build_batch
from fencepost.machines.fetcher import LeaderAnswered, LeaderFailed
from fencepost.machines.partition import Produce
from fencepost.machines.partition.acknowledging import ALL_IN_SYNC
from fencepost.sim.explore.known import Event
from fencepost.sim.explore.partition.bounds import Bounds
from fencepost.sim.explore.partition.cell import CONTROLLER_ID, NEVER_EXPIRES_MS, BrokerCell
from fencepost.sim.explore.partition.metadata import Metadata
from fencepost.sim.explore.partition.serving import answer_to
from fencepost.sim.explore.steps import NodeSteps
from fencepost.sim.rules import Rules
from fencepost.wire.errors import ErrorCode


class View(NamedTuple):
    """What the laws look at of a broker's state. `log` are numbers of entries."""

    node_id: int
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


class Steps(NodeSteps[BrokerCell, View, Outcome]):
    """All states of brokers, and all outcomes."""

    def __init__(self, bounds: Bounds, rules: Rules, doubts: int) -> None:
        super().__init__(doubts)
        self.bounds = bounds
        self.rules = rules
        self.metadata = Metadata(bounds, rules, self.messages)
        self._is_nothing: dict[tuple[int, int], bool] = {}

    def first(self, broker_id: int) -> Outcome:
        """A broker that has started on an empty disk, with the first metadata."""
        cell = BrokerCell(broker_id, self.bounds, self.rules)
        return self._step(cell, ("start", self.metadata.first))

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
            assert hears is not None, "only a broker with a request under way is answered"
            hears(ErrorCode.NONE if response else ErrorCode.REQUEST_TIMED_OUT, response)
        elif response is not None:
            cell.leaders_hear.pop(peer)(LeaderAnswered(1, response))
        else:
            cell.leaders_hear.pop(peer)(LeaderFailed(1, "lost"))

    # -- what has become of the broker ---------------------------------------------------------

    def _view(self, cell: BrokerCell) -> View:
        log = cell.disk.log
        entries = tuple(map(self.entries.of, log.entries))
        if not cell.is_up:
            none: frozenset[int] = frozenset()
            return View(
                cell.id, False, False, False, -1, -1, 0, entries, log.durable, none, none, False
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


def _violation(old: View, new: View, *, has_restarted: bool) -> str | None:
    """What is wrong with a step by itself."""
    if new.high_watermark > len(new.log):
        return f"I05: the high watermark of {new.node_id} is behind its log's end"
    if new.is_leader and new.high_watermark > new.durable:
        return f"I05: {new.node_id} shows what is not on its disk"
    if not has_restarted and new.high_watermark < old.high_watermark:
        return f"I06: the high watermark of {new.node_id} falls"
    return None
