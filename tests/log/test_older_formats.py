"""Directories written by brokers of before Kafka 0.11: messages of formats v0 and v1 in the log.

They open, also after a crash, are served as they are, found by time, and grow on with batches.
"""

from __future__ import annotations

import pytest

from fencepost.batch.header import iter_headers
from fencepost.batch.legacy import build_message_set
from fencepost.batch.records import Record, build_batch, read_records
from fencepost.log.errors import CorruptFileError
from fencepost.log.partition_log import PartitionLog
from fencepost.sim.disk import SimDisk

from .helpers import NOW_MS, append, config, follow, make_batch, open_log

LOG = "/data/t-0"
SETTINGS = config(internal_segment_bytes=1200, index_interval_bytes=150)
CODECS = ["none", "gzip", "snappy", "lz4"]


def records(first: int, count: int) -> list[Record]:
    return [
        Record(at, NOW_MS + at, 0, None if at % 3 else b"k%d" % at, b"value %d " % at * (at % 4))
        for at in range(first, first + count)
    ]


def old_blob(magic: int, codec: str, *, sets: int = 12) -> bytes:
    """Message sets of three records each, as a producer sent them."""
    return b"".join(
        build_message_set(records(3 * at, 3), magic=magic, compression=codec) for at in range(sets)
    )


def old_disk(blobs: list[tuple[int, bytes]]) -> SimDisk:
    """A log directory with these segments, and none of the other files."""
    disk = SimDisk()
    disk.mkdir("/data")
    disk.mkdir(LOG)
    for base_offset, blob in blobs:
        disk.write_atomic(f"{LOG}/{base_offset:020}.log", blob)
    disk.sync_dir("/data")
    disk.sync_dir("/")
    return disk


def reopen(disk: SimDisk, *, clean: bool, end_offset: int) -> PartitionLog:
    return open_log(disk, LOG, SETTINGS, clean_shutdown=clean, recovery_point=end_offset)


def read_all(log: PartitionLog, start_offset: int = 0) -> bytes:
    blob, offset = b"", start_offset
    while offset < log.end_offset:
        found = b"".join(map(bytes, log.read(offset, 1, log.end_offset, True).buffers))
        *_, (_, header) = iter_headers(found)
        assert header.next_offset > offset
        blob, offset = blob + found, header.next_offset
    return blob


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_an_old_log_opens_and_is_served_as_it_is(magic, codec, clean):
    blob = old_blob(magic, codec)
    log = reopen(old_disk([(0, blob)]), clean=clean, end_offset=36)
    assert (log.start_offset, log.end_offset) == (0, 36)
    assert read_all(log) == blob
    expected = list(read_records(blob))
    for offset in range(36):  # from the middle of a compressed message too
        found = b"".join(map(bytes, log.read(offset, 1 << 20, 36, True).buffers))
        got = list(read_records(found, start_offset=offset))
        assert got == expected[offset:]
    half = b"".join(map(bytes, log.read(0, 1 << 20, 18, True).buffers))
    assert list(read_records(half)) == expected[:18]


@pytest.mark.parametrize("codec", CODECS)
def test_records_are_found_by_their_time(codec):
    log = reopen(old_disk([(0, old_blob(1, codec))]), clean=True, end_offset=36)
    for at in range(36):
        found = log.offset_for_timestamp(NOW_MS + at)
        assert found is not None
        assert (found.offset, found.timestamp_ms, found.leader_epoch) == (at, NOW_MS + at, None)
    assert log.offset_for_timestamp(NOW_MS + 36) is None
    first = log.offset_for_timestamp(0)
    assert first is not None and first.offset == 0


def test_messages_without_times_are_never_found_by_one():
    log = reopen(old_disk([(0, old_blob(0, "gzip"))]), clean=True, end_offset=36)
    assert log.offset_for_timestamp(0) is None


