"""What every part of the quorum machine stands on: its state, its effects, its timers, its sends.

Nothing here decides anything about Raft. It keeps three promises that the deciding parts rely on:

* Persist before anything leaves. `_remember` changes the durable state in memory; `_emit` puts a
  `WriteState` in front of the first effect that follows, and the end of a step does so if none
  did. No handler can answer or send what depends on a vote or an epoch that is not on disk.
* The machine knows its own log end. Appends and truncations are effects and happen after the
  step, so `_end_offset` and `_last_epoch` run ahead of the log in a step; at the next they agree.
  So does the voter history: a set counts as soon as its record is appended, and no longer than the
  record stays.
* One request at a time to each peer. `_pump` sends what the role still wants to ask, and arms the
  retry timer for what failed or was not answered. Answers are matched by identity of the request.

The machine trusts `Persisted` to speak of the log as it is: a shell must not report a flush that
began before a truncation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fencepost.batch.errors import BatchError
from fencepost.batch.record_batch import RecordBatch
from fencepost.log.snapshots import SnapshotId
from fencepost.machines.effects import (
    Append,
    Effect,
    Persist,
    Reply,
    Send,
    SendAfterPersist,
    SetTimer,
    Truncate,
    WriteState,
)
from fencepost.machines.quorum import inputs
from fencepost.machines.quorum.config import QuorumConfig
from fencepost.machines.quorum.roles import NEVER_MS, Body, Leader, Role, Unattached
from fencepost.machines.quorum.rules import RULES, QuorumRules
from fencepost.machines.quorum.state import NOBODY, QuorumState
from fencepost.machines.quorum.view import LogView
from fencepost.machines.quorum.voter_history import VoterHistory
from fencepost.machines.quorum.voters import (
    Endpoint,
    ReplicaKey,
    VoterSet,
    on_listener,
)
from fencepost.wire.api.fetch import FetchRequest
from fencepost.wire.api.vote import VoteRequest
from fencepost.wire.draft.fetch_quorum_records import FetchQuorumRecordsRequest
from fencepost.wire.message import Message


class QuorumCore(ABC):
    """State, effects, timers and sends; see the module docstring."""

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
        assert history.latest.voters or config.bootstrap_servers, "there is somebody to ask"
        self._node_id = node_id
        self._history = history
        self._log = log_view
        self._state = state
        self._config = config
        self._rules = rules
        self._body: Body = Unattached()
        self._high_watermark = 0
        self._end_offset = 0
        self._durable_end_offset = 0
        self._last_epoch = 0
        self._leader_told: tuple[int, tuple[Endpoint, ...]] = (NOBODY, ())
        self._jitter: tuple[int, ...] = ()
        self._jitter_used = 0
        self._now_ms = 0
        self._wall_ms = 0
        self._epochs_used_until_ms = 0
        self._effects: list[Effect] = []
        self._state_unwritten = False
        self._deadlines: dict[str, int] = {}
        self._in_flight: dict[int, tuple[Message, int]] = {}
        self._not_before: dict[int, int] = {}
        self._installing: SnapshotId | None = None
        self._damaged: frozenset[int] = frozenset()

    # -- what others may look at ---------------------------------------------------------------

    @property
    def node_id(self) -> int:
        """The id of this node."""
        return self._node_id

    @property
    def voters(self) -> tuple[int, ...]:
        """The ids of the voters, ascending."""
        return self.voter_set.ids

    @property
    def voter_set(self) -> VoterSet:
        """The voters in force, whether their record is committed or not."""
        return self._history.latest

    @property
    def voter_history(self) -> VoterHistory:
        """The voter sets and levels of kraft.version along the log; to look at, not to change."""
        return self._history

    @property
    def kraft_version(self) -> int:
        """The level of kraft.version in force: 0 for static voters, 1 for dynamic ones."""
        return self._history.kraft_version

    @property
    def key(self) -> ReplicaKey:
        """This node with its disk."""
        return ReplicaKey(self._node_id, self._config.directory_id)

    @property
    def is_voter(self) -> bool:
        """Whether this node has a vote; otherwise it observes."""
        return self._is_in(self.voter_set)

    @property
    def is_electable(self) -> bool:
        """Whether this node may stand for election: a voter, or one that may be needed yet.

        A voter whose removal is in its log and perhaps nowhere else, and not committed, can have
        the longest log of all. The others are no majority without its vote, which it cannot give
        to them; so it stands itself, does not count itself, and commits its removal (Raft's
        dissertation, 4.2.2). Kafka's voters stop to stand at once.
        """
        offset = self._history.latest_offset
        return self.is_voter or (
            offset is not None
            and offset >= self._high_watermark
            and self._is_in(self._history.at(offset - 1))
        )

    def _is_in(self, voters: VoterSet) -> bool:
        voter = voters.get(self._node_id)
        return voter is not None and self._rules.is_replica(voter, self.key)

    @property
    def role(self) -> Role:
        """The present role."""
        return self._body.role

    @property
    def epoch(self) -> int:
        """The latest epoch this node has heard of."""
        return self._state.epoch

    @property
    def leader_id(self) -> int:
        """The leader of the epoch as far as known, or -1; this node only while it leads."""
        leader_id = self._state.leader_id
        if leader_id == self._node_id and self.role is not Role.LEADER:
            return NOBODY
        return leader_id

    @property
    def leader_endpoints(self) -> tuple[Endpoint, ...]:
        """Where the leader is reached: by its own word, or else by the voter set."""
        if isinstance(self._body, Leader):
            return self._config.endpoints
        told_id, endpoints = self._leader_told
        if told_id == self.leader_id and endpoints:
            return endpoints
        voter = self.voter_set.get(self.leader_id)
        return voter.endpoints if voter is not None else ()

    def _note_leader(self, leader_id: int, endpoints: tuple[Endpoint, ...]) -> None:
        """Somebody said where the leader is reached."""
        if endpoints:
            self._leader_told = (leader_id, endpoints)

    def address_of(self, node_id: int) -> Endpoint | None:
        """Where a node is reached on the listener of voters, if that is known.

        Not for the pseudo ids below -1, which stand for the bootstrap servers in their order: -2
        is the first.
        """
        endpoints: tuple[Endpoint, ...] = ()
        voter = self.voter_set.get(node_id)
        if node_id >= 0 and node_id == self.leader_id:
            endpoints = self.leader_endpoints
        elif voter is not None:
            endpoints = voter.endpoints
        elif isinstance(self._body, Leader) and self._body.change is not None:
            added = self._body.change.added
            endpoints = added.endpoints if added is not None and added.id == node_id else ()
        return on_listener(self._config.listener, endpoints)

    @property
    def _leader_endpoint(self) -> Endpoint | None:
        return on_listener(self._config.listener, self.leader_endpoints)

    @property
    def high_watermark(self) -> int:
        """The offset below which the log is committed, as far as this node knows; never falls."""
        return self._high_watermark

    @property
    def end_offset(self) -> int:
        """The end of the log, with what the last step appended."""
        return self._end_offset

    @property
    def state(self) -> QuorumState:
        """The durable state."""
        return self._state

    @property
    def epoch_start_offset(self) -> int:
        """Where the epoch of this leader begins in the log; -1 if it does not lead."""
        return self._body.epoch_start_offset if isinstance(self._body, Leader) else -1

    @property
    def is_active_leader(self) -> bool:
        """Whether this node leads and its LeaderChange is committed.

        Only then does the committed log hold everything that earlier leaders committed, so only
        then may a controller built from it decide anything.
        """
        leader = self._body
        return isinstance(leader, Leader) and self._rules.is_active(
            self._high_watermark, leader.epoch_start_offset
        )

    # -- effects -------------------------------------------------------------------------------

    def _emit(self, effect: Effect) -> None:
        """Add an effect, behind the durable state if that has changed."""
        if (
            self._state_unwritten
            and not isinstance(effect, SetTimer)
            and self._rules.writes_state_before_telling()
        ):
            self._write_state()
        self._effects.append(effect)

    def _write_state(self) -> None:
        self._state_unwritten = False
        self._effects.append(Persist(WriteState(self._state)))

    def _take_effects(self) -> list[Effect]:
        if self._state_unwritten:
            self._write_state()
        effects, self._effects = self._effects, []
        return effects

    def _reply(self, token: Any, value: Any) -> None:
        self._emit(Reply(token, value))

    def _append(self, batches: Sequence[RecordBatch], epoch: int, as_leader: bool) -> None:
        """Append to the log, the last batch being of `epoch`.

        Raises ValueError or BatchError, with nothing done, for control records that cannot be.
        """
        assert epoch >= self._last_epoch, "epochs do not fall along a log"
        voters_changed = self._take_control(batches)
        self._emit(Persist(Append(batches, self._state.epoch, as_leader)))
        self._end_offset += sum(batch.header.last_offset_delta + 1 for batch in batches)
        self._last_epoch = epoch
        if voters_changed:
            self._voters_changed()

    def _take_control(self, batches: Sequence[RecordBatch]) -> bool:
        """Whether the voters or kraft.version change with these batches, which follow the log."""
        changed = False
        offset = self._end_offset
        try:
            for batch in batches:
                header = batch.header
                if header.is_control:
                    changed = self._history.take_batch(offset, batch.data) or changed
                offset += header.last_offset_delta + 1
            reason = self._reason_of_level()
            if reason is not None:
                raise ValueError(reason)
        except (ValueError, BatchError):
            self._history.truncate_to(self._end_offset)
            raise
        return changed

    def _reason_of_level(self) -> str | None:
        """What is wrong with the level of kraft.version in the log, for this node."""
        level, most = self.kraft_version, self._config.max_kraft_version
        if level <= most:
            return None
        return f"kraft.version {level} is in force, and this node can run no more than {most}"

    @abstractmethod
    def _voters_changed(self) -> None:
        """The voter set or kraft.version is another than before."""

    def _truncate(self, end_offset: int) -> None:
        """Cut the log, which must not take away anything that is committed."""
        assert self._high_watermark <= end_offset <= self._end_offset, "what is committed stays"
        epoch = self._epoch_before(end_offset)
        self._emit(Persist(Truncate(end_offset)))
        self._end_offset = end_offset
        self._damaged = frozenset(at for at in self._damaged if at < end_offset)
        self._durable_end_offset = min(self._durable_end_offset, end_offset)
        self._last_epoch = epoch
        self._history.truncate_to(end_offset)
        self._voters_changed()

    def _epoch_before(self, offset: int) -> int:
        """The epoch of the record below `offset` of the log as it is on disk; 0 if there is none.

        At the log's start that is the epoch of the snapshot that ends there.
        """
        if offset > self._log.start_offset:
            return self._log.epochs.epoch_at(offset - 1) or 0
        ending_here = [i.epoch for i in self._log.snapshots.ids() if i.end_offset == offset]
        return ending_here[-1] if ending_here else 0

    def _remember(self, state: QuorumState) -> None:
        """Change the durable state. Within an epoch a leader and a vote are set at most once.

        What was promised of the log is another matter, and stays; see `_promise_log_end`.
        """
        old = self._state
        state = replace(state, promised=old.promised)
        if state == old:
            return
        assert state.epoch >= old.epoch, "epochs do not fall"
        if state.epoch == old.epoch:
            assert old.leader_id in (NOBODY, state.leader_id), "an epoch has one leader"
            assert old.voted_id in (NOBODY, state.voted_id), "a voter votes once per epoch"
        self._change_state(state)

    def _begin_with(self, state: QuorumState) -> None:
        """Go by this state from the start on."""
        state = replace(state, promised=self._state.promised)
        if state != self._state:
            self._change_state(state)

    def _change_state(self, state: QuorumState) -> None:
        if self._rules.must_write_state(self._state, state):
            self._state_unwritten = True
        self._state = state

    def _forget_leader(self) -> None:
        """The leader on record is not believed any more; the vote of the epoch stays given."""
        self._change_state(replace(self._state, leader_id=NOBODY))

    def _promise_log_end(self, log_end: tuple[int, int]) -> None:
        """Have the durable state say what others may count on; (0, 0): the log has all of it."""
        if log_end != self._state.promised:
            self._change_state(replace(self._state, promised=log_end))

    def _advance_high_watermark(self, offset: int) -> None:
        """The high watermark never falls, whatever an old or late answer says."""
        self._high_watermark = max(self._high_watermark, offset)

    # -- timers and jitter ---------------------------------------------------------------------

    def _set_timer(self, name: str, deadline_ms: int | None) -> None:
        if self._deadlines.get(name) == deadline_ms:
            return
        if deadline_ms is None:
            del self._deadlines[name]
        else:
            self._deadlines[name] = deadline_ms
        self._emit(SetTimer(name, deadline_ms))

    def _timer_is_due(self, name: str) -> bool:
        """Whether a timer that fired was not re-armed or disarmed meanwhile; disarms it if so."""
        deadline = self._deadlines.get(name)
        if deadline is None:
            return False
        if self._now_ms < deadline:
            # It fired early, or for a deadline of before: arm it again for the one that counts.
            self._emit(SetTimer(name, deadline))
            return False
        del self._deadlines[name]
        return True

    def _wall_of(self, at_ms: int) -> int:
        """When something was that happened at `at_ms`, as the wall clock is now; -1 for never."""
        return -1 if at_ms == NEVER_MS else self._wall_ms - (self._now_ms - at_ms)

    def _draw(self, below: int) -> int:
        """The next random number, in [0, below)."""
        value = self._jitter[self._jitter_used % len(self._jitter)]
        self._jitter_used += 1
        return value % below if below > 0 else 0

    def _random_election_deadline(self) -> int:
        timeout = self._config.election_timeout_ms
        return self._now_ms + timeout + self._draw(timeout)

    # -- sends ---------------------------------------------------------------------------------

    @abstractmethod
    def _wanted_peers(self) -> Sequence[int]:
        """The peers that this role still has something to ask of, in a fixed order."""

    @abstractmethod
    def _request_for(self, peer: int) -> Message:
        """What this role asks of `peer`."""

    def _send(self, peer: int, message: Message) -> None:
        """Send; what speaks of our log waits until the log is durable as far as it says.

        A fetch tells the leader that we hold everything below its offset, and a candidate's request
        that it holds everything up to its log's end: a vote given to a log that a crash then cuts
        short could elect a leader without committed records.
        """
        self._in_flight[peer] = (message, self._now_ms + self._config.request_timeout_ms)
        if self._durable_end_offset < self._end_offset and self._waits_for_flush(message):
            self._emit(SendAfterPersist(peer, message))
        else:
            self._emit(Send(peer, message))

    def _waits_for_flush(self, message: Message) -> bool:
        if isinstance(message, FetchRequest | FetchQuorumRecordsRequest):
            may_vote = self._config.can_become_voter
            return self._rules.flushes_before_fetch(self.is_voter, may_vote)
        return isinstance(message, VoteRequest)

    def _pump(self) -> None:
        """Send to every wanted peer that is neither busy nor to be left in peace; arm the retry."""
        earliest: int | None = None
        for peer in self._wanted_peers():
            due = self._not_before.get(peer, self._now_ms)
            if peer in self._in_flight:
                due = max(due, self._in_flight[peer][1])
            if due <= self._now_ms:
                self._send(peer, self._request_for(peer))
                due = self._in_flight[peer][1]
            earliest = due if earliest is None else min(earliest, due)
        self._set_timer(inputs.RETRY, earliest)

    def _forget_requests(self) -> None:
        """The role is left: answers to its requests are late from now on."""
        self._in_flight.clear()
        self._not_before.clear()

    def _forget_peer(self, peer: int) -> None:
        """Nothing is asked of it any more: its answer is late from now on."""
        self._in_flight.pop(peer, None)
        self._not_before.pop(peer, None)

    def _settle_request(self, peer: int, request: Message, retry_later: bool) -> bool:
        """Take note that `request` has its answer; whether that is the answer waited for."""
        waiting = self._in_flight.get(peer)
        if waiting is None or waiting[0] is not request:
            return False
        del self._in_flight[peer]
        if retry_later:
            self._not_before[peer] = self._now_ms + self._config.retry_backoff_ms
        else:
            self._not_before.pop(peer, None)
        return True

    # -- small things --------------------------------------------------------------------------

    @property
    def _log_end(self) -> tuple[int, int]:
        """(epoch of the last record, end offset): what logs are compared by. Empty is (0, 0)."""
        return self._last_epoch, self._end_offset

    @property
    def _acknowledged_log_end(self) -> tuple[int, int]:
        """What the log of a candidate must not be behind: ours, as we have told of it.

        A damaged end that was cut off counts until it is there again: a leader may have committed
        records because we said that we hold them.
        """
        return max(self._log_end, self._state.promised)

    def _may_stand(self) -> bool:
        """Whether this node could lead with the log that it has.

        Not while a snapshot takes the log's place (a leader never loads one, I28), nor while the
        log has batches that cannot be read, or lacks some that it had promised to hold.
        """
        return (
            self._installing is None and not self._damaged and self._state.promised <= self._log_end
        )

    @property
    def _majority(self) -> int:
        return self.voter_set.majority

    @property
    def _voters(self) -> tuple[int, ...]:
        return self.voter_set.ids

    @property
    def _others(self) -> tuple[int, ...]:
        """The voters but for this node, or for what it was before it lost its disk."""
        return tuple(voter for voter in self._voters if voter != self._node_id)
