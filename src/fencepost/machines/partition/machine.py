"""One partition's replica: leader or follower, as the cluster's metadata says.

Theory of operation
-------------------
`step` takes an input and returns effects; the driver carries them out. What it decides:

* whether a client's batch enters the log (leadership, `min.insync.replicas`, the producer's epoch
  and sequence), and when it is acknowledged;
* how far consumers may read (the high watermark), and which replicas are in sync (`isr`);
* as a follower, what of its leader's answers is appended and where a diverged log is cut.

A position counts only when it is durable, the leader's own too: the high watermark never passes
`Persisted`. So a record is shown to consumers, or acknowledged with acks=all, only when every
in-sync replica has it on stable storage; acks=1 is answered when the leader has. Without other
replicas both are one, so what is acknowledged may be read. Kafka counts the page cache; a shell
that wants that feeds `Persisted` at once. acks=0 is done when the batch is in the log.

Invariants, kept by assertions: the high watermark never falls within a leader epoch, lies within
the log, and never above our own durable end while we lead; metadata of an older leader epoch change
nothing; a new leader notes (its epoch, the log's end) in the epoch cache before it takes a batch
(KAFKA-7415), so that every stretch of the log has a name even if nothing was written under it.

A leader that leads no longer answers whoever waits with NOT_LEADER_OR_FOLLOWER; one whose in-sync
set falls below the minimum answers NOT_ENOUGH_REPLICAS_AFTER_APPEND at once to acks=all (Kafka lets
those requests run into their timeouts, since the high watermark stands still). Two things end a
replica: whoever waits hears why, and so does everybody after them.

| end                                  | answer                     |
|--------------------------------------|----------------------------|
| its disk has failed                  | KAFKA_STORAGE_ERROR        |
| the partition was deleted            | UNKNOWN_TOPIC_OR_PARTITION |
| other brokers are assigned to it now | NOT_LEADER_OR_FOLLOWER     |

It must not know: sockets, files, clocks, how batches are encoded, who its clients are.

Timers: "produce" (see `waiting`), "isr" (look for followers that fell behind), "alter-partition"
(ask the controller again), "delete-records" (see `deletions`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fencepost.machines.effects import (
    CONTROLLER,
    DiskFailed,
    DropPrefix,
    Effect,
    Fail,
    Persist,
    Persisted,
    Reply,
    Send,
    SetTimer,
    TimerFired,
)
from fencepost.machines.partition.appending import ISR_TIMER, AppendingPartition
from fencepost.machines.partition.deletions import DELETIONS_TIMER, WaitingDeletions
from fencepost.machines.partition.inputs import (
    AdvanceLogStart,
    AlterPartition,
    AlterPartitionAnswered,
    BecomeFollower,
    BecomeLeader,
    BrokersChanged,
    ConfigChanged,
    CoordinatorAppend,
    DeleteRecordsResult,
    Diverged,
    Fetched,
    FetchedOutOfRange,
    FollowerFetched,
    FollowerSeen,
    PartitionConfig,
    Produce,
    ProduceBlock,
    ProduceGroup,
    StartVerification,
    StopReplica,
    WriteMarker,
)
from fencepost.machines.partition.isr import IsrChanges, LeaderState
from fencepost.machines.partition.queries import ANY_LEADER_EPOCH, LogView
from fencepost.machines.partition.rules import RULES, PartitionRules
from fencepost.machines.partition.waiting import TIMER as PRODUCE_TIMER
from fencepost.wire.errors import ErrorCode

ALTER_PARTITION_TIMER: Final = "alter-partition"

_NO_ERROR: Final = ErrorCode.NONE
# Inputs that are answered, if only with an error, also by a replica that has ended.
_ANSWERED_TO_THE_END: Final = (
    Produce,
    ProduceGroup,
    ProduceBlock,
    StartVerification,
    WriteMarker,
    CoordinatorAppend,
    AdvanceLogStart,
)
# Answers that say our metadata of the partition are out of date: newer ones are on their way, until
# then the proposal counts as possibly accepted.
_WAIT_FOR_METADATA: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)


class Partition(AppendingPartition):
    """The machine; see the module. Questions that change nothing are in `PartitionQueries`, what it
    does with its leader's answers in `FollowingPartition`, what it appends as leader in
    `AppendingPartition`."""

    def __init__(
        self,
        local_id: int,
        log: LogView,
        *,
        high_watermark: int = 0,
        durable_offset: int = 0,
        config: PartitionConfig | None = None,
        rules: PartitionRules = RULES,
    ) -> None:
        """`high_watermark` as checkpointed; what lies below `durable_offset` is on stable storage.

        A replica begins as the follower of nobody, whatever it was before.
        """
        super().__init__(
            local_id,
            log,
            high_watermark=high_watermark,
            durable_offset=durable_offset,
            config=config or PartitionConfig(),
            rules=rules,
        )
        self._deletions = WaitingDeletions()  # for the low watermark
        self.isr_changes = IsrChanges()
        """Only grows, through all leader epochs."""

    def step(self, input_: Any, now_ms: int, wall_ms: int) -> list[Effect]:
        """Take one input. A replica that has ended only refuses.

        `wall_ms` is the time of appends with LogAppendTime; everything else goes by `now_ms`.
        """
        self._wall_ms = wall_ms
        if self._closed is not None and type(input_) not in _ANSWERED_TO_THE_END:
            return []
        effects: list[Effect] = getattr(self, _STEPS[type(input_)])(input_, now_ms)
        return effects

    def replace_log(self, log: LogView) -> None:
        """A copy of the log takes its place, which ends where it does and is durable so far."""
        assert log.end_offset == self._log.end_offset, "nothing is lost or won by a copy"
        self._log = log

    # Leading: the in-sync set

    def _step_follower_fetched(self, fetch: FollowerFetched, now_ms: int) -> list[Effect]:
        leader = self._leader_state
        if leader is None:
            return []
        if (
            fetch.leader_epoch > ANY_LEADER_EPOCH
            and fetch.leader_epoch != self.leader_epoch
            and self._check_other_epoch(fetch.leader_epoch) is not None
        ):
            return []
        follower = leader.followers.get(fetch.replica_id)
        log_end = self._log.end_offset
        if follower is None or fetch.fetch_offset > log_end:
            return []
        if leader.is_of_former_incarnation(fetch.replica_id, fetch.broker_epoch):
            return []
        has_come_further = follower.offset != fetch.fetch_offset
        follower.fetched(fetch, log_end, now_ms)
        effects: list[Effect] = []
        expansion = leader.propose_expansion(
            fetch.replica_id, self.high_watermark, log_end, self.config, now_ms
        )
        self._ask(expansion, effects, now_ms)
        if has_come_further:
            self._maybe_advance(effects, now_ms)
        if fetch.fetch_offset < log_end:
            self._maybe_watch_followers(effects, now_ms)
        if self._deletions:
            self._release_deletions(effects)
        return effects

    def _step_follower_seen(self, seen: FollowerSeen, now_ms: int) -> list[Effect]:
        leader = self._leader_state
        follower = leader.followers.get(seen.replica_id) if leader is not None else None
        if follower is not None and follower.broker_epoch == seen.broker_epoch:
            follower.seen(seen.at_ms)
        return []

    def _ask(self, proposal: AlterPartition | None, effects: list[Effect], now_ms: int) -> None:
        if proposal is not None:
            effects.append(Send(CONTROLLER, proposal))
            retry_ms = now_ms + self.config.alter_partition_retry_ms
            effects.append(SetTimer(ALTER_PARTITION_TIMER, retry_ms))

    def _step_alter_partition_answered(
        self, answer: AlterPartitionAnswered, now_ms: int
    ) -> list[Effect]:
        leader = self._leader_state
        if leader is None or leader.pending is None:
            return []
        if answer.asked is not None and answer.asked != leader.pending:
            return []
        effects: list[Effect] = []
        if answer.error_code == ErrorCode.NONE:
            # Another epoch's answer says nothing about this one; metadata will.
            if answer.leader_epoch != self.leader_epoch or (
                answer.partition_epoch < leader.partition_epoch
            ):
                return []
            before = leader.isr
            leader.commit(answer.isr, answer.partition_epoch)
            self.isr_changes.note(before, leader.isr)
            effects.append(SetTimer(ALTER_PARTITION_TIMER, None))
            self._in_sync_set_changed(effects, now_ms)
            return effects
        self.isr_changes.failures += 1
        if self._rules.is_undone(answer.error_code):
            leader.pending = None
            effects.append(SetTimer(ALTER_PARTITION_TIMER, None))
            self._maybe_advance(effects, now_ms)
        elif answer.error_code in _WAIT_FOR_METADATA:
            effects.append(SetTimer(ALTER_PARTITION_TIMER, None))
        return effects  # anything else passes: the timer asks again

    def _in_sync_set_changed(self, effects: list[Effect], now_ms: int) -> None:
        assert self._leader_state is not None
        if self._leader_state.is_under_min_isr(self.config):
            self._waiting.refuse_all(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, effects)
        else:
            self._maybe_advance(effects, now_ms)
        self._maybe_watch_followers(effects, now_ms)

    def _maybe_watch_followers(self, effects: list[Effect], now_ms: int) -> None:
        """Look after followers at half the time they may lag, while one that counts has not all.

        Who is at the end is in sync for as long as the log does not grow, so partitions that
        nobody writes to cost nothing; who appends watches again.
        """
        leader = self._leader_state
        if leader is not None and self._isr_check_due_ms is None:
            lag_max_ms = self.config.replica_lag_time_max_ms
            if leader.is_behind(self._log.end_offset, lag_max_ms, now_ms):
                self._watch_followers(effects, now_ms)

    def _step_timer(self, fired: TimerFired, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        leader = self._leader_state
        if fired.name == PRODUCE_TIMER:
            log_end = self._log.end_offset
            followers_end = leader and leader.least_position(log_end, log_end, self.config, now_ms)
            self._waiting.expire(now_ms, followers_end or 0, effects)
            return effects
        if fired.name == ISR_TIMER:
            due_ms, self._isr_check_due_ms = self._isr_check_due_ms, None
            if leader is not None:
                # A process that was stopped, or too busy to look, could not be asked either: what
                # its followers have sent meanwhile is still to be read.
                leader.forgive(max(0, now_ms - (now_ms if due_ms is None else due_ms)))
                shrink = leader.propose_shrink(self._log.end_offset, self.config, now_ms)
                self._ask(shrink, effects, now_ms)
                # A replica that fell behind before it was added is not waited for any more.
                self._maybe_advance(effects, now_ms)
                self._maybe_watch_followers(effects, now_ms)
        elif fired.name == ALTER_PARTITION_TIMER and leader is not None:
            self._ask(leader.pending, effects, now_ms)
        elif fired.name == DELETIONS_TIMER and leader is not None:
            low_watermark = leader.low_watermark(self._log.start_offset)
            self._deletions.expire(low_watermark, now_ms, effects)
        return effects

    def _step_brokers_changed(self, change: BrokersChanged, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        if self._leader_state is not None:
            self._leader_state.brokers_changed(change.eligible)
            if self._rules.advances_by_metadata():
                self._maybe_advance(effects, now_ms)
            self._release_deletions(effects)
        return effects

    def _step_config_changed(self, change: ConfigChanged, now_ms: int) -> list[Effect]:
        self.config = change.config
        effects: list[Effect] = []
        if self._leader_state is not None:
            self._in_sync_set_changed(effects, now_ms)
        return effects

    # Roles

    def _step_become_leader(self, metadata: BecomeLeader, now_ms: int) -> list[Effect]:
        if metadata.leader_epoch < self.leader_epoch:
            return []
        assert self._local_id in metadata.replicas, (self._local_id, metadata.replicas)
        effects: list[Effect] = []
        if self._leader_state is not None and metadata.leader_epoch == self.leader_epoch:
            before = self._leader_state.isr
            if self._leader_state.follow(metadata, now_ms):
                self.isr_changes.note(before, self._leader_state.isr)
                if self._leader_state.pending is None:
                    effects.append(SetTimer(ALTER_PARTITION_TIMER, None))
                if self._rules.advances_by_metadata():
                    self._in_sync_set_changed(effects, now_ms)
                self._release_deletions(effects)
            return effects
        if self._leader_state is not None:
            self._stop_leading(effects)
        epoch_start_offset = self._log.end_offset
        self._log.epochs.assign(metadata.leader_epoch, epoch_start_offset)
        self.leader_epoch = metadata.leader_epoch
        self.leader_id = self._local_id
        self._leader_state = LeaderState(
            self._local_id, metadata, epoch_start_offset, now_ms, self._rules
        )
        self._in_sync_set_changed(effects, now_ms)
        return effects

    def _step_become_follower(self, metadata: BecomeFollower, now_ms: int) -> list[Effect]:
        if metadata.leader_epoch < self.leader_epoch:
            return []
        assert metadata.leader_id != self._local_id
        effects: list[Effect] = []
        if self._leader_state is not None:
            # The controller changes the leader with the epoch, never within one.
            assert metadata.leader_epoch > self.leader_epoch or metadata.leader_id < 0, metadata
            self._stop_leading(effects)
        self.leader_epoch = metadata.leader_epoch
        self.leader_id = metadata.leader_id
        return effects

    def _stop_leading(self, effects: list[Effect]) -> None:
        self._leader_state = None
        self._transactions.forget()
        self._refuse_waiting(ErrorCode.NOT_LEADER_OR_FOLLOWER, effects)
        effects.append(SetTimer(ALTER_PARTITION_TIMER, None))

    # The start of the log

    def _step_advance_log_start(self, wanted: AdvanceLogStart, now_ms: int) -> list[Effect]:
        offset, token, deadline_ms = wanted
        error = None
        if token is not None:
            error = self._check_asker(ANY_LEADER_EPOCH, True)
            offset = self.high_watermark if offset == -1 else offset
        elif self._closed is not None:
            return []
        if error is None and not 0 <= offset <= self.high_watermark:
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        if error is not None:
            return [] if token is None else [Reply(token, DeleteRecordsResult(error))]
        # Also where it starts there already: files may be left of what was deleted before.
        start_offset = max(offset, self._log.start_offset)
        effects: list[Effect] = [Persist(DropPrefix(start_offset))]
        if token is not None:
            assert self._leader_state is not None, "only leaders are asked"
            low_watermark = self._leader_state.low_watermark(start_offset)
            if low_watermark >= offset:
                effects.append(Reply(token, DeleteRecordsResult(_NO_ERROR, low_watermark)))
            elif deadline_ms <= now_ms or self._deletions.is_full:
                timed_out = DeleteRecordsResult(ErrorCode.REQUEST_TIMED_OUT, low_watermark)
                effects.append(Reply(token, timed_out))
            else:
                self._deletions.add(offset, deadline_ms, token, effects)
        return effects

    def _release_deletions(self, effects: list[Effect]) -> None:
        if self._deletions and self._leader_state is not None:
            self._deletions.release(
                self._leader_state.low_watermark(self._log.start_offset), effects
            )

    # The end of the replica

    def _step_stop_replica(self, stop: StopReplica, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        self._close(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if stop.is_deleted
            else ErrorCode.NOT_LEADER_OR_FOLLOWER,
            effects,
        )
        return effects

    def _step_disk_failed(self, failure: DiskFailed, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        for dropped in failure.dropped:
            if type(dropped) is Reply:  # acks=0, a coordinator's batch, or a start that was to move
                error = type(dropped.value)(ErrorCode.KAFKA_STORAGE_ERROR)
                effects.append(Reply(dropped.token, error))
        self._close(ErrorCode.KAFKA_STORAGE_ERROR, effects)
        effects.append(Fail(failure.reason))
        return effects

    def _close(self, error: ErrorCode, effects: list[Effect]) -> None:
        self._closed = error
        self._leader_state = None
        self._refuse_waiting(error, effects)

    def _refuse_waiting(self, error: ErrorCode, effects: list[Effect]) -> None:
        self._waiting_for_disk.refuse_all(error, effects)
        self._waiting.refuse_all(error, effects)
        self._deletions.refuse_all(error, effects)


_STEPS: Final[Mapping[type, str]] = {
    Produce: "_step_produce",
    ProduceGroup: "_step_produce_group",
    ProduceBlock: "_step_produce_block",
    StartVerification: "_step_start_verification",
    WriteMarker: "_step_write_marker",
    CoordinatorAppend: "_step_coordinator_append",
    Persisted: "_step_persisted",
    FollowerFetched: "_step_follower_fetched",
    FollowerSeen: "_step_follower_seen",
    AdvanceLogStart: "_step_advance_log_start",
    StopReplica: "_step_stop_replica",
    TimerFired: "_step_timer",
    BecomeLeader: "_step_become_leader",
    BecomeFollower: "_step_become_follower",
    BrokersChanged: "_step_brokers_changed",
    AlterPartitionAnswered: "_step_alter_partition_answered",
    ConfigChanged: "_step_config_changed",
    Fetched: "_step_fetched",
    Diverged: "_step_diverged",
    FetchedOutOfRange: "_step_out_of_range",
    DiskFailed: "_step_disk_failed",
}
"""Which method takes each input; one table for all partitions, of which a broker has thousands."""
