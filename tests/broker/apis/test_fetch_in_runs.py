"""Plain Fetches are answered where they were received; no client can tell.

Two nodes live through the same history of requests, in and out of sessions, usual, unusual and
hostile ones, on the same connections, in any pieces, and of what happens to partitions meanwhile.
One takes runs, the other decodes every request. What connections are sent, counts, sessions and
requests that wait are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from fencepost.broker.apis import fetch_in_runs
from fencepost.broker.apis.fetch_from_bytes import fetch_from_bytes
from fencepost.broker.apis.fetch_in_runs import FetchInRuns
from fencepost.broker.config.endpoints import ConnectionLimits
from fencepost.broker.net import answers, client_quotas, request_metrics, turn
from fencepost.broker.net.client_quotas import QuotaGate
from fencepost.broker.net.connection import Connection
from fencepost.broker.net.dispatch import MAX_REQUESTS_IN_FLIGHT
from fencepost.broker.net.listener import Listener
from fencepost.broker.net.listener_security import ListenerSecurity
from fencepost.broker.net.memory_budget import MemoryBudget
from fencepost.broker.net.request_metrics import ApiMetrics, RequestMetrics, timed_weight
from fencepost.log.errors import CorruptFileError
from fencepost.log.page_cache import PageCache
from fencepost.machines.fetch import FetchSessions, quiet
from fencepost.machines.image.persistent import PersistentMap
from fencepost.machines.image.quotas import CLIENT_ID, USER, QuotaEntity
from fencepost.machines.quota import ClientQuotas
from fencepost.machines.quota.limits import CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, both as both_of
from fencepost.machines.session import ANONYMOUS, SessionRules
from fencepost.runtime.requests.fetch import fetch
from fencepost.runtime.requests.permissions import READ_TOPIC
from fencepost.wire import backend
from fencepost.wire.api.fetch import FetchPartition, FetchResponse
from fencepost.wire.errors import ErrorCode
from fencepost.wire.frame import decode_response

from .authorizers import Rules
from .harness import register, routes_of
from .test_fetch_from_bytes import framed, reading
from .test_fetch_session_ways import ALL, SESSIONS_BYTES, Client, World, begun, happen
from .test_produce_in_blocks import Prompt, Sink, Turns, length_prefixed, whatever_it_takes

register("fetch")

pytestmark = pytest.mark.skipif(backend.fetch_kernel is None, reason="nothing is compiled")

CONNECTIONS = 3
FRAME_BYTES_MAX = 1 << 20


class Muted:
    """In place of a timer: it ends by hand."""

    def cancel(self) -> None:
        """There is nothing to end."""


class Serving(World):
    """A node with connections to it."""

    def __init__(self, directory: Path, is_fast: bool) -> None:
        super().__init__(directory, "short")
        self.loop = Turns()
        limits = ConnectionLimits(FRAME_BYTES_MAX, 1000, 1000, -1)
        self.listener = Listener(self.loop, limits, Prompt())  # type: ignore[arg-type]
        rules = SessionRules(limits.max_frame_bytes)
        self.listener.securities["PLAINTEXT"] = ListenerSecurity("PLAINTEXT", rules)
        self.metrics = metrics = RequestMetrics()
        self.listener.request_metrics = metrics
        self.listener.new_context = metrics.new_context
        self.runs = Counting(self, metrics.of(routes_of("PLAINTEXT")[1]))
        route = structs.replace(
            routes_of("PLAINTEXT")[1],
            handler=partial(fetch, parts=self.parts),
            take_bytes=partial(fetch_from_bytes, parts=self.parts) if is_fast else None,
            run_taker=None,
        )
        taker = self.runs if is_fast else None
        self.listener.routes = {1: structs.replace(metrics.watch(route), run_taker=taker)}
        self.taken_in_runs = 0
        self.clock_ms = 0
        self.quotas = ClientQuotas()
        self.listener.quotas = QuotaGate(lambda: self.clock_ms)
        self.mutes: list[float] = []
        self.connections = [self.connect() for _ in range(CONNECTIONS)]

    def connect(self) -> tuple[Connection, Sink]:
        connection, sink = Connection(self.listener, self.listener.securities["PLAINTEXT"]), Sink()
        connection.connection_made(sink)
        connection.wait = partial(self.mute, connection)  # type: ignore[method-assign]
        return connection, sink

    def mute(self, connection: Connection, wait_s: float) -> None:
        """Until what waits has waited long enough."""
        self.mutes.append(wait_s)
        connection._wait = Muted()  # type: ignore[assignment]

    def apply(self, quotas: dict[QuotaEntity, dict[str, float]]) -> None:
        """These quotas are in force from now on."""
        self.quotas.apply(PersistentMap().update(quotas))
        self.listener.quotas.apply(self.quotas)

    def receive(self, data: bytes, number: int = 0) -> None:
        """The bytes arrive, as many at a time as there is room for."""
        connection, _ = self.connections[number]
        while data and not connection.closed:
            if connection._reading_paused:
                self.loop.turn()
                if connection._reading_paused:  # a request waits: the client is not read
                    self.later()
            room = connection.get_buffer(-1)
            size_bytes = min(len(room), len(data))
            room[:size_bytes] = data[:size_bytes]
            connection.buffer_updated(size_bytes)
            data = data[size_bytes:]

    def later(self) -> None:
        """Whatever waits has waited long enough."""
        self.node.timers.advance(2**31)
        for connection, _ in self.connections:
            if connection._wait is not None:
                connection._end_wait()
        self.loop.turn()

    def usage(self) -> Any:
        """What was recorded in quotas, and for how long clients were to be muted."""
        accounts = self.quotas._accounts.items()
        # Where no time is charged it is not of interest, nor that a client was looked up.
        charged = [(client, one.later_s) for client, one in accounts if one and one.requests]
        later_s = {client: time_s for client, time_s in charged if time_s}
        used = {one.key: list(one.usages(self.clock_ms)) for one in self.quotas.all}
        mutes, self.mutes = self.mutes, []
        return used, later_s, mutes

    def outcome(self) -> Any:
        """What clients got; who was disconnected comes again. And what is left of it here."""
        self.loop.turn()
        sent: list[Any] = []
        for number, (connection, sink) in enumerate(self.connections):
            sent.append((bytes(sink.sent), sink.closing, len(connection._answers.waiting)))
            sent.append((connection.buffered_bytes, connection._answers.frame_bytes))
            sink.sent.clear()
            if connection.closed:
                connection.connection_lost(None)
                self.connections[number] = self.connect()
        budget, api = self.listener.memory_budget, self.metrics.apis[1]
        counted = dict(api.versions), dict(api.errors), api.request_bytes, api.response_bytes
        times = {name: one.count for name, one in api.times().items()}
        waits = [connection._wait is not None for connection, _ in self.connections]
        sent += [self.usage(), waits]
        return sent, self.state(), budget.outgoing_bytes, budget.waiting_bytes, counted, times


class Counting(FetchInRuns):
    """Says how many requests it took."""

    def __init__(self, serving: Serving, api: Any) -> None:
        super().__init__(serving.parts, api)
        self._serving = serving
        self.runs: list[tuple[int, int]] = []
        """Each with how many requests it might take, and what there was to be sent then."""

    def take(self, *given: Any) -> int:
        end = super().take(*given)
        self.runs.append((given[-1], given[0]._output.size_bytes))
        if end > given[2]:
            self._serving.taken_in_runs += self._runs.requests
        return end


@pytest.fixture
def both(tmp_path: Path) -> Any:
    with whatever_it_takes(), pytest.MonkeyPatch.context() as patch:
        # However many come in a second.
        patch.setattr(request_metrics, "ALL_TIMED_UP_TO", 10**9)
        made = [Serving(tmp_path / name, name == "fast") for name in ("fast", "today")]
        for one in made:
            one.node.fetches.sessions._max_bytes = SESSIONS_BYTES
        yield made
        for one in made:
            one.close()


def alike(both: list[Serving], *data: bytes, number: int = 0) -> int:
    """Have the bytes arrive, one after the other; how many requests were taken in runs."""
    fast, today = both
    before = fast.taken_in_runs
    for one in both:
        for piece in data:
            one.receive(piece, number)
    assert fast.outcome() == today.outcome()
    return fast.taken_in_runs - before


def plain(offset: int = 0, version: int = 12, **fields: Any) -> bytes:
    """A request that is answered at once, as a rule."""
    return length_prefixed(framed(version, [("t", [reading(0, offset)])], **fields))


def answers_in(one: Serving) -> list[Any]:
    """The answers on the first connection."""
    sent, found = bytes(one.connections[0][1].sent), []
    while sent:
        end = 4 + int.from_bytes(sent[:4])
        found.append(decode_response(FetchResponse, 12, sent[4:end])[1])
        sent = sent[end:]
    return found


# -- any history ---------------------------------------------------------------------------


class Several(Client):
    """Draws what arrives on connections: frames of one session or none, whole or in pieces."""

    def arriving(self) -> list[tuple[int, bytes]]:
        draw = self.draw
        sent = b"".join(length_prefixed(self.frame()) for _ in range(draw.choice([1, 1, 1, 2, 3])))
        if draw.random() < 0.5:
            sent += b"".join(self.without_session() for _ in range(draw.randint(1, 6)))
        if draw.random() < 0.03:
            sent = draw.randbytes(3) + sent
        cut = draw.choice([len(sent)] * 3 + [draw.randrange(len(sent) + 1)])
        number = draw.randrange(CONNECTIONS)
        return [(number, sent[:cut]), (number, sent[cut:])]

    def partition(self, name: str, index: int) -> FetchPartition:
        """Something to read, more often than not."""
        asked = super().partition(name, index)
        hosted = self.world.node.replicas.hosted.get((name, index))
        if hosted is not None and self.draw.random() < 0.6:
            asked.fetch_offset = hosted.machine.log_start_offset
        return asked

    def without_session(self) -> bytes:
        draw = self.draw
        topics = self.topics(draw.sample(ALL, draw.choice([1, 1, 1, 2, 3])))
        version = draw.choice([self.version] * 8 + [13, 14])
        isolation = draw.choice([self.isolation] * 4 + [1 - self.isolation])
        wait_ms = draw.choice([500] * 4 + [0])
        fields = {"max_wait_ms": wait_ms, "isolation_level": isolation}
        frame = framed(version, topics, max_bytes=draw.choice([1 << 20] * 5 + [400, 0]), **fields)
        return length_prefixed(frame)


def live(both: list[Serving], client: Several, rounds: int) -> None:
    draw = client.draw
    for _ in range(rounds):
        happen(both, draw)  # type: ignore[arg-type]
        for number, data in client.arriving():
            for one in both:
                one.receive(data, number)
        if draw.random() < 0.5:
            happen(both, draw)  # type: ignore[arg-type]
        if draw.random() < 0.3:
            for one in both:
                one.later()
        if draw.random() < 0.05:
            number = draw.randrange(CONNECTIONS)
            for one in both:
                one.connections[number][0].abort()
        for fast, today in zip(both[0].outcome(), both[1].outcome(), strict=True):
            assert fast == today


@pytest.mark.parametrize("seed", range(4))
def test_no_client_can_tell(both: list[Serving], seed: int) -> None:
    live(both, Several(seed, both[0]), 100)
    assert both[0].taken_in_runs > 20
    assert both[1].taken_in_runs == 0


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 130))
def test_no_client_can_tell_for_longer(both: list[Serving], seed: int) -> None:
    live(both, Several(seed, both[0]), 300)


# -- clients with quotas -------------------------------------------------------------------

TICK_S = 2.0**-7
"""What a session's request takes before it is charged: sums of it are exact."""

