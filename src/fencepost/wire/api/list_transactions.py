"""ListTransactions (key 66): the transactional ids a broker coordinates (KIP-664).

Sent by the administrator's client; to list all of a cluster's, ask every broker. Filters narrow
the list together: an entry must match each of them. v1 filters by age (KIP-994), v2 by a pattern
of the id (KIP-1152); the response has not changed. The caller sees ids it may DESCRIBE.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Int16, Int32, Int64, String


class ListTransactionsRequest(
    Request["ListTransactionsResponse"], api_key=66, versions="0-2", flexible="0+"
):
    """Asks one broker for its transactional ids."""

    state_filters: list[String] = field(
        doc=(
            "States to list, spelled as in the response; empty for all. Unknown ones match "
            "nothing and are named in the response."
        ),
    )
    producer_id_filters: list[Int64] = field(doc="Producer ids to list; empty for all.")
    duration_filter: Int64 = field(
        "1+",
        default=-1,
        doc=(
            "Milliseconds: lists what began longer ago than that. Below 0 lists all, as v0 does, "
            "which cannot filter by age."
        ),
    )
    transactional_id_pattern: String | None = field(
        "2+",
        default=None,
        doc=(
            "Regular expression (RE2) the whole transactional id must match, error 128 if it is "
            "none; null or empty for all. Older versions cannot filter by id."
        ),
    )


class TransactionState(Struct):
    """A transactional id."""

    transactional_id: String = field(doc="The transactional id.")
    producer_id: Int64 = field(doc="Producer id that goes with it.")
    transaction_state: String = field(
        doc=(
            "`Empty` before the first transaction, `Ongoing`, `PrepareCommit`, `PrepareAbort`, "
            "`CompleteCommit`, `CompleteAbort` or `PrepareEpochFence`; `Dead` is not listed."
        ),
    )


class ListTransactionsResponse(Message, api_key=66, kind="response", versions="0-2", flexible="0+"):
    """The transactional ids of the broker that answers."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    error_code: Int16 = field(
        doc=(
            "0; 14 the coordinator is loading, 15 it is shutting down, 128 no regular expression "
            "(v2+). On an error nothing is listed."
        ),
    )
    unknown_state_filters: list[String] = field(
        doc="States of the request that this broker does not know.",
    )
    transaction_states: list[TransactionState] = field(doc="What matches all filters.")
