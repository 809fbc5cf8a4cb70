"""One heap of timers; group commit in order, with failures reported once."""

import asyncio
import threading

import pytest

from fencepost.broker.loop.flusher import INLINE_AT_MOST_US, Flusher
from fencepost.broker.loop.timers import SWEEP_AT_LEAST, Timers
from fencepost.runtime.clock import SystemClocks

from ...waiting import DEADLINE_S


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, DEADLINE_S))


def test_timers_fire_in_order_and_cancelled_ones_do_not():
    async def scenario():
        timers = Timers(asyncio.get_running_loop(), SystemClocks().now_ms)
        fired = []
        done = asyncio.Event()
        timers.after(30, done.set)
        timers.after(20, lambda: fired.append("b"))
        timers.after(10, lambda: fired.append("a"))
        timers.after(15, lambda: fired.append("never")).cancel()
        await done.wait()
        assert fired == ["a", "b"]
        assert len(timers) == 0

    run(scenario())


def test_a_timer_that_raises_does_not_stop_the_others(caplog):
    async def scenario():
        timers = Timers(asyncio.get_running_loop(), SystemClocks().now_ms)
        done = asyncio.Event()
        timers.after(0, lambda: 1 // 0)
        timers.after(1, done.set)
        await done.wait()

    run(scenario())
    assert "a timer failed" in caplog.text


def test_dead_timers_are_swept():
    async def scenario():
        timers = Timers(asyncio.get_running_loop(), SystemClocks().now_ms)
        keep = timers.after(60_000, lambda: None)
        for _ in range(4 * SWEEP_AT_LEAST):
            timers.after(60_000, lambda: None).cancel()
        assert len(timers) == 1
        assert len(timers._heap) < 2 * SWEEP_AT_LEAST
        assert keep.armed

    run(scenario())


class FakeLog:
    """A log whose flushes a test holds back, under the flusher's contract."""

    def __init__(self, error: Exception | None = None) -> None:
        self.end_offset = 0
        self.flushed = 0
        self.runs = 0
        self.ran_on = 0
        self.begun = asyncio.Event()
        self.finished = asyncio.Event()
        self.error = error
        self.flush_is_due = False
        self.log_dir = "/kafka"
        self.gate = threading.Event()
        self.gate.set()

    class Job:
        def __init__(self, log):
            self.log, self.end_offset = log, log.end_offset

        def hand_over(self, threads, lane, number):
            return False  # there is more to do than to sync a file

        def run(self):
            self.log.gate.wait(DEADLINE_S)
            self.log.runs += 1
            self.log.ran_on = threading.get_ident()
            if self.log.error:
                raise self.log.error

    def begin_flush(self):
        self.begun.set()
        return self.Job(self)

    def finish_flush(self, job):
        self.flushed = max(self.flushed, job.end_offset)
        self.finished.set()


class Listening:
    """Collects what a flusher reports."""

    def __init__(self, **options):
        self.persisted: list[tuple[str, int]] = []
        self.failed: list[tuple[str, str]] = []
        self.changed = asyncio.Event()
        self.now_ms = 7
        self.flusher = Flusher(
            asyncio.get_running_loop(),
            self._on_persisted,
            self._on_failed,
            lambda: self.now_ms,
            **options,
        )

    def _on_persisted(self, key, offset):
        self.persisted.append((key, offset))
        self.changed.set()

    def _on_failed(self, key, reason):
        self.failed.append((key, reason))
        self.changed.set()

    async def heard(self):
        await self.changed.wait()
        self.changed.clear()


def test_appends_during_a_flush_share_the_next_one():
    async def scenario():
        heard = Listening()
        log = FakeLog()
        log.gate.clear()
        log.end_offset = 1
        heard.flusher.request("k", log)
        await asyncio.sleep(0)
        for _ in range(50):
            log.end_offset += 1
            heard.flusher.request("k", log)
            await asyncio.sleep(0)
        log.gate.set()
        await heard.heard()
        await heard.heard()
        assert heard.persisted == [("k", 1), ("k", 51)]
        assert log.runs == 2
        assert log.flushed == 51
        heard.flusher.close()

    run(scenario())


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), ValueError("closed")])
def test_a_failed_flush_is_reported_and_not_tried_again(error):
    async def scenario():
        heard = Listening()
        log = FakeLog(error)
        log.end_offset = 5
        heard.flusher.request("k", log)
        await heard.heard()
        assert heard.persisted == []
        assert heard.failed[0][0] == "k"
        assert log.runs == 1
        assert log.flushed == 0
        heard.flusher.close()

    run(scenario())


