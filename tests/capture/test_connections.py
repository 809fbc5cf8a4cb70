"""Whole connections, packet by packet: lost, repeated, joined in the middle, bounded in memory."""

from __future__ import annotations

import gc
import random
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from fencepost.capture.connections import Connections, Seen
from fencepost.capture.conversation import Item, Pending
from fencepost.capture.framing import Skipped
from fencepost.capture.packets import Endpoint, Segment, dissect

from .packet_maker import CLIENT, SERVER, PacketMaker, ethernet, tcp_over_ip
from .wire_messages import FRAME_BYTES_MAX, heartbeats

# -- connections -----------------------------------------------------------------------------


def seen_of(packets: Iterable[bytes], **options: int) -> list[Seen]:
    connections = Connections([9092], FRAME_BYTES_MAX, **options)
    found: list[Seen] = []
    for time, packet in enumerate(packets):
        segment = dissect(1, packet)
        if segment is not None:
            found += connections.push(float(time), segment)
    return [*found, *connections.close(1e6)]


def kinds(found: list[Seen]) -> list[str]:
    return [
        one.what.kind if isinstance(one.what, Item) else f"skipped {one.what.size}" for one in found
    ]


def test_a_whole_connection_packet_by_packet():
    asked, answers = heartbeats(2)
    maker = PacketMaker(segment_bytes=10)
    packets = [
        *maker.open(),
        *maker.send(asked[0]),
        *maker.answer(answers[0]),
        *maker.send(asked[1]),
        *maker.answer(answers[1]),
        *maker.close(),
    ]
    found = seen_of(packets)
    assert kinds(found) == ["request", "response"] * 2
    assert all(one.connection == 0 for one in found)
    assert str(found[0].source) == "10.0.0.1:40000" == str(found[1].destination)


@pytest.mark.parametrize("seed", range(20))
def test_a_bad_network_changes_nothing(seed: int):
    """Reordered within a window, duplicated: every frame is there, each once."""
    dice = random.Random(seed)
    asked, answers = heartbeats(10)
    maker = PacketMaker(segment_bytes=25, first_sequence=2**32 - 100)
    packets = maker.open()
    body = [*maker.send(b"".join(asked)), *maker.answer(b"".join(answers))]
    body += dice.sample(body, 10)
    keyed = sorted((index + dice.uniform(0, 6), packet) for index, packet in enumerate(body))
    found = seen_of([*packets, *(packet for _, packet in keyed), *maker.close()])
    ids = [one.what.pending for one in found if isinstance(one.what, Item)]
    assert len(ids) == 20
    assert kinds(found).count("request") == 10
    assert not [kind for kind in kinds(found) if kind.startswith("skipped")]


@pytest.mark.parametrize("seed", range(20))
def test_lost_packets_cost_what_was_in_them(seed: int):
    dice = random.Random(seed)
    asked, answers = heartbeats(30)
    maker = PacketMaker(segment_bytes=40)
    packets = maker.open()
    for ask, answer in zip(asked, answers):
        packets += [*maker.send(ask), *maker.answer(answer)]
    lost = dice.sample(range(3, len(packets)), 5)
    found = seen_of(packet for index, packet in enumerate(packets) if index not in lost)
    whole = [one for one in found if isinstance(one.what, Item) and one.what.error is None]
    assert len(whole) >= 60 - 3 * len(lost)
    assert len({one.time for one in found}) > 20  # found as it goes, not only at the end


def test_joined_in_the_middle_of_a_frame():
    asked, answers = heartbeats(5)
    maker = PacketMaker()
    packets = maker.send(asked[0][7:])
    for ask, answer in zip(asked[1:], answers):  # the first answer is to a request never seen
        packets += [*maker.answer(answer), *maker.send(ask)]
    packets += maker.answer(answers[4])
    found = seen_of(packets)
    assert kinds(found).count("request") == kinds(found).count("response") == 4
    assert sum(one.what.size for one in found if isinstance(one.what, Skipped)) == (
        len(asked[0]) - 7 + len(answers[0])
    )


