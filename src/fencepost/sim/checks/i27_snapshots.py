"""I27: a snapshot says what the log up to its end says; a log without its beginning has one.

Its end is the end of a committed batch, its epoch is that batch's; its records make the image that
replaying the log makes; and all nodes that have a snapshot of that name have the same one.
"""

from __future__ import annotations

from typing import Any

from fencepost.log.snapshots import BOOTSTRAP_ID, SnapshotHeader, SnapshotId
from fencepost.sim.checks import Check
from fencepost.sim.oracle import Oracle, Violation

KEPT = 1024
"""Offsets whose images are kept for comparison, and snapshots; older ones are forgotten."""


class Snapshots(Check):
    """Images come from nodes that follow the log; see I30 for these."""

    kind = "I27"

    def __init__(self) -> None:
        self._images: dict[int, Any] = {}
        self._seen: dict[SnapshotId, tuple[SnapshotHeader, Any]] = {}

    def image_moved(self, oracle: Oracle, node_id: int, image: Any) -> None:
        self._images.setdefault(image.offset, image)
        if len(self._images) > KEPT:
            del self._images[next(iter(self._images))]

    def snapshot_there(
        self,
        oracle: Oracle,
        node_id: int,
        snapshot_id: SnapshotId,
        header: SnapshotHeader,
        image: Any,
    ) -> None:
        if snapshot_id == BOOTSTRAP_ID:
            return
        said = f"snapshot {snapshot_id.end_offset}-{snapshot_id.epoch} of {node_id}"
        self._check_end(oracle, snapshot_id, said)
        replayed = self._images.get(image.offset)
        if replayed is not None and replayed != image:
            raise Violation(self.kind, f"{said} is not the replay of the log")
        before = self._seen.setdefault(snapshot_id, (header, image))
        if before != (header, image):
            raise Violation(self.kind, f"{said} is not what others have under that name")
        if len(self._seen) > KEPT:
            del self._seen[next(iter(self._seen))]

    def _check_end(self, oracle: Oracle, snapshot_id: SnapshotId, said: str) -> None:
        end_offset = snapshot_id.end_offset
        if end_offset > oracle.committed_offset:
            raise Violation(self.kind, f"{said} goes beyond what is committed")
        last = oracle.committed[oracle.committed_position(end_offset - 1)]
        if last.next_offset != end_offset:
            raise Violation(self.kind, f"{said} ends within a batch")
        if last.epoch != snapshot_id.epoch:
            raise Violation(self.kind, f"{said} ends with a batch of epoch {last.epoch}")

    def log_starts(
        self, oracle: Oracle, node_id: int, start_offset: int, latest: SnapshotId | None
    ) -> None:
        if start_offset > 0 and (latest is None or latest.end_offset < start_offset):
            told = "no snapshot" if latest is None else f"none behind {latest.end_offset}"
            raise Violation(
                self.kind, f"the log of {node_id} starts at {start_offset}, and there is {told}"
            )


CHECK = Snapshots
