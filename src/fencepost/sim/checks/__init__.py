"""What must hold, one invariant a file; a file that is here is in force.

A check is told what happened, right after it happened, and raises `Violation` when that must not
be. It looks at the `Oracle` and at what it has itself kept, never at machines or the world, so a
unit test can tell it of any history, good or bad. To add one: a file here with a subclass of
`Check` named `CHECK`, and a test that feeds it a violation.

Numbers as in docs/SIMULATOR.md.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from fencepost.log.snapshots import SnapshotHeader, SnapshotId
from fencepost.machines.image import BrokerImage, ClusterImage, PartitionDelta
from fencepost.sim.cleaned_batches import LogLook
from fencepost.sim.group_oracle import (
    AssignmentTold,
    HoldingSaid,
    HoldingTold,
    OffsetKey,
    OffsetsTold,
)
from fencepost.sim.oracle import NodeView, Oracle
from fencepost.sim.partition_oracle import (
    BrokerBegun,
    Checkpoints,
    PartitionBatch,
    PartitionKey,
    Passed,
    ReplicaView,
)
from fencepost.sim.permission_oracle import CredentialTold, PermissionTold
from fencepost.sim.share_oracle import Delivered, Letters, Renewed, Returned, Settled
from fencepost.sim.transaction_oracle import Decided, Marked, ReadCommitted


class Check:
    """One invariant. Subclasses override what they want to hear of."""

    kind = ""
    """The invariant's number, which a `Violation` names."""

    def recovered(self, oracle: Oracle, node_id: int, found: list[Any], start_offset: int) -> None:
        """A node has opened its log and found these entries; `oracle` still says what was there."""

    def put_back(self, oracle: Oracle, node_id: int) -> None:
        """A node's disk is about to be as it was earlier; no decision depends on what it loses."""

    def stepped(self, oracle: Oracle, view: NodeView) -> None:
        """A node's machine looks different after a step; `oracle.views` still has the old view."""

    def state_written(self, oracle: Oracle, node_id: int, state: Any) -> None:
        """A `QuorumState` is on disk, durably."""

    def state_read(self, oracle: Oracle, node_id: int, state: Any) -> None:
        """A node boots and finds this `QuorumState`."""

    def vote_told(self, oracle: Oracle, voter_id: int, candidate: int, epoch: int) -> None:
        """A voter's answer that grants a vote leaves the voter."""

    def cutting(self, oracle: Oracle, node_id: int, end_offset: int) -> None:
        """A log is about to be cut to end at `end_offset`."""

    def snapshot_loaded(self, oracle: Oracle, node_id: int, end_offset: int) -> None:
        """A node is about to throw its log away for a snapshot that was fetched."""

    def snapshot_there(
        self,
        oracle: Oracle,
        node_id: int,
        snapshot_id: SnapshotId,
        header: SnapshotHeader,
        image: Any,
    ) -> None:
        """A node has a snapshot in place that says this, made of its records."""

    def log_starts(
        self, oracle: Oracle, node_id: int, start_offset: int, latest: SnapshotId | None
    ) -> None:
        """A node's log starts there now, and this is its newest snapshot."""

    def image_moved(self, oracle: Oracle, node_id: int, image: Any) -> None:
        """A node has a new cluster image, of everything below `image.offset + 1`."""

    def told_committed(self, oracle: Oracle, base_offset: int, crc: int) -> None:
        """A node has answered that the batch with this checksum is committed at that offset."""

    # -- partitions of simulated brokers -------------------------------------------------------

    def broker_changed(self, oracle: Oracle, broker_id: int, broker: BrokerImage | None) -> None:
        """The committed image has a broker again, in another state, or (None) no longer."""

    def broker_begun(self, oracle: Oracle, begun: BrokerBegun, metadata_offset: int) -> None:
        """A broker has come one stage further; its metadata are as of that offset."""

    def partition_changed(
        self, oracle: Oracle, image: ClusterImage, change: PartitionDelta
    ) -> None:
        """In the committed image, which is now `image`, a partition has come, changed or gone."""

    def replica_recovered(
        self,
        oracle: Oracle,
        broker_id: int,
        key: PartitionKey,
        found: list[PartitionBatch],
        start_offset: int,
    ) -> None:
        """A broker has opened a replica's log and found this; `oracle` says what was there."""

    def replica_appended(
        self, oracle: Oracle, broker_id: int, key: PartitionKey, batch: PartitionBatch
    ) -> None:
        """A replica has appended a batch; `oracle` does not have it yet."""

    def replica_cutting(
        self, oracle: Oracle, broker_id: int, key: PartitionKey, end_offset: int
    ) -> None:
        """A replica's log is about to be cut to end at `end_offset`."""

    def replica_starts(
        self, oracle: Oracle, broker_id: int, key: PartitionKey, start_offset: int
    ) -> None:
        """Records of a replica below that offset are deleted."""

    def replica_cleaned(
        self,
        oracle: Oracle,
        broker_id: int,
        key: PartitionKey,
        before: LogLook[PartitionBatch],
        after: LogLook[PartitionBatch],
    ) -> None:
        """A replica's log was compacted; `oracle` does not know of it yet."""

    def replica_stepped(self, oracle: Oracle, view: ReplicaView) -> None:
        """A replica looks different after a step; `oracle.partitions.views` has the old view."""

    def epochs_seen(
        self, oracle: Oracle, broker_id: int, key: PartitionKey, epochs: list[tuple[int, int]]
    ) -> None:
        """The epoch cache of a replica, as (epoch, start offset), when its role or log is new."""

    def became_visible(self, oracle: Oracle, key: PartitionKey, batch: PartitionBatch) -> None:
        """A leader's high watermark has passed a batch that no consumer could read before."""

    def produced(
        self, oracle: Oracle, broker_id: int, key: PartitionKey, base_offset: int, acks: int
    ) -> None:
        """A leader answers that the batch it has at that offset is as safe as `acks` asks."""

    def acknowledged(
        self,
        oracle: Oracle,
        key: PartitionKey,
        base_offset: int,
        crc: int,
        known_offset: int,
    ) -> None:
        """A leader has answered a producer that its batch is on all in-sync replicas (acks=all).

        When the producer first sent it, leaders had acknowledged everything below `known_offset`.
        """

    def batch_passed(self, oracle: Oracle, passed: Passed) -> None:
        """A broker serves a batch, a follower appends one, or a consumer reads one."""

    def checkpoints_seen(
        self, oracle: Oracle, broker_id: int, key: PartitionKey, seen: Checkpoints
    ) -> None:
        """What the checkpoint files say of a replica, when they or its log have changed."""

    def consumed(self, oracle: Oracle, key: PartitionKey, batch: PartitionBatch) -> None:
        """A consumer has read a batch."""

    # -- offsets of groups ---------------------------------------------------------------------

    def offset_told(self, oracle: Oracle, broker_id: int, told: OffsetsTold) -> None:
        """A broker answers what a group's committed offset is."""

    def offset_acknowledged(
        self, oracle: Oracle, partition: PartitionKey, key: OffsetKey, offset: int
    ) -> None:
        """A client hears that its commit is done; `partition` is of `__consumer_offsets`."""

    def assignment_told(self, oracle: Oracle, broker_id: int, told: AssignmentTold) -> None:
        """A broker answers what a member of a group is assigned."""

    def holding_said(self, oracle: Oracle, said: HoldingSaid) -> None:
        """A member of a consumer group says what it owns."""

    def holding_told(self, oracle: Oracle, broker_id: int, told: HoldingTold) -> None:
        """A broker, not deposed, answers in which epoch a member is, and what it is to own."""

    # -- transactions --------------------------------------------------------------------------

    def marked(self, oracle: Oracle, marked: Marked) -> None:
        """A marker may be read; the transactions that it ends do not have that outcome yet."""

    def decided(self, oracle: Oracle, decided: Decided) -> None:
        """A coordinator's record of a transactional id is committed."""

    def read_committed(self, oracle: Oracle, read: ReadCommitted) -> None:
        """A consumer of committed data has read a stretch of a partition."""

    # -- share groups --------------------------------------------------------------------------

    def share_delivered(self, oracle: Oracle, broker_id: int, delivered: Delivered) -> None:
        """A broker answers which records a member of a share group has acquired."""

    def share_returned(self, oracle: Oracle, returned: Returned) -> None:
        """A member of a share group holds records no longer, by a request that has arrived."""

    def share_renewed(self, oracle: Oracle, broker_id: int, renewed: Renewed) -> None:
        """A broker answers that a member of a share group holds records for longer."""

    def share_acknowledged(self, oracle: Oracle, settled: Settled) -> None:
        """A member of a share group hears that records are settled."""

    def letters_sent(self, oracle: Oracle, broker_id: int, letters: Letters) -> None:
        """A broker is about to write dead letters of a share group."""

    # -- permissions ---------------------------------------------------------------------------

    def permission_told(self, oracle: Oracle, broker_id: int, told: PermissionTold) -> None:
        """A broker answers a guest, who may or may not do what it asks for."""

    def credential_told(self, oracle: Oracle, broker_id: int, told: CredentialTold) -> None:
        """A broker has looked up a user who logs in."""

    def at_end(self, oracle: Oracle) -> None:
        """The run is over: whatever takes a look at all logs."""


def load_checks() -> list[Check]:
    """One new instance of every check in this package, in the order of their files' names."""
    made = []
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda found: found.name):
        made.append(importlib.import_module(f"{__name__}.{module.name}").CHECK())
    return made
