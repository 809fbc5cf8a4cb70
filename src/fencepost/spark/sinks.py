"""The exactly-once sinks that a cluster remembers, and how what they have decided is finished.

To finish a decided batch is to commit those of its transactions that are still open. That needs no
right to decide and fences no producer: the decision is durable, an EndTxn that is sent twice counts
once, and a driver that is about to do the same is not disturbed. To abort what was not decided is
another matter: only a driver that has taken the sink over may (`exactly_once.SinkDriver.open`).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.errors import ClientError
from fencepost.client.groups import GroupAdmin
from fencepost.client.open_transactions import OpenTransaction, Outcome, end_all, outcomes
from fencepost.spark.decisions import Decision, read_decision
from fencepost.spark.sink_errors import DecisionError, ExactlyOnceError
from fencepost.spark.sink_names import TASK_ID, UNNAMED
from fencepost.spark.undecided import LISTING_TIMEOUT_MS

log = logging.getLogger("fencepost.spark")


@dataclass(frozen=True, slots=True)
class Sink:
    """A sink, its last decision, and what became of that one's transactions."""

    name: str
    decision: Decision | None
    found: Mapping[OpenTransaction, Outcome]
    undecided: tuple[str, ...]
    """Transactional ids of tasks that are in a transaction which no decision names."""

    def count(self, outcome: Outcome) -> int:
        """How many of the decided transactions have come to that."""
        return sum(one is outcome for one in self.found.values())

    @property
    def condition(self) -> str:
        """What is to be done: nothing (`finished`), `finish` for a batch that was decided, nothing
        that would be right for one that timed out in part (`incomplete`); one that timed out as a
        whole (`timed out`) is written again by the next start."""
        if self.count(Outcome.ABORTED):
            lost = self.count(Outcome.OPEN) + self.count(Outcome.ABORTED) == len(self.found)
            return "timed out" if lost else "incomplete"
        if self.count(Outcome.OPEN):
            return "decided"
        return "undecided" if self.undecided else "finished"


def known_sinks(cluster: Cluster) -> list[Sink]:
    """All sinks that have a decision or an open transaction, by name, as far as the principal may
    see groups and transactional ids (Describe). ClientError."""
    ongoing = _ongoing(cluster, ".+")
    groups = [
        group.group_id for group in GroupAdmin(cluster).list_groups() if not group.protocol_type
    ]
    found = (_known_sink(cluster, name, ongoing) for name in sorted({*groups, *ongoing}))
    return [sink for sink in found if sink is not None]


def _known_sink(cluster: Cluster, name: str, ongoing: Mapping[str, list[str]]) -> Sink | None:
    try:
        decision = read_decision(cluster, name)
    except DecisionError:
        if name not in ongoing:
            return None  # a group that is no sink, or holds a further part of a decision
        decision = None
    if decision is None and name not in ongoing:
        return None
    decided = decision.transactions if decision is not None else ()
    names = {one.transactional_id for one in decided}
    undecided = [one for one in ongoing.get(name, ()) if one not in names]
    return Sink(name, decision, outcomes(cluster, decided), tuple(undecided))


def find_sink(cluster: Cluster, name: str) -> Sink | None:
    """One of them. DecisionError, ClientError."""
    read_decision(cluster, name)
    return _known_sink(cluster, name, _ongoing(cluster, re.escape(name)))


def has_tasks(cluster: Cluster, name: str) -> bool:
    """Whether coordinators know transactional ids of the sink's tasks, in whatever state.
    ClientError."""
    return bool(Admin(cluster).list_transactions(pattern=re.escape(name) + TASK_ID))


def _ongoing(
    cluster: Cluster, pattern: str, timeout_ms: float | None = None
) -> dict[str, list[str]]:
    """Transactional ids of tasks in a transaction, by sink; `pattern` is for the sinks' names."""
    listed = Admin(cluster).list_transactions(
        states=["Ongoing"], pattern=pattern + TASK_ID, timeout_ms=timeout_ms
    )
    found: dict[str, list[str]] = {}
    for one in listed:
        name = re.sub(TASK_ID + "$", "", one.transactional_id)
        found.setdefault(name, []).append(one.transactional_id)
    return found


def finish(cluster: Cluster, sink: str, decision: Decision) -> dict[OpenTransaction, Outcome]:
    """Commit what is open of a decided batch, unless a part of it was aborted; what became of all
    of it. ClientError."""
    found = outcomes(cluster, decision.transactions)
    left = [one for one, outcome in found.items() if outcome is Outcome.OPEN]
    if left and Outcome.ABORTED not in found.values():
        log.warning("finishing batch %d of %s: %d", decision.batch, sink, len(left))
        end_all(cluster, left, commit=True)
        found |= outcomes(cluster, left)
    return found


def finish_unnamed(cluster: Cluster) -> None:
    """Finish what batch writes without a name have decided before their drivers died. No driver
    will ever write under their names again, so the next batch write without a name does it. What
    cannot be finished is logged; a write that is not decided may still be going on."""
    try:
        for name in _ongoing(cluster, UNNAMED, LISTING_TIMEOUT_MS):
            decision = read_decision(cluster, name)
            if decision is not None:
                finish(cluster, name, decision)
    except (ClientError, ExactlyOnceError) as error:
        log.warning("cannot finish abandoned writes: %s", error)
