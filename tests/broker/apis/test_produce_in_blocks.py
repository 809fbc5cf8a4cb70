"""Plain Produce requests are taken by the connection and answered by the block; no client can tell.

Two nodes are given the same bytes on the same connections: one takes runs, the other decodes every
request. What connections are sent, logs with their indexes, and counts are compared. Bytes come in
any pieces, plain requests among others and mutated ones, and the disk may take until the turn ends.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import pytest
from hypothesis import event, given, settings, strategies as st
from msgspec import structs

from fencepost.batch.records import build_batch
from fencepost.broker.apis import produce_from_bytes
from fencepost.broker.apis.produce_in_blocks import ProduceInBlocks
from fencepost.broker.config.endpoints import ConnectionLimits
from fencepost.broker.net import answers, connection as connections, turn as turn_bounds
from fencepost.broker.net.connection import Connection
from fencepost.broker.net.dispatch import MAX_REQUESTS_IN_FLIGHT
from fencepost.broker.net.listener import Listener
from fencepost.broker.net.listener_security import ListenerSecurity
from fencepost.broker.net.request_metrics import (
    ALL_TIMED_UP_TO,
    TIMED_ONE_IN,
    ApiMetrics,
    timed_weight,
)
from fencepost.log import rolling
from fencepost.machines.partition.appending import Appending
from fencepost.machines.session import Principal, SessionRules
from fencepost.runtime import combined_appends
from fencepost.runtime.requests.produce import produce
from fencepost.wire.api.produce import ProduceResponse
from fencepost.wire.errors import ErrorCode
from fencepost.wire.frame import decode_response

from .harness import register, routes_of, to_its_end
from .partitions import NOW_MS
from .test_produce_from_bytes import (
    KINDS,
    MUTATIONS,
    PRODUCERS,
    TOPIC,
    Served,
    framed,
    made,
    mutated,
    needs_kernel,
)

register("produce")
CONNECTIONS = 3


ROLL_MS = 7 * 24 * 3600 * 1000  # segment.ms


class Turns:
    """An event loop as far as connections use one: what is called soon is called by `turn`."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> None:
        """Nobody waits so long here."""

    def time(self) -> float:
        return 1.0

    def turn(self) -> None:
        while self.soon:
            callbacks, self.soon = self.soon, []
            for callback in callbacks:
                callback()


class Prompt:
    """The lane of a scheduler with nothing else to do."""

    is_busy = False

    def beside(self) -> Prompt:
        return self

    def begin(self, pieces: Any, on_done: Callable[[], None], is_wanted: Any) -> bool:
        to_its_end(pieces)
        return True


