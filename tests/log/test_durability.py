"""What of a log is durable: the files, names and marks that a flush covers, or does not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencepost.batch.header import read_header
from fencepost.log.durable_end import SYNC_EVERY, DurableEnd
from fencepost.log.partition_log import PartitionLog
from fencepost.sim.disk import SimDisk
from fencepost.wire.types import Uuid

from .filled_logs import data_disk
from .helpers import NOW_MS, append, config, contents, make_batch, open_log

LOG = "/data/t-0"
EPOCHS = f"{LOG}/leader-epoch-checkpoint"
TOPIC_ID = Uuid(bytes(15) + b"\1")


@pytest.fixture
def disk() -> SimDisk:
    return data_disk()


def unlucky_disks() -> Iterator[SimDisk]:
    """Disks of which each loses something else of what was not synced."""
    for seed in range(30):
        disk = data_disk()
        disk.reseed(seed)
        yield disk


def durable_log(disk: SimDisk) -> PartitionLog:
    """A log of which all is durable."""
    log = open_log(disk, LOG)
    append(log)
    log.flush()
    return log


# ---- names


def test_the_first_flush_of_a_log_makes_its_directory_durable():
    for disk in unlucky_disks():
        durable_log(disk)
        disk.power_loss()
        assert disk.is_dir(LOG)
        assert open_log(disk, LOG, recovery_point=1).end_offset == 1


def test_so_does_that_of_a_log_which_was_closed_before_it_had_records():
    for disk in unlucky_disks():
        open_log(disk, LOG, topic_id=TOPIC_ID).close()
        log = open_log(disk, LOG, topic_id=TOPIC_ID, clean_shutdown=True)
        append(log)
        log.flush()
        disk.power_loss()
        again = open_log(disk, LOG, recovery_point=1)
        assert (again.end_offset, again.topic_id) == (1, TOPIC_ID)


def test_so_does_that_of_a_log_whose_first_segment_was_missing():
    for disk in unlucky_disks():
        disk.mkdir(LOG)
        log = open_log(disk, LOG, clean_shutdown=True, start_offset=40, recovery_point=40)
        append(log)
        log.flush()
        disk.power_loss()
        again = open_log(disk, LOG, start_offset=40, recovery_point=41)
        assert [offset for offset, _ in contents(again)] == [40]


def test_a_flush_does_not_cover_the_name_of_a_segment_begun_meanwhile(disk):
    log = durable_log(disk)
    append(log)
    log.roll(NOW_MS)
    job = log.begin_flush()
    append(log)
    log.roll(NOW_MS)
    job.run()
    log.finish_flush(job)
    assert log.begin_flush().directories == [LOG]


def test_names_that_a_truncation_has_made_durable_are_left_alone_by_flushes(disk):
    log = open_log(disk, LOG, topic_id=TOPIC_ID)
    for _ in range(2):
        append(log)
    disk.operations.clear()
    log.truncate_to(1)
    assert {path for what, path in disk.operations if what == "sync_dir"} == {"/data", LOG}
    assert ("sync", f"{LOG}/partition.metadata") in disk.operations
    append(log)
    job = log.begin_flush()
    assert (job.new_files, job.directories) == ([], [LOG]), "for the leader-epoch file"
    assert job.epochs is not None


def test_a_flush_of_nothing_syncs_nothing(disk):
    log = durable_log(disk)
    end = DurableEnd(disk, "/data/t-0.durable-end")
    end.begin()
    log.keep_durable_end(end)
    disk.operations.clear()
    for _ in range(2 * SYNC_EVERY):
        log.flush()
    assert [path for what, path in disk.operations if what == "sync"] == []


def test_a_log_that_has_begun_a_segment_is_closed_with_the_indexes_of_all(disk):
    """Although nothing was appended to it since it was opened."""
    log = durable_log(disk)
    log.close()
    log = open_log(disk, LOG, config(segment_ms=1), clean_shutdown=True, recovery_point=1)
    log.prepare_append(read_header(make_batch(timestamp_ms=5000)), NOW_MS)
    assert log.segment_base_offsets == [0, 1]
    log.close()
    for base_offset in (0, 1):
        for suffix in (".log", ".index", ".timeindex"):
            assert disk.exists(f"{LOG}/{base_offset:020d}{suffix}")


# ---- the leader-epoch file


def test_a_new_epoch_is_in_the_file_whatever_a_crash_takes():
    for disk in unlucky_disks():
        log = durable_log(disk)
        append(log, epoch=7)
        log.flush()
        disk.power_loss()
        assert disk.read(EPOCHS) == b"0\n2\n0 0\n7 1\n"


def test_the_file_of_a_later_flush_is_not_replaced_by_that_of_an_earlier(disk):
    log = durable_log(disk)
    append(log, epoch=1)
    first = log.begin_flush()
    append(log, epoch=2)
    second = log.begin_flush()
    for job in (second, first):
        job.run()
    assert disk.read(EPOCHS) == b"0\n3\n0 0\n1 1\n2 2\n"


def test_a_log_of_which_only_the_epochs_changed_is_closed_with_them(disk):
    log = durable_log(disk)
    append(log, epoch=7)
    log.close()
    log = open_log(disk, LOG, clean_shutdown=True, recovery_point=2)
    log.advance_start_offset(1)
    log.close()
    assert disk.read(EPOCHS) == b"0\n1\n7 1\n"


# ---- the recovery point


def test_the_recovery_point_does_not_go_back_when_flushes_end_in_another_order(disk):
    log = durable_log(disk)
    append(log)
    first = log.begin_flush()
    append(log)
    second = log.begin_flush()
    for job in (second, first):
        job.run()
        log.finish_flush(job)
        assert log.recovery_point == 3
