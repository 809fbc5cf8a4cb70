"""The nodes of a quorum in a bottle, and what must hold of them.

The invariants are numbered as in the project's catalogue. What a violation says is for people.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fencepost.log.snapshots import SnapshotId
from fencepost.machines.driver import Driver
from fencepost.machines.quorum import AppendOutcome, QuorumMachine, QuorumState, Role
from fencepost.wire.api.vote import VoteResponse
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

from .quorum_log import Entry, ListLog


class Violation(AssertionError):
    """An invariant of the quorum does not hold."""


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
        shown = name if self.message is not None else f"no answer to {name}"
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
    keeps_log: bool = False
    refuses_disk: str | None = None
    dies_writing_state: bool = False
    failed: str | None = None
    high_watermark: int = 0


class Checks:
    """Invariants over `nodes`, and over what they have done so far."""

    nodes: dict[int, Node]
    voters: tuple[int, ...]

    def __init__(self) -> None:
        self.committed: list[Entry] = []
        self.outcomes: dict[str, AppendOutcome] = {}
        self._leaders: dict[int, int] = {}
        self._votes: dict[tuple[int, int], int] = {}

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
        assert node.machine is not None, "it is alive"
        if start_offset > node.machine.high_watermark:
            raise Violation(f"I27: {node.id} drops what is not committed, below {start_offset}")
        if start_offset not in [id_.end_offset for id_ in node.log.snapshots.ids()]:
            raise Violation(f"I27: {node.id} begins at {start_offset}, without a snapshot")

    def check_snapshot(self, node: Node, snapshot_id: SnapshotId) -> None:
        """I27, I28: a follower loads what was committed, no more and no less."""
        if node.machine is None or node.machine.role is Role.LEADER:
            raise Violation(f"I28: leader {node.id} loads a snapshot")
        entries = node.log.snapshots.entries(snapshot_id)
        if entries != self.committed[: len(entries)]:
            raise Violation(f"I27: snapshot {snapshot_id} of {node.id} is not what was committed")
        if not entries or entries[-1].next_offset != snapshot_id.end_offset:
            raise Violation(f"I27: snapshot {snapshot_id} of {node.id} is not whole")

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
        if newest and node.log.all_entries[: len(self.committed)] != self.committed:
            raise Violation(f"I25: leader {node.id} of {machine.epoch} lacks committed batches")

    def _check_committed(self, node: Node) -> None:
        """I24, I26: one committed log, and a majority has it on disk."""
        entries = [e for e in node.log.all_entries if e.next_offset <= node.high_watermark]
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
        """Whether a voter of this node's set has a batch on disk, or had it before it rotted."""
        log = self.nodes[voter].log
        if entry in log.rotted_away:
            return True
        return entry in log.all_entries and entry.next_offset <= log.durable_offset

    def check_logs(self) -> None:
        """I03: where two logs have a batch of one offset and epoch, they are the same up to it."""
        logs = [node.log.all_entries for node in self.nodes.values()]
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
