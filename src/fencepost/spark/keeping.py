"""Keeping what resting sinks have decided for longer than brokers keep offsets.

Brokers forget a decision `offsets.retention.minutes` after it was committed, and a keyed write that
is repeated then would be written again. So the last decision of a sink that rests is committed
again, under the next number, as its driver would: in a transaction of a producer that has fenced
the driver before it. A sink whose last decision is young is left alone, since its driver may be at
work; a driver that begins at the same moment is fenced, and its query started again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fencepost.client.cluster import Cluster
from fencepost.client.errors import ClientError
from fencepost.spark.decisions import Decision, read_decision, record_decision
from fencepost.spark.sink_errors import ExactlyOnceError
from fencepost.spark.sinks import known_sinks
from fencepost.spark.takeover import take_over


@dataclass(frozen=True, slots=True)
class RestingSink:
    """A sink that remembers keys and rests; `problem` says why it could not be kept."""

    name: str
    keys: int
    problem: str = ""


def keep_sinks(cluster: Cluster, rested_ms: int, now_ms: int) -> list[RestingSink]:
    """Commit the last decisions of sinks again that remember keys and have decided nothing for
    `rested_ms`; those sinks. ClientError where they cannot be listed."""
    found = []
    for sink in known_sinks(cluster):
        decision = sink.decision
        if decision is None or not decision.known().entries:
            continue
        if now_ms - decision.time_ms < rested_ms:
            continue
        problem = "" if sink.condition == "finished" else f"is {sink.condition}"
        if not decision.time_ms:  # of a version before: its driver may be at work
            problem = "does not say when it decided last"
        try:
            if not problem:
                _keep(cluster, sink.name, decision)
        except (ClientError, ExactlyOnceError) as error:
            problem = str(error)
        found.append(RestingSink(sink.name, len(decision.known().entries), problem))
    return found


def _keep(cluster: Cluster, name: str, seen: Decision) -> None:
    driver, _ = take_over(cluster, name, None)
    decision = read_decision(cluster, name)
    if decision is None or decision.number != seen.number:
        return  # the driver that was fenced had decided meanwhile, or brokers forgot just now
    record_decision(cluster, name, driver, replace(decision, number=decision.number + 1))
