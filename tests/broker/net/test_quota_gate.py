"""What requests are charged, and to whom: rules on a clock that stands, without a connection."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from fencepost.broker.net import client_quotas
from fencepost.broker.net.client_quotas import FETCH_KEY, PRODUCE_KEY, Meter, QuotaGate
from fencepost.machines.image.persistent import PersistentMap
from fencepost.machines.quota import ClientQuotas
from fencepost.machines.session import Principal
from fencepost.runtime.requests.context import Pieces

METADATA_KEY = 3
BURST_BYTES = 1_000
"""What 100 bytes per second allow at once."""


@dataclass
class Request:
    api_key: int
    frame_size_bytes: int = 0
    is_from_broker: bool = False
    client_id: str | None = "c"
    principal: Principal = Principal("User", "u")  # noqa: RUF009 it is frozen
    throttles_ms: list[int] = field(default_factory=list)
    meter: Meter | None = None
    is_before_login: bool = False

    def throttle(self, throttle_time_ms: int) -> None:
        self.throttles_ms.append(throttle_time_ms)


class BegunGate(QuotaGate):
    """Every request that is charged has begun."""

    def charge(self, request: Request) -> None:
        self._begin(request)
        super().charge(request)

    def charge_fetch(self, request: Request, size_bytes: int) -> bool:
        self._begin(request)
        return super().charge_fetch(request, size_bytes)

    def _begin(self, request: Request) -> None:
        if request.meter is None and not request.throttles_ms:
            self.begun(request)


@pytest.fixture
def gate() -> QuotaGate:
    quotas = ClientQuotas()
    limits = {"producer_byte_rate": 100.0, "consumer_byte_rate": 100.0}
    quotas.apply(PersistentMap().update({(("user", "u"),): limits}))
    gate = BegunGate(lambda: 0)
    gate.apply(quotas)
    return gate


def test_what_a_throttled_fetch_is_not_sent_is_not_charged(gate: QuotaGate) -> None:
    assert not gate.charge_fetch(Request(FETCH_KEY), BURST_BYTES - 100)
    throttled = Request(FETCH_KEY)
    assert gate.charge_fetch(throttled, 200)
    assert throttled.throttles_ms == [1_000]
    assert not gate.charge_fetch(Request(FETCH_KEY), 100), "the 200 bytes were taken back"
    assert gate.charge_fetch(Request(FETCH_KEY), 1)


def test_what_a_fetch_is_not_sent_is_not_charged_whichever_quota_throttles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [100.0]
    monkeypatch.setattr(client_quotas, "perf_counter", lambda: clock[0])
    quotas = ClientQuotas()
    limits = {"consumer_byte_rate": 100.0, "request_percentage": 10.0}
    quotas.apply(PersistentMap().update({(("user", "u"),): limits}))
    gate = QuotaGate(lambda: 0)
    gate.apply(quotas)
    request = Request(FETCH_KEY)
    gate.begun(request)
    clock[0] += 2.0
    assert gate.charge_fetch(request, BURST_BYTES), "20 % of 10 s is too much; the bytes are not"
    assert [use.throttles for use in quotas.requests.usages(0)] == [1]
    assert [(use.value, use.throttles) for use in quotas.fetched.usages(0)] == [(0.0, 0)]


def test_brokers_fetches_cost_nothing_and_whatever_else_comes_by_their_connections_does(
    gate: QuotaGate,
) -> None:
    """A client may say that it is a replica, which makes its connection a broker's."""
    assert not gate.charge_fetch(Request(FETCH_KEY, is_from_broker=True), 100 * BURST_BYTES)
    produce = Request(PRODUCE_KEY, 2 * BURST_BYTES, is_from_broker=True)
    gate.charge(produce)
    assert produce.throttles_ms == [10_000]
    metadata = Request(METADATA_KEY, 2 * BURST_BYTES)
    gate.charge(metadata)
    assert metadata.throttles_ms == [], "bytes count of what produces alone"


def test_a_request_is_charged_once(gate: QuotaGate) -> None:
    produce = Request(PRODUCE_KEY, 2 * BURST_BYTES)
    for _ in range(2):
        gate.charge(produce)
        gate.charge_unanswered(produce)
    assert produce.throttles_ms == [10_000]


