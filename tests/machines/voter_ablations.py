"""Quorum machines with an old bug each, in how voters come and go; `test_quorum_transcripts`."""

from __future__ import annotations

from typing import Any

from fencepost.machines.quorum import QuorumMachine, inputs
from fencepost.machines.quorum.voters import ReplicaKey, Voter


class CountsByNodeId(QuorumMachine):
    """A voter is a voter, whatever disk it has."""

    def _is_replica(self, voter: Voter, key: ReplicaKey) -> bool:
        return voter.id == key.id


class VotesAmongKnownVoters(QuorumMachine):
    """Votes are given by voters, to voters, by the own log."""

    def _may_hope(self) -> bool:
        return self.is_voter and super()._may_hope()

    def _may_vote_for(self, candidate_id: int, directory_id: Any, log_is_enough: bool) -> bool:
        candidate = ReplicaKey(candidate_id, directory_id)
        known = self.is_voter and self.voter_set.contains(candidate)
        return known and super()._may_vote_for(candidate_id, directory_id, log_is_enough)


class CountsItselfForEver(QuorumMachine):
    """A leader is one of those that a majority is made of, voter or not."""

    def _counts_itself(self) -> bool:
        return True


class LeadsThoughRemoved(QuorumMachine):
    """A leader goes on after its removal."""

    def _must_step_down(self) -> bool:
        return False


class ChangesVotersAtOnce(QuorumMachine):
    """A leader changes the voters before it has committed anything."""

    def _has_committed_in_epoch(self) -> bool:
        return True

    def _voters_are_committed(self) -> bool:
        return True


class ObserversNeedNoDisk(QuorumMachine):
    """Only voters flush before they fetch."""

    def _flushes_before_fetch(self) -> bool:
        return self.is_voter


class BelievesAnyEpoch(QuorumMachine):
    """An epoch is a number like another."""

    def _is_absurd(self, epoch: int) -> bool:
        return False


class StaysWithItsLeader(QuorumMachine):
    """An observer goes on asking the leader it knows."""

    def _leave_silent_leader(self) -> None:
        self._set_timer(inputs.FETCH, self._now_ms + self._config.fetch_timeout_ms)
