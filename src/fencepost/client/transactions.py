"""Leaving out aborted transactions (read_committed), without decoding records.

A Fetch response under read_committed lists, for the offsets it covers, the aborted transactions as
(producer id, first offset), ordered by their markers. Rule, as in Kafka's consumer: walk the
batches; a producer becomes "aborting" at the first offset listed for it and stops being so at its
ABORT marker; transactional batches of an aborting producer are skipped. Each response stands alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fencepost.batch.control import read_control
from fencepost.batch.header import iter_headers
from fencepost.wire.records.control import ControlType


def committed_slices(
    records: memoryview, aborted: Sequence[tuple[int, int]]
) -> Iterator[memoryview]:
    """The stretches of `records` (whole batches) that hold no aborted transaction's data.

    Control batches stay in: readers of records skip them anyway. Without aborted transactions
    the whole of `records` comes back as it is.
    """
    if not aborted:
        yield records
        return
    upcoming = sorted(aborted, key=lambda entry: entry[1], reverse=True)
    aborting: set[int] = set()
    start = 0  # of the stretch being collected
    position = 0
    for position, header in iter_headers(records):
        while upcoming and upcoming[-1][1] <= header.last_offset:
            aborting.add(upcoming.pop()[0])
        if header.is_control:
            if _is_abort(records[position : position + header.size_bytes]):
                aborting.discard(header.producer_id)
        elif header.is_transactional and header.producer_id in aborting:
            if start < position:
                yield records[start:position]
            start = position + header.size_bytes
    if start < len(records):
        yield records[start:]


def _is_abort(batch: memoryview) -> bool:
    return any(control.type == ControlType.ABORT for control in read_control(batch))
