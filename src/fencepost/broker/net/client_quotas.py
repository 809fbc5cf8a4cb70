"""Client quotas at the front door: requests are charged to their clients, who are throttled.

Theory of operation
-------------------
A listener has one `QuotaGate`. While no quota of bytes or of time is set `is_on` is False, and a
request costs one look at it. While one is, every request of a client with a quota has a `Meter` of
the time that it takes on the event loop, and is charged once, when its answer is known and before
it is encoded:

* its time, up to then, to the client's `request_percentage`. What it takes later is charged with
  the client's next request;
* the bytes of a Produce, as its frame has them, to `producer_byte_rate`;
* the bytes of a consumer's answer to `consumer_byte_rate` (`charge_fetch`). If they are too many
  they are taken back, and the client is sent nothing but the time for which it is throttled.

The longest throttle time is the answer's, and the connection is muted for it once the answer has
left (`answers`). Brokers are not throttled: the APIs between nodes (`EXEMPT`) are not charged if
the principal may act for the cluster, nor is the login of a new connection. A Produce without an
answer (acks=0) is charged its bytes alone.

Of requests that a compiled taker takes (`run_taker`), Produces are charged together, when they are
taken. Fetches that are answered there are charged one by one: a run has a `Meter`, from which each
takes the time since the one before.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Protocol

from fencepost.log.configdef import INT_MAX
from fencepost.machines.session import Principal
from fencepost.runtime.requests.context import Pieces

if TYPE_CHECKING:
    from fencepost.machines.quota import Account, ClientAccounts, ClientQuotas

PRODUCE_KEY: Final = 0
FETCH_KEY: Final = 1
_LOGINS: Final = frozenset({17, 36})
EXEMPT: Final = frozenset({27, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82, 83, 84, 85, 86, 87})
"""Keys of the APIs that brokers are not charged for: what nodes ask each other."""
PERCENT: Final = 100.0


class QuotaClient(Protocol):
    """Whose quotas count."""

    @property
    def principal(self) -> Principal:
        """Its user."""
        ...


class Metered(QuotaClient, Protocol):
    """A request in flight."""

    client_id: str | None
    frame_size_bytes: int
    meter: Meter | None
    """None if its client had no quota when it came, or it is exempt."""

    @property
    def api_key(self) -> int:
        """Of its API."""
        ...

    @property
    def is_from_broker(self) -> bool:
        """Whether a broker has sent it."""
        ...

    @property
    def is_before_login(self) -> bool:
        """Whether the client has to log in first."""
        ...

    def throttle(self, throttle_time_ms: int) -> None:
        """See `runtime.requests.context.RequestContext`."""
        ...


class Meter:
    """How long a request of a client, or a run of Fetches, has kept the event loop busy, in
    seconds."""

    __slots__ = ("_began_s", "_used_s", "accounts", "is_charged")

    def __init__(self, accounts: ClientAccounts) -> None:
        self.accounts = accounts
        """What its client is charged to."""
        self._began_s = perf_counter()
        self._used_s = 0.0
        self.is_charged = False

    def begin(self) -> bool:
        """Its work goes on; whether it did not already."""
        if self._began_s:
            return False
        self._began_s = perf_counter()
        return True

    def end(self) -> None:
        """Its work is done, or waits."""
        if self._began_s:
            self._used_s += perf_counter() - self._began_s
            self._began_s = 0.0

    @property
    def fetch_bytes_max(self) -> int:
        """The most that an answer may have of records, so that waiting helps its client."""
        fetched = self.accounts.fetched
        return INT_MAX if fetched is None else fetched.burst

    def take_s(self) -> float:
        """What was used since this was called last."""
        if self._began_s:
            now_s = perf_counter()
            self._used_s += now_s - self._began_s
            self._began_s = now_s
        used_s, self._used_s = self._used_s, 0.0
        return used_s


class QuotaGate:
    """See the module docstring; `now_ms` is the node's monotonic clock."""

    quotas: ClientQuotas
    """What is charged; there once a quota was set."""

    def __init__(
        self,
        now_ms: Callable[[], int],
        may_act_for_cluster: Callable[[Any], bool] = lambda request: True,
    ) -> None:
        """`may_act_for_cluster`: whether the sender of a request has the rights of a broker."""
        self._may_act_for_cluster = may_act_for_cluster
        self.is_on = False
        """Whether requests are to be charged."""
        self._now_ms = now_ms

    def apply(self, quotas: ClientQuotas) -> None:
        """These, or others than before, are in force."""
        self.quotas = quotas
        self.is_on = quotas.is_on

    def run_begun(self, client: QuotaClient, client_id: str) -> Meter | None:
        """The work on a run of the client's Fetches begins; None if nothing is charged to it."""
        accounts = self.quotas.accounts(client.principal.name, client_id)
        return None if accounts is None else Meter(accounts)

    # -- one request -----------------------------------------------------------------------

    def begun(self, request: Metered) -> None:
        """The request has come, and its work begins."""
        if request.api_key in _LOGINS and request.is_before_login:
            return
        accounts = self.quotas.accounts(request.principal.name, request.client_id or "")
        if accounts is not None:
            request.meter = Meter(accounts)

    def charge(self, request: Metered) -> None:
        """The answer to the request is known, if there is one."""
        meter = request.meter
        if meter is None or meter.is_charged:
            return
        if self._is_exempt(request):
            request.meter = None
            return
        produced_ms, now_ms, produced = 0, self._now_ms(), meter.accounts.produced
        if request.api_key == PRODUCE_KEY and produced is not None:
            produced_ms = produced.record(request.frame_size_bytes, now_ms)
        requested_ms, meter.is_charged = self._charge_time(meter, now_ms), True
        _throttle(request, _longer(meter, requested_ms, produced_ms, produced))

    def charge_unanswered(self, request: Metered) -> None:
        """There is no answer to the request, a Produce."""
        meter = request.meter
        if meter is None or meter.is_charged:
            return
        request.meter = None  # its time is not charged
        produced = meter.accounts.produced
        if produced is not None:
            produced_ms = produced.record(request.frame_size_bytes, self._now_ms())
            _throttle(request, _longer(meter, 0, produced_ms, produced))

    def fetch_bytes_max(self, request: Metered) -> int:
        """The most that an answer may have of records, so that waiting helps its client."""
        meter = request.meter
        return INT_MAX if meter is None else meter.fetch_bytes_max

    def charge_fetch(self, request: Metered, size_bytes: int) -> bool:
        """An answer to a consumer would have so many bytes; whether it is to be throttled, and sent
        without them."""
        meter = request.meter
        if meter is None or meter.is_charged or self._is_exempt(request):
            return False
        throttle_ms, meter.is_charged = self.charge_answer(meter, size_bytes), True
        _throttle(request, throttle_ms)
        return throttle_ms > 0

    def charge_answer(self, meter: Meter, size_bytes: int) -> int:
        """Charge a consumer for an answer of so many bytes, and for the time since the meter was
        read last; for how long it is throttled, in milliseconds. It is 0 if the answer is sent."""
        fetched, now_ms = meter.accounts.fetched, self._now_ms()
        fetched_ms = 0 if fetched is None else fetched.record(size_bytes, now_ms)
        requested_ms = self._charge_time(meter, now_ms)
        if not fetched_ms and not requested_ms:
            return 0
        if fetched is not None:
            fetched.record(-size_bytes, now_ms)
        return _longer(meter, requested_ms, fetched_ms, fetched)

    def goes_on(self, request: Metered) -> bool:
        """Work on the request goes on, after it has waited; whether it was not under way already.
        It is to be followed by `returned`."""
        meter = request.meter
        return meter is not None and meter.begin()

    def returned(self, request: Metered) -> None:
        """The handler of the request has returned."""
        meter = request.meter
        if meter is None:
            return
        meter.end()
        if meter.is_charged:
            meter.accounts.later_s += meter.take_s()

    def run_returned(self, meter: Meter) -> None:
        """The run is over."""
        meter.accounts.later_s += meter.take_s()

    def measured(self, request: Metered, pieces: Pieces) -> Pieces:
        """The work on the request, with the time that it takes."""
        meter = request.meter
        return pieces if meter is None else _measured(meter, pieces)

    # -- several -----------------------------------------------------------------------------

    def charge_run(
        self, client: QuotaClient, client_id: str, size_bytes: int, used_s: float, *, acks: bool
    ) -> int:
        """A run of Produce requests was taken; for how long its client is throttled, in ms. Their
        time is charged if they are answered."""
        user, now_ms = client.principal.name, self._now_ms()
        quotas = self.quotas
        produced_ms = quotas.produced.record(user, client_id, size_bytes, now_ms)
        requested_ms = 0
        if acks:
            requested_ms = quotas.requests.record(user, client_id, used_s * PERCENT, now_ms)
        if produced_ms > requested_ms:
            quotas.produced.throttled(user, client_id, produced_ms)
        elif requested_ms:
            quotas.requests.throttled(user, client_id, requested_ms)
        return max(produced_ms, requested_ms)

    # -- inside ------------------------------------------------------------------------------

    def _is_exempt(self, request: Metered) -> bool:
        key = request.api_key
        if key == FETCH_KEY:
            return request.is_from_broker
        return key in EXEMPT and self._may_act_for_cluster(request)

    def _charge_time(self, meter: Meter, now_ms: int) -> int:
        accounts = meter.accounts
        if accounts.requests is None:
            return 0
        used_s, accounts.later_s = meter.take_s() + accounts.later_s, 0.0
        return accounts.requests.record(used_s * PERCENT, now_ms)


NO_QUOTAS: Final = QuotaGate(lambda: 0)
"""Charges for nothing: no quota is ever set."""


def _longer(meter: Meter, requested_ms: int, moved_ms: int, moved: Account | None) -> int:
    """The longer of two throttle times, in milliseconds: it counts as that quota's."""
    longer = moved if moved_ms > requested_ms else meter.accounts.requests
    throttle_ms = max(moved_ms, requested_ms)
    if throttle_ms and longer is not None:
        longer.throttled(throttle_ms)
    return throttle_ms


def _throttle(request: Metered, throttle_ms: int) -> None:
    if throttle_ms:
        request.throttle(throttle_ms)


def _measured(meter: Meter, pieces: Pieces) -> Pieces:
    """The pieces, with the time that each takes."""
    try:
        while True:
            begins = meter.begin()
            try:
                waits_for = next(pieces)
            except StopIteration as done:
                return done.value
            finally:
                if begins:
                    meter.end()
            yield waits_for
    finally:
        pieces.close()
