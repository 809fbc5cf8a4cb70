"""Transactions of tasks before they are decided: which are open, whether they may be decided, and
how those are ended that no driver can decide any more."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from typing import Final

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.errors import ClientError
from fencepost.client.open_transactions import OpenTransaction, Outcome, end_all, outcomes
from fencepost.spark.decisions import Decision
from fencepost.spark.grants import Mandate
from fencepost.spark.sink_errors import TransactionsLostError, some_of
from fencepost.spark.sink_names import TASK_ID

log = logging.getLogger("fencepost.spark")

LISTING_TIMEOUT_MS: Final = 5_000
"""Looking for abandoned transactions must not hold a batch up while a broker is gone."""


def open_transactions(cluster: Cluster, sink: str) -> list[str]:
    """Transactional ids of a sink's tasks that are in a transaction. What cannot be asked for is
    left to a later batch, or to its timeout."""
    try:
        return _listed(cluster, sink)
    except ClientError as error:
        log.warning("cannot look for abandoned transactions of %s: %s", sink, error)
        return []


def abort_undecided(cluster: Cluster, seen: Iterable[str], decision: Decision | None) -> None:
    """End transactions that no driver can decide any more, so that readers get past them."""
    decided = {one.transactional_id for one in decision.transactions} if decision else set()
    for name in seen:
        if name in decided:
            continue
        try:
            Admin(cluster).force_terminate(name)
        except ClientError as error:
            log.warning("cannot abort the abandoned transaction of %s: %s", name, error)
        else:
            log.info("aborted the abandoned transaction of %s", name)


def require_open(cluster: Cluster, sink: str, written: Sequence[OpenTransaction]) -> None:
    """TransactionsLostError unless all transactions of a batch are open; else all are aborted."""
    found = outcomes(cluster, written)
    lost = [one for one, outcome in found.items() if outcome is not Outcome.OPEN]
    if not lost:
        return
    left = [one for one, outcome in found.items() if outcome is Outcome.OPEN]
    end_all(cluster, left, commit=False)
    names = some_of([one.transactional_id for one in lost])
    raise TransactionsLostError(
        "TRANSACTIONS_LOST",
        f"{len(lost)} of {len(written)} transactions of the batch were ended before it was "
        f"decided ({names}): a transaction took longer than transaction.timeout.ms, or another "
        f"driver of the sink {sink} is running. All of the batch is aborted and will be "
        "written again when the query is started again",
        {
            "sink": sink,
            "transactions": len(written),
            "lostTransactions": len(lost),
            "transactionalIds": names,
        },
    )


def require_time(
    cluster: Cluster, mandate: Mandate, written: Sequence[OpenTransaction], now_s: float
) -> None:
    """Refuse to decide where a transaction could time out before its end is asked for: others
    would be committed then. No transaction is older than its mandate, by one machine's clock;
    where the mandate is too old, coordinators tell by theirs which transactions are.

    TransactionsLostError, with all of the batch aborted.
    """
    margin_ms = min(2 * cluster.config.api_timeout_ms, mandate.timeout_ms // 4)
    oldest_ms = mandate.timeout_ms - margin_ms
    if (now_s - mandate.opened_s) * 1000 < oldest_ms:
        return
    names = sorted(one.transactional_id for one in written)
    try:
        listed = set(_listed(cluster, mandate.sink, older_than_ms=oldest_ms))
        late, why = [name for name in names if name in listed], "they"
    except ClientError as error:
        late, why = names, f"coordinators do not tell their ages ({error}), and they"
    if not late:
        return
    end_all(cluster, written, commit=False)
    raise TransactionsLostError(
        "DECISION_TOO_LATE",
        f"{len(late)} of {len(names)} transactions of the batch ({some_of(late)}) could time "
        f"out while it is committed: {why} may be older than {oldest_ms} ms, which is "
        f"transaction.timeout.ms={mandate.timeout_ms} less {margin_ms} ms to commit in. All of "
        "the batch is aborted. Make batches smaller, or kafka.transaction.timeout.ms longer",
        {
            "sink": mandate.sink,
            "transactions": len(names),
            "lateTransactions": len(late),
            "transactionalIds": some_of(late),
            "timeoutMs": mandate.timeout_ms,
            "marginMs": margin_ms,
        },
    )


def _listed(cluster: Cluster, sink: str, older_than_ms: int | None = None) -> list[str]:
    listed = Admin(cluster).list_transactions(
        states=["Ongoing"],
        pattern=re.escape(sink) + TASK_ID,
        duration_ms=older_than_ms,
        timeout_ms=LISTING_TIMEOUT_MS,
    )
    return [one.transactional_id for one in listed]
