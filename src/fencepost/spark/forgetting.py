"""Letting a sink forget on purpose, where it refuses to go on for what it knows or should know.

A driver is fenced for it, so first it is made certain that it is one: any producer may have the
transactional id that is given. A sink has a decision, or tasks, whose ids coordinators know for as
long as they know that of the driver.
"""

from __future__ import annotations

from dataclasses import replace

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.open_transactions import OpenTransaction, Outcome, end_all, outcomes
from fencepost.spark.decisions import Decision, read_decision, record_decision, revoked_after
from fencepost.spark.sink_errors import ExactlyOnceError
from fencepost.spark.sinks import finish, has_tasks
from fencepost.spark.takeover import take_over


def forget_batch(cluster: Cluster, sink: str) -> None:
    """Fence the sink's driver, and let the next one begin after a decision that was lost
    (DecisionLostError), or write a batch again as a whole that was committed in part
    (IncompleteBatchError).

    ExactlyOnceError NOTHING_TO_FORGET where the last batch is decided and whole, NOT_A_SINK for
    another producer's transactional id. ClientError.
    """
    _require_lost(cluster, sink, _require_sink(cluster, sink))  # before a driver is fenced for it
    driver, _ = take_over(cluster, sink, None)
    decision = read_decision(cluster, sink)
    if decision is None:
        return  # InitProducerId has cleared what was left of the lost decision
    left = _require_lost(cluster, sink, decision)
    end_all(cluster, left, commit=False)
    record_decision(cluster, sink, driver, revoked_after(decision))


def _require_sink(cluster: Cluster, sink: str) -> Decision | None:
    """The last decision of a sink. ExactlyOnceError for what is no sink, DecisionError for a group
    of that name with other offsets; ClientError for a name that no coordinator knows."""
    Admin(cluster).describe_transaction(sink)
    decision = read_decision(cluster, sink)
    if decision is None and not has_tasks(cluster, sink):
        raise ExactlyOnceError(
            "NOT_A_SINK",
            f"{sink} is a transactional id, and nothing shows that it is an exactly-once sink's: "
            "it has no decision, and coordinators know of no task of it. To let it forget would "
            "fence its producer. If it is a sink whose group was deleted when it had rested for "
            "long, write with another transactionalIdPrefix",
            {"sink": sink},
        )
    return decision


def _require_lost(cluster: Cluster, sink: str, decision: Decision | None) -> list[OpenTransaction]:
    """What is open of a batch of which a part was aborted."""
    if decision is None:
        return []
    found = outcomes(cluster, decision.transactions)
    if Outcome.ABORTED not in found.values():
        raise ExactlyOnceError(
            "NOTHING_TO_FORGET",
            f"batch {decision.batch} of {sink} is decided, and none of it was lost",
            {"sink": sink, "batch": decision.batch},
        )
    return [one for one, outcome in found.items() if outcome is Outcome.OPEN]


def forget_keys(cluster: Cluster, sink: str, before_day: int) -> int:
    """Fence the sink's driver, and forget the keys that were last decided before a day (since
    1970): they would be written again. How many those are. ExactlyOnceError, ClientError."""
    _require_sink(cluster, sink)
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