class Sink(asyncio.Transport):
    """What a client would have been sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = bytearray()
        self.closing = False

    def write(self, data: Any) -> None:
        self.sent += data

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """There are none."""

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    abort = close

    def pause_reading(self) -> None:
        """What is given all the same stays with whoever gives it."""

    resume_reading = pause_reading


class Serving(Served):
    """A node with connections to it."""

    def __init__(self, directory: Any, is_fast: bool) -> None:
        super().__init__(directory, is_fast)
        self.loop = Turns()
        self.appends._soon = self.loop.call_soon
        limits = ConnectionLimits(1 << 20, 1000, 1000, -1)
        self.listener = Listener(self.loop, limits, Prompt())  # type: ignore[arg-type]
        self.listener.securities["PLAINTEXT"] = ListenerSecurity(
            "PLAINTEXT", SessionRules(limits.max_frame_bytes)
        )
        self.listener.after_read = self.appends.read_done
        self.listener.request_metrics = self.metrics
        self.listener.new_context = self.metrics.new_context
        self.listener.context_again = self.metrics.context_again
        self.route = route = routes_of("PLAINTEXT")[0]
        self.metrics.of(route)
        self.runs = Counting(self) if is_fast else None
        self.listener.routes = {
            0: structs.replace(
                route,
                handler=lambda *given: produce(*given, **self.parts, **self.others),
                take_bytes=self._take_bytes if is_fast else None,
                run_taker=self.runs if is_fast else None,
            )
        }
        self.taken = 0
        self.flushing: list[Hashable] = []
        self.is_slow = False
        self._flush_now = self.node.ports.request_flush
        self.node.ports.request_flush = self._flush  # type: ignore[method-assign]
        self.connections = [self.connect() for _ in range(CONNECTIONS)]

    def _take_bytes(self, context: Any, frame: memoryview, start: int) -> bool:
        return produce_from_bytes.produce_from_bytes(context, frame, start, **self.parts)

    def _flush(self, key: Hashable) -> None:
        if self.is_slow:
            self.flushing.append(key)
        else:
            self._flush_now(key)

    def connect(self) -> tuple[Connection, Sink]:
        connection, sink = Connection(self.listener, self.listener.securities["PLAINTEXT"]), Sink()
        connection.connection_made(sink)
        return connection, sink

    def receive(self, number: int, data: bytes) -> None:
        connection, _ = self.connections[number]
        while data and not connection.closed:
            room = connection.get_buffer(-1)
            count = min(len(room), len(data))
            room[:count] = data[:count]
            connection.buffer_updated(count)
            data = data[count:]
            if connection._reading_paused:
                self.end_turn()

    def end_turn(self) -> None:
        self.loop.turn()
        flushing, self.flushing = self.flushing, []
        for key in flushing:
            self._flush_now(key)
        self.loop.turn()

    def outputs(self) -> list[Any]:
        """What clients got; who was disconnected comes again."""
        found: list[Any] = []
        for number, (connection, sink) in enumerate(self.connections):
            found.append((bytes(sink.sent), sink.closing, len(connection._answers.waiting)))
            sink.sent.clear()
            if connection.closed:
                connection.connection_lost(None)
                self.connections[number] = self.connect()
        return found

    def forget_counts(self) -> None:
        for api in self.metrics.apis.values():
            api.versions.clear()
            api.errors.clear()
            api.request_bytes = api.response_bytes = 0

    def state(self) -> object:
        segments = []
        for hosted in self.node.replicas.all():
            for one in hosted.log._row.segments:
                index, time_index = one.index.encode(), one.time_index.encode()
                known = one.max_timestamp, one.bytes_since_index, one.next_offset, one.size_bytes
                segments.append((one.base_offset, index, time_index, known, one._sound_to))
        return super().state(), segments


class Counting(ProduceInBlocks):
    """Says how many requests it took."""

    def __init__(self, serving: Serving) -> None:
        node: Any = serving.node
        api = serving.metrics.of(serving.route)
        super().__init__(serving.appends, node, node.partitions, api)
        self._serving = serving

    def take(self, *given: Any) -> int:
        start = super().take(*given)
        self._serving.taken += self._runs.requests
        return start


@contextlib.contextmanager
def whatever_it_takes() -> Iterator[None]:
    """However busy the machine is and however full a segment, nothing is put off for it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(produce_from_bytes, "AT_ONCE_S", float("inf"))
        patch.setattr(connections, "COUNTED_S", float("inf"))
        patch.setattr(connections, "DISPATCH_S", float("inf"))
        patch.setattr(turn_bounds, "TURN_DISPATCH_S", float("inf"))
        patch.setattr(rolling, "COLLECTED_BYTES", 0)  # segments of tests are small
        patch.setattr(rolling, "COLLECTED_BATCHES", 0)
        yield


@pytest.fixture
def both(tmp_path):
    with whatever_it_takes():
        yield [Serving(tmp_path / name, name == "fast") for name in ("fast", "today")]


@pytest.fixture(scope="module")
def long_lived(tmp_path_factory):
    with whatever_it_takes():
        names = ("fast", "today")
        yield [Serving(tmp_path_factory.mktemp(name), name == "fast") for name in names]


def length_prefixed(frame: bytes) -> bytes:
    return len(frame).to_bytes(4, "big") + frame


def served_alike(both: list[Serving], turns: list[list[tuple[int, bytes]]]) -> int:
    """Have the bytes arrive turn by turn; how many requests were taken in runs."""
    fast, today = both
    before = fast.taken
    for turn in turns:
        for served in both:
            for number, data in turn:
                served.receive(number, data)
            served.end_turn()
        check_outputs(both, [served.outputs() for served in both])
        assert fast.state() == today.state()
    return fast.taken - before


def check_outputs(both: list[Serving], outputs: list[list[Any]]) -> None:
    """How much of its answers a client gets that is disconnected is a matter of time: blocks may
    be settled earlier than groups."""
    for (ours, closed, left), (theirs, is_closed, are_left) in zip(*outputs, strict=True):
        assert closed == is_closed
        if closed:
            assert ours.startswith(theirs) or theirs.startswith(ours)
            for served in both:
                served.forget_counts()  # they are of what was answered
        else:
            assert (ours, left) == (theirs, are_left)


