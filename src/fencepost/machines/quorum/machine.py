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
|             | damage, or lacks what it had promised                    |                     |
| any         | `DiskFailed`, `ImageFailed`, or an invariant is broken   | Failed              |

Who stands for election: voters, and those whose removal is in their log and not known to be
committed (`QuorumCore.is_electable`). Everybody else observes.

A restarted leader is Resigned and not Leader: it may have lost records that it had written but not
flushed, and would put others in their place, in the same epoch, at the same offsets (KAFKA-10527).
A lone voter goes through Prospective and Candidate as others do, in one step, being a majority.

Invariants (numbers as in the project's catalogue): I21 one leader per epoch; I22 one vote per epoch
and voter, on disk before it is told; I23 epochs do not fall, and memory is what is on disk; I24/I25
what is committed is in every later leader's log; I26 committed means on the disks of a majority;
I07 nothing committed is truncated. Each step ends with the cheap ones asserted.

Who waits for the disk: see `core.py`. What the log must be able to show: see `view.py`. How voters
come and go: see `reconfiguration.py`; which are in force: `voter_history.py`. Snapshots (KIP-630):
see `snapshots.py`.

The shell's part
----------------
It makes inputs of messages (`inputs.received`, `inputs.answered`), gives every answer the very
request object it was sent, and reports every request that will not be answered (`RequestFailed`).
It reads the bytes for `FetchBounds` and its like, with every checksum; what has rotted it does not
send but says so (`LogDamaged`), and takes a snapshot once that can stand for it (`damaged_at`).
Before `Start` it recovers the log, flushes it to the end, and finishes the installation of a
snapshot that a crash cut short. After a truncation it does not report flushes that began before. It
looks at `high_watermark` after each step, and takes committed batches to the image.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fencepost.machines.effects import DiskFailed, Effect, Persisted, TimerFired
from fencepost.machines.probes import probe
from fencepost.machines.quorum import inputs, membership, messages
from fencepost.machines.quorum.draft import Draft
from fencepost.machines.quorum.elections import Elections
from fencepost.machines.quorum.leading import Leading
from fencepost.machines.quorum.reconfiguration import Reconfiguration
from fencepost.machines.quorum.roles import (
    Failed,
    Follower,
    Leader,
    Nominee,
    Resigned,
    Role,
    Unattached,
)
from fencepost.machines.quorum.state import EPOCH_MAX, NOBODY
from fencepost.wire.api.api_versions import ApiVersionsRequest
from fencepost.wire.message import Message
from fencepost.wire.types import Uuid


class QuorumMachine(Elections, Draft, Leading, Reconfiguration):
    """One node's part in the quorum; see the module docstring. Step it with `inputs.Input`."""

    _has_started = False

    def step(self, input_: Any, now_ms: int, wall_ms: int) -> list[Effect]:
        """Take one input and say what is to be done about it, in order.

        `wall_ms` stamps control records, judges the age of snapshots and dates what DescribeQuorum
        tells of fetches; everything else goes by `now_ms`.
        """
        is_start = isinstance(input_, inputs.Start)
        assert is_start is not self._has_started, "Start comes first, and once"
        self._now_ms, self._wall_ms = now_ms, wall_ms
        is_ours = self.role is not Role.FAILED and self._installing is None
        if is_ours and not is_start and not isinstance(input_, DiskFailed):
            assert self._log.end_offset == self._end_offset, "the log is as we left it"
        getattr(self, HANDLERS[type(input_)])(input_)
        self._settle()
        self._check_invariants()
        return self._take_effects()

    def _settle(self) -> None:
        """What follows from whatever has just happened."""
        self._maybe_stand_alone()
        leader = self._body
        if isinstance(leader, Leader):
            self._maybe_commit(leader)
            self._answer_committed(leader)
            self._answer_parked(leader)
            self._settle_change(leader)
        self._maybe_keep_promise()
        self._arm_introduction()
        self._expire_requests()
        self._pump()

    def _check_invariants(self) -> None:
        state, role = self._state, self.role
        assert 0 <= self._high_watermark <= self._end_offset, "what is committed is in the log"
        assert self._durable_end_offset <= self._end_offset, "what is durable is in the log"
        if role in (Role.LEADER, Role.RESIGNED):
            assert state.leader_id == self._node_id, "a leader is on record"
        if role is Role.CANDIDATE:
            assert state.voted_id == self._node_id, "a candidate votes for itself"
            assert state.leader_id == NOBODY, "a candidate knows no leader"
        if isinstance(self._body, Follower):
            assert state.leader_id == self._body.leader_id != self._node_id, "we follow the leader"
        if role in (Role.PROSPECTIVE, Role.CANDIDATE):
            assert self.is_electable, "observers do not stand"

    # -- the handlers that belong to no part ---------------------------------------------------

    def _step_start(self, input_: inputs.Start) -> None:
        assert input_.jitter and min(input_.jitter) >= 0, "jitter is numbers, and some"
        log = self._log
        assert log.recovery_point >= log.end_offset, "the log is flushed before Start"
        self._has_started = True
        self._jitter = tuple(input_.jitter)
        self._epochs_used_until_ms = self._now_ms - self._epoch_ms
        self._end_offset = self._durable_end_offset = log.end_offset
        reason = (
            self._reason_of_state()
            or self._reason_of_level()
            or self._rules.reason_not_to_start(log)
        )
        if reason is not None:
            self.become_failed(reason)
            return
        latest = log.snapshots.latest()
        self._high_watermark = max(log.start_offset, latest.end_offset if latest else 0)
        self._last_epoch = self._epoch_before(log.end_offset)
        if self.is_voter and not self._others and not self._may_stand():
            epoch, offset = self._state.promised
            self.become_failed(
                f"the log lacks records below offset {offset} (epoch {epoch}) that were lost to"
                " damage, and nobody else has them"
            )
            return
        self._begin_with(self._rules.state_at_start(self._state, self._last_epoch))
        self._take_up_role()
        self._clean()

    def _reason_of_state(self) -> str | None:
        """What is wrong with quorum-state. With the last epoch there is, nobody would ever be
        elected again with our vote, nor be able to lead us."""
        if self._state.epoch < EPOCH_MAX:
            return None
        return (
            f"quorum-state has epoch {EPOCH_MAX}, and there is none after it: no leader can be"
            " elected. If the other voters are well, format this node's directory anew and have it"
            " added to the voters again"
        )

    def _take_up_role(self) -> None:
        """The role that the durable state stands for; see the table."""
        epoch, leader_id = self._state.epoch, self._state.leader_id
        if self.is_voter and not self._others:
            self.become_prospective()
        elif leader_id == self._node_id and self._rules.leads_again_after_restart():
            self._body = Nominee(Role.CANDIDATE, granted={self._node_id})
            self.become_leader()
        elif leader_id == self._node_id:
            self._body = Resigned()
            self._set_timer(inputs.ELECTION, self._random_election_deadline())
        elif leader_id in self._voters:
            self.become_follower(epoch, leader_id)
        else:
            self.become_unattached(epoch)

    def _step_persisted(self, input_: Persisted) -> None:
        durable = min(input_.end_offset, self._end_offset)
        self._durable_end_offset = max(self._durable_end_offset, durable)

    def _step_disk_failed(self, input_: DiskFailed) -> None:
        if self.role is not Role.FAILED:
            self.become_failed(f"the disk failed: {input_.reason}")

    def _step_image_failed(self, input_: inputs.ImageFailed) -> None:
        if self.role is not Role.FAILED:
            probe("quorum.image.failed")
            self.become_failed(input_.reason)

    def _step_request_failed(self, input_: inputs.RequestFailed) -> None:
        if self._settle_request(input_.source, input_.request, retry_later=True):
            self._note_unanswered(input_.source, input_.request)
            if input_.is_refused:
                self._note_gone(input_.source)

    def _note_unanswered(self, peer: int, request: Message) -> None:
        self._probe_next()
        if isinstance(request, ApiVersionsRequest):
            self._versions_unanswered(peer)

    def _expire_requests(self) -> None:
        """What is not answered in time never will be, also if nobody says so."""
        for peer, (request, deadline) in list(self._in_flight.items()):
            if deadline <= self._now_ms:
                probe("quorum.request.expired")
                self._settle_request(peer, request, retry_later=False)
                self._note_unanswered(peer, request)

    def _step_timer(self, input_: TimerFired) -> None:
        if self.role is Role.FAILED or not self._timer_is_due(input_.name):
            return
        if input_.name == inputs.ELECTION:
            self._step_election_timeout()
        elif input_.name == inputs.FETCH:
            self._step_fetch_timeout()
        elif input_.name == inputs.CHECK_QUORUM:
            self._step_check_quorum()
        elif input_.name == inputs.BEGIN_QUORUM:
            self._step_begin_quorum()
        elif input_.name == inputs.CLEAN:
            self._step_clean()
        elif input_.name == inputs.VOTER_CHANGE:
            self._step_change_timeout()
        elif input_.name == inputs.INTRODUCTION:
            self._step_introduction_due()
        # "retry" and "fetch-wait" need no more than the settling that ends every step.

    # -- what the role asks of its peers -------------------------------------------------------

    def _wanted_peers(self) -> Sequence[int]:
        body = self._body
        if isinstance(body, Nominee):
            if self._is_lost(body):
                return ()
            return [v for v in self._others if v not in body.granted and v not in body.rejected]
        if isinstance(body, Leader):
            peers = sorted(body.unacknowledged)
            asks = body.change is not None and body.change.record_offset < 0
            if asks and body.change is not None and body.change.added is not None:
                peers.append(body.change.added.id)
            return peers
        if isinstance(body, Resigned):
            return sorted(body.unacknowledged)
        target = self._fetch_target()
        return () if target is None else (target,)

    def _request_for(self, peer: int) -> Message:
        body = self._body
        if isinstance(body, Nominee):
            return messages.vote_request(
                self._config,
                voter_id=peer,
                candidate_id=self._node_id,
                epoch=self._state.epoch,
                log_end=self._log_end,
                pre_vote=body.role is Role.PROSPECTIVE,
                voter_directory_id=self._directory_of(peer),
            )
        if isinstance(body, Leader):
            if peer not in body.followers:
                return membership.versions_request()
            return messages.begin_request(self._config, peer, self._state, self._directory_of(peer))
        if isinstance(body, Resigned):
            return messages.end_request(self._config, self._state, body.candidates)
        assert isinstance(body, Follower | Unattached), f"{body!r} asks nobody"
        if isinstance(body, Follower) and peer == body.leader_id:
            return self._due_introduction() or self._follower_request(body)
        return self._fetch_request()

    def _directory_of(self, peer: int) -> Uuid:
        """The directory id under which a voter is known, or the zero id."""
        voter = self.voter_set.get(peer)
        return voter.key.directory_id if voter is not None else Uuid.ZERO

    def __repr__(self) -> str:
        failed = f", {self._body.reason}" if isinstance(self._body, Failed) else ""
        return (
            f"QuorumMachine({self._node_id} of {list(self.voters)}: {self.role.value}, "
            f"epoch {self.epoch}, leader {self.leader_id}, high watermark {self._high_watermark}, "
            f"end {self._end_offset}{failed})"
        )


HANDLERS: dict[type[Any], str] = {
    inputs.Start: "_step_start",
    TimerFired: "_step_timer",
    Persisted: "_step_persisted",
    DiskFailed: "_step_disk_failed",
    inputs.ImageFailed: "_step_image_failed",
    inputs.VoteReceived: "_step_vote",
    inputs.BeginQuorumEpochReceived: "_step_begin",
    inputs.EndQuorumEpochReceived: "_step_end",
    inputs.FetchReceived: "_step_fetch",
    inputs.DescribeQuorumReceived: "_step_describe",
    inputs.VoteAnswered: "_step_vote_answer",
    inputs.BeginQuorumEpochAnswered: "_step_begin_answer",
    inputs.EndQuorumEpochAnswered: "_step_end_answer",
    inputs.FetchAnswered: "_step_fetch_answer",
    inputs.RequestFailed: "_step_request_failed",
    inputs.AppendRecords: "_step_append",
    inputs.AddVoterReceived: "_step_add_voter",
    inputs.RemoveVoterReceived: "_step_remove_voter",
    inputs.UpdateVoterReceived: "_step_update_voter",
    inputs.ApiVersionsAnswered: "_step_versions_answer",
    inputs.AddVoterAnswered: "_step_introduction_answer",
    inputs.RemoveVoterAnswered: "_step_introduction_answer",
    inputs.UpdateVoterAnswered: "_step_update_answer",
    inputs.UpgradeKRaftVersion: "_step_upgrade",
    inputs.Resign: "_step_resign",
    inputs.FetchSnapshotReceived: "_step_fetch_snapshot",
    inputs.FetchSnapshotAnswered: "_step_fetch_snapshot_answer",
    inputs.QuorumRecordsReceived: "_step_quorum_records",
    inputs.QuorumRecordsAnswered: "_step_quorum_records_answer",
    inputs.SnapshotTaken: "_step_snapshot_taken",
    inputs.SnapshotInstalled: "_step_snapshot_installed",
    inputs.SnapshotRefused: "_step_snapshot_refused",
    inputs.LogDamaged: "_step_log_damaged",
}
"""Every kind of input and the method that takes it; by name, so that a subclass may replace one."""

MachineMaker = Callable[..., QuorumMachine]
"""`QuorumMachine`, or something that takes what it takes: node id, voters, log, state, config."""
