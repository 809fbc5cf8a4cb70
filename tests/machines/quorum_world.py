"""A quorum in a bottle: real machines, the real driver, and a log, network and clock of lists.

Everything that may happen next lies open: messages in flight, flushes that were asked for, timers
that are armed. A transcript picks by name, a random run picks by seed. Nothing is durable until it
is flushed; a crash takes what is not. Messages travel encoded.

`World.check` holds the quorum's invariants, numbered as in the project's catalogue; it runs after
every step. What a violation says is for people.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fencepost.batch.crc import crc32c
from fencepost.batch.header import BatchHeader, iter_headers, read_header, stamp
from fencepost.batch.records import build_batch
from fencepost.log.epochs import LeaderEpochCache
from fencepost.log.snapshots import SnapshotId
from fencepost.machines.driver import Driver
from fencepost.machines.effects import Append, DropPrefix, InstallSnapshot, StoreSnapshot, Truncate
from fencepost.machines.quorum import (
    AppendOutcome,
    AppendRecords,
    FetchBounds,
    QuorumConfig,
    QuorumMachine,
    QuorumState,
    RequestFailed,
    Role,
    Start,
    answered,
    fetch_response,
    received,
)
from fencepost.wire.api.vote import VoteResponse
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

KEY = "metadata"
CLUSTER_ID = "world"


class Violation(AssertionError):
    """An invariant of the quorum does not hold."""


class PowerCut(BaseException):
    """The node dies here. Not an Exception: nothing may get in its way."""


@dataclass(frozen=True)
class Entry:
    """One batch of a log."""

    base_offset: int
    next_offset: int
    epoch: int
    data: bytes


def _entry(header: BatchHeader, data: bytes) -> Entry:
    return Entry(header.base_offset, header.next_offset, header.partition_leader_epoch, data)


class Shelf:
    """The snapshots of one node: each is all batches below its end, and a checksum."""

    def __init__(self) -> None:
        self.files: dict[SnapshotId, bytes] = {}
        self.times_ms: dict[SnapshotId, int] = {}
        self.partial: tuple[SnapshotId, bytearray] | None = None

    def ids(self) -> list[SnapshotId]:
        return sorted(self.files)

    def latest(self) -> SnapshotId | None:
        return max(self.files, default=None)

    def earliest(self) -> SnapshotId | None:
        return min(self.files, default=None)

    def size_bytes(self, snapshot_id: SnapshotId) -> int | None:
        data = self.files.get(snapshot_id)
        return None if data is None else len(data)

    def timestamp_ms(self, snapshot_id: SnapshotId) -> int | None:
        return self.times_ms.get(snapshot_id)

    def put(self, snapshot_id: SnapshotId, entries: Sequence[Entry], time_ms: int = 0) -> None:
        data = b"".join(entry.data for entry in entries)
        self.files[snapshot_id] = data + crc32c(data).to_bytes(4, "big")
        self.times_ms[snapshot_id] = time_ms

    def store(self, work: StoreSnapshot) -> None:
        if work.position_bytes == 0:
            self.partial = (work.snapshot_id, bytearray())
        assert self.partial is not None and self.partial[0] == work.snapshot_id, "it was begun"
        assert len(self.partial[1]) == work.position_bytes, "pieces follow each other"
        self.partial[1].extend(work.data)

    def finish(self, snapshot_id: SnapshotId) -> str | None:
        """Put the partial file in place; or why not."""
        assert self.partial is not None and self.partial[0] == snapshot_id, "it was fetched"
        data, self.partial = bytes(self.partial[1]), None
        if len(data) < 4 or crc32c(data[:-4]).to_bytes(4, "big") != data[-4:]:
            return "its checksum is wrong"
        self.files[snapshot_id] = data
        self.times_ms[snapshot_id] = 0
        return None

    def entries(self, snapshot_id: SnapshotId) -> list[Entry]:
        """What the snapshot stands for."""
        data = self.files[snapshot_id][:-4]
        return [
            Entry(
                h.base_offset, h.next_offset, h.partition_leader_epoch, data[p : p + h.size_bytes]
            )
            for p, h in iter_headers(data)
        ]


class ListLog:
    """A log view over a list of batches; `durable_offset` is what a crash cannot take."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.epochs = LeaderEpochCache()
        self.durable_offset = 0
        self.start_offset = 0
        self.snapshots = Shelf()

    @property
    def end_offset(self) -> int:
        return self.entries[-1].next_offset if self.entries else self.start_offset

    @property
    def size_bytes(self) -> int:
        return sum(len(entry.data) for entry in self.entries)

    @property
    def all_entries(self) -> list[Entry]:
        """What the log would hold if no prefix had been dropped."""
        if self.start_offset == 0:
            return self.entries
        at_start = [i for i in self.snapshots.files if i.end_offset == self.start_offset]
        if not at_start:
            raise Violation(f"I27: the log starts at {self.start_offset}, without a snapshot")
        return self.snapshots.entries(at_start[0]) + self.entries

    def start_over(self, start_offset: int) -> None:
        """Empty the log; what comes next stands at `start_offset`."""
        self.entries = []
        self.epochs.clear()
        self.start_offset = self.durable_offset = start_offset

    def drop_prefix(self, start_offset: int) -> None:
        """Batches below go, and snapshots that end below."""
        assert self.start_offset < start_offset <= self.end_offset, "the log holds the offset"
        self.entries = [e for e in self.entries if e.base_offset >= start_offset]
        self.epochs.truncate_from_start(start_offset)
        self.start_offset = start_offset
        for id_ in self.snapshots.ids():
            if id_.end_offset < start_offset:
                del self.snapshots.files[id_]

    @property
    def recovery_point(self) -> int:
        return self.durable_offset

    def append(self, work: Append) -> None:
        for batch in work.batches:
            if work.as_leader:
                stamp(batch, 0, base_offset=self.end_offset, leader_epoch=work.leader_epoch)
            header = read_header(batch)
            assert header.base_offset == self.end_offset, "no gap and no overlap"
            self.epochs.assign(header.partition_leader_epoch, header.base_offset)
            self.entries.append(_entry(header, bytes(batch)))

    def cut(self, end_offset: int) -> None:
        while self.entries and self.entries[-1].next_offset > end_offset:
            self.entries.pop()
        assert self.end_offset == end_offset, "cut between batches"
        self.epochs.truncate_from_end(end_offset)
        self.durable_offset = min(self.durable_offset, end_offset)

    def read(self, bounds: FetchBounds) -> bytes:
        """Whole batches within the bounds, at least one, as a broker reads them."""
        out = b""
        for entry in self.entries:
            if bounds.offset < entry.next_offset <= bounds.upper_bound_offset:
                if out and len(out) + len(entry.data) > bounds.max_bytes:
                    break
                out += entry.data
        return out


