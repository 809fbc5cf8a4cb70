"""What a metadata log and the snapshots of it say, record by record.

The cluster at an offset is made by this project from the log alone; a snapshot of either
implementation must hold the records that say the same, in the same versions. Neither implementation
promises an order of the records, or of a node's features and endpoints.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from fencepost.batch.header import BatchHeader, iter_headers
from fencepost.batch.records import read_batch
from fencepost.log.disk import OsDisk
from fencepost.log.snapshots import SnapshotReader
from fencepost.machines.image import ClusterImage, apply_records
from fencepost.machines.image.records import image_values
from fencepost.runtime.metadata.replay import batch_records
from fencepost.wire.message import Message
from fencepost.wire.records.metadata import decode_record

from .quorum import Node, Quorum

_SHOWN = 10  # differences
_VERSION_AT = 2  # behind the version of the frame and the id, each of one byte


def records_of(log: bytes, end_offset: int | None = None) -> Iterator[Message]:
    """The metadata records in a log's bytes, below `end_offset` if that is given."""
    data = memoryview(log)
    for position, header in iter_headers(data):
        if end_offset is not None and header.next_offset > end_offset:
            return
        if not header.is_control:
            yield from batch_records(header, data[position : position + header.size_bytes])


def image_of(log: bytes, end_offset: int | None = None) -> ClusterImage:
    """The cluster as the log's records make it."""
    return apply_records(ClusterImage(), records_of(log, end_offset))


def values_in(snapshot: Path) -> Iterator[bytes]:
    """The values of a snapshot's metadata records, in its order."""
    file = OsDisk().open(str(snapshot))
    try:
        for header, batch in SnapshotReader(file, str(snapshot)):
            yield from _values(header, batch)
    finally:
        file.close()


def _values(header: BatchHeader, batch: memoryview) -> Iterator[bytes]:
    for record in read_batch(batch, 0, header):
        assert record.value is not None, f"record {record.offset} has no value"
        yield bytes(record.value)


def check_snapshots(quorum: Quorum) -> Counter[int]:
    """Hold every snapshot that any node has against the log; how many of each node there were.

    AssertionError with the records that only one of both has.
    """
    found = [(node, path) for node in quorum.nodes.values() for path in node.snapshots()]
    whole = next(node for node in quorum.voters if node.log_start() == 0).metadata_log()
    for node, snapshot in found:
        _check(node, snapshot, whole)
    return Counter(node.node_id for node, _ in found)


def _check(node: Node, snapshot: Path, log: bytes) -> None:
    found = Counter(map(_said, values_in(snapshot)))
    expected = Counter(map(_said, image_values(image_of(log, int(snapshot.name[:20])))))
    only = {"the snapshot": found - expected, "the log": expected - found}
    differences = [
        f"only {where} has {said}" for where, all_said in only.items() for said in all_said
    ]
    where = f"{node.kind} node {node.node_id}, {snapshot.name}"
    assert not differences, "\n".join([where, *differences[:_SHOWN]])


def _said(value: bytes) -> str:
    """A record and its version, with what has no order in one."""
    record = decode_record(value)
    for field in ("features", "end_points"):
        if hasattr(record, field):
            getattr(record, field).sort(key=lambda one: one.name)
    return f"v{value[_VERSION_AT]} {record}"
