"""A log that grows: batches of leaders and followers, new segments, room reserved for them."""

from __future__ import annotations

import errno

import pytest

from fencepost.batch.header import check_crc, read_header, stamp
from fencepost.batch.record_batch import RecordBatch, iter_batches
from fencepost.batch.records import read_records
from fencepost.log import rolling
from fencepost.log.disk import OsDisk
from fencepost.log.errors import (
    CorruptFileError,
    LogFailedError,
    UnexpectedOffsetError,
)
from fencepost.log.load_params import LoadLogParams
from fencepost.log.partition_log import PartitionLog
from fencepost.log.rolling import ANY_MS, NO_MS
from fencepost.log.segment_cache import SegmentCache
from fencepost.sim.disk import SimDisk

from .filled_logs import SMALL, data_disk, filled
from .helpers import (
    NOW_MS,
    append,
    apply_retention,
    config,
    contents,
    follow,
    make_batch,
    open_log,
)


@pytest.fixture
def disk() -> SimDisk:
    return data_disk()


# ---- appending


def test_a_leader_stamps_offsets_and_epoch_in_place(disk):
    log = open_log(disk, "/data/t-0")
    first = make_batch(3)
    result = append(log, first, epoch=7)
    assert result == (0, 2, -1, 0)
    second = memoryview(make_batch(2))
    assert log.append_as_leader(RecordBatch.parse(second), 8, NOW_MS) == (3, 4, -1, 0)
    assert log.end_offset == 5
    header = read_header(second)
    assert (header.base_offset, header.partition_leader_epoch) == (3, 8)
    assert check_crc(second, 0, header)
    assert contents(log) == [(0, bytes(first)), (3, bytes(second))]
    assert list(log.epochs) == [(7, 0), (8, 3)]
    assert disk.read("/data/t-0/00000000000000000000.log") == bytes(first) + bytes(second)


def test_log_append_time_is_the_leaders(disk):
    log = open_log(disk, "/data/t-0", config(message_timestamp_type="LogAppendTime"))
    batch = make_batch(2, timestamp_ms=5)
    assert append(log, batch, wall_ms=777).log_append_time_ms == 777
    header = read_header(batch)
    assert header.is_log_append_time
    assert header.max_timestamp == 777
    assert check_crc(batch, 0, header)
    assert {record.timestamp_ms for record in read_records(batch)} == {777}
    assert log.max_timestamp() == (0, 777, 0)
    log.config = config()
    batch = make_batch(1, timestamp_ms=5)
    assert append(log, batch, wall_ms=888).log_append_time_ms == -1
    assert read_header(batch).max_timestamp == 5


def test_a_follower_takes_what_the_leader_stamped(disk):
    leader = filled(disk, 12)
    follower = open_log(disk, "/data/u-0", config(**SMALL))
    data = b"".join(data for _, data in contents(leader))
    results = [follower.append_as_follower(each, NOW_MS) for each in iter_batches(data + data[:50])]
    assert results[0] == (0, 0, -1, 0)
    assert results[-1].last_offset == leader.end_offset - 1
    assert contents(follower) == contents(leader)
    assert list(follower.epochs) == list(leader.epochs)


def test_a_follower_accepts_gaps_that_compaction_left(disk):
    log = open_log(disk, "/data/t-0")
    batch = make_batch(2)
    batch[0:8] = (10).to_bytes(8)
    follow(log, batch)
    assert log.end_offset == 12
    batch[0:8] = (50).to_bytes(8)
    follow(log, batch)
    assert log.end_offset == 52
    assert log.read(20, 1000, 52).first_offset == 50
    assert log.read(0, 1000, 52).first_offset == 10


def test_a_follower_refuses_what_does_not_continue_its_log(disk):
    log = open_log(disk, "/data/t-0")
    append(log, make_batch(5))
    batch = make_batch(2)
    batch[0:8] = (4).to_bytes(8)
    with pytest.raises(UnexpectedOffsetError):
        follow(log, batch)
    batch[0:8] = (5).to_bytes(8)
    batch[-1] ^= 1
    with pytest.raises(CorruptFileError, match="CRC"):
        follow(log, batch)
    assert log.end_offset == 5
    assert len(contents(log)) == 1


