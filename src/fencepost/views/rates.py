"""How many records were written, read or archived, and how fast."""

from __future__ import annotations

from typing import ClassVar

from fencepost.views.view import View


class WrittenRecords(View, frozen=True):
    """How many records of a topic were acknowledged."""

    topic: str
    records: int


class ProduceRates(View, frozen=True):
    """How fast records were acknowledged; percentiles are of their latencies."""

    records: int
    records_per_s: float
    mib_per_s: float
    avg_latency_ms: float
    max_latency_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    p99_9_ms: float


class ConsumeRates(View, frozen=True):
    """How fast records were read; `start_ms` and `end_ms` are since 1970. The rates named `fetch`
    leave out the time of rebalances."""

    start_ms: int
    end_ms: int
    size_bytes: int
    records: int
    mib_per_s: float
    records_per_s: float
    rebalance_ms: float
    fetch_ms: float
    fetch_mib_per_s: float
    fetch_records_per_s: float


class EndToEndLatencies(View, frozen=True):
    """How long records took from the producer to the consumer."""

    records: int
    avg_latency_ms: float
    p50_ms: float
    p99_ms: float
    p99_9_ms: float


class ArchivedRecords(View, frozen=True):
    """What a run wrote into an archive."""

    batches: int
    records: int
    data_bytes: int
    file_bytes: int
    files: int
    took_s: float


class ReplayedRecords(View, frozen=True):
    """What was written from an archive into a topic."""

    records: int
    data_bytes: int
    took_s: float


class TranslatedOffset(View, frozen=True):
    """An offset of a group in the topic that an archive was replayed into."""

    columns: ClassVar = {n: n for n in ("group", "topic", "partition", "offset")}

    group: str
    topic: str
    partition: int
    offset: int


class ContinuedPartition(View, frozen=True):
    """Where an archive goes on in the topic that it was replayed into, and the leader epoch that
    reached that offset."""

    columns: ClassVar = {
        "topic": "topic", "partition": "partition", "offset": "offset", "epoch": "leader_epoch",
    }  # fmt: skip

    topic: str
    partition: int
    offset: int
    leader_epoch: int
