"""`connection_creation_rate`: how many connections per second an address may make (KIP-612)."""

from __future__ import annotations

import contextlib
import ipaddress
from collections import OrderedDict
from typing import Final

from fencepost.machines.image.quotas import IP, Quotas
from fencepost.machines.quota import SampledRate, Windows
from fencepost.machines.quota.limits import CONNECTION_CREATION_RATE

ADDRESSES_MAX: Final = 4_096
"""Of how many addresses the rates are kept; of others the one that came last longest ago goes."""


class AddressRates:
    """`connection_creation_rate` of addresses: connections per second."""

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._limits: dict[str, float] = {}
        self._default: float | None = None
        self._rates: OrderedDict[str, SampledRate] = OrderedDict()

    def apply(self, quotas: Quotas) -> None:
        """These are the quotas in force from now on."""
        self._limits, self._default = limits_of(quotas)
        if not self._limits and self._default is None:
            self._rates.clear()

    def hold_ms(self, address: str, now_ms: int) -> int:
        """For how long a connection of the address is to be held before it is closed; 0 if it may
        stay, and counts."""
        limit = self._limits.get(address, self._default)
        if limit is None:
            return 0
        rate = self._rates.get(address)
        if rate is None:
            if len(self._rates) >= ADDRESSES_MAX:
                self._rates.popitem(last=False)
            rate = self._rates[address] = SampledRate(self._windows)
        self._rates.move_to_end(address)
        rate.record(1.0, now_ms)
        hold_ms = min(rate.throttle_ms(limit, now_ms), self._windows.size_ms)
        if hold_ms:
            rate.record(-1.0, now_ms)
        return hold_ms


def limits_of(quotas: Quotas) -> tuple[dict[str, float], float | None]:
    """The connections per second that addresses may make, and what holds for all others."""
    rates: dict[str, float] = {}
    default: float | None = None
    for entity, values in quotas.items():
        names, rate = dict(entity), values.get(CONNECTION_CREATION_RATE)
        if rate is None or IP not in names:
            continue
        name = names[IP]
        if name is None:
            default = rate
        else:
            with contextlib.suppress(ValueError):  # a host's name, as Kafka's controllers take
                rates[str(ipaddress.ip_address(name))] = rate
    return rates, default