def test_a_closed_log_says_so(disk):
    log = filled(disk, 3)
    log.close()
    log.close()
    for call in (
        lambda: append(log),
        lambda: log.read(0, 10, 10),
        lambda: log.measure(0, 10, 10),
        lambda: log.batch_start(0),
        lambda: log.first_damaged(0),
        lambda: log.is_framed(0),
        lambda: log.aborted_transactions(0, 10),
        lambda: log.has_aborted_transactions(0),
        lambda: log.offset_for_timestamp(0),
        lambda: log.batch_by_timestamp(0, 0),
        lambda: log.batch_by_max_timestamp(0),
        lambda: log.max_timestamp(),
        lambda: log.flush(),
        lambda: log.begin_flush().run(),
        lambda: log.truncate_to(0),
        lambda: list(log.read_all_batches(0, 1)),
        lambda: apply_retention(log, 0, 0),
    ):
        with pytest.raises(LogFailedError, match="closed"):
            call()


# ---- rolling


def base_offsets(disk: SimDisk, directory: str = "/data/t-0") -> list[int]:
    return [int(name[:20]) for name in disk.list(directory) if name.endswith(".log")]


def test_rolls_by_size(disk):
    log = filled(disk, 30)
    assert len(log.segment_base_offsets) > 4
    assert base_offsets(disk) == log.segment_base_offsets
    for base in log.segment_base_offsets[:-1]:
        assert disk.size(f"/data/t-0/{base:020d}.log") <= 600
    snapshots = [int(name[:20]) for name in disk.list("/data/t-0") if name.endswith(".snapshot")]
    assert snapshots == log.segment_base_offsets[1:]


def test_a_batch_larger_than_a_segment_gets_its_own(disk):
    log = open_log(disk, "/data/t-0", config(internal_segment_bytes=200))
    for _ in range(3):
        append(log, make_batch(1, 500))
    assert log.segment_base_offsets == [0, 1, 2]


def test_rolls_by_the_records_time_or_the_clock(disk):
    log = open_log(disk, "/data/t-0", config(segment_ms=1000))
    append(log, make_batch(timestamp_ms=5000))
    append(log, make_batch(timestamp_ms=6000))
    assert log.segment_base_offsets == [0]
    append(log, make_batch(timestamp_ms=6001))
    assert log.segment_base_offsets == [0, 2]
    log = open_log(disk, "/data/u-0", config(segment_ms=1000))
    untimed = make_batch(timestamp_ms=-1)
    append(log, untimed, wall_ms=NOW_MS + 5)
    append(log, make_batch(timestamp_ms=-1), wall_ms=NOW_MS + 1000)
    assert log.segment_base_offsets == [0]
    append(log, make_batch(timestamp_ms=-1), wall_ms=NOW_MS + 1001)
    assert log.segment_base_offsets == [0, 2]


def test_what_is_collected_begins_no_segment(disk, monkeypatch):
    monkeypatch.setattr(rolling, "COLLECTED_BYTES", 500)
    monkeypatch.setattr(rolling, "COLLECTED_BATCHES", 4)
    log = open_log(disk, "/data/t-0", config(segment_ms=1000, internal_segment_bytes=1000))
    assert log.newest_collected_ms(NOW_MS) == NO_MS, "its age is that of its first batch"
    append(log, make_batch(timestamp_ms=5000))
    assert log.newest_collected_ms(NOW_MS) == 6000
    for _ in range(4):
        append(log, make_batch(timestamp_ms=6000))
    append(log, make_batch(timestamp_ms=-1))
    assert log.segment_base_offsets == [0]
    while log.size_bytes <= 500:
        assert log.newest_collected_ms(NOW_MS) == 6000
        append(log, make_batch())
    assert log.newest_collected_ms(NOW_MS) == NO_MS, "it is nearly full"
    log.fail("no disk")
    assert log.newest_collected_ms(NOW_MS) == NO_MS


