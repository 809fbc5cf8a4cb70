"""Client quotas by themselves: rates, buckets, whose limit counts, and what is kept."""

from __future__ import annotations

import random
from itertools import product
from types import MappingProxyType

import pytest

from fencepost.machines.image.persistent import PersistentMap
from fencepost.machines.image.quotas import QuotaEntity, Quotas
from fencepost.machines.quota import (
    Budget,
    ClientQuotas,
    Limits,
    MutationQuota,
    RateQuota,
    SampledRate,
    TokenBucket,
    Windows,
)
from fencepost.machines.quota.clients import EXPIRE_MS, INT_MAX, METERS_MAX

WINDOWS = Windows(11, 1_000)
KEY = "producer_byte_rate"


def quotas_of(*entries: tuple[dict[str, str | None], dict[str, float]]) -> Quotas:
    return PersistentMap().update(
        {tuple(sorted(entity.items())): MappingProxyType(values) for entity, values in entries}
    )


# -- rates -----------------------------------------------------------------------------------------


def test_a_burst_counts_over_all_windows_but_one() -> None:
    rate = SampledRate(WINDOWS)
    rate.record(100_000, 5)
    assert rate.measure(5) == 10_000
    assert rate.window_ms(5) == 10_000
    assert rate.throttle_ms(10_000, 5) == 0
    assert rate.throttle_ms(1_000, 5) == 90_000, "it is not cut to anything"


def test_what_is_old_is_forgotten_and_not_before() -> None:
    rate = SampledRate(WINDOWS)
    rate.record(1_000, 0)
    assert rate.measure(10_999) == 1_000 / 10.999
    assert rate.measure(11_000) == 0
    assert rate.window_ms(11_000) == 10_000


def test_a_steady_rate_is_measured_as_what_it_is() -> None:
    rate = SampledRate(WINDOWS)
    for now_ms in range(0, 60_000, 50):
        rate.record(500, now_ms)
    assert rate.measure(59_950) == pytest.approx(10_000, rel=0.02)


def test_what_is_taken_back_was_never_recorded() -> None:
    rate, never = SampledRate(WINDOWS), SampledRate(WINDOWS)
    for one in (rate, never):
        one.record(10, 0)
    rate.record(900, 3_000)
    never.record(0, 3_000)
    rate.record(-900, 3_000)
    assert rate.measure(3_500) == never.measure(3_500)


def test_a_throttle_time_is_that_of_a_rate_over_its_limit_and_silence_ends_it() -> None:
    """Of drawn histories. A client may have to wait again after its first throttle time, since the
    rate is taken over all windows but one at least; but not once all windows are over."""
    for seed in range(300):
        rng = random.Random(seed)
        windows = Windows(rng.randint(2, 12), rng.choice([100, 1_000, 3_000]))
        rate, limit, now_ms = SampledRate(windows), rng.uniform(1, 1e6), rng.randint(0, 1 << 40)
        for _ in range(rng.randint(1, 40)):
            now_ms += rng.randint(0, windows.size_ms)
            rate.record(rng.uniform(0, 2) * limit * windows.size_ms / 1_000, now_ms)
            wait_ms = rate.throttle_ms(limit, now_ms)
            assert wait_ms >= 0
            excess = rate.measure(now_ms) / limit - 1
            assert wait_ms == pytest.approx(max(excess, 0) * rate.window_ms(now_ms), abs=1), seed
        silent_ms = windows.count * windows.size_ms
        assert rate.throttle_ms(limit, now_ms + silent_ms) == 0, seed


# -- tokens ----------------------------------------------------------------------------------------


def test_a_bucket_is_full_goes_into_debt_and_is_filled_again() -> None:
    bucket = TokenBucket(WINDOWS)
    assert bucket.tokens(5.0, 77) == 55
    bucket.take(60, 5.0, 77)
    assert bucket.tokens(5.0, 77) == -5
    assert bucket.throttle_ms(5.0, 77) == 1_000
    assert bucket.throttle_ms(5.0, 1_076) > 0
    assert bucket.throttle_ms(5.0, 1_077) == 0
    assert bucket.tokens(5.0, 1_000_000) == 55


def test_a_strict_charge_in_debt_is_not_made_and_another_is() -> None:
    quota = MutationQuota("controller_mutation_rate", WINDOWS)
    quota.limits = Limits({(("user", "u"),): 1.0})
    charge = lambda count, strict: quota.charge("u", "c", count, 0, strict=strict)  # noqa: E731
    assert charge(12, True) == 0, "one charge may go beyond what there is"
    assert charge(5, True) == 1_000
    assert charge(5, True) == 1_000, "which has cost nothing"
    assert charge(5, False) == 6_000
    assert quota.charge("other", "c", 500, 0, strict=True) == 0


def test_a_strict_charge_of_an_empty_bucket_is_made() -> None:
    quota = MutationQuota("controller_mutation_rate", WINDOWS)
    quota.limits = Limits({(("user", "u"),): 1.0})
    waits_ms = [quota.charge("u", "c", count, 0, strict=True) for count in (11, 5, 1)]
    assert waits_ms == [0, 0, 5_000], "what is charged to an empty bucket is a debt"


# -- whose limit -----------------------------------------------------------------------------------

LEVELS: tuple[tuple[str | None, str | None], ...] = (
    ("u", "c"),
    ("u", ""),
    ("u", None),
    ("", "c"),
    ("", ""),
    ("", None),
    (None, "c"),
    (None, ""),
)
"""From the first to the last; '' is the default, None that there is none."""


def entity_at(level: int) -> QuotaEntity:
    user, client_id = LEVELS[level]
    named = {"user": user, "client-id": client_id}
    return tuple(sorted((kind, name or None) for kind, name in named.items() if name is not None))