@dataclass
class Flight:
    """A message on its way: a request, its answer, or the news that there will be none."""

    number: int
    kind: str
    source: int
    target: int
    message: Message | None
    request: Message
    life: int

    def __str__(self) -> str:
        name = type(self.message or self.request).__name__
        shown = name if self.kind != "failure" else f"no answer to {name}"
        return f"{self.source}->{self.target} {shown}"


@dataclass
class Node:
    """One node: what survives a crash, and the machine while it is alive."""

    id: int
    log: ListLog = field(default_factory=ListLog)
    state: QuorumState = field(default_factory=QuorumState)
    life: int = 0
    machine: QuorumMachine | None = None
    driver: Driver | None = None
    timers: dict[str, int] = field(default_factory=dict)
    wants_flush: bool = False
    wants_install: SnapshotId | None = None
    refuses_disk: str | None = None
    dies_writing_state: bool = False
    failed: str | None = None
    high_watermark: int = 0


class _Ports:
    """The driver's ports of one node in one life."""

    def __init__(self, world: World, node: Node) -> None:
        self._world = world
        self._node = node

    def now_ms(self) -> int:
        return self._world.now_ms

    def append(self, key: Any, work: Append) -> int:
        if self._node.refuses_disk:
            raise OSError(self._node.refuses_disk)
        self._node.log.append(work)
        return self._node.log.end_offset

    def request_flush(self, key: Any) -> None:
        self._node.wants_flush = True

    def truncate(self, key: Any, work: Truncate) -> None:
        self._world.check_truncation(self._node, work.end_offset)
        self._node.log.cut(work.end_offset)

    def store_snapshot(self, key: Any, work: StoreSnapshot) -> None:
        self._node.log.snapshots.store(work)

    def install_snapshot(self, key: Any, work: InstallSnapshot) -> None:
        self._node.wants_install = work.snapshot_id

    def drop_prefix(self, key: Any, work: DropPrefix) -> None:
        self._world.check_prefix(self._node, work.start_offset)
        self._node.log.drop_prefix(work.start_offset)

    def write_state(self, key: Any, state: QuorumState) -> None:
        if self._node.refuses_disk:
            raise OSError(self._node.refuses_disk)
        if self._node.dies_writing_state:
            self._node.dies_writing_state = False
            raise PowerCut
        self._world.check_state(self._node, state)
        self._node.state = state

    def send(self, key: Any, to: int, message: Message) -> None:
        self._world.put("request", self._node, to, message, message)

    def reply(self, token: Callable[[Any], None], value: Any) -> None:
        token(value)

    def set_timer(self, key: Any, name: str, deadline_ms: int | None) -> None:
        if deadline_ms is None:
            self._node.timers.pop(name, None)
        else:
            self._node.timers[name] = deadline_ms

    def stepped(self, key: Any, machine: Any) -> None:
        self._world.check(self._node)

    def failed(self, key: Any, reason: str) -> None:
        self._node.failed = reason


