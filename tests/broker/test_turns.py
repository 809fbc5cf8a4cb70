"""Long work in steps: order, others' turns, waiting for threads, being left undone."""

from __future__ import annotations

import asyncio
import itertools
from concurrent.futures import Future

from fencepost.broker.net.turns import STEPS_AT_ONCE, STEPS_PER_TURN, Turns

from ..waiting import DEADLINE_S


def run(scenario):
    return asyncio.run(asyncio.wait_for(scenario(), DEADLINE_S))


def count_to(number, done, name="work"):
    for step in range(number):
        done.append((name, step))
        yield None


def test_small_work_is_done_when_it_is_given():
    async def scenario():
        turns, done = Turns(asyncio.get_running_loop()), []
        turns.add(count_to(STEPS_AT_ONCE - 1, done))
        assert len(done) == STEPS_AT_ONCE - 1
        assert turns.is_idle
        await turns.settled()

    run(scenario)


def test_others_come_to_their_turns_during_large_work():
    async def scenario():
        loop = asyncio.get_running_loop()
        turns, done, seen = Turns(loop), [], []
        total = STEPS_AT_ONCE + 10 * STEPS_PER_TURN

        def look():
            seen.append(len(done))
            if not turns.is_idle:
                loop.call_soon(look)

        turns.add(count_to(total, done))
        loop.call_soon(look)
        await turns.settled()
        steps = [after - before for before, after in itertools.pairwise(seen)]
        assert len(done) == total
        assert len(seen) >= 10
        assert max(steps) <= STEPS_PER_TURN

    run(scenario)


def test_works_are_done_one_after_the_other():
    async def scenario():
        turns, done = Turns(asyncio.get_running_loop()), []
        turns.add(count_to(STEPS_AT_ONCE + 5, done, "first"))
        turns.add(count_to(3, done, "second"))
        assert ("second", 0) not in done
        await turns.settled()
        names = [name for name, _ in done]
        assert names == ["first"] * (STEPS_AT_ONCE + 5) + ["second"] * 3

    run(scenario)


def test_work_given_by_work_comes_behind_it():
    async def scenario():
        turns, done = Turns(asyncio.get_running_loop()), []

        def outer():
            turns.add(count_to(2, done, "inner"))
            yield from count_to(2, done, "outer")

        turns.add(outer())
        await turns.settled()
        assert [name for name, _ in done] == ["outer", "outer", "inner", "inner"]

    run(scenario)


def test_work_that_waits_for_a_thread_holds_nobody_up():
    async def scenario():
        loop = asyncio.get_running_loop()
        turns, done, future = Turns(loop), [], Future()

        def waiting():
            yield future
            done.append(future.result())
            yield None

        turns.add(waiting())
        turns.add(count_to(1, done))
        await asyncio.sleep(0)
        assert done == []
        loop.run_in_executor(None, future.set_result, "from the thread")
        await turns.settled()
        assert done == ["from the thread", ("work", 0)]

    run(scenario)


def test_what_is_left_undone_is_closed():
    async def scenario():
        turns, done, ended, future = Turns(asyncio.get_running_loop()), [], [], Future()

        def waiting():
            try:
                yield future
                done.append("too late")
            finally:
                ended.append("closed")

        turns.add(waiting())
        turns.add(count_to(1, done))
        turns.close()
        future.set_result(None)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert (done, ended) == ([], ["closed"])
        turns.add(count_to(1, done))
        await asyncio.sleep(0)
        assert done == []

    run(scenario)


def test_work_may_close_its_own_turns():
    async def scenario():
        turns, done = Turns(asyncio.get_running_loop()), []

        def closing():
            yield None
            turns.close()
            yield None
            done.append("too late")

        turns.add(closing())
        await asyncio.sleep(0)
        assert done == []

    run(scenario)