PLAIN = st.builds(made, st.just("plain"), PRODUCERS)
USUAL_TOPICS = st.lists(
    st.tuples(
        st.sampled_from(["t", "t", "t", "stamped", "rolled", "compacted", "small"]),
        st.lists(st.tuples(st.sampled_from([0, 0, 1]), PLAIN), min_size=1, max_size=3),
    ),
    min_size=1,
    max_size=2,
)
USUAL_FRAMES = st.builds(
    framed, st.sampled_from([3, 9, 9, 12, 13]), USUAL_TOPICS, st.sampled_from([-1, -1, 1])
)
ANY_FRAMES = st.builds(
    mutated,
    st.builds(
        framed,
        st.integers(3, 13),
        st.lists(TOPIC, max_size=3),
        st.sampled_from([-1, 1, 2]),  # an error with 0 disconnects, a matter of time again
        st.sampled_from([None, None, "tx"]),
    ),
    st.one_of(st.just([]), MUTATIONS),
    st.just(1.0),
)
FRAMES = st.one_of(USUAL_FRAMES, USUAL_FRAMES, USUAL_FRAMES, ANY_FRAMES)
TURN = st.lists(
    st.tuples(st.integers(0, CONNECTIONS - 1), st.lists(FRAMES, max_size=4)), max_size=4
)


@needs_kernel
@settings(max_examples=50, deadline=None)
@given(turns=st.lists(TURN, max_size=3), is_slow=st.booleans(), cut=st.floats(0, 1))
def test_runs_are_answered_and_stored_as_if_each_request_had_come_alone(
    long_lived, turns, is_slow, cut
) -> None:
    arriving = []
    for turn in turns:
        pieces = []
        for number, frames in turn:
            data = b"".join(map(length_prefixed, frames))
            at = int(len(data) * cut)
            pieces += [(number, data[:at]), (number, data[at:])]
        arriving.append(pieces)
    for served in long_lived:
        served.is_slow = is_slow
    event(f"taken: {min(served_alike(long_lived, arriving), 3)}")


def plain(producer: tuple[int, int, int] = (-1, -1, -1), **fields: Any) -> bytes:
    data = made("plain", producer, **fields)
    assert data is not None
    return data


def request(*batches: bytes, version: int = 9, acks: int = -1, index: int = 0) -> bytes:
    return length_prefixed(framed(version, [("t", [(index, one) for one in batches])], acks))


@needs_kernel
@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_what_follows_a_connections_first_request_is_taken_in_runs(
    long_lived, version, acks
) -> None:
    for served in long_lived:
        served.is_slow = False
        for number, (connection, _) in enumerate(served.connections):
            connection.connection_lost(None)
            served.connections[number] = served.connect()
    one = length_prefixed(
        framed(version, [("t", [(0, plain()), (1, plain())]), ("small", [(0, plain())])], acks)
    )
    assert served_alike(long_lived, [[(0, one)]]) == 0, "nothing is known of the client"
    assert served_alike(long_lived, [[(0, one * 5), (1, one), (0, one)]]) == 6


@needs_kernel
def test_producers_with_ids_are_taken_and_judged(both) -> None:
    both_ways = [
        [(0, request(plain((7, 0, 0))))],
        [(0, request(plain((7, 0, 2))) + request(plain((7, 0, 4)), plain((7, 0, 6))))],
        [(0, request(plain((7, 0, 2))))],  # a duplicate
        [(0, request(plain((7, 0, 30))) + request(plain((7, 0, 8))))],  # a gap
        [(0, request(plain((7, 1, 0))) + request(plain((7, 0, 8))))],  # a fenced epoch
        [(0, request(plain((7, 1, 2))) + request(plain((7, 1, 2))))],
        [(0, request(plain((7, 1, 4)), plain((8, 0, 0)), acks=1))],
    ]
    assert served_alike(both, both_ways) == 10


@needs_kernel
@pytest.mark.parametrize("third", [(9, 0, 2), (9, 0, 0), (9, 0, 6), (9, 0, 4), (9, 1, 0)])
def test_a_batch_is_judged_by_the_last_one_of_its_producer_in_the_run(both, third) -> None:
    """The one before it is in the block and in no log."""
    served_alike(both, [[(0, request(plain()))]])
    run = request(plain((9, 0, 0))) + request(plain((9, 0, 2))) + request(plain(third))
    assert served_alike(both, [[(0, run)], [(0, request(plain((9, 0, 4))))]]) == 4


