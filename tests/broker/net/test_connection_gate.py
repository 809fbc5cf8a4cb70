"""Which connections may stay: rules on a clock that stands, and a listener that keeps to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from msgspec.structs import replace

import fencepost.broker.apis.api_versions  # noqa: F401 registers the handler under test
from fencepost.broker.net.address_rates import ADDRESSES_MAX, AddressRates
from fencepost.broker.net.connection_gate import ConnectionGate, Refused
from fencepost.broker.net.listener_security import ListenerSecurity
from fencepost.machines.image.quotas import Quotas
from fencepost.machines.quota import Windows
from fencepost.wire.api import ApiVersionsRequest

from ...waiting import eventually
from ..listener_fixtures import LIMITS, serve_listener

ASK = ApiVersionsRequest(client_software_name="test", client_software_version="1")


@dataclass(eq=False)
class One:
    listener_name: str = "CLIENTS"
    client_host: str = "10.0.0.1"
    last_activity: float = 0.0
    closed: bool = False


class Clock:
    now_s = 100.0


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def gate(clock: Clock) -> ConnectionGate:
    return ConnectionGate(lambda: clock.now_s)


def test_a_listener_has_a_number_of_its_own(gate: ConnectionGate) -> None:
    limits = replace(LIMITS, max_connections=3, max_connections_by_listener={"CLIENTS": 1})
    one, other = One(), One("OTHER")
    gate.check(one, limits)
    gate.joined(one)
    with pytest.raises(Refused, match=r"^listener\.name\.clients\.max\.connections=1 are open"):
        gate.check(One(), limits)
    for _ in range(2):
        gate.check(other, limits)
        gate.joined(other)
    with pytest.raises(Refused, match=r"^max\.connections=3 are open"):
        gate.check(other, limits)
    gate.left(one)
    gate.check(One(), limits)


def test_addresses_and_listeners_without_connections_are_forgotten(gate: ConnectionGate) -> None:
    for number in range(3):
        gate.joined(One(client_host=f"10.0.0.{number}"))
    for number in range(3):
        gate.left(One(client_host=f"10.0.0.{number}"))
    assert not gate._of_host and not gate._of_listener


def test_addresses_have_numbers_of_their_own(gate: ConnectionGate) -> None:
    limits = replace(LIMITS, max_connections_per_ip=1, max_connections_of={"10.0.0.2": 2})
    for host, most in (("10.0.0.1", 1), ("10.0.0.2", 2)):
        for _ in range(most):
            gate.check(One(client_host=host), limits)
            gate.joined(One(client_host=host))
        with pytest.raises(Refused, match=rf"^max\.connections\.per\.ip={most} are open"):
            gate.check(One(client_host=host), limits)


def test_the_protected_listener_makes_room(gate: ConnectionGate) -> None:
    gate.protected = "BROKERS"
    limits = replace(LIMITS, max_connections=2)
    old, older, gone = One(last_activity=5), One(last_activity=4), One(last_activity=3, closed=True)
    broker = One("BROKERS", last_activity=1)
    here = [old, older]
    for one in here:
        gate.joined(one)
    assert gate.one_too_many(here, limits) is None
    gate.check(broker, limits)
    gate.joined(broker)
    assert gate.one_too_many([*here, gone, broker], limits) is older
    with pytest.raises(Refused, match=r"max\.connections=2"):
        gate.check(One(), limits)
    second = One("BROKERS")
    gate.check(second, limits)
    gate.joined(second)
    with pytest.raises(Refused, match=r"listener\.name\.brokers\.max\.connections=2"):
        gate.check(One("BROKERS"), limits)


def test_connections_wait_for_the_slower_of_two_rates(gate: ConnectionGate, clock: Clock) -> None:
    limits = replace(LIMITS, max_created_per_s=10, max_created_per_s_by_listener={"CLIENTS": 2})
    assert [gate.wait_s(One(), limits) for _ in range(4)] == [0, 0, 0.5, 1.0]
    # Of the ten of all per second four were used.
    assert [gate.wait_s(One("OTHER"), limits) for _ in range(7)] == pytest.approx([0] * 6 + [0.1])
    for _ in range(18):
        gate.wait_s(One(), limits)
    with pytest.raises(Refused, match=r"^listener\.name\.clients\.max\.connection\.creation\.rate"):
        gate.wait_s(One(), limits)
    clock.now_s += 60
    assert gate.wait_s(One(), limits) == 0


def test_the_protected_listener_does_not_use_up_the_rate_of_all(gate: ConnectionGate) -> None:
    gate.protected = "BROKERS"
    limits = replace(LIMITS, max_created_per_s=2)
    for _ in range(2):
        assert gate.wait_s(One("BROKERS"), limits) == 0
    assert gate.wait_s(One("BROKERS"), limits) == 0.5
    assert gate.wait_s(One(), limits) == 0


def test_no_rate_is_no_connection(gate: ConnectionGate) -> None:
    with pytest.raises(Refused, match=r"max\.connection\.creation\.rate=0"):
        gate.wait_s(One(), replace(LIMITS, max_created_per_s=0))


def quotas_of(rates: Mapping[str | None, float]) -> Quotas:
    """Connections per second by address, None for any other."""
    return Quotas(
        {(("ip", address),): {"connection_creation_rate": rate} for address, rate in rates.items()}
    )


def test_an_address_is_held_for_a_window_at_most_and_does_not_count_then() -> None:
    rates = AddressRates(Windows(11, 1_000))
    rates.apply(quotas_of({"10.0.0.1": 1.0, None: 5.0}))
    assert [rates.hold_ms("10.0.0.1", 0) for _ in range(12)] == [0] * 10 + [1_000, 1_000]
    assert [rates.hold_ms("10.0.0.2", 0) for _ in range(52)] == [0] * 50 + [200, 200]
    # Those that were held are not counted: there is room as soon as there would be without them.
    assert rates.hold_ms("10.0.0.1", 11_000) == 0
    rates.apply(quotas_of({}))
    assert [rates.hold_ms("10.0.0.1", 11_000) for _ in range(99)] == [0] * 99


def test_addresses_take_bounded_memory() -> None:
    rates = AddressRates(Windows())
    rates.apply(quotas_of({None: 1.0}))
    for number in range(ADDRESSES_MAX + 10):
        rates.hold_ms(str(number), 0)
    assert len(rates._rates) == ADDRESSES_MAX and "9" not in rates._rates


# -- a listener ------------------------------------------------------------------------------------


def test_connections_of_an_address_that_come_too_fast_are_closed_in_the_end() -> None:
    with serve_listener() as served:
        rates = AddressRates(Windows(2, 500))
        served.listener.gate.rates = rates
        served.thread.call(rates.apply, quotas_of({"127.0.0.1": 4.0}))
        with served.connect() as first, served.connect() as second:
            assert first.ask(ASK, 3).error_code == 0
            with served.connect() as third:
                assert third.is_disconnected(), "after it was held"
            assert second.ask(ASK, 3).error_code == 0
        assert served.listener.counts.refused["PLAINTEXT"] == 1
        eventually(lambda: not served.listener.connections, "all are gone")


def test_a_brokers_connection_takes_the_place_of_the_quietest_client() -> None:
    with serve_listener(replace(LIMITS, max_connections=2)) as served:
        gate, listener = served.listener.gate, served.listener
        with served.connect() as quiet, served.connect() as busy:
            for client in (quiet, busy):
                assert client.ask(ASK, 3).error_code == 0
            served.thread.call(setattr, gate, "protected", "BROKERS")
            security = listener.securities["PLAINTEXT"]
            listener.securities["PLAINTEXT"] = ListenerSecurity("BROKERS", security.rules)
            with served.connect() as broker:
                assert broker.ask(ASK, 3).error_code == 0
                assert quiet.is_disconnected()
                assert busy.ask(ASK, 3).error_code == 0
