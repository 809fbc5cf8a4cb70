"""Votes: which candidates get one, and what is made of the answers (KIP-595, KIP-996).

A vote is given once per epoch, to a candidate whose log is at least as long as the own, and is on
disk before it is told. Whether to give one is a table; log stands for "its log (last epoch, end
offset) is not behind mine":

| my role      | pre-vote                       | vote                                             |
|--------------|--------------------------------|--------------------------------------------------|
| Unattached   | log                            | given to it before; or not yet, no leader, log   |
| Prospective  | log                            | the same                                         |
| Candidate    | log                            | no: the vote is my own                           |
| Leader       | no                             | no                                               |
| Follower     | log, and my leader never spoke | no: there is a leader                            |
| Resigned     | log                            | no: there was a leader, me                       |

A node says yes or no whether it is a voter by its own log or not, and whether the candidate is: a
voter set counts as soon as it is appended, so it may be known to the candidate alone (KIP-853).

"My leader never spoke" keeps a node that was cut off from disturbing a quorum that works: followers
that fetch from their leader refuse it (KIP-996).
"""

from __future__ import annotations

from fencepost.machines.probes import probe
from fencepost.machines.quorum import inputs, messages
from fencepost.machines.quorum.endpoints import add_leader, leader_in
from fencepost.machines.quorum.leader_claims import LeaderClaims
from fencepost.machines.quorum.node import QuorumNode
from fencepost.machines.quorum.part import Part
from fencepost.machines.quorum.role_changes import RoleChanges
from fencepost.machines.quorum.roles import Follower, Nominee, Role
from fencepost.machines.quorum.rules import VoteFacts
from fencepost.machines.quorum.state import EPOCH_MAX, NO_NODE, QuorumState
from fencepost.machines.quorum.voters import ReplicaKey
from fencepost.wire.api import vote
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid


