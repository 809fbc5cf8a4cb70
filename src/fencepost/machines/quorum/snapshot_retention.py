"""Which snapshots are kept, and how much of the log with them (KIP-630).

The shell takes snapshots of what is committed and says so. Then, and when the oldest grows too old,
this node looks whether it keeps too much: if there are two snapshots, and the log with all of them
is larger than `retention_bytes`, or the oldest older than `retention_ms`, the log drops what lies
below the second, and the oldest goes with it. One at a time, as long as that holds. A follower that
lags keeps nothing back: it will be offered a snapshot.
"""

from __future__ import annotations

from typing import Final

from fencepost.log.snapshots import SnapshotId
from fencepost.machines.probes import probe
from fencepost.machines.quorum import inputs
from fencepost.machines.quorum.part import Part
from fencepost.machines.quorum.roles import Role

LOOK_INTERVAL_MS: Final = 60_000
"""How often the age of snapshots is looked at, as in Kafka."""


class SnapshotRetention(Part):
    """Has the log start later, when too much is kept; see the module docstring."""

    def step_snapshot_taken(self, input_: inputs.SnapshotTaken) -> None:
        if self._node.role is Role.FAILED or self._log.installing is not None:
            return
        assert input_.snapshot_id.end_offset <= self._log.high_watermark, "snapshots are committed"
        damaged_at = self._log.damaged_at
        if damaged_at is not None and damaged_at < input_.snapshot_id.end_offset:
            self._log.drop_damaged(input_.snapshot_id.end_offset)
        else:
            self.clean()

    def step_clean(self) -> None:
        """The oldest snapshot may be too old by now, or one of many has just gone."""
        if self._log.installing is None:
            self.clean()

    def clean(self) -> None:
        """Drop the oldest snapshot and its part of the log if they are too much; look again."""
        ids = self._log.view.snapshots.ids()
        timer: int | None = None
        if len(ids) > 1 and ids[1].end_offset > self._log.view.start_offset:
            timer = self._next_look_ms(ids[0])
            if self._keeps_too_much(ids[0]):
                probe("quorum.snapshot.retention")
                self._log.drop_prefix(ids[1].end_offset)
                timer = self._timers.now_ms
        self._timers.set(inputs.CLEAN, timer)

    def _keeps_too_much(self, oldest: SnapshotId) -> bool:
        """Whether a snapshot breaks the retention of size or time."""
        left_ms = self._left_ms(oldest)
        if left_ms is not None and left_ms <= 0:
            return True
        if self._config.retention_bytes < 0:
            return False
        snapshots = self._log.view.snapshots
        in_snapshots = sum(snapshots.size_bytes(id_) or 0 for id_ in snapshots.ids())
        return in_snapshots + self._log.view.size_bytes > self._config.retention_bytes

    def _next_look_ms(self, oldest: SnapshotId) -> int | None:
        """When to look at the oldest snapshot's age again; None for never.

        Its age is a matter of the wall clock, which may be set meanwhile.
        """
        left_ms = self._left_ms(oldest)
        return None if left_ms is None else self._timers.now_ms + min(left_ms, LOOK_INTERVAL_MS)

    def _left_ms(self, snapshot_id: SnapshotId) -> int | None:
        """How long it takes until the snapshot is older than `retention_ms`; None for ever."""
        taken_ms = self._log.view.snapshots.timestamp_ms(snapshot_id)
        if taken_ms is None or self._config.retention_ms < 0:
            return None
        return taken_ms + self._config.retention_ms + 1 - self._timers.wall_ms
