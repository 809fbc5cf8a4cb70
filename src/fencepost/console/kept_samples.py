"""Samples that are kept to compare later ones with: dense of late, sparse of long ago."""

from __future__ import annotations

import threading
from typing import Final

from fencepost.console.sample import Sample

KEPT: Final = 48
KEPT_LEAST: Final = 4
PARTITIONS_KEPT: Final = 1_000_000
"""Partitions in all samples together: of a cluster of 100,000 ten samples are kept. Where all of
them change from sample to sample, each takes about 300 bytes."""

AGES_S: Final[dict[str, int]] = {
    "1m": 60,
    "5m": 300,
    "15m": 900,
    "1h": 3_600,
    "6h": 21_600,
    "1d": 86_400,
}
START: Final = "start"
"""The first sample of all."""


class KeptSamples:
    """At most KEPT samples, fewer of a large cluster, the first and the newest among them. Any
    thread may use it.

    Of many the one goes whose neighbours are closest to each other for their age, so that the gaps
    between those that stay grow with age. Topics that did not change are the same objects in all of
    them (`sampling.sharing_topics`)."""

    def __init__(self) -> None:
        self._samples: list[Sample] = []
        self._lock = threading.Lock()

    def keep(self, sample: Sample) -> None:
        """Keep a sample that is newer than all before."""
        with self._lock:
            if self._samples and self._samples[-1].taken_at_ms >= sample.taken_at_ms:
                return
            self._samples.append(sample)
            partitions = sum(len(topic.partitions) for topic in sample.topics.values())
            fitting = PARTITIONS_KEPT // max(1, partitions)
            while len(self._samples) > max(KEPT_LEAST, min(KEPT, fitting)):
                del self._samples[self._least_missed(sample.taken_at_ms)]

    def _least_missed(self, now_ms: int) -> int:
        def gap(place: int) -> float:
            before, after = self._samples[place - 1], self._samples[place + 1]
            age_ms = now_ms - before.taken_at_ms
            return (after.taken_at_ms - before.taken_at_ms) / age_ms

        return min(range(1, len(self._samples) - 1), key=gap)

    def since(self, wanted: str, now_ms: int) -> Sample | None:
        """The sample that is closest to this age (of AGES_S, or START); None without any."""
        with self._lock:
            if not self._samples:
                return None
            if wanted == START:
                return self._samples[0]
            at_ms = now_ms - AGES_S[wanted] * 1000
            return min(self._samples, key=lambda one: abs(one.taken_at_ms - at_ms))

    @property
    def times_ms(self) -> list[int]:
        """When the samples were taken, oldest first."""
        with self._lock:
            return [one.taken_at_ms for one in self._samples]
