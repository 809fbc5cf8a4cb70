"""Recovery writes once more what it keeps above the recovery point, from what it has checked."""

from __future__ import annotations

import errno

import pytest

from fencepost.batch.header import stamp
from fencepost.log import scanning
from fencepost.log.errors import DurableDataLostError
from fencepost.log.partition_log import PartitionLog
from fencepost.log.scanning import KeptAgain
from fencepost.log.segment import Segment
from fencepost.log.segment_cache import SegmentCache
from fencepost.sim.disk import SimDisk

from .helpers import append, config, contents, follow, make_batch, open_log

LOG = "/data/t-0"
FILE = f"{LOG}/{0:020d}.log"


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk()
    disk.mkdir(LOG)
    disk.sync_dir("/data")
    disk.sync_dir("/")
    return disk


def fail_syncs(disk: SimDisk) -> None:
    disk.fault = lambda operation, path, count: (
        OSError(errno.EIO, "injected") if operation == "sync" and path.endswith(".log") else None
    )


def fill(log: PartitionLog, batches: int, *, with_gaps: bool) -> None:
    for at in range(batches):
        batch = make_batch(1 + at % 2, 20 + 40 * (at % 3), fill=at)
        if with_gaps:  # each is believed only with the batch behind it
            stamp(batch, 0, base_offset=log.end_offset + 2, leader_epoch=0)
            follow(log, batch)
        else:
            append(log, batch)


@pytest.mark.parametrize("chunk_bytes", [70, 150, 300, 1 << 20])
@pytest.mark.parametrize("with_gaps", [False, True])
def test_what_a_failed_sync_has_lost_is_written(disk, monkeypatch, chunk_bytes, with_gaps):
    """The kernel takes it for written, and the next sync succeeds."""
    monkeypatch.setattr(scanning, "_CHUNK_BYTES", chunk_bytes)
    props = config(internal_segment_bytes=700, cleanup_policy="compact")
    log = open_log(disk, LOG, props)
    fill(log, 5, with_gaps=with_gaps)
    log.flush()
    durable = log.recovery_point
    fill(log, 15, with_gaps=with_gaps)
    before = contents(log)
    assert len(log.segment_base_offsets) > 3
    fail_syncs(disk)
    with pytest.raises(OSError, match="injected"):
        log.flush()
    disk.fault = None
    disk.process_death()
    log = open_log(disk, LOG, props, recovery_point=durable)
    assert contents(log) == before
    disk.power_loss()
    assert contents(open_log(disk, LOG, props, recovery_point=log.end_offset)) == before


class Recorded:
    """A segment whose file notes what is written to it."""

    size_bytes = 100

    def __init__(self) -> None:
        self.written: list[tuple[int, bytes]] = []
        self.reads = 0

    @property
    def file(self) -> Recorded:
        return self

    def path(self) -> str:
        return FILE

    def read_at(self, size: int, position: int) -> bytes:
        self.reads += 1
        return bytes(range(position, position + size))

    def write_at(self, data: bytes, position: int) -> None:
        self.written.append((position, bytes(data)))


def test_it_is_written_from_the_buffer_in_which_it_was_checked():
    segment = Recorded()
    kept = KeptAgain(segment)  # type: ignore[arg-type]
    kept.on_read(b"abcdefghij", 0)
    kept.keep(3, is_durable=True)
    kept.keep(5, is_durable=False)
    assert segment.written == []
    kept.keep(9, is_durable=False)
    kept.on_read(b"JKLMN", 9)
    assert segment.written == [(3, b"defghi")]
    kept.keep(12, is_durable=False)
    kept.write()
    kept.write()
    assert segment.written == [(3, b"defghi"), (9, b"JKL")]
    assert segment.reads == 0


