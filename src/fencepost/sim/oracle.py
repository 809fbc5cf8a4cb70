"""What really happened, as only an observer of everything can know it.

`Oracle` is told of every append, flush, cut, crash and step, by the ports of the nodes, and keeps
what checks compare: for each disk the batches that were written to it and how far they are durable,
and the one committed log. It judges nothing; `checks/` does, and a check's unit tests tell a
`Oracle` of a history by hand.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from fencepost.batch.header import read_header
from fencepost.machines.effects import Buffer
from fencepost.sim.group_oracle import GroupOracle
from fencepost.sim.log_contents import LogContents, position
from fencepost.sim.partition_oracle import PartitionOracle
from fencepost.sim.share_oracle import ShareOracle
from fencepost.sim.transaction_oracle import TransactionOracle
from fencepost.wire.types import Uuid


class Violation(BaseException):
    """Something that must hold does not. `kind` names the invariant ("I21") or the liveness rule.

    Shrinking keeps the kind; the text is for people. Checks run inside the product's callbacks, so
    this is not an Exception: what the product handles there must not hide what a check has found.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(kind, text)  # what unpickling calls the class with
        self.kind = kind
        self.text = text

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


class Entry(NamedTuple):
    """One batch of a log: where it stands, its leader epoch, and the checksum of its content."""

    base_offset: int
    next_offset: int
    epoch: int
    crc: int


def entry_of(batch: Buffer) -> Entry:
    """What the oracle keeps of a batch."""
    header = read_header(batch)
    return Entry(header.base_offset, header.next_offset, header.partition_leader_epoch, header.crc)


class NodeView(NamedTuple):
    """What can be seen of a node's quorum machine after a step.

    `voters` are (node id, directory id) of the voter set that the node goes by, which stands in its
    log at `voters_offset` (None: nowhere). `is_active`: it leads and has committed in its epoch.
    """

    node_id: int
    role: str
    epoch: int
    leader_id: int
    voted_id: int
    high_watermark: int
    end_offset: int
    voters: tuple[tuple[int, Uuid], ...]
    voters_offset: int | None = None
    is_active: bool = False


@dataclass(slots=True)
class DiskTruth(LogContents[Entry]):
    """What is on one node's disk, and what the node in its present incarnation has said of it.

    A log that begins with a snapshot has it in `start_offset`; its entries follow.
    """

    directory_id: Uuid = Uuid.ZERO
    is_damaged: bool = False
    acknowledged_end: tuple[int, int] = (0, 0)
    """(epoch, end offset) that `quorum-state` says of the log as it had been before damage."""
    given_up: list[Entry] = field(default_factory=list)
    """What was durable here, and was cut off because of damage."""

    def has_durable(self, entry: Entry) -> bool:
        """Whether a crash could not take `entry`, which may lie in the snapshot.

        A node that cut off damage may have fetched beyond the entry before, which the leader
        counted. It counts as long as its acknowledged log end keeps it from voting for a candidate
        that lacks the entry.
        """
        if entry.next_offset <= self.start_offset:
            return True
        if entry in self.given_up and (entry.epoch, entry.next_offset) <= self.acknowledged_end:
            return True
        if entry.next_offset > self.durable_offset:
            return False
        at = self.position(entry.base_offset)
        return at < len(self.entries) and self.entries[at] == entry


