"""Flushes by threads in C and in Python: lanes of log directories, failures, closing, the end."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from pathlib import Path

import pytest

from fencepost.broker.loop import flusher as flusher_module
from fencepost.broker.loop.flusher import FLUSH_THREADS, WAVES_UP_TO_US, Flusher
from fencepost.log import sync_threads
from fencepost.log.disk import OsDisk
from fencepost.log.partition_log import PartitionLog

from ...log.helpers import append, open_log
from ...log.syncing import HeldSyncThreads
from ...waiting import DEADLINE_S, eventually

QUICK_US = 100.0


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, DEADLINE_S))


class Listening:
    """A flusher, and what it has reported so far."""

    def __init__(self) -> None:
        self.persisted: dict[str, int] = {}
        self.failed: list[tuple[str, str]] = []
        self.on_persisted = lambda key: None
        self._changed = asyncio.Event()
        self.flusher = Flusher(
            asyncio.get_running_loop(), self._on_persisted, self._on_failed, lambda: 0
        )

    def _on_persisted(self, key, offset):
        self.persisted[key] = offset
        self._changed.set()
        self.on_persisted(key)

    def _on_failed(self, key, reason):
        self.failed.append((key, reason))
        self._changed.set()

    async def until(self, condition):
        while not condition():
            await self._changed.wait()
            self._changed.clear()


def durable_log(directory: Path) -> PartitionLog:
    """A log whose next flush has to sync one file and no more."""
    log = open_log(OsDisk(), str(directory))
    append(log)
    log.flush()
    return log


@pytest.fixture
def held(monkeypatch):
    """Threads that sync when the test says so, in the place of those in C."""
    threads = HeldSyncThreads()
    monkeypatch.setattr(flusher_module, "new_sync_threads", lambda threads_max: threads)
    yield threads
    threads.stop()


@pytest.fixture(params=["c", "python"])
def backend(request, monkeypatch):
    if request.param == "python":
        monkeypatch.setattr(sync_threads, "compiled", None)
    elif sync_threads.compiled is None:
        pytest.skip(sync_threads.why_python())
    return request.param


def test_many_logs_are_flushed_together_and_none_is_forgotten(tmp_path, backend):
    async def scenario():
        before = threading.active_count(), tasks()
        heard = Listening()
        logs = {f"t-{at}": durable_log(tmp_path / f"t-{at}") for at in range(24)}
        for round_ in (2, 3, 4):
            for key, log in logs.items():
                append(log)
                heard.flusher.request(key, log)
            await heard.until(lambda end=round_: list(heard.persisted.values()) == [end] * 24)
        assert all(log.recovery_point == 4 for log in logs.values())
        assert heard.flusher.flush_ms.count == 72
        heard.flusher.close()
        eventually(
            lambda: (threading.active_count(), tasks()) == before, "no thread is left behind"
        )
        for log in logs.values():
            log.close()

    run(scenario())


def tasks() -> int:
    """All threads of this process, whoever made them."""
    return len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 0


def test_appends_while_threads_in_c_sync_share_the_next_sync(tmp_path, held):
    async def scenario():
        heard, log = Listening(), durable_log(tmp_path / "t-0")
        append(log)
        heard.flusher.request("t", log)
        await asyncio.sleep(0)
        for _ in range(5):
            append(log)
            heard.flusher.request("t", log)
            await asyncio.sleep(0)
        assert len(held.submitted) == 1
        held.finish(1)
        await heard.until(lambda: heard.persisted.get("t") == 2)
        assert len(held.submitted) == 2
        held.finish(2)
        await heard.until(lambda: heard.persisted.get("t") == 7)
        assert log.recovery_point == 7
        heard.flusher.close()
        log.close()

    run(scenario())


def test_what_becomes_dirty_while_a_directory_syncs_waits_for_all_of_that(tmp_path, held):
    async def scenario():
        heard = Listening()
        logs = {key: durable_log(tmp_path / "one" / f"{key}-0") for key in "abc"}
        other = durable_log(tmp_path / "other" / "d-0")
        await dirty_in_turn(heard, {key: logs[key] for key in "ab"})
        await dirty_in_turn(heard, {"c": logs["c"], "a": logs["a"]})
        assert [lane for lane, _, _ in held.submitted] == [0, 0]
        await dirty_in_turn(heard, {"d": other})
        assert [lane for lane, _, _ in held.submitted] == [0, 0, 1], "another disk, seen only now"
        held.finish(1, took_us=QUICK_US)
        await heard.until(lambda: heard.persisted == {"a": 2})
        assert len(held.submitted) == 3, "one of them is not done"
        held.finish(2, errno.EIO, QUICK_US)
        await heard.until(lambda: heard.failed)
        assert [lane for lane, _, _ in held.submitted] == [0, 0, 1, 0, 0]
        for number in (3, 4, 5):
            held.finish(number, took_us=QUICK_US)
        await heard.until(lambda: heard.persisted == {"a": 3, "c": 2, "d": 2})
        heard.flusher.close()
        for log in (logs["a"], logs["c"], other):
            log.close()

    run(scenario())


def test_nobody_waits_for_a_flush_that_nobody_waits_for(tmp_path, held):
    async def scenario():
        heard = Listening()
        logs = {key: durable_log(tmp_path / f"{key}-0") for key in "ab"}
        append(logs["a"])
        heard.flusher.flush_quietly("a", logs["a"])
        await asyncio.sleep(0)
        await dirty_in_turn(heard, {"b": logs["b"]})
        assert len(held.submitted) == 2
        held.finish(2)
        await heard.until(lambda: heard.persisted == {"b": 2})
        held.finish(1)
        heard.flusher.close()
        for log in logs.values():
            log.close()

    run(scenario())


def test_on_a_slow_disk_a_log_waits_for_its_own_flush_only(tmp_path, held):
    async def scenario():
        heard = Listening()
        logs = {key: durable_log(tmp_path / f"{key}-0") for key in "abc"}
        await dirty_in_turn(heard, {"a": logs["a"]})
        held.finish(1, took_us=8 * WAVES_UP_TO_US)
        await heard.until(lambda: heard.persisted == {"a": 2})
        await dirty_in_turn(heard, {"b": logs["b"]})
        await dirty_in_turn(heard, {"c": logs["c"], "b": logs["b"]})
        assert len(held.submitted) == 3
        for number in (2, 3):
            held.finish(number)
        await heard.until(lambda: len(held.submitted) == 4)
        held.finish(4)
        await heard.until(lambda: heard.persisted == {"a": 2, "b": 3, "c": 2})
        heard.flusher.close()
        for log in logs.values():
            log.close()

    run(scenario())


async def dirty_in_turn(heard: Listening, logs: dict[str, PartitionLog]) -> None:
    """Append to each, ask for flushes, and let the loop begin those that may begin."""
    for key, log in logs.items():
        append(log)
        heard.flusher.request(key, log)
    await asyncio.sleep(0)


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_a_sync_that_fails_is_reported_once_and_never_tried_again(tmp_path, held, error):
    async def scenario():
        heard = Listening()
        bad, good = durable_log(tmp_path / "bad-0"), durable_log(tmp_path / "good-0")
        for key, log in (("bad", bad), ("good", good)):
            append(log)
            heard.flusher.request(key, log)
        await asyncio.sleep(0)
        held.finish(1, error)
        held.finish(2)
        await heard.until(lambda: heard.persisted and heard.failed)
        assert heard.persisted == {"good": 2}
        assert heard.failed == [("bad", f"[Errno {error}] {os.strerror(error)}")]
        assert bad.failure is not None and bad.recovery_point == 1
        heard.flusher.request("bad", bad)
        await heard.until(lambda: len(heard.failed) == 2)
        assert "is offline" in heard.failed[1][1]
        assert len(held.submitted) == 2
        heard.flusher.close()
        good.close()

    run(scenario())


def test_what_follows_one_flush_may_close_the_log_of_another(tmp_path, held):
    """Both end in one turn: the second log's file is closed before its own outcome is looked at."""

    async def scenario():
        heard = Listening()
        logs = {key: durable_log(tmp_path / f"{key}-0") for key in "ab"}
        for key, log in logs.items():
            append(log)
            heard.flusher.request(key, log)
        await asyncio.sleep(0)

        def on_persisted(key: str) -> None:
            other = "b" if key == "a" else "a"
            heard.flusher.forget(other)
            logs[other].close(clean=False)

        heard.on_persisted = on_persisted
        held.finish(1)
        held.finish(2)
        await heard.until(lambda: heard.persisted)
        assert heard.persisted == {"a": 2}
        heard.flusher.close()
        logs["a"].close()

    run(scenario())