@needs_kernel
def test_what_is_not_plain_is_left_to_others_and_keeps_its_place(both) -> None:
    served_alike(both, [[(0, request(plain()))]])
    for kind in KINDS[1:]:
        unusual = length_prefixed(framed(9, [("t", [(0, made(kind))])]))
        assert served_alike(both, [[(0, request(plain()) + unusual + request(plain()))]]) >= 1
        served_alike(both, [[(0, request(plain()))]])


@needs_kernel
def test_errors_of_the_machine_are_told_as_ever(both) -> None:
    for version in (3, 8, 10, 13):
        for acks in (-1, 0, 1):
            mixed = length_prefixed(
                framed(version, [("t", [(0, plain()), (1, plain()), (0, plain())])], acks)
            )
            served_alike(both, [[(0, mixed), (1, mixed)]])
            for served in both:
                hosted = served.node.replicas.hosted["t", 1]
                served.node.follow(hosted, hosted.machine.leader_epoch + 1)
            assert served_alike(both, [[(0, mixed * 2), (1, mixed)]]) >= 2
            for served in both:
                hosted = served.node.replicas.hosted["t", 1]
                served.node.lead(hosted, hosted.machine.leader_epoch + 1)


@needs_kernel
def test_a_partition_that_goes_while_a_block_is_filled_refuses_it(both) -> None:
    served_alike(both, [[(1, request(plain()))], [(0, request(plain()))]])
    outputs = []
    for served in both:
        served.receive(0, request(plain()))  # the reader of before: settled at once
        served.receive(1, request(plain()) * 2)
        served.receive(1, request(plain()))
        hosted = served.node.replicas.hosted["t", 0]
        served.node.driver.remove(hosted.key)
        served.end_turn()
        outputs.append(served.outputs())
    assert outputs[0] == outputs[1]
    assert int(ErrorCode.NOT_LEADER_OR_FOLLOWER).to_bytes(2, "big") in outputs[0][1][0]


@needs_kernel
def test_a_machine_that_breaks_down_disconnects_who_waits_for_it(both, monkeypatch) -> None:
    served_alike(both, [[(0, request(plain()))], [(1, request(plain()))]])
    monkeypatch.setattr(Appending, "_take", lambda *given: 1 / 0)
    monkeypatch.setattr(Appending, "_takes_whole", lambda *given: 1 / 0)
    for served in both:
        served.receive(0, request(plain()) * 2)
        served.receive(1, request(plain()))
        served.end_turn()
    assert [one[1] for one in both[0].outputs()] == [True, True, False]
    assert [one[1] for one in both[1].outputs()] == [True, True, False]


@needs_kernel
def test_clients_that_leave_are_not_answered_and_others_are(both) -> None:
    served_alike(both, [[(0, request(plain())), (1, request(plain()))]])
    for served in both:
        served.is_slow = True
        for number in (0, 1):
            served.receive(number, request(plain()) * 3)
        served.connections[0][0].connection_lost(None)
        served.connections[0] = served.connect()
    assert served_alike(both, [[]]) == 0


@needs_kernel
def test_no_more_requests_are_in_flight_than_ever(both) -> None:
    served_alike(both, [[(0, request(plain()))]])
    for served in both:
        served.is_slow = True
        served.receive(0, request(plain()) * 20)
        connection, _ = served.connections[0]
        data = request(plain()) * (MAX_REQUESTS_IN_FLIGHT - 11)
        room = connection.get_buffer(-1)
        room[: len(data)] = data
        connection.buffer_updated(len(data))
        assert len(connection._answers.waiting) == MAX_REQUESTS_IN_FLIGHT
        assert connection._answers.frame_bytes == MAX_REQUESTS_IN_FLIGHT * (
            len(request(plain())) - 4
        )
        served.end_turn()
    fast, today = both
    assert fast.outputs() == today.outputs()
    served_alike(both, [[]])
    assert [one[0]._answers.frame_bytes for one in fast.connections] == [0] * CONNECTIONS


@needs_kernel
def test_more_than_may_be_collected_is_settled_at_once(both, monkeypatch) -> None:
    monkeypatch.setattr(combined_appends, "COLLECTED_BYTES_MAX", 100)
    served_alike(both, [[(0, request(plain()))]])
    fast = both[0]
    for number in (0, 1):
        fast.receive(number, request(plain()) * 4)
    assert not fast.appends._groups
    both[1].receive(0, request(plain()) * 4)
    both[1].receive(1, request(plain()) * 4)
    served_alike(both, [[]])


