"""The text of a prepared transaction is that of Kafka's `PreparedTxnState`."""

from __future__ import annotations

import pytest

from fencepost.client.protocol.prepared import PreparedTxnState


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (PreparedTxnState(), ""),
        (PreparedTxnState(0, 0), "0:0"),
        (PreparedTxnState(2**63 - 1, 32_767), "9223372036854775807:32767"),
    ],
)
def test_states_are_written_and_read(state: PreparedTxnState, text: str) -> None:
    assert str(state) == text and PreparedTxnState.parse(text) == state
    assert state.has_transaction is bool(text)


@pytest.mark.parametrize(
    "text", [":", "7", "7:", ":7", "7:8:9", "a:1", "1:-1", "-1:-1", "1:32768", f"{2**63}:0"]
)
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="PRODUCER_ID:EPOCH"):
        PreparedTxnState.parse(text)
