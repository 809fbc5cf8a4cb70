"""What changes of partitions cost their clients (KIP-599): `controller_mutation_rate`.

The active controller charges each topic of a request that is fine otherwise for the partitions that
are created or deleted. From these versions on a client in debt is refused,
THROTTLING_QUOTA_EXCEEDED topic by topic, and nothing happens; older requests are served and their
clients throttled afterwards. Requests of this node itself cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from fencepost.machines.quota import MutationQuota
from fencepost.runtime.requests.context import RequestContext

STRICT_FROM: Final[Mapping[str, int]] = {
    "CreateTopics": 6,
    "CreatePartitions": 3,
    "DeleteTopics": 5,
}
"""The APIs whose requests are charged, with the versions whose clients know the error."""


class MutationCharge:
    """Charges the client of one request; a `machines.controller.decision.Charge`."""

    def __init__(
        self,
        quota: MutationQuota,
        context: RequestContext,
        now_ms: Callable[[], int],
        *,
        is_strict: bool,
    ) -> None:
        self._quota = quota
        self._context = context
        self._is_strict = is_strict
        self._now_ms = now_ms
        self._until_ms = 0

    def __call__(self, partitions: int) -> bool:
        """Whether so many partitions may change now."""
        context, now_ms = self._context, self._now_ms()
        throttle_ms = self._quota.charge(
            context.principal.name,
            context.client_id or "",
            partitions,
            now_ms,
            strict=self._is_strict,
        )
        if throttle_ms:
            self._until_ms = now_ms + throttle_ms
        return not (throttle_ms and self._is_strict)

    def throttle(self) -> None:
        """The answer is known: its client is throttled, if it has been charged too much."""
        left_ms = self._until_ms - self._now_ms()
        if left_ms > 0:
            context = self._context
            context.throttle(left_ms)
            self._quota.throttled(context.principal.name, context.client_id or "", left_ms)