@pytest.mark.parametrize("clean", [True, False])
def test_an_upgraded_log_has_all_formats_and_grows_on(clean):
    v0 = old_blob(0, "gzip", sets=4)
    v1 = b"".join(build_message_set(records(12 + 3 * at, 3), magic=1) for at in range(4))
    disk = old_disk([(0, v0), (12, v1)])
    log = reopen(disk, clean=clean, end_offset=24)
    append(log, make_batch(3), epoch=5)
    append(log, build_batch([(b"k", b"v" * 900)], timestamp_ms=NOW_MS + 99), epoch=6)
    log.close()
    again = reopen(disk, clean=clean, end_offset=28)
    assert again.end_offset == 28
    assert [record.offset for record in read_records(read_all(again))] == list(range(28))
    assert [(entry.epoch, entry.start_offset) for entry in again.epochs] == [(5, 24), (6, 27)]
    found = again.offset_for_timestamp(NOW_MS + 99)
    assert found is not None and (found.offset, found.leader_epoch) == (27, 6)
    again.truncate_to(20)
    assert [record.offset for record in read_records(read_all(again))] == list(range(20))


@pytest.mark.parametrize("codec", CODECS)
def test_an_old_log_cut_at_every_byte_recovers_to_whole_messages(codec):
    blob = old_blob(1, codec, sets=3)
    bounds = {pos + header.size_bytes: header.next_offset for pos, header in iter_headers(blob)}
    for size in range(len(blob) + 1):
        log = reopen(old_disk([(0, blob[:size])]), clean=False, end_offset=0)
        whole = max((end for end in bounds if end <= size), default=0)
        assert log.end_offset == bounds.get(whole, 0)
        assert read_all(log) == blob[:whole]


@pytest.mark.parametrize("codec", CODECS)
def test_every_flipped_bit_is_seen(codec):
    blob = old_blob(1, codec, sets=3)
    expected = list(read_records(blob))
    outside = offset_bytes(blob)  # of the CRC, as they are in batches
    for at in range(8 * len(blob)):
        flipped = bytearray(blob)
        flipped[at // 8] ^= 1 << at % 8
        log = reopen(old_disk([(0, bytes(flipped))]), clean=False, end_offset=0)
        served = list(read_records(read_all(log)))
        if at // 8 in outside:
            continue
        assert served == expected[: len(served)] and len(served) < len(expected)


def offset_bytes(blob: bytes) -> set[int]:
    return {pos + byte for pos, _ in iter_headers(blob) for byte in range(8)}


def test_a_corrupt_message_is_not_served():
    blob = bytearray(old_blob(1, "gzip"))
    blob[200] ^= 4
    newest = bytes(build_message_set(records(36, 3), magic=1))
    log = reopen(old_disk([(0, bytes(blob)), (36, newest)]), clean=True, end_offset=39)
    with pytest.raises(CorruptFileError):
        read_all(log)
    assert read_all(log, 36) == newest


def test_a_follower_takes_messages_from_its_leader():
    blob = old_blob(0, "lz4", sets=2) + b"".join(
        build_message_set(records(6 + 3 * at, 3), magic=1, compression="gzip") for at in range(2)
    )
    disk = old_disk([])
    log = open_log(disk, LOG, SETTINGS)
    follow(log, blob)
    assert log.end_offset == 12
    assert read_all(log) == blob
    append(log, make_batch(1), epoch=3)
    assert log.end_offset == 13


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_indexes_that_lead_elsewhere_cost_time_only(suffix):
    blob = old_blob(1, "none", sets=40)
    for shift in range(1, 60):
        disk = old_disk([(0, blob)])
        log = reopen(disk, clean=False, end_offset=120)
        log.close()
        name = f"{LOG}/{0:020}{suffix}"
        data = bytearray(disk.read(name))
        assert data, "the log is long enough to have an index"
        data[-1] = (data[-1] + shift) % 256
        disk.write_atomic(name, bytes(data))
        again = reopen(disk, clean=True, end_offset=120)
        for offset in (0, 57, 100, 119):
            found = bytes(again.read(offset, 1, 120, True).buffers[0])
            assert [record.offset for record in read_records(found)] == [offset]
