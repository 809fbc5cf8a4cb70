"""What is run in the background leaves the event loop to others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from fencepost.broker.loop.ports import AsyncPorts

from ...waiting import DEADLINE_S


def made(loop: asyncio.AbstractEventLoop) -> AsyncPorts:
    def fail(key: object, reason: str) -> None:
        raise AssertionError(f"{key}: {reason}")

    return AsyncPorts(loop, on_disk_failed=fail, on_machine_failed=fail)


async def run_in_background(work: Callable[[], None]) -> tuple[Exception | None, int]:
    """What became of it, and the thread that was told."""
    loop = asyncio.get_running_loop()
    ports = made(loop)
    told: asyncio.Future[tuple[Exception | None, int]] = loop.create_future()
    try:
        ports.run_in_background(work, lambda error: told.set_result((error, threading.get_ident())))
        return await asyncio.wait_for(told, DEADLINE_S)
    finally:
        ports.close()


def test_a_thread_works_and_the_loop_goes_on_meanwhile() -> None:
    async def test() -> None:
        turn = threading.Event()
        workers: list[int] = []

        def work() -> None:
            workers.append(threading.get_ident())
            assert turn.wait(DEADLINE_S), "nobody else has had a turn"

        asyncio.get_running_loop().call_soon(turn.set)
        error, told_in = await run_in_background(work)
        assert error is None
        assert told_in == threading.get_ident() and workers != [told_in]

    asyncio.run(test())


@pytest.mark.parametrize("kind", [OSError, RecursionError])
def test_what_it_raises_is_told(kind: type[Exception]) -> None:
    async def test() -> None:
        def work() -> None:
            raise kind("as it happens")

        error, _ = await run_in_background(work)
        assert isinstance(error, kind)

    asyncio.run(test())


def test_a_close_waits_for_what_has_begun() -> None:
    async def test() -> None:
        ports = made(asyncio.get_running_loop())
        ended: list[str] = []
        ports.run_in_background(lambda: ended.append("work"), lambda _: None)
        ports.close()
        assert ended == ["work"]

    asyncio.run(test())
