"""What a node holds only as long as it is in one role. Leaving the role drops it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Final

from fencepost.log.snapshots import SnapshotId
from fencepost.machines.quorum.voters import ReplicaKey, Voter
from fencepost.wire.api.fetch import FetchPartition

NEVER_MS: Final = -(1 << 62)
"""A time before all others, wherever the monotonic clock began."""


class Role(Enum):
    """The roles of a node, in a quorum; see `machine.py` for how they follow each other."""

    UNATTACHED = "unattached"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    LEADER = "leader"
    FOLLOWER = "follower"
    RESIGNED = "resigned"
    FAILED = "failed"


@dataclass(slots=True)
class Unattached:
    """Knows no leader. An observer asks the voters in turn; `probed` counts how many it asked."""

    role: ClassVar[Role] = Role.UNATTACHED
    probed: int = 0


@dataclass(slots=True)
class Nominee:
    """Stands for election: the voters that said yes, this node among them, and no."""

    role: Role
    granted: set[int]
    rejected: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Progress:
    """What a leader knows of a replica that fetches from it. -1 means unknown.

    `key` is what the replica called itself when it last fetched, or is expected to. It has caught
    up when it holds what the leader had at its fetch before (`leader_end_offset`; KIP-836). Times
    are monotonic, `NEVER_MS` for what has not been yet.
    `last_snapshot_ms` is when it last fetched a piece of a snapshot, `told_high_watermark` what it
    was last told, if it does not say itself what it knows.
    """

    key: ReplicaKey
    end_offset: int = -1
    last_fetch_ms: int = NEVER_MS
    last_caught_up_ms: int = NEVER_MS
    leader_end_offset: int = -1
    last_snapshot_ms: int = NEVER_MS
    told_high_watermark: int = -1

    @property
    def heard_ms(self) -> int:
        """When it last fetched anything, be it of the log or of a snapshot."""
        return max(self.last_fetch_ms, self.last_snapshot_ms)


@dataclass(slots=True)
class PendingAppend:
    """An append that waits until everything below `end_offset` is committed."""

    base_offset: int
    end_offset: int
    token: Any


@dataclass(slots=True)
class ParkedFetch:
    """A fetch that waits for data, for a high watermark it does not know, or for its deadline."""

    token: Any
    replica_id: int
    asked: FetchPartition
    max_bytes: int
    deadline_ms: int


@dataclass(slots=True)
class VoterChange:
    """A voter is being added, or one removed; whoever asked for it waits, up to `deadline_ms`.

    `added` is the new voter, or None for a removal. `record_offset` is where the new set stands in
    the log, -1 as long as the new voter has not said what it can run.
    """

    token: Any
    deadline_ms: int
    added: Voter | None = None
    answers_when_committed: bool = True
    record_offset: int = -1
    is_answered: bool = False


@dataclass(slots=True)
class Leader:
    """Leads the epoch; its first record, the LeaderChange, stands at `epoch_start_offset`.

    `followers` are the other voters by node id, `observers` everybody else that fetches.
    `parked_news` is what there was to hear when the parked fetches were last looked at.
    `described` are the voters that have told this leader their directory and endpoints: what a
    static voter set lacks to become a dynamic one.
    """

    role: ClassVar[Role] = Role.LEADER
    epoch_start_offset: int
    since_ms: int
    followers: dict[int, Progress]
    unacknowledged: set[int]
    observers: dict[ReplicaKey, Progress] = field(default_factory=dict)
    pending: deque[PendingAppend] = field(default_factory=deque)
    parked: list[ParkedFetch] = field(default_factory=list)
    parked_news: tuple[int, ...] = ()
    change: VoterChange | None = None
    described: dict[int, Voter] = field(default_factory=dict)


@dataclass(slots=True)
class FetchingSnapshot:
    """A snapshot that is fetched piece by piece; `size_bytes` is -1 until the leader has told."""

    snapshot_id: SnapshotId
    position_bytes: int = 0
    size_bytes: int = -1


@dataclass(slots=True)
class Follower:
    """Follows the epoch's leader. `has_fetched`: the leader has answered a fetch in this role.
    `misses`: requests since that last happened which led nowhere.

    A follower has something to say about itself once in a while: `is_introduction_due` is when,
    `is_introduced` whether this leader has taken note of it.
    """

    role: ClassVar[Role] = Role.FOLLOWER
    leader_id: int
    has_fetched: bool = False
    misses: int = 0
    fetching: FetchingSnapshot | None = None
    is_introduction_due: bool = False
    is_introduced: bool = False

    def is_fetching(self, snapshot_id: SnapshotId) -> bool:
        """Whether it asks for pieces of this snapshot."""
        return self.fetching is not None and self.fetching.snapshot_id == snapshot_id


@dataclass(slots=True)
class Resigned:
    """Led this epoch, in this life or the one before, and will not again. Tells the voters so.

    `candidates` are the other voters, the most advanced first; `unacknowledged` those that have not
    heard of it. Both are empty after a restart: nobody is told.
    """

    role: ClassVar[Role] = Role.RESIGNED
    candidates: tuple[ReplicaKey, ...] = ()
    unacknowledged: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Failed:
    """The disk refused, the image cannot be made, or an invariant is broken: no to everything."""

    role: ClassVar[Role] = Role.FAILED
    reason: str


Body = Unattached | Nominee | Leader | Follower | Resigned | Failed
