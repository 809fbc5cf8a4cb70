"""Flushes that others do: which are handed over, and what a log does until it hears of them."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from fencepost.log.disk import ClosedFileError, OsDisk
from fencepost.log.errors import LogFailedError
from fencepost.log.partition_log import PartitionLog
from fencepost.sim.disk import SimDisk

from ..waiting import DEADLINE_S
from .helpers import NOW_MS, append, open_log
from .syncing import HeldSyncThreads


class Owner:
    """Holds a file; no caller waits for it."""

    def wait(self) -> None:
        """Nothing is under way."""


@pytest.fixture
def threads():
    held = HeldSyncThreads()
    yield held
    held.stop()


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    """A log that is durable, with one batch behind that."""
    log = open_log(OsDisk(), str(tmp_path / "t-0"))
    append(log)
    log.flush()
    append(log)
    return log


def test_what_only_syncs_files_is_handed_over(log, threads):
    job = log.begin_flush()
    assert job.hand_over(threads, 3, 1)
    ((lane, number, descriptors),) = threads.submitted
    assert (lane, number, len(descriptors)) == (3, 1, 1)
    name = os.readlink(f"/proc/self/fd/{descriptors[0]}") if os.path.isdir("/proc/self") else ""
    assert name in ("", f"{log.directory}/00000000000000000000.log")
    threads.finish(1)
    job.settle(0)
    assert log.recovery_point == 1
    log.finish_flush(job)
    assert log.recovery_point == 2
    job.settle(0)
    log.close()


def test_whatever_else_there_is_to_do_a_flush_is_run(tmp_path, threads):
    new = open_log(OsDisk(), str(tmp_path / "new-0"))
    append(new)
    assert not new.begin_flush().hand_over(threads, 0, 1), "names are to be synced"
    new.flush()
    append(new, epoch=1)
    assert not new.begin_flush().hand_over(threads, 0, 1), "there is another epoch"
    new.flush()
    append(new, epoch=1)
    new.roll(NOW_MS)
    assert not new.begin_flush().hand_over(threads, 0, 1), "there is another segment"
    new.flush()
    assert not new.begin_flush().hand_over(threads, 0, 1), "there is nothing to sync"
    simulated = open_log(SimDisk(), "/t-0")
    append(simulated)
    simulated.flush()
    append(simulated)
    assert not simulated.begin_flush().hand_over(threads, 0, 1), "no file of the system's"
    assert threads.submitted == []
    new.close()


def test_a_log_that_has_failed_or_is_closed_hands_nothing_over(log, threads):
    append(log)
    job = log.begin_flush()
    log.fail("of the test")
    for one in (job, log.begin_flush()):
        assert not one.hand_over(threads, 0, 1)
        with pytest.raises(LogFailedError, match="of the test"):
            one.run()
    assert threads.submitted == []


def test_without_a_thread_to_be_had_it_is_run_instead(log, threads):
    threads.refusal = OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    job = log.begin_flush()
    assert not job.hand_over(threads, 0, 1)
    job.run()
    log.finish_flush(job)
    assert log.recovery_point == 2
    log.close()


def test_whatever_goes_wrong_the_files_are_let_go_of(log, threads, monkeypatch):
    def fail(*_: object) -> None:
        raise RuntimeError("a mistake")

    monkeypatch.setattr(threads, "submit", fail)
    job = log.begin_flush()
    with pytest.raises(RuntimeError, match="a mistake"):
        job.hand_over(threads, 0, 1)
    job.run()
    log.finish_flush(job)
    log.close()


def test_a_file_that_another_thread_syncs_is_not_handed_over(log, threads):
    file = log._row.active.file
    assert file.hold(Owner()) >= 0
    assert not log.begin_flush().hand_over(threads, 0, 1)
    file.release()
    assert log.begin_flush().hand_over(threads, 0, 1)
    threads.finish(1)


def test_what_failed_to_sync_before_is_not_handed_over_and_fails_the_flush(log, threads):
    """A segment is synced when its file has to be closed, and no flush was there to hear of it."""
    job = log.begin_flush()
    log._row.active.sync_failure = OSError(errno.EIO, "lost")
    assert not job.hand_over(threads, 0, 1)
    with pytest.raises(OSError, match="lost"):
        job.run()
    assert log.failure == "a flush failed: [Errno 5] lost"
    assert log.recovery_point == 1


def test_the_log_has_failed_before_its_files_are_let_go_of(log, threads, monkeypatch):
    """Else a caller that waits for them would go on as if they were durable."""
    job = log.begin_flush()
    assert job.hand_over(threads, 0, 1)
    threads.finish(1, errno.EIO)
    file, failures = log._row.active.file, []
    release = type(file).release
    monkeypatch.setattr(
        type(file), "release", lambda self: (failures.append(log.failure), release(self))
    )
    with pytest.raises(OSError):
        job.settle(errno.EIO)
    assert failures == [f"a flush failed: [Errno 5] {os.strerror(errno.EIO)}"]


def test_a_file_that_was_closed_once_it_was_durable_need_not_be_synced(log):
    late, flush = log.begin_flush(), log.begin_flush()
    flush.run()
    log.finish_flush(flush)
    log._row.active.release()
    late.run()
    log.finish_flush(late)
    assert log.recovery_point == 2
    log.close()


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_a_sync_that_fails_fails_the_log_for_good(log, threads, error):
    """fsyncgate: the next sync would succeed, and the data would be gone."""
    job = log.begin_flush()
    assert job.hand_over(threads, 0, 1)
    threads.finish(1, error)
    for _ in range(2):
        with pytest.raises(OSError) as failed:
            job.settle(error)
        assert failed.value.errno == error
    assert log.failure == f"a flush failed: [Errno {error}] {os.strerror(error)}"
    with pytest.raises(LogFailedError):
        log.finish_flush(job)
    with pytest.raises(LogFailedError):
        append(log)
    with pytest.raises(LogFailedError):
        log.begin_flush().run()
    with pytest.raises(LogFailedError):
        log.close()
    assert log.recovery_point == 1
    assert len(threads.submitted) == 1, "and is not tried again"


@pytest.mark.parametrize("error", [0, errno.EIO])
@pytest.mark.parametrize("how", ["close", "flush", "truncate", "abandon"])
def test_a_sync_or_close_of_its_file_waits_for_it(log, threads, how, error):
    job = log.begin_flush()
    assert job.hand_over(threads, 0, 1)
    outcome: list[Exception | None] = []

    def act() -> None:
        try:
            if how == "close":
                log.close()
            elif how == "flush":
                log.flush()
            elif how == "truncate":
                log.truncate_to(1)
            else:
                log.close(clean=False)
            outcome.append(None)
        except Exception as failure:  # noqa: BLE001
            outcome.append(failure)

    actor = threading.Thread(target=act)
    actor.start()
    assert threads.waited_for.wait(DEADLINE_S)
    assert actor.is_alive() and outcome == [], "the sync has not ended"
    threads.finish(1, error)
    actor.join(DEADLINE_S)
    assert not actor.is_alive()
    if error == 0 or how == "abandon":
        assert outcome == [None]
    elif how == "truncate":  # what is cut off need not be durable, but the log is not to be trusted
        assert log.failure is not None
    else:
        assert isinstance(outcome[0], LogFailedError), "its own sync proves nothing"
    assert (log.failure is not None) == (error != 0)
    assert log.recovery_point <= (1 if error else 2)


def test_what_was_taken_before_is_waited_for_until_it_is_settled(log, threads):
    """Another thread closes the file between the loop's taking the outcome and noting it."""
    job = log.begin_flush()
    assert job.hand_over(threads, 0, 1)
    threads.finish(1, errno.EIO)
    assert [number for number, _, _ in threads.take()] == [1]
    closed = threading.Thread(target=log._row.active.close_file)
    closed.start()
    assert threads.waited_for.wait(DEADLINE_S)
    with pytest.raises(OSError, match="Input/output error"):
        job.settle(errno.EIO)
    closed.join(DEADLINE_S)
    assert not closed.is_alive()


def test_a_file_that_is_closed_cannot_be_held(tmp_path):
    file = OsDisk().open(str(tmp_path / "file"), create=True)
    owner = Owner()
    assert file.hold(owner) >= 0
    assert file.hold(owner) == -1, "once at a time"
    file.release()
    file.close()
    assert file.hold(owner) == -1
    file.close()
    with pytest.raises(ClosedFileError):
        file.sync()