@needs_kernel
def test_no_data_of_a_turn_stay_behind(both) -> None:
    served_alike(both, [[(0, request(plain())), (1, request(plain()))]])
    fast = both[0]
    fast.receive(0, request(plain()))
    fast.receive(1, request(plain()))
    assert fast.appends.open_blocks
    fast.end_turn()
    assert not fast.appends.open_blocks
    large = build_batch([(b"k", b"v" * combined_appends.COPIED_BYTES_MAX)], timestamp_ms=NOW_MS)
    fast.receive(2, request(plain()))
    fast.receive(2, request(plain()) + request(bytes(large)))
    assert not fast.appends.open_blocks and not fast.appends._groups


@needs_kernel
def test_indexes_get_the_entries_that_batches_would_make_one_by_one(both) -> None:
    served_alike(both, [[(0, request(plain())), (1, request(plain()))]])
    times_ms = [NOW_MS + (number * 7) % 11 for number in range(40)]
    data = [
        request(bytes(build_batch([(b"k", b"v" * 300)], timestamp_ms=timestamp_ms)))
        for timestamp_ms in times_ms
    ]
    assert served_alike(both, [[(0, b"".join(data[:20])), (1, b"".join(data[20:]))]]) == 40
    segment = both[0].node.replicas.hosted["t", 0].log._row.active
    assert len(segment.index) > 2 and segment.max_timestamp.timestamp_ms == max(times_ms)


@needs_kernel
@pytest.mark.parametrize("third", [(7, 1, 0), (7, 1, 8), (7, 0, 2)], ids=["again", "gap", "fenced"])
def test_a_block_in_the_place_of_another_may_have_no_room_either(both, third) -> None:
    """All batches of a request are looked at with the blocks that were open then; the second here
    begins a new one, which the third must not enter unasked."""
    served_alike(both, [[(0, request(plain()))]])
    batches = [plain((7, 0, 0)), plain((7, 1, 0)), plain(third)]
    assert served_alike(both, [[(0, request(*batches))]]) == 1


@needs_kernel
def test_a_run_ends_where_it_has_settled_much(both) -> None:
    served_alike(both, [[(0, request(plain()))]])
    runs = both[0].runs
    lengths: list[int] = []
    original = runs.take

    def take(connection: Any, *given: Any) -> int:
        before = len(connection.waiting)
        start = original(connection, *given)
        lengths.append(len(connection.waiting) - before)
        return start

    runs.take = take
    data = [request(plain(), acks=acks) for acks in (1, -1)] * 20  # a block for each
    for served in both:
        served.is_slow = True
    assert served_alike(both, [[(0, b"".join(data))]]) == 40
    assert max(lengths) == 16 and sum(lengths) == 40


def small_batch(timestamp_ms: int = NOW_MS) -> bytes:
    return bytes(build_batch([(b"k", b"v")], timestamp_ms=timestamp_ms))


def request_at(timestamp_ms: int) -> bytes:
    return request(small_batch(timestamp_ms))


@needs_kernel
def test_what_a_run_does_not_take(both) -> None:
    """Requests beside those that are usual, each of which somebody else has to answer."""
    one = small_batch()
    for name in ("t", "small"):
        first = length_prefixed(framed(9, [(name, [(0, one)])]))
        assert served_alike(both, [[(0, first)]]) == 0, "its partition has no segment to write to"
    for acks in (-2, 2, 257):
        assert served_alike(both, [[(0, request(one, acks=acks))]]) == 0
    for partitions in ([65], [33, 32], [1, 64]):
        topics = [("t", [(0, one)] * count) for count in partitions]
        assert served_alike(both, [[(0, length_prefixed(framed(9, topics)))]]) == 0
    for name in ("__consumer_offsets", "gzip", "unknown"):
        frame = length_prefixed(framed(9, [("t", [(0, one)]), (name, [(0, one)])]))
        assert served_alike(both, [[(0, frame)]]) == 0
    topics = [("t", [(0, one)] * 33), ("small", [(0, one)] * 31)]
    assert served_alike(both, [[(0, length_prefixed(framed(9, topics)))]]) == 1
    for topics in ([("t", [])], [("t", [(0, one)]), ("small", [])]):
        assert served_alike(both, [[(0, length_prefixed(framed(9, topics)))]]) == 0
    another = request(one).replace(b"client", b"others")
    assert served_alike(both, [[(0, another)]]) == 0, "its header has to be read"
    assert served_alike(both, [[(0, another)]]) == 1