def test_the_first_level_that_is_set_counts_of_all_subsets() -> None:
    for chosen in product([False, True], repeat=8):
        levels = [level for level in range(8) if chosen[level]]
        limits = Limits({entity_at(level): float(level + 1) for level in levels})
        found = limits.find("u", "c")
        if not levels:
            assert found is None
            continue
        user, client_id = LEVELS[levels[0]]
        budget = Budget("" if user is None else "u", "" if client_id is None else "c")
        assert found == (budget, levels[0] + 1.0), levels
        elsewhere = limits.find("v", "d")
        defaults = [level for level in (4, 5, 7) if level in levels]
        assert (elsewhere is None) == (not defaults)
        if elsewhere is not None:
            assert elsewhere[1] == defaults[0] + 1.0


def test_a_client_without_id_has_no_default_of_client_ids() -> None:
    limits = Limits({(("client-id", None),): 1.0})
    assert limits.find("u", "") is None and limits.find("u", "c") is not None
    # A quota of the user with any client id hides that of any user, and then does not apply.
    both: QuotaEntity = (("client-id", None), ("user", "u"))
    limits = Limits({both: 1.0, (("user", None),): 2.0})
    assert limits.find("u", "") == (Budget("u", ""), 2.0)


def test_a_quota_of_infinity_is_none() -> None:
    limits = Limits({(("user", "u"),): float("inf"), (("client-id", "c"),): 1.0})
    assert limits.find("u", "c") is None


# -- clients ---------------------------------------------------------------------------------------


def rate_quota(limits: dict[QuotaEntity, float], most_ms: int | None = None) -> RateQuota:
    quota = RateQuota(KEY, WINDOWS, most_ms)
    quota.limits = Limits(limits)
    return quota


def test_clients_of_one_user_share_its_budget() -> None:
    quota = rate_quota({(("user", "u"),): 100.0})
    assert quota.record("u", "a", 1_000, 0) == 0
    assert quota.record("u", "b", 1_000, 0) == 10_000
    assert quota.record("other", "b", 1 << 40, 0) == 0


def test_a_throttle_time_may_be_cut() -> None:
    quota = rate_quota({(("user", "u"),): 100.0}, 1_000)
    assert quota.record("u", "a", 1 << 40, 0) == 1_000


def test_throttle_times_and_bursts_fit_into_a_response() -> None:
    quota = rate_quota({(("user", "u"),): 5e-324, (("user", "v"),): 9e18})
    assert quota.record("u", "a", 1 << 40, 0) == INT_MAX
    bursts = [one and one.burst for one in map(quota.account, "vuw", "aaa")]
    assert bursts == [INT_MAX, 0, None]


def test_an_account_is_its_clients_meter_also_when_that_was_given_up() -> None:
    """A client's meter is given up for names that others make up, or after an hour."""
    quota = rate_quota({(("user", None),): 100.0})
    account = quota.account("u", "c")
    assert account is not None
    assert account.record(1_000, 0) == quota.record("u", "c", 0, 0) == 0
    assert account.record(100, 0) == quota.record("u", "c", 0, 0) == 1_000
    account.throttled(1_000)
    assert [(one.throttled_ms, one.throttles) for one in quota.usages(0)] == [(1_000, 1)]
    for number in range(METERS_MAX):
        quota.record(f"made-up-{number}", "c", 1, 0)
    assert account.record(1_000, 0) == 0, "it begins again, as the client's next meter"
    assert quota.record("u", "c", 100, 0) == account.record(0, 0) == 1_000
    later_ms = EXPIRE_MS + 1
    assert not list(quota.usages(later_ms))
    assert account.record(1_000, later_ms) == 0
    assert [one.value > 0 for one in quota.usages(later_ms)] == [True]


def test_another_limit_holds_for_what_was_used_before() -> None:
    quotas = ClientQuotas(WINDOWS, WINDOWS)
    quotas.apply(quotas_of(({"user": None}, {KEY: 100.0})))
    assert quotas.is_on
    assert quotas.produced.record("u", "c", 1_000, 0) == 0
    quotas.apply(quotas_of(({"user": None}, {KEY: 50.0})))
    assert quotas.produced.record("u", "c", 0, 0) == 10_000
    assert quotas.accounts("u", "c") and quotas.accounts("v", "")
    quotas.apply(quotas_of(({"user": "u"}, {KEY: 50.0})))
    assert quotas.accounts("u", "c") and quotas.accounts("v", "") is None
    quotas.apply(quotas_of(({"user": None}, {"controller_mutation_rate": 1.0})))
    assert quotas.accounts("u", "c") is None
    assert not quotas.is_on, "which is not asked of every request"
    assert quotas.produced.record("u", "c", 1_000, 0) == 0
    assert quotas.mutations and not quotas.produced


def test_meters_are_bounded_in_number_and_expire() -> None:
    quota = rate_quota({(("client-id", None),): 10.0})
    for number in range(METERS_MAX + 7):
        quota.record("u", f"c{number}", 1.0, number)
    kept = [one.budget.client_id for one in quota.usages(METERS_MAX)]
    assert len(kept) == METERS_MAX and kept[0] == "c7"
    quota.record("u", "c7", 1.0, EXPIRE_MS)
    assert [one.budget.client_id for one in quota.usages(EXPIRE_MS + METERS_MAX + 7)] == ["c7"]


def test_usages_tell_of_rates_and_throttles() -> None:
    quota = rate_quota({(("user", "u"),): 100.0})
    quota.record("u", "a", 2_000, 0)
    quota.throttled("u", "a", 10_000)
    quota.throttled("unrecorded", "a", 1)
    (usage,) = quota.usages(0)
    assert usage == (Budget("u", ""), 100.0, 200.0, 10_000, 1)
