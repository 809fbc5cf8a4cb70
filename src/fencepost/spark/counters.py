"""What queries have read, written and lost, added up from their reports.

Of each batch Spark says where every source began and ended, how many rows it gave, and how many the
sink took (-1 of sinks in Python, which are then left out). Rows are not told by topic, so by topic
there are offsets: compaction and transaction markers make them an upper bound of records.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Final

from fencepost.client.metadata import TopicPartition
from fencepost.spark.lag import PartitionLag
from fencepost.spark.progress import Progress

QUERIES_MAX: Final = 1000


@dataclass
class QueryCounters:
    """Of one query; keys are the number of a source, and a topic or a partition of one."""

    query: str
    offsets_read: Counter[tuple[int, str]] = field(default_factory=Counter)
    rows_read: Counter[int] = field(default_factory=Counter)
    rows_written: int | None = None
    losses: Counter[tuple[int, TopicPartition]] = field(default_factory=Counter)
    _newest: tuple[str, int] = ("", -1)
    _lost: dict[tuple[int, TopicPartition], object] = field(default_factory=dict)

    def add(self, progress: Progress) -> None:
        """A batch is done. One that is reported again counts once."""
        query_id, batch_id = self._newest
        if progress.query_id == query_id and progress.batch_id <= batch_id:
            return
        self._newest = progress.query_id, progress.batch_id
        for source, (end, _) in progress.sources.items():
            self.rows_read[source] += progress.rows.get(source, 0)
            start = progress.starts.get(source)
            for where, position in end.positions.items():
                before = None if start is None else start.positions.get(where)
                read = 0 if before is None else max(0, position.offset - before.offset)
                self.offsets_read[source, where.topic] += read
        if progress.rows_written is not None:
            self.rows_written = (self.rows_written or 0) + progress.rows_written

    def look(self, source: int, lag: PartitionLag) -> None:
        """A partition's state now: one whose records are gone counts when that is new."""
        key = source, lag.partition
        self.losses[key] += 0
        if lag.loss is not None and self._lost.get(key) != lag.loss:
            self.losses[key] += 1
        if lag.loss is None:
            self._lost.pop(key, None)
        else:
            self._lost[key] = lag.loss


class Counters:
    """Of every query by its name, also of those that have ended: what a scraper saw does not fall
    when a query is started again, or from another checkpoint. Beyond QUERIES_MAX the one heard of
    longest ago is forgotten."""

    def __init__(self) -> None:
        self._queries: OrderedDict[str, QueryCounters] = OrderedDict()

    def of(self, query: str) -> QueryCounters:
        """Those of a query."""
        found = self._queries.pop(query, None) or QueryCounters(query)
        self._queries[query] = found
        while len(self._queries) > QUERIES_MAX:
            self._queries.popitem(last=False)
        return found

    def copies(self) -> list[QueryCounters]:
        """Those of each query, as they are now."""
        return [deepcopy(one) for one in self._queries.values()]