def test_what_is_kept_when_its_buffer_is_gone_is_read_once_more():
    segment = Recorded()
    kept = KeptAgain(segment)  # type: ignore[arg-type]
    kept.on_read(b"abcdefghij", 0)
    kept.keep(4, is_durable=False)
    kept.on_read(b"JKLMN", 9)
    kept.keep(9, is_durable=False)
    kept.keep(13, is_durable=False)
    kept.write()
    assert segment.written == [(0, b"abcd"), (4, bytes(range(4, 9))), (9, b"JKLM")]
    kept = KeptAgain(segment)  # type: ignore[arg-type]
    kept.on_read(b"a" * 10, 0)
    kept.on_read(b"b" * 10, 10)
    kept.keep(20, is_durable=True)
    kept.write()
    assert len(segment.written) == 3


def test_what_is_kept_of_a_buffer_that_is_gone_may_end_before_the_next_one():
    segment = Recorded()
    kept = KeptAgain(segment)  # type: ignore[arg-type]
    kept.on_read(b"abcdefghij", 0)
    kept.on_read(b"JKLMN", 9)
    kept.keep(4, is_durable=False)
    kept.write()
    kept.keep(11, is_durable=False)
    kept.write()
    parts = [(0, bytes(range(4))), (4, bytes(range(4, 9))), (9, b"JK")]
    assert segment.written == parts


def test_what_is_written_again_is_synced_before_its_file_may_be_closed(disk, monkeypatch):
    """A writeback that fails is told of once per open file, and not when that is closed."""
    props = config(internal_segment_bytes=700, cleanup_policy="compact")
    log = open_log(disk, LOG, props)
    fill(log, 30, with_gaps=False)
    before, segments = contents(log), len(log.segment_base_offsets)
    disk.process_death()
    unsynced: list[str] = []
    close = Segment.close_file

    def watch(segment: Segment) -> None:
        if any(data is not None for _, data in disk._inode(segment.path()).pending):
            unsynced.append(segment.path())
        close(segment)

    monkeypatch.setattr(Segment, "close_file", watch)
    cache = SegmentCache(files_max=1)
    assert contents(open_log(disk, LOG, props, cache=cache)) == before
    assert segments > 5 and unsynced == []


def test_what_was_durable_is_not_written(disk):
    log = open_log(disk, LOG)
    fill(log, 4, with_gaps=False)
    log.flush()
    durable, position = log.recovery_point, log.size_bytes
    fill(log, 2, with_gaps=False)
    size, before = log.size_bytes, contents(log)
    log.flush()
    disk.process_death()
    pending: list[list[tuple[int, int]]] = []

    def watch(operation: str, path: str, count: int) -> None:
        if operation == "sync" and path == FILE:
            changes = disk._inode(FILE).pending
            pending.append([(at, at + len(data)) for at, data in changes if data is not None])

    disk.fault = watch
    assert contents(open_log(disk, LOG, recovery_point=durable)) == before
    assert pending == [[(position, size), (size - 1, size)]]
    disk.process_death()
    pending.clear()
    assert contents(open_log(disk, LOG, recovery_point=log.end_offset)) == before
    assert pending == [[(size - 1, size)]], "a byte, for the block that it lies in"


def test_a_log_that_is_refused_leaves_no_file_open(disk):
    log = open_log(disk, LOG)
    for _ in range(3):
        append(log, make_batch(2))
    log.flush()
    log.close(clean=False)
    cache = SegmentCache()
    with pytest.raises(DurableDataLostError, match="no batch ends at offset 3"):
        open_log(disk, LOG, recovery_point=3, cache=cache)
    assert (disk.open_files, len(cache)) == (0, 0)
    assert len(contents(open_log(disk, LOG, recovery_point=4, cache=cache))) == 3


def test_an_error_of_the_disk_while_writing_is_the_callers(disk):
    log = open_log(disk, LOG)
    fill(log, 3, with_gaps=False)
    disk.process_death()
    disk.fault = lambda operation, path, count: (
        OSError(errno.ENOSPC, "injected") if operation == "write" and path == FILE else None
    )
    with pytest.raises(OSError, match="injected"):
        open_log(disk, LOG)
    assert disk.open_files == 0
