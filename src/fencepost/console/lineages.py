"""The lineages of replicas as former looks found them: what was cut off between two looks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from fencepost.client.lineage import ReplicaLineage
from fencepost.views.replica_findings import Truncation, truncation_between
from fencepost.wire.types import Uuid

PARTITIONS_KEPT: Final = 200
TRUNCATIONS_KEPT: Final = 50


@dataclass(slots=True)
class Seen:
    """What was seen of a partition: each replica's newest lineage, and truncations in order."""

    looked_at_ms: int | None = None
    lineages: dict[int, ReplicaLineage] = field(default_factory=dict)
    truncations: tuple[Truncation, ...] = ()


class LineageMemory:
    """The lineages of the partitions that were looked at last, PARTITIONS_KEPT of them."""

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[Uuid, str, int], Seen] = OrderedDict()

    def note(
        self,
        topic_id: Uuid,
        topic: str,
        partition: int,
        found: Sequence[ReplicaLineage],
        now_ms: int,
    ) -> Seen:
        """Take in a look at a partition's replicas; what was seen of it, and `looked_at_ms` of the
        look before. A replica that did not answer stays as it was seen last."""
        key = topic_id, topic, partition
        before = self._seen.pop(key, Seen())
        truncations = list(before.truncations)
        lineages = dict(before.lineages)
        for one in found:
            if one.error is not None:
                continue
            known = lineages.get(one.broker_id)
            cut = None if known is None else truncation_between(known, one, now_ms)
            if cut is not None:
                truncations.append(cut)
            lineages[one.broker_id] = one
        kept = tuple(truncations[-TRUNCATIONS_KEPT:])
        self._seen[key] = Seen(now_ms, lineages, kept)
        while len(self._seen) > PARTITIONS_KEPT:
            self._seen.popitem(last=False)
        return Seen(before.looked_at_ms, lineages, kept)
