"""Snapshots and logs for tests."""

from __future__ import annotations

from collections.abc import Iterable

from fencepost.batch.records import read_records
from fencepost.log.disk import Disk
from fencepost.log.partition_log import PartitionLog
from fencepost.log.snapshots import SnapshotHeader, SnapshotId, SnapshotReader, SnapshotStore
from fencepost.log.snapshots.opening import open_snapshots
from fencepost.wire.records.control import Endpoint, KRaftVersionFeature, Voter, VotersRecord
from fencepost.wire.types import Uuid

from ..helpers import NOW_MS, open_log

PATH = "/data/__cluster_metadata-0"
VOTERS = VotersRecord(
    version=0,
    voters=[
        Voter(
            voter_id=number,
            voter_directory_id=Uuid(bytes(15) + bytes([number + 10])),
            endpoints=[Endpoint(name="CONTROLLER", host="localhost", port=9000 + number)],
            kraft_version_feature=KRaftVersionFeature(
                min_supported_version=0, max_supported_version=1
            ),
        )
        for number in (1, 2, 3)
    ],
)
STATIC = SnapshotHeader(NOW_MS - 5)
DYNAMIC = SnapshotHeader(NOW_MS - 5, 1, VOTERS)


def values_of(count: int, size: int = 30) -> list[bytes]:
    """As many different values."""
    return [b"%d" % number * (size // len(b"%d" % number)) for number in range(count)]


def write(
    store: SnapshotStore,
    snapshot_id: SnapshotId,
    values: Iterable[bytes],
    header: SnapshotHeader = STATIC,
) -> None:
    """Write and publish a snapshot."""
    writer = store.begin(snapshot_id, header, NOW_MS)
    writer.extend(values)
    writer.finish()
    store.publish(writer)


def read_values(disk: Disk, path: str) -> list[bytes]:
    """All record values of a snapshot's file."""
    file = disk.open(path)
    try:
        reader = SnapshotReader(file, path)
        return [record.value or b"" for _, batch in reader for record in read_records(batch)]
    finally:
        file.close()


def opened(disk: Disk, **kw: int) -> tuple[PartitionLog, SnapshotStore]:
    """The log at `PATH` and its snapshots."""
    log = open_log(disk, PATH, **kw)
    return log, open_snapshots(log)