CHARGED: tuple[QuotaEntity, ...] = (
    ((USER, ANONYMOUS.name),),
    ((USER, None),),
    ((CLIENT_ID, "client"),),
    ((CLIENT_ID, None),),
    both_of(ANONYMOUS.name, "client"),
    both_of(None, None),
)
LIMITS = {
    CONSUMER_BYTE_RATE: [60.0, 700.0, 5_000.0, 1e9],
    REQUEST_PERCENTAGE: [0.2, 1.0, 1e9],
}


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock that requests' time is taken by."""
    clock, go_on = [64.0], FetchSessions.go_on

    def going_on(*given: Any) -> Any:
        clock[0] += TICK_S
        return go_on(*given)

    monkeypatch.setattr(client_quotas, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(FetchSessions, "go_on", going_on)
    return clock


class Charged(Several):
    """Quotas are set, changed and taken away meanwhile, and time goes by."""

    def __init__(self, seed: int, both: list[Serving]) -> None:
        super().__init__(seed, both[0])
        self.both = both

    def arriving(self) -> list[tuple[int, bytes]]:
        draw = self.draw
        passed_ms = draw.choice([0, 0, 1, 300, 2_000, 30_000])
        quotas = None
        if draw.random() < 0.1:
            entities = draw.sample([*CHARGED, ((USER, "another"),)], draw.randint(0, 2))
            keys = draw.choice([[key] for key in LIMITS] + [[*LIMITS]] * 2)
            quotas = {one: {key: draw.choice(LIMITS[key]) for key in keys} for one in entities}
        for one in self.both:
            one.clock_ms += passed_ms
            if quotas is not None:
                one.apply(quotas)
        return super().arriving()


def throttles(one: Serving) -> int:
    return sum(use.throttles for quota in one.quotas.all for use in quota.usages(one.clock_ms))


@pytest.mark.parametrize("seed", range(6))
def test_quotas_are_charged_the_same(both: list[Serving], ticks: list[float], seed: int) -> None:
    client = Charged(seed, both)
    for one in both:
        one.apply({CHARGED[seed]: {key: limits[seed % 2] for key, limits in LIMITS.items()}})
    live(both, client, 100)
    assert both[0].taken_in_runs > 5
    assert ticks[0] > 64.0


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 130))
def test_quotas_are_charged_the_same_for_longer(
    both: list[Serving], ticks: list[float], seed: int
) -> None:
    live(both, Charged(seed, both), 300)