def test_a_log_that_is_forgotten_and_closed_while_it_is_synced(tmp_path, held):
    async def scenario():
        heard, log = Listening(), durable_log(tmp_path / "t-0")
        append(log)
        heard.flusher.request("t", log)
        await asyncio.sleep(0)
        heard.flusher.forget("t")
        in_thread = asyncio.get_running_loop().run_in_executor
        closed = in_thread(None, log.close)
        assert await in_thread(None, held.waited_for.wait, DEADLINE_S)
        held.finish(1)
        await closed
        other = durable_log(tmp_path / "u-0")
        append(other)
        heard.flusher.request("u", other)
        await asyncio.sleep(0)
        held.finish(2)
        await heard.until(lambda: heard.persisted)
        assert heard.persisted == {"u": 2}
        assert heard.failed == []
        heard.flusher.close()
        other.close()

    run(scenario())


@pytest.mark.parametrize("error", [0, errno.EIO])
def test_a_flusher_that_is_closed_learns_what_became_of_the_last_syncs(tmp_path, held, error):
    async def scenario():
        heard, log = Listening(), durable_log(tmp_path / "t-0")
        append(log)
        heard.flusher.request("t", log)
        await asyncio.sleep(0)
        held.finish(1, error)
        heard.flusher.close()
        assert held.stops == 1
        await asyncio.sleep(0)
        assert (heard.persisted, heard.failed) == ({}, []), "nothing is reported any more"
        assert (log.failure is not None) == (error != 0)
        log.close(clean=not error)

    run(scenario())