class World:
    """Nodes 1 to n, of which all but the last `observers` vote."""

    def __init__(
        self,
        voters: int,
        observers: int = 0,
        machine_class: type[QuorumMachine] = QuorumMachine,
        jitter: Callable[[int], list[int]] = lambda node_id: [node_id * 100],
        encoded: bool = True,
        fetch_max_bytes: int = 1 << 20,
    ) -> None:
        self.now_ms = 0
        self.flights: list[Flight] = []
        self.voters = tuple(range(1, voters + 1))
        self.nodes = {id_: Node(id_) for id_ in range(1, voters + observers + 1)}
        self.committed: list[Entry] = []
        self.outcomes: dict[str, AppendOutcome] = {}
        self.blocked: set[tuple[int, int]] = set()
        self._machine_class = machine_class
        self._jitter = jitter
        self._encoded = encoded
        self._config = QuorumConfig(cluster_id=CLUSTER_ID, fetch_max_bytes=fetch_max_bytes)
        self._sent = 0
        self._appended = 0
        self._leaders: dict[int, int] = {}
        self._votes: dict[tuple[int, int], int] = {}

    # -- what happens --------------------------------------------------------------------------

    def start(self, node_id: int) -> None:
        """Boot a node, for the first time or again, on what its disk holds."""
        node = self.nodes[node_id]
        assert node.driver is None, "it runs already"
        node.life += 1
        node.log.durable_offset = node.log.end_offset
        node.timers, node.wants_flush, node.high_watermark = {}, False, 0
        node.machine = self.make_machine(node)
        node.driver = Driver(_Ports(self, node))
        node.driver.add(KEY, node.machine)
        node.driver.feed(KEY, Start(self._jitter(node_id)))

    def make_machine(self, node: Node) -> QuorumMachine:
        """The machine of a node that boots; it is not started yet."""
        return self._machine_class(node.id, self.voters, node.log, node.state, self._config)

    def crash(self, node_id: int, keep: int = 0) -> None:
        """Stop a node at once; of what it had not flushed, `keep` batches reached the disk."""
        node = self.nodes[node_id]
        node.driver, node.machine, node.failed, node.refuses_disk = None, None, None, None
        flushed = [e for e in node.log.entries if e.next_offset <= node.log.durable_offset]
        left = node.log.entries[: len(flushed) + keep]
        node.log.cut(left[-1].next_offset if left else 0)

    def flush(self, node_id: int) -> None:
        """What the node has appended is durable now."""
        node = self.nodes[node_id]
        node.wants_flush = False
        node.log.durable_offset = node.log.end_offset
        self.driver(node_id).persisted(KEY, node.log.end_offset)

    def fire(self, node_id: int, name: str) -> None:
        """Let time pass until this timer is due (if it is not yet), and tell the node."""
        node = self.nodes[node_id]
        assert name in node.timers, f"no timer {name} of {node_id} among {node.timers}"
        self.now_ms = max(self.now_ms, node.timers.pop(name))
        self.driver(node_id).timer_fired(KEY, name)

    def deliver(self, flight: Flight) -> None:
        """Hand over a message; to a dead node, the answer is that there is none."""
        self.flights.remove(flight)
        self.hand_over(flight)

    def hand_over(self, flight: Flight) -> None:
        """Hand over a message without taking it off the network, as a duplicate is."""
        try:
            self._feed(flight)
        except PowerCut:
            self.crash(flight.target)

    def _feed(self, flight: Flight) -> None:
        target = self.nodes[flight.target]
        cut = (flight.source, flight.target) in self.blocked
        if flight.kind == "request":
            if target.driver is None or cut:
                self._put_failure(flight)
                return
            request = self._travelled(flight.message)
            target.driver.feed(KEY, received(self._answerer(flight, target), request))
        elif target.driver is None or target.life != flight.life:
            return
        elif flight.kind == "failure" or cut:
            target.driver.feed(KEY, RequestFailed(self.peer_of(flight), flight.request))
        else:
            response = self._travelled(flight.message)
            target.driver.feed(KEY, answered(self.peer_of(flight), flight.request, response))

    def peer_of(self, flight: Flight) -> int:
        """Whom the receiver of an answer had asked, by its own name for it."""
        return flight.source

    def drop(self, flight: Flight, told: bool = True) -> None:
        """Lose a message; `told` says whether its sender finds out before its own time-out."""
        self.flights.remove(flight)
        if told and flight.kind == "request":
            self._put_failure(flight)
        elif told and flight.kind == "response":
            self._put("failure", flight.source, flight.target, None, flight.request, flight.life)

    def append(self, node_id: int, name: str, epoch: int | None = None) -> None:
        """Ask a node to append a record that says `name`; the outcome goes to `outcomes`."""
        machine = self.machine(node_id)
        self._appended += 1
        batch = build_batch([(None, name.encode())], timestamp_ms=self.now_ms)
        self.driver(node_id).feed(
            KEY,
            AppendRecords(
                [batch],
                lambda outcome: self.outcomes.__setitem__(name, outcome),
                machine.epoch if epoch is None else epoch,
            ),
        )

    def machine(self, node_id: int) -> QuorumMachine:
        machine = self.nodes[node_id].machine
        assert machine is not None, f"node {node_id} is down"
        return machine

    def driver(self, node_id: int) -> Driver:
        driver = self.nodes[node_id].driver
        assert driver is not None, f"node {node_id} is down"
        return driver

    def alive(self) -> list[int]:
        return [id_ for id_, node in self.nodes.items() if node.driver is not None]

    def leader(self) -> int | None:
        """The alive leader of the highest epoch."""
        leading = [
            (self.machine(id_).epoch, id_)
            for id_ in self.alive()
            if self.machine(id_).role is Role.LEADER
        ]
        return max(leading)[1] if leading else None

    def run(self, done: Callable[[], bool], most: int = 5_000) -> None:
        """Let everything happen in good order, time last, until `done`."""
        for _ in range(most):
            if done():
                return
            self.tick()
        raise Violation(f"liveness: not done after {most} events; {self.describe()}")

    def tick(self) -> None:
        """The next thing in good order: a flush, a message, or the next timer."""
        for id_ in self.alive():
            if self.nodes[id_].wants_flush:
                self.flush(id_)
                return
        if self.flights:
            self.deliver(self.flights[0])
            return
        timers = [
            (deadline, id_, name)
            for id_ in self.alive()
            for name, deadline in self.nodes[id_].timers.items()
        ]
        if timers:
            _, id_, name = min(timers)
            self.fire(id_, name)

    def wait(self, ms: int) -> None:
        """Let time pass in good order."""
        end_ms = self.now_ms + ms
        while True:
            self.settle()
            timers = [t for id_ in self.alive() for t in self.nodes[id_].timers.values()]
            if not timers or min(timers) > end_ms:
                self.now_ms = end_ms
                return
            self.tick()

    def settle(self, most: int = 5_000) -> None:
        """Flush and deliver until there is nothing but time left to pass."""
        for _ in range(most):
            if not self.flights and not any(self.nodes[i].wants_flush for i in self.alive()):
                return
            self.tick()
        raise Violation("messages without end")

    def describe(self) -> str:
        return "; ".join(
            repr(node.machine) if node.machine else f"{id_} is down"
            for id_, node in self.nodes.items()
        )

    # -- the network ---------------------------------------------------------------------------

    def put(self, kind: str, source: Node, target: int, message: Message, request: Message) -> None:
        self._put(kind, source.id, target, message, request, source.life)

    def _put(
        self,
        kind: str,
        source: int,
        target: int,
        message: Message | None,
        request: Message,
        life: int,
    ) -> None:
        self._sent += 1
        self.flights.append(Flight(self._sent, kind, source, target, message, request, life))

    def _put_failure(self, flight: Flight) -> None:
        self._put("failure", flight.target, flight.source, None, flight.request, flight.life)

    def _answerer(self, flight: Flight, target: Node) -> Callable[[Any], None]:
        life = target.life

        def answer(value: Any) -> None:
            if target.life != life or target.driver is None:
                return
            if isinstance(value, FetchBounds):
                value = fetch_response(value, target.log.read(value))
            if isinstance(value, VoteResponse):
                self._note_promise(target.id, flight, value)
            self._put("response", target.id, flight.source, value, flight.request, flight.life)

        return answer

    def _travelled(self, message: Message | None) -> Message:
        assert message is not None
        if not self._encoded:
            return message
        version = type(message).max_version
        return type(message).decode(bytes(message.encode(version)), version)

    # -- what must hold ------------------------------------------------------------------------

    def check_state(self, node: Node, state: QuorumState) -> None:
        """I22, I23: one vote per voter and epoch; what is on disk never goes back."""
        if state.epoch < node.state.epoch:
            raise Violation(f"I23: epoch of {node.id} falls from {node.state} to {state}")
        self._note_vote(node.id, state.epoch, state.voted_id)

    def _note_vote(self, voter: int, epoch: int, candidate: int) -> None:
        if candidate < 0:
            return
        before = self._votes.setdefault((voter, epoch), candidate)
        if before != candidate:
            raise Violation(f"I22: {voter} votes for {before} and {candidate} in epoch {epoch}")

    def _note_promise(self, voter: int, flight: Flight, response: VoteResponse) -> None:
        """I22 again, of what a candidate is told."""
        asked = flight.request.topics[0].partitions[0]  # type: ignore[attr-defined]
        if response.topics and response.topics[0].partitions[0].vote_granted and not asked.pre_vote:
            self._note_vote(voter, asked.replica_epoch, flight.source)

    def check_truncation(self, node: Node, end_offset: int) -> None:
        """I07: nothing that this node knows to be committed is cut."""
        if end_offset < node.high_watermark:
            raise Violation(f"I07: {node.id} cuts to {end_offset}, below {node.high_watermark}")

    def check_prefix(self, node: Node, start_offset: int) -> None:
        """I27: where a log begins, a snapshot ends that is what the log was."""
        if start_offset > node.high_watermark:
            raise Violation(f"I27: {node.id} drops what is not committed, below {start_offset}")

    def check(self, node: Node) -> None:
        """Everything that can be seen from one node after a step."""
        machine = node.machine
        if machine is None or machine.role is Role.FAILED:
            return
        if node.state != machine.state:
            raise Violation(f"I23: {node.id} has {machine.state} in mind, {node.state} on disk")
        if machine.high_watermark < node.high_watermark:
            raise Violation(f"I06: high watermark of {node.id} falls")
        if machine.role is Role.LEADER:
            self._check_leader(node, machine)
        if machine.high_watermark > node.high_watermark:
            node.high_watermark = machine.high_watermark
            self._check_committed(node)

    def _check_leader(self, node: Node, machine: QuorumMachine) -> None:
        other = self._leaders.setdefault(machine.epoch, node.id)
        if other != node.id:
            raise Violation(f"I21: {other} and {node.id} lead epoch {machine.epoch}")
        newest = max(self._leaders) == machine.epoch
        if newest and node.log.entries[: len(self.committed)] != self.committed:
            raise Violation(f"I25: leader {node.id} of {machine.epoch} lacks committed batches")

    def _check_committed(self, node: Node) -> None:
        """I24, I26: one committed log, and a majority has it on disk."""
        entries = [e for e in node.log.entries if e.next_offset <= node.high_watermark]
        known = min(len(entries), len(self.committed))
        if entries[:known] != self.committed[:known]:
            raise Violation(f"I24: {node.id} has other committed batches than there were")
        for entry in entries[known:]:
            voters = self.voters_of(node)
            holders = [id_ for id_ in voters if self.holds(node, id_, entry)]
            if len(holders) <= len(voters) // 2:
                raise Violation(f"I26: offset {entry.base_offset} is committed, on {holders} only")
            self.committed.append(entry)

    def voters_of(self, node: Node) -> Sequence[int]:
        """The voters that a node counts by when it commits."""
        return self.voters

    def holds(self, node: Node, voter: int, entry: Entry) -> bool:
        """Whether a voter of this node's set has a batch on disk."""
        log = self.nodes[voter].log
        return entry in log.entries and entry.next_offset <= log.durable_offset

    def check_logs(self) -> None:
        """I03: where two logs have a batch of one offset and epoch, they are the same up to it."""
        logs = [node.log.entries for node in self.nodes.values()]
        for a in logs:
            for b in logs:
                common = {(e.base_offset, e.epoch) for e in a} & {
                    (e.base_offset, e.epoch) for e in b
                }
                if common:
                    last = max(common)[0]
                    if [e for e in a if e.base_offset <= last] != [
                        e for e in b if e.base_offset <= last
                    ]:
                        raise Violation(f"I03: logs differ below offset {last}")

    def check_promises(self) -> None:
        """I13: what was told to be committed is, where it was said to be."""
        values = {e.base_offset: e.data for e in self.committed}
        for name, outcome in self.outcomes.items():
            if outcome.error is ErrorCode.NONE:
                data = values.get(outcome.base_offset, b"")
                if name.encode() not in data:
                    raise Violation(f"I13: {name!r} was committed and is gone")

    def has_converged(self) -> bool:
        """One leader, whose whole log is committed and known to be, everywhere."""
        leader = self.leader()
        if leader is None or self.nodes[leader].failed:
            return False
        end = self.nodes[leader].log.end_offset
        return all(
            self.nodes[id_].log.end_offset == end and self.machine(id_).high_watermark == end
            for id_ in self.alive()
        )
