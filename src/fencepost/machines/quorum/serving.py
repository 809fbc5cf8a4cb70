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
never served. A fetch that waits is looked at again when it is answered, by the same table. One that
must be told of a snapshot or of a divergence never waits, because no record would ever wake it
(KAFKA-15100).

A leader tells no high watermark (-1) until a record of its own epoch is committed. The one it knew
as a follower may be behind that of the reader, and Apache Kafka's followers stop when theirs falls.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from fencepost.log.divergence import find_divergence
from fencepost.log.epochs import EpochEndOffset
from fencepost.log.snapshots import BOOTSTRAP_ID, SnapshotId
from fencepost.machines.probes import probe
from fencepost.machines.quorum import inputs, messages
from fencepost.machines.quorum.config import MAX_PARKED_FETCHES
from fencepost.machines.quorum.node import QuorumNode
from fencepost.machines.quorum.part import Part
from fencepost.machines.quorum.replication import Replication
from fencepost.machines.quorum.roles import Leader, Role
from fencepost.machines.quorum.voters import ReplicaKey
from fencepost.machines.quorum.waiting_fetches import WaitingFetch
from fencepost.wire.api import fetch
from fencepost.wire.api.fetch_snapshot import PartitionSnapshotRequest
from fencepost.wire.errors import ErrorCode


class Verdict(Struct, frozen=True):
    """Where a reader's log leaves ours, (epoch, end offset); or what it must load; or neither."""

    diverging: tuple[int, int] | None = None
    snapshot_id: SnapshotId | None = None


SOUND: Final = Verdict()