@needs_kernel
def test_what_begins_a_segment_is_taken_by_no_run(both) -> None:
    """It takes milliseconds; between two requests that are not taken in runs time is looked at."""
    first_ms = NOW_MS - 40 * (ROLL_MS + 1)
    assert served_alike(both, [[(0, request_at(first_ms))]]) == 0, "there is nothing in it"
    stay = request_at(first_ms + ROLL_MS) + request_at(first_ms)
    assert served_alike(both, [[(0, stay)]]) == 2
    rolls = [request_at(first_ms + number * (ROLL_MS + 1)) for number in range(1, 40)]
    assert served_alike(both, [[(0, b"".join(rolls))]]) == 0
    assert len(both[0].node.replicas.get("t", 0).log.segment_base_offsets) == 40
    assert served_alike(both, [[(0, request_at(first_ms) * 2)]]) == 2


@needs_kernel
def test_frames_longer_than_may_be_are_refused_in_runs_too(both) -> None:
    for served in both:
        rules = SessionRules(len(request(plain())) - 4)
        served.listener.securities["PLAINTEXT"] = ListenerSecurity("PLAINTEXT", rules)
        served.connections[0] = served.connect()
    assert served_alike(both, [[(0, request(plain()))], [(0, request(plain()) * 2)]]) == 2
    served_alike(both, [[(0, request(plain()) + request(plain(), plain()))]])
    assert both[0].listener.counts.closed["PLAINTEXT"] == 1


@needs_kernel
def test_blocks_have_one_timeout_and_are_bounded(both, monkeypatch) -> None:
    one = small_batch()
    long = bytes(build_batch([(b"k", b"v" * 32_000)], timestamp_ms=NOW_MS))
    served_alike(both, [[(number, request(one)) for number in range(CONNECTIONS)]])
    settled: list[tuple[int, int, int]] = []
    settle = combined_appends.CombinedAppends._settle_block

    def settle_block(appends: Any, block: Any) -> None:
        settled.append((len(block), block.size_bytes, block.timeout_ms))
        settle(appends, block)

    monkeypatch.setattr(combined_appends.CombinedAppends, "_settle_block", settle_block)
    timeouts = [
        length_prefixed(framed(9, [("t", [(0, one)])], timeout_ms=timeout_ms))
        for timeout_ms in (1000, 5, 5, 1000)
    ]
    assert served_alike(both, [[(0, b"".join(timeouts))]]) == 4
    assert [(count, timeout_ms) for count, _, timeout_ms in settled] == [
        (1, 1000),
        (2, 5),
        (1, 1000),
    ]
    settled.clear()
    many = request(*[one] * 4) * 45
    assert served_alike(both, [[(number, many) for number in (1, 2, 0)]]) == 45 * CONNECTIONS
    assert [count for count, _, _ in settled] == [500, 40]
    settled.clear()
    assert served_alike(both, [[(number, request(long) * 4) for number in (2, 0, 1)]]) == 12
    assert [count for count, size_bytes, _ in settled if size_bytes <= 262_144] == [8, 4]


def batch_of(size_bytes: int) -> bytes:
    """A batch that is so large."""
    made = [
        bytes(build_batch([(b"k", b"v" * size)], timestamp_ms=NOW_MS))
        for size in range(size_bytes - 80, size_bytes - 60)
    ]
    return next(data for data in made if len(data) == size_bytes)


@needs_kernel
def test_a_block_may_be_full_to_the_last_byte(both, monkeypatch) -> None:
    """And a batch may be an eighth of it."""
    served_alike(both, [[(number, request(small_batch())) for number in range(CONNECTIONS)]])
    settled: list[int] = []
    settle = combined_appends.CombinedAppends._settle_block

    def settle_block(appends: Any, block: Any) -> None:
        settled.append(block.size_bytes)
        settle(appends, block)

    monkeypatch.setattr(combined_appends.CombinedAppends, "_settle_block", settle_block)
    largest = request(batch_of(32_768)) * 4
    assert served_alike(both, [[(number, largest) for number in (1, 2, 0)]]) == 12
    assert settled == [131_072, 262_144]
    assert served_alike(both, [[(0, request(batch_of(32_769)))]]) == 0


@needs_kernel
def test_an_index_has_its_next_entry_when_more_than_an_interval_is_behind_it(both) -> None:
    """And not when it is an interval to the byte: index.interval.bytes is 4096."""
    served_alike(both, [[(0, request(batch_of(1024)))]])
    assert served_alike(both, [[(0, request(batch_of(1024)) * 20)]]) == 20
    assert len(both[0].node.replicas.hosted["t", 0].log._row.active.index) == 4


