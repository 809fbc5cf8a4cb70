"""A log in good weather: cutting it, retention, closing it and opening it again."""

from __future__ import annotations

import random

import pytest

from fencepost.batch.header import read_header
from fencepost.log.disk import OsDisk
from fencepost.log.errors import (
    InconsistentTopicIdError,
    OffsetOutOfRange,
)
from fencepost.sim.disk import SimDisk
from fencepost.wire.types import Uuid

from .filled_logs import SMALL, data_disk, filled
from .helpers import (
    NOW_MS,
    append,
    apply_retention,
    config,
    contents,
    make_batch,
    open_log,
)


@pytest.fixture
def disk() -> SimDisk:
    return data_disk()


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


# ---- flush.messages


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
