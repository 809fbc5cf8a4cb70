"""I22: a voter, which is a node with its disk, votes once per epoch, and writes it down first."""

from __future__ import annotations

from typing import Any

from fencepost.sim.checks import Check
from fencepost.sim.oracle import Oracle, Violation
from fencepost.wire.types import Uuid


class OneVote(Check):
    """Remembers votes that were written and votes that were told."""

    kind = "I22"

    def __init__(self) -> None:
        self._votes: dict[tuple[int, Uuid, int], int] = {}
        self._written: dict[tuple[int, Uuid], tuple[int, int]] = {}

    def state_written(self, oracle: Oracle, node_id: int, state: Any) -> None:
        directory_id = oracle.disks[node_id].directory_id
        self._written[node_id, directory_id] = state.epoch, state.voted_id
        self._note(node_id, directory_id, state.epoch, state.voted_id)

    def state_read(self, oracle: Oracle, node_id: int, state: Any) -> None:
        # A crash in the middle of writing may leave the new state before the vote was answered.
        self.state_written(oracle, node_id, state)

    def vote_told(self, oracle: Oracle, voter_id: int, candidate: int, epoch: int) -> None:
        directory_id = oracle.disks[voter_id].directory_id
        self._note(voter_id, directory_id, epoch, candidate)
        if self._written.get((voter_id, directory_id)) != (epoch, candidate):
            raise Violation(
                self.kind,
                f"{voter_id} tells of a vote for {candidate} in epoch {epoch} that is not on disk",
            )

    def _note(self, voter: int, directory_id: Uuid, epoch: int, candidate: int) -> None:
        if candidate < 0:
            return
        before = self._votes.setdefault((voter, directory_id, epoch), candidate)
        if before != candidate:
            raise Violation(
                self.kind, f"{voter} votes for {before} and for {candidate} in epoch {epoch}"
            )


CHECK = OneVote
