"""Which new connections may stay, and which of them have to wait first.

| too many                                            | what becomes of a new one               |
|-----------------------------------------------------|-----------------------------------------|
| of all listeners (`max.connections`)                | refused, but not on the protected one   |
| of its listener (`listener.name.….max.connections`) | refused                                 |
| of its address (`max.connections.per.ip`)           | refused                                 |
| per second, of all or of its listener               | waits, and is refused after 10 s worth  |
| per second, of its address (a client quota, KIP-612)| held for a window at most, then closed  |

The listener that brokers use is protected if there are others: it takes connections beyond
`max.connections`, and for each the connection of another listener is closed on which nothing has
happened for the longest. Its connections do not count in the rate of all.

Kafka leaves connections beyond `max.connections` in the backlog until there is room. Here their
clients are disconnected at once, and can go elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from math import inf
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from fencepost.broker.config.endpoints import ConnectionLimits

if TYPE_CHECKING:
    from fencepost.broker.net.address_rates import AddressRates

CREATION_WAIT_MAX_S: Final = 10.0


class Arrived(Protocol):
    """A connection."""

    client_host: str
    listener_name: str
    last_activity: float
    closed: bool


Here = TypeVar("Here", bound=Arrived)


class Refused(Exception):
    """A connection may not stay; the message says why."""


class ConnectionGate:
    """The counts and rates of one `Listener`; see the module. `now_s` is the loop's time."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self.protected: str | None = None
        """The name of the listener that brokers use, if there are others."""
        self.rates: AddressRates | None = None
        """Those of addresses; None as long as there is no such quota."""
        self._now_s = now_s
        self._of_host: Counter[str] = Counter()
        self._of_listener: Counter[str] = Counter()
        self._turns: dict[str | None, float] = {}

    def hold_s(self, connection: Arrived) -> float:
        """For how long the connection is to be held before it is closed; 0.0 if it may stay."""
        if self.rates is None:
            return 0.0
        return self.rates.hold_ms(connection.client_host, int(self._now_s() * 1_000)) / 1_000

    def check(self, connection: Arrived, limits: ConnectionLimits) -> None:
        """Raise Refused if there are too many."""
        name, host = connection.listener_name, connection.client_host
        is_protected = name == self.protected
        if self._of_listener.total() >= limits.max_connections and not is_protected:
            raise Refused(f"max.connections={limits.max_connections} are open")
        own = limits.max_connections_by_listener.get(name, limits.max_connections)
        if self._of_listener[name] >= own:
            key = f"listener.name.{name.lower()}.max.connections"
            raise Refused(f"{key}={own} are open")
        per_host = limits.max_connections_of.get(host, limits.max_connections_per_ip)
        if self._of_host[host] >= per_host:
            raise Refused(f"max.connections.per.ip={per_host} are open")

    def wait_s(self, connection: Arrived, limits: ConnectionLimits) -> float:
        """How long the connection has to wait for its turn. Raises Refused if that is too long."""
        name = connection.listener_name
        own = limits.max_created_per_s_by_listener.get(name, limits.max_created_per_s)
        paced: list[tuple[str | None, int]] = [(name, own)]
        if name != self.protected:
            paced.append((None, limits.max_created_per_s))
        now = self._now_s()
        turns = {who: self._turn_of(who, rate, now) for who, rate in paced}
        wait_s = max((at - now for at in turns.values()), default=0.0)
        if wait_s > CREATION_WAIT_MAX_S:
            worst = max(paced, key=lambda one: turns[one[0]])
            prefix = "" if worst[0] is None else f"listener.name.{name.lower()}."
            raise Refused(f"{prefix}max.connection.creation.rate={worst[1]} is exceeded")
        self._turns.update(turns)
        return max(0.0, wait_s)

    def _turn_of(self, who: str | None, rate: int, now: float) -> float:
        """When the next connection may come; a second's worth of them may come at once."""
        if rate == 0:
            return inf
        return max(self._turns.get(who, -inf), now - 1) + 1 / rate

    def joined(self, connection: Arrived) -> None:
        """The connection stays."""
        self._of_host[connection.client_host] += 1
        self._of_listener[connection.listener_name] += 1

    def left(self, connection: Arrived) -> None:
        """A connection that stayed is gone."""
        for counts, key in (
            (self._of_host, connection.client_host),
            (self._of_listener, connection.listener_name),
        ):
            counts[key] -= 1
            if counts[key] <= 0:
                del counts[key]

    def one_too_many(self, connections: Iterable[Here], limits: ConnectionLimits) -> Here | None:
        """The connection to close because the protected listener has taken one beyond
        `max.connections`."""
        if self._of_listener.total() <= limits.max_connections:
            return None
        others = [
            one for one in connections if one.listener_name != self.protected and not one.closed
        ]
        return min(others, key=lambda one: one.last_activity, default=None)
