"""A leader that sends batches that are not sound is refused, and the node says so."""

from __future__ import annotations

import logging

from fencepost.batch.records import build_batch
from fencepost.machines.quorum import (
    FetchBounds,
    QuorumState,
    answered,
    fetch_response,
    messages,
    received,
)
from fencepost.machines.quorum.voters import VoterSet
from fencepost.runtime.metadata.host import METADATA_KEY
from fencepost.wire.errors import ErrorCode

from .metadata_world import MetadataWorld


def led_by(world: MetadataWorld, epoch: int) -> None:
    begin = messages.begin_request(world.config, 1, QuorumState(epoch, 2))
    world.ports.driver.feed(METADATA_KEY, received(lambda _: None, begin))


def refuse(world: MetadataWorld, epoch: int) -> None:
    """The leader answers the last fetch with a batch whose checksum is not its own."""
    to, asked = world.ports.sent[-1]
    assert to == 2
    corrupt = build_batch([(None, b"v")], base_offset=0, leader_epoch=epoch)
    corrupt[-1] ^= 1
    bounds = FetchBounds(ErrorCode.NONE, 2, epoch, 0, 1, 0, 0)
    world.ports.driver.feed(METADATA_KEY, answered(2, asked, fetch_response(bounds, corrupt)))
    world.timers.advance(world.config.retry_backoff_ms)


def test_invalid_batches_are_logged_once_per_epoch(caplog) -> None:
    world = MetadataWorld(voters=VoterSet.of_ids((1, 2, 3)))
    world.start()
    with caplog.at_level(logging.ERROR):
        for epoch in (4, 5):
            led_by(world, epoch)
            for _ in range(3):
                refuse(world, epoch)
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2, told
    assert "leader of epoch 4" in told[0] and "leader of epoch 5" in told[1]
    assert world.host.machine.end_offset == 0
