"""Threads in C that sync files: outcomes, lanes, the end, and processes that are forked."""

from __future__ import annotations

import errno
import os
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fencepost.log import sync_threads
from fencepost.log.sync_threads import TAKEN, SyncThreads, new_sync_threads

from ..waiting import DEADLINE_S, eventually

if sync_threads.compiled is None:
    pytest.skip(f"there are none: {sync_threads.why_python()}", allow_module_level=True)

NAME = "fencepost-sync"


@pytest.fixture
def threads():
    made = new_sync_threads(2)
    assert made is not None
    yield made
    made.stop()


@pytest.fixture
def file(tmp_path: Path):
    descriptor = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    os.pwrite(descriptor, b"some", 0)
    yield descriptor
    os.close(descriptor)


def outcomes(threads: SyncThreads, count: int) -> dict[int, int]:
    """The errno of each of the next so many."""
    found: dict[int, int] = {}
    while len(found) < count:
        readable, _, _ = select.select([threads.fileno()], [], [], DEADLINE_S)
        assert readable, f"told of {len(found)} of {count}"
        taken = threads.take()
        assert all(took_us >= 0 for _, _, took_us in taken)
        found |= {number: error for number, error, _ in taken}
    assert len(found) == count
    return found


def running() -> list[str]:
    """The status of each such thread of this process."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        try:
            text = (task / "status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if text.startswith(f"Name:\t{NAME}\n"):
            found.append(text)
    return found


needs_proc = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")


def test_files_are_synced_and_each_is_told_of_once(threads, file):
    for number in range(50):
        threads.submit(number % 3, number, (file,))
    assert outcomes(threads, 50) == dict.fromkeys(range(50), 0)
    assert threads.take() == []
    assert select.select([threads.fileno()], [], [], 0)[0] == [], "nothing is left to be told"


def test_what_cannot_be_synced_has_its_own_errno(threads, file):
    read_end, write_end = os.pipe()
    closed = os.dup(file)
    os.close(closed)
    threads.submit(0, 1, (read_end,))
    threads.submit(0, 2, (closed,))
    threads.submit(0, 3, (file,))
    threads.submit(0, 4, (file, read_end, closed))
    threads.submit(0, 5, ())
    found = outcomes(threads, 5)
    assert found == {1: errno.EINVAL, 2: errno.EBADF, 3: 0, 4: errno.EINVAL, 5: 0}
    os.close(read_end)
    os.close(write_end)


def test_one_can_be_waited_for_until_it_is_taken(threads, file):
    read_end, write_end = os.pipe()
    threads.submit(0, 7, (file,))
    threads.submit(0, 8, (read_end,))
    assert (threads.wait(8), threads.wait(7), threads.wait(7)) == (errno.EINVAL, 0, 0)
    assert outcomes(threads, 2) == {7: 0, 8: errno.EINVAL}
    assert threads.wait(7) == TAKEN
    os.close(read_end)
    os.close(write_end)


@needs_proc
def test_a_lane_has_no_more_threads_than_it_may_and_none_are_left_behind(file):
    before = len(running())
    threads = new_sync_threads(2)
    assert threads is not None
    assert len(running()) == before, "made when there is something to do"
    for number in range(100):
        threads.submit(number % 2, number, (file,))
    assert before < len(running()) <= before + 4
    threads.stop()
    assert len(running()) == before
    done = threads.take()
    assert sorted(number for number, _, _ in done) == list(range(100)), "all was done first"
    with pytest.raises(OSError) as refused:
        threads.submit(0, 101, (file,))
    assert refused.value.errno == errno.ESHUTDOWN
    assert threads.fileno() == -1
    threads.stop()


@needs_proc
def test_threads_end_with_what_they_belong_to(file):
    before = len(running())
    threads = new_sync_threads(2)
    assert threads is not None
    threads.submit(0, 1, (file,))
    del threads
    assert len(running()) == before


@needs_proc
def test_signals_are_for_the_interpreter(threads, file):
    threads.submit(0, 1, (file,))
    assert outcomes(threads, 1) == {1: 0}
    masked = 1 << (signal.SIGTERM - 1) | 1 << (signal.SIGINT - 1)
    for status in running():
        blocked = int(status.partition("SigBlk:")[2].split()[0], 16)
        assert blocked & masked == masked
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set(), "ours are as they were"


def test_a_lane_without_threads_is_refused():
    assert sync_threads.compiled is not None
    with pytest.raises(ValueError, match="would never do anything"):
        sync_threads.compiled.SyncThreads(0)


def test_what_are_no_descriptors_is_refused(threads):
    for wrong in (("a",), (2**40,)):
        with pytest.raises((TypeError, OverflowError)):
            threads.submit(0, 1, wrong)
    threads.stop()
    assert threads.take() == []


def test_the_loop_is_told_while_another_thread_waits(threads, file):
    waited = threading.Thread(target=threads.wait, args=(1,))
    threads.submit(0, 1, (file,))
    waited.start()
    assert outcomes(threads, 1) == {1: 0}
    waited.join(DEADLINE_S)
    assert not waited.is_alive()


FORKED = """
import os, sys
from fencepost.log.sync_threads import new_sync_threads

