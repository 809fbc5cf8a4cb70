"""What WriteTxnMarkers says to partitions, and what clients hear who are fenced."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.runtime.markers import MarkerWriter
from fencepost.runtime.transaction_requests import fenced_for
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


@pytest.mark.parametrize("topic", ["orders", "__consumer_offsets"])
@pytest.mark.parametrize("version", [0, 2])
def test_the_version_of_the_transaction_travels_with_the_marker(topic: str, version: int) -> None:
    """KAFKA-19446: the partition judges the epoch by it, and cannot know it."""
    told: list[Any] = []
    driver = SimpleNamespace(feed=lambda key, write: told.append(write))
    runtime = SimpleNamespace(
        submit=lambda index, decide, on_reply: told.append(decide(Machine(), None))
    )
    hosted = SimpleNamespace(get=lambda topic, index: SimpleNamespace(key=(topic, index)))
    ports = SimpleNamespace(driver=driver, wall_ms=lambda: 1, now_ms=lambda: 0)
    groups = SimpleNamespace(runtime=runtime)
    writer = MarkerWriter(ports, None, hosted, groups, 30_000)  # type: ignore[arg-type]
    marker = WritableTxnMarker(
        producer_id=7,
        producer_epoch=3,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
        coordinator_epoch=5,
        transaction_version=version,
    )
    list(writer.pieces(WriteTxnMarkersRequest(markers=[marker]), told.append))
    [end] = told
    assert (end.coordinator_epoch, end.transaction_version) == (5, version)


def test_who_is_fenced_hears_it_in_words_of_the_version() -> None:
    fenced, old_epoch = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH
    assert [fenced_for(fenced, version) for version in range(6)] == [old_epoch] * 2 + [fenced] * 4
