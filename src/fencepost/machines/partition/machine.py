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

A leader that leads no longer answers every request that waits with NOT_LEADER_OR_FOLLOWER. One
whose in-sync set falls below the minimum answers NOT_ENOUGH_REPLICAS_AFTER_APPEND at once to
acks=all; Kafka lets those requests run into their timeouts, since the high watermark does not
advance. When a replica ends, all requests that wait are answered with the reason, and so are all
that follow:

| end                                  | answer                     |
|--------------------------------------|----------------------------|
| its disk has failed                  | KAFKA_STORAGE_ERROR        |
| the partition was deleted            | UNKNOWN_TOPIC_OR_PARTITION |
| other brokers are assigned to it now | NOT_LEADER_OR_FOLLOWER     |

It must not know: sockets, files, clocks, how batches are encoded, who its clients are.

What it is composed of
----------------------
`Partition` takes each input to the part that it belongs to. Its own fields are what all parts share
(`PartitionQueries`: the log, the leader epoch, the high watermark, a leader's `LeaderState`), and
what questions are answered from. Every effect leaves through one outbox.

| part            | what it decides                              | what it holds                   |
|-----------------|----------------------------------------------|---------------------------------|
| `appending`     | which batches enter the leader's log         | tickets of transactions         |
| `acknowledging` | when they are acknowledged, and may be read  | the Produce requests that wait  |
| `in_sync`       | which followers are in sync                  | when followers are looked at    |
| `log_start`     | where the log starts                         | the DeleteRecords that wait     |
| `following`     | what a follower makes of its leader's answer | nothing                         |
| `roles`         | who leads, and when the replica ends         | nothing                         |

Timers: "produce" (see `waiting`), "isr" (look for followers that fell behind), "alter-partition"
(ask the controller again), "delete-records" (see `log_start`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final

from fencepost.machines.effects import (
    DiskFailed,
    Effect,
    Persisted,
    TimerFired,
    TruncatedBelow,
)
from fencepost.machines.outbox import StepOutbox
from fencepost.machines.partition.acknowledging import Acknowledging
from fencepost.machines.partition.appending import Appending
from fencepost.machines.partition.following import Following
from fencepost.machines.partition.in_sync import ALTER_PARTITION_TIMER, ISR_TIMER, InSync
from fencepost.machines.partition.inputs import (
    AdvanceLogStart,
    AlterPartitionAnswered,
    BecomeFollower,
    BecomeLeader,
    BrokersChanged,
    ConfigChanged,
    CoordinatorAppend,
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
from fencepost.machines.partition.log_start import DELETIONS_TIMER, LogStart
from fencepost.machines.partition.queries import LogView, PartitionQueries
from fencepost.machines.partition.roles import ReplicaRoles
from fencepost.machines.partition.rules import RULES, PartitionRules
from fencepost.machines.partition.waiting import TIMER as PRODUCE_TIMER

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


class Partition(PartitionQueries):
    """The machine; see the module. The parts are to be looked at, not to be called."""

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

        A replica begins as a follower without a leader, whatever it was before.
        """
        super().__init__(
            local_id,
            log,
            high_watermark=high_watermark,
            durable_offset=durable_offset,
            config=config or PartitionConfig(),
            rules=rules,
        )
        self.outbox = outbox = StepOutbox()
        self.acknowledging = acknowledging = Acknowledging(self, outbox)
        self.log_start = log_start = LogStart(self, outbox)
        self.in_sync = in_sync = InSync(self, outbox, acknowledging, log_start)
        self.appending = appending = Appending(self, outbox, acknowledging, in_sync)
        self.following = Following(self, outbox)
        self.roles = ReplicaRoles(self, outbox, acknowledging, log_start, in_sync, appending)

    def step(self, input_: Any, now_ms: int, wall_ms: int) -> list[Effect]:
        """Take one input. A replica that has ended only refuses.

        `wall_ms` is the time of appends with LogAppendTime; everything else goes by `now_ms`.
        """
        self.wall_ms = wall_ms
        kind = type(input_)
        if self.closed is not None and kind not in _ANSWERED_TO_THE_END:
            return []
        _HANDLERS[kind](self, input_, now_ms)
        return self.outbox.take()

    def _step_timer(self, fired: TimerFired, now_ms: int) -> None:
        _TIMERS[fired.name](self, now_ms)

    def replace_log(self, log: LogView) -> None:
        """A copy of the log takes its place, which ends where it does and is durable so far."""
        assert log.end_offset == self.log.end_offset, "nothing is lost or won by a copy"
        self.log = log

    def canonical(self) -> Hashable:
        """What this replica's future depends on, without its log; see `machines.canonical`."""
        from fencepost.machines.canonical import canonical  # searches alone need it

        return canonical(self)

    # What others may ask of the parts

    @property
    def waiting_produces(self) -> int:
        """How many batches wait to be acknowledged."""
        return len(self.acknowledging.for_all) + len(self.acknowledging.for_disk)

    def is_in_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether we lead, and the next batch of the producer's transaction needs no ticket."""
        if self.leader_state is None:
            return False
        return self.appending.transactions.is_in_one(
            self.log.producers, producer_id, producer_epoch
        )


_Handler = Callable[[Partition, Any, int], None]

_HANDLERS: Final[Mapping[type[Any], _Handler]] = {
    Produce: lambda one, given, now_ms: one.appending.step_produce(given, now_ms),
    ProduceGroup: lambda one, given, now_ms: one.appending.step_produce_group(given, now_ms),
    ProduceBlock: lambda one, given, now_ms: one.appending.step_produce_block(given, now_ms),
    StartVerification: lambda one, given, now_ms: one.appending.step_start_verification(
        given, now_ms
    ),
    WriteMarker: lambda one, given, now_ms: one.appending.step_write_marker(given, now_ms),
    CoordinatorAppend: lambda one, given, now_ms: one.appending.step_coordinator_append(
        given, now_ms
    ),
    Persisted: lambda one, given, now_ms: one.acknowledging.step_persisted(given, now_ms),
    FollowerFetched: lambda one, given, now_ms: one.in_sync.step_follower_fetched(given, now_ms),
    FollowerSeen: lambda one, given, now_ms: one.in_sync.step_follower_seen(given, now_ms),
    AlterPartitionAnswered: lambda one, given, now_ms: one.in_sync.step_answered(given, now_ms),
    BrokersChanged: lambda one, given, now_ms: one.in_sync.step_brokers_changed(given, now_ms),
    ConfigChanged: lambda one, given, now_ms: one.in_sync.step_config_changed(given, now_ms),
    AdvanceLogStart: lambda one, given, now_ms: one.log_start.step_advance(given, now_ms),
    Fetched: lambda one, given, now_ms: one.following.step_fetched(given, now_ms),
    Diverged: lambda one, given, now_ms: one.following.step_diverged(given, now_ms),
    FetchedOutOfRange: lambda one, given, now_ms: one.following.step_out_of_range(given, now_ms),
    TruncatedBelow: lambda one, given, now_ms: one.following.step_truncated_below(given, now_ms),
    BecomeLeader: lambda one, given, now_ms: one.roles.step_become_leader(given, now_ms),
    BecomeFollower: lambda one, given, now_ms: one.roles.step_become_follower(given, now_ms),
    StopReplica: lambda one, given, now_ms: one.roles.step_stop(given, now_ms),
    DiskFailed: lambda one, given, now_ms: one.roles.step_disk_failed(given, now_ms),
    TimerFired: Partition._step_timer,
}
"""The part that takes each kind of input."""

_TIMERS: Final[Mapping[str, Callable[[Partition, int], None]]] = {
    PRODUCE_TIMER: lambda one, now_ms: one.acknowledging.step_deadline(now_ms),
    ISR_TIMER: lambda one, now_ms: one.in_sync.step_check_due(now_ms),
    ALTER_PARTITION_TIMER: lambda one, now_ms: one.in_sync.step_retry_due(now_ms),
    DELETIONS_TIMER: lambda one, now_ms: one.log_start.step_deadline(now_ms),
}
"""The part whose timer it is."""