def test_a_run_costs_the_longer_of_the_two_throttle_times(gate: QuotaGate) -> None:
    client = Request(PRODUCE_KEY)
    assert gate.charge_run(client, "c", 2 * BURST_BYTES, 0.0, acks=True) == 10_000
    assert gate.charge_run(client, "c", 0, 0.0, acks=False) == 10_000, "it is in debt"


def test_what_a_request_takes_after_its_charge_is_charged_with_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [100.0]
    monkeypatch.setattr(client_quotas, "perf_counter", lambda: clock[0])
    quotas = ClientQuotas()
    quotas.apply(PersistentMap().update({(("user", "u"),): {"request_percentage": 10.0}}))
    gate = QuotaGate(lambda: 0)
    gate.apply(quotas)

    def used_by_a_request(before_s: float, after_s: float) -> list[int]:
        request = Request(METADATA_KEY)
        gate.begun(request)
        clock[0] += before_s
        gate.charge(request)
        clock[0] += after_s
        gate.returned(request)
        return request.throttles_ms

    assert used_by_a_request(0.5, 1.5) == []
    assert used_by_a_request(0.0, 0.0) == [1_000], "2 s in all: 20 % of 10 s"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the time of requests is taken by."""
    made = [100.0]
    monkeypatch.setattr(client_quotas, "perf_counter", lambda: made[0])
    return made


@pytest.fixture
def timed(clock: list[float]) -> tuple[QuotaGate, ClientQuotas]:
    """Time and bytes of one user are limited."""
    quotas = ClientQuotas()
    limits = {"producer_byte_rate": 100.0, "request_percentage": 10.0}
    quotas.apply(PersistentMap().update({(("user", "u"),): limits}))
    gate = QuotaGate(lambda: 0)
    gate.apply(quotas)
    return gate, quotas


def test_a_second_counts_once_and_while_there_is_work(
    timed: tuple[QuotaGate, ClientQuotas], clock: list[float]
) -> None:
    accounts = timed[0].quotas.accounts("u", "c")
    assert accounts is not None
    meter = Meter(accounts)
    clock[0] += 1
    assert not meter.begin(), "it has begun"
    clock[0] += 1
    for _ in range(2):
        meter.end()
        clock[0] += 10
    assert meter.begin()
    clock[0] += 1
    assert meter.take_s() == 3.0
    clock[0] += 1
    assert meter.take_s() == 1.0
    meter.end()
    assert meter.take_s() == 0.0


def test_pieces_end_no_work_that_was_under_way(
    timed: tuple[QuotaGate, ClientQuotas], clock: list[float]
) -> None:
    def pieces() -> Pieces:
        clock[0] += 1
        yield
        clock[0] += 1
        return []

    request = Request(METADATA_KEY)
    timed[0].begun(request)
    measured = timed[0].measured(request, pieces())
    next(measured)
    clock[0] += 1
    assert request.meter is not None and request.meter.take_s() == 2.0, "its handler goes on"
    request.meter.end()
    clock[0] += 10
    assert next(measured, None) is None
    clock[0] += 10
    assert request.meter.take_s() == 1.0


def test_the_time_of_a_run_is_charged_if_it_is_answered(
    timed: tuple[QuotaGate, ClientQuotas],
) -> None:
    gate, quotas = timed
    client = Request(PRODUCE_KEY)
    assert gate.charge_run(client, "c", 0, 5.0, acks=False) == 0
    assert gate.charge_run(client, "c", 0, 5.0, acks=True) == 1_000
    throttles = [
        [use.throttles for use in one.usages(0)] for one in (quotas.requests, quotas.produced)
    ]
    assert throttles == [[1], [0]], "its time was too much, and its bytes are none"


@pytest.mark.parametrize("key", [17, 36])
@pytest.mark.parametrize("is_before_login", [True, False])
def test_a_login_is_charged_to_who_has_logged_in_before(
    gate: QuotaGate, key: int, is_before_login: bool
) -> None:
    request = Request(key, is_before_login=is_before_login)
    gate.begun(request)
    assert (request.meter is None) is is_before_login


def test_what_has_no_answer_is_charged_once(gate: QuotaGate) -> None:
    produce = Request(PRODUCE_KEY, 2 * BURST_BYTES)
    gate.begun(produce)
    for _ in range(2):
        gate.charge_unanswered(produce)
    assert produce.throttles_ms == [10_000]