@needs_kernel
def test_a_block_knows_its_newest_timestamp(both, monkeypatch) -> None:
    """By which it is seen whether it begins a segment."""
    served_alike(both, [[(number, request_at(NOW_MS)) for number in (0, 1)]])
    newest_ms: list[int] = []
    settle = combined_appends.CombinedAppends._settle_block

    def settle_block(appends: Any, block: Any) -> None:
        newest_ms.append(block.max_timestamp)
        settle(appends, block)

    monkeypatch.setattr(combined_appends.CombinedAppends, "_settle_block", settle_block)
    times_ms = (NOW_MS + 5, NOW_MS + 9, NOW_MS + 7)
    assert served_alike(both, [[(0, b"".join(map(request_at, times_ms)))]]) == 3
    assert newest_ms == [NOW_MS + 9]


@needs_kernel
def test_what_was_answered_before_a_failure_stays_answered(both, monkeypatch) -> None:
    """Where batches are appended one by one and the second cannot be."""
    appends = combined_appends.CombinedAppends
    served_alike(both, [[(number, request(plain())) for number in (0, 1, 2)]])
    fed: list[Any] = []
    feed_one = appends._feed_one

    def feed_the_first(self: Any, *given: Any) -> None:
        fed.append(given)
        if len(fed) == 2:
            raise RuntimeError("broken")
        feed_one(self, *given)

    monkeypatch.setattr(appends, "_has_room", lambda *given: False)
    monkeypatch.setattr(appends, "_feed_one", feed_the_first)
    for served in both:
        fed.clear()
        for number in (0, 1):
            served.receive(number, request(plain()))
        served.end_turn()
        assert len(fed) == 2
        (first, second, _) = served.outputs()
        assert first[0] and not first[1], "it is answered"
        assert second[1] and not second[0], "it is not, and disconnected"


@needs_kernel
def test_the_longest_throttle_time_of_several_answers_counts(both, monkeypatch) -> None:
    served_alike(both, [[(number, request(plain())) for number in (0, 1)]])
    fast = both[0]
    fast.is_slow = True
    fast.receive(0, request(plain()) * 3)
    connection, sink = fast.connections[0]
    first, second, _ = connection.waiting
    for slot, throttle_time_ms in ((first, 9), (first, 4), (second, 5)):
        slot.throttle(throttle_time_ms)
    muted_ms: list[int] = []
    monkeypatch.setattr(Connection, "mute", lambda one, time_ms: muted_ms.append(time_ms))
    fast.end_turn()
    assert muted_ms == [9]
    size_bytes = 4 + int.from_bytes(sink.sent[:4], "big")
    answers_sent = [sink.sent[at : at + size_bytes] for at in range(0, 3 * size_bytes, size_bytes)]
    told_ms = [
        decode_response(ProduceResponse, 9, bytes(one[4:]))[1].throttle_time_ms
        for one in answers_sent
    ]
    assert told_ms == [9, 5, 0]


@needs_kernel
@pytest.mark.parametrize("before", [ALL_TIMED_UP_TO - 5, 1000 * TIMED_ONE_IN - 5, -1])
def test_times_are_taken_of_the_same_requests_as_of_others(both, monkeypatch, before) -> None:
    served_alike(both, [[(number, request(plain())) for number in (0, 1)]])
    fast = both[0]
    fast.is_slow = True
    monkeypatch.setattr(ApiMetrics, "number_before", lambda api, arrived_s: before)
    fast.receive(0, request(plain()) * 10)
    weights = [slot.weight for slot in fast.connections[0][0].waiting]
    numbers = range(before + 1, before + 11)
    assert weights == [0 if before < 0 else timed_weight(number) for number in numbers]
    fast.end_turn()


class Charges:
    """In place of quotas: every run is throttled."""

    is_on = True

    def __init__(self) -> None:
        self.runs: list[tuple[str, int, bool]] = []

    def charge_run(
        self, client: Any, client_id: str, size_bytes: int, used_s: float, *, acks: bool
    ) -> int:
        self.runs.append((client_id, size_bytes, acks))
        return 7


