"""A limit on the bytes of a micro-batch, by samples of what it is about to read.

No API tells the bytes between two offsets. So the driver asks each leader for some records where
the batch would begin, and again where it would end by what those took, and measures them as they
are stored: compressed, and with the offsets that have no record. A partition of which no sample
came is taken to be like others of its topic, or like what was seen of it before. What lies between
two samples may be of another size: the limit is one to aim at.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from fencepost.arrow.planning import limit_bytes
from fencepost.batch.header import read_header
from fencepost.client.cluster import Cluster
from fencepost.client.errors import ClientError
from fencepost.client.fetch_core import FetchLimits, FetchPosition
from fencepost.client.fetcher import RECORD_BYTES_GUESS, Fetcher
from fencepost.client.metadata import TopicPartition

log = logging.getLogger("fencepost.arrow")

SAMPLE_BYTES: Final = 8 * 1024 * 1024
"""Of one leader's answer."""
PARTITION_SAMPLE_BYTES: Final = 256 * 1024
SAMPLED_MAX: Final = 200
"""Partitions asked about at once: those first of which nothing is known."""
SAMPLE_SHARE: Final = 8
"""A sample is at most this part of the limit, so that it costs little beside the batch."""

Offsets = Mapping[TopicPartition, int]


class ByteLimit:
    """Keeps the micro-batches of one query to about so many bytes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        most_bytes = max(1, min(SAMPLE_BYTES, limit // SAMPLE_SHARE))
        self._limits = FetchLimits(most_bytes, min(PARTITION_SAMPLE_BYTES, most_bytes))
        self._seen: dict[TopicPartition, float] = {}  # bytes per offset

    def ends(self, cluster: Cluster, begins: Offsets, ends: Offsets) -> dict[TopicPartition, int]:
        """Those of `ends` that make a batch within the limit; see `planning.limit_bytes`.

        A sample that cannot be had is no reason to stop: the tasks that read the records will tell.
        """
        waiting = {p: ends[p] - begin for p, begin in begins.items() if ends[p] > begin}
        reached = self._sample(cluster, {partition: begins[partition] for partition in waiting})
        per_offset = self._per_offset(waiting)
        first = limit_bytes(begins, ends, per_offset, self.limit)
        beyond = {p: first[p] - 1 for p in waiting if first[p] > reached.get(p, 0)}
        if not beyond:
            return first
        self._sample(cluster, beyond)
        at_end = self._per_offset(waiting)
        mean = {partition: (per_offset[partition] + at_end[partition]) / 2 for partition in waiting}
        self._seen.update({partition: mean[partition] for partition in self._seen.keys() & mean})
        return limit_bytes(begins, first, mean, self.limit)

    def _sample(self, cluster: Cluster, offsets: Offsets) -> dict[TopicPartition, int]:
        """Note what records at these offsets take; to which offset they were seen."""
        # Those that are not known yet come first: an answer may have no room for others.
        largest = sorted(offsets, key=lambda one: (one in self._seen, one))[:SAMPLED_MAX]
        positions = {partition: FetchPosition(offsets[partition]) for partition in largest}
        reached = {}
        try:
            for one in Fetcher(cluster).fetch(positions, max_wait_ms=0, limits=self._limits):
                if len(one.records):
                    first = read_header(one.records).base_offset
                    self._seen[one.partition] = len(one.records) / (one.next_offset - first)
                    reached[one.partition] = one.next_offset
        except ClientError as error:
            log.debug("sizes of records cannot be sampled: %s", error)
        return reached

    def _per_offset(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, float]:
        by_topic: dict[str, list[float]] = {}
        for partition in partitions:
            if partition in self._seen:
                by_topic.setdefault(partition.topic, []).append(self._seen[partition])
        usual = {topic: sum(seen) / len(seen) for topic, seen in by_topic.items()}
        return {
            partition: self._seen.get(partition, usual.get(partition.topic, RECORD_BYTES_GUESS))
            for partition in partitions
        }
