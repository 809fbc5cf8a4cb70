"""A log in good weather: appending, rolling, reading, looking up, cutting, retention."""

from __future__ import annotations

import random
import tracemalloc

import pytest

from fencepost.batch.header import check_crc, read_header, stamp
from fencepost.batch.record_batch import RecordBatch, iter_batches
from fencepost.batch.records import BatchBuilder, build_batch, read_records
from fencepost.log import rolling
from fencepost.log.disk import OsDisk
from fencepost.log.errors import (
    CorruptFileError,
    InconsistentTopicIdError,
    LogFailedError,
    OffsetOutOfRange,
    UnexpectedOffsetError,
)
from fencepost.log.load_params import LoadLogParams
from fencepost.log.partition_log import PartitionLog
from fencepost.log.rolling import ANY_MS, NO_MS
from fencepost.sim.disk import SimDisk
from fencepost.wire.types import Uuid

from .helpers import (
    NOW_MS,
    append,
    apply_retention,
    config,
    contents,
    follow,
    headers_of,
    make_batch,
    open_log,
)

SMALL = {"internal_segment_bytes": 600, "index_interval_bytes": 200}


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk()
    disk.mkdir("/data")
    disk.sync_dir("/")
    return disk


def filled(disk, count: int = 30, directory: str = "/data/t-0", **props) -> PartitionLog:
    """A log of `count` batches with 1 to 4 records each, in many small segments."""
    log = open_log(disk, directory, config(**{**SMALL, **props}))
    for at in range(count):
        append(log, make_batch(at % 4 + 1, 30, timestamp_ms=1000 + at * 10), epoch=at // 10)
    return log


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
        lambda: log.flush(),
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


# ---- reading


def test_reads_agree_with_a_model_whatever_is_asked(disk):
    log = filled(disk, 60)
    batches = contents(log)
    dice = random.Random(5)
    for _ in range(600):
        offset = dice.randrange(log.end_offset + 1)
        bound = dice.randrange(log.end_offset + 3)
        max_bytes = dice.choice([0, 1, 100, 150, 333, 1000, 10**9])
        min_one = dice.random() < 0.5
        result = log.read(offset, max_bytes, bound, min_one)
        data = b"".join(bytes(part) for part in result.buffers)
        assert len(data) == result.size_bytes
        found = headers_of(data)
        assert sum(header.size_bytes for header in found) == len(data)
        eligible = [
            (base, batch)
            for base, batch in batches
            if read_header(batch).last_offset >= offset and read_header(batch).last_offset < bound
        ]
        assert [header.base_offset for header in found] == [
            base for base, _ in eligible[: len(found)]
        ]
        assert result.first_offset == (found[0].base_offset if found else offset)
        if len(data) > max_bytes:
            assert min_one
            assert len(found) == 1
        if eligible and min_one:
            assert found
        if eligible and len(eligible[0][1]) <= max_bytes:
            assert found
        if found and found != eligible and len(data) <= max_bytes:
            # stopped at the end of a segment or because the next did not fit
            following = batches[batches.index(eligible[len(found) - 1]) + 1 :]
            if following:
                next_base, next_batch = following[0]
                assert (
                    next_base in log.segment_base_offsets
                    or len(data) + len(next_batch) > max_bytes
                    or read_header(next_batch).last_offset >= bound
                )


def test_a_batch_in_the_middle_of_which_the_offset_lies_comes_whole(disk):
    log = open_log(disk, "/data/t-0")
    batch = make_batch(10)
    append(log, batch)
    result = log.read(7, 1, 10)
    assert result.first_offset == 0
    assert bytes(result.buffers[0]) == bytes(batch)
    assert log.read(7, 1, 9).size_bytes == 0  # its end lies beyond the bound
    assert log.read(7, 1, 10, min_one_batch=False).size_bytes == 0


def test_reads_outside_of_the_log(disk):
    log = filled(disk, 30)
    end = log.end_offset
    assert log.read(end, 1000, end).size_bytes == 0
    log.advance_start_offset(20)
    for offset in (-1, 19, end + 1):
        with pytest.raises(OffsetOutOfRange) as raised:
            log.read(offset, 1000, end)
        assert (raised.value.start_offset, raised.value.end_offset) == (20, end)
        with pytest.raises(OffsetOutOfRange):
            list(log.read_all_batches(offset, end))


def test_all_batches_between_two_offsets(disk):
    log = filled(disk, 40)
    everything = contents(log)
    for begin in (0, 13, 50, log.end_offset):
        for upto in (0, 14, 60, log.end_offset, log.end_offset + 5):
            found = [
                (header.base_offset, bytes(b)) for header, b in log.read_all_batches(begin, upto)
            ]
            assert found == [
                (base, data)
                for base, data in everything
                if read_header(data).last_offset >= begin and read_header(data).last_offset < upto
            ]


def test_a_long_log_is_replayed_in_chunks(disk):
    log = open_log(disk, "/data/t-0")
    for _ in range(5):
        append(log, make_batch(3, 300_000))
        append(log, make_batch(1, 2_000_000))
    assert [base for base, _ in contents(log)] == [0, 3, 4, 7, 8, 11, 12, 15, 16, 19]


def test_measure_is_what_reads_give(disk):
    log = filled(disk, 40)
    end = log.end_offset
    for offset in (0, 13, 50, end):
        for bound in (0, 20, end):
            batches = [
                data
                for base, data in contents(log)
                if read_header(data).last_offset >= offset and read_header(data).last_offset < bound
            ]
            assert log.measure(offset, 10**9, bound) == sum(map(len, batches))


# ---- timestamps


def linear_search(log: PartitionLog, timestamp_ms: int):
    for _, data in contents(log):
        for record in read_records(data):
            if record.timestamp_ms >= timestamp_ms and record.offset >= log.start_offset:
                epoch = read_header(data).partition_leader_epoch
                return (record.offset, record.timestamp_ms, epoch)
    return None


def test_timestamps_are_found_as_by_a_linear_search(disk):
    log = open_log(disk, "/data/t-0", config(**SMALL))
    dice = random.Random(3)
    for at in range(60):
        items = [(b"k", b"v" * 20, (), dice.randrange(500)) for _ in range(dice.randrange(1, 5))]
        batch = build_batch([(key, value) for key, value, _, _ in items], timestamp_ms=500 + at)
        if at % 3 == 0:
            batch = build_batch([(b"k", b"v")], timestamp_ms=dice.randrange(1000))
        append(log, batch, epoch=at // 20)
    for start in (0, 17, 60):
        log.advance_start_offset(start)
        for timestamp in range(0, 1010, 7):
            assert log.offset_for_timestamp(timestamp) == linear_search(log, timestamp)
    log.close()
    log = open_log(disk, "/data/t-0", config(**SMALL), clean_shutdown=True,
                   recovery_point=log.end_offset, start_offset=60)  # fmt: skip
    for timestamp in range(0, 1010, 7):
        assert log.offset_for_timestamp(timestamp) == linear_search(log, timestamp)


def test_a_search_by_time_makes_nothing_of_the_records_it_passes(disk):
    """A few bytes can be a hundred thousand records."""
    count = 100_000
    builder = BatchBuilder(compression="zstd")
    for at in range(count):
        builder.append(None, None, timestamp_ms=1 + (at == count - 1))
    log = open_log(disk, "/data/t-0")
    follow(log, builder.build())
    tracemalloc.start()
    try:
        assert log.offset_for_timestamp(2)[:2] == (count - 1, 2)
        assert log.offset_for_timestamp(3) is None
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 30 * count


def test_the_largest_timestamp_is_found(disk):
    log = open_log(disk, "/data/t-0", config(**SMALL))
    assert log.max_timestamp() is None
    assert log.offset_for_timestamp(0) is None
    largest = 0
    for at, timestamp in enumerate([5, 9, 3, 40, 12, 40, 7] * 4):
        append(log, make_batch(2, timestamp_ms=timestamp), epoch=2)
        largest = max(largest, timestamp)
        first_at = [5, 9, 3, 40].index(largest) if largest in (5, 9, 40) else 0
        assert log.max_timestamp() == (first_at * 2 + 0, largest, 2) or at > 0
    # every record of a batch has the batch's timestamp here: the first of the first such batch
    assert log.max_timestamp() == (6, 40, 2)


def test_an_entry_without_an_epoch(disk):
    log = open_log(disk, "/data/t-0")
    batch = make_batch(1, timestamp_ms=5)
    follow(log, batch)  # epoch -1
    assert log.offset_for_timestamp(0) == (0, 5, None)


# ---- cutting


@pytest.mark.parametrize("target", [0, 1, 5, 33, 34, 50, 74])
def test_truncation(disk, target):
    log = filled(disk, 30)
    before = contents(log)
    log.flush()
    log.truncate_to(target)
    kept = [(base, data) for base, data in before if read_header(data).last_offset < target]
    assert contents(log) == kept
    end = kept[-1][0] + read_header(kept[-1][1]).last_offset_delta + 1 if kept else 0
    assert log.end_offset == end
    assert log.recovery_point <= end
    assert all(entry.start_offset < end for entry in log.epochs)
    disk.power_loss()
    again = open_log(disk, "/data/t-0", config(**SMALL), recovery_point=log.recovery_point)
    assert contents(again) == kept
    append(again, make_batch(4), epoch=9)
    assert contents(again)[:-1] == kept
    assert again.read(end, 1, again.end_offset).first_offset == end


def test_truncation_beyond_the_end_is_nothing(disk):
    log = filled(disk, 5)
    operations = len(disk.operations)
    log.truncate_to(log.end_offset)
    log.truncate_to(10**9)
    assert len(disk.operations) == operations


def test_truncation_at_the_end_forgets_an_epoch_without_records(disk):
    """Its leader wrote nothing, and the new one has never heard of it: a follower that goes on
    naming it would be told for ever that its log diverges at its end."""
    log = filled(disk, 5)
    end_offset, epoch = log.end_offset, log.epochs.latest_epoch()
    log.epochs.assign(epoch + 1, end_offset)
    log.truncate_to(end_offset + 1)
    assert log.epochs.latest_epoch() == epoch + 1, "nothing ends there"
    log.truncate_to(end_offset)
    assert (log.end_offset, log.epochs.latest_epoch()) == (end_offset, epoch)


def test_a_flush_that_runs_across_a_truncation_promises_nothing_of_what_came_after(disk):
    log = filled(disk, 10)
    end = log.end_offset
    job = log.begin_flush()
    log.truncate_to(5)
    for _ in range(30):
        append(log)
    assert log.end_offset > end
    job.run()
    log.finish_flush(job)
    assert log.recovery_point == job.end_offset <= 5


def test_full_truncation(disk):
    log = filled(disk, 30)
    log.flush()
    log.truncate_fully_and_start_at(500)
    assert (log.start_offset, log.end_offset, log.recovery_point) == (500, 500, 500)
    assert log.segment_base_offsets == [500]
    assert list(log.epochs) == []
    assert list(log.producers.active()) == []
    assert contents(log) == []
    append(log, epoch=3)
    assert log.read(500, 1, 501).first_offset == 500
    log.truncate_fully_and_start_at(7)
    assert (log.start_offset, log.end_offset) == (7, 7)
    append(log, epoch=3)
    log.flush()
    disk.power_loss()
    again = open_log(disk, "/data/t-0", start_offset=7, recovery_point=8)
    assert (again.start_offset, again.end_offset) == (7, 8)


def test_producers_are_those_of_what_is_left(disk):
    log = open_log(disk, "/data/t-0", config(**SMALL))
    kept = []
    for at in range(20):
        batch = make_batch(1, producer_id=at % 3, producer_epoch=0, base_sequence=at // 3)
        append(log, batch)
        kept.append(read_header(batch))
    log.truncate_to(10)
    for header in kept[7:10]:
        assert log.producers.check(header).first_offset == header.base_offset
    for header in kept[10:13]:
        assert log.producers.check(header).is_ok


def test_start_offset_advances(disk):
    log = filled(disk, 30)
    before = contents(log)
    bases = log.segment_base_offsets
    log.advance_start_offset(bases[2] + 1)
    assert log.start_offset == bases[2] + 1
    assert log.segment_base_offsets == bases[2:]
    log.advance_start_offset(3)
    assert log.start_offset == bases[2] + 1
    assert contents(log) == [
        (base, data) for base, data in before if read_header(data).last_offset > bases[2]
    ]
    assert log.epochs.earliest().start_offset == log.start_offset
    with pytest.raises(OffsetOutOfRange):
        log.advance_start_offset(log.end_offset + 1)
    log.advance_start_offset(log.end_offset)
    assert log.segment_base_offsets == bases[-1:]
    assert contents(log) == []
    append(log, epoch=5)
    assert log.read(log.start_offset, 1, log.end_offset).size_bytes > 0


def test_deleted_files_wait_under_another_name(disk):
    log = filled(disk, 30, file_delete_delay_ms=1000)
    log.advance_start_offset(log.segment_base_offsets[2])
    deleted = [name for name in disk.list("/data/t-0") if name.endswith(".deleted")]
    assert len(deleted) == 7  # two segments with two indexes each, and a snapshot
    assert log.delete_old_files(5000) == 0
    assert log.delete_old_files(5999) == 0
    assert log.delete_old_files(6000) == 7
    assert not [name for name in disk.list("/data/t-0") if name.endswith(".deleted")]
    log.advance_start_offset(log.segment_base_offsets[1])
    log.close()
    assert not [name for name in disk.list("/data/t-0") if name.endswith(".deleted")]


# ---- retention


def test_retention_by_time(disk):
    log = filled(disk, 30, retention_ms=100)
    bases = log.segment_base_offsets
    assert apply_retention(log, 1100, log.end_offset) == 0
    newest_of_first = max(
        read_header(data).max_timestamp for base, data in contents(log) if base < bases[1]
    )
    assert apply_retention(log, newest_of_first + 100, log.end_offset) == 0
    assert apply_retention(log, newest_of_first + 101, log.end_offset) == 1
    assert log.start_offset == bases[1]
    assert log.segment_base_offsets == bases[1:]


def test_retention_never_reaches_the_high_watermark(disk):
    log = filled(disk, 30, retention_ms=1)
    bases = log.segment_base_offsets
    assert apply_retention(log, 10**12, bases[2] - 1) == 1
    assert apply_retention(log, 10**12, bases[2]) == 1
    assert log.segment_base_offsets == bases[2:]


def test_retention_can_empty_the_log(disk):
    log = filled(disk, 30, retention_ms=1)
    end = log.end_offset
    count = len(log.segment_base_offsets)
    assert apply_retention(log, 10**12, end) == count
    assert log.segment_base_offsets == [end]
    assert (log.start_offset, log.end_offset) == (end, end)
    assert apply_retention(log, 10**12, end) == 0
    log.flush()
    disk.power_loss()
    again = open_log(disk, "/data/t-0", recovery_point=end, start_offset=end)
    assert (again.start_offset, again.end_offset) == (end, end)


def test_retention_by_size(disk):
    log = filled(disk, 30, retention_bytes=1500)
    sizes = {base: disk.size(f"/data/t-0/{base:020d}.log") for base in log.segment_base_offsets}
    deleted = apply_retention(log, 0, log.end_offset)
    assert deleted > 0
    assert log.size_bytes >= 1500
    assert log.size_bytes - sizes[log.segment_base_offsets[0]] < 1500


def test_retention_of_records_without_timestamps_goes_by_the_file(disk):
    log = open_log(disk, "/data/t-0", config(retention_ms=100, **SMALL))
    disk.now_ms = 5000
    for _ in range(12):
        append(log, make_batch(1, 100, timestamp_ms=-1), wall_ms=5000)
    assert apply_retention(log, 5100, log.end_offset) == 0
    assert apply_retention(log, 5101, log.end_offset) > 1


def test_nothing_is_old_without_the_delete_policy(disk):
    log = filled(disk, 30, retention_ms=1, retention_bytes=1, cleanup_policy="compact")
    assert apply_retention(log, 10**12, log.end_offset) == 0
    log.config = config(cleanup_policy="", retention_ms=1)
    assert apply_retention(log, 10**12, log.end_offset) == 0
    log.config = config(retention_ms=-1, retention_bytes=-1)
    assert apply_retention(log, 10**12, log.end_offset) == 0


def test_retention_forgets_no_producer(disk):
    """KAFKA-5355: a retry may come later than the retention."""
    log = open_log(disk, "/data/t-0", config(retention_ms=1))
    batch = make_batch(1, timestamp_ms=NOW_MS, producer_id=4, producer_epoch=0, base_sequence=0)
    append(log, batch)
    apply_retention(log, NOW_MS + 1000, 1)
    assert contents(log) == []
    assert log.producers.check(read_header(batch)).is_duplicate
    log.close()
    log = open_log(disk, "/data/t-0", clean_shutdown=True, recovery_point=1, start_offset=1)
    assert log.producers.check(read_header(batch)).is_duplicate
    log.close()
    late = NOW_MS + 2 * 86_400_000
    log = open_log(disk, "/data/t-0", clean_shutdown=True, recovery_point=1, start_offset=1,
                   wall_ms=late, producer_id_expiration_ms=3 * 86_400_000)  # fmt: skip
    assert log.producers.check(read_header(batch)).is_duplicate
    log.close()
    log = open_log(disk, "/data/t-0", clean_shutdown=True, recovery_point=1, start_offset=1,
                   wall_ms=late)  # fmt: skip
    assert log.producers.check(read_header(batch)).is_ok


# ---- opening again


def test_topic_ids_keep_directories_apart(disk):
    topic_id = Uuid(bytes(15) + b"\7")
    log = open_log(disk, "/data/t-0", topic_id=topic_id)
    assert log.topic_id == topic_id
    append(log)
    log.close()
    with pytest.raises(InconsistentTopicIdError):
        open_log(disk, "/data/t-0", topic_id=Uuid(bytes(15) + b"\x08"))
    assert open_log(disk, "/data/t-0").topic_id == topic_id


def test_a_clean_close_is_opened_without_a_look_at_the_batches(disk):
    log = filled(disk, 30)
    before, end = contents(log), log.end_offset
    epochs = list(log.epochs)
    log.close()
    disk.power_loss()  # clean means durable
    disk.operations.clear()
    again = open_log(disk, "/data/t-0", config(**SMALL), clean_shutdown=True, recovery_point=end)
    reads = [path for operation, path in disk.operations if operation == "read"]
    # the active segment's tail, twice, and a place for each epoch
    assert len([path for path in reads if path.endswith(".log")]) <= 4 + 2 * len(epochs)
    assert not again.recovery.was_unclean
    assert again.recovery.segments_scanned == 0
    assert contents(again) == before
    assert list(again.epochs) == epochs
    assert (again.end_offset, again.recovery_point) == (end, end)
    append(again, epoch=3)
    assert contents(again)[:-1] == before


def test_a_log_that_is_opened_and_closed_again_is_not_written_to(disk):
    log = filled(disk, 5)
    end = log.end_offset
    log.close()
    log = open_log(disk, "/data/t-0", clean_shutdown=True, recovery_point=end)
    disk.operations.clear()
    log.close()
    assert {operation for operation, _ in disk.operations} <= {"read"}


def test_stray_snapshots_go(disk):
    log = filled(disk, 12)
    for _ in range(3):
        log.close()
        log = open_log(disk, "/data/t-0", config(**SMALL), clean_shutdown=True,
                       recovery_point=log.end_offset)  # fmt: skip
        append(log, epoch=1)
    log.close()
    snapshots = {int(name[:20]) for name in disk.list("/data/t-0") if name.endswith(".snapshot")}
    log = open_log(disk, "/data/t-0", clean_shutdown=True, recovery_point=log.end_offset)
    left = {int(name[:20]) for name in disk.list("/data/t-0") if name.endswith(".snapshot")}
    assert left == (set(log.segment_base_offsets[1:]) | {log.end_offset}) & snapshots


def test_many_segments_with_few_open_files(disk):
    from fencepost.log.segment_cache import SegmentCache

    cache = SegmentCache(files_max=4, index_bytes_max=100)
    log = open_log(disk, "/data/t-0", config(**SMALL), cache=cache)
    for at in range(60):
        append(log, make_batch(2, 100, timestamp_ms=at))
        if at % 5 == 0:
            log.flush()
    log.flush()
    batches = contents(log)
    assert len(log.segment_base_offsets) > 20
    dice = random.Random(1)
    for _ in range(200):
        base, data = dice.choice(batches)
        assert bytes(log.read(base, 1, log.end_offset).buffers[0]) == data
        assert disk.open_files <= 5
    log.close()
    assert disk.open_files == 0


def test_dirty_segments_stay_open_until_they_are_synced(disk):
    from fencepost.log.segment_cache import SegmentCache

    cache = SegmentCache(files_max=2)
    logs = [open_log(disk, f"/data/t-{at}", cache=cache) for at in range(6)]
    for log in logs:
        append(log)
    assert disk.open_files == 6
    for log in logs:
        log.flush()
    append(logs[0])
    assert disk.open_files <= 3


def test_deleting_a_log_renames_its_directory(disk):
    log = filled(disk, 5)
    path = log.delete("0" * 32)
    assert path == "/data/topic-0." + "0" * 32 + "-delete"
    assert disk.is_dir(path)
    assert not disk.exists("/data/t-0")
    assert disk.open_files == 0


def test_on_a_real_file_system(tmp_path):
    disk = OsDisk()
    directory = str(tmp_path / "t-0")
    log = filled(disk, 40, directory)
    log.flush()
    log.truncate_to(50)
    log.advance_start_offset(20)
    append(log, make_batch(3), epoch=7)
    before, end = contents(log), log.end_offset
    log.close()
    for clean in (True, False):
        log = open_log(disk, directory, config(**SMALL), clean_shutdown=clean,
                       recovery_point=end, start_offset=20)  # fmt: skip
        assert contents(log) == before
        assert log.end_offset == end
        log.close()
    log = open_log(disk, directory, config(**SMALL), start_offset=20)
    assert contents(log) == before
    log.delete("f" * 32)
    assert not (tmp_path / "t-0").exists()


# -- flush.messages -------------------------------------------------------------------------------


def test_a_flush_is_due_when_so_many_records_are_not_durable():
    log = open_log(SimDisk(), "/t-0", config(flush_messages=5))
    append(log, make_batch(4))
    assert not log.flush_is_due
    append(log, make_batch(1))
    assert log.flush_is_due
    log.flush()
    assert not log.flush_is_due
    log.config = config()
    append(log, make_batch(50))
    assert not log.flush_is_due, "by default it never is"


# -- preallocate -----------------------------------------------------------------------------------


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


def test_no_room_for_a_segment_is_an_error_and_the_log_stays_as_it_was():
    disk = SimDisk()
    log = open_log(disk, "/t-0", config(preallocate=True))
    append(log)
    disk.fault = lambda operation, path, count: OSError("full") if operation == "reserve" else None
    with pytest.raises(OSError, match="full"):
        log.roll(NOW_MS)
    disk.fault = None
    assert log.segment_base_offsets == [0]
    append(log)
    log.roll(NOW_MS)
    assert log.segment_base_offsets == [0, 2]


def test_where_a_batch_begins_is_where_the_log_can_be_cut(disk):
    log = open_log(disk, "/data/t-0", config(internal_segment_bytes=300))
    starts = [append(log, make_batch(4, 30)).first_offset for _ in range(6)]
    assert len(log.segment_base_offsets) > 2
    for offset in range(24):
        assert log.batch_start(offset) == offset - offset % 4
    assert log.batch_start(24) == 24
    for offset in (-1, 25):
        with pytest.raises(OffsetOutOfRange):
            log.batch_start(offset)
    for offset in (22, 18, 9):
        cut = log.batch_start(offset)
        log.truncate_to(offset)
        assert log.end_offset == cut and cut in starts
