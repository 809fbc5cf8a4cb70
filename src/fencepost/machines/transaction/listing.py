"""DescribeTransactions and ListTransactions: looking at the transactional ids of one shard."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, NamedTuple

from fencepost.machines.transaction.model import STATE_NAMES
from fencepost.machines.transaction.partition_set import by_topic
from fencepost.machines.transaction.shard import Decision, Shard
from fencepost.wire.api.describe_transactions import (
    TopicData,
    TransactionState as DescribedTransaction,
)
from fencepost.wire.api.list_transactions import TransactionState as ListedTransaction
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.transaction import TransactionState

NO_DURATION: Final = -1
STATES_BY_NAME: Final = {name: state for state, name in STATE_NAMES.items()}


class Filters(NamedTuple):
    """Which transactional ids are listed: those that all of these let through."""

    states: frozenset[TransactionState] | None = None
    """None for all."""
    producer_ids: frozenset[int] | None = None
    duration_ms: int = NO_DURATION
    """Only what began longer ago than that; what is not open began in 1969 (Kafka's -1)."""


def filters_for(
    state_names: Collection[str],
    producer_ids: Collection[int],
    duration_ms: int,
) -> tuple[Filters, list[str]]:
    """The filters of a request, and the names among its states that are none.

    If there are names and none of them is a state, nothing is listed.
    """
    known = [STATES_BY_NAME[name] for name in state_names if name in STATES_BY_NAME]
    unknown = [name for name in state_names if name not in STATES_BY_NAME]
    filters = Filters(
        frozenset(known) if state_names else None,
        frozenset(producer_ids) if producer_ids else None,
        duration_ms,
    )
    return filters, unknown


def list_transactions(shard: Shard, filters: Filters, token: Any, wall_ms: int) -> Decision:
    """A `list[ListedTransaction]` of those that the filters let through."""
    states, producer_ids, duration_ms = filters
    listed = [
        ListedTransaction(
            transactional_id=one.transactional_id,
            producer_id=one.identity.producer_id,
            transaction_state=STATE_NAMES[one.state],
        )
        for one in shard.transactions.values()
        if (states is None or one.state in states)
        and (producer_ids is None or one.identity.producer_id in producer_ids)
        and (duration_ms < 0 or wall_ms - one.start_ms > duration_ms)
    ]
    decision = Decision()
    decision.reply(token, listed)
    return decision


def describe(shard: Shard, transactional_id: str, token: Any) -> Decision:
    """A `DescribedTransaction`, with an error if there is no such id."""
    decision = Decision()
    present = shard.transactions.get(transactional_id)
    if not transactional_id:
        error = ErrorCode.INVALID_REQUEST
    elif present is None:
        error = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    else:
        error = ErrorCode.NONE
    if present is None or error is not ErrorCode.NONE:
        described = DescribedTransaction(transactional_id=transactional_id, error_code=int(error))
    else:
        described = DescribedTransaction(
            transactional_id=transactional_id,
            transaction_state=STATE_NAMES[present.state],
            transaction_timeout_ms=present.timeout_ms,
            transaction_start_time_ms=present.start_ms,
            producer_id=present.identity.producer_id,
            producer_epoch=present.identity.epoch,
            topics=[TopicData(topic=t, partitions=p) for t, p in by_topic(present.partitions)],
        )
    decision.reply(token, described)
    return decision