def test_a_directory_that_hangs_holds_up_no_other_in_c(tmp_path, held):
    async def scenario():
        heard = Listening()
        slow = {f"s-{at}": durable_log(tmp_path / "slow" / f"s-{at}") for at in range(20)}
        quick = {f"q-{at}": durable_log(tmp_path / "quick" / f"q-{at}") for at in range(3)}
        for key, log in (slow | quick).items():
            append(log)
            heard.flusher.request(key, log)
        await asyncio.sleep(0)
        lanes = [lane for lane, _, _ in held.submitted]
        assert lanes == [0] * 20 + [1] * 3
        for number in (21, 22, 23):
            held.finish(number)
        await heard.until(lambda: len(heard.persisted) == 3)
        assert set(heard.persisted) == set(quick)
        for number in range(1, 21):
            held.finish(number)
        await heard.until(lambda: len(heard.persisted) == 23)
        heard.flusher.close()
        for log in (slow | quick).values():
            log.close()

    run(scenario())


class Gated:
    """A log of another kind, whose flush ends when the test says so."""

    flush_is_due = False
    end_offset = 1

    def __init__(self, log_dir: str, is_open: bool) -> None:
        self.log_dir = log_dir
        self.gate = threading.Event()
        self.ran_in: threading.Thread | None = None
        if is_open:
            self.gate.set()

    def begin_flush(self):
        return self

    def hand_over(self, threads, lane, number):
        return False

    def run(self):
        self.ran_in = threading.current_thread()
        self.gate.wait(DEADLINE_S)

    def finish_flush(self, job):
        """Nothing is noted."""


def test_a_directory_that_hangs_holds_up_no_other_in_python():
    async def scenario():
        heard = Listening()
        slow = [Gated("/slow", is_open=False) for _ in range(3 * FLUSH_THREADS)]
        quick = [Gated("/quick", is_open=True) for _ in range(3)]
        for at, log in enumerate(slow + quick):
            heard.flusher.request(str(at), log)
        await heard.until(lambda: len(heard.persisted) == 3)
        assert set(heard.persisted) == {str(len(slow) + at) for at in range(3)}
        for log in slow:
            log.gate.set()
        await heard.until(lambda: len(heard.persisted) == len(slow) + 3)
        assert len({log.ran_in for log in slow}) <= FLUSH_THREADS
        heard.flusher.close()

    run(scenario())


def test_how_quick_a_directory_is_says_nothing_of_another(tmp_path, held):
    """A flush on the spot would block the loop for as long as the disk takes."""

    async def scenario():
        heard = Listening()
        quick, slow = Gated("/quick", is_open=True), Gated("/slow", is_open=True)
        while quick.ran_in is not threading.current_thread():
            heard.persisted.clear()
            heard.flusher.request("q", quick)
            await heard.until(lambda: heard.persisted)
        heard.persisted.clear()
        heard.flusher.request("s", slow)
        await heard.until(lambda: heard.persisted)
        assert slow.ran_in is not threading.current_thread()
        heard.flusher.close()

    run(scenario())


def test_without_a_descriptor_for_threads_in_c_those_in_python_do_it(tmp_path, monkeypatch, caplog):
    def refuse(threads_max: int) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(flusher_module, "new_sync_threads", refuse)

    async def scenario():
        heard, log = Listening(), durable_log(tmp_path / "t-0")
        append(log)
        heard.flusher.request("t", log)
        await heard.until(lambda: heard.persisted == {"t": 2})
        heard.flusher.close()
        log.close()

    run(scenario())
    assert "flushing in Python threads, not in C threads: [Errno 24]" in caplog.text
