"""Writes a snapshot, record by record, in bounded memory; see `reader` for the layout.

The file is a partial one until `SnapshotStore.publish` gives it its name, and the store does that
only with one that `finish` has made durable: a crash in between leaves a `.part`, never a
snapshot of no length (KAFKA-15312).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fencepost.batch.control import build_control_batch
from fencepost.batch.records import BatchBuilder
from fencepost.log.disk import Buffer, Disk
from fencepost.log.snapshots.names import SnapshotId, partial_file
from fencepost.log.snapshots.reader import SnapshotHeader
from fencepost.wire.message import Message
from fencepost.wire.records.control import (
    ControlType,
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
)

BATCH_RECORDS: Final = 1024
BATCH_BYTES: Final = 1 << 20
"""A batch is closed when it reaches either; Kafka reads batches of up to 8 MiB."""
OWN_NUMBER: Final = 1
"""In the partial file's name: what is fetched from a leader at the same time has none."""


class SnapshotWriter:
    """A snapshot in the making; one thread at a time. Everything: OSError.

    A KRaftVersion record, and behind it the voters, is written from kraft.version 1 on. Raises
    ValueError for voters at level 0, where they are configured.
    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        snapshot_id: SnapshotId,
        header: SnapshotHeader,
        wall_ms: int,
    ) -> None:
        if header.kraft_version == 0 and header.voters is not None:
            raise ValueError("there are no dynamic voters at kraft.version 0")
        self.snapshot_id = snapshot_id
        self.header = header
        self.path = f"{directory}/{partial_file(snapshot_id, OWN_NUMBER)}"
        self.size_bytes = 0
        self._disk = disk
        self._wall_ms = wall_ms
        self._next_offset = 0
        self._builder = BatchBuilder()
        self._file = disk.open(self.path, create=True)
        try:
            self._file.truncate(0)
            self._write_control(_opening_records(header))
        except OSError:
            self.abandon()  # the caller gets no writer to abandon
            raise

    def append(self, value: bytes) -> None:
        """Add a record with this value."""
        self._builder.append(None, value, timestamp_ms=self._wall_ms)
        if self._builder.count >= BATCH_RECORDS or self._builder.size_bytes >= BATCH_BYTES:
            self._flush()

    def extend(self, values: Iterable[bytes]) -> None:
        """Add records with these values."""
        for value in values:
            self.append(value)

    def finish(self) -> None:
        """Write the footer and make the file durable; its name is still that of a partial one."""
        self._flush()
        self._write_control([(ControlType.SNAPSHOT_FOOTER, SnapshotFooterRecord(version=0))])
        self._file.sync()
        self._file.close()

    def abandon(self) -> None:
        """Close the file and remove it."""
        self._file.close()
        self._disk.unlink(self.path)

    def _flush(self) -> None:
        if self._builder.count == 0:
            return
        batch = self._builder.build(self._next_offset, self.snapshot_id.epoch)
        self._next_offset += self._builder.count
        self._builder = BatchBuilder()
        self._write(batch)

    def _write_control(self, records: list[tuple[ControlType, Message]]) -> None:
        batch = build_control_batch(
            records,
            timestamp_ms=self._wall_ms,
            base_offset=self._next_offset,
            leader_epoch=self.snapshot_id.epoch,
        )
        self._next_offset += len(records)
        self._write(batch)

    def _write(self, data: Buffer) -> None:
        self._file.write_at(data, self.size_bytes)
        self.size_bytes += len(data)


def _opening_records(header: SnapshotHeader) -> list[tuple[ControlType, Message]]:
    timestamp_ms = header.last_contained_log_timestamp_ms
    opening = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=timestamp_ms)
    records: list[tuple[ControlType, Message]] = [(ControlType.SNAPSHOT_HEADER, opening)]
    if header.kraft_version > 0:
        level = KRaftVersionRecord(version=0, kraft_version=header.kraft_version)
        records.append((ControlType.KRAFT_VERSION, level))
        if header.voters is not None:
            records.append((ControlType.KRAFT_VOTERS, header.voters))
    return records