@needs_kernel
@pytest.mark.parametrize("acks", [0, 1, -1])
def test_a_run_that_is_not_answered_mutes_its_connection_at_once(both, monkeypatch, acks) -> None:
    """And one that is when its last answer leaves, which says so."""
    one = request(plain(), acks=acks)
    served_alike(both, [[(number, one) for number in (0, 1)]])
    fast, charges, muted_ms = both[0], Charges(), list[int]()
    monkeypatch.setattr(fast.connections[0][0], "quotas", charges)
    monkeypatch.setattr(Connection, "mute", lambda connection, time_ms: muted_ms.append(time_ms))
    fast.is_slow = True
    fast.receive(0, one * 3)
    assert charges.runs == [("client", 3 * (len(one) - 4), acks != 0)]
    assert muted_ms == ([] if acks else [7])
    slots = fast.connections[0][0].waiting
    assert [slot.throttle_time_ms for slot in slots] == [0, 0, 7 if acks else 0]
    fast.end_turn()
    assert muted_ms == [7]


class Writers:
    """An authorizer by which these clients, a user at an address, may do everything."""

    def __init__(self) -> None:
        self.version: object = "first"
        self.clients: set[tuple[str, str]] = set()

    def allows(self, client: Any, permission: Any, name: str, *, quiet: bool) -> bool:
        return (client.principal.name, client.client_host) in self.clients

    def grant(self, client: Any, permission: Any, name: str) -> tuple[bool, None]:
        return self.allows(client, permission, name, quiet=False), None


@needs_kernel
@pytest.mark.parametrize("other", ["user", "address", "rules", None])
def test_a_block_of_one_client_is_open_to_none_without_its_rights(both, other) -> None:
    outputs = []
    for served in both:
        (second, _), (first, _), _ = served.connections
        rules = Writers()
        for connection in (first, second):
            rules.clients.add((connection.principal.name, connection.client_host))
        served.node.partitions.access.authorizer = rules
        for _ in range(2):
            for number in (0, 1):
                served.receive(number, request(plain()))
            served.end_turn()
        served.outputs()
        served.receive(1, request(plain()))  # the reader of before, 0, is settled at once
        if other == "user":
            second._session.principal = Principal("User", "other")
        elif other == "address":
            second.client_host = "192.0.2.7"
        elif other == "rules":
            rules.version = "second"
            rules.clients.clear()
        served.receive(0, request(plain()))
        served.end_turn()
        outputs.append(served.outputs())
    assert outputs[0] == outputs[1] and both[0].state() == both[1].state()
    refusal = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED).to_bytes(2, "big")
    assert [refusal in answer for answer, *_ in outputs[0]] == [other is not None, False, False]


@needs_kernel
def test_answers_that_are_known_leave_before_a_connection_is_closed(both) -> None:
    served_alike(both, [[(0, request(plain()))]])
    for served in both:
        served.is_slow = True
        served.receive(0, request(plain()))
        served.appends.settle()
        connection, sink = served.connections[0]
        assert not sink.sent
        for key in served.flushing:
            served._flush_now(key)
        connection.disconnect()
    answers = [served.outputs()[0][0] for served in both]
    assert answers[0] == answers[1] != b""


@needs_kernel
@pytest.mark.parametrize("timeout_ms", [-5, 0, 700])
def test_a_block_waits_as_long_as_its_requests_may(both, timeout_ms) -> None:
    served_alike(both, [[(0, request(plain()))]])
    fed: list[Any] = []
    fast = both[0]
    fast.node.timers.now_ms = 100
    fast.node.ports.driver.feed = lambda key, produce: fed.append(produce)
    fast.receive(0, length_prefixed(framed(9, [("t", [(0, plain())])], timeout_ms=timeout_ms)))
    fast.end_turn()
    [produced] = fed
    assert produced.deadline_ms == 100 + max(0, timeout_ms)


@needs_kernel
def test_no_more_answers_leave_at_once_than_the_output_has_room_for(both, monkeypatch) -> None:
    fast = both[0]
    served_alike(both, [[(0, request(plain()))]])
    connection, sink = fast.connections[0]
    fast.receive(0, request(plain()))
    fast.end_turn()
    answer_bytes = len(sink.sent)
    monkeypatch.setattr(answers, "OUTPUT_HIGH_WATER_BYTES", answer_bytes)
    fast.is_slow = True
    fast.receive(0, request(plain()) * 5)
    fast.appends.settle()
    connection.pause_writing()
    fast.end_turn()
    assert connection._output.size_bytes == 2 * answer_bytes, "one more than fits"
    connection.resume_writing()
    fast.end_turn()
    assert len(sink.sent) == 6 * answer_bytes
