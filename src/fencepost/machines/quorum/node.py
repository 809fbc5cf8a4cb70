"""This node in its quorum: who it is, which role it has, whom it takes for the leader.

What every part of the machine may look at. It decides nothing, but for what follows at once from
the log, the durable state and the rules: who is a voter, who may stand for election, what a
candidate's log is compared with.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

from fencepost.machines.quorum import inputs
from fencepost.machines.quorum.component import Component
from fencepost.machines.quorum.config import QuorumConfig
from fencepost.machines.quorum.epochs import EpochAllowance
from fencepost.machines.quorum.outbox import Outbox
from fencepost.machines.quorum.quorum_log import QuorumLog
from fencepost.machines.quorum.requests import Requests
from fencepost.machines.quorum.roles import Leader, Role, RoleState, Unattached
from fencepost.machines.quorum.rules import QuorumRules
from fencepost.machines.quorum.state import NO_NODE, QuorumState
from fencepost.machines.quorum.timers import Timers
from fencepost.machines.quorum.view import LogView
from fencepost.machines.quorum.voter_history import VoterHistory
from fencepost.machines.quorum.voters import Endpoint, ReplicaKey, Voter, VoterSet, on_listener
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid


class QuorumNode(Component):
    """`role_state` is what the node holds as long as it is in its role; see `roles.py`."""

    NOT_STATE: ClassVar = frozenset(("id", "key", "local_voter"))

    def __init__(
        self,
        node_id: int,
        history: VoterHistory,
        view: LogView,
        state: QuorumState,
        config: QuorumConfig,
        rules: QuorumRules,
    ) -> None:
        self.id = node_id
        self.key = ReplicaKey(node_id, config.directory_id)
        self.config = config
        self.rules = rules
        self.outbox = Outbox(state, rules)
        self.timers = Timers(self.outbox)
        self.requests = Requests(config, self.outbox, self.timers)
        self.log = QuorumLog(view, history, self.outbox, config.max_kraft_version, rules)
        self.epochs = EpochAllowance(max(1, config.election_timeout_ms // 2))
        self.role_state: RoleState = Unattached()
        self.uncounted_in_epoch = -1
        """The latest epoch whose leader has said that it does not count this node as a voter."""
        self._leader_told: tuple[int, tuple[Endpoint, ...]] = (NO_NODE, ())

    # -- who votes -----------------------------------------------------------------------------

    @property
    def role(self) -> Role:
        """The present role."""
        return self.role_state.role

    @property
    def is_voter(self) -> bool:
        """Whether this node has a vote; otherwise it observes."""
        return self._is_in(self.log.voter_set)

    @property
    def is_electable(self) -> bool:
        """Whether this node may stand for election: a voter, or one that may be needed yet.

        A voter whose removal is in its log and perhaps nowhere else, and not committed, can have
        the longest log of all. The others are no majority without its vote, which it cannot give
        to them; so it stands itself, does not count itself, and commits its removal (Raft's
        dissertation, 4.2.2). Kafka's voters stop to stand at once.
        """
        history = self.log.history
        offset = history.latest_offset
        return self.is_voter or (
            offset is not None
            and offset >= self.log.high_watermark
            and self._is_in(history.at(offset - 1))
        )

    def _is_in(self, voters: VoterSet) -> bool:
        voter = voters.get(self.id)
        return voter is not None and self.rules.is_replica(voter, self.key)

    @property
    def others(self) -> tuple[int, ...]:
        """The voters but for this node, or for what it was before it lost its disk."""
        return tuple(voter for voter in self.log.voter_set.ids if voter != self.id)

    @cached_property
    def local_voter(self) -> Voter:
        """This node as a voter set should have it."""
        config = self.config
        return Voter(self.key, config.endpoints, config.min_kraft_version, config.max_kraft_version)

    def needs_update(self, voter: Voter) -> bool:
        """Whether the voter set has this voter, and something else than this about it."""
        old = self.log.voter_set.get(voter.id)
        if not voter.endpoints or old is None or old.key != voter.key:
            return False
        return not old.says_the_same_as(voter)

    def directory_of(self, peer: int) -> Uuid:
        """The directory id under which a voter is known, or the zero id."""
        voter = self.log.voter_set.get(peer)
        return voter.key.directory_id if voter is not None else Uuid.ZERO

    # -- standing for election -----------------------------------------------------------------

    def may_stand(self) -> bool:
        """Whether this node could lead with the log that it has.

        Not while a snapshot takes the log's place (a leader never loads one, I28), nor while the
        log has batches that cannot be read, or lacks some that it has acknowledged; nor as long as
        the leader of this epoch does not count it among the voters.
        """
        log, state = self.log, self.outbox.state
        return (
            log.installing is None
            and not log.damaged
            and state.acknowledged_end <= log.end
            and self.uncounted_in_epoch != state.epoch
        )

    @property
    def acknowledged_log_end(self) -> tuple[int, int]:
        """What the log of a candidate must not be behind: ours, as we have told of it.

        A damaged end that was cut off counts until it is there again: a leader may have committed
        records because we said that we hold them.
        """
        return max(self.log.end, self.outbox.state.acknowledged_end)

    def await_election(self) -> None:
        """Arm the election timer again, for a time drawn at random."""
        deadline_ms = self.timers.random_deadline(self.config.election_timeout_ms)
        self.timers.set(inputs.ELECTION, deadline_ms)

    # -- who leads -----------------------------------------------------------------------------

    @property
    def leader_id(self) -> int:
        """The leader of the epoch as far as known, or -1; this node only while it leads."""
        leader_id = self.outbox.state.leader_id
        if leader_id == self.id and self.role is not Role.LEADER:
            return NO_NODE
        return leader_id

    @property
    def leader_endpoints(self) -> tuple[Endpoint, ...]:
        """Where the leader is reached: by its own word, or else by the voter set."""
        if isinstance(self.role_state, Leader):
            return self.config.endpoints
        told_id, endpoints = self._leader_told
        if told_id == self.leader_id and endpoints:
            return endpoints
        voter = self.log.voter_set.get(self.leader_id)
        return voter.endpoints if voter is not None else ()

    @property
    def leader_endpoint(self) -> Endpoint | None:
        """The same, on the listener that voters use."""
        return self.leader_endpoint_on(self.config.listener)

    def leader_endpoint_on(self, listener: str) -> Endpoint | None:
        """The same, on the listener of that name: what was told may be of other listeners only."""
        told = on_listener(listener, self.leader_endpoints)
        voter = self.log.voter_set.get(self.leader_id)
        return told or (None if voter is None else voter.endpoint(listener))

    def note_leader(self, leader_id: int, endpoints: tuple[Endpoint, ...]) -> None:
        """An answer or a request says where the leader is reached."""
        if endpoints:
            self._leader_told = (leader_id, endpoints)

    @property
    def is_active_leader(self) -> bool:
        """Whether this node leads and its LeaderChange is committed.

        Only then does the committed log hold everything that earlier leaders committed, so only
        then may a controller built from it decide anything.
        """
        leader = self.role_state
        return isinstance(leader, Leader) and self.rules.is_active(
            self.log.high_watermark, leader.epoch_start_offset
        )

    def voters_are_committed(self) -> bool:
        """Whether the voter set in force is committed, and may have a successor."""
        return self.rules.voters_are_committed(
            self.log.history.latest_offset, self.log.high_watermark
        )

    # -- who is meant --------------------------------------------------------------------------

    def is_our_cluster(self, cluster_id: str | None) -> bool:
        """Whether a request that names a cluster means this one."""
        ours = self.config.cluster_id
        return cluster_id is None or ours is None or cluster_id == ours

    def is_me(self, voter_id: int, directory_id: Uuid) -> bool:
        """Whether a request that names its receiver means this node and this disk."""
        if voter_id == NO_NODE:
            return True
        return voter_id == self.id and directory_id in (Uuid.ZERO, self.key.directory_id)

    def targets_to_probe(self) -> Sequence[int]:
        """The nodes to ask for the leader: the bootstrap servers under their pseudo ids, then the
        voters.

        Bootstrap servers come first because voters may be known only by what an old log says. A
        voter hears from other voters when it asks for their votes.
        """
        servers = tuple(-2 - index for index in range(self.config.bootstrap_servers))
        return servers if self.is_voter else servers + self.others

    def refused_fetch(self, error: ErrorCode) -> inputs.FetchBounds:
        """What a fetch is answered with that is refused: who leads is said with errors, too."""
        return inputs.FetchBounds(
            error,
            self.leader_id,
            self.outbox.state.epoch,
            log_start_offset=self.log.view.start_offset,
            leader_endpoint=self.leader_endpoint,
        )
