"""The change of the voters that a leader has under way, and what voters have told of themselves.

Pure state: which change there is, how far it has come, and when it is over. Which changes may
begin is decided in `reconfiguration.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct, field

from fencepost.machines.quorum.voters import Endpoint, Voter, VoterSet


class PendingChange(Struct):
    """An AddRaftVoter or RemoveRaftVoter; its client waits, up to `deadline_ms`.

    `added` is the new voter, or None for a removal. `record_offset` is where the new set stands in
    the log, -1 as long as the new voter has not said what it can run.
    """

    token: Any
    deadline_ms: int
    added: Voter | None = None
    answers_when_committed: bool = True
    record_offset: int = -1
    is_answered: bool = False

    @property
    def asks_voter(self) -> Voter | None:
        """The voter to be, as long as it has to be asked what it can run."""
        return self.added if self.record_offset < 0 else None

    def is_committed(self, high_watermark: int) -> bool:
        """Whether the new voter set is."""
        return 0 <= self.record_offset < high_watermark


class VoterChanges(Struct):
    """`pending` is the change under way, if there is one.

    `described` are the voters that have told this leader their directory and endpoints: what a
    static voter set lacks to become a dynamic one.
    """

    pending: PendingChange | None = None
    described: dict[int, Voter] = field(default_factory=dict)

    def begin(self, change: PendingChange) -> PendingChange:
        """A change is under way; that there is no other is a rule of its own."""
        self.pending = change
        return change

    def end(self) -> PendingChange:
        """The change is over, whatever came of it."""
        change, self.pending = self.pending, None
        assert change is not None, "there is a change"
        return change

    @property
    def asks(self) -> int | None:
        """The id of the voter to be that has to be asked what it can run."""
        voter = None if self.pending is None else self.pending.asks_voter
        return None if voter is None else voter.id

    def endpoints_of(self, node_id: int) -> tuple[Endpoint, ...]:
        """Where a voter to be is reached."""
        added = None if self.pending is None else self.pending.added
        return added.endpoints if added is not None and added.id == node_id else ()

    def described_in(self, voters: VoterSet, local: Iterable[Voter]) -> VoterSet:
        """The voters, with what they have told of themselves."""
        for voter in (*self.described.values(), *local):
            if voters.contains(voter.key):
                voters = voters.updated(voter)
        return voters
