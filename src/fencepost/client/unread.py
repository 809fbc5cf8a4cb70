"""What lies behind the offsets that a group has committed: records, and of when, or control batches
alone.

A log's end counts the control batches of transactions, so a group that has read every record of a
transactional topic still has a lag in offsets. One fetch tells the two apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from fencepost.batch.header import iter_headers
from fencepost.client.cluster_view import ClusterView
from fencepost.client.conversation import Conversation
from fencepost.client.fetch_core import FetchCore, Fetched, FetchLimits, FetchPosition
from fencepost.client.metadata import TopicPartition

LIMITS: Final = FetchLimits(max_bytes=1024 * 1024, partition_max_bytes=16 * 1024)


class Unread(NamedTuple):
    """The first batch of records from an offset on: the time of its newest record (ms since 1970;
    -1 where it has none). None: there are only control batches up to the high watermark, if
    `is_known`; otherwise too few of them were read to tell."""

    timestamp_ms: int | None
    is_known: bool = True


def finding_unread(
    view: ClusterView[Any], offsets: Mapping[TopicPartition, int]
) -> Conversation[dict[TopicPartition, Unread]]:
    """The first batch of records from these offsets on, by one fetch from each leader; partitions
    whose leader moved are left out. Raises as `FetchCore.fetching`."""
    positions = {where: FetchPosition(offset) for where, offset in offsets.items()}
    fetching = FetchCore(view).fetching(positions, max_wait_ms=0, limits=LIMITS)
    return {one.partition: _first_records(one) for one in (yield from fetching)}


def _first_records(fetched: Fetched) -> Unread:
    for _, header in iter_headers(fetched.records):
        if header.last_offset >= fetched.start_offset and not header.is_control:
            return Unread(header.max_timestamp)
    return Unread(None, is_known=fetched.next_offset >= fetched.high_watermark)
