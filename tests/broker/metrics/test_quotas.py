"""Metrics of client quotas: of the budgets that were used last, and no more."""

from __future__ import annotations

from fencepost.broker.metrics.quotas import BUDGETS_MAX, collect_quotas
from fencepost.broker.metrics.sheet import Sheet
from fencepost.machines.quota import Limits, MutationQuota, RateQuota, Windows

from .test_sheet import rendered


def test_budgets_are_told_with_their_limits_and_throttles() -> None:
    produced = RateQuota("producer_byte_rate", Windows())
    produced.limits = Limits({(("user", 'a"b'),): 100.0})
    produced.record('a"b', "c", 3_000, 0)
    produced.throttled('a"b', "c", 20_000)
    mutations = MutationQuota("controller_mutation_rate", Windows())
    mutations.limits = Limits({(("client-id", None),): 2.0})
    mutations.charge("u", "c", 5, 0, strict=True)
    sheet = Sheet(0.0)
    collect_quotas(sheet, (produced, mutations), 0)
    told = {
        (
            sample.name,
            *(sample.labels[name] for name in ("quota", "user", "client_id")),
        ): sample.value
        for _, sample in rendered(sheet).samples()
    }
    budget = ("producer_byte_rate", 'a"b', "")
    assert told["fencepost_quota_limit", *budget] == 100
    assert told["fencepost_quota_usage", *budget] == 300
    assert told["fencepost_quota_throttles_total", *budget] == 1
    assert told["fencepost_quota_throttled_seconds_total", *budget] == 20
    assert told["fencepost_quota_usage", "controller_mutation_rate", "", "c"] == 17


def test_clients_that_make_up_ids_make_no_series_without_end() -> None:
    quota = RateQuota("request_percentage", Windows())
    quota.limits = Limits({(("client-id", None),): 2.0})
    for number in range(BUDGETS_MAX + 5):
        quota.record("u", f"c{number}", 1.0, number)
    sheet = Sheet(0.0)
    collect_quotas(sheet, (quota,), BUDGETS_MAX)
    told = [
        sample.labels["client_id"]
        for _, sample in rendered(sheet).samples()
        if sample.name == "fencepost_quota_limit"
    ]
    assert told == [f"c{number}" for number in range(5, BUDGETS_MAX + 5)]
