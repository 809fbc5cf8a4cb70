"""What clients use of their quotas, and for how long they are to be throttled for it.

Theory of operation
-------------------
Each of the four quotas of users and client ids has a meter for each budget (`limits`) that was used
lately. There are at most `METERS_MAX` of a quota, and those that nothing was recorded in for
`EXPIRE_MS` go, so that names that clients make up take bounded memory. A meter outlives a change of
its limit: what was used before counts against the new one.

Without a quota that is set nothing is kept: `is_on` says whether there is any.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, Generic, NamedTuple, TypeVar

from fencepost.log.configdef import INT_MAX
from fencepost.machines.image.quotas import Quotas
from fencepost.machines.quota.limits import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Budget,
    Limits,
)
from fencepost.machines.quota.rate import SampledRate, Windows
from fencepost.machines.quota.token_bucket import TokenBucket

DEFAULT: Final = Windows()
METERS_MAX: Final = 4_096
EXPIRE_MS: Final = 3_600_000
"""Kafka's sensors of quotas expire after as long."""

Meter = TypeVar("Meter", bound=SampledRate | TokenBucket)


class Usage(NamedTuple):
    """What one budget has come to."""

    budget: Budget
    limit: float
    value: float
    """The rate, or the tokens that are left."""
    throttled_ms: int
    """For how long all in all its clients were throttled, since the meter began."""
    throttles: int
    """How many times they were."""


class _Kept(Generic[Meter]):
    __slots__ = ("is_gone", "meter", "throttled_ms", "throttles", "used_ms")

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self.used_ms = self.throttled_ms = self.throttles = 0
        self.is_gone = False


class Meters(Generic[Meter]):
    """The meters of one quota; see the module docstring."""

    def __init__(self, key: str, windows: Windows, make: type[Meter]) -> None:
        self.key = key
        """The quota's key."""
        self.windows = windows
        self.limits = Limits({})
        self._make = make
        self._kept: OrderedDict[Budget, _Kept[Meter]] = OrderedDict()

    def __bool__(self) -> bool:
        """Whether the quota is set for any client."""
        return bool(self.limits)

    def meter(self, user: str, client_id: str, now_ms: int) -> tuple[Meter, float] | None:
        """The client's meter and its limit; None if the client has no such quota."""
        found = self.limits.find(user, client_id)
        if found is None:
            return None
        budget, limit = found
        return self._used(budget, now_ms).meter, limit

    def _used(self, budget: Budget, now_ms: int) -> _Kept[Meter]:
        """What is kept of a budget that is used now."""
        kept = self._kept.get(budget)
        if kept is None:
            self._make_room(now_ms)
            kept = self._kept[budget] = _Kept(self._make(self.windows))
        elif kept.used_ms == now_ms:  # a busy client's, and it was moved already
            return kept
        else:
            self._kept.move_to_end(budget)
        kept.used_ms = now_ms
        return kept

    def throttled(self, user: str, client_id: str, throttle_ms: int) -> None:
        """The client is throttled for so long, because of this quota."""
        found = self.limits.find(user, client_id)
        kept = None if found is None else self._kept.get(found[0])
        if kept is not None:
            kept.throttled_ms += throttle_ms
            kept.throttles += 1

    def usages(self, now_ms: int) -> Iterator[Usage]:
        """What the budgets have come to that were used lately."""
        self._expire(now_ms)
        for budget, kept in self._kept.items():
            limit = self.limits.limit_of(budget)
            if limit is None:
                continue
            meter = kept.meter
            if isinstance(meter, TokenBucket):
                value = meter.tokens(limit, now_ms)
            else:
                value = meter.measure(now_ms)
            yield Usage(budget, limit, value, kept.throttled_ms, kept.throttles)

    def _make_room(self, now_ms: int) -> None:
        self._expire(now_ms)
        if len(self._kept) >= METERS_MAX:
            self._kept.popitem(last=False)[1].is_gone = True

    def _expire(self, now_ms: int) -> None:
        while self._kept:
            budget = next(iter(self._kept))
            if now_ms - self._kept[budget].used_ms < EXPIRE_MS:
                return
            self._kept.pop(budget).is_gone = True


class RateQuota(Meters[SampledRate]):
    """A quota of a rate. Throttle times are cut to `throttle_max_ms`, if that is given."""

    def __init__(self, key: str, windows: Windows, throttle_max_ms: int | None = None) -> None:
        super().__init__(key, windows, SampledRate)
        self.throttle_max_ms = throttle_max_ms
        """No throttle time is longer; None: as long as it takes."""

    def record(self, user: str, client_id: str, value: float, now_ms: int) -> int:
        """The client has used so much; for how long it is to be throttled, in milliseconds."""
        found = self.meter(user, client_id, now_ms)
        if found is None:
            return 0
        rate, limit = found
        rate.record(value, now_ms)
        throttle_ms = rate.throttle_ms(limit, now_ms)
        most_ms = self.throttle_max_ms
        return throttle_ms if most_ms is None else min(throttle_ms, most_ms)

    def account(self, user: str, client_id: str) -> Account | None:
        """Where the client's use is recorded, until other limits are in force; None if it has no
        such quota."""
        found = self.limits.find(user, client_id)
        return None if found is None else Account(self, *found)


