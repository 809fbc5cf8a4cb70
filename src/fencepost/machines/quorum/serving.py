"""Serving what a leader has to those who fetch it: its log, and snapshots for what it dropped.

A fetch says where the reader's log ends: an offset and the epoch of the record below it. What comes
of it (KIP-595, KIP-630, KIP-1166), in the order in which it is decided; the log begins at S:

|   | the reader stands                                  | it hears of         | waits |
|---|----------------------------------------------------|---------------------|-------|
| a | at 0, and there is a snapshot other than the first | the newest snapshot | no    |
| b | at 0, as the log does                              | the log from 0      |       |
| c | below S                                            | the newest snapshot | no    |
| d | at S, and its epoch is not the oldest snapshot's   | the newest snapshot | no    |
| e | anywhere, its epoch below the oldest snapshot's    | the newest snapshot | no    |
| f | where its epoch has ended in our log, or never was | where the logs part | no    |
| g | in our log, and there is more                      | what follows        | no    |
| h | at its end, not knowing the high watermark         | the high watermark  | no    |
| i | at its end, and knows all                          | nothing             | yes   |

"The first" is the bootstrap snapshot 0-0: each leader writes what is in it to the log, so it is
never served. A fetch that waits is looked at anew when it is answered, by the same table. One that
must be told of a snapshot or of a divergence never waits, because no record would ever wake it
(KAFKA-15100).

A leader tells no high watermark (-1) until a record of its own epoch is committed. The one it knew
as a follower may be behind that of the reader, and Apache Kafka's followers stop when theirs falls.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Final, NamedTuple

from fencepost.log.divergence import find_divergence
from fencepost.log.epochs import EpochEndOffset
from fencepost.log.snapshots import BOOTSTRAP_ID, SnapshotId
from fencepost.machines.probes import probe
from fencepost.machines.quorum import inputs, messages
from fencepost.machines.quorum.config import MAX_OBSERVERS, MAX_PARKED_FETCHES
from fencepost.machines.quorum.roles import Leader, ParkedFetch, Progress, Role
from fencepost.machines.quorum.transitions import Transitions
from fencepost.machines.quorum.voters import ReplicaKey
from fencepost.wire.api import fetch
from fencepost.wire.api.fetch_snapshot import PartitionSnapshotRequest
from fencepost.wire.errors import ErrorCode


class Verdict(NamedTuple):
    """Where a reader's log leaves ours, (epoch, end offset); or what it must load; or neither."""

    diverging: tuple[int, int] | None = None
    snapshot_id: SnapshotId | None = None


SOUND: Final = Verdict()