def test_timestamps_that_say_nothing_of_an_age(disk, monkeypatch):
    monkeypatch.setattr(rolling, "COLLECTED_BYTES", 500)
    for name, kinds in (("t", {"message_timestamp_type": "LogAppendTime"}), ("u", {})):
        log = open_log(disk, f"/data/{name}-0", config(segment_ms=1000, **kinds))
        append(log, make_batch(timestamp_ms=-1), wall_ms=NOW_MS)
        assert log.newest_collected_ms(NOW_MS + 1000) == ANY_MS
        assert log.newest_collected_ms(NOW_MS + 1001) == NO_MS
    log = open_log(disk, "/data/v-0", config(segment_ms=(1 << 63) - 1))
    append(log, make_batch(timestamp_ms=5000))
    assert log.newest_collected_ms(NOW_MS) == ANY_MS


def test_what_is_collected_leaves_room_in_indexes_and_offsets(disk):
    few = open_log(disk, "/data/t-0", config(segment_index_bytes=8 * 4096))
    append(few, make_batch())
    assert few.newest_collected_ms(NOW_MS) == NO_MS, "an index could be full"
    log = open_log(disk, "/data/u-0", config())
    far = bytearray(make_batch(timestamp_ms=5000))
    for offset, newest_ms in (((1 << 31) - (4 << 20) - 2, False), ((1 << 31) - (4 << 20), True)):
        stamp(far, 0, base_offset=offset, leader_epoch=0)
        log.append_as_follower(RecordBatch.parse(far), NOW_MS)
        assert (log.newest_collected_ms(NOW_MS) == NO_MS) is newest_ms, "an offset could be too far"


def test_jitter_takes_off_some_of_the_time_always_the_same(disk):
    def rolls_at(partition: int) -> int:
        log = PartitionLog.open(
            disk, f"/data/j-{partition}", "j", partition,
            config(segment_ms=100_000, segment_jitter_ms=90_000), LoadLogParams(wall_ms=NOW_MS),
        )  # fmt: skip
        append(log, make_batch(timestamp_ms=0))
        for time in range(0, 100_001, 1000):
            append(log, make_batch(timestamp_ms=time))
            if len(log.segment_base_offsets) > 1:
                log.delete(f"{time:032d}")
                return time
        raise AssertionError("did not roll")

    times = [rolls_at(partition) for partition in range(5)]
    assert times == [rolls_at(partition) for partition in range(5)]
    assert len(set(times)) > 1
    assert min(times) > 9_000


def test_rolls_when_an_index_is_full(disk):
    log = open_log(disk, "/data/t-0", config(segment_index_bytes=36, index_interval_bytes=0))
    for at in range(20):
        append(log, make_batch(timestamp_ms=1000 + at))
    # the time index of 3 entries is full with 2, the third is for the close
    assert log.segment_base_offsets == [0, 3, 6, 9, 12, 15, 18]


def test_rolls_when_a_relative_offset_would_overflow(disk):
    log = open_log(disk, "/data/t-0")
    batch = make_batch(2)
    append(log, make_batch(2))
    batch[0:8] = (1 << 31).to_bytes(8)
    follow(log, batch)
    assert log.segment_base_offsets == [0, 2]  # 2**31 + 1 - 2 just fits
    batch[0:8] = (1 << 40).to_bytes(8)
    follow(log, batch)
    assert log.segment_base_offsets == [0, 2, 1 << 40]
    assert log.end_offset == (1 << 40) + 2
    log.flush()
    again = open_log(disk, "/data/t-0", recovery_point=0)
    assert [base for base, _ in contents(again)] == [0, 1 << 31, 1 << 40]
    empty = open_log(disk, "/data/u-0")
    follow(empty, batch)
    assert empty.segment_base_offsets == [0, 1 << 40]
    assert empty.read(0, 1 << 20, empty.end_offset).first_offset == 1 << 40


def test_an_empty_segment_is_not_rolled(disk):
    log = open_log(disk, "/data/t-0")
    log.roll(NOW_MS)
    append(log)
    log.roll(NOW_MS)
    log.roll(NOW_MS)
    assert log.segment_base_offsets == [0, 1]


