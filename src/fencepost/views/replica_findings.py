"""What is to be said of each replica of a partition, and what was cut off its log between looks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from fencepost.client.lineage import Divergence, ReplicaLineage, find_divergence
from fencepost.client.metadata import PartitionInfo
from fencepost.views.epochs import reference_of
from fencepost.views.times import iso_time
from fencepost.views.view import View, count

FindingKind = Literal["leads", "same", "behind", "diverges", "empty", "unknown"]


class ReplicaFinding(View, frozen=True):
    """A sentence about one replica's log, compared with the leader's."""

    broker: int
    kind: FindingKind
    text: str


class Truncation(View, frozen=True):
    """Records that a replica's log had at a look (ms since 1970) and did not have at the next: from
    `offset` up to `former_end`."""

    columns: ClassVar = {
        "seen": "seen",
        "broker": "broker",
        "offset": "offset",
        "former end": "former_end",
        "records": "records",
    }

    seen_at_ms: int
    broker: int
    offset: int
    former_end: int

    @property
    def seen(self) -> str:
        return iso_time(self.seen_at_ms)

    @property
    def records(self) -> int:
        return self.former_end - self.offset

    @property
    def sentence(self) -> str:
        return (
            f"{self.seen}: broker {self.broker} had cut its log at offset {self.offset}; before it"
            f" had {count(self.records, 'more offset')}, up to {self.former_end}"
        )


def truncation_between(
    before: ReplicaLineage, after: ReplicaLineage, seen_at_ms: int
) -> Truncation | None:
    """What was cut off a replica's log; None if it has all that it had, but for records that
    retention deleted. Both are lineages that were read without an error."""
    found = find_divergence(after.spans, before.spans)
    if found is None:
        return None
    return Truncation(seen_at_ms, after.broker_id, found.offset, before.end_offset)


def replica_findings(info: PartitionInfo, found: Sequence[ReplicaLineage]) -> list[ReplicaFinding]:
    """A sentence for each replica, in the order of the assignment."""
    reference = reference_of(found, info.leader_id)
    return [_finding(info, one, reference) for one in found]


def _finding(
    info: PartitionInfo, one: ReplicaLineage, reference: ReplicaLineage | None
) -> ReplicaFinding:
    broker = one.broker_id
    if one.error is not None or reference is None:
        return ReplicaFinding(broker, "unknown", f"broker {broker} does not tell: {one.error}")
    if one is reference:
        return ReplicaFinding(broker, "leads", f"{_leading(info, broker)}: {_contents(one)}")
    parted = find_divergence(reference.spans, one.spans)
    if parted is not None:
        return ReplicaFinding(broker, "diverges", _diverging(info, one, parted, reference))
    state = "in sync" if broker in info.isr else "out of sync"
    if not one.spans and reference.end_offset > 0:
        return ReplicaFinding(broker, "empty", f"broker {broker}, {state}, has no records")
    end_offset = max(one.end_offset, 0)
    lacking = reference.end_offset - end_offset
    if lacking > 0:
        text = f"broker {broker}, {state}, has the same log up to {end_offset} and lacks the"
        return ReplicaFinding(broker, "behind", f"{text} last {count(lacking, 'offset')}")
    return ReplicaFinding(
        broker, "same", f"broker {broker}, {state}, has the same log up to {end_offset}"
    )


def _leading(info: PartitionInfo, broker: int) -> str:
    if broker == info.leader_id:
        known = f" in epoch {info.leader_epoch}" if info.leader_epoch >= 0 else ""
        return f"broker {broker} leads{known}"
    return f"no leader answers; broker {broker}, whose log is the newest, is compared with"


def _contents(one: ReplicaLineage) -> str:
    if not one.spans:
        return "no records"
    epochs = count(len(one.spans), "epoch")
    older = ", and older ones that are not shown" if one.has_older else ""
    return f"offsets {one.start_offset} to {one.end_offset} in {epochs}{older}"


def _diverging(
    info: PartitionInfo, one: ReplicaLineage, parted: Divergence, reference: ReplicaLineage
) -> str:
    offset = parted.offset
    epochs = [span.leader_epoch for span in one.spans if span.end_offset > offset]
    named = f"epoch {epochs[0]}" if len(epochs) == 1 else f"epochs {epochs[0]} to {epochs[-1]}"
    leads = reference.broker_id == info.leader_id
    other = f"{'leader' if leads else 'broker'} {reference.broker_id}"
    text = (
        f"broker {one.broker_id} has {count(one.end_offset - offset, 'record')} of {named}"
        f" (offsets {offset} to {one.end_offset}) that {other} does not have"
    )
    return f"{text}; it cuts them when it follows" if leads else text
