"""What a log gives out: batches by offset, offsets by timestamp."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable

import pytest

from fencepost.batch.header import BatchHeader, read_header
from fencepost.batch.record import Record
from fencepost.batch.records import BatchBuilder, build_batch, read_records
from fencepost.log.errors import CorruptFileError, OffsetOutOfRange
from fencepost.log.partition_log import PartitionLog
from fencepost.sim.disk import SimDisk
from fencepost.wire.types import Buffer

from .filled_logs import SMALL, data_disk, filled
from .helpers import (
    NOW_MS,
    append,
    config,
    contents,
    follow,
    headers_of,
    make_batch,
    open_log,
)


@pytest.fixture
def disk() -> SimDisk:
    return data_disk()


# ---- batches


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


def test_where_compaction_has_left_nothing_the_log_can_be_cut_anywhere(disk):
    log = open_log(disk, "/data/t-0")
    batch = make_batch(2)
    for base_offset in (10, 50):
        batch[0:8] = base_offset.to_bytes(8)
        follow(log, batch)
    assert [log.batch_start(offset) for offset in (3, 10, 11, 12, 49, 50, 51)] == [
        3, 10, 10, 12, 49, 50, 50,
    ]  # fmt: skip


def test_between_segments_no_offset_is_missing_but_in_a_compacted_topic(disk):
    log = open_log(disk, "/data/t-0")
    for _ in range(3):
        append(log)
    log.roll(NOW_MS)
    append(log)
    log.close()
    first = disk.open(f"/data/t-0/{0:020d}.log")
    first.truncate(first.size() * 2 // 3)
    first.close()

    def gives(log: PartitionLog) -> int:
        return log.read(2, 1000, 4).first_offset

    known = {"clean_shutdown": True, "recovery_point": 4}
    log = open_log(disk, "/data/t-0", **known)
    for policy in ("delete", "compact", "delete"):
        log.config = config(cleanup_policy=policy)
        if policy == "compact":
            assert gives(log) == 3
        else:
            with pytest.raises(CorruptFileError, match="offsets 2 to 2 are missing"):
                gives(log)
            assert [header.base_offset for header, _ in log.read_all_batches(0, 2)] == [0, 1]
    log.close(clean=False)
    assert gives(open_log(disk, "/data/t-0", accept_loss=True, **known)) == 3
    assert gives(open_log(disk, "/data/t-0", cleaned_offset=3, **known)) == 3


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
        count = dice.randrange(1, 5)
        batch = build_batch(
            [Record(0, 400 + at + dice.randrange(200), 0, b"k", b"v" * 20) for _ in range(count)]
        )
        if at % 3 == 0:
            batch = build_batch([(b"k", b"v")], timestamp_ms=dice.randrange(1000))
        append(log, batch, epoch=at // 20)
    for start in (0, 17, 18, 19, 20, 60):  # some of them in the middle of a batch
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


def test_the_largest_timestamp_of_records_without_any_is_that_of_the_first(disk):
    """As in Kafka: -1, which is none, is the largest if no record has another."""
    log = open_log(disk, "/data/t-0", config(**SMALL))
    for _ in range(20):
        append(log, make_batch(3, timestamp_ms=-1), epoch=2)
    assert log.max_timestamp() == (0, -1, 2)
    log.advance_start_offset(31)
    assert log.max_timestamp() == (31, -1, 2)
    append(log, make_batch(1, timestamp_ms=0), epoch=3)
    append(log, make_batch(1, timestamp_ms=-1), epoch=3)
    assert log.max_timestamp() == (60, 0, 3)


def test_an_entry_without_an_epoch(disk):
    log = open_log(disk, "/data/t-0")
    batch = make_batch(1, timestamp_ms=5)
    follow(log, batch)  # epoch -1
    assert log.offset_for_timestamp(0) == (0, 5, None)


def test_batches_to_be_searched_are_given_out_one_after_the_other(disk):
    log = open_log(disk, "/data/t-0")
    for timestamp_ms in (10, 30, 20, 30, 5):
        append(log, make_batch(2, timestamp_ms=timestamp_ms))

    def bases(give: Callable[[int], tuple[Buffer, BatchHeader] | None]) -> list[int]:
        found: list[int] = []
        while (batch := give(len(found))) is not None:
            found.append(batch[1].base_offset)
            assert read_header(batch[0]).base_offset == found[-1]
        return found

    assert bases(lambda skip: log.batch_by_timestamp(20, skip)) == [2, 4, 6]
    assert bases(lambda skip: log.batch_by_timestamp(99, skip)) == []
    # The last is what all headers say, for a batch that compaction has emptied.
    assert bases(log.batch_by_max_timestamp) == [2, 6, 2]
    log.advance_start_offset(4)
    assert bases(lambda skip: log.batch_by_timestamp(20, skip)) == [4, 6]
    assert bases(log.batch_by_max_timestamp) == [6, 6]
