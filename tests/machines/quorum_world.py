"""A quorum in a bottle: real machines, the real driver, and a log, network and clock of lists.

Everything that may happen next lies open: messages in flight, flushes that were asked for, timers
that are armed. A transcript picks by name, a random run picks by seed. Nothing is durable until it
is flushed; a crash takes what is not. Messages travel encoded.

`check` (`quorum_checks.py`) holds the quorum's invariants and runs after every step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from fencepost.batch.records import build_batch
from fencepost.log.snapshots import SnapshotId
from fencepost.machines.driver import Driver
from fencepost.machines.effects import (
    Append,
    DropPrefix,
    InstallSnapshot,
    RepairBatch,
    StoreSnapshot,
    Truncate,
)
from fencepost.machines.quorum import (
    AppendRecords,
    DraftBounds,
    FetchBounds,
    LogDamaged,
    QuorumConfig,
    QuorumMachine,
    QuorumRecordsReceived,
    QuorumState,
    RequestFailed,
    Role,
    SnapshotBounds,
    SnapshotInstalled,
    SnapshotRefused,
    SnapshotTaken,
    Start,
    answered,
    fetch_response,
    fetch_snapshot_response,
    quorum_records_response,
    received,
    unreadable,
)
from fencepost.machines.quorum.rules import RULES, QuorumRules
from fencepost.machines.quorum.voter_history import VoterHistory
from fencepost.wire.api.vote import VoteResponse
from fencepost.wire.draft.fetch_quorum_records import FetchQuorumRecordsRequest
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

from .quorum_checks import Checks, Flight, Node, Violation
from .quorum_log import RottenBatch

KEY = "metadata"
CLUSTER_ID = "world"


class PowerCut(BaseException):
    """The node dies here. Not an Exception: nothing may get in its way."""


class _Ports:
    """The driver's ports of one node in one life."""

    def __init__(self, world: World, node: Node) -> None:
        self._world = world
        self._node = node

    def now_ms(self) -> int:
        return self._world.now_ms

    def wall_ms(self) -> int:
        return self._world.wall_ms

    def append(self, key: Any, work: Append, wall_ms: int) -> int:
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
        self._node.keeps_log = work.keeps_log

    def drop_prefix(self, key: Any, work: DropPrefix) -> None:
        self._world.check_prefix(self._node, work.start_offset)
        self._node.log.drop_prefix(work.start_offset)

    def repair_batch(self, key: Any, work: RepairBatch) -> None:
        assert work.offset in self._node.log.rotten, "nothing sound is written over"
        self._node.log.rotten.discard(work.offset)

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