def charged(both: list[Serving], entity: QuotaEntity = CHARGED[2], **limits: float) -> None:
    for one in both:
        one.apply({entity: limits})


@pytest.mark.parametrize("entity", CHARGED)
def test_a_client_with_quotas_is_answered_at_once(
    both: list[Serving], ticks: list[float], entity: QuotaEntity
) -> None:
    charged(both, entity, consumer_byte_rate=1e9, request_percentage=1e9)
    alike(both, plain())
    assert alike(both, plain() * 5) == 5
    sizes = [use.value for use in both[0].quotas.fetched.usages(0)]
    assert len(sizes) == 1 and sizes[0] > 0


def test_the_answer_that_is_too_much_is_throttled_and_mutes_its_connection(
    both: list[Serving], ticks: list[float]
) -> None:
    alike(both, plain())
    each_bytes = len(both[0].full.log.read(0, 1 << 20, 206).buffers[0])
    charged(both, consumer_byte_rate=each_bytes / 4.0)  # 40 s of which may come at once
    for one in both:
        one.receive(plain() * 5 + plain()[:9])
    assert len(both[0].connections[0][0]._answers.waiting) == 0
    assert both[0].connections[0][0]._wait is not None, "it is muted"
    told = answers_in(both[0])
    assert [len(one.responses) for one in told] == [1, 1, 0], "and nothing else is answered"
    assert told[2].throttle_time_ms == both[0].mutes[0] * 1000 > 0
    assert both[0].full.traffic.bytes_out == 3 * each_bytes, "with the one without quotas"
    assert both[0].outcome() == both[1].outcome()
    before = both[0].taken_in_runs
    for data in (b"", plain()[9:]):
        for one in both:
            one.clock_ms += 20_000
            one.later()
        alike(both, data)
    assert both[0].taken_in_runs - before == 3, "it goes on where it was"