class Serving(Transitions):
    """Handlers of Fetch and FetchSnapshot as a leader takes them."""

    @abstractmethod
    def _maybe_commit(self, leader: Leader) -> None:
        """Move the high watermark to what a majority holds."""

    # -- Fetch ---------------------------------------------------------------------------------

    def _step_fetch(self, input_: inputs.FetchReceived) -> None:
        self._serve_fetch(input_.token, input_.request)

    def _serve_fetch(self, token: Any, request: fetch.FetchRequest) -> None:
        """Answer by the table, or keep the fetch waiting."""
        if not self._is_our_cluster(request.cluster_id):
            self._refuse_whole(token, ErrorCode.INCONSISTENT_CLUSTER_ID)
            return
        asked = messages.fetch_request_of(request)
        if asked is None:
            self._refuse_whole(token, ErrorCode.INVALID_REQUEST)
            return
        replica_id = messages.replica_id_of(request)
        error = self._check_fetch(request, asked, replica_id)
        if error is not ErrorCode.NONE:
            self._reply_bounds(token, self._refusal(error))
            return
        leader = self._body
        assert isinstance(leader, Leader), "only a leader gets past the checks"
        verdict = self._judge(asked, self._can_load_snapshots(token))
        if verdict is SOUND:
            key = ReplicaKey(replica_id, asked.replica_directory_id)
            self._note_progress(leader, key, asked.fetch_offset)
            self._maybe_commit(leader)
        bounds = self._bounds(replica_id, asked, request.max_bytes, verdict)
        if (
            request.max_wait_ms == 0
            or self._has_news(asked, bounds)
            or len(leader.parked) >= MAX_PARKED_FETCHES
        ):
            self._reply_bounds(token, bounds)
            return
        # Who waits for longer than that takes its leader for dead; and it may have hung up.
        deadline = self._now_ms + min(request.max_wait_ms, self._config.fetch_timeout_ms)
        leader.parked.append(ParkedFetch(token, replica_id, asked, request.max_bytes, deadline))
        self._set_timer(
            inputs.FETCH_WAIT, min(deadline, self._deadlines.get(inputs.FETCH_WAIT, deadline))
        )

    def _refuse_whole(self, token: Any, error: ErrorCode) -> None:
        self._reply_bounds(token, inputs.FetchBounds(error, -1, -1, is_whole_request=True))

    def _check_fetch(
        self, request: fetch.FetchRequest, asked: fetch.FetchPartition, replica_id: int
    ) -> ErrorCode:
        """The error for a fetch, in Kafka's order, or NONE."""
        if (
            request.max_wait_ms < 0
            or asked.fetch_offset < 0
            or not 0 <= asked.last_fetched_epoch <= asked.current_leader_epoch
            or replica_id == self._node_id
        ):
            return ErrorCode.INVALID_REQUEST
        return self._check_leads(asked.current_leader_epoch)

    def _check_leads(self, epoch: int) -> ErrorCode:
        """The error for a request that only the leader of `epoch` may answer, or NONE."""
        if self.role is Role.FAILED:
            return ErrorCode.BROKER_NOT_AVAILABLE
        if epoch < self._state.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > self._state.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if self.role is Role.LEADER else ErrorCode.NOT_LEADER_OR_FOLLOWER

    # -- where the reader stands ---------------------------------------------------------------

    def _can_load_snapshots(self, token: Any) -> bool:
        """Whether whoever waits with this token can be sent to a snapshot."""
        return True

    def _judge(self, asked: fetch.FetchPartition, loads_snapshots: bool = True) -> Verdict:
        """Rows a to f of the table, or SOUND."""
        log = self._log
        latest = log.snapshots.latest()
        is_empty = asked.fetch_offset == 0 and loads_snapshots
        if is_empty and latest is not None and self._prefers_snapshot(latest):
            return Verdict(snapshot_id=latest)
        if asked.fetch_offset == 0 == log.start_offset:
            return SOUND
        reads_on = log.start_offset == 0 and not loads_snapshots
        if latest is not None and not reads_on and self._is_out_of_reach_of_log(asked):
            probe("quorum.fetch.snapshot")
            return Verdict(snapshot_id=latest)
        diverging = self._divergence(asked)
        return SOUND if diverging is None else Verdict(diverging)

    def _prefers_snapshot(self, latest: SnapshotId) -> bool:
        """Whether an empty log is better filled with a snapshot than with our log (row a)."""
        return latest != BOOTSTRAP_ID

    def _is_out_of_reach_of_log(self, asked: fetch.FetchPartition) -> bool:
        """Whether our log does not reach back to where the logs part (rows c to e)."""
        earliest = self._log.snapshots.earliest()
        start = self._log.start_offset
        assert earliest is not None, "there is a snapshot"
        return (
            asked.fetch_offset < start
            or (asked.fetch_offset == start and asked.last_fetched_epoch != earliest.epoch)
            or asked.last_fetched_epoch < earliest.epoch
        )

    def _divergence(self, asked: fetch.FetchPartition) -> EpochEndOffset | None:
        """Where the reader's log leaves ours, or None if it does not (row f)."""
        if not self._rules.reports_divergence():
            return None
        earliest = self._log.snapshots.earliest()
        return find_divergence(
            self._log.epochs,
            asked.last_fetched_epoch,
            asked.fetch_offset,
            EpochEndOffset(*self._log_end),
            None if earliest is None else EpochEndOffset(earliest.epoch, earliest.end_offset),
        )

    # -- whether to answer now -----------------------------------------------------------------

    def _bounds(
        self, replica_id: int, asked: fetch.FetchPartition, max_bytes: int, verdict: Verdict
    ) -> inputs.FetchBounds:
        offset = asked.fetch_offset
        return inputs.FetchBounds(
            error=ErrorCode.NONE,
            leader_id=self._node_id,
            leader_epoch=self._state.epoch,
            offset=offset,
            upper_bound_offset=self._readable_to(replica_id, offset)
            if verdict is SOUND
            else offset,
            high_watermark=self._told_high_watermark,
            log_start_offset=self._log.start_offset,
            max_bytes=min(max_bytes, self._config.fetch_max_bytes),
            diverging=verdict.diverging,
            snapshot_id=verdict.snapshot_id,
            leader_endpoint=self._leader_endpoint,
        )

    def _readable_to(self, replica_id: int, offset: int) -> int:
        """Replicas read up to the end of the log, anybody else up to the high watermark."""
        return self._end_offset if replica_id >= 0 else max(offset, self._high_watermark)

    @property
    def _told_high_watermark(self) -> int:
        """What readers are told of the high watermark; see the module docstring."""
        return self._high_watermark if self.is_active_leader else -1

    def _has_news(self, asked: fetch.FetchPartition, bounds: inputs.FetchBounds) -> bool:
        """Whether a fetch is answered at once."""
        return (
            bounds.upper_bound_offset > asked.fetch_offset
            or self._rules.must_answer_at_once(bounds.diverging, bounds.snapshot_id)
            or self._tells_high_watermark(asked, bounds)
        )

    def _tells_high_watermark(
        self, asked: fetch.FetchPartition, bounds: inputs.FetchBounds
    ) -> bool:
        """Whether the reader learns of a higher high watermark (KIP-1166)."""
        return bounds.high_watermark > asked.high_watermark

    def _answer_parked(self, leader: Leader) -> None:
        """Answer the parked fetches that have something to hear, or have waited long enough.

        There may be thousands, and every fetch is a step: they are looked at when there is news.
        """
        news = (
            self._end_offset,
            self._high_watermark,
            self._told_high_watermark,
            self._log.start_offset,
        )
        if news == leader.parked_news and self._now_ms < self._deadlines.get(
            inputs.FETCH_WAIT, self._now_ms
        ):
            return
        leader.parked_news = news
        still: list[ParkedFetch] = []
        for parked in leader.parked:
            if not self._may_have_news(parked):
                still.append(parked)
                continue
            verdict = self._judge(parked.asked, self._can_load_snapshots(parked.token))
            bounds = self._bounds(parked.replica_id, parked.asked, parked.max_bytes, verdict)
            self._reply_bounds(parked.token, bounds)
        leader.parked = still
        self._set_timer(inputs.FETCH_WAIT, min((p.deadline_ms for p in still), default=None))

    def _may_have_news(self, parked: ParkedFetch) -> bool:
        """Whether a fetch that waits is to be answered; a log that has moved on always has news."""
        offset = parked.asked.fetch_offset
        return (
            self._readable_to(parked.replica_id, offset) > offset
            or self._told_high_watermark > parked.asked.high_watermark
            or self._log.start_offset > offset
            or self._now_ms >= parked.deadline_ms
        )

    # -- who fetches ---------------------------------------------------------------------------

    def _note_progress(self, leader: Leader, key: ReplicaKey, offset: int) -> None:
        """A replica holds everything below `offset`, also if that is less than it once held."""
        progress = self._progress_of(leader, key)
        if progress is None:
            return
        if key.id in leader.followers and leader.followers[key.id] is progress:
            leader.unacknowledged.discard(key.id)  # it knows its leader, or it would not fetch
        if offset >= self._end_offset:
            progress.last_caught_up_ms = self._now_ms
        elif 0 <= progress.leader_end_offset <= offset:
            # It has now what there was at its fetch before.
            progress.last_caught_up_ms = max(progress.last_caught_up_ms, progress.last_fetch_ms)
        progress.key = key
        progress.end_offset = offset
        progress.last_fetch_ms = self._now_ms
        progress.leader_end_offset = self._end_offset

    def _progress_of(self, leader: Leader, key: ReplicaKey) -> Progress | None:
        """Where to keep what is known of this replica; None for something that is no replica.

        A voter's id with another directory is an observer: it is not the disk that was counted.
        """
        if key.id < 0:
            return None
        voter = self.voter_set.get(key.id)
        if voter is not None and self._rules.is_replica(voter, key):
            return leader.followers[key.id]
        if key not in leader.observers:
            if len(leader.observers) >= MAX_OBSERVERS:
                self._drop_silent_observers(leader)
            if len(leader.observers) >= MAX_OBSERVERS:
                return None
            leader.observers[key] = Progress(key)
        return leader.observers[key]

    def _drop_silent_observers(self, leader: Leader) -> None:
        oldest = self._now_ms - self._config.observer_session_ms
        for key in [key for key, p in leader.observers.items() if p.last_fetch_ms < oldest]:
            del leader.observers[key]

    # -- FetchSnapshot -------------------------------------------------------------------------

    def _step_fetch_snapshot(self, input_: inputs.FetchSnapshotReceived) -> None:
        """Errors in Kafka's order: 104, 42, 3, then as for any leader, 98, 99."""
        request = input_.request
        asked = messages.fetch_snapshot_request_of(request)
        if not self._is_our_cluster(request.cluster_id):
            error = ErrorCode.INCONSISTENT_CLUSTER_ID
            bounds = inputs.SnapshotBounds(error, -1, -1, is_whole_request=True)
        elif asked is None or request.max_bytes < 0:
            error = ErrorCode.INVALID_REQUEST
            bounds = inputs.SnapshotBounds(error, -1, -1, is_whole_request=True)
        elif (asked[0], asked[1].partition) != (messages.TOPIC, messages.PARTITION):
            bounds = inputs.SnapshotBounds(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                self.leader_id,
                self._state.epoch,
                unknown_partition=(asked[0], asked[1].partition),
                leader_endpoint=self._leader_endpoint,
            )
        else:
            bounds = self._snapshot_bounds(request.replica_id, asked[1], request.max_bytes)
        self._reply(input_.token, bounds)

    def _snapshot_bounds(
        self, replica_id: int, asked: PartitionSnapshotRequest, max_bytes: int
    ) -> inputs.SnapshotBounds:
        snapshot_id = SnapshotId(asked.snapshot_id.end_offset, asked.snapshot_id.epoch)
        size = self._log.snapshots.size_bytes(snapshot_id)
        error = self._check_leads(asked.current_leader_epoch)
        if error is ErrorCode.NONE:
            if size is None or snapshot_id == BOOTSTRAP_ID:
                error = ErrorCode.SNAPSHOT_NOT_FOUND
            elif not 0 <= asked.position < size:
                error = ErrorCode.POSITION_OUT_OF_RANGE
        if error is not ErrorCode.NONE or size is None:
            probe("quorum.snapshot.not_served")
            return inputs.SnapshotBounds(
                error, self.leader_id, self._state.epoch, leader_endpoint=self._leader_endpoint
            )
        self._note_snapshot_fetch(ReplicaKey(replica_id, asked.replica_directory_id))
        return inputs.SnapshotBounds(
            error,
            self._node_id,
            self._state.epoch,
            snapshot_id=snapshot_id,
            size_bytes=size,
            position_bytes=asked.position,
            max_bytes=min(max_bytes, self._config.fetch_snapshot_max_bytes),
            leader_endpoint=self._leader_endpoint,
        )

    def _note_snapshot_fetch(self, key: ReplicaKey) -> None:
        """A voter that loads a snapshot is alive, though it does not fetch meanwhile."""
        leader = self._body
        assert isinstance(leader, Leader), "only a leader gets past the checks"
        voter = self.voter_set.get(key.id)
        if voter is not None and key.id in leader.followers and self._rules.is_replica(voter, key):
            leader.unacknowledged.discard(key.id)
            leader.followers[key.id].last_snapshot_ms = self._now_ms
