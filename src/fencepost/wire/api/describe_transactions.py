"""DescribeTransactions (key 65): what a coordinator knows of transactional ids (KIP-664).

Sent by the administrator's client, each id to its own coordinator (FindCoordinator), in search of
transactions that hang and keep readers waiting. Which ids there are says ListTransactions. The
caller needs DESCRIBE on the transactional id, and sees of the partitions those of topics it may
describe.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Int16, Int32, Int64, String


class DescribeTransactionsRequest(
    Request["DescribeTransactionsResponse"], api_key=65, versions="0", flexible="0+"
):
    """Asks a coordinator about transactional ids."""

    transactional_ids: list[String] = field(
        doc="The transactional ids; empty describes none of them.",
    )


class TopicData(Struct):
    """A topic that is part of the transaction."""

    topic: String = field(doc="Name of the topic.")
    partitions: list[Int32] = field(doc="Its partitions that are part of the transaction.")


class TransactionState(Struct):
    """A transactional id; all but the id is 0 or empty on an error."""

    error_code: Int16 = field(
        doc=(
            "0; 14 the coordinator is loading, 15 it is shutting down, 16 another broker is it, "
            "42 the id is empty, 53 not authorized, 105 no such id."
        ),
    )
    transactional_id: String = field(doc="The transactional id.")
    transaction_state: String = field(
        doc=(
            "`Empty` before the first transaction, `Ongoing`, `PrepareCommit`, `PrepareAbort`, "
            "`CompleteCommit`, `CompleteAbort`, `PrepareEpochFence` or `Dead`."
        ),
    )
    transaction_timeout_ms: Int32 = field(
        doc="Milliseconds after which the coordinator aborts a transaction that goes on.",
    )
    transaction_start_time_ms: Int64 = field(
        doc="Milliseconds since 1970 at which the transaction began; -1 when there is none.",
    )
    producer_id: Int64 = field(doc="Producer id that goes with the transactional id.")
    producer_epoch: Int16 = field(doc="Its latest epoch: producers with an older one are fenced.")
    topics: list[TopicData] = field(
        doc=(
            "Partitions in the transaction, by topic; while it is being ended, those that still "
            "lack their marker. Empty when nothing goes on."
        ),
    )


class DescribeTransactionsResponse(
    Message, api_key=65, kind="response", versions="0", flexible="0+"
):
    """The transactional ids that were asked for."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    transaction_states: list[TransactionState] = field(
        doc="One entry per transactional id of the request.",
    )