@pytest.mark.parametrize("key", [CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE])
def test_a_session_is_as_it_was_after_an_answer_that_is_throttled(
    both: list[Serving], ticks: list[float], key: str
) -> None:
    session_id = {begun(one, 12, [("t", 0), ("u", 0)]) for one in both}.pop()
    alike(both, plain())
    charged(both, **{key: 0.01})
    frames = [plain(session_id=session_id, session_epoch=epoch) for epoch in (1, 2)]
    assert alike(both, frames[0]) == 0
    assert throttles(both[0]) == 1
    for one in both:
        one.clock_ms += 3_600_000
        one.later()
    charged(both, **{key: 1e9})
    assert alike(both, frames[1]) == 1


@pytest.mark.parametrize("index", [0, 1], ids=["fast", "today"])
def test_a_session_goes_on_in_its_order_after_an_answer_that_is_throttled(
    both: list[Serving], ticks: list[float], index: int
) -> None:
    """Else the last partitions of a session were the first to be read next."""
    one = both[index]
    session_id = begun(one, 12, [("t", 0), ("t", 2), ("zstd", 0)])
    again = [("t", [reading(0), reading(2, 4)]), ("zstd", [reading(0)])]
    session = {"session_id": session_id}
    one.apply({CHARGED[2]: {CONSUMER_BYTE_RATE: 0.01}})
    one.receive(length_prefixed(framed(12, again, session_epoch=1, **session)))
    assert throttles(one) == 1
    one.apply({})
    one.later()
    one.receive(length_prefixed(framed(12, [], session_epoch=2, **session)))
    throttled, whole = answers_in(one)
    assert throttled.responses == []
    found = [
        (topic.topic, part.partition_index)
        for topic in whole.responses
        for part in topic.partitions
    ]
    assert found == [("t", 0), ("t", 2), ("zstd", 0)]


