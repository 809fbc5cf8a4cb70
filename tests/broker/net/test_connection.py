"""One connection by hand: the rate at which a frame arrives, and what an eviction gives back."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fencepost.broker.net import memory_budget
from fencepost.broker.net.client_quotas import NO_QUOTAS
from fencepost.broker.net.connection import Connection
from fencepost.broker.net.dispatch import Dispatcher
from fencepost.broker.net.listener_security import ListenerSecurity
from fencepost.broker.net.memory_budget import MemoryBudget
from fencepost.broker.net.received import SMALL_FRAME_BYTES
from fencepost.broker.net.turn import Turn
from fencepost.machines.session import SessionRules

from .test_memory_bounds import SteppedLoop

FRAME_BYTES_MAX = 1 << 20
LONG_BYTES = 100_000
"""What the longest frame of these tests has behind its length."""


class Transport:
    """Takes what is said to it."""

    def __init__(self) -> None:
        self.is_aborted = False

    def get_extra_info(self, name: str) -> None:
        return None

    def set_write_buffer_limits(self, **bytes_: int) -> None:
        pass

    def write(self, data: bytes) -> None:
        pass

    writelines = write

    def abort(self) -> None:
        self.is_aborted = True


class Host:
    """What connections share, with a clock that is turned by hand."""

    def __init__(self) -> None:
        self.loop = cast(asyncio.AbstractEventLoop, SteppedLoop())
        self.turn = Turn(lambda begin: None)  # which never ends
        self.connections: list[Connection] = []
        self.memory_budget = MemoryBudget(self.loop, lambda: self.connections, FRAME_BYTES_MAX)
        self.routes = self.new_context = self.context_again = None
        self.scratch = memoryview(bytearray(4 * SMALL_FRAME_BYTES))
        self.work = SimpleNamespace(is_busy=False)
        self.reasons: list[str] = []
        self.quotas = NO_QUOTAS
        self.disconnect_log = SimpleNamespace(note=lambda client, text: self.reasons.append(text))

    def connect(self) -> Connection:
        host: Any = self
        made = Connection(host, ListenerSecurity("PLAINTEXT", SessionRules(FRAME_BYTES_MAX)))
        made.connection_made(cast(asyncio.Transport, Transport()))
        self.connections.append(made)
        return made

    def connected(self, connection: Connection) -> bool:
        return True

    def after_read(self, key: int) -> None:
        pass

    def flush_soon(self, connection: Connection) -> None:
        pass


@pytest.fixture
def host() -> Host:
    return Host()


def send(host: Host, connection: Connection, data: bytes, *, at_s: float) -> None:
    """These bytes arrive at that time."""
    clock: Any = host.loop
    clock.now_s = at_s
    while data:
        room = connection.get_buffer(-1)
        taken = min(len(room), len(data))
        room[:taken] = data[:taken]
        connection.buffer_updated(taken)
        data = data[taken:]


def rate_at(host: Host, connection: Connection, at_s: float) -> float | None:
    clock: Any = host.loop
    clock.now_s = at_s
    return connection.incoming_rate


@pytest.mark.parametrize("first_bytes", [1_000, 50_000])
def test_the_rate_of_a_frame_counts_from_its_first_byte(host: Host, first_bytes: int) -> None:
    """A client that sends a byte now and then is slow, however young its last byte is."""
    connection = host.connect()
    assert connection.incoming_rate is None
    head = LONG_BYTES.to_bytes(4, "big")
    send(host, connection, head + bytes(first_bytes - 4), at_s=1_000)
    assert rate_at(host, connection, 1_010) == first_bytes / 10
    send(host, connection, bytes(1_000), at_s=1_090)
    assert rate_at(host, connection, 1_100) == (first_bytes + 1_000) / 100


def test_the_rate_of_a_frame_does_not_count_the_one_before_it(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = host.connect()
    frames: list[int] = []
    monkeypatch.setattr(Dispatcher, "dispatch", lambda self, frame: frames.append(len(frame)))
    head = LONG_BYTES.to_bytes(4, "big")
    send(host, connection, (100).to_bytes(4, "big") + bytes(50), at_s=1_000)
    send(host, connection, bytes(50) + head + bytes(996), at_s=1_100)
    assert frames == [100]
    assert rate_at(host, connection, 1_110) == 100
    send(host, connection, bytes(LONG_BYTES - 996) + head + bytes(1_996), at_s=1_200)
    assert frames == [100, LONG_BYTES]
    assert rate_at(host, connection, 1_220) == 100


def test_what_large_answers_to_come_take_is_given_back_as_a_client_is_evicted(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not when its socket is closed, a turn of the event loop later: others would go before."""
    monkeypatch.setattr(memory_budget, "WAITING_BYTES_MAX", 1_000)
    large, small = host.connect(), host.connect()
    small.add_buffered(400)
    large.add_buffered(601)
    assert (large.closed, small.closed) == (True, False)
    assert host.memory_budget.waiting_bytes == small.buffered_bytes == 400
    assert large.buffered_bytes == 0 and len(host.reasons) == 1
    small.add_buffered(500)
    assert not small.closed


@pytest.mark.parametrize("sent_bytes", [1_000, 50_000])
def test_what_has_arrived_of_a_frame_is_given_back_as_a_client_is_evicted(
    host: Host, sent_bytes: int
) -> None:
    """At once, in whichever buffer it is kept: the next sender is evicted by what counts now."""
    slow, fast = host.connect(), host.connect()
    head = LONG_BYTES.to_bytes(4, "big")
    for connection in (slow, fast):
        send(host, connection, head + bytes(sent_bytes - 4), at_s=1_000)
    both_bytes = host.memory_budget.incoming_bytes
    assert both_bytes >= 2 * sent_bytes
    slow.evict("it is slow")
    assert host.memory_budget.incoming_bytes == both_bytes // 2
    assert slow.closed and slow.incoming_rate is None and fast.incoming_rate is not None


def test_answers_that_were_not_taken_are_given_back_as_a_client_is_evicted(host: Host) -> None:
    stalled, other = host.connect(), host.connect()
    for connection, size_bytes in ((stalled, 3_000), (other, 500)):
        connection._output.put([bytes(size_bytes)])
    stalled.evict("it takes nothing")
    assert host.memory_budget.outgoing_bytes == 500
    assert stalled.output_stalled_since is None