def test_ports_that_are_used_again_are_another_connection():
    asked, answers = heartbeats(1)
    first, second = PacketMaker(), PacketMaker(first_sequence=77_000)
    packets = []
    for maker in (first, second):
        packets += [*maker.open(), *maker.send(asked[0]), *maker.answer(answers[0])]
    found = seen_of(packets)
    assert [one.connection for one in found] == [0, 0, 1, 1]
    assert kinds(found) == ["request", "response"] * 2


def test_a_syn_that_comes_twice_is_one_connection():
    asked, _ = heartbeats(1)
    maker = PacketMaker()
    syn, *rest = maker.open()
    found = seen_of([syn, syn, *rest, syn, *maker.send(asked[0])])
    assert kinds(found) == ["request"] and found[0].connection == 0


def test_other_ports_are_passed_over():
    asked, _ = heartbeats(1)
    maker = PacketMaker(server=Endpoint("10.0.0.2", 80))
    assert seen_of([*maker.open(), *maker.send(asked[0])]) == []


def test_connections_and_memory_are_bounded():
    asked, _ = heartbeats(1, member="x" * 5000)
    makers = [PacketMaker(client=Endpoint("10.0.0.1", 30000 + i)) for i in range(50)]
    packets = [p for maker in makers for p in [*maker.open(), *maker.send(asked[0][:-1])]]
    connections = Connections([9092], FRAME_BYTES_MAX, held_bytes_max=20_000)
    given_up: list[Seen] = []
    for packet in packets:
        segment = dissect(1, packet)
        assert segment is not None
        given_up += connections.push(0.0, segment)
    assert len(given_up) == 50 - 3
    assert all(isinstance(one.what, Skipped) for one in given_up)
    assert len(list(connections.close(0.0))) == 3
    assert len(seen_of(packets, connections_max=4)) == 50


def held(kind: type[tuple[Any, ...]]) -> int:
    """How many objects of this class there are."""
    gc.collect()
    return sum(type(one) is kind for one in gc.get_objects())


def test_segments_without_data_are_not_held_without_end(monkeypatch: pytest.MonkeyPatch):
    """A server that acknowledges, byte by byte, what no client has sent."""
    monkeypatch.setattr("fencepost.capture.connections.EARLY_BYTES_MAX", 70_000)
    connections = Connections([9092], FRAME_BYTES_MAX)
    before = held(Segment)
    for packet in PacketMaker(first_sequence=100).open()[:2]:
        segment = dissect(1, packet)
        assert segment is not None
        assert list(connections.push(0.0, segment)) == []
    for index in range(2000):
        answer = tcp_over_ip(SERVER, CLIENT, sequence=900_101, acknowledged=102 + index)
        segment = dissect(101, answer)
        assert segment is not None
        assert all(isinstance(one.what, Skipped) for one in connections.push(0.0, segment))
    assert held(Segment) - before <= 110


def test_requests_that_wait_in_many_connections_are_bounded():
    asked, _ = heartbeats(100)
    before = held(Pending)
    connections = Connections([9092], FRAME_BYTES_MAX, held_bytes_max=200_000)
    for port in range(30_000, 30_020):
        maker = PacketMaker(client=Endpoint("10.0.0.1", port))
        for packet in [*maker.open(), *maker.send(b"".join(asked))]:
            segment = dissect(1, packet)
            assert segment is not None
            assert all(one.what.kind == "request" for one in connections.push(0.0, segment))
    assert 100 <= held(Pending) - before <= 500


@settings(max_examples=100, deadline=None, database=None)
@given(st.lists(st.tuples(st.integers(0, 2**32 - 1), st.binary(max_size=40)), max_size=20))
def test_hostile_segments_break_nothing(segments: list[tuple[int, bytes]]):
    packets = [
        ethernet(tcp_over_ip(CLIENT, SERVER, sequence=at, acknowledged=at ^ 5, data=data))
        for at, data in segments
    ]
    seen_of(packets)