def test_what_a_request_that_waits_takes_is_its_own(
    both: list[Serving], ticks: list[float]
) -> None:
    session_id = {begun(one, 12, [("t", 0)]) for one in both}.pop()
    alike(both, plain())
    charged(both, consumer_byte_rate=1e9, request_percentage=1e9)
    session = {"session_id": session_id}
    frames = [plain(206, session_epoch=epoch, **session) for epoch in (1, 2)]
    alike(both, plain() + frames[0])
    assert [one.value for one in both[0].quotas.requests.usages(0)] == [0.0], "it waits"
    for one in both:
        one.happen("produce", "t", 0)
    assert alike(both) == 0
    (used,) = (one.value for one in both[0].quotas.requests.usages(0))
    assert used == TICK_S * 100 / 10, "in percent, over ten windows"


def test_what_comes_behind_the_charge_is_charged_with_the_next(
    both: list[Serving], ticks: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    fast = both[0]
    alike(both, plain())
    charged(both, request_percentage=1e9)
    put = Connection.put_answer

    def putting(*given: Any) -> bool:
        ticks[0] += 1.0
        return put(*given)

    monkeypatch.setattr(Connection, "put_answer", putting)
    fast.receive(plain() * 3)
    (account,) = (one for one in fast.quotas._accounts.values() if one is not None)
    assert [one.value for one in fast.quotas.requests.usages(0)] == [2.0 * 100 / 10]
    assert account.later_s == 1.0
    both[1].receive(plain() * 3)


def test_a_failure_is_charged(
    both: list[Serving], ticks: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id = {begun(one, 12, [("t", 0)]) for one in both}.pop()
    alike(both, plain())
    charged(both, request_percentage=1e9)
    with monkeypatch.context() as patch:
        patch.setattr(type(both[0].full.machine), "check_fetch", raising(RuntimeError("broken")))
        settled = Connection.settled

        def settling(*given: Any) -> None:
            ticks[0] += 1.0
            settled(*given)

        patch.setattr(Connection, "settled", settling)
        both[0].receive(plain(session_id=session_id, session_epoch=1))
    (account,) = (one for one in both[0].quotas._accounts.values() if one is not None)
    assert account.later_s == 1.0
    assert [one.error_code for one in answers_in(both[0])] == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert [one.value for one in both[0].quotas.requests.usages(0)] == [TICK_S * 100 / 10]


def test_a_run_that_fails_throttles_no_client_of_the_next(
    both: list[Serving], ticks: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (0, 1):
        alike(both, plain(), number=number)
    fast = both[0]
    charged(both, consumer_byte_rate=1.0)
    with monkeypatch.context() as patch:
        made, failures = fast.runs._context, [RuntimeError("broken")]

        def failing_once(*given: Any) -> Any:
            if failures:
                raise failures.pop()
            return made(*given)

        patch.setattr(fast.runs, "_context", failing_once)
        fast.receive(plain())
    assert not failures
    assert [one.error_code for one in answers_in(fast)] == [ErrorCode.UNKNOWN_SERVER_ERROR]
    fast.apply({})
    fast.receive(plain(206), 1)
    assert len(fast.node.fetches) == 1, "it waits for records"


def test_no_consumer_on_a_brokers_connection_is_charged(
    both: list[Serving], ticks: list[float]
) -> None:
    charged(both, consumer_byte_rate=1.0)
    alike(both, plain())
    for one in both:
        one.clock_ms += 3_600_000
        one.later()
        one.connections[0][0].is_broker = True
    assert alike(both, plain() * 2) == 0
    assert throttles(both[0]) <= 1


# -- what is taken -------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(12, 19))
@pytest.mark.parametrize("isolation", [0, 1])
def test_what_follows_a_connections_first_request_is_answered_at_once(
    both: list[Serving], version: int, isolation: int
) -> None:
    frame = plain(version=version, isolation_level=isolation)
    assert alike(both, frame) == 0, "it is not known yet how its requests begin"
    assert alike(both, frame * 5) == 5
    assert len(both[0].runs.runs) == 1, "all in one call"
    assert alike(both, frame[:20], frame[20:] + frame[:-1], frame[-1:]) == 2


def test_a_sessions_next_requests_are_answered_at_once(both: list[Serving]) -> None:
    session_id = {begun(one, 12, [("t", 0), ("t", 1), ("u", 0)]) for one in both}.pop()
    frames = [
        plain(offset, session_id=session_id, session_epoch=epoch)
        for epoch, offset in enumerate([0, 0, 6, 0], start=1)
    ]
    assert alike(both, frames[0]) == 0
    assert alike(both, *frames[1:]) == 3
    again = plain(session_id=session_id, session_epoch=4)
    assert alike(both, again) == 0, "which is an error"


def test_who_has_everything_waits_and_the_next_is_not_in_front(both: list[Serving]) -> None:
    tail, front = plain(206), plain()
    assert alike(both, front, front + tail + front) == 1
    for one in both:
        assert len(one.node.fetches) == 1
        one.happen("produce", "t", 0)
    assert alike(both, front) == 1


def test_a_session_that_waits_is_woken(both: list[Serving]) -> None:
    session_id = {begun(one, 12, [("t", 0), ("u", 0)]) for one in both}.pop()
    alike(both, plain())
    session = {"session_id": session_id}
    assert alike(both, plain(206, session_epoch=1, **session)) == 0
    for one in both:
        assert len(one.node.fetches) == 1
        one.happen("produce", "t", 0)
    assert alike(both, plain(208, session_epoch=2, **session)) == 0
    for one in both:
        one.later()
    assert alike(both, plain(session_epoch=3, **session)) == 1


@pytest.mark.parametrize("is_looked_at", [True, False])
def test_a_session_whose_partitions_are_all_quiet_waits(
    both: list[Serving], monkeypatch: pytest.MonkeyPatch, is_looked_at: bool
) -> None:
    """Else its consumer would ask again and again, and be told nothing each time. So it does
    whether a request looks at a few of them, or at none."""
    if not is_looked_at:
        monkeypatch.setattr(quiet, "LOOKS_MAX", 0)
    session_id = {begun(one, 12, [("t", 0)]) for one in both}.pop()
    alike(both, plain())
    session = {"session_id": session_id}
    assert alike(both, plain(206, session_epoch=1, **session)) == 0
    for one in both:
        one.later()
    alike(both)
    for epoch in (2, 3, 4):
        assert alike(both, length_prefixed(framed(12, [], session_epoch=epoch, **session))) == 0
        assert [len(one.node.fetches) for one in both] == [1, 1], "it waits"
        for one in both:
            one.later()
        alike(both)
    left = both[0].node.fetches.sessions._sessions[session_id]
    assert left.entries and not left.stirring, "nothing is looked at"


def test_another_apis_requests_have_heads_of_their_own(both: list[Serving]) -> None:
    other = plain(version=11)
    assert alike(both, other, plain(), plain()) == 1
    assert alike(both, other, plain()) == 1


def test_versions_may_take_turns(both: list[Serving]) -> None:
    frames = [plain(version=version) for version in (12, 13)]
    alike(both, *frames)
    assert alike(both, frames[0] * 4, *frames * 2, frames[1][:7], frames[1][7:]) == 9


def test_a_run_ends_with_the_most_requests_in_flight(both: list[Serving]) -> None:
    alike(both, plain())
    assert alike(both, plain() * (MAX_REQUESTS_IN_FLIGHT + 9)) == MAX_REQUESTS_IN_FLIGHT + 9
    assert [most for most, _ in both[0].runs.runs] == [MAX_REQUESTS_IN_FLIGHT] * 2


def test_no_more_answers_are_made_than_the_output_has_room_for(
    both: list[Serving], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "OUTPUT_HIGH_WATER_BYTES", 10_000)
    alike(both, plain())
    assert alike(both, plain() * 20) > 0
    assert 10_000 < max(size_bytes for _, size_bytes in both[0].runs.runs) < 20_000


@pytest.mark.parametrize("is_large", [False, True])
def test_answers_of_any_size_leave_as_ever(both: list[Serving], is_large: bool) -> None:
    for one in both:
        for _ in range(12 if is_large else 1):
            one.node.produce(one.full, [1_700_000_000_000] * 200)
    end = both[0].full.log.end_offset
    for frame in (plain(), plain(end - 200), plain(max_bytes=33_000), plain(end - 1)):
        alike(both, frame, frame * 3)
    assert both[0].taken_in_runs >= 9


def of_two(**fields: Any) -> bytes:
    """A request for records of two partitions."""
    topics = [(name, [reading(0, partition_max_bytes=1 << 20)]) for name in ("t", "u")]
    return length_prefixed(framed(12, topics, **fields))


def sizes_in_answer(one: Serving) -> list[int]:
    """How many bytes of records each partition of the latest answer has."""
    topics = answers_in(one)[-1].responses
    return [len(part.records or b"") for topic in topics for part in topic.partitions]


@pytest.fixture
def two(both: list[Serving]) -> list[Serving]:
    """The second partition has records, too, and a request for both is answered in a run."""
    for one in both:
        one.happen("produce", "u", 0)
    alike(both, plain(), of_two())
    assert alike(both, of_two()) == 1
    return both


@pytest.mark.parametrize("less_bytes", [0, 1])
def test_all_partitions_together_are_read_at_once_or_none(
    two: list[Serving], monkeypatch: pytest.MonkeyPatch, less_bytes: int
) -> None:
    for one in two:
        one.receive(of_two())
    sizes = sizes_in_answer(two[0])
    assert len(sizes) == 2 and 0 not in sizes
    monkeypatch.setattr(turn, "QUANTUM_BYTES", sum(sizes) - less_bytes)
    assert alike(two, of_two()) == 1 - less_bytes


def test_what_memory_has_no_room_for_is_not_read(
    two: list[Serving], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryBudget, "available_bytes", 1)
    for one in two:
        one.receive(of_two())
    first, second = sizes_in_answer(two[0])
    assert first > 0 and second == 0
    assert two[0].outcome() == two[1].outcome()


def test_what_is_large_counts_as_read_in_this_turn(both: list[Serving]) -> None:
    fast = both[0]
    for one in both:
        for _ in range(12):
            one.node.produce(one.full, [1_700_000_000_000] * 200)
    end, whole = fast.full.log.end_offset, fast.full.log.read(0, 1 << 20, 1 << 30).buffers
    size_bytes = sum(map(len, whole))
    assert size_bytes > turn.SMALL_BYTES
    alike(both, plain(end - 200))
    before = fast.taken_in_runs
    fast.receive(plain(end - 200))
    assert fast.connections[0][0]._turn.left_read_bytes == turn.TURN_BYTES, "it is small"
    fast.receive(plain())
    assert fast.connections[0][0]._turn.left_read_bytes == turn.TURN_BYTES - size_bytes
    assert fast.taken_in_runs == before + 2


@pytest.mark.parametrize("before", [95, 700_000 - 5])
def test_the_time_of_a_run_is_shared_by_its_requests(
    both: list[Serving], monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    """And taken of the same ones as of requests that come alone."""
    alike(both, plain())
    done: list[tuple[float, int]] = []
    note = lambda api, times_s, weight: done.append((times_s[1], weight))  # noqa: E731
    monkeypatch.setattr(request_metrics, "ALL_TIMED_UP_TO", 100)
    monkeypatch.setattr(ApiMetrics, "number_before", lambda api, arrived_s: before)
    monkeypatch.setattr(ApiMetrics, "done", note)
    monkeypatch.setattr(fetch_in_runs, "perf_counter", iter([1.0, 21.0]).__next__)
    both[0].receive(plain() * 10)
    weights = [timed_weight(number) for number in range(before + 1, before + 11)]
    assert done == [(2.0, weight) for weight in weights if weight]


def test_what_was_collected_takes_effect_before(both: list[Serving]) -> None:
    alike(both, plain())
    for one in both:
        one.listener.before_others = partial(one.happen, "produce", "t", 0)
    assert alike(both, plain(206)) == 1, "what was produced before is read"


# -- what is left --------------------------------------------------------------------------


def test_the_authorizer_is_asked_as_ever(both: list[Serving]) -> None:
    alike(both, plain())
    rules = [Rules() for _ in both]
    for one, given in zip(both, rules, strict=True):
        one.parts.partitions.access.authorizer = given
    assert alike(both, plain() * 2) == 2
    assert rules[0].asked == rules[1].asked == {READ_TOPIC}
    for given in rules:
        given.refused.add(READ_TOPIC)
    assert alike(both, plain()) == 0
    both[0].receive(plain())
    (topic,) = answers_in(both[0])[-1].responses
    assert topic.partitions[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


LEFT: dict[str, Callable[[Serving], None]] = {
    "its file is not open": lambda one: one.full.log._row.active.close_file(),
    "its records were not checked": lambda one: setattr(one.full.log._row.active, "_sound_to", 0),
    "no hint says where they begin": lambda one: one.full.log._row.active._hints.clear(),
}


@pytest.mark.parametrize("why", LEFT)
def test_what_is_not_known_is_found_out_as_ever(both: list[Serving], why: str) -> None:
    alike(both, plain(), plain())
    for one in both:
        LEFT[why](one)
        assert one.full.log.read_known(0, 1 << 20, 206) is None
    alike(both, plain())


def test_what_is_below_the_logs_start_is_not_read(both: list[Serving]) -> None:
    alike(both, plain(), plain())
    log = both[0].full.log
    assert log.read_known(0, 1 << 20, 206) is not None
    for one in both:
        one.happen("deleted records", "t", 0)
    assert log.read_known(0, 1 << 20, 206) is None
    assert alike(both, plain()) == 0


@pytest.mark.parametrize("ended", ["failure", "is_closed"])
def test_a_log_that_has_ended_is_not_read(both: list[Serving], ended: str) -> None:
    alike(both, plain(), plain())
    for one in both:
        setattr(one.full.log._health, ended, "so")
    try:
        assert alike(both, plain()) == 0
    finally:
        for one in both:
            setattr(one.full.log._health, ended, "")
            one.full.log._health.failure = None


def test_what_is_not_in_the_page_cache_is_not_waited_for(
    both: list[Serving], monkeypatch: pytest.MonkeyPatch
) -> None:
    alike(both, plain(), plain())
    monkeypatch.setattr(PageCache, "read_all", lambda self, *given: None)
    assert alike(both, plain()) == 1, "it is read in the other way"
    log = both[0].full.log
    monkeypatch.setattr(type(log), "read", raising(CorruptFileError(log.directory, "cut")))
    assert alike(both, plain()) == 0


def raising(error: Exception) -> Callable[..., Any]:
    def fail(*given: Any) -> Any:
        raise error

    return fail


@pytest.mark.parametrize("in_session", [False, True])
def test_a_failure_is_an_error_of_that_request_alone(
    both: list[Serving], in_session: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id = {begun(one, 12, [("t", 0)]) for one in both}.pop()
    alike(both, plain())
    session = {"session_id": session_id, "session_epoch": 1} if in_session else {}
    with monkeypatch.context() as patch:
        patch.setattr(type(both[0].full.machine), "check_fetch", raising(RuntimeError("broken")))
        for one in both[:1]:
            one.receive(plain(**session) + plain())
    both[0].loop.turn()
    told = [answer.error_code for answer in answers_in(both[0])]
    assert told == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2, "each once"
    assert not both[0].connections[0][0].closed and not both[0].connections[0][0].waiting


@pytest.mark.parametrize("more_bytes", [0, 1])
def test_a_frame_longer_than_may_be_is_refused(both: list[Serving], more_bytes: int) -> None:
    alike(both, plain(), plain())
    for one in both:
        for connection, _ in one.connections:
            connection._session.frame_bytes_max = len(plain()) - 4 - more_bytes
    assert alike(both, plain()) == 1 - more_bytes


def test_transactions_are_read_as_ever(both: list[Serving]) -> None:
    frames = [
        length_prefixed(
            framed(12, [("txn", [reading(index, offset)])], isolation_level=1, max_wait_ms=0)
        )
        for index in range(3)
        for offset in (0, 4, 6, 7)
    ]
    alike(both, *frames)
    assert 0 < alike(both, *frames) < len(frames), "of aborted ones there is more to tell"
