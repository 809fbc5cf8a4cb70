"""What WriteTxnMarkers says to partitions, and what clients hear who are fenced."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.runtime.markers import MarkerWriter
from fencepost.runtime.requests.add_partitions_to_txn import fenced_for
from fencepost.wire.api.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from fencepost.wire.errors import ErrorCode


class Machine:
    """A group's coordinator that tells what it is to decide."""

    def decide_transaction_end(self, end: Any, token: Any) -> Any:
        return end


class World:
    """A writer whose partitions and groups tell what they are to write."""

    def __init__(self, epochs: tuple[int, ...] | None, known_epoch: int = -1) -> None:
        """`epochs` are the leader epochs of `__transaction_state`; None if it is not there."""
        self.told: list[Any] = []
        driver = SimpleNamespace(feed=lambda key, write: self._take(write))
        runtime = SimpleNamespace(
            submit=lambda index, decide, on_reply: self._take(decide(Machine(), None))
        )
        state = SimpleNamespace(coordinator_epoch=known_epoch)
        log = SimpleNamespace(producers={7: state} if known_epoch >= 0 else {})
        hosted: Any = SimpleNamespace(
            get=lambda topic, index: SimpleNamespace(key=(topic, index), log=log)
        )
        ports: Any = SimpleNamespace(driver=driver, wall_ms=lambda: 1, now_ms=lambda: 0)
        groups: Any = SimpleNamespace(runtime=runtime)
        partitions = [SimpleNamespace(leader_epoch=one) for one in epochs or ()]
        topics = {"__transaction_state": SimpleNamespace(partitions=partitions)}
        image: Any = SimpleNamespace(topics_by_name={} if epochs is None else topics)
        lane: Any = None
        self.writer = MarkerWriter(ports, lane, hosted, groups, lambda: image, 30_000)

    def _take(self, write: Any) -> None:
        self.told.append(write)

    def write(self, coordinator_epoch: int, topic: str = "orders", version: int = 2) -> list[int]:
        """Errors of partitions that are answered at once."""
        marker = WritableTxnMarker(
            producer_id=7,
            producer_epoch=3,
            topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
            coordinator_epoch=coordinator_epoch,
            transaction_version=version,
        )
        answers: list[Any] = []
        list(self.writer.pieces(WriteTxnMarkersRequest(markers=[marker]), answers.append))
        return [
            partition.error_code
            for answer in answers
            for one in answer.markers
            for told in one.topics
            for partition in told.partitions
        ]


@pytest.mark.parametrize("topic", ["orders", "__consumer_offsets"])
@pytest.mark.parametrize("version", [0, 2])
def test_the_version_of_the_transaction_travels_with_the_marker(topic: str, version: int) -> None:
    """KAFKA-19446: the partition judges the epoch by it, and cannot know it."""
    world = World((5,))
    world.write(5, topic, version)
    [end] = world.told
    assert (end.coordinator_epoch, end.transaction_version) == (5, version)


@pytest.mark.parametrize("topic", ["orders", "__consumer_offsets"])
@pytest.mark.parametrize(
    ("epochs", "known_epoch", "highest"),
    [((0, 3, 1), -1, 3), ((), -1, 0), (None, -1, 0), ((2,), 9, 9), ((9,), 2, 9)],
)
def test_no_marker_is_of_a_later_coordinator_than_there_is(
    topic: str, epochs: tuple[int, ...] | None, known_epoch: int, highest: int
) -> None:
    """Else the partition would refuse the one there is from then on."""
    world = World(epochs, known_epoch)
    for epoch in (highest + 1, (1 << 31) - 1):
        assert world.write(epoch, topic) == [ErrorCode.UNKNOWN_LEADER_EPOCH]
    assert not world.told
    for epoch in (-1, 0, highest):
        assert world.write(epoch, topic) == []
    assert len(world.told) == 3


def test_who_is_fenced_hears_it_in_words_of_the_version() -> None:
    fenced, old_epoch = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH
    assert [fenced_for(fenced, version) for version in range(6)] == [old_epoch] * 2 + [fenced] * 4
