"""What a node holds only as long as it is in one role. Leaving the role drops it."""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Any, ClassVar

from msgspec import Struct, field

from fencepost.log.snapshots import SnapshotId
from fencepost.machines.quorum.pending_change import VoterChanges
from fencepost.machines.quorum.tracker import Tracker
from fencepost.machines.quorum.voters import ReplicaKey
from fencepost.machines.quorum.waiting_fetches import WaitingFetches


class Role(Enum):
    """The roles of a node, in a quorum; see `machine.py` for how they follow each other."""

    UNATTACHED = "unattached"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    LEADER = "leader"
    FOLLOWER = "follower"
    RESIGNED = "resigned"
    FAILED = "failed"


class Unattached(Struct):
    """Knows no leader. An observer asks the voters in turn; `probed` counts how many it asked."""

    role: ClassVar[Role] = Role.UNATTACHED
    probed: int = 0


class Nominee(Struct):
    """Stands for election: the voters that said yes, this node among them, and no."""

    role: Role
    granted: set[int]
    rejected: set[int] = field(default_factory=set)

    def count(self, voter: int, is_granted: bool) -> bool:
        """Take an answer; whether it is the voter's first, for it does not change its mind."""
        if self.has_answered(voter):
            return False
        (self.granted if is_granted else self.rejected).add(voter)
        return True

    def has_answered(self, voter: int) -> bool:
        """Whether the voter has said yes or no."""
        return voter in self.granted or voter in self.rejected

    def has_won(self, majority: int) -> bool:
        """Whether a majority is behind it."""
        return len(self.granted) >= majority

    def has_lost(self, voters: int, majority: int) -> bool:
        """Whether so many voters said no that the rest is no majority."""
        return voters - len(self.rejected) < majority


class PendingAppend(Struct):
    """An append that waits until everything below `end_offset` is committed."""

    base_offset: int
    end_offset: int
    token: Any


class Leader(Struct):
    """Leads the epoch; its first record, the LeaderChange, stands at `epoch_start_offset`."""

    role: ClassVar[Role] = Role.LEADER
    epoch_start_offset: int
    since_ms: int
    tracker: Tracker
    appends: deque[PendingAppend] = field(default_factory=deque)
    fetches: WaitingFetches = field(default_factory=WaitingFetches)
    changes: VoterChanges = field(default_factory=VoterChanges)


class FetchingSnapshot(Struct):
    """A snapshot that is fetched piece by piece; `size_bytes` is -1 until the leader has told."""

    snapshot_id: SnapshotId
    position_bytes: int = 0
    size_bytes: int = -1


class Follower(Struct):
    """Follows the epoch's leader. `has_fetched`: the leader has answered a fetch in this role.
    `misses`: requests since that last happened which led nowhere.

    A follower asks for a change of the voters once in a while: `is_request_due` is when, and
    `is_described` whether this leader has taken note of the follower's endpoints.
    """

    role: ClassVar[Role] = Role.FOLLOWER
    leader_id: int
    has_fetched: bool = False
    misses: int = 0
    fetching: FetchingSnapshot | None = None
    is_request_due: bool = False
    is_described: bool = False

    def is_fetching(self, snapshot_id: SnapshotId) -> bool:
        """Whether it asks for pieces of this snapshot."""
        return self.fetching is not None and self.fetching.snapshot_id == snapshot_id


class Resigned(Struct):
    """Led this epoch, before it resigned or stopped, and will not again. Tells the voters so.

    `candidates` are the other voters, the most advanced first; `unacknowledged` those that have not
    heard of it. Both are empty after a restart: no voter is told.
    """

    role: ClassVar[Role] = Role.RESIGNED
    candidates: tuple[ReplicaKey, ...] = ()
    unacknowledged: set[int] = field(default_factory=set)


class Failed(Struct):
    """The disk refused, the image cannot be made, or an invariant is broken: no to everything."""

    role: ClassVar[Role] = Role.FAILED
    reason: str


RoleState = Unattached | Nominee | Leader | Follower | Resigned | Failed
