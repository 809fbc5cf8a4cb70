"""Snapshot files: what is written is read; what is not whole, or not ours, is refused."""

import pytest

from fencepost.batch.control import build_control_batch, read_control
from fencepost.batch.header import iter_headers
from fencepost.batch.records import build_batch
from fencepost.log.snapshots import (
    DamagedSnapshotError,
    SnapshotError,
    SnapshotId,
    SnapshotReader,
    SnapshotStore,
    TruncatedSnapshotError,
    check_whole,
)
from fencepost.log.snapshots.writer import BATCH_BYTES, BATCH_RECORDS
from fencepost.sim.disk import SimDisk
from fencepost.wire.records.control import (
    ControlType,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
)

from .samples import DYNAMIC, PATH, STATIC, VOTERS, read_values, values_of, write

ID = SnapshotId(700, 9)


class InMemory:
    """Bytes as a file."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def read_at(self, size: int, position: int) -> bytes:
        return self.data[position : position + size]

    def size(self) -> int:
        return len(self.data)


@pytest.fixture
def store():
    disk = SimDisk()
    disk.mkdir(PATH)
    return SnapshotStore(disk, PATH)


def content_of(store, values, header=STATIC):
    write(store, ID, values, header)
    return store.disk.read(store.path(ID))


def header_batch():
    record = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=5)
    return bytes(build_control_batch([(ControlType.SNAPSHOT_HEADER, record)], timestamp_ms=1))


def footer_batch(base_offset):
    record = SnapshotFooterRecord(version=0)
    return bytes(
        build_control_batch(
            [(ControlType.SNAPSHOT_FOOTER, record)], timestamp_ms=1, base_offset=base_offset
        )
    )


@pytest.mark.parametrize("count", [0, 1, BATCH_RECORDS, BATCH_RECORDS + 1, 5000])
def test_what_is_written_is_read(store, count):
    values = values_of(count)
    write(store, ID, values, DYNAMIC)
    assert read_values(store.disk, store.path(ID)) == values
    header = store.header(ID)
    assert header is not None
    assert (header.last_contained_log_timestamp_ms, header.kraft_version) == (
        DYNAMIC.last_contained_log_timestamp_ms,
        1,
    )
    assert header.voters == VOTERS


def test_the_layout_is_kafkas(store):
    data = content_of(store, values_of(3), DYNAMIC)
    headers = [header for _, header in iter_headers(data)]
    assert [header.is_control for header in headers] == [True, False, True]
    assert [header.base_offset for header in headers] == [0, 3, 6]
    assert {header.partition_leader_epoch for header in headers} == {ID.epoch}
    assert [record.type for record in read_control(data)] == [
        ControlType.SNAPSHOT_HEADER,
        ControlType.KRAFT_VERSION,
        ControlType.KRAFT_VOTERS,
        ControlType.SNAPSHOT_FOOTER,
    ]


def test_batches_stay_small_whatever_the_records_are(store):
    data = content_of(store, values_of(3000) + [bytes(300_000)] * 20)
    for _, header in iter_headers(data):
        assert header.records_count <= BATCH_RECORDS
        assert header.size_bytes < BATCH_BYTES + 400_000


def test_static_voters_are_not_written_down(store):
    data = content_of(store, [])
    assert [record.type for record in read_control(data)] == [
        ControlType.SNAPSHOT_HEADER,
        ControlType.SNAPSHOT_FOOTER,
    ]
    with pytest.raises(ValueError, match="no dynamic voters"):
        store.begin(SnapshotId(701, 9), DYNAMIC.__class__(0, 0, VOTERS), 0)


def test_a_file_cut_anywhere_is_refused(store):
    data = content_of(store, values_of(20), DYNAMIC)
    for size in range(len(data)):
        with pytest.raises(TruncatedSnapshotError):
            check_whole(InMemory(data[:size]), "x")


def test_a_flipped_bit_is_found_wherever_it_matters(store):
    data = content_of(store, values_of(4), DYNAMIC)
    uncovered = set()  # the leader epoch is under no checksum, and no reader uses a snapshot's
    for at, _ in iter_headers(data):
        uncovered.update(range(at + 12, at + 16))
    for position in range(len(data)):
        for bit in range(8):
            bad = bytearray(data)
            bad[position] ^= 1 << bit
            if position in uncovered:
                check_whole(InMemory(bytes(bad)), "x")
            else:
                with pytest.raises(SnapshotError):
                    check_whole(InMemory(bytes(bad)), "x")


def test_what_is_no_snapshot_is_refused():
    data_batch = bytes(build_batch([(None, b"v")], timestamp_ms=1))
    second = bytes(build_batch([(None, b"v")], timestamp_ms=1, base_offset=1))
    for content in (
        data_batch + footer_batch(1),
        footer_batch(0),
        header_batch() + data_batch + footer_batch(1),
        header_batch() + second + footer_batch(3),
        header_batch() + footer_batch(1) + b"x",
        header_batch() + footer_batch(1) + bytes(build_batch([(None, b"v")], base_offset=2)),
        b"PK" + bytes(200),
        b"\xff" * 4096,
    ):
        with pytest.raises(DamagedSnapshotError):
            check_whole(InMemory(content), "x")


def test_a_batch_that_claims_to_be_huge_is_not_read():
    claim = bytearray(header_batch() + bytes(build_batch([(None, b"v")], base_offset=1)))
    at = len(header_batch()) + 8
    claim[at : at + 4] = (1 << 30).to_bytes(4, "big")

    class Endless(InMemory):
        def size(self):
            return 1 << 40

        def read_at(self, size, position):
            assert size <= 2 << 20
            return super().read_at(size, position)

    with pytest.raises(DamagedSnapshotError):
        check_whole(Endless(bytes(claim)), "x")


def test_an_unknown_control_record_is_passed_over(store):
    data = content_of(store, values_of(2))
    footer_at = [at for at, _ in iter_headers(data)][-1]
    unknown = bytearray(footer_batch(3))
    position = unknown.index(b"\x00\x00\x00\x04")  # the key: version 0, type 4
    unknown[position + 3] = 77
    from fencepost.batch.header import stamp_crc

    stamp_crc(unknown)
    content = data[:footer_at] + bytes(unknown) + footer_batch(4)
    reader = SnapshotReader(InMemory(content), "x")
    assert sum(header.records_count for header, _ in reader) == 2


def test_compressed_batches_are_read(store):
    packed = bytes(
        build_batch([(None, b"a" * 500)] * 3, timestamp_ms=1, base_offset=1, compression="gzip")
    )
    store.disk.write_atomic(store.path(ID), header_batch() + packed + footer_batch(4))
    assert read_values(store.disk, store.path(ID)) == [b"a" * 500] * 3
