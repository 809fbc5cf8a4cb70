"""What is run in the background leaves the event loop to others."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

from fencepost.broker.loop.ports import AsyncPorts
from fencepost.machines.effects import Truncate
from fencepost.sim.disk import SimDisk

from ...log.helpers import append, make_batch, open_log
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


def test_a_truncation_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        ports = made(asyncio.get_running_loop())
        partition_log = open_log(SimDisk(0), "/topic-0")
        for _ in range(2):
            append(partition_log, make_batch(5))
        try:
            ports.host("p", cast(Any, None), partition_log, lambda machine: None)
            for end_offset in (5, 5, 7):
                ports.truncate("p", Truncate(end_offset))
            ports.truncate("p", Truncate(9, start_over=True))
        finally:
            ports.close()

    with caplog.at_level(logging.INFO, logger="fencepost.runtime.ports"):
        asyncio.run(test())
    assert caplog.messages == [
        "topic-0: truncated from 10 to 5",
        "topic-0: truncated from 5 to 9",
    ]
