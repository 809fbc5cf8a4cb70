"""Transactions as the commands about them print them with --json."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fencepost.client.stable_offset import OpenTransaction
    from fencepost.client.transaction_admin import TransactionDescription


def as_json(found: TransactionDescription) -> dict[str, Any]:
    """A description for --json."""
    return {
        "transactional_id": found.transactional_id,
        "coordinator": found.coordinator_id,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "state": found.state,
        "timeout_ms": found.timeout_ms,
        "start_ms": found.start_ms if found.start_ms >= 0 else None,
        "partitions": [f"{topic}:{number}" for topic, number in found.partitions],
    }


def open_as_json(one: OpenTransaction) -> dict[str, Any]:
    """An open transaction for --json."""
    return {
        "partition": f"{one.partition.topic}:{one.partition.partition}",
        **one.producer._asdict(),
        "first_timestamp_ms": one.first_timestamp_ms if one.first_timestamp_ms >= 0 else None,
        "verdict": one.verdict.value,
        "transaction": as_json(one.known) if one.known is not None else None,
    }
