"""Letting a sink forget on purpose, where it refuses to go on for what it knows or should know."""

from __future__ import annotations

from dataclasses import replace

from fencepost.client.cluster import Cluster
from fencepost.client.open_transactions import Outcome, end_all, outcomes
from fencepost.spark.decisions import read_decision, record_decision, revoked_after
from fencepost.spark.sink_errors import ExactlyOnceError
from fencepost.spark.sinks import finish
from fencepost.spark.takeover import take_over


def forget_batch(cluster: Cluster, sink: str) -> None:
    """Fence the sink's driver, and let the next one begin after a decision that was lost
    (DecisionLostError), or write a batch again as a whole that was committed in part
    (IncompleteBatchError).

    ExactlyOnceError NOTHING_TO_FORGET where the last batch is decided and whole. ClientError.
    """
    driver, _ = take_over(cluster, sink, None)
    decision = read_decision(cluster, sink)
    if decision is None:
        return  # InitProducerId has cleared what was left of the lost decision
    found = outcomes(cluster, decision.transactions)
    if Outcome.ABORTED not in found.values():
        raise ExactlyOnceError(
            "NOTHING_TO_FORGET",
            f"batch {decision.batch} of {sink} is decided, and none of it was lost",
            {"sink": sink, "batch": decision.batch},
        )
    left = [one for one, outcome in found.items() if outcome is Outcome.OPEN]
    end_all(cluster, left, commit=False)
    record_decision(cluster, sink, driver, revoked_after(decision))


def forget_keys(cluster: Cluster, sink: str, before_day: int) -> int:
    """Fence the sink's driver, and forget the keys that were last decided before a day (since
    1970): they would be written again. How many those are. ExactlyOnceError, ClientError."""
    driver, _ = take_over(cluster, sink, None)
    decision = read_decision(cluster, sink)
    if decision is None:
        return 0
    finish(cluster, sink, decision)
    kept = decision.memory.since(before_day)
    gone = len(decision.memory.entries) - len(kept.entries)
    if gone:
        record_decision(
            cluster, sink, driver, replace(decision, number=decision.number + 1, memory=kept)
        )
    return gone