def test_page_cache_mode_reports_at_once_and_flushes_quietly():
    async def scenario():
        heard = Listening(before_ack=False)
        log = FakeLog()
        log.end_offset = 3
        heard.flusher.request("k", log)
        assert heard.persisted == [("k", 3)]
        assert log.runs == 0
        heard.flusher.flush_quietly("k", log)
        await log.finished.wait()
        assert log.flushed == 3
        assert heard.persisted == [("k", 3)]
        heard.changed.clear()
        log.end_offset = 4
        heard.flusher.request("k", log, always=True)
        assert heard.persisted == [("k", 3)]
        await heard.heard()
        assert heard.persisted == [("k", 3), ("k", 4)]
        heard.flusher.close()

    run(scenario())


def test_what_waits_for_a_flush_waits_since_the_first_append_that_none_covers():
    async def scenario():
        heard, log = Listening(before_ack=False), FakeLog()
        heard.flusher.request("k", log)
        heard.now_ms += 10
        heard.flusher.request("k", log)
        assert heard.flusher.unflushed_since_ms("k") == 7
        assert heard.flusher.unflushed_since_ms("another") is None
        log.gate.clear()
        heard.flusher.flush_quietly("k", log)
        await asyncio.sleep(0)
        assert heard.flusher.unflushed_since_ms("k") is None, "it is being flushed"
        heard.flusher.request("k", log)
        assert heard.flusher.unflushed_since_ms("k") == 17, "behind what is being flushed"
        heard.flusher.forget("k")
        assert heard.flusher.unflushed_since_ms("k") is None
        log.gate.set()
        heard.flusher.close()

    run(scenario())


def test_a_forgotten_log_is_not_reported():
    async def scenario():
        heard = Listening()
        log, other = FakeLog(), FakeLog()
        log.gate.clear()
        log.end_offset = other.end_offset = 1
        heard.flusher.request("gone", log)
        await log.begun.wait()
        heard.flusher.forget("gone")
        heard.flusher.request("other", other)
        log.gate.set()
        await heard.heard()
        assert heard.persisted == [("other", 1)]
        assert log.flushed == 0
        heard.flusher.close()

    run(scenario())


# -- flush.messages with the page cache's acknowledgements ----------------------------------------


def test_a_flush_that_is_due_is_waited_for_and_so_is_what_comes_meanwhile():
    async def scenario():
        listening, log = Listening(before_ack=False), FakeLog()
        log.end_offset = 1
        listening.flusher.request("t", log)
        assert listening.persisted == [("t", 1)], "the page cache will do"
        log.gate.clear()
        log.end_offset, log.flush_is_due = 5, True
        listening.flusher.request("t", log)
        log.end_offset, log.flush_is_due = 6, False
        listening.flusher.request("t", log)
        await asyncio.sleep(0)
        log.end_offset = 7
        listening.flusher.request("t", log)
        await asyncio.sleep(0)
        assert listening.persisted == [("t", 1)]
        listening.changed.clear()
        log.gate.set()
        while listening.persisted[-1] != ("t", 7):
            await listening.heard()
            listening.changed.clear()
        log.end_offset = 8
        listening.flusher.request("t", log)
        assert listening.persisted[-1] == ("t", 8)
        listening.flusher.close()

    run(scenario())


