"""A disk that refuses: full, failing, lying about a sync. S89, S90."""

from __future__ import annotations

import errno
import threading

import pytest

from fencepost.log.disk import OsDisk
from fencepost.log.errors import LogDirLockedError, LogFailedError
from fencepost.log.log_dir import LogDir
from fencepost.log.meta import format_log_dir, read_clean_shutdown
from fencepost.sim.disk import SimDisk
from fencepost.wire.types import Uuid

from ..waiting import DEADLINE_S
from .helpers import NOW_MS, append, config, contents, make_batch, open_log

SMALL = config(internal_segment_bytes=500, index_interval_bytes=100)
TOPIC_ID = Uuid(bytes(15) + b"\1")


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk()
    disk.mkdir("/data")
    disk.sync_dir("/")
    return disk


def fail_on(disk: SimDisk, operation: str, error: int, *, nth: int | None = None, path: str = ""):
    """Let the `nth` such operation from now on fail; all of them without a number."""
    seen = sum(1 for done, _ in disk.operations if done == operation)

    def fault(done: str, at: str, count: int) -> OSError | None:
        if done != operation or path not in at:
            return None
        if nth is not None and count != seen + nth:
            return None
        return OSError(error, "injected", at)

    disk.fault = fault


def test_an_append_that_finds_the_disk_full_leaves_no_trace(disk):
    log = open_log(disk, "/data/t-0")
    append(log, make_batch(2))
    before, size = contents(log), log.size_bytes
    fail_on(disk, "write", errno.ENOSPC)
    for _ in range(3):
        with pytest.raises(OSError, match="injected"):
            append(log, make_batch(3))
    assert log.failure is None
    assert (log.end_offset, log.size_bytes) == (2, size)
    assert disk.size("/data/t-0/00000000000000000000.log") == size
    disk.fault = None
    assert contents(log) == before
    assert append(log, make_batch(1)).first_offset == 2
    log.flush()
    disk.power_loss()
    assert open_log(disk, "/data/t-0").end_offset == 3


def test_an_append_that_cannot_be_undone_fails_the_log(disk):
    log = open_log(disk, "/data/t-0")
    append(log)
    disk.fault = lambda operation, path, count: (
        OSError(errno.EIO, "injected") if operation in ("write", "truncate") else None
    )
    with pytest.raises(OSError, match="injected"):
        append(log)
    disk.fault = None
    assert log.failure is not None
    for call in (lambda: append(log), lambda: log.read(0, 1, 1), log.flush, log.close):
        with pytest.raises(LogFailedError, match="offline"):
            call()
    disk.process_death()
    assert open_log(disk, "/data/t-0").end_offset == 1


@pytest.mark.parametrize("nth", range(1, 12))
@pytest.mark.parametrize("operation", ["write", "create", "truncate", "rename", "sync", "sync_dir"])
def test_whatever_fails_in_a_busy_life_the_log_stays_whole(disk, operation, nth):
    log = open_log(disk, "/data/t-0", SMALL, topic_id=TOPIC_ID)
    appended, durable = [], 0

    def live() -> None:
        nonlocal durable
        for at in range(40):
            batch = make_batch(1, 60, timestamp_ms=at, producer_id=1, producer_epoch=0,
                               base_sequence=len(appended))  # fmt: skip
            append(log, batch)
            appended.append(bytes(batch))
            if at % 5 == 4:
                log.flush()
                durable = log.recovery_point

    fail_on(disk, operation, errno.ENOSPC if operation == "write" else errno.EIO, nth=nth)
    failed = False
    try:
        live()
    except OSError:
        failed = True
    disk.fault = None
    if failed and log.failure is None:
        assert [data for _, data in contents(log)] == appended
        append(log)  # a log that has not failed goes on
        appended.append(contents(log)[-1][1])
    disk.power_loss()
    again = open_log(disk, "/data/t-0", SMALL, recovery_point=durable, topic_id=TOPIC_ID)
    found = [data for _, data in contents(again)]
    assert found == appended[: len(found)]
    assert len(found) >= durable


def test_a_failed_sync_is_never_repeated_into_success(disk):
    """fsyncgate: the second sync would succeed, and the data would be gone."""
    log = open_log(disk, "/data/t-0")
    append(log)
    log.flush()
    append(log)
    fail_on(disk, "sync", errno.EIO, nth=1)
    job = log.begin_flush()
    with pytest.raises(OSError, match="injected"):
        job.run()
    assert log.recovery_point == 1
    assert log.failure is not None
    with pytest.raises(LogFailedError):
        log.finish_flush(job)
    with pytest.raises(LogFailedError):
        job.run()
    with pytest.raises(LogFailedError):
        log.begin_flush().run()
    with pytest.raises(LogFailedError):
        log.close()
    assert log.recovery_point == 1
    disk.power_loss()
    assert open_log(disk, "/data/t-0", recovery_point=1).end_offset == 1


