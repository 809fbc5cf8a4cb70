"""What becomes of a log with batches that cannot be read.

A batch that no longer matches its checksum is neither sent nor applied (`LogDamaged`). A leader
that has one resigns; a node that has one does not stand for election until it is healed. Where the
high watermark lies beyond the batch, it is healed by a snapshot that stands for it: there is one,
or the shell takes one of its image. Else the leader is asked for the very batch, and has it, or a
snapshot beyond it; the one is written over the damage, the other put beside the log, which keeps
what lies behind. Where it does not, the log is cut there and fetched again; until then votes go
only to candidates whose logs are as long as ours was, because a leader may have counted on it, and
we do not stand. What was acknowledged is a part of the durable state
(`QuorumState.acknowledged_end`), written before the log is cut: a node that is killed meanwhile
keeps it, and one that finds the damage at its start begins with it. A lone voter has no node to
fetch from, and stops.
"""

from __future__ import annotations

from fencepost.batch.errors import BatchError
from fencepost.batch.header import check_crc, iter_headers
from fencepost.machines.effects import Buffer, Persist, RepairBatch
from fencepost.machines.probes import probe
from fencepost.machines.quorum import inputs
from fencepost.machines.quorum.node import QuorumNode
from fencepost.machines.quorum.part import Part
from fencepost.machines.quorum.role_changes import RoleChanges
from fencepost.machines.quorum.roles import Follower, Leader, Nominee, Role


class LogDamage(Part):
    """Has what is damaged healed, or cut off; see the module docstring."""

    def __init__(self, node: QuorumNode, roles: RoleChanges) -> None:
        super().__init__(node)
        self._roles = roles

    def step_log_damaged(self, input_: inputs.LogDamaged) -> None:
        offset = input_.offset
        if self._node.role is Role.FAILED:
            return
        if not self._log.view.start_offset <= offset < self._log.end_offset:
            return  # it is no longer in the log
        probe("quorum.log.damaged")
        self._log.damaged |= {offset}
        if self._log.installing is not None:
            return
        latest = self._log.view.snapshots.latest()
        if latest is not None and latest.end_offset > offset:
            self._log.drop_damaged(latest.end_offset)
            return
        acknowledged = self._acknowledged()
        self._stop_leading_damaged()
        if offset < self._log.high_watermark:
            return
        if self._node.others:
            self._cut(offset, acknowledged)
        else:
            self._roles.become_failed(
                f"the batch at {offset} cannot be read, and no other node has it"
            )

    def _stop_leading_damaged(self) -> None:
        """A node that cannot read its log can neither lead nor stand for election."""
        if isinstance(self._node.role_state, Leader):
            self._roles.become_resigned()
        elif isinstance(self._node.role_state, Nominee):
            self._roles.become_unattached(self._outbox.state.epoch)

    def _acknowledged(self) -> tuple[int, int]:
        """(epoch, end offset) of what others may count on us for.

        Followers have told their leader that they hold their log. What a leader has appended
        itself, it alone has counted.
        """
        leader = self._node.role_state
        if not isinstance(leader, Leader):
            return self._node.acknowledged_log_end
        start = leader.epoch_start_offset
        return max(self._outbox.state.acknowledged_end, (self._log.epoch_before(start), start))

    def _cut(self, offset: int, acknowledged: tuple[int, int]) -> None:
        """No leader has told us that it is committed: have it fetched again."""
        if acknowledged > (self._log.epoch_before(offset), offset):
            self._outbox.acknowledge_log_end(acknowledged)
        self._requests.forget_all()  # a fetch that waits for the flush of what is cut never leaves
        self._roles.truncate(offset)

    def maybe_forget_acknowledged(self) -> None:
        """What was acknowledged of the log is there again, durably: nothing need be remembered.

        A record of a later epoch will do, too: the leader of that epoch had all that was committed,
        and our log has what came before the record.
        """
        log = self._log
        if not (0, 0) < self._outbox.state.acknowledged_end <= log.end:
            return
        is_whole = log.installing is None and not log.damaged
        if is_whole and log.is_durable and self._node.role is not Role.FAILED:
            probe("quorum.log.acknowledged_again")
            self._outbox.acknowledge_log_end((0, 0))

    @property
    def fetch_position(self) -> tuple[int, int]:
        """(epoch of the record below, offset) where we ask for more: what is damaged comes first.

        That a batch is damaged and still in the log means that it is committed.
        """
        at = self._log.damaged_at
        damaged = None if at is None else (self._log.epoch_before(at), at)
        return self._rules.fetch_position(self._log.end, damaged)

    def take_good_copy(self, follower: Follower, records: Buffer | None) -> None:
        """Have a damaged batch replaced by the leader's; it is the same batch, or none of ours."""
        damaged_at = self._log.damaged_at
        view = memoryview(records or b"")
        try:
            position, header = next(iter_headers(view), (0, None))
        except BatchError:
            header = None
        if (
            header is None
            or header.base_offset != damaged_at
            or header.next_offset > self._log.end_offset
            or header.partition_leader_epoch != self._log.view.epochs.epoch_at(header.base_offset)
            or not check_crc(view, position, header)
        ):
            probe("quorum.repair.invalid_batch")
        else:
            probe("quorum.log.repaired")
            batch = bytes(view[position : position + header.size_bytes])
            self._outbox.emit(Persist(RepairBatch(header.base_offset, batch)))
            self._log.damaged -= {header.base_offset}
        self._requests.pause(follower.leader_id, self._config.retry_backoff_ms)