def test_a_quiet_flush_is_waited_for_by_nobody():
    async def scenario():
        listening, log = Listening(before_ack=False), FakeLog()
        log.gate.clear()
        log.end_offset = 3
        listening.flusher.flush_quietly("t", log)
        await asyncio.sleep(0)
        listening.flusher.request("t", log)
        assert listening.persisted == [("t", 3)]
        log.gate.set()
        listening.flusher.close()

    run(scenario())


def test_an_append_does_not_wait_for_a_quiet_flush_that_is_to_begin():
    async def scenario():
        listening, log = Listening(before_ack=False), FakeLog()
        log.end_offset = 3
        listening.flusher.flush_quietly("t", log)
        listening.flusher.request("t", log)
        assert listening.persisted == [("t", 3)]
        listening.flusher.close()

    run(scenario())


# -- on the spot ------------------------------------------------------------------------------

QUICK_US = 100.0


@pytest.mark.parametrize(
    ("average_us", "is_on_the_spot"),
    [
        pytest.param(0.0, False, id="nothing known"),
        pytest.param(QUICK_US, True, id="quick"),
        pytest.param(INLINE_AT_MOST_US - 1, True, id="just quick"),
        pytest.param(INLINE_AT_MOST_US, False, id="slow"),
    ],
)
def test_a_single_append_is_flushed_on_the_spot_if_the_disk_is_quick(average_us, is_on_the_spot):
    async def scenario():
        heard, log = Listening(), FakeLog()
        log.end_offset = 1
        heard.flusher._lane(log.log_dir).average_us = average_us
        heard.flusher.request("k", log)
        await heard.heard()
        assert heard.persisted == [("k", 1)]
        assert log.flushed == 1
        assert (log.ran_on == threading.get_ident()) == is_on_the_spot
        heard.flusher.close()

    run(scenario())


def append_twice(flusher: Flusher, log: FakeLog) -> None:
    flusher.request("k", log)
    flusher.request("k", log)


def append_to_two_logs(flusher: Flusher, log: FakeLog) -> None:
    flusher.request("k", log)
    flusher.request("other", FakeLog())


def flush_quietly(flusher: Flusher, log: FakeLog) -> None:
    flusher.flush_quietly("k", log)


@pytest.mark.parametrize("what", [append_twice, append_to_two_logs, flush_quietly])
def test_the_loop_waits_for_a_single_append_only(what):
    async def scenario():
        heard, log = Listening(), FakeLog()
        heard.flusher._lane(log.log_dir).average_us = QUICK_US
        what(heard.flusher, log)
        await log.finished.wait()
        assert log.ran_on != threading.get_ident()
        heard.flusher.close()

    run(scenario())


def test_the_loop_waits_for_no_flush_while_another_runs():
    async def scenario():
        heard, log, held = Listening(), FakeLog(), FakeLog()
        held.gate.clear()
        heard.flusher.request("held", held)
        await held.begun.wait()
        heard.flusher._lane(log.log_dir).average_us = QUICK_US
        heard.flusher.request("k", log)
        await log.finished.wait()
        assert log.ran_on != threading.get_ident()
        held.gate.set()
        heard.flusher.close()

    run(scenario())


# -- threads ----------------------------------------------------------------------------------


def test_flushes_one_after_the_other_need_one_thread():
    async def scenario():
        heard, log = Listening(), FakeLog()
        lane = heard.flusher._lane(log.log_dir)
        for end_offset in range(1, 4):
            log.end_offset = end_offset
            lane.average_us = 0.0
            heard.flusher.request("k", log)
            await heard.heard()
        assert len(lane.threads) == 1
        heard.flusher.close()
        assert log.runs == 3

    run(scenario())


def test_who_waits_for_a_flush_is_told_although_it_is_asked_for_quietly_too():
    async def scenario():
        heard, log = Listening(), FakeLog()
        log.end_offset = 1
        heard.flusher.request("k", log)
        heard.flusher.flush_quietly("k", log)
        await log.finished.wait()
        await heard.heard()
        assert heard.persisted == [("k", 1)]
        assert log.runs == 1
        heard.flusher.close()

    run(scenario())
