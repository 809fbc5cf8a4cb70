"""Links that take their time: how much, by a clock that the test turns, and at a real broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from fencepost.client.connection import Connection
from fencepost.testing import Cluster
from fencepost.testing.faults.links import CUTS_MAX, SLOW_MAX, Links, Pace, SlowWay, sender_of
from fencepost.testing.faults.rules import FaultError
from fencepost.wire.api.api_versions import ApiVersionsRequest

from .conftest import is_silent
from .test_nodes import connect_to


class Timer:
    """A call that is due at some time."""

    def __init__(self, at_s: float, call: Callable[[], None]) -> None:
        self.at_s, self.call, self.is_cancelled = at_s, call, False

    def cancel(self) -> None:
        self.is_cancelled = True


class Clock:
    """What a slow way needs of an event loop."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.timers: list[Timer] = []

    def time(self) -> float:
        return self.now_s

    def call_at(self, at_s: float, call: Callable[[], None]) -> Timer:
        self.timers.append(Timer(at_s, call))
        return self.timers[-1]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def way(clock: Clock) -> SlowWay:
    return SlowWay(cast(asyncio.AbstractEventLoop, clock), lambda: None)


def test_a_frame_passes_when_its_delay_is_over(clock: Clock, way: SlowWay):
    pace = Pace(delay_ms=250)
    assert not way.may_pass(pace, 10_000, clock.now_s)
    assert [timer.at_s for timer in clock.timers] == [100.25]
    clock.now_s = 100.25
    assert way.may_pass(pace, 10_000, 100.0)
    assert way.may_pass(pace, 10_000, 100.0), "frames that came together are through together"
    assert not way.may_pass(pace, 10_000, 100.1)
    assert clock.timers[-1].at_s == pytest.approx(100.35)


def test_bytes_pass_one_behind_the_other(clock: Clock, way: SlowWay):
    pace = Pace(bytes_per_s=1_000)
    assert not way.may_pass(pace, 500, 100.0)
    clock.now_s = 102.0
    assert way.may_pass(pace, 500, 100.0), "since 100.5"
    assert way.may_pass(pace, 500, 100.0), "since 101"
    assert way.may_pass(pace, 1_000, 100.0)
    assert not way.may_pass(pace, 1, 100.0)
    assert clock.timers[-1].at_s == pytest.approx(102.001)


def test_a_frame_that_passed_or_was_dropped_has_no_timer(clock: Clock, way: SlowWay):
    assert not way.may_pass(Pace(delay_ms=1_000), 1, 100.0)
    assert way.may_pass(None, 1, 100.0), "the link was healed"
    assert clock.timers[0].is_cancelled
    assert not way.may_pass(Pace(delay_ms=1_000), 1, 100.0)
    way.cancel()
    assert clock.timers[1].is_cancelled


def test_the_slowest_of_what_is_said_about_a_link_counts():
    links = Links()
    assert links.pace(1, 2) is None
    links.slow(1, None, Pace(delay_ms=10))
    links.slow(None, 2, Pace(bytes_per_s=500))
    links.slow(1, 2, Pace(delay_ms=5, bytes_per_s=900))
    assert links.pace(1, 2) == Pace(10, 500)
    assert links.pace(1, 3) == Pace(10)
    assert links.pace(2, 1) is None
    links.heal(2, None)
    assert links.slow_links == {(1, None): Pace(10)}
    links.heal(None, None)
    assert links.slow_links == {}


def test_a_node_is_known_by_whatever_it_calls_itself():
    assert sender_of("fencepost-node-12") == 12
    assert sender_of("broker-12-fetcher-0") == 12, "and so do Apache Kafka's followers"
    assert sender_of("broker-12") == "broker-12"
    assert sender_of(None) is None


def test_slow_links_are_bounded():
    links = Links()
    for number in range(SLOW_MAX):
        links.slow(number, None, Pace(1))
    links.slow(0, None, Pace(2))
    with pytest.raises(ValueError, match=str(CUTS_MAX)):
        links.slow("one more", None, Pace(1))


@pytest.mark.slow
def test_what_a_slow_link_holds_arrives_when_it_is_healed(lone: Cluster):
    hour_ms = 3_600_000
    for sender, receiver in (("test", 1), (1, "test")):
        with connect_to(lone, 1) as client:
            client.ask(ApiVersionsRequest(), 0)
            lone.slow(sender, receiver, delay_ms=hour_ms, one_way=True)
            assert lone.slow_links == {(sender, receiver): Pace(hour_ms)}
            sent = client.send(ApiVersionsRequest(), 0)
            for _ in range(3):  # for whom the link is as it was
                Connection("127.0.0.1", lone.port_of(1)).close()
            assert is_silent(client)
            lone.heal()
            assert client.receive(18, 0)[0] == sent


@pytest.mark.slow
def test_a_slow_link_lets_everything_through_in_order(lone: Cluster):
    with connect_to(lone, 1) as client:
        lone.slow(1, bytes_per_s=1_000_000, delay_ms=2)
        assert set(lone.slow_links) == {(1, None), (None, 1)}
        sent = [client.send(ApiVersionsRequest(), 0) for _ in range(20)]
        assert [client.receive(18, 0)[0] for _ in sent] == sent


@pytest.mark.slow
def test_a_pace_that_cannot_be_is_refused(lone: Cluster):
    for wrong in ({}, {"delay_ms": -1}, {"bytes_per_s": 0}, {"delay_ms": 1 << 40}):
        with pytest.raises(FaultError):
            lone.slow(1, **wrong)
    assert lone.slow_links == {}
