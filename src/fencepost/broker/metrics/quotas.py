"""Metrics of client quotas: what the budgets that were used last have come to."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, Final

from fencepost.broker.metrics.sheet import Sheet
from fencepost.machines.quota.clients import Meters

BUDGETS_MAX: Final = 200
"""How many budgets of each quota are exported: those used last. Clients choose their ids."""


def collect_quotas(sheet: Sheet, quotas: Iterable[Meters[Any]], now_ms: int) -> None:
    """Put in what there is now."""
    for quota in quotas:
        for one in deque(quota.usages(now_ms), maxlen=BUDGETS_MAX):
            labels = {"quota": quota.key, "user": one.budget.user}
            labels["client_id"] = one.budget.client_id
            sheet.add("fencepost_quota_limit", one.limit, **labels)
            sheet.add("fencepost_quota_usage", one.value, **labels)
            sheet.add("fencepost_quota_throttles_total", one.throttles, **labels)
            seconds = one.throttled_ms / 1_000
            sheet.add("fencepost_quota_throttled_seconds_total", seconds, **labels)