class Serving(Part):
    """Handlers of Fetch and FetchSnapshot as a leader takes them."""

    def __init__(self, node: QuorumNode, replication: Replication) -> None:
        super().__init__(node)
        self._replication = replication

    # -- Fetch ---------------------------------------------------------------------------------

    def step_fetch(self, input_: inputs.FetchReceived) -> None:
        """Answer by the table, or keep the fetch waiting."""
        token, request = input_.token, input_.request
        if not self._node.is_our_cluster(request.cluster_id):
            self._refuse_whole(token, ErrorCode.INCONSISTENT_CLUSTER_ID)
            return
        asked = messages.fetch_request_of(request)
        if asked is None:
            self._refuse_whole(token, ErrorCode.INVALID_REQUEST)
            return
        replica_id = messages.replica_id_of(request)
        error = self._check_fetch(request, asked, replica_id)
        if error is not ErrorCode.NONE:
            self._outbox.reply(token, self._node.refused_fetch(error))
            return
        leader = self._node.role_state
        assert isinstance(leader, Leader), "only a leader gets past the checks"
        verdict = self._judge(asked, input_.loads_snapshots)
        if verdict is SOUND:
            key = ReplicaKey(replica_id, asked.replica_directory_id)
            self._replication.note_fetch(leader, key, asked.fetch_offset)
        bounds = self._bounds(replica_id, asked, request.max_bytes, verdict)
        if (
            request.max_wait_ms == 0
            or self._has_update(asked, bounds)
            or len(leader.fetches) >= MAX_PARKED_FETCHES
        ):
            self._outbox.reply(token, bounds)
            return
        # A follower that waits for longer takes its leader for dead; and it may have disconnected.
        deadline = self._timers.now_ms + min(request.max_wait_ms, self._config.fetch_timeout_ms)
        leader.fetches.add(
            WaitingFetch(
                token, replica_id, asked, request.max_bytes, deadline, input_.loads_snapshots
            )
        )
        self._timers.set(
            inputs.FETCH_WAIT,
            min(deadline, self._timers.deadlines.get(inputs.FETCH_WAIT, deadline)),
        )

    def _refuse_whole(self, token: Any, error: ErrorCode) -> None:
        self._outbox.reply(token, inputs.FetchBounds(error, -1, -1, is_whole_request=True))

    def _check_fetch(
        self, request: fetch.FetchRequest, asked: fetch.FetchPartition, replica_id: int
    ) -> ErrorCode:
        """The error for a fetch, in Kafka's order, or NONE."""
        if (
            request.max_wait_ms < 0
            or asked.fetch_offset < 0
            or not 0 <= asked.last_fetched_epoch <= asked.current_leader_epoch
            or replica_id == self._node.id
        ):
            return ErrorCode.INVALID_REQUEST
        return self._check_leads(asked.current_leader_epoch)

    def _check_leads(self, epoch: int) -> ErrorCode:
        """The error for a request that only the leader of `epoch` may answer, or NONE."""
        if self._node.role is Role.FAILED:
            return ErrorCode.BROKER_NOT_AVAILABLE
        if epoch < self._outbox.state.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > self._outbox.state.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return (
            ErrorCode.NONE if self._node.role is Role.LEADER else ErrorCode.NOT_LEADER_OR_FOLLOWER
        )

    # -- where the reader stands ---------------------------------------------------------------

    def _judge(self, asked: fetch.FetchPartition, loads_snapshots: bool = True) -> Verdict:
        """Rows a to f of the table, or SOUND."""
        log = self._log.view
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
        earliest = self._log.view.snapshots.earliest()
        start = self._log.view.start_offset
        assert earliest is not None, "there is a snapshot"
        return (
            asked.fetch_offset < start
            or (asked.fetch_offset == start and asked.last_fetched_epoch != earliest.epoch)
            or asked.last_fetched_epoch < earliest.epoch
        )

    def _divergence(self, asked: fetch.FetchPartition) -> EpochEndOffset | None:
        """Where the reader's log leaves ours, or None if it does not (row f)."""
        earliest = self._log.view.snapshots.earliest()
        return find_divergence(
            self._log.view.epochs,
            asked.last_fetched_epoch,
            asked.fetch_offset,
            EpochEndOffset(*self._log.end),
            None if earliest is None else EpochEndOffset(earliest.epoch, earliest.end_offset),
        )

    # -- whether to answer now -----------------------------------------------------------------

    def _bounds(
        self, replica_id: int, asked: fetch.FetchPartition, max_bytes: int, verdict: Verdict
    ) -> inputs.FetchBounds:
        offset = asked.fetch_offset
        return inputs.FetchBounds(
            error=ErrorCode.NONE,
            leader_id=self._node.id,
            leader_epoch=self._outbox.state.epoch,
            offset=offset,
            upper_bound_offset=self._readable_to(replica_id, offset)
            if verdict is SOUND
            else offset,
            high_watermark=self._told_high_watermark,
            log_start_offset=self._log.view.start_offset,
            max_bytes=min(max_bytes, self._config.fetch_max_bytes),
            diverging=verdict.diverging,
            snapshot_id=verdict.snapshot_id,
            leader_endpoint=self._node.leader_endpoint,
        )

    def _readable_to(self, replica_id: int, offset: int) -> int:
        """Replicas read up to the end of the log, clients up to the high watermark."""
        return self._log.end_offset if replica_id >= 0 else max(offset, self._log.high_watermark)

    @property
    def _told_high_watermark(self) -> int:
        """The high watermark that readers get; see the module docstring."""
        return self._log.high_watermark if self._node.is_active_leader else -1

    def _has_update(self, asked: fetch.FetchPartition, bounds: inputs.FetchBounds) -> bool:
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

    def answer_waiting(self, leader: Leader) -> None:
        """Answer the waiting fetches that have something to hear, or have waited long enough.

        There may be thousands, and every fetch is a step: they are looked at after an update.
        """
        seen = (
            self._log.end_offset,
            self._log.high_watermark,
            self._told_high_watermark,
            self._log.view.start_offset,
        )
        if seen == leader.fetches.seen and self._timers.now_ms < self._timers.deadlines.get(
            inputs.FETCH_WAIT, self._timers.now_ms
        ):
            return
        leader.fetches.seen = seen
        for waiting in leader.fetches.take_ready(self._may_have_update):
            verdict = self._judge(waiting.asked, waiting.loads_snapshots)
            bounds = self._bounds(waiting.replica_id, waiting.asked, waiting.max_bytes, verdict)
            self._outbox.reply(waiting.token, bounds)
        self._timers.set(inputs.FETCH_WAIT, leader.fetches.earliest_deadline_ms)

    def _may_have_update(self, waiting: WaitingFetch) -> bool:
        """Whether a fetch that waits is to be answered; a log that has moved on always is one."""
        offset = waiting.asked.fetch_offset
        return (
            self._readable_to(waiting.replica_id, offset) > offset
            or self._told_high_watermark > waiting.asked.high_watermark
            or self._log.view.start_offset > offset
            or self._timers.now_ms >= waiting.deadline_ms
        )

    # -- FetchSnapshot -------------------------------------------------------------------------

    def step_fetch_snapshot(self, input_: inputs.FetchSnapshotReceived) -> None:
        """Errors in Kafka's order: 104, 42, 3, then as for any leader, 98, 99."""
        request = input_.request
        asked = messages.fetch_snapshot_request_of(request)
        if not self._node.is_our_cluster(request.cluster_id):
            error = ErrorCode.INCONSISTENT_CLUSTER_ID
            bounds = inputs.SnapshotBounds(error, -1, -1, is_whole_request=True)
        elif asked is None or request.max_bytes < 0:
            error = ErrorCode.INVALID_REQUEST
            bounds = inputs.SnapshotBounds(error, -1, -1, is_whole_request=True)
        elif (asked[0], asked[1].partition) != (messages.TOPIC, messages.PARTITION):
            bounds = inputs.SnapshotBounds(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                self._node.leader_id,
                self._outbox.state.epoch,
                unknown_partition=(asked[0], asked[1].partition),
                leader_endpoint=self._node.leader_endpoint,
            )
        else:
            bounds = self._snapshot_bounds(request.replica_id, asked[1], request.max_bytes)
        self._outbox.reply(input_.token, bounds)

    def _snapshot_bounds(
        self, replica_id: int, asked: PartitionSnapshotRequest, max_bytes: int
    ) -> inputs.SnapshotBounds:
        snapshot_id = SnapshotId(asked.snapshot_id.end_offset, asked.snapshot_id.epoch)
        size = self._log.view.snapshots.size_bytes(snapshot_id)
        error = self._check_leads(asked.current_leader_epoch)
        if error is ErrorCode.NONE:
            if size is None or snapshot_id == BOOTSTRAP_ID:
                error = ErrorCode.SNAPSHOT_NOT_FOUND
            elif not 0 <= asked.position < size:
                error = ErrorCode.POSITION_OUT_OF_RANGE
        if error is not ErrorCode.NONE or size is None:
            probe("quorum.snapshot.not_served")
            return inputs.SnapshotBounds(
                error,
                self._node.leader_id,
                self._outbox.state.epoch,
                leader_endpoint=self._node.leader_endpoint,
            )
        leader = self._node.role_state
        assert isinstance(leader, Leader), "only a leader gets past the checks"
        key = ReplicaKey(replica_id, asked.replica_directory_id)
        self._replication.note_snapshot_fetch(leader, key)
        return inputs.SnapshotBounds(
            error,
            self._node.id,
            self._outbox.state.epoch,
            snapshot_id=snapshot_id,
            size_bytes=size,
            position_bytes=asked.position,
            max_bytes=min(max_bytes, self._config.fetch_snapshot_max_bytes),
            leader_endpoint=self._node.leader_endpoint,
        )
