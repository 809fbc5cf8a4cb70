"""What a query's progress reports say about the topics it reads, and how fast it reads them.

Spark tells listeners of every batch as a JSON document. Of each source it has `endOffset`, where
the batch ended, and `latestOffset`, where the logs ended when it was planned, in the format of the
source. Ours and that of Spark's own connector are understood (`offsets`); other sources are passed
over. `LagTracker` keeps the newest report of each query and turns it into lags, with rates between
one look and the next. No I/O: who looks hands in the clocks, and a question to the cluster.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from fencepost.arrow.offsets import Position, StreamOffset
from fencepost.client.metadata import TopicPartition
from fencepost.spark.lag import PartitionLag

QUERIES_MAX: Final = 1000
SHOWN_MAX: Final = 5
"""Partitions that a log line names, those furthest behind first."""

Measure = Callable[[StreamOffset], Mapping[TopicPartition, PartitionLag]]
Place = tuple[int, TopicPartition]  # source, partition


@dataclass(frozen=True, slots=True)
class Progress:
    """The newest report of one query: per source that reads topics, end and latest offset.

    `starts` is where the batch began, `rows` how many rows a source gave, `rows_written` how many
    the sink took; each as far as Spark says it.
    """

    query_id: str
    query: str
    batch_id: int
    sources: Mapping[int, tuple[StreamOffset, StreamOffset | None]]
    starts: Mapping[int, StreamOffset] = field(default_factory=dict)
    rows: Mapping[int, int] = field(default_factory=dict)
    rows_written: int | None = None


class PartitionReport(NamedTuple):
    """One partition of one query. Rates are in records per second since the look before, `age_s`
    is how long ago the oldest unread record was written; None where it is not known."""

    source: int
    lag: PartitionLag
    read_per_s: float | None
    arriving_per_s: float | None
    age_s: float | None


class QueryReport(NamedTuple):
    """One query, all of its partitions."""

    query_id: str
    query: str
    batch_id: int
    partitions: tuple[PartitionReport, ...]

    def __str__(self) -> str:
        lags = [one.lag for one in self.partitions]
        known = [lag.records_behind for lag in lags if lag.records_behind is not None]
        words = [f"{_total(known)} records behind in {len(lags)} partitions"]
        sizes = [lag.bytes_behind for lag in lags if lag.bytes_behind is not None]
        if sizes:
            words[0] += f" (about {sum(sizes)} bytes)"
        for name, rates in (
            ("reads", [one.read_per_s for one in self.partitions]),
            ("arriving", [one.arriving_per_s for one in self.partitions]),
        ):
            if rates and None not in rates:
                words.append(f"{name} {sum(filter(None, rates)):.1f}/s")
        ages = [one.age_s for one in self.partitions if one.age_s is not None]
        if ages:
            words.append(f"oldest unread {max(ages):.1f} s")
        behind = [lag for lag in lags if lag.records_behind]
        behind.sort(key=lambda lag: -(lag.records_behind or 0))
        words += [f"{lag.partition} {lag.records_behind}" for lag in behind[:SHOWN_MAX]]
        if len(behind) > SHOWN_MAX:
            words.append(f"{len(behind) - SHOWN_MAX} more")
        words += [f"{lag.partition}: {lag.condition}" for lag in lags if lag.condition != "ok"]
        return f"query {self.query} batch {self.batch_id}: {', '.join(words)}"


def _total(known: list[int]) -> str:
    return str(sum(known)) if known else "?"


def read_progress(document: Mapping[str, Any]) -> Progress:
    """A report as Spark makes it. KeyError, TypeError or ValueError for one that is none."""
    sources, starts, rows = {}, {}, {}
    for number, source in enumerate(document["sources"]):
        end = _offset(source.get("endOffset"))
        if end is not None:
            sources[number] = (end, _offset(source.get("latestOffset")))
            rows[number] = int(source.get("numInputRows") or 0)
            if (start := _offset(source.get("startOffset"))) is not None:
                starts[number] = start
    query_id = str(document["id"])
    query = str(document.get("name") or query_id)
    # -1 where a sink does not say it.
    written = (document.get("sink") or {}).get("numOutputRows", -1)
    rows_written = int(written) if written is not None and int(written) >= 0 else None
    batch_id = int(document["batchId"])
    return Progress(query_id, query, batch_id, sources, starts, rows, rows_written)


def _offset(value: object) -> StreamOffset | None:
    """An offset of topics; None for none, and for those of other sources."""
    try:
        parsed = json.loads(value) if isinstance(value, str) else value
        return StreamOffset.from_json(parsed) if isinstance(parsed, Mapping) else None
    except (ValueError, RecursionError):
        return None


class LagTracker:
    """The newest progress of each query that runs; see the module."""

    def __init__(self) -> None:
        self._queries: dict[str, Progress] = {}
        self._before: dict[str, tuple[float, dict[Place, tuple[int, int | None]]]] = {}

    def update(self, progress: Progress) -> None:
        """Take in a report. Beyond QUERIES_MAX queries the one heard of first is forgotten."""
        self._queries[progress.query_id] = progress
        while len(self._queries) > QUERIES_MAX:
            self.forget(next(iter(self._queries)))

    def forget(self, query_id: str) -> None:
        """The query has ended."""
        self._queries.pop(query_id, None)
        self._before.pop(query_id, None)

    def queries(self) -> list[Progress]:
        """The newest report of each."""
        return list(self._queries.values())

    def look(
        self, progress: Progress, now_s: float, wall_ms: float, measure: Measure | None
    ) -> QueryReport:
        """The query's lags now. `measure` asks the cluster; without it the progress has to do."""
        lags = [
            (number, lag)
            for number, (end, latest) in progress.sources.items()
            for lag in _lags(end, latest, measure)
        ]
        then_s, before = self._before.get(progress.query_id, (now_s, {}))
        passed_s = now_s - then_s
        reports = []
        for number, lag in lags:
            old = before.get((number, lag.partition))
            read = arriving = None
            if old is not None and passed_s > 0:
                read = max(0, lag.position.offset - old[0]) / passed_s
                if lag.end_offset is not None and old[1] is not None:
                    arriving = max(0, lag.end_offset - old[1]) / passed_s
            oldest = lag.oldest_unread_ms
            age_s = None if oldest is None else max(0.0, (wall_ms - oldest) / 1000)
            reports.append(PartitionReport(number, lag, read, arriving, age_s))
        if progress.query_id in self._queries:
            seen = {(n, lag.partition): (lag.position.offset, lag.end_offset) for n, lag in lags}
            self._before[progress.query_id] = (now_s, seen)
        return QueryReport(progress.query_id, progress.query, progress.batch_id, tuple(reports))


def _lags(
    end: StreamOffset, latest: StreamOffset | None, measure: Measure | None
) -> Iterable[PartitionLag]:
    if measure is not None:
        return [lag for _, lag in sorted(measure(end).items())]
    ends: Mapping[TopicPartition, Position] = latest.positions if latest is not None else {}
    return [
        PartitionLag(
            where,
            position,
            onward=position.offset,
            end_offset=ends[where].offset if where in ends else None,
            leader_epoch=position.leader_epoch if position.leader_epoch >= 0 else None,
        )
        for where, position in sorted(end.positions.items())
    ]
