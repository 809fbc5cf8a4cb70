"""How far the replicas have come: what a leader knows of them, and what follows for a majority.

Pure state, in the way of etcd's `tracker`: it is told who has fetched from where and when, and
answers what a majority of voters holds, and when one was last heard of. It decides nothing; what is
committed with that is decided in `replication.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct, field

from fencepost.machines.quorum.voters import ReplicaKey, Voter, VoterSet

NEVER_MS: Final = -(1 << 62)
"""A time before all others, wherever the monotonic clock began."""

IsReplica = Callable[[Voter, ReplicaKey], bool]


class Progress(Struct):
    """What a leader knows of a replica that fetches from it. -1 means unknown.

    `key` is what the replica called itself when it last fetched, or is expected to. It has caught
    up when it holds what the leader had at its fetch before (`leader_end_offset`; KIP-836). Times
    are monotonic, `NEVER_MS` for what has not been yet. `last_snapshot_ms` is when it last fetched
    a piece of a snapshot.
    """

    key: ReplicaKey
    end_offset: int = -1
    last_fetch_ms: int = NEVER_MS
    last_caught_up_ms: int = NEVER_MS
    leader_end_offset: int = -1
    last_snapshot_ms: int = NEVER_MS

    @property
    def heard_ms(self) -> int:
        """When it last fetched anything, be it of the log or of a snapshot."""
        return max(self.last_fetch_ms, self.last_snapshot_ms)

    def fetched(self, key: ReplicaKey, offset: int, leader_end_offset: int, now_ms: int) -> None:
        """It holds everything below `offset`, also if that is less than it once held."""
        if offset >= leader_end_offset:
            self.last_caught_up_ms = now_ms
        elif 0 <= self.leader_end_offset <= offset:
            # It has now what there was at its fetch before.
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.key = key
        self.end_offset = offset
        self.last_fetch_ms = now_ms
        self.leader_end_offset = leader_end_offset


def reached_by(values: Iterable[int], count: int) -> int:
    """The largest value that at least `count` of these reach."""
    return sorted(values, reverse=True)[count - 1]


class Tracker(Struct):
    """`voters` are the other voters by node id, `observers` all other nodes that fetch.

    `unacknowledged` are the voters that do not know their leader yet, or have not been heard of.
    """

    voters: dict[int, Progress]
    unacknowledged: set[int] = field(default_factory=set)
    observers: dict[ReplicaKey, Progress] = field(default_factory=dict)

    @classmethod
    def of(cls, voter_set: VoterSet, leader_id: int) -> Tracker:
        """No node is known to hold anything."""
        others = {v.id: Progress(v.key) for v in voter_set.voters if v.id != leader_id}
        return cls(others, set(others))

    # -- who fetches ---------------------------------------------------------------------------

    def voter(self, voter_set: VoterSet, key: ReplicaKey, is_replica: IsReplica) -> Progress | None:
        """The progress of the voter with this key; None if it is none.

        A voter's id with another directory is an observer: it is not the disk that was counted.
        """
        voter = voter_set.get(key.id)
        if voter is None or not is_replica(voter, key):
            return None
        return self.voters.get(key.id)

    def observer(self, key: ReplicaKey, most: int, oldest_ms: int) -> Progress | None:
        """Where to keep what is known of an observer; None if there are too many."""
        if key not in self.observers:
            if len(self.observers) >= most:
                self.drop_silent_observers(oldest_ms)
            if len(self.observers) >= most:
                return None
            self.observers[key] = Progress(key)
        return self.observers[key]

    def drop_silent_observers(self, oldest_ms: int) -> None:
        """Forget observers that have not fetched since `oldest_ms`."""
        for key in [key for key, p in self.observers.items() if p.last_fetch_ms < oldest_ms]:
            del self.observers[key]

    def has_caught_up(self, key: ReplicaKey, oldest_ms: int) -> bool:
        """Whether an observer has had, at `oldest_ms` or later, all that the leader had."""
        progress = self.observers.get(key)
        return progress is not None and progress.last_caught_up_ms >= oldest_ms

    # -- what a majority has -------------------------------------------------------------------

    def held_by_majority(self, majority: int, own_end_offset: int | None) -> int:
        """The offset up to which `majority` voters hold the log; -1 if so many hold nothing.

        `own_end_offset` is what the leader itself holds, None if it is not counted.
        """
        held = [progress.end_offset for progress in self.voters.values()]
        if own_end_offset is not None:
            held.append(own_end_offset)
        return reached_by(held, majority)

    def majority_heard_ms(self, needed: int, since_ms: int, now_ms: int) -> int:
        """When `needed` of the other voters had last been heard of; now, if none is needed.

        A leader gives all nodes the time from `since_ms`, when it began to lead.
        """
        if needed <= 0:
            return now_ms
        return reached_by((max(p.heard_ms, since_ms) for p in self.voters.values()), needed)

    def remind_silent(self, silent_since_ms: int) -> None:
        """Voters that were not heard of since then are to be told again who leads."""
        for voter, progress in self.voters.items():
            if progress.heard_ms <= silent_since_ms:
                self.unacknowledged.add(voter)

    def most_advanced(self) -> list[int]:
        """The ids of the other voters, those with the longest log first."""
        return sorted(self.voters, key=lambda id_: (-self.voters[id_].end_offset, id_))

    # -- the voters change ---------------------------------------------------------------------

    def voters_changed(self, voter_set: VoterSet, leader_id: int, is_replica: IsReplica) -> None:
        """Keep what is known of all nodes, whichever part each now has."""
        before, self.voters = self.voters, {}
        for voter in voter_set.voters:
            if voter.id != leader_id:
                self.voters[voter.id] = self._taken_over(before, voter, is_replica)
        for progress in before.values():
            if progress.last_fetch_ms != NEVER_MS:
                self.observers[progress.key] = progress
        self.unacknowledged &= set(self.voters)

    def _taken_over(
        self, before: dict[int, Progress], voter: Voter, is_replica: IsReplica
    ) -> Progress:
        """What is known of a voter of the new set, whichever it was in the old one.

        Only what it has fetched under its present key counts: what a disk held that is gone does
        not count towards the majority.
        """
        progress = before.get(voter.id)
        if progress is not None and is_replica(voter, progress.key):
            return before.pop(voter.id)
        key = next((key for key in self.observers if is_replica(voter, key)), None)
        if key is not None:
            return self.observers.pop(key)
        self.unacknowledged.add(voter.id)
        return Progress(voter.key)
