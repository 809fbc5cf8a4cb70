"""The metadata quorum: Raft as Kafka speaks it (KIP-595), with voters that may change (KIP-853).

Theory of operation
-------------------
A `QuorumMachine` is one node's part in the election of a leader for `__cluster_metadata`-0 and in
the replication of that log. It decides; it does not know how messages travel, how batches are
stored, what the records mean, or what time it is other than from what each step is told. The code
is the same for one voter, three or five, and for observers.

Roles, and what leads from one to another; e is the present epoch.

| from        | what happens                                             | to                  |
|-------------|----------------------------------------------------------|---------------------|
| (start)     | quorum-state names this node leader of e                 | Resigned(e)         |
| (start)     | it names another leader, which is a voter                | Follower(e)         |
| (start)     | neither; or it is older than the log                     | Unattached(e)       |
| (start)     | this node is the only voter                              | Leader(e+1)         |
| any         | a higher epoch without a leader, in any message          | Unattached(>e)      |
| any         | a higher epoch with a leader                             | Follower(>e)        |
| any         | a higher epoch that it is said to lead itself            | Unattached(>e)      |
| any         | a higher epoch that no election can have come to         | (it is ignored)     |
| lone voter  | any of these, unless it has voted for another in it      | Leader(>e+1)        |
| Unattached  | the leader of e is heard of                              | Follower(e)         |
| Unattached  | election timeout (observers have none: they ask around)  | Prospective(e)      |
| Prospective | a majority would vote for it                             | Candidate(e+1)      |
| Prospective | no majority, or election timeout; a leader of e is known | Follower(e)         |
| Prospective | the same, and no leader of e is known                    | Unattached(e)       |
| Prospective | the leader of e speaks                                   | Follower(e)         |
| Candidate   | a majority votes for it                                  | Leader(e)           |
| Candidate   | election timeout                                         | Prospective(e)      |
| Candidate   | the leader of e is heard of                              | Follower(e)         |
| Leader      | no majority fetches for 1.5 fetch timeouts; or `Resign`  | Resigned(e)         |
| Leader      | its removal from the voters is committed                 | Resigned(e)         |
| Follower    | fetch timeout, or the leader resigns and it is our turn  | Prospective(e)      |
| Follower    | nothing listens where the leader was; and it is our turn | Prospective(e)      |
| Follower    | its leader turns out to be none, and another is          | Follower(e)         |
| Follower    | fetch timeout of an observer                             | Unattached(e)       |
| Resigned    | election timeout of a voter                              | Prospective(e)      |
| Resigned    | election timeout of one that was removed                 | Unattached(e+1)     |
| Resigned    | election timeout of one that may not stand: its log has  | Unattached(e)       |
|             | damage, or lacks what it had acknowledged                |                     |
| any         | `DiskFailed`, `ImageFailed`, or an invariant is broken   | Failed              |

Who stands for election: voters, and those whose removal is in their log and not known to be
committed (`QuorumNode.is_electable`). All other nodes observe.

A restarted leader is Resigned and not Leader: it may have lost records that it had written but not
flushed, and would put others in their place, in the same epoch, at the same offsets (KAFKA-10527).
A lone voter goes through Prospective and Candidate as others do, in one step, being a majority.

Invariants (numbers as in the project's catalogue): I21 one leader per epoch; I22 one vote per epoch
and voter, on disk before it is told; I23 epochs do not fall, and memory is what is on disk; I24/I25
what is committed is in every later leader's log; I26 committed means on the disks of a majority;
I07 nothing committed is truncated. Each step ends with the cheap ones asserted.

What it is composed of
----------------------
This class takes inputs to the part that they belong to, and after each settles what follows. It
has no state and decides nothing. State is held by objects of their own, which know nothing of each
other's business; parts decide, and are given the node and by name the parts that they ask:

| object               | what it holds                                                          |
|----------------------|------------------------------------------------------------------------|
| `outbox`             | a step's effects, and the durable state in front of what depends on it |
| `timers`             | now, deadlines, jitter                                                 |
| `log`                | its end, what is durable, committed, damaged; the voters along it      |
| `requests`           | requests to other nodes that are not answered                          |
| `node`               | these four, who this node is, its role (`roles.py`), who leads         |
| `tracker` (a role's) | the progress of replicas: what a majority holds, and when heard of     |
| `changes` (a role's) | the change of the voters that is under way                             |
| `fetches` (a role's) | the fetches that wait                                                  |

| part                                | what it decides                              |
|-------------------------------------|----------------------------------------------|
| `role_changes`                      | the table above: every `become_`             |
| `leader_claims`                     | which epochs and leaders are believed        |
| `elections`                         | votes: asked for, and given                  |
| `following`                         | what a leader sends: append, cut, await it   |
| `snapshot_fetching`, `.._retention` | snapshots (KIP-630): loaded, kept            |
| `damage`                            | batches that cannot be read                  |
| `replication`, `serving`, `leading` | what a leader commits, sends, says           |
| `reconfiguration`, `voter_requests` | how voters come and go (KIP-853), and ask to |

The decisions that Raft stands or falls with have names in `rules.py`. What the log must be able to
show: see `view.py`. FetchQuorumRecords, the draft before Fetch, is spoken by an adapter in front of
the machine (`draft.py`).

The shell's part
----------------
It makes inputs of messages (`inputs.received`, `inputs.answered`), gives every answer the very
request object it was sent, and reports every request that will not be answered (`RequestFailed`).
It reads the bytes for `FetchBounds` and its like, with every checksum; what is corrupt it does not
send but says so (`LogDamaged`), and takes a snapshot once that can stand for it (`damaged_at`).
Before `Start` it recovers the log, flushes it to the end, and finishes the installation of a
snapshot that a crash cut short. After a truncation it does not report flushes that began before. It
looks at `high_watermark` after each step, and takes committed batches to the image.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar

from fencepost.machines.effects import (
    DiskFailed,
    Effect,
    Persisted,
    TimerFired,
    TruncatedBelow,
)
from fencepost.machines.probes import probe
from fencepost.machines.quorum import inputs, membership, messages
from fencepost.machines.quorum.component import Component
from fencepost.machines.quorum.config import QuorumConfig
from fencepost.machines.quorum.damage import LogDamage
from fencepost.machines.quorum.elections import Elections
from fencepost.machines.quorum.following import Following
from fencepost.machines.quorum.leader_claims import LeaderClaims
from fencepost.machines.quorum.leading import Leading
from fencepost.machines.quorum.node import QuorumNode
from fencepost.machines.quorum.reconfiguration import Reconfiguration
from fencepost.machines.quorum.replication import Replication
from fencepost.machines.quorum.role_changes import RoleChanges
from fencepost.machines.quorum.roles import (
    Failed,
    Follower,
    Leader,
    Nominee,
    Resigned,
    Role,
    Unattached,
)
from fencepost.machines.quorum.rules import RULES, QuorumRules
from fencepost.machines.quorum.serving import Serving
from fencepost.machines.quorum.snapshot_fetching import SnapshotFetching
from fencepost.machines.quorum.snapshot_retention import SnapshotRetention
from fencepost.machines.quorum.state import EPOCH_MAX, NO_NODE, QuorumState
from fencepost.machines.quorum.tracker import Tracker
from fencepost.machines.quorum.view import LogView
from fencepost.machines.quorum.voter_history import VoterHistory
from fencepost.machines.quorum.voter_requests import VoterRequests
from fencepost.machines.quorum.voters import Endpoint, ReplicaKey, VoterSet, on_listener
from fencepost.wire.api.api_versions import ApiVersionsRequest
from fencepost.wire.api.fetch import FetchRequest
from fencepost.wire.api.vote import VoteRequest
from fencepost.wire.message import Message


class QuorumMachine(Component):
    """One node's part in the quorum; see the module docstring. Step it with `inputs.Input`.

    The parts are to be looked at, not to be called.
    """

    NOT_STATE: ClassVar = frozenset(("_has_started",))

    def __init__(
        self,
        node_id: int,
        history: VoterHistory | Sequence[int],
        log_view: LogView,
        state: QuorumState,
        config: QuorumConfig,
        rules: QuorumRules = RULES,
    ) -> None:
        if not isinstance(history, VoterHistory):
            history = VoterHistory(VoterSet.of_ids(history))
        assert node_id >= 0, "ids are not negative"
        assert history.latest.voters or config.bootstrap_servers, "there is a node to ask"
        self.node = node = QuorumNode(node_id, history, log_view, state, config, rules)
        self.log = node.log
        self.outbox = node.outbox
        self.requests = node.requests
        self.timers = node.timers
        self.roles = roles = RoleChanges(node)
        claims = LeaderClaims(node, roles)
        snapshots = SnapshotFetching(node, roles, claims)
        replication = Replication(node, roles)
        self.elections = Elections(node, roles, claims)
        self.snapshots = snapshots
        self.retention = SnapshotRetention(node)
        self.damage = LogDamage(node, roles)
        self.following = Following(node, roles, claims, snapshots, self.damage)
        self.replication = replication
        self.serving = Serving(node, replication)
        self.leading = Leading(node, roles, claims, replication)
        self.reconfiguration = Reconfiguration(node, roles, replication)
        self.voter_requests = VoterRequests(node, claims)
        self._has_started = False

    def step(self, input_: Any, now_ms: int, wall_ms: int) -> list[Effect]:
        """Take one input and say what is to be done about it, in order.

        `wall_ms` stamps control records, judges the age of snapshots and dates what DescribeQuorum
        tells of fetches; everything else goes by `now_ms`.
        """
        is_start = isinstance(input_, inputs.Start)
        assert is_start is not self._has_started, "Start comes first, and once"
        self.timers.now_ms, self.timers.wall_ms = now_ms, wall_ms
        log = self.log
        is_ours = self.node.role is not Role.FAILED and log.installing is None
        if is_ours and not is_start and not isinstance(input_, DiskFailed):
            assert log.view.end_offset == log.end_offset, "the log is as we left it"
        HANDLERS[type(input_)](self, input_)
        self._settle()
        self._check_invariants()
        return self.outbox.take()

    def _settle(self) -> None:
        """What follows from whatever has just happened."""
        self.elections.maybe_stand_alone()
        leader = self.node.role_state
        if isinstance(leader, Leader):
            self.replication.maybe_commit(leader)
            self.replication.answer_committed(leader)
            self.serving.answer_waiting(leader)
            self.reconfiguration.settle(leader)
        self.damage.maybe_forget_acknowledged()
        self.voter_requests.arm()
        self._expire_requests()
        self.requests.pump(self._wanted_peers(), self._request_for, self._must_flush_first)

    def _check_invariants(self) -> None:
        node, log, state = self.node, self.log, self.outbox.state
        body, role = node.role_state, node.role
        assert 0 <= log.high_watermark <= log.end_offset, "what is committed is in the log"
        assert log.durable_end_offset <= log.end_offset, "what is durable is in the log"
        if role in (Role.LEADER, Role.RESIGNED):
            assert state.leader_id == node.id, "a leader is on record"
        if role is Role.CANDIDATE:
            assert state.voted_id == node.id, "a candidate votes for itself"
            assert state.leader_id == NO_NODE, "a candidate knows no leader"
        if isinstance(body, Follower):
            assert state.leader_id == body.leader_id != node.id, "we follow the leader"
        if role in (Role.PROSPECTIVE, Role.CANDIDATE):
            assert node.is_electable, "observers do not stand"

    # -- the inputs that belong to no part -----------------------------------------------------

    def _step_start(self, input_: inputs.Start) -> None:
        self._has_started = True
        self.timers.start(input_.jitter)
        self.node.epochs.start(self.timers.now_ms)
        self.log.open()
        reason = self._reason_not_to_start()
        if reason is not None:
            self.roles.become_failed(reason)
            return
        self.log.count_snapshots_as_committed()
        rules, state = self.node.rules, self.outbox.state
        self.outbox.begin_with(rules.state_at_start(state, self.log.last_epoch))
        self._take_up_role()
        self.retention.clean()

    def _reason_not_to_start(self) -> str | None:
        """What keeps this node from starting; None if nothing does."""
        node, state = self.node, self.outbox.state
        if state.epoch >= EPOCH_MAX:
            # No voter would ever be elected again with our vote, nor be able to lead us.
            return (
                f"quorum-state has epoch {EPOCH_MAX}, and there is none after it: no leader can be"
                " elected. If the other voters are well, format this node's directory again and"
                " have it added to the voters again"
            )
        reason = self.log.reason_against_level() or node.rules.reason_not_to_start(self.log.view)
        if reason is None and node.is_voter and not node.others and not node.may_stand():
            epoch, offset = state.acknowledged_end
            reason = (
                f"the log lacks records below offset {offset} (epoch {epoch}) that were lost to"
                " damage, and no other node has them"
            )
        return reason

    def _take_up_role(self) -> None:
        """The role that the durable state stands for; see the table."""
        node, state = self.node, self.outbox.state
        if node.is_voter and not node.others:
            self.roles.become_prospective()
        elif state.leader_id == node.id:
            self.roles.begin_resigned()
        elif state.leader_id in self.log.voter_set.ids:
            self.roles.become_follower(state.epoch, state.leader_id)
        else:
            self.roles.become_unattached(state.epoch)

    def _step_persisted(self, input_: Persisted) -> None:
        self.log.persisted(input_.end_offset)

    def _step_disk_failed(self, input_: DiskFailed) -> None:
        if self.node.role is not Role.FAILED:
            self.roles.become_failed(f"the disk failed: {input_.reason}")

    def _step_image_failed(self, input_: inputs.ImageFailed) -> None:
        if self.node.role is not Role.FAILED:
            probe("quorum.image.failed")
            self.roles.become_failed(input_.reason)

    def _step_timer(self, input_: TimerFired) -> None:
        if self.node.role is not Role.FAILED and self.timers.is_due(input_.name):
            # "retry" and "fetch-wait" need no more than the settling that ends every step.
            handler = TIMERS.get(input_.name)
            if handler is not None:
                handler(self)

    # -- what the role asks of its peers -------------------------------------------------------

    def _step_request_failed(self, input_: inputs.RequestFailed) -> None:
        if self.requests.settle(input_.source, input_.request, retry_later=True):
            self._note_unanswered(input_.source, input_.request)
            if input_.is_refused:
                self.following.on_leader_connection_refused(input_.source)

    def _note_unanswered(self, peer: int, request: Message) -> None:
        self.following.probe_next()
        if isinstance(request, ApiVersionsRequest):
            self.reconfiguration.versions_unanswered(peer)

    def _expire_requests(self) -> None:
        for peer, request in self.requests.expired():
            probe("quorum.request.expired")
            self.requests.settle(peer, request, retry_later=False)
            self._note_unanswered(peer, request)

    def _wanted_peers(self) -> Sequence[int]:
        """The peers that this role still has something to ask of, in a fixed order."""
        body = self.node.role_state
        if isinstance(body, Nominee):
            if self.elections.has_lost(body):
                return ()
            return [voter for voter in self.node.others if not body.has_answered(voter)]
        if isinstance(body, Leader):
            peers = sorted(body.tracker.unacknowledged)
            asked = body.changes.asks
            return peers if asked is None else [*peers, asked]
        if isinstance(body, Resigned):
            return sorted(body.unacknowledged)
        target = self.following.fetch_target()
        return () if target is None else (target,)

    def _request_for(self, peer: int) -> Message:
        """What this role asks of `peer`."""
        node, config, state = self.node, self.node.config, self.outbox.state
        body = node.role_state
        if isinstance(body, Nominee):
            return messages.vote_request(
                config,
                voter_id=peer,
                candidate_id=node.id,
                epoch=state.epoch,
                log_end=self.log.end,
                pre_vote=body.role is Role.PROSPECTIVE,
                voter_directory_id=node.directory_of(peer),
            )
        if isinstance(body, Leader):
            if peer not in body.tracker.voters:
                return membership.versions_request()
            return messages.begin_request(config, peer, state, node.directory_of(peer))
        if isinstance(body, Resigned):
            return messages.end_request(config, state, body.candidates)
        assert isinstance(body, Follower | Unattached), f"{body!r} asks no node"
        if isinstance(body, Follower) and peer == body.leader_id:
            return self.voter_requests.take_due() or self.following.follower_request(body)
        return self.following.fetch_request()

    def _must_flush_first(self, message: Message) -> bool:
        """Whether a message speaks of our log, and the log is not durable yet as far as it says.

        A fetch tells the leader that we hold everything below its offset, and a candidate's request
        that it holds everything up to its log's end: a vote given to a log that a crash then cuts
        short could elect a leader without committed records.
        """
        if self.log.is_durable:
            return False
        if isinstance(message, FetchRequest):
            can_vote = self.node.config.can_become_voter
            return self.node.rules.flushes_before_fetch(self.node.is_voter, can_vote)
        return isinstance(message, VoteRequest)

    def canonical(self, but: frozenset[str] = frozenset()) -> Hashable:
        """What this machine's future depends on, without its log; see `machines.canonical`.

        Time is left out: of timers, whether they are due; of requests, which are not answered. The
        fields in `but` are left out, too, for searches in which they cannot matter.
        """
        from fencepost.machines.canonical import canonical  # searches alone need it

        asked = canonical(self.requests.asked, is_ordered=False)
        return self.timers.due, asked, canonical(self, but=but, is_ordered=False)

    # -- what others may look at ---------------------------------------------------------------

    @property
    def node_id(self) -> int:
        """The id of this node."""
        return self.node.id

    @property
    def key(self) -> ReplicaKey:
        """This node with its disk."""
        return self.node.key

    @property
    def voters(self) -> tuple[int, ...]:
        """The ids of the voters, ascending."""
        return self.log.voter_set.ids

    @property
    def voter_set(self) -> VoterSet:
        """The voters in force, whether their record is committed or not."""
        return self.log.voter_set

    @property
    def voter_history(self) -> VoterHistory:
        """The voter sets and levels of kraft.version along the log; to look at, not to change."""
        return self.log.history

    @property
    def kraft_version(self) -> int:
        """The level of kraft.version in force: 0 for static voters, 1 for dynamic ones."""
        return self.log.kraft_version

    @property
    def is_voter(self) -> bool:
        """Whether this node has a vote; otherwise it observes."""
        return self.node.is_voter

    @property
    def is_electable(self) -> bool:
        """Whether this node may stand for election; see `QuorumNode.is_electable`."""
        return self.node.is_electable

    @property
    def role(self) -> Role:
        """The present role."""
        return self.node.role

    @property
    def state(self) -> QuorumState:
        """The durable state."""
        return self.outbox.state

    @property
    def epoch(self) -> int:
        """The latest epoch this node has heard of."""
        return self.outbox.state.epoch

    @property
    def leader_id(self) -> int:
        """The leader of the epoch as far as known, or -1; this node only while it leads."""
        return self.node.leader_id

    @property
    def leader_endpoints(self) -> tuple[Endpoint, ...]:
        """Where the leader is reached: by its own word, or else by the voter set."""
        return self.node.leader_endpoints

    def leader_endpoint_on(self, listener: str) -> Endpoint | None:
        """The same, on the listener of that name, if it is known."""
        return self.node.leader_endpoint_on(listener)

    def address_of(self, node_id: int) -> Endpoint | None:
        """Where a node is reached on the listener of voters, if that is known.

        Not for the pseudo ids below -1, which stand for the bootstrap servers in their order: -2
        is the first.
        """
        if node_id >= 0 and node_id == self.leader_id:
            return self.node.leader_endpoint
        endpoints: tuple[Endpoint, ...] = ()
        voter, leader = self.voter_set.get(node_id), self.node.role_state
        if voter is not None:
            endpoints = voter.endpoints
        elif isinstance(leader, Leader):
            endpoints = leader.changes.endpoints_of(node_id)
        return on_listener(self.node.config.listener, endpoints)

    @property
    def is_active_leader(self) -> bool:
        """Whether this node leads and its LeaderChange is committed; see `QuorumNode`."""
        return self.node.is_active_leader

    @property
    def epoch_start_offset(self) -> int:
        """Where the epoch of this leader begins in the log; -1 if it does not lead."""
        leader = self.node.role_state
        return leader.epoch_start_offset if isinstance(leader, Leader) else -1

    @property
    def tracker(self) -> Tracker | None:
        """What a leader knows of its replicas, to be read only; None elsewhere."""
        leader = self.node.role_state
        return leader.tracker if isinstance(leader, Leader) else None

    def last_caught_up_ms(self, key: ReplicaKey) -> int:
        """When, by the wall clock, a replica of this leader last had all that the leader had; -1 if
        that is unknown."""
        leader = self.node.role_state
        if not isinstance(leader, Leader):
            return -1
        tracker = leader.tracker
        is_voter = self.voter_set.contains(key)
        progress = tracker.voters.get(key.id) if is_voter else tracker.observers.get(key)
        return -1 if progress is None else self.timers.wall_of(progress.last_caught_up_ms)

    @property
    def high_watermark(self) -> int:
        """The offset below which the log is committed, as far as this node knows; never falls."""
        return self.log.high_watermark

    @property
    def end_offset(self) -> int:
        """The end of the log, with what the last step appended."""
        return self.log.end_offset

    @property
    def damaged_at(self) -> int | None:
        """Where the first batch of the log begins that cannot be read; None if all can.

        While it is not None, a snapshot that ends beyond it is wanted.
        """
        return self.log.damaged_at

    @property
    def invalid_batch_epoch(self) -> int:
        """The latest epoch whose leader has sent batches that were not sound; -1 for none."""
        return self.following.invalid_batch_epoch

    def __repr__(self) -> str:
        body = self.node.role_state
        failed = f", {body.reason}" if isinstance(body, Failed) else ""
        return (
            f"QuorumMachine({self.node_id} of {list(self.voters)}: {self.role.value}, "
            f"epoch {self.epoch}, leader {self.leader_id}, high watermark {self.high_watermark}, "
            f"end {self.end_offset}{failed})"
        )


Handler = Callable[[QuorumMachine, Any], None]

HANDLERS: dict[type[Any], Handler] = {
    inputs.Start: QuorumMachine._step_start,
    TimerFired: QuorumMachine._step_timer,
    Persisted: QuorumMachine._step_persisted,
    TruncatedBelow: lambda machine, given: machine.log.ended_at(given.end_offset),
    DiskFailed: QuorumMachine._step_disk_failed,
    inputs.ImageFailed: QuorumMachine._step_image_failed,
    inputs.RequestFailed: QuorumMachine._step_request_failed,
    inputs.VoteReceived: lambda machine, given: machine.elections.step_vote(given),
    inputs.VoteAnswered: lambda machine, given: machine.elections.step_vote_answer(given),
    inputs.BeginQuorumEpochReceived: lambda machine, given: machine.following.step_begin(given),
    inputs.BeginQuorumEpochAnswered: lambda machine, given: machine.leading.step_begin_answer(
        given
    ),
    inputs.EndQuorumEpochReceived: lambda machine, given: machine.following.step_end(given),
    inputs.EndQuorumEpochAnswered: lambda machine, given: machine.leading.step_end_answer(given),
    inputs.FetchReceived: lambda machine, given: machine.serving.step_fetch(given),
    inputs.FetchAnswered: lambda machine, given: machine.following.step_fetch_answer(given),
    inputs.FetchSnapshotReceived: lambda machine, given: machine.serving.step_fetch_snapshot(given),
    inputs.FetchSnapshotAnswered: lambda machine, given: machine.snapshots.step_answer(given),
    inputs.DescribeQuorumReceived: lambda machine, given: machine.leading.step_describe(given),
    inputs.AppendRecords: lambda machine, given: machine.replication.step_append(given),
    inputs.AddVoterReceived: lambda machine, given: machine.reconfiguration.step_add_voter(given),
    inputs.RemoveVoterReceived: lambda machine, given: machine.reconfiguration.step_remove_voter(
        given
    ),
    inputs.UpdateVoterReceived: lambda machine, given: machine.reconfiguration.step_update_voter(
        given
    ),
    inputs.UpgradeKRaftVersion: lambda machine, given: machine.reconfiguration.step_upgrade(given),
    inputs.ApiVersionsAnswered: lambda machine, given: machine.reconfiguration.step_versions_answer(
        given
    ),
    inputs.AddVoterAnswered: lambda machine, given: machine.voter_requests.step_change_answer(
        given
    ),
    inputs.RemoveVoterAnswered: lambda machine, given: machine.voter_requests.step_change_answer(
        given
    ),
    inputs.UpdateVoterAnswered: lambda machine, given: machine.voter_requests.step_update_answer(
        given
    ),
    inputs.Resign: lambda machine, given: machine.leading.step_resign(given),
    inputs.SnapshotTaken: lambda machine, given: machine.retention.step_snapshot_taken(given),
    inputs.SnapshotInstalled: lambda machine, given: machine.snapshots.step_installed(given),
    inputs.SnapshotRefused: lambda machine, given: machine.snapshots.step_refused(given),
    inputs.LogDamaged: lambda machine, given: machine.damage.step_log_damaged(given),
}
"""Every kind of input, and who takes it."""

TIMERS: dict[str, Callable[[QuorumMachine], None]] = {
    inputs.ELECTION: lambda machine: machine.elections.step_election_timeout(),
    inputs.FETCH: lambda machine: machine.following.step_fetch_timeout(),
    inputs.CHECK_QUORUM: lambda machine: machine.replication.step_check_quorum(),
    inputs.BEGIN_QUORUM: lambda machine: machine.replication.step_begin_quorum(),
    inputs.CLEAN: lambda machine: machine.retention.step_clean(),
    inputs.VOTER_CHANGE: lambda machine: machine.reconfiguration.step_change_timeout(),
    inputs.VOTER_REQUEST: lambda machine: machine.voter_requests.step_due(),
}
"""The timers whose firing means something by itself, and the part that handles it."""

MachineMaker = Callable[..., QuorumMachine]
"""`QuorumMachine`, or something that takes what it takes: node id, voters, log, state, config."""