def test_with_the_brokers_time_that_of_the_records_rolls_nothing(disk):
    props = {"segment_ms": 1000, "message_timestamp_type": "LogAppendTime"}
    log = open_log(disk, "/data/t-0", config(**props))
    append(log, make_batch(timestamp_ms=5), wall_ms=NOW_MS)
    header = read_header(make_batch(timestamp_ms=2 * NOW_MS))
    assert log.has_files_for(header, NOW_MS)
    log.prepare_append(header, NOW_MS)
    assert log.segment_base_offsets == [0]
    assert not log.has_files_for(header, NOW_MS + 1001)
    log.prepare_append(header, NOW_MS + 1001)
    assert log.segment_base_offsets == [0, 1]


def test_a_segment_is_begun_when_the_names_of_those_in_front_are_durable(disk):
    log = open_log(disk, "/data/t-0")
    append(log)
    log.roll(NOW_MS)
    append(log)
    disk.operations.clear()
    log.roll(NOW_MS)
    names = [path for operation, path in disk.operations if operation == "sync_dir"]
    assert names[0] == "/data/t-0", "that of the second segment, which no flush has made durable"
    assert disk.operations.index(("sync_dir", "/data/t-0")) < disk.operations.index(
        ("create", f"/data/t-0/{2:020d}.log")
    )


def test_a_roll_for_which_there_is_no_descriptor_fails_no_log(disk):
    log = open_log(disk, "/data/t-0")
    append(log)
    log.roll(NOW_MS)
    append(log)

    def fail(number: int) -> None:
        error = OSError(number, "no")
        disk.fault = lambda operation, path, count: error if operation == "sync_dir" else None
        with pytest.raises(OSError, match="no"):
            log.roll(NOW_MS)
        disk.fault = None

    fail(errno.EMFILE)
    assert log.failure is None
    append(log)
    fail(errno.EIO)
    assert log.failure == "a directory could not be synced: [Errno 5] no"


def test_a_roll_closes_no_file_that_a_flush_has_to_sync(disk):
    log = open_log(disk, "/data/t-0", cache=SegmentCache(files_max=6))
    append(log)
    log.roll(NOW_MS)
    append(log)
    job = log.begin_flush()
    for _ in range(2):  # beyond what may wait for a flush
        log.roll(NOW_MS)
        append(log)
    job.run()
    log.finish_flush(job)
    assert log.recovery_point == 2
    log.flush()
    assert log.recovery_point == 4


# ---- preallocate


def test_room_for_a_segment_is_reserved_and_given_back(tmp_path):
    path = tmp_path / "t-0"
    log = open_log(OsDisk(), str(path), config(preallocate=True, internal_segment_bytes=1 << 20))
    first = path / f"{0:020}.log"
    if not first.stat().st_blocks:
        pytest.skip("this file system reserves no room")
    assert first.stat().st_size == 0
    assert first.stat().st_blocks * 512 >= 1 << 20
    append(log, make_batch(1, 5000))
    log.roll(NOW_MS)
    assert first.stat().st_size == log.size_bytes
    assert first.stat().st_blocks * 512 < 1 << 19
    second = path / f"{1:020}.log"
    assert (second.stat().st_size, second.stat().st_blocks * 512 >= 1 << 20) == (0, True)
    append(log, make_batch(1, 5000))
    before = contents(log)
    log.close(clean=False)
    log = open_log(OsDisk(), str(path), config(preallocate=True))
    assert contents(log) == before
    assert log.recovery.bytes_cut == 0


def test_no_room_for_a_first_segment_leaves_no_file_open():
    disk = SimDisk()
    disk.fault = lambda operation, path, count: OSError("full") if operation == "reserve" else None
    with pytest.raises(OSError, match="full"):
        open_log(disk, "/t-0", config(preallocate=True))
    assert disk.open_files == 0
    disk.fault = None
    append(open_log(disk, "/t-0", config(preallocate=True)))


def test_no_room_for_a_segment_is_an_error_and_the_log_stays_as_it_was():
    disk = SimDisk()
    log = open_log(disk, "/t-0", config(preallocate=True))
    append(log)
    open_files = disk.open_files
    disk.fault = lambda operation, path, count: OSError("full") if operation == "reserve" else None
    with pytest.raises(OSError, match="full"):
        log.roll(NOW_MS)
    disk.fault = None
    assert log.segment_base_offsets == [0] and disk.open_files == open_files
    append(log)
    log.roll(NOW_MS)
    assert log.segment_base_offsets == [0, 2]
