"""Between the nodes and the checks: what ports report goes to the truth and to every check."""

from __future__ import annotations

from typing import Any

from fencepost.log.snapshots import SnapshotHeader, SnapshotId
from fencepost.sim.checks import Check, load_checks
from fencepost.sim.oracle import DiskTruth, Entry, NodeView, Truth
from fencepost.sim.trace import Trace


class Watch:
    """Tells every check of everything, in the order in which it happens."""

    def __init__(self, trace: Trace) -> None:
        self.truth = Truth()
        self._trace = trace
        self.checks = load_checks()
        self._stepped = self._those_with("stepped")
        self._state_written = self._those_with("state_written")
        self._image_moved = self._those_with("image_moved")

    def _those_with(self, name: str) -> list[Any]:
        """The methods of that name of the checks that have one of their own."""
        return [
            getattr(check, name)
            for check in self.checks
            if getattr(type(check), name) is not getattr(Check, name)
        ]

    def stepped(self, view: NodeView) -> None:
        """A node looks different from before."""
        truth = self.truth
        self._trace.note(
            f"{view.node_id} {view.role} {view.epoch} {view.leader_id} {view.voted_id}"
            f" {view.high_watermark} {view.end_offset}"
        )
        for check in self._stepped:
            check(truth, view)
        truth.views[view.node_id] = view
        truth.last_voters[view.node_id] = view.voters

    def state_written(self, node_id: int, state: Any) -> None:
        """A quorum state is on disk."""
        for check in self._state_written:
            check(self.truth, node_id, state)
        self.truth.promised(node_id, state.promised)

    def state_read(self, node_id: int, state: Any) -> None:
        """A node boots and finds this quorum state."""
        for check in self.checks:
            check.state_read(self.truth, node_id, state)
        self.truth.promised(node_id, state.promised)

    def image_moved(self, node_id: int, image: Any) -> None:
        """A node has a new image."""
        for check in self._image_moved:
            check(self.truth, node_id, image)

    def recovered(self, node_id: int, found: list[Entry], start_offset: int) -> None:
        """A node has opened its log."""
        for check in self.checks:
            check.recovered(self.truth, node_id, found, start_offset)
        self.truth.opened(node_id, found, start_offset)

    def put_back(self, node_id: int, known: DiskTruth) -> None:
        """A node's disk is as it was when this was known of it."""
        for check in self.checks:
            check.put_back(self.truth, node_id)
        self.truth.put_back(node_id, known)

    def vote_told(self, voter_id: int, candidate: int, epoch: int) -> None:
        """A vote is on its way."""
        for check in self.checks:
            check.vote_told(self.truth, voter_id, candidate, epoch)

    def cutting(self, node_id: int, end_offset: int) -> None:
        """A log is about to be cut."""
        for check in self.checks:
            check.cutting(self.truth, node_id, end_offset)

    def snapshot_loaded(self, node_id: int, end_offset: int) -> None:
        """A log is about to be replaced by a snapshot."""
        for check in self.checks:
            check.snapshot_loaded(self.truth, node_id, end_offset)

    def snapshot_there(
        self, node_id: int, snapshot_id: SnapshotId, header: SnapshotHeader, image: Any
    ) -> None:
        """A node has a snapshot in place."""
        for check in self.checks:
            check.snapshot_there(self.truth, node_id, snapshot_id, header, image)

    def log_starts(self, node_id: int, start_offset: int, latest: SnapshotId | None) -> None:
        """A node's log starts there now."""
        for check in self.checks:
            check.log_starts(self.truth, node_id, start_offset, latest)

    def promised(self, base_offset: int, crc: int) -> None:
        """Somebody was told that something is committed."""
        for check in self.checks:
            check.promised(self.truth, base_offset, crc)

    def at_end(self) -> None:
        """The run is over."""
        for check in self.checks:
            check.at_end(self.truth)