threads = new_sync_threads(2)
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
for number in range(20):
    threads.submit(number % 2, number, (file,))
child = os.fork()
if not child:
    calls = (lambda: threads.submit(0, 99, (file,)), threads.take, lambda: threads.wait(3))
    for call in calls:
        try:
            call()
        except RuntimeError as error:
            assert "was forked from" in str(error)
        else:
            os._exit(3)
    threads.stop()
    del threads  # no thread to join, and no lock to take
    os._exit(0)
_, status = os.waitpid(child, 0)
assert status == 0, status
threads.submit(0, 20, (file,))
threads.stop()
assert sorted(number for number, _, _ in threads.take()) == list(range(21))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_has_none_of_the_threads_and_hangs_on_none(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FORKED, str(tmp_path / "file")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_threads_that_idle_take_what_comes_later(threads, file):
    for number in range(20):
        threads.submit(0, number, (file,))
        assert outcomes(threads, 1) == {number: 0}


def waits_of_each() -> dict[str, int]:
    """How often each thread has waited, when all of them do; nothing before."""
    found = {}
    for text in running():
        said = dict(line.partition(":\t")[::2] for line in text.splitlines())
        if not said["State"].startswith("S"):
            return {}
        found[said["Pid"]] = int(said["voluntary_ctxt_switches"])
    return found


@needs_proc
def test_of_those_that_idle_the_latest_is_woken_and_no_other(file):
    """Its caches are warm; and a submit waits for no thread that was woken before."""
    before, most = len(running()), 4
    threads = new_sync_threads(most)
    assert threads is not None
    number = 0
    while len(running()) < before + most:  # each is started while the others are at work
        for _ in range(most):
            number += 1
            threads.submit(0, number, (file,))
        outcomes(threads, most)
    began = eventually(waits_of_each)
    for _ in range(20):
        number += 1
        threads.submit(0, number, (file,))
        assert outcomes(threads, 1) == {number: 0}
        eventually(waits_of_each)
    ended = eventually(waits_of_each)
    assert ended.keys() == began.keys(), "one that idles is woken before another is started"
    *others, latest = sorted(ended[pid] - began[pid] for pid in ended)
    assert latest >= 20
    assert sum(others) < most, "each may have been on its way to idle"
    began, ended = ended, {}
    while not ended or any(ended[pid] == began[pid] for pid in began):
        for _ in range(most):  # of several at once, each is given to another
            number += 1
            threads.submit(0, number, (file,))
        outcomes(threads, most)
        ended = eventually(waits_of_each)
        assert number < 1000, "threads that idle are forgotten"
    threads.stop()


def test_what_waits_in_a_queue_is_done_when_the_threads_end(file):
    threads = new_sync_threads(1)
    assert threads is not None
    for number in range(200):
        threads.submit(0, number, (file,))
    threads.stop()
    assert [number for number, _, _ in threads.take()] == list(range(200)), "in its order"
