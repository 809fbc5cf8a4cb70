"""Between the nodes and the checks: what ports report goes to the oracle and to every check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec

from fencepost.machines.effects import Buffer
from fencepost.machines.image import RECOVERING, ClusterImage, ImageDelta, diff
from fencepost.sim.checks import Check, load_checks
from fencepost.sim.cleaned_batches import LogLook
from fencepost.sim.committed_images import CommittedImages
from fencepost.sim.group_oracle import (
    AssignmentTold,
    HoldingTold,
)
from fencepost.sim.oracle import DiskTruth, Entry, NodeView, Oracle, entry_of
from fencepost.sim.partition_oracle import (
    BrokerBegun,
    PartitionBatch,
    PartitionKey,
    Passed,
    ReplicaView,
    Stage,
)
from fencepost.sim.permission_oracle import PermissionTold
from fencepost.sim.share_oracle import Delivered, Letters
from fencepost.sim.trace import Trace

P = ParamSpec("P")


def _told_to_checks(
    event: Callable[Concatenate[Check, Oracle, P], None],
) -> Callable[Concatenate[Observer, P], None]:
    """The method of an observer for an event that is for the checks alone; see `Check` for it."""

    def tell(self: Observer, /, *args: P.args, **kwargs: P.kwargs) -> None:
        self._tell(event, *args, **kwargs)

    return tell


class Observer:
    """Tells every check of everything, in the order in which it happens."""

    def __init__(self, trace: Trace, *, has_brokers: bool = False) -> None:
        """With `has_brokers` the checks hear of partitions and brokers in committed images."""
        self.oracle = Oracle()
        self._trace = trace
        self._has_brokers = has_brokers
        self._committed = CommittedImages()
        self.checks = load_checks()
        self._hear: dict[str, list[Callable[..., None]]] = {}

    def _tell(
        self,
        event: Callable[Concatenate[Check, Oracle, P], None],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        """Have the checks hear of an event, a method of `Check`: those that override it."""
        name = event.__name__
        if name not in self._hear:
            own = [check for check in self.checks if getattr(type(check), name) is not event]
            self._hear[name] = [getattr(check, name) for check in own]
        for hear in self._hear[name]:
            hear(self.oracle, *args, **kwargs)

    @property
    def committed_image(self) -> ClusterImage:
        """The newest that a node has had, in a world with brokers."""
        return self._committed.newest

    def stepped(self, view: NodeView) -> None:
        """A node looks different from before."""
        self._trace.note(
            f"{view.node_id} {view.role} {view.epoch} {view.leader_id} {view.voted_id}"
            f" {view.high_watermark} {view.end_offset}"
        )
        self._tell(Check.stepped, view)
        self.oracle.views[view.node_id] = view
        self.oracle.last_voters[view.node_id] = view.voters

    def state_written(self, node_id: int, state: Any) -> None:
        """A quorum state is on disk."""
        self._tell(Check.state_written, node_id, state)
        self.oracle.acknowledged_end_written(node_id, state.acknowledged_end)

    def state_read(self, node_id: int, state: Any) -> None:
        """A node boots and finds this quorum state."""
        self._tell(Check.state_read, node_id, state)
        self.oracle.acknowledged_end_written(node_id, state.acknowledged_end)

    def metadata_appended(self, node_id: int, data: Buffer) -> None:
        """A batch of a node's metadata log is in the page cache."""
        entry = entry_of(data)
        self.oracle.appended(node_id, entry)
        if self._has_brokers:
            self._committed.appended(entry, data)

    def image_moved(self, node_id: int, image: Any) -> None:
        """A node has a new image."""
        self._tell(Check.image_moved, node_id, image)
        before = self.committed_image
        if not self._has_brokers or image.offset <= before.offset:
            return
        entries = self.oracle.disks[node_id].between(before.offset + 1, image.offset)
        for committed in self._committed.advance(image, entries):
            self._cluster_changed(diff(before, committed), committed)
            before = committed

    def _cluster_changed(self, delta: ImageDelta, image: ClusterImage) -> None:
        """A batch is committed that no node has known to be committed before."""
        for broker_id, _, broker in delta.brokers:
            self._tell(Check.broker_changed, broker_id, broker)
        for change in delta.partitions:
            key, new = (change.topic_id, change.index), change.new
            is_led_anew = new is not None and change.is_new_leader_epoch
            if new is not None and is_led_anew and new.leader_recovery_state == RECOVERING:
                self.oracle.partitions.leader_recovers(key, new.leader)
            self._tell(Check.partition_changed, image, change)

    def recovered(self, node_id: int, found: list[Entry], start_offset: int) -> None:
        """A node has opened its log."""
        self._tell(Check.recovered, node_id, found, start_offset)
        self.oracle.opened(node_id, found, start_offset)

    def put_back(self, node_id: int, known: DiskTruth) -> None:
        """A node's disk is as it was when this was known of it."""
        self._tell(Check.put_back, node_id)
        self.oracle.put_back(node_id, known)

    vote_told = _told_to_checks(Check.vote_told)
    cutting = _told_to_checks(Check.cutting)
    snapshot_loaded = _told_to_checks(Check.snapshot_loaded)
    snapshot_there = _told_to_checks(Check.snapshot_there)
    log_starts = _told_to_checks(Check.log_starts)
    told_committed = _told_to_checks(Check.told_committed)

    # -- partitions ----------------------------------------------------------------------------

    def broker_begun(self, begun: BrokerBegun, metadata_offset: int) -> None:
        """A broker has come one stage further."""
        self._tell(Check.broker_begun, begun, metadata_offset)
        if begun.stage is Stage.STARTS:
            self.oracle.partitions.closed_in_order.discard(begun.broker_id)

    def replica_recovered(
        self, broker_id: int, key: PartitionKey, found: list[PartitionBatch], start_offset: int
    ) -> None:
        """A broker has opened a replica's log."""
        found = self.oracle.partitions.cleaned(key).log_as_written(start_offset, found)
        self._tell(Check.replica_recovered, broker_id, key, found, start_offset)
        self.oracle.partitions.log(broker_id, key).opened(found, start_offset)

    def replica_appended(self, broker_id: int, key: PartitionKey, batch: PartitionBatch) -> None:
        """A batch of a replica is in the page cache."""
        log = self.oracle.partitions.log(broker_id, key)
        cleaned = self.oracle.partitions.cleaned(key)
        for written in cleaned.log_as_written(log.end_offset, [batch]):
            self._tell(Check.replica_appended, broker_id, key, written)
            log.entries.append(written)

    def replica_cleaned(
        self,
        broker_id: int,
        key: PartitionKey,
        before: LogLook[PartitionBatch],
        after: LogLook[PartitionBatch],
    ) -> None:
        """A replica's log was compacted."""
        self._tell(Check.replica_cleaned, broker_id, key, before, after)
        self.oracle.partitions.cleaned(key).note(before, after)

    replica_cutting = _told_to_checks(Check.replica_cutting)

    def replica_starts(self, broker_id: int, key: PartitionKey, start_offset: int) -> None:
        """A replica's log begins there now."""
        self._tell(Check.replica_starts, broker_id, key, start_offset)
        self.oracle.partitions.log(broker_id, key).dropped_prefix(start_offset)

    def replica_stepped(self, view: ReplicaView) -> None:
        """A replica looks different from before."""
        self._trace.note(
            f"{view.broker_id} {view.key[1]} {view.is_leader} {view.leader_epoch}"
            f" {view.high_watermark} {view.durable_offset} {view.end_offset}"
        )
        self._tell(Check.replica_stepped, view)
        visible = self.oracle.partitions.newly_visible(view)
        for batch in visible:
            self._tell(Check.became_visible, view.key, batch)
            self._note_transactions(view.key, batch)
            self.oracle.groups.became_visible(view.key, batch)
        self.oracle.partitions.stepped(view)

    def _note_transactions(self, key: PartitionKey, batch: PartitionBatch) -> None:
        """What a batch that may be read means to transactions."""
        transactions = self.oracle.transactions
        if batch.commits is not None:
            marked = transactions.marked(key, batch)
            self._tell(Check.marked, marked)
            for one in marked.ended:
                one.outcomes[key] = marked.commits
        elif batch.is_transactional:
            transactions.written(key, batch, self.oracle.groups.writes_in(key, batch))
        for decided in transactions.decided_in(key, batch):
            self._tell(Check.decided, decided)

    read_committed = _told_to_checks(Check.read_committed)
    epochs_seen = _told_to_checks(Check.epochs_seen)
    produced = _told_to_checks(Check.produced)

    def acknowledged(
        self, key: PartitionKey, base_offset: int, crc: int, known_offset: int
    ) -> None:
        """A producer hears that a batch is on all in-sync replicas."""
        self._tell(Check.acknowledged, key, base_offset, crc, known_offset)
        self.oracle.partitions.note_acknowledged(key, base_offset)

    def batch_passed(self, passed: Passed) -> None:
        """A batch is served, taken over or read."""
        written = self.oracle.partitions.cleaned(passed.key).written(passed.batch)
        passed = passed._replace(batch=written)
        self._tell(Check.batch_passed, passed)

    checkpoints_seen = _told_to_checks(Check.checkpoints_seen)

    def consumed(self, key: PartitionKey, batch: PartitionBatch) -> None:
        """A consumer has read a batch."""
        batch = self.oracle.partitions.cleaned(key).written(batch)
        self._tell(Check.consumed, key, batch)

    offset_told = _told_to_checks(Check.offset_told)
    offset_acknowledged = _told_to_checks(Check.offset_acknowledged)

    def assignment_told(self, broker_id: int, told: AssignmentTold) -> None:
        """A coordinator's answer to a SyncGroup leaves."""
        self._trace.note(f"{told.member_id} of {told.group_id} {told.generation}")
        self._tell(Check.assignment_told, broker_id, told)

    holding_said = _told_to_checks(Check.holding_said)

    def holding_told(self, broker_id: int, told: HoldingTold) -> None:
        """A coordinator's answer to a member of a consumer group leaves."""
        self._trace.note(f"{told.member_id} of {told.group_id} {told.epoch}")
        self._tell(Check.holding_told, broker_id, told)

    # -- share groups --------------------------------------------------------------------------

    def share_delivered(self, broker_id: int, delivered: Delivered) -> None:
        """A leader's answer with records of a share partition leaves."""
        self._trace.note(f"{delivered.member_id} {delivered.first} {delivered.last}")
        self._tell(Check.share_delivered, broker_id, delivered)

    share_returned = _told_to_checks(Check.share_returned)
    share_renewed = _told_to_checks(Check.share_renewed)
    share_acknowledged = _told_to_checks(Check.share_acknowledged)

    def letters_sent(self, broker_id: int, letters: Letters) -> None:
        """A leader is about to write dead letters."""
        self._trace.note(f"letters {letters.first} {letters.last}")
        self._tell(Check.letters_sent, broker_id, letters)

    # -- permissions ---------------------------------------------------------------------------

    def permission_told(self, broker_id: int, told: PermissionTold) -> None:
        """A broker's answer to a guest leaves."""
        self._trace.note(f"guest {told.question.principal} {told.allowed}")
        self._tell(Check.permission_told, broker_id, told)

    credential_told = _told_to_checks(Check.credential_told)
    at_end = _told_to_checks(Check.at_end)