class Account:
    """One client's part of a quota: its budget, found once, and its meter."""

    __slots__ = ("_budget", "_kept", "_quota", "burst", "limit")

    def __init__(self, quota: RateQuota, budget: Budget, limit: float) -> None:
        self._quota = quota
        self._budget = budget
        self._kept: _Kept[SampledRate] | None = None
        self.limit = limit
        """In units per second."""
        self.burst = int(min(limit * quota.windows.burst_s, INT_MAX))
        """What the client may use at once without being throttled."""

    def record(self, value: float, now_ms: int) -> int:
        """See `RateQuota.record`."""
        kept = self._kept
        if kept is None or kept.used_ms != now_ms or kept.is_gone:
            kept = self._kept = self._quota._used(self._budget, now_ms)
        rate = kept.meter
        rate.record(value, now_ms)
        throttle_ms = rate.throttle_ms(self.limit, now_ms)
        most_ms = self._quota.throttle_max_ms
        return throttle_ms if most_ms is None else min(throttle_ms, most_ms)

    def throttled(self, throttle_ms: int) -> None:
        """The client is throttled for so long, because of this quota."""
        if self._kept is not None:
            self._kept.throttled_ms += throttle_ms
            self._kept.throttles += 1


class ClientAccounts:
    """What one client is charged to; None for a quota that it does not have."""

    __slots__ = ("fetched", "later_s", "produced", "requests")

    def __init__(
        self, produced: Account | None, fetched: Account | None, requests: Account | None
    ) -> None:
        self.produced = produced
        self.fetched = fetched
        self.requests = requests
        self.later_s = 0.0
        """Seconds that its requests took after they were charged: the next one is charged them."""


class MutationQuota(Meters[TokenBucket]):
    """The quota of partitions that are created and deleted, in tokens (KIP-599)."""

    def __init__(self, key: str, windows: Windows) -> None:
        super().__init__(key, windows, TokenBucket)

    def charge(self, user: str, client_id: str, count: int, now_ms: int, *, strict: bool) -> int:
        """So many partitions are to change; for how long the client is to be throttled, in ms.

        A strict charge of a client in debt is not made: the throttle time is its refusal. Another
        is always made, and the time is that of the debt after it.
        """
        found = self.meter(user, client_id, now_ms)
        if found is None:
            return 0
        bucket, limit = found
        if strict:
            throttle_ms = bucket.throttle_ms(limit, now_ms)
            if bucket.tokens(limit, now_ms) >= 0:
                bucket.take(count, limit, now_ms)
            return throttle_ms
        bucket.take(count, limit, now_ms)
        return bucket.throttle_ms(limit, now_ms)


class ClientQuotas:
    """The quotas of users and client ids on one node. `windows` are those of `quota.window.*`,
    `controller_windows` of `controller.quota.window.*`."""

    def __init__(self, windows: Windows = DEFAULT, controller_windows: Windows = DEFAULT) -> None:
        self.produced = RateQuota(PRODUCER_BYTE_RATE, windows)
        """Bytes of Produce requests per second."""
        self.fetched = RateQuota(CONSUMER_BYTE_RATE, windows)
        """Bytes of consumers' fetches per second."""
        self.requests = RateQuota(REQUEST_PERCENTAGE, windows, throttle_max_ms=windows.size_ms)
        """Time that requests take, in percent of one thread."""
        self.mutations = MutationQuota(CONTROLLER_MUTATION_RATE, controller_windows)
        """Partitions that are created and deleted per second."""
        self._accounts: dict[tuple[str, str], ClientAccounts | None] = {}
        self.is_on = False
        """Whether any of the first three is set for any client."""

    @property
    def all(self) -> tuple[RateQuota, RateQuota, RateQuota, MutationQuota]:
        """The four of them."""
        return self.produced, self.fetched, self.requests, self.mutations

    def accounts(self, user: str, client_id: str) -> ClientAccounts | None:
        """What the client is charged to; None if it has none of the first three."""
        client = user, client_id
        try:
            return self._accounts[client]
        except KeyError:
            if len(self._accounts) >= Limits.CACHED_MAX:
                self._accounts.clear()
            produced, fetched, requests = (
                one.account(*client) for one in (self.produced, self.fetched, self.requests)
            )
            has_any = not (produced is None and fetched is None and requests is None)
            found = ClientAccounts(produced, fetched, requests) if has_any else None
            self._accounts[client] = found
            return found

    def apply(self, quotas: Quotas) -> None:
        """These are the quotas in force from now on."""
        self._accounts.clear()
        for one in self.all:
            one.limits = Limits.of(quotas, one.key)
        self.is_on = any(one.limits for one in (self.produced, self.fetched, self.requests))