class World(Checks):
    """Nodes 1 to n, of which all but the last `observers` vote.

    `drafts` has the nodes that follow with the draft FetchQuorumRecords, and at which version. With
    `refuses`, who asks a node that is down is told that nothing listens there.
    """

    def __init__(
        self,
        voters: int,
        observers: int = 0,
        machine_class: type[QuorumMachine] = QuorumMachine,
        rules: QuorumRules = RULES,
        jitter: Callable[[int], list[int]] = lambda node_id: [node_id * 100],
        encoded: bool = True,
        fetch_max_bytes: int = 1 << 20,
        snapshot_max_bytes: int = 1 << 20,
        retention_bytes: int = 1 << 30,
        drafts: Mapping[int, int] | None = None,
        refuses: bool = False,
    ) -> None:
        super().__init__()
        self.now_ms = 0
        self.wall_ahead_ms = 1_700_000_000_000
        self.flights: list[Flight] = []
        self.voters = tuple(range(1, voters + 1))
        self.nodes = {id_: Node(id_) for id_ in range(1, voters + observers + 1)}
        self.blocked: set[tuple[int, int]] = set()
        self._machine_class = machine_class
        self._rules = rules
        self._jitter = jitter
        self._encoded = encoded
        self._config = QuorumConfig(
            cluster_id=CLUSTER_ID,
            fetch_max_bytes=fetch_max_bytes,
            fetch_snapshot_max_bytes=snapshot_max_bytes,
            retention_bytes=retention_bytes,
        )
        self._drafts = drafts or {}
        self._refuses = refuses
        self.retention_bytes = retention_bytes
        self._sent = 0
        self._appended = 0

    @property
    def wall_ms(self) -> int:
        """What the wall clocks show; `wall_ahead_ms` sets them."""
        return self.now_ms + self.wall_ahead_ms

    # -- what happens --------------------------------------------------------------------------

    def start(self, node_id: int) -> None:
        """Boot a node, for the first time or again, on what its disk holds."""
        node = self.nodes[node_id]
        assert node.driver is None, "it runs already"
        node.life += 1
        node.log.finish_installation()
        node.log.durable_offset = node.log.end_offset
        node.timers, node.wants_flush, node.high_watermark = {}, False, 0
        node.machine = self.make_machine(node)
        node.driver = Driver(_Ports(self, node))
        node.driver.add(KEY, node.machine)
        node.driver.feed(KEY, Start(self._jitter(node_id)))
        self.scrub(node_id)

    def make_machine(self, node: Node) -> QuorumMachine:
        """The machine of a node that boots; it is not started yet."""
        config = replace(self._config, draft_version=self._drafts.get(node.id, -1))
        return self._machine_class(node.id, self.voters, node.log, node.state, config, self._rules)

    def crash(self, node_id: int, keep: int = 0) -> None:
        """Stop a node at once; of what it had not flushed, `keep` batches reached the disk."""
        node = self.nodes[node_id]
        node.driver, node.machine, node.failed, node.refuses_disk = None, None, None, None
        flushed = [e for e in node.log.entries if e.next_offset <= node.log.durable_offset]
        left = node.log.entries[: len(flushed) + keep]
        node.log.cut(left[-1].next_offset if left else node.log.start_offset)
        node.log.snapshots.partial, node.wants_install = None, None

    def flush(self, node_id: int) -> None:
        """What the node has appended is durable now."""
        node = self.nodes[node_id]
        node.wants_flush = False
        node.log.durable_offset = node.log.end_offset
        self.driver(node_id).persisted(KEY, node.log.end_offset)

    def take_snapshot(self, node_id: int, end_offset: int = -1) -> None:
        """A node writes a snapshot of what it knows to be committed, or of the part below."""
        node, machine = self.nodes[node_id], self.machine(node_id)
        end = machine.high_watermark if end_offset < 0 else end_offset
        entries = [e for e in node.log.all_entries if e.next_offset <= end]
        latest = node.log.snapshots.latest()
        known = latest.end_offset if latest is not None else node.log.start_offset
        if not entries or entries[-1].next_offset <= known:
            return
        snapshot_id = SnapshotId(entries[-1].next_offset, entries[-1].epoch)
        node.log.snapshots.put(snapshot_id, entries, self.wall_ms)
        self.driver(node_id).feed(KEY, SnapshotTaken(snapshot_id))

    def install(self, node_id: int) -> None:
        """The snapshot that a node has fetched takes the place of its log, if it is sound."""
        node = self.nodes[node_id]
        snapshot_id, node.wants_install = node.wants_install, None
        assert snapshot_id is not None, "it is fetched"
        flaw = node.log.snapshots.finish(snapshot_id)
        if flaw is not None:
            self.driver(node_id).feed(KEY, SnapshotRefused(snapshot_id, flaw))
            return
        self.check_snapshot(node, snapshot_id)
        if not node.keeps_log:
            node.log.start_over(snapshot_id)
        self.driver(node_id).feed(KEY, SnapshotInstalled(snapshot_id, self.history_of(node)))

    def crash_installing(self, node_id: int) -> None:
        """A power cut after the snapshot is in place, and before the log is emptied."""
        node = self.nodes[node_id]
        assert node.wants_install is not None, "it is fetched"
        node.log.snapshots.finish(node.wants_install)
        self.crash(node_id)

    def history_of(self, node: Node) -> VoterHistory | None:
        """What a node's disk says of the voters; None if they are configured."""
        return None

    def rot(self, node_id: int, base_offset: int) -> None:
        """A batch on a node's disk rots; nobody has noticed yet."""
        log = self.nodes[node_id].log
        assert base_offset in [e.base_offset for e in log.entries], "it is there"
        log.rotten.add(base_offset)

    def scrub(self, node_id: int) -> None:
        """A node reads its log, and finds what has rotted."""
        for at in sorted(self.nodes[node_id].log.rotten):
            self.driver(node_id).feed(KEY, LogDamaged(at, "crc"))

    def can_heal(self, node_id: int) -> bool:
        """Whether a snapshot of what is committed would stand for a batch that has rotted."""
        machine = self.machine(node_id)
        at = machine.damaged_at
        return at is not None and at < machine.high_watermark and machine.role is not Role.FAILED

    def rot_snapshot(self, node_id: int) -> None:
        """A byte of a node's newest snapshot turns over."""
        shelf = self.nodes[node_id].log.snapshots
        latest = shelf.latest()
        assert latest is not None, "it has one"
        data = bytearray(shelf.files[latest])
        data[len(data) // 2] ^= 0xFF
        shelf.files[latest] = bytes(data)

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
                is_refused = self._refuses and not cut
                self._put_failure(flight, "refused" if is_refused else "failure")
                return
            request = self._travelled(flight, flight.message)
            answerer = self._answerer(flight, target)
            if isinstance(request, FetchQuorumRecordsRequest):
                version = self._drafts[flight.source]
                target.driver.feed(KEY, QuorumRecordsReceived(answerer, request, version))
            else:
                target.driver.feed(KEY, received(answerer, request))
        elif target.driver is None or target.life != flight.life:
            return
        elif flight.kind in ("failure", "refused") or cut:
            is_refused = flight.kind == "refused" and not cut
            failure = RequestFailed(self.peer_of(flight), flight.request, is_refused)
            target.driver.feed(KEY, failure)
        else:
            response = self._travelled(flight, flight.message)
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
        batch = build_batch([(None, name.encode())], timestamp_ms=self.wall_ms)
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
            if self.nodes[id_].wants_install is not None:
                self.install(id_)
                return
            if self.nodes[id_].wants_flush:
                self.flush(id_)
                return
            if self.can_heal(id_):
                self.take_snapshot(id_)
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
            busy = any(
                self.nodes[i].wants_flush or self.nodes[i].wants_install for i in self.alive()
            )
            if not self.flights and not busy:
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

    def _put_failure(self, flight: Flight, kind: str = "failure") -> None:
        self._put(kind, flight.target, flight.source, None, flight.request, flight.life)

    def _answerer(self, flight: Flight, target: Node) -> Callable[[Any], None]:
        life = target.life

        def answer(value: Any) -> None:
            if target.life != life or target.driver is None:
                return
            if isinstance(value, FetchBounds | DraftBounds | SnapshotBounds):
                value = self._read(target, value)
            if isinstance(value, VoteResponse):
                self._note_promise(target.id, flight, value)
            self._put("response", target.id, flight.source, value, flight.request, flight.life)

        return answer

    def _read(self, node: Node, bounds: FetchBounds | DraftBounds | SnapshotBounds) -> Message:
        """The response, with the bytes that a shell reads."""
        if isinstance(bounds, SnapshotBounds):
            if bounds.snapshot_id is None:
                return fetch_snapshot_response(bounds)
            start, end = bounds.position_bytes, bounds.position_bytes + bounds.max_bytes
            if start == 0 and not node.log.snapshots.is_sound(bounds.snapshot_id):
                # A shell reads a snapshot whole before its first piece, and replaces a rotten one.
                self._write_anew(node, bounds.snapshot_id)
                error = ErrorCode.SNAPSHOT_NOT_FOUND
                return fetch_snapshot_response(replace(bounds, error=error, snapshot_id=None))
            return fetch_snapshot_response(
                bounds, node.log.snapshots.files[bounds.snapshot_id][start:end]
            )
        try:
            records = node.log.read(bounds)
        except RottenBatch as rotten:
            self.driver(node.id).feed(KEY, LogDamaged(rotten.args[0], "crc"))
            bounds, records = unreadable(bounds), b""
        if isinstance(bounds, DraftBounds):
            return quorum_records_response(bounds, records)
        return fetch_response(bounds, records)

    def _write_anew(self, node: Node, snapshot_id: SnapshotId) -> None:
        entries = [e for e in node.log.all_entries if e.next_offset <= snapshot_id.end_offset]
        node.log.snapshots.put(snapshot_id, entries, self.wall_ms)

    def _travelled(self, flight: Flight, message: Message | None) -> Message:
        assert message is not None
        if not self._encoded:
            return message
        version = type(message).max_version
        if isinstance(flight.request, FetchQuorumRecordsRequest):
            version = self._drafts[flight.source if flight.kind == "request" else flight.target]
        return type(message).decode(bytes(message.encode(version)), version)

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
