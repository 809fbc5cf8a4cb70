"""What a relay keeps of answers whose turn has not come, and when it reads no more of them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fencepost.testing.faults import relay as relay_module
from fencepost.testing.faults.relay import Relay
from fencepost.testing.faults.rules import Fault, Target
from fencepost.testing.faults.state import FaultState
from fencepost.wire.api.api_versions import ApiVersionsRequest
from fencepost.wire.errors import ErrorCode
from fencepost.wire.frame import encode_request

NODE = 1
CLIENT = "test"
BYTES_MAX = 1_000


class Transport:
    """One end, which takes everything."""

    def __init__(self) -> None:
        self.is_open_to_reading = True
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return False

    def is_reading(self) -> bool:
        return self.is_open_to_reading

    def pause_reading(self) -> None:
        self.is_open_to_reading = False

    def resume_reading(self) -> None:
        self.is_open_to_reading = True


class Loop:
    """A clock that stands still."""

    def time(self) -> float:
        return 0.0

    def create_task(self, work: Any) -> None:
        work.close()


class Relayed:
    """A relay between a client and a broker."""

    def __init__(self) -> None:
        self.state = FaultState()
        gate: Any = SimpleNamespace(
            node=NODE, target=("127.0.0.1", 1), state=self.state, entered=lambda relay: True
        )
        self.relay = Relay(gate, cast(asyncio.AbstractEventLoop, Loop()))
        self.client, self.server = Transport(), Transport()
        for side, transport in (
            (self.relay.client, self.client),
            (self.relay.server, self.server),
        ):
            side.connection_made(cast(asyncio.Transport, transport))
        self._asked = 0

    def ask(self) -> int:
        """The client asks; the correlation id."""
        self._asked += 1
        data = encode_request(ApiVersionsRequest(), 0, self._asked, CLIENT)
        self.relay.received(bytes(data), is_client=True)
        return self._asked

    def answer(self, correlation_id: int, size_bytes: int) -> None:
        """The broker answers with a frame of that size."""
        data = (size_bytes - 4).to_bytes(4, "big") + correlation_id.to_bytes(4, "big")
        self.relay.received(data + bytes(size_bytes - 8), is_client=False)

    def cut(self) -> None:
        self.state.links.cut(NODE, CLIENT)
        self.relay.links_changed()

    def heal(self) -> None:
        self.state.links.heal(None, None)
        self.relay.links_changed()

    def fail_next(self, *, after: bool) -> None:
        target = Target(ApiVersionsRequest.api_key)
        error = ErrorCode.UNKNOWN_SERVER_ERROR
        lift = self.state.rules.remove
        self.state.rules.add(Fault(1, "fail", target, 1, after=after, error=error, lift=lift))


@pytest.fixture
def relayed(monkeypatch: pytest.MonkeyPatch) -> Relayed:
    monkeypatch.setattr(relay_module, "WAITING_BYTES_MAX", BYTES_MAX)
    return Relayed()


def test_a_broker_is_read_from_while_there_is_room_for_its_answers(relayed: Relayed) -> None:
    asked = [relayed.ask() for _ in range(3)]
    assert len(relayed.server.written) == 3
    relayed.cut()
    for correlation_id, size_bytes in zip(asked, (600, 400, 50), strict=True):
        assert relayed.server.is_open_to_reading
        relayed.answer(correlation_id, size_bytes)
    assert not relayed.server.is_open_to_reading, "1050 bytes wait"
    assert relayed.client.written == []
    relayed.heal()
    assert [len(one) for one in relayed.client.written] == [600, 400, 50]
    assert relayed.server.is_open_to_reading


@pytest.mark.parametrize("rounds", [1, 3])
def test_what_has_left_waits_no_longer(relayed: Relayed, rounds: int) -> None:
    """Nor do answers that nothing was asked for, and those that faults have changed."""
    for _ in range(rounds):
        relayed.answer(relayed.ask(), BYTES_MAX)
        relayed.answer(0, BYTES_MAX)
        relayed.fail_next(after=True)
        relayed.answer(relayed.ask(), BYTES_MAX)
        relayed.fail_next(after=False)
        relayed.ask()
        assert relayed.server.is_open_to_reading
    assert len(relayed.client.written) == 4 * rounds
    relayed.cut()
    relayed.answer(relayed.ask(), BYTES_MAX)
    assert relayed.server.is_open_to_reading
    relayed.answer(relayed.ask(), 8)
    assert not relayed.server.is_open_to_reading


def test_answers_that_are_made_here_take_room_as_well(relayed: Relayed) -> None:
    relayed.cut()
    count = 0
    while relayed.server.is_open_to_reading and count <= BYTES_MAX:
        relayed.fail_next(after=False)
        relayed.ask()
        count += 1
    assert relayed.server.written == []
    assert not relayed.server.is_open_to_reading
    relayed.heal()
    assert len(relayed.client.written) == count
    assert sum(map(len, relayed.client.written)) > BYTES_MAX
    assert relayed.server.is_open_to_reading


def test_an_answer_that_a_fault_has_changed_takes_what_it_is_now(relayed: Relayed) -> None:
    """The failure is shorter than what the broker has said."""
    relayed.fail_next(after=True)
    failed, asked = relayed.ask(), relayed.ask()
    relayed.cut()
    relayed.answer(failed, 10 * BYTES_MAX)
    assert relayed.server.is_open_to_reading
    relayed.answer(asked, BYTES_MAX)
    assert not relayed.server.is_open_to_reading
    relayed.heal()
    assert relayed.server.is_open_to_reading
