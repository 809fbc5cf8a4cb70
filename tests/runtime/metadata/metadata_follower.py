"""A node that follows the metadata log of a leader, which the test speaks for; no sockets."""

from __future__ import annotations

from typing import Any

from fencepost.log.snapshots import SnapshotId
from fencepost.machines.quorum import (
    FetchBounds,
    QuorumState,
    answered,
    fetch_response,
    messages,
    received,
)
from fencepost.machines.quorum.inputs import SnapshotBounds
from fencepost.machines.quorum.voters import VoterSet
from fencepost.runtime.metadata.host import METADATA_KEY
from fencepost.wire.api.fetch import FetchRequest
from fencepost.wire.api.fetch_snapshot import FetchSnapshotRequest
from fencepost.wire.errors import ErrorCode

from .metadata_world import MetadataWorld

EPOCH = 4
OFFERED = SnapshotId(50, 3)
PIECE_BYTES = 300


class Follower:
    """A voter that follows node 2, which this class speaks for."""

    def __init__(self) -> None:
        self.world = MetadataWorld(voters=VoterSet.of_ids((1, 2)))
        self.world.start()
        self.is_led(EPOCH)

    @property
    def machine(self) -> Any:
        return self.world.host.machine

    def is_led(self, epoch: int) -> None:
        """Node 2 says that it leads the epoch."""
        begin = messages.begin_request(self.world.config, 1, QuorumState(epoch, 2))
        self.feed(received(lambda _: None, begin))

    def feed(self, input_: Any) -> None:
        self.world.ports.driver.feed(METADATA_KEY, input_)

    @property
    def asks(self) -> Any:
        """The request that waits for an answer; None while it pauses."""
        waiting = self.machine.requests.in_flight.get(2)
        return None if waiting is None else waiting[0]

    def commit(self, batches: list[bytes], high_watermark: int) -> None:
        """Answer its Fetch with these batches, and with what is committed of the log."""
        asked = self.asks
        assert isinstance(asked, FetchRequest), asked
        offset = asked.topics[0].partitions[0].fetch_offset
        bounds = FetchBounds(ErrorCode.NONE, 2, EPOCH, offset, high_watermark, high_watermark, 0)
        self.feed(answered(2, asked, fetch_response(bounds, b"".join(batches))))

    def offer(self) -> None:
        """Answer its Fetch with the snapshot's id."""
        assert isinstance(self.asks, FetchRequest), self.asks
        bounds = FetchBounds(ErrorCode.NONE, 2, EPOCH, 0, 0, 50, 50, snapshot_id=OFFERED)
        self.feed(answered(2, self.asks, fetch_response(bounds)))

    def give(self, data: bytes, size_bytes: int) -> None:
        """Answer its FetchSnapshot with the piece of `data` that it asks for."""
        asked = self.asks
        assert isinstance(asked, FetchSnapshotRequest), asked
        position = asked.topics[0].partitions[0].position
        bounds = SnapshotBounds(ErrorCode.NONE, 2, EPOCH, OFFERED, size_bytes, position)
        part = data[position : position + PIECE_BYTES]
        self.feed(answered(2, asked, messages.fetch_snapshot_response(bounds, part)))

    def give_all(self, data: bytes) -> None:
        """Answer until it has all of it."""
        while isinstance(self.asks, FetchSnapshotRequest):
            self.give(data, len(data))

    def pass_pause(self) -> None:
        self.world.timers.advance(self.world.config.fetch_timeout_ms // 2)
