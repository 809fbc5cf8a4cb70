"""What is checked on threads for logins: how much at a time, and for whom."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from fencepost.broker.net.logins import WAITING_MAX, Logins


def test_so_many_logins_are_checked_at_a_time_and_room_comes_again() -> None:
    async def check() -> None:
        logins, gate = Logins(asyncio.get_running_loop()), threading.Event()
        done: list[Any] = []
        all_are_done = asyncio.Event()

        def on_done(outcome: Any) -> None:
            done.append(outcome)
            if len(done) == WAITING_MAX:
                all_are_done.set()

        try:
            for _ in range(WAITING_MAX):
                assert logins.run(gate.wait, lambda: True, on_done)
            assert not logins.run(gate.wait, lambda: True, on_done)
        finally:
            gate.set()
        async with asyncio.timeout(60):
            await all_are_done.wait()
        assert done == [True] * WAITING_MAX
        assert logins.run(gate.wait, lambda: False, done.append), "there is room again"
        logins.close()
        assert not logins.run(gate.wait, lambda: True, done.append)

    asyncio.run(check())


def test_what_a_client_that_has_left_has_sent_comes_to_nothing() -> None:
    async def check() -> None:
        logins = Logins(asyncio.get_running_loop())
        began, has_left = threading.Event(), threading.Event()
        done: list[Any] = []
        was_asked = asyncio.Event()

        def work() -> bool:
            began.set()
            return has_left.wait()

        def is_wanted() -> bool:
            if has_left.is_set():
                was_asked.set()
            return not has_left.is_set()

        assert logins.run(work, is_wanted, done.append)
        await asyncio.to_thread(began.wait)
        has_left.set()
        async with asyncio.timeout(60):
            await was_asked.wait()
        assert not done
        logins.close()

    asyncio.run(check())


def test_a_check_that_fails_gives_its_exception_and_no_yes() -> None:
    async def check() -> None:
        logins = Logins(asyncio.get_running_loop())
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        assert logins.run(lambda: 1 // 0, lambda: True, done.set_result)
        async with asyncio.timeout(60):
            assert isinstance(await done, ZeroDivisionError)
        logins.close()

    asyncio.run(check())