class Elections(Part):
    """Handlers of votes."""

    def __init__(self, node: QuorumNode, roles: RoleChanges, claims: LeaderClaims) -> None:
        super().__init__(node)
        self._roles = roles
        self._claims = claims

    def step_vote(self, input_: inputs.VoteReceived) -> None:
        request = input_.request
        response: vote.VoteResponse
        if not self._node.is_our_cluster(request.cluster_id):
            response = vote.VoteResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        elif (asked := messages.vote_request_of(request)) is None:
            response = vote.VoteResponse(error_code=ErrorCode.INVALID_REQUEST)
        else:
            error, granted = self._consider_vote(request.voter_id, asked)
            response = messages.vote_response(
                error, self._node.leader_id, self._outbox.state.epoch, granted
            )
            add_leader(response, self._node.leader_id, self._node.leader_endpoint)
        self._outbox.reply(input_.token, response)

    def _consider_vote(
        self, voter_id: int, asked: vote.PartitionDataRequest
    ) -> tuple[ErrorCode, bool]:
        """The checks in Kafka's order, and the vote. A higher epoch counts even if it is no.

        The candidate need not be in our voter set, nor we in its: the set counts from its append,
        and a voter whose log is behind does not know the latest (KIP-853).
        """
        candidate_log = (asked.last_offset_epoch, asked.last_offset)
        too_new = asked.last_offset_epoch - (1 if asked.pre_vote else 0)
        if min(candidate_log) < 0 or too_new >= asked.replica_epoch:
            return ErrorCode.INVALID_REQUEST, False
        if self._claims.epoch_out_of_range(asked.replica_epoch):
            probe("quorum.vote.refused.epoch")
            return ErrorCode.INVALID_REQUEST, False
        if self._node.role is Role.FAILED:
            return ErrorCode.BROKER_NOT_AVAILABLE, False
        if asked.replica_epoch < self._outbox.state.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH, False
        if asked.replica_id < 0 or asked.replica_id == self._node.id:
            return ErrorCode.INVALID_REQUEST, False
        if asked.replica_epoch > self._outbox.state.epoch:
            self._roles.become_unattached(asked.replica_epoch)
        if not self._node.is_me(voter_id, asked.voter_directory_id):
            probe("quorum.vote.refused.key")
            return ErrorCode.INVALID_VOTER_KEY, False
        facts = self._vote_facts(
            ReplicaKey(asked.replica_id, asked.replica_directory_id),
            log_is_long_enough=candidate_log >= self._node.acknowledged_log_end,
        )
        if asked.pre_vote:
            return ErrorCode.NONE, self._rules.may_grant_pre_vote(facts)
        granted = self._rules.may_grant_vote(facts)
        if granted and self._outbox.state.voted_id == NO_NODE:
            self._give_vote(asked.replica_id, asked.replica_directory_id)
        return ErrorCode.NONE, granted

    def _vote_facts(self, candidate: ReplicaKey, log_is_long_enough: bool) -> VoteFacts:
        follower = self._node.role_state
        return VoteFacts(
            self._node.role,
            self._outbox.state,
            candidate,
            log_is_long_enough,
            isinstance(follower, Follower) and follower.has_fetched,
            self._node.is_voter,
            self._log.voter_set.contains(candidate),
        )

    def _give_vote(self, candidate_id: int, directory_id: Uuid) -> None:
        """Give the vote of this epoch, and the candidate an election timeout to win with it."""
        self._outbox.remember(
            QuorumState(self._outbox.state.epoch, NO_NODE, candidate_id, directory_id)
        )
        if self._node.is_electable:
            self._node.await_election()

    def step_vote_answer(self, input_: inputs.VoteAnswered) -> None:
        asked = messages.vote_request_of(input_.request)
        assert asked is not None, "we ask about the one partition"
        said = messages.vote_response_of(input_.response)
        is_refused = (
            said is None
            or said.error_code != ErrorCode.NONE
            or self._claims.is_invalid(said.leader_epoch, said.leader_id)
        )
        self._requests.settle(input_.source, input_.request, retry_later=is_refused)
        if input_.response.error_code == ErrorCode.UNSUPPORTED_VERSION and asked.pre_vote:
            # A voter from before KIP-996 cannot be asked whether it would: ask for the vote itself.
            if (
                self._node.role is Role.PROSPECTIVE
                and asked.replica_epoch == self._outbox.state.epoch
            ):
                self._roles.become_candidate()
            return
        if said is None:
            return
        endpoints = leader_in(input_.response, said.leader_id, self._config.listener)
        if self._claims.observe(said.leader_epoch, said.leader_id, endpoints, source=input_.source):
            return
        nominee = self._node.role_state
        if (
            said.error_code != ErrorCode.NONE
            or not isinstance(nominee, Nominee)
            or asked.replica_epoch != self._outbox.state.epoch
            or asked.pre_vote != (nominee.role is Role.PROSPECTIVE)
            or input_.source not in self._log.voter_set.ids
        ):
            return
        self._count_vote(nominee, input_.source, said.vote_granted)

    def _count_vote(self, nominee: Nominee, voter: int, granted: bool) -> None:
        """Votes count once, and the first word counts: a voter does not change its mind."""
        if not nominee.count(voter, granted):
            return
        if granted:
            self._roles.maybe_win()
        elif nominee.role is Role.PROSPECTIVE and self.has_lost(nominee):
            self._roles.give_up_asking()
        # A candidate that has lost sits out its election timeout, for others to win.

    def has_lost(self, nominee: Nominee) -> bool:
        """Whether so many voters said no that the rest is no majority."""
        voters = self._log.voter_set
        return nominee.has_lost(len(voters.ids), voters.majority)

    def maybe_stand_alone(self) -> None:
        """A lone voter that has heard of another epoch leads again in the same step.

        No node can have been elected without its vote, so there is none to wait for: one that has
        said so is wrong, or was removed and does not know. Only to the candidate that has its vote
        it leaves an election timeout: that one may know of a second voter (itself).
        """
        if (
            self._node.role in (Role.UNATTACHED, Role.FOLLOWER)
            and self._node.is_voter
            and not self._node.others
            and self._outbox.state.voted_id in (NO_NODE, self._node.id)
            and self._node.may_stand()
        ):
            probe("quorum.election.alone")
            self._roles.become_prospective()

    def _forget_leadership(self) -> None:
        """It led, and was removed from the voters. What still fetches from it asks in an epoch that
        is over from now on, and looks for the next leader."""
        self._roles.become_unattached(min(self._outbox.state.epoch + 1, EPOCH_MAX))

    def step_election_timeout(self) -> None:
        """No leader was elected in time."""
        if self._node.role is Role.PROSPECTIVE:
            self._roles.give_up_asking()
        elif not self._node.is_electable:
            if self._node.role is Role.RESIGNED:
                self._forget_leadership()
        elif not self._node.may_stand():
            probe("quorum.election.cannot_stand")
            if self._node.role is not Role.UNATTACHED:
                self._roles.become_unattached(self._outbox.state.epoch)  # where it asks who leads
            self._node.await_election()
        elif self._node.role in (Role.UNATTACHED, Role.CANDIDATE, Role.RESIGNED):
            self._roles.become_prospective()