@pytest.mark.parametrize("operation", ["truncate", "sync", "sync_dir", "rename", "unlink"])
def test_a_truncation_that_fails_fails_the_log(disk, operation):
    log = open_log(disk, "/data/t-0", SMALL)
    for _ in range(20):
        append(log, make_batch(1, 60))
    log.flush()
    before = contents(log)
    fail_on(disk, operation, errno.EIO, nth=1)
    with pytest.raises(OSError, match="injected"):
        log.truncate_to(4)
    disk.fault = None
    assert log.failure is not None
    disk.process_death()
    again = open_log(disk, "/data/t-0", SMALL)
    found = contents(again)
    assert found == before[: len(found)]
    assert len(found) >= 4


def test_a_deletion_that_fails_fails_the_log(disk):
    log = open_log(disk, "/data/t-0", SMALL)
    for _ in range(20):
        append(log, make_batch(1, 60))
    before = contents(log)
    fail_on(disk, "rename", errno.EIO, nth=2)
    with pytest.raises(OSError, match="injected"):
        log.advance_start_offset(15)
    disk.fault = None
    assert log.failure is not None
    disk.process_death()
    found = contents(open_log(disk, "/data/t-0", SMALL))
    assert found == before[len(before) - len(found) :]


def test_files_are_let_go_of_whatever_happens(disk):
    log = open_log(disk, "/data/t-0", SMALL)
    for _ in range(20):
        append(log, make_batch(1, 60))
    fail_on(disk, "sync", errno.EIO)
    with pytest.raises(OSError, match="injected"):
        log.close()
    assert disk.open_files == 0


# ---- a log directory


def open_dir(disk: SimDisk) -> LogDir:
    if not disk.exists("/data/meta.properties"):
        format_log_dir(disk, "/data", cluster_id="c", node_id=1, directory_id=Uuid(bytes(16)))
    return LogDir.open(disk, "/data")


def test_no_clean_marker_after_a_failure(disk):
    log_dir = open_dir(disk)
    logs = [log_dir.create("t", at, None, config(), wall_ms=NOW_MS) for at in range(3)]
    for log in logs:
        append(log)
    logs[1].fail("told so")
    with pytest.raises(OSError, match="told so"):
        log_dir.close()
    assert read_clean_shutdown(disk, "/data") is None
    log_dir = LogDir.open(disk, "/data")  # the lock is free
    assert not log_dir.was_clean
    log_dir.open_all(lambda topic: config(), wall_ms=NOW_MS)
    assert [log_dir.get("t", at).end_offset for at in range(3)] == [1, 1, 1]


def test_no_clean_marker_when_the_disk_is_full_at_the_end(disk):
    log_dir = open_dir(disk)
    append(log_dir.create("t", 0, None, config(), wall_ms=NOW_MS))
    fail_on(disk, "write", errno.ENOSPC)
    with pytest.raises(OSError, match="injected"):
        log_dir.close()
    disk.fault = None
    assert read_clean_shutdown(disk, "/data") is None
    assert LogDir.open(disk, "/data").was_clean is False


def test_a_checkpoint_that_was_replaced_and_not_synced_is_written_again(disk):
    """It says less than is known to be durable, which a clean end would make look like a loss."""
    log_dir = open_dir(disk)
    log = log_dir.create("t", 0, None, config(), wall_ms=NOW_MS)
    for _ in range(5):
        append(log)
    log.flush()
    log_dir.checkpoint()
    fail_on(disk, "sync_dir", errno.EIO, nth=1)
    with pytest.raises(OSError, match="injected"):
        log.truncate_to(2)
    disk.fault = None
    assert (log.failure, log.end_offset, log.recovery_point) == (None, 5, 5)
    log_dir.close()
    again = LogDir.open(disk, "/data")
    assert again.was_clean
    assert again.create("t", 0, None, config(), wall_ms=NOW_MS).end_offset == 5


def test_no_clean_marker_after_a_recovery_that_the_disk_did_not_allow(disk):
    """S15, KAFKA-13773."""
    log_dir = open_dir(disk)
    append(log_dir.create("t", 0, None, config(), wall_ms=NOW_MS))
    disk.process_death()
    log_dir = LogDir.open(disk, "/data")
    fail_on(disk, "sync", errno.ENOSPC, path="t-0")
    log_dir.open_all(lambda topic: config(), wall_ms=NOW_MS)
    assert list(log_dir.failed) == [("t", 0)]
    disk.fault = None
    log_dir.close()
    assert read_clean_shutdown(disk, "/data") is None


