"""What the driver asks the cluster: which partitions there are, where they begin, end, and parted.

`Survey` turns a subscription and bounds into partitions and offsets. It asks and reports; what
follows from the answers is decided in `loss`, `stream_planner` and `reader`. Topic ids and offsets
come from different requests, so `look` takes metadata before and after listing offsets and starts
over when a topic changed its id in between.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fencepost.arrow.conditions import NO_SUCH_TIME, OTHER_OFFSETS, OTHER_TIMESTAMPS
from fencepost.arrow.connections import cluster_for
from fencepost.arrow.errors import BoundsError
from fencepost.arrow.loss import PartitionState
from fencepost.arrow.offsets import Position, StreamOffset
from fencepost.arrow.options import AtOffsets, AtTimestamps, BeforeEnd, Bound, Point, SourceOptions
from fencepost.arrow.planning import OffsetRange
from fencepost.client.cluster import Cluster
from fencepost.client.errors import ClientError, UnknownTopic, UnsupportedApi
from fencepost.client.metadata import TopicInfo, TopicPartition
from fencepost.client.offsets import (
    EARLIEST,
    LATEST,
    EpochEnd,
    list_offsets,
    offsets_for_leader_epochs,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

if TYPE_CHECKING:
    from fencepost.arrow.sizes import ByteLimit

log = logging.getLogger("fencepost.arrow")

# How old the list of partitions may be while a stream is idle.
PARTITIONS_MAX_AGE_S = 1.0
LOOKS_MAX = 10
# Without epochs an end that went backwards is asked for again before it is believed: after a
# leader change the high watermark lags for a moment (KAFKA-7703, SPARK-26267).
SHRUNKEN_END_RETRIES = 3
SHRUNKEN_END_PAUSE_S = 1.0


@dataclass(frozen=True, slots=True)
class Look:
    """All partitions of a subscription: their ends (with the leader's epoch) and topics' ids."""

    topic_ids: Mapping[str, str]
    latest: Mapping[TopicPartition, Position]


class Survey:
    """Questions of one query; keeps a list of partitions for a second, nothing else."""

    def __init__(self, options: SourceOptions, cluster: Cluster | None = None) -> None:
        """Asks through `cluster`, by default through the one that this process keeps."""
        self.options = options
        self._cluster = cluster
        self._partitions: list[TopicPartition] = []
        self._topic_ids: dict[str, str] = {}
        self._listed_at = float("-inf")
        self._existing: set[str] = set()
        self._missing: set[str] = set()
        self._asks_epochs = True
        self._matches: Callable[[str], bool] | None = None
        self._byte_limit: ByteLimit | None = None

    @property
    def cluster(self) -> Cluster:
        return self._cluster or cluster_for(self.options.client)

    # -- partitions ------------------------------------------------------------------------------

    def partitions(self, *, max_age_s: float = 0) -> list[TopicPartition]:
        """The partitions of the subscription that exist; topics that do not are left out."""
        if time.monotonic() - self._listed_at > max_age_s:
            infos = self._topics()
            self._topic_ids = {
                info.name: str(info.topic_id) for info in infos if info.topic_id != Uuid.ZERO
            }
            self._existing = {info.name for info in infos}
            existing = [
                TopicPartition(info.name, number) for info in infos for number in info.partition_ids
            ]
            assigned = self.options.subscription.assigned
            if assigned is not None:
                existing = [partition for partition in existing if partition in assigned]
            self._partitions = sorted(existing)
            self._listed_at = time.monotonic()
        return self._partitions

    def require_partitions(self) -> list[TopicPartition]:
        """As `partitions`, for a new query: UnknownTopic for a topic named in the options that does
        not exist. A pattern may match nothing yet, and of partitions that are assigned those that
        do not exist are left out with a warning, as by Spark's connector."""
        found = self.partitions()
        chosen = self.options.subscription
        assigned = chosen.assigned or ()
        for name in chosen.topics or dict.fromkeys(partition.topic for partition in assigned):
            if name not in self._existing:
                raise UnknownTopic("no such topic", topic=name)
        missing = [partition for partition in assigned if partition not in set(found)]
        if missing:
            log.warning(
                "assign names partitions that do not exist, and are not read: %s",
                ", ".join(map(str, missing)),
            )
        return found

    def _topics(self) -> list[TopicInfo]:
        chosen = self.options.subscription
        if chosen.pattern is not None:
            if self._matches is None:
                from fencepost.arrow.java_regex import matcher  # of an extra of its own

                self._matches = matcher(chosen.pattern)
            infos = self.cluster.describe()
            infos = [info for info in infos if not info.is_internal and self._matches(info.name)]
        else:
            names = chosen.topics or tuple({partition.topic for partition in chosen.assigned or ()})
            infos = self.cluster.describe(sorted(names))
        return [found for info in infos if (found := self._confirmed(info)) is not None]

    def _confirmed(self, info: TopicInfo) -> TopicInfo | None:
        """The topic, asked for again while a broker is not sure; None when it does not exist."""
        if info.error_code == ErrorCode.NONE:
            self._missing.discard(info.name)
            return info
        if info.name in self._missing:
            return None
        try:
            return self.cluster.topic(info.name)
        except UnknownTopic:
            self._missing.add(info.name)
            return None

    # -- ends ------------------------------------------------------------------------------------

    def peek(self) -> Look:
        """A look that may be a second behind in what partitions there are."""
        partitions = self.partitions(max_age_s=PARTITIONS_MAX_AGE_S)
        return Look(dict(self._topic_ids), self._latest(partitions))

    def confirm(self, seen: Look) -> Look | None:
        """What `peek` saw, if partitions and ids are still those: then it is as good as a look."""
        same = self.partitions() == sorted(seen.latest) and self._topic_ids == seen.topic_ids
        return seen if same else None

    def look(self, *, new_query: bool = False) -> Look:
        """Partitions, ids and ends that belong together."""
        for _ in range(LOOKS_MAX):
            partitions = self.require_partitions() if new_query else self.partitions()
            topic_ids = dict(self._topic_ids)
            try:
                latest = self._latest(partitions)
            except UnknownTopic as error:
                log.debug("a partition was deleted while its end offset was read: %s", error)
                continue
            if self.partitions() == partitions and self._topic_ids == topic_ids:
                return Look(topic_ids, latest)
        raise ClientError(f"the topics kept changing while they were looked at {LOOKS_MAX} times")

    def _latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Position]:
        listed = list_offsets(self.cluster, dict.fromkeys(partitions, LATEST))
        return {
            partition: Position(found.offset, self._epoch_of(partition, found.leader_epoch))
            for partition, found in listed.items()
        }

    def _epoch_of(self, partition: TopicPartition, listed_epoch: int) -> int:
        """The epoch in which an end was listed: as told, else as the request claimed it."""
        if listed_epoch >= 0 or not self._asks_epochs:
            return listed_epoch
        known = self.cluster.metadata.topics.get(partition.topic)
        info = known.partitions.get(partition.partition) if known else None
        return info.leader_epoch if info else -1

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where the partitions begin."""
        listed = list_offsets(self.cluster, dict.fromkeys(partitions, EARLIEST))
        return {partition: found.offset for partition, found in listed.items()}

    def limit_bytes(
        self,
        begins: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        limit: int,
    ) -> dict[TopicPartition, int]:
        """Those of `ends` that make a batch of about `limit` bytes; see `sizes`."""
        from fencepost.arrow.sizes import ByteLimit  # fetching, which few planners need

        if self._byte_limit is None or self._byte_limit.limit != limit:
            self._byte_limit = ByteLimit(limit)
        return self._byte_limit.ends(self.cluster, begins, ends)

    # -- bounds of new queries -------------------------------------------------------------------

    def resolve(self, bound: Bound, look: Look, what: str) -> dict[TopicPartition, int]:
        """Offsets for a bound given in options; BoundsError when it does not fit the partitions."""
        if bound is Point.LATEST:
            return {partition: end.offset for partition, end in look.latest.items()}
        if bound is Point.EARLIEST:
            return self.earliest(look.latest)
        if isinstance(bound, AtOffsets):
            _require_match(bound.offsets, look, what)
            earliest = self.earliest(p for p, offset in bound.offsets.items() if offset == EARLIEST)
            ends = {p: look.latest[p].offset for p, o in bound.offsets.items() if o == LATEST}
            return {**bound.offsets, **earliest, **ends}
        if isinstance(bound, BeforeEnd):
            return {
                partition: max(first, look.latest[partition].offset - bound.offsets_count)
                for partition, first in self.earliest(look.latest).items()
            }
        assert isinstance(bound, AtTimestamps)
        return self._resolve_timestamps(bound, look, what)

    def _resolve_timestamps(
        self, bound: AtTimestamps, look: Look, what: str
    ) -> dict[TopicPartition, int]:
        if bound.by_partition is not None:
            _require_match(bound.by_partition, look, what, timestamps=True)
            wanted = dict(bound.by_partition)
        else:
            assert bound.common_ms is not None
            wanted = dict.fromkeys(look.latest, bound.common_ms)
        offsets = {}
        for partition, found in self.since(wanted).items():
            if found < 0 and not bound.or_latest:
                raise BoundsError(
                    NO_SUCH_TIME,
                    f"{partition} has no record at or after timestamp {wanted[partition]}",
                    {
                        "topic": partition.topic,
                        "partition": partition.partition,
                        "timestamp": wanted[partition],
                    },
                )
            end = look.latest[partition].offset
            offsets[partition] = end if found < 0 else found
        return offsets

    def since(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The first offsets whose records are not older than these times, ms since 1970; -1 where
        there is none."""
        listed = list_offsets(self.cluster, times)
        return {partition: found.offset for partition, found in listed.items()}

    def placed(self, ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
        """Ranges of a plan, with where each is to be read; here all of them from brokers."""
        return list(ranges)

    # -- the past --------------------------------------------------------------------------------

    def states(
        self, stored: StreamOffset, look: Look
    ) -> dict[TopicPartition, PartitionState | None]:
        """What has become of the partitions of a stored offset; None for those that are gone."""
        alive = {p: position for p, position in stored.positions.items() if p in look.latest}
        asked = {
            partition: position.leader_epoch
            for partition, position in alive.items()
            if position.leader_epoch >= 0 and self._same_topic(stored, look, partition.topic)
        }
        ends = self._epoch_ends(asked)
        without_epoch = {
            partition: position
            for partition, position in alive.items()
            if partition not in ends and self._same_topic(stored, look, partition.topic)
        }
        latest = self._settled_ends(look, without_epoch)
        earliest = self.earliest(alive)
        states: dict[TopicPartition, PartitionState | None] = dict.fromkeys(stored.positions)
        for partition in alive:
            states[partition] = PartitionState(
                topic_id=look.topic_ids.get(partition.topic, ""),
                earliest=earliest[partition],
                latest=latest[partition].offset,
                leader_epoch=latest[partition].leader_epoch,
                epoch_end=ends.get(partition),
            )
        return states

    def _same_topic(self, stored: StreamOffset, look: Look, topic: str) -> bool:
        ids = {known.get(topic, "") for known in (stored.topic_ids, look.topic_ids)} - {""}
        return len(ids) < 2

    def _epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochEnd]:
        if not epochs or not self._asks_epochs:
            return {}
        try:
            return offsets_for_leader_epochs(self.cluster, epochs)
        except UnsupportedApi as error:
            log.warning("rewritten logs cannot be detected: %s", error)
            self._asks_epochs = False
            return {}

    def _settled_ends(
        self, look: Look, reached: Mapping[TopicPartition, Position]
    ) -> dict[TopicPartition, Position]:
        """Ends, asked for again while some lie before what was `reached`."""
        latest = dict(look.latest)
        for _ in range(SHRUNKEN_END_RETRIES):
            shrunken = [p for p, at in reached.items() if latest[p].offset < at.offset]
            if not shrunken:
                break
            time.sleep(SHRUNKEN_END_PAUSE_S)
            latest.update(self._latest(shrunken))
        return latest


def _require_match(
    given: Mapping[TopicPartition, int], look: Look, what: str, *, timestamps: bool = False
) -> None:
    """Bounds by partition must name exactly the partitions there are. BoundsError."""
    missing = sorted(set(look.latest) - set(given))
    extra = sorted(set(given) - set(look.latest))
    if missing or extra:
        raise BoundsError(
            OTHER_TIMESTAMPS if timestamps else OTHER_OFFSETS,
            f"{what} {'timestamps' if timestamps else 'offsets'} must name exactly the partitions "
            "of the subscription; "
            f"missing: {', '.join(map(str, missing)) or 'none'}; "
            f"unknown: {', '.join(map(str, extra)) or 'none'}",
            {
                **({"position": "start" if what == "starting" else "end"} if timestamps else {}),
                "specifiedPartitions": ", ".join(map(str, sorted(given))),
                "assignedPartitions": ", ".join(map(str, sorted(look.latest))),
            },
        )
