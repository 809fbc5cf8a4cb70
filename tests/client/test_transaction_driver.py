"""The transactions of one producer, over coordinators that refuse."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.client.conversation import Alone, Connect, Exchange, Pause, drive
from fencepost.client.errors import DeadlineExceeded
from fencepost.client.metadata import Node
from fencepost.client.retry import Backoff, Deadline
from fencepost.client.transactional import TransactionDriver
from fencepost.wire.api.init_producer_id import InitProducerIdResponse
from fencepost.wire.errors import ErrorCode

PAUSES_MAX = 100


def test_what_is_refused_until_the_deadline_is_given_up() -> None:
    """Instead of a pause that ends behind it."""
    pauses: list[float] = []
    view: Any = SimpleNamespace(
        config=SimpleNamespace(two_phase_commit=False),
        finalized_features=SimpleNamespace(level=lambda name: 2),
        backoff=lambda: Backoff(1_000, 1_000),
        deadline=lambda: Deadline(500),
        known_coordinator=lambda key, kind: Node(1, "one", 1),
        forget_coordinator=lambda key, kind: None,
    )

    def take(step: Any) -> Any:
        if isinstance(step, Alone):
            return drive(step.conversation, take)
        if isinstance(step, Connect):
            return SimpleNamespace(version_for=lambda kind, lowest, highest: 4)
        if isinstance(step, Pause):
            assert len(pauses) < PAUSES_MAX, "it never gives up"
            return pauses.append(step.pause_ms)
        assert isinstance(step, Exchange)
        return InitProducerIdResponse(error_code=int(ErrorCode.NOT_COORDINATOR))

    driver = TransactionDriver(view, "id", 60_000)
    said = r"init_transactions did not succeed within 500 ms; last error: .*NOT_COORDINATOR"
    with pytest.raises(DeadlineExceeded, match=said):
        drive(driver.initialize(), take)
    assert pauses == []
