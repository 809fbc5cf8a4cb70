"""One node of a search: the real machine and driver over a log and a state of lists.

Time stands still at 0 and every timeout but two is 0, so that a timer is due from the moment it is
armed: it may fire next, or never, and clocks never tell two states apart. That is more than clocks
can do, and nothing that they can do is missing. The two are the time-out of requests, which is the
search's choice (a lost message), and the deadline of a change of voters, which only answers the
operator's request. Fetches do not wait for data: a fetch that waits is one that arrives later.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from fencepost.batch.control import build_leader_change
from fencepost.batch.record_batch import RecordBatch
from fencepost.machines.canonical import canonical
from fencepost.machines.driver import Driver
from fencepost.machines.effects import Append, SendAfterPersist, Truncate
from fencepost.machines.quorum import (
    FetchBounds,
    MachineMaker,
    QuorumConfig,
    QuorumMachine,
    QuorumState,
    Start,
    fetch_response,
    inputs,
)
from fencepost.machines.quorum.view import NO_SNAPSHOTS
from fencepost.machines.quorum.voter_history import BEFORE_THE_LOG, VoterHistory
from fencepost.machines.quorum.voters import Endpoint, ReplicaKey, Voter, VoterSet
from fencepost.sim.explore.copying import clone
from fencepost.sim.explore.known import Event
from fencepost.sim.explore.logs import CellLog, directory
from fencepost.sim.explore.quorum.bounds import Bounds
from fencepost.wire.message import Message
from fencepost.wire.types import Uuid

KEY: Final = "metadata"
NEVER_MS: Final = 1
"""A deadline that is not reached: time stands at 0."""

# What only says which controller may be added; see `Cell.key`.
_OF_CATCHING_UP: Final = frozenset(("last_caught_up_ms", "leader_end_offset"))


class PowerCut(BaseException):
    """The node dies here. Not an Exception: nothing may get in its way."""


class MetadataLog(CellLog):
    """A metadata log, as a quorum machine sees it."""

    snapshots = NO_SNAPSHOTS

    def read(self, bounds: FetchBounds) -> bytes:
        """Whole batches within the bounds, at least one, as a shell reads them."""
        out = b""
        for entry in self.entries:
            if bounds.offset < entry.next_offset <= bounds.upper_bound_offset:
                if out and len(out) + len(entry.data) > bounds.max_bytes:
                    break
                out += entry.data
        return out


def voter(node_id: int) -> Voter:
    """A node as the first voter set has it."""
    return Voter(ReplicaKey(node_id, directory(node_id)), (), 0, 1)


def added_endpoint(node_id: int) -> Endpoint:
    """Where a controller that is to be added is reached."""
    return Endpoint("CONTROLLER", f"node{node_id}", 9000 + node_id)


def history_of(log: MetadataLog, bounds: Bounds) -> VoterHistory:
    """What a disk says of the voters: the bootstrap snapshot, then the log."""
    founders = VoterSet(tuple(map(voter, bounds.founders)))
    if not bounds.changes:
        return _continued(VoterHistory(VoterSet.of_ids(bounds.founders)), log)
    history = VoterHistory(VoterSet())
    history.note_kraft_version(BEFORE_THE_LOG, 1)
    history.note_voters(BEFORE_THE_LOG, founders)
    return _continued(history, log)


def _continued(history: VoterHistory, log: MetadataLog) -> VoterHistory:
    for entry in log.entries:
        history.take_batch(entry.base_offset, entry.data)
    return history


def _config(node_id: int, bounds: Bounds) -> QuorumConfig:
    return QuorumConfig(
        directory_id=directory(node_id) if bounds.changes else Uuid.ZERO,
        election_timeout_ms=0,
        election_backoff_max_ms=0,
        fetch_timeout_ms=0,
        request_timeout_ms=NEVER_MS,
        retry_backoff_ms=0,
        fetch_max_wait_ms=0,
        fetch_max_bytes=1 if bounds.one_batch else 1 << 20,
    )


class Cell:
    """A node: what is on its disk, its machine, and what its driver holds back.

    `sent` and `replies` collect what the last step let out, and `late_writes` which of its writes
    of the durable state came after something had left. With `dies_at` n, power fails on the n-th.
    """

    def __init__(self, node_id: int, bounds: Bounds) -> None:
        self.id = node_id
        self.bounds = bounds
        self.log = MetadataLog()
        self.state = QuorumState()
        self.machine: QuorumMachine
        self.driver: Driver
        self.sent: list[tuple[int, Message]] = []
        self.replies: list[Any] = []
        self.failed: str | None = None
        self.writes = 0
        self.late_writes: list[int] = []
        self.dies_at = 0
        self.lowest_cut: int | None = None

    def prepare(self) -> None:
        """Put on the disk what the bounds say that it holds at the start."""
        bounds = self.bounds
        epoch, leader = bounds.first_epoch, bounds.led(bounds.first_epoch)
        if not epoch:
            return
        for each in bounds.logs[self.id - 1]:
            batch = build_leader_change(
                bounds.led(each), bounds.founders, (), timestamp_ms=0, leader_epoch=each
            )
            self.log.append(Append([RecordBatch.parse(batch)], each))
        is_leader = self.id == leader
        self.state = QuorumState(epoch, leader if is_leader else -1, leader if is_leader else -1)

    def boot(self, make_machine: MachineMaker) -> None:
        """Start on what is on the disk."""
        self.log.durable = len(self.log.entries)
        history = history_of(self.log, self.bounds)
        config = _config(self.id, self.bounds)
        self.machine = make_machine(self.id, history, self.log, self.state, config)
        self._host()
        self.driver.feed(KEY, Start((0,)))

    def _host(self) -> None:
        self.driver = Driver(_Ports(self))
        self.driver.add(KEY, self.machine)

    def copy(self) -> Cell:
        """The same node, to be stepped on its own."""
        made: Cell = clone(self, {})
        return made

    def key(self) -> Any:
        """What the node's future depends on.

        How well replicas keep up matters only where one may be added to the voters.
        """
        skip = frozenset() if self.bounds.others else _OF_CATCHING_UP
        return (
            tuple(self.log.entries),
            self.log.durable,
            self.state,
            self.failed,
            canonical(self.held_words),
            self.machine.canonical(skip),
        )

    # -- what the driver and the machine keep to themselves ------------------------------------

    @property
    def _hosted(self) -> Any:
        return self.driver._hosted[KEY]

    @property
    def held(self) -> deque[tuple[int, SendAfterPersist]]:
        """What waits for a flush."""
        held: deque[tuple[int, SendAfterPersist]] = self._hosted.held
        return held

    @property
    def held_words(self) -> list[tuple[int, Message, bool]]:
        """What waits for a flush: to whom, what, and whether its answer is still waited for."""
        asked = self.asked
        return [(e.to, e.message, asked.get(e.to) is e.message) for _, e in self.held]

    @property
    def asked(self) -> dict[int, Message]:
        """The requests whose answers the machine waits for, by peer."""
        return self.machine.requests.asked

    @property
    def due_timers(self) -> tuple[str, ...]:
        """The timers that may fire."""
        return self.machine.timers.due

    def forget_stale(self, keeps: bool) -> None:
        """Of requests that wait for a flush and that the machine gave up on, keep one of a kind.

        Or none, if late messages are not among the bounds.
        """
        kept: deque[tuple[int, SendAfterPersist]] = deque()
        seen = set()
        asked = self.asked
        for offset, effect in self.held:
            if asked.get(effect.to) is not effect.message:
                word = (effect.to, canonical(effect.message))
                if not keeps or word in seen:
                    continue
                seen.add(word)
            kept.append((offset, effect))
        self._hosted.held = kept

    def own_events(self) -> list[Event]:
        """What may happen in the node by itself, but for power cuts and what operators ask for."""
        found: list[Event] = []
        if self.log.durable < len(self.log.entries) or self.held:
            found.append(("flush",))
        for name in self.due_timers:
            if name != inputs.BEGIN_QUORUM or self.bounds.reminds:
                found.append(("timer", name))
        return found


class _Ports:
    """The driver's ports, over a cell."""

    def __init__(self, cell: Cell) -> None:
        self._cell = cell

    def now_ms(self) -> int:
        return 0

    def wall_ms(self) -> int:
        return 0

    def append(self, key: Any, work: Append, wall_ms: int) -> int:
        self._cell.log.append(work)
        return self._cell.log.end_offset

    def request_flush(self, key: Any) -> None:
        """A flush may happen whenever there is something to flush."""

    def truncate(self, key: Any, work: Truncate) -> int:
        lowest = self._cell.lowest_cut
        self._cell.lowest_cut = min(work.end_offset, work.end_offset if lowest is None else lowest)
        self._cell.log.cut(work.end_offset)
        return self._cell.log.end_offset

    def write_state(self, key: Any, state: QuorumState) -> None:
        self._cell.writes += 1
        if self._cell.writes == self._cell.dies_at:
            raise PowerCut
        if self._cell.sent or self._cell.replies:
            self._cell.late_writes.append(self._cell.writes)
        self._cell.state = state

    def store_snapshot(self, key: Any, work: Any) -> None:
        raise AssertionError("there are no snapshots here, and no damage")

    install_snapshot = drop_prefix = repair_batch = store_snapshot

    def send(self, key: Any, to: Any, message: Any) -> None:
        self._cell.sent.append((to, message))

    def reply(self, token: Any, value: Any) -> None:
        if isinstance(value, FetchBounds):
            value = fetch_response(value, self._cell.log.read(value))
        if token is ANSWER:
            self._cell.replies.append(value)

    def tell(self, machine: Any, input_: Any) -> None:
        """The quorum's machine is alone on its node."""
        raise AssertionError("there is no other machine")

    def set_timer(self, key: Any, name: str, deadline_ms: int | None) -> None:
        """The machine's own deadlines say which timers are armed."""

    def stepped(self, key: Any, machine: Any) -> None:
        """What has moved is seen after the whole event."""

    def failed(self, key: Any, reason: str) -> None:
        self._cell.failed = reason


ANSWER: Final = "answer"
"""The token of a request that came over the network."""