def test_a_directory_that_cannot_be_opened_is_not_kept_locked(disk):
    open_dir(disk).close()
    disk.flip_bit("/data/meta.properties", 40 * 8)
    with pytest.raises(Exception, match=r"meta\.properties"):
        LogDir.open(disk, "/data")
    assert disk.locks == set()


def test_two_cannot_have_one_directory(tmp_path):
    disk = OsDisk()
    format_log_dir(disk, str(tmp_path), cluster_id="c", node_id=1, directory_id=Uuid(bytes(16)))
    log_dir = LogDir.open(disk, str(tmp_path))
    with pytest.raises(LogDirLockedError):
        LogDir.open(disk, str(tmp_path))
    log_dir.close()
    LogDir.open(disk, str(tmp_path)).close()


# ---- threads


def test_appends_go_on_while_a_flush_runs_elsewhere(tmp_path):
    log = open_log(OsDisk(), str(tmp_path / "t-0"), SMALL)
    stop = threading.Event()
    jobs: list = []
    wanted = threading.Semaphore(0)
    done = threading.Semaphore(0)
    errors: list[Exception] = []

    def flusher() -> None:
        while True:
            wanted.acquire()
            if stop.is_set():
                return
            try:
                jobs[-1].run()
            except OSError as error:
                errors.append(error)
            done.release()

    thread = threading.Thread(target=flusher)
    thread.start()
    for round_ in range(60):
        append(log, make_batch(2, 100), epoch=round_ // 10)
        jobs.append(log.begin_flush())
        wanted.release()
        for _ in range(5):
            append(log, make_batch(2, 100), epoch=round_ // 10)
        if round_ % 7 == 3:
            log.advance_start_offset(log.segment_base_offsets[-1])
        if round_ % 11 == 5:
            log.truncate_to(log.end_offset - 4)
        assert done.acquire(timeout=DEADLINE_S)
        log.finish_flush(jobs[-1])
        assert log.recovery_point <= log.end_offset
    stop.set()
    wanted.release()
    thread.join(DEADLINE_S)
    assert not errors
    before, end = contents(log), log.end_offset
    log.close()
    again = open_log(OsDisk(), str(tmp_path / "t-0"), SMALL, recovery_point=end,
                     start_offset=log.start_offset)  # fmt: skip
    assert contents(again) == before


@pytest.mark.parametrize("segments", [SMALL, config()], ids=["many segments", "one segment"])
def test_what_a_failed_sync_left_in_the_cache_is_durable_before_it_is_served(disk, segments):
    """The process ends, the machine does not: the kernel counts those pages as written.

    The next sync succeeds and proves nothing, unless the pages are written again.
    """
    log = open_log(disk, "/data/t-0", segments, topic_id=TOPIC_ID)
    for _ in range(5):
        append(log, make_batch(3, 60))
    log.flush()
    recovery_point = log.recovery_point
    for _ in range(20):
        append(log, make_batch(3, 60))
    before = contents(log)
    fail_on(disk, "sync", errno.EIO)
    with pytest.raises(OSError, match="injected"):
        log.flush()
    disk.fault = None
    disk.process_death()
    log = open_log(disk, "/data/t-0", segments, topic_id=TOPIC_ID, recovery_point=recovery_point)
    served = contents(log)
    assert served == before and log.recovery_point == log.end_offset
    durable = log.recovery_point
    disk.power_loss()
    log = open_log(disk, "/data/t-0", segments, topic_id=TOPIC_ID, recovery_point=durable)
    assert contents(log) == served and log.topic_id == TOPIC_ID


def test_only_what_lies_behind_the_recovery_point_is_written_again(disk):
    log = open_log(disk, "/data/t-0", topic_id=TOPIC_ID)
    for _ in range(50):
        append(log, make_batch(3, 60))
    log.flush()
    recovery_point, durable_bytes = log.recovery_point, log.size_bytes
    append(log, make_batch(3, 60))
    disk.process_death()
    written = []
    original = type(disk.open("/data/t-0/00000000000000000000.log")).write_at

    def note(file, data, position):
        if file.path.endswith(".log"):
            written.append((position, len(data)))
        original(file, data, position)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fencepost.sim.disk.SimFile.write_at", note)
        log = open_log(disk, "/data/t-0", topic_id=TOPIC_ID, recovery_point=recovery_point)
    end = log.size_bytes
    assert written == [(durable_bytes, end - durable_bytes), (end - 1, 1)]
