"""Between the nodes and the checks: what ports report goes to the oracle and to every check."""

from __future__ import annotations

from typing import Any

from fencepost.log.snapshots import SnapshotHeader, SnapshotId
from fencepost.machines.effects import Buffer
from fencepost.machines.image import RECOVERING, ClusterImage, ImageDelta, diff
from fencepost.sim.checks import Check, load_checks
from fencepost.sim.cleaned_batches import LogLook
from fencepost.sim.committed_images import CommittedImages
from fencepost.sim.group_oracle import (
    AssignmentTold,
    HoldingSaid,
    HoldingTold,
    OffsetKey,
    OffsetsTold,
)
from fencepost.sim.oracle import DiskTruth, Entry, NodeView, Oracle, entry_of
from fencepost.sim.partition_oracle import (
    BrokerBegun,
    Checkpoints,
    PartitionBatch,
    PartitionKey,
    Passed,
    ReplicaView,
    Stage,
)
from fencepost.sim.permission_oracle import CredentialTold, PermissionTold
from fencepost.sim.share_oracle import Delivered, Letters, Renewed, Returned, Settled
from fencepost.sim.trace import Trace
from fencepost.sim.transaction_oracle import ReadCommitted


class Observer:
    """Tells every check of everything, in the order in which it happens."""

    def __init__(self, trace: Trace, *, has_brokers: bool = False) -> None:
        """With `has_brokers` the checks hear of partitions and brokers in committed images."""
        self.oracle = Oracle()
        self._trace = trace
        self._has_brokers = has_brokers
        self._committed = CommittedImages()
        self.checks = load_checks()
        self._stepped = self._those_with("stepped")
        self._state_written = self._those_with("state_written")
        self._image_moved = self._those_with("image_moved")
        self._replica_stepped = self._those_with("replica_stepped")
        self._replica_appended = self._those_with("replica_appended")
        self._became_visible = self._those_with("became_visible")
        self._batch_passed = self._those_with("batch_passed")
        self._marked = self._those_with("marked")
        self._decided = self._those_with("decided")

    def _those_with(self, name: str) -> list[Any]:
        """The methods of that name of the checks that have one of their own."""
        return [
            getattr(check, name)
            for check in self.checks
            if getattr(type(check), name) is not getattr(Check, name)
        ]

    @property
    def committed_image(self) -> ClusterImage:
        """The newest that a node has had, in a world with brokers."""
        return self._committed.newest

    def stepped(self, view: NodeView) -> None:
        """A node looks different from before."""
        oracle = self.oracle
        self._trace.note(
            f"{view.node_id} {view.role} {view.epoch} {view.leader_id} {view.voted_id}"
            f" {view.high_watermark} {view.end_offset}"
        )
        for check in self._stepped:
            check(oracle, view)
        oracle.views[view.node_id] = view
        oracle.last_voters[view.node_id] = view.voters

    def state_written(self, node_id: int, state: Any) -> None:
        """A quorum state is on disk."""
        for check in self._state_written:
            check(self.oracle, node_id, state)
        self.oracle.acknowledged_end_written(node_id, state.acknowledged_end)

    def state_read(self, node_id: int, state: Any) -> None:
        """A node boots and finds this quorum state."""
        for check in self.checks:
            check.state_read(self.oracle, node_id, state)
        self.oracle.acknowledged_end_written(node_id, state.acknowledged_end)

    def metadata_appended(self, node_id: int, data: Buffer) -> None:
        """A batch of a node's metadata log is in the page cache."""
        entry = entry_of(data)
        self.oracle.appended(node_id, entry)
        if self._has_brokers:
            self._committed.appended(entry, data)

    def image_moved(self, node_id: int, image: Any) -> None:
        """A node has a new image."""
        for check in self._image_moved:
            check(self.oracle, node_id, image)
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
            for check in self.checks:
                check.broker_changed(self.oracle, broker_id, broker)
        for change in delta.partitions:
            key, new = (change.topic_id, change.index), change.new
            is_led_anew = new is not None and change.is_new_leader_epoch
            if new is not None and is_led_anew and new.leader_recovery_state == RECOVERING:
                self.oracle.partitions.leader_recovers(key, new.leader)
            for check in self.checks:
                check.partition_changed(self.oracle, image, change)

    def recovered(self, node_id: int, found: list[Entry], start_offset: int) -> None:
        """A node has opened its log."""
        for check in self.checks:
            check.recovered(self.oracle, node_id, found, start_offset)
        self.oracle.opened(node_id, found, start_offset)

    def put_back(self, node_id: int, known: DiskTruth) -> None:
        """A node's disk is as it was when this was known of it."""
        for check in self.checks:
            check.put_back(self.oracle, node_id)
        self.oracle.put_back(node_id, known)

    def vote_told(self, voter_id: int, candidate: int, epoch: int) -> None:
        """A vote is on its way."""
        for check in self.checks:
            check.vote_told(self.oracle, voter_id, candidate, epoch)

    def cutting(self, node_id: int, end_offset: int) -> None:
        """A log is about to be cut."""
        for check in self.checks:
            check.cutting(self.oracle, node_id, end_offset)

    def snapshot_loaded(self, node_id: int, end_offset: int) -> None:
        """A log is about to be replaced by a snapshot."""
        for check in self.checks:
            check.snapshot_loaded(self.oracle, node_id, end_offset)

    def snapshot_there(
        self, node_id: int, snapshot_id: SnapshotId, header: SnapshotHeader, image: Any
    ) -> None:
        """A node has a snapshot in place."""
        for check in self.checks:
            check.snapshot_there(self.oracle, node_id, snapshot_id, header, image)

    def log_starts(self, node_id: int, start_offset: int, latest: SnapshotId | None) -> None:
        """A node's log starts there now."""
        for check in self.checks:
            check.log_starts(self.oracle, node_id, start_offset, latest)

    def told_committed(self, base_offset: int, crc: int) -> None:
        """A node has answered that the batch with this checksum is committed at that offset."""
        for check in self.checks:
            check.told_committed(self.oracle, base_offset, crc)

    # -- partitions ----------------------------------------------------------------------------

    def broker_begun(self, begun: BrokerBegun, metadata_offset: int) -> None:
        """A broker has come one stage further."""
        for check in self.checks:
            check.broker_begun(self.oracle, begun, metadata_offset)
        if begun.stage is Stage.STARTS:
            self.oracle.partitions.closed_in_order.discard(begun.broker_id)

    def replica_recovered(
        self, broker_id: int, key: PartitionKey, found: list[PartitionBatch], start_offset: int
    ) -> None:
        """A broker has opened a replica's log."""
        found = self.oracle.partitions.cleaned(key).log_as_written(start_offset, found)
        for check in self.checks:
            check.replica_recovered(self.oracle, broker_id, key, found, start_offset)
        self.oracle.partitions.log(broker_id, key).opened(found, start_offset)

    def replica_appended(self, broker_id: int, key: PartitionKey, batch: PartitionBatch) -> None:
        """A batch of a replica is in the page cache."""
        log = self.oracle.partitions.log(broker_id, key)
        cleaned = self.oracle.partitions.cleaned(key)
        for written in cleaned.log_as_written(log.end_offset, [batch]):
            for check in self._replica_appended:
                check(self.oracle, broker_id, key, written)
            log.entries.append(written)

    def replica_cleaned(
        self,
        broker_id: int,
        key: PartitionKey,
        before: LogLook[PartitionBatch],
        after: LogLook[PartitionBatch],
    ) -> None:
        """A replica's log was compacted."""
        for check in self.checks:
            check.replica_cleaned(self.oracle, broker_id, key, before, after)
        self.oracle.partitions.cleaned(key).note(before, after)

    def replica_cutting(self, broker_id: int, key: PartitionKey, end_offset: int) -> None:
        """A replica's log is about to be cut."""
        for check in self.checks:
            check.replica_cutting(self.oracle, broker_id, key, end_offset)

    def replica_starts(self, broker_id: int, key: PartitionKey, start_offset: int) -> None:
        """A replica's log begins there now."""
        for check in self.checks:
            check.replica_starts(self.oracle, broker_id, key, start_offset)
        self.oracle.partitions.log(broker_id, key).dropped_prefix(start_offset)

    def replica_stepped(self, view: ReplicaView) -> None:
        """A replica looks different from before."""
        self._trace.note(
            f"{view.broker_id} {view.key[1]} {view.is_leader} {view.leader_epoch}"
            f" {view.high_watermark} {view.durable_offset} {view.end_offset}"
        )
        for check in self._replica_stepped:
            check(self.oracle, view)
        visible = self.oracle.partitions.newly_visible(view)
        for batch in visible:
            for check in self._became_visible:
                check(self.oracle, view.key, batch)
            self._note_transactions(view.key, batch)
            self.oracle.groups.became_visible(view.key, batch)
        self.oracle.partitions.stepped(view)

    def _note_transactions(self, key: PartitionKey, batch: PartitionBatch) -> None:
        """What a batch that may be read means to transactions."""
        transactions = self.oracle.transactions
        if batch.commits is not None:
            marked = transactions.marked(key, batch)
            for check in self._marked:
                check(self.oracle, marked)
            for one in marked.ended:
                one.outcomes[key] = marked.commits
        elif batch.is_transactional:
            transactions.written(key, batch, self.oracle.groups.writes_in(key, batch))
        for decided in transactions.decided_in(key, batch):
            for check in self._decided:
                check(self.oracle, decided)

    def read_committed(self, read: ReadCommitted) -> None:
        """A consumer of committed data has read a stretch of a partition."""
        for check in self.checks:
            check.read_committed(self.oracle, read)

    def epochs_seen(self, broker_id: int, key: PartitionKey, epochs: list[tuple[int, int]]) -> None:
        """What a replica's epoch cache says."""
        for check in self.checks:
            check.epochs_seen(self.oracle, broker_id, key, epochs)

    def produced(self, broker_id: int, key: PartitionKey, base_offset: int, acks: int) -> None:
        """A leader's answer to a producer leaves."""
        for check in self.checks:
            check.produced(self.oracle, broker_id, key, base_offset, acks)

    def acknowledged(
        self, key: PartitionKey, base_offset: int, crc: int, known_offset: int
    ) -> None:
        """A producer hears that a batch is on all in-sync replicas."""
        for check in self.checks:
            check.acknowledged(self.oracle, key, base_offset, crc, known_offset)
        self.oracle.partitions.note_acknowledged(key, base_offset)

    def batch_passed(self, passed: Passed) -> None:
        """A batch is served, taken over or read."""
        written = self.oracle.partitions.cleaned(passed.key).written(passed.batch)
        passed = passed._replace(batch=written)
        for check in self._batch_passed:
            check(self.oracle, passed)

    def checkpoints_seen(self, broker_id: int, key: PartitionKey, seen: Checkpoints) -> None:
        """What a broker's checkpoint files say of a replica."""
        for check in self.checks:
            check.checkpoints_seen(self.oracle, broker_id, key, seen)

    def consumed(self, key: PartitionKey, batch: PartitionBatch) -> None:
        """A consumer has read a batch."""
        batch = self.oracle.partitions.cleaned(key).written(batch)
        for check in self.checks:
            check.consumed(self.oracle, key, batch)

    def offset_told(self, broker_id: int, told: OffsetsTold) -> None:
        """A coordinator's answer about a committed offset leaves."""
        for check in self.checks:
            check.offset_told(self.oracle, broker_id, told)

    def offset_acknowledged(self, partition: PartitionKey, key: OffsetKey, offset: int) -> None:
        """A client hears that its commit of an offset is done."""
        for check in self.checks:
            check.offset_acknowledged(self.oracle, partition, key, offset)

    def assignment_told(self, broker_id: int, told: AssignmentTold) -> None:
        """A coordinator's answer to a SyncGroup leaves."""
        self._trace.note(f"{told.member_id} of {told.group_id} {told.generation}")
        for check in self.checks:
            check.assignment_told(self.oracle, broker_id, told)

    def holding_said(self, said: HoldingSaid) -> None:
        """A member of a consumer group has said what it owns."""
        for check in self.checks:
            check.holding_said(self.oracle, said)

    def holding_told(self, broker_id: int, told: HoldingTold) -> None:
        """A coordinator's answer to a member of a consumer group leaves."""
        self._trace.note(f"{told.member_id} of {told.group_id} {told.epoch}")
        for check in self.checks:
            check.holding_told(self.oracle, broker_id, told)

    # -- share groups --------------------------------------------------------------------------

    def share_delivered(self, broker_id: int, delivered: Delivered) -> None:
        """A leader's answer with records of a share partition leaves."""
        self._trace.note(f"{delivered.member_id} {delivered.first} {delivered.last}")
        for check in self.checks:
            check.share_delivered(self.oracle, broker_id, delivered)

    def share_returned(self, returned: Returned) -> None:
        """A member of a share group has said that it holds records no longer."""
        for check in self.checks:
            check.share_returned(self.oracle, returned)

    def share_renewed(self, broker_id: int, renewed: Renewed) -> None:
        """A leader's answer that a member holds records for longer leaves."""
        for check in self.checks:
            check.share_renewed(self.oracle, broker_id, renewed)

    def share_acknowledged(self, settled: Settled) -> None:
        """A member of a share group hears that records are settled."""
        for check in self.checks:
            check.share_acknowledged(self.oracle, settled)

    def letters_sent(self, broker_id: int, letters: Letters) -> None:
        """A leader is about to write dead letters."""
        self._trace.note(f"letters {letters.first} {letters.last}")
        for check in self.checks:
            check.letters_sent(self.oracle, broker_id, letters)

    # -- permissions ---------------------------------------------------------------------------

    def permission_told(self, broker_id: int, told: PermissionTold) -> None:
        """A broker's answer to a guest leaves."""
        self._trace.note(f"guest {told.question.principal} {told.allowed}")
        for check in self.checks:
            check.permission_told(self.oracle, broker_id, told)

    def credential_told(self, broker_id: int, told: CredentialTold) -> None:
        """A broker has looked up a user."""
        for check in self.checks:
            check.credential_told(self.oracle, broker_id, told)

    def at_end(self) -> None:
        """The run is over."""
        for check in self.checks:
            check.at_end(self.oracle)