class Oracle:
    """See the module docstring."""

    def __init__(self) -> None:
        self.disks: dict[int, DiskTruth] = {}
        self.lost: dict[tuple[int, Uuid], DiskTruth] = {}
        """What was on disks that are gone, by node and directory id."""
        self.last_voters: dict[int, tuple[tuple[int, Uuid], ...]] = {}
        """The voters that each node went by when it was last seen."""
        self.views: dict[int, NodeView] = {}
        """What was last seen of each node that is alive."""
        self.committed: list[Entry] = []
        """The committed log from offset 0 on, up to the highest high watermark of any node."""
        self.partitions = PartitionOracle()
        """What is known of the partitions of simulated brokers."""
        self.groups = GroupOracle()
        self.shares = ShareOracle()
        """What is known of the offsets that their groups have committed."""
        self.transactions = TransactionOracle()
        """What is known of the transactions of their producers."""

    @property
    def committed_offset(self) -> int:
        """The true high watermark."""
        return self.committed[-1].next_offset if self.committed else 0

    def committed_position(self, offset: int) -> int:
        """The index of the first committed entry that ends behind `offset`."""
        return position(self.committed, offset)

    # -- what nodes do -----------------------------------------------------------------------

    def new_disk(self, node_id: int, directory_id: Uuid) -> None:
        """The node has an empty disk, for the first time or in place of its old one."""
        before = self.disks.get(node_id)
        if before is not None:
            # What was on it was counted before any node could know that it is gone.
            self.lost[node_id, before.directory_id] = before
        self.disks[node_id] = DiskTruth(directory_id=directory_id)

    def opened(self, node_id: int, entries: Iterable[Entry], start_offset: int = 0) -> None:
        """The node has recovered its log and found this; all of it is durable."""
        disk = self.disks[node_id]
        found = list(entries)
        self._give_up_from(disk, found[-1].next_offset if found else start_offset)
        disk.opened(found, start_offset)

    def put_back(self, node_id: int, known: DiskTruth) -> None:
        """The node's disk is as it was when this was known of it."""
        self.disks[node_id] = known

    def appended(self, node_id: int, entry: Entry) -> None:
        """A batch is in the page cache."""
        self.disks[node_id].entries.append(entry)

    def flushed(self, node_id: int, end_offset: int) -> None:
        """Everything below `end_offset` is durable."""
        self.disks[node_id].flushed(end_offset)

    def cut_begins(self, node_id: int, end_offset: int) -> None:
        """The log is being cut; a crash from now on may leave it cut, or as it was."""
        disk = self.disks[node_id]
        self._give_up_from(disk, end_offset)
        disk.cut_begins(end_offset)

    def _give_up_from(self, disk: DiskTruth, end_offset: int) -> None:
        if disk.is_damaged:
            cut = disk.entries[disk.position(end_offset) :]
            disk.given_up += [one for one in cut if one.next_offset <= disk.durable_offset]

    def acknowledged_end_written(self, node_id: int, log_end: tuple[int, int]) -> None:
        """`quorum-state` on this node's disk holds this acknowledged end, or (0, 0)."""
        self.disks[node_id].acknowledged_end = log_end

    def cut(self, node_id: int, end_offset: int) -> None:
        """The log was cut to end at `end_offset`."""
        self.disks[node_id].cut(end_offset)

    def started_over(self, node_id: int, offset: int) -> None:
        """The log was emptied and begins at `offset`, behind a snapshot."""
        self.disks[node_id].started_over(offset)

    def dropped_prefix(self, node_id: int, start_offset: int) -> None:
        """The log begins at `start_offset` from now on; batches before it may go."""
        self.disks[node_id].dropped_prefix(start_offset)

    def died(self, node_id: int) -> None:
        """The process is gone."""
        self.views.pop(node_id, None)
        self.partitions.died(node_id)

    # -- what checks ask ---------------------------------------------------------------------

    def newest_leader(self) -> NodeView | None:
        """The leader of the highest epoch among the nodes that are alive."""
        leaders = [view for view in self.views.values() if view.role == "leader"]
        return max(leaders, key=lambda view: view.epoch, default=None)

    def holders(self, entry: Entry, voters: Iterable[tuple[int, Uuid]]) -> list[int]:
        """Which of these voters have `entry` on a disk that is theirs, safe from a crash."""
        return [id_ for id_, directory_id in voters if self._has_durable(id_, directory_id, entry)]

    def _has_durable(self, node_id: int, directory_id: Uuid, entry: Entry) -> bool:
        disk = self.disks.get(node_id)
        if disk is not None and directory_id in (Uuid.ZERO, disk.directory_id):
            return disk.has_durable(entry)
        gone = self.lost.get((node_id, directory_id))
        return gone is not None and gone.has_durable(entry)

    def voter_sets(self) -> list[tuple[tuple[int, Uuid], ...]]:
        """Every voter set that some node went by when it was last seen."""
        return list(dict.fromkeys(self.last_voters.values()))

    def is_lost(self, node_id: int, directory_id: Uuid) -> bool:
        """Whether that voter's disk is gone, or damaged."""
        disk = self.disks[node_id]
        return disk.is_damaged or directory_id not in (Uuid.ZERO, disk.directory_id)
