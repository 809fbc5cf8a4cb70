"""Whether anybody listens: only a refusal of every address is one."""

from __future__ import annotations

import asyncio
import socket

from fencepost.broker.cluster.listener_probe import ListenerProbe

from ...ports import refusing_port
from ...waiting import DEADLINE_S


def found(*addresses: tuple[str, int]) -> bool:
    async def ask() -> bool:
        loop = asyncio.get_running_loop()
        told: asyncio.Future[bool] = loop.create_future()
        probe = ListenerProbe(loop)
        probe(addresses, told.set_result)
        assert not told.done(), "nobody is called back at once"
        return await asyncio.wait_for(told, DEADLINE_S)

    return asyncio.run(ask())


def test_a_port_that_nobody_listens_at_refuses() -> None:
    with refusing_port() as held:
        assert found(held.getsockname()) is True
        assert found(("localhost", held.getsockname()[1])) is True


def test_a_listener_that_does_not_accept_yet_has_not_refused() -> None:
    """A paused process: its kernel takes the connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening, refusing_port() as held:
        open_address = listening.getsockname()
        assert found(open_address) is False
        assert found(held.getsockname(), open_address) is False


def test_a_host_that_is_not_known_has_not_refused() -> None:
    with refusing_port() as held:
        assert found(held.getsockname(), ("no-such-host.invalid", 9092)) is False


def test_an_address_that_cannot_be_reached_has_not_refused() -> None:
    assert found(("255.255.255.255", 9092)) is False


def test_no_listeners_refuse_nothing() -> None:
    assert found() is False
