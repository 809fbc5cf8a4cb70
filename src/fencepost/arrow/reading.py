"""Reading topics into Arrow: `read`, `scan` and `stream`, and what their arguments mean.

Common to all:

* `servers`: "HOST:PORT,HOST:PORT", or properties of a Kafka client by their names in Kafka
  (`{"bootstrap.servers": ..., "security.protocol": "SSL", ...}`);
* `topics` (a name or several), `pattern` (a regular expression of Java's that matches whole names)
  or `assign` (`{"orders": [0, 1]}`): exactly one of them;
* `columns`: of key, value (binary), topic, partition (int32), offset (int64), timestamp
  (microseconds, UTC), timestampType (int32: 0 the producer's, 1 the broker's clock), headers (a
  list of structs of key and value); all but headers by default. Others are not decoded;
* `text`: keys and values as UTF-8 text instead of bytes: True for both, or the name of one;
* `filters`: see `filtering`;
* `isolation`: "read_committed" or "read_uncommitted", as the property `isolation.level`;
* `on_data_loss`: "error" raises DataLossError where offsets that were to be read are gone or were
  rewritten, "warn" logs it (logger `fencepost.arrow`) and goes on with what is there;
* `stall_timeout_ms`: how long a fetch may go without any record of its range;
* `archive`: the directory of an archive of the topics (a path, s3://, ...) that has what brokers
  have deleted (`backfill`), with `archive_options` for its store, as `storage_at` takes them.

Raises ArgumentError for a wrong argument, ConfigError for a wrong property, UnknownTopic for a
topic that does not exist, BoundsError where bounds do not fit the partitions, ArchiveReadError for
an archive that cannot be read, and the client's errors (`fencepost.client.errors.ClientError`)
where brokers cannot be reached or refuse.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from os import PathLike
from typing import Any

import pyarrow as pa

from fencepost.arrow.arguments import (
    Servers,
    archive_of,
    client_of,
    end_of,
    positive,
    source_options,
    subscription_of,
)
from fencepost.arrow.backfill import survey_for
from fencepost.arrow.batch_planner import plan_batch
from fencepost.arrow.bounds import parse_bound
from fencepost.arrow.errors import ArgumentError
from fencepost.arrow.filtering import Filters
from fencepost.arrow.options import Point
from fencepost.arrow.scanning import Scan
from fencepost.arrow.shape import Shape
from fencepost.arrow.streaming import Stream
from fencepost.client.cluster import Cluster

Topics = str | Iterable[str] | None
Assigned = Mapping[str, Iterable[int]] | None
Text = bool | str | Sequence[str]
Moment = str | datetime | timedelta | Mapping[str, Mapping[Any, Any]]
STALL_TIMEOUT_MS = 120_000
MAX_OFFSETS = 500_000


def scan(
    servers: Servers,
    *,
    topics: Topics = None,
    pattern: str | None = None,
    assign: Assigned = None,
    start: Moment = "earliest",
    end: Moment = "latest",
    columns: Sequence[str] | None = None,
    text: Text = False,
    filters: Filters = None,
    isolation: str | None = None,
    on_data_loss: str = "error",
    threads: int = 1,
    min_partitions: int | None = None,
    stall_timeout_ms: int = STALL_TIMEOUT_MS,
    archive: str | PathLike[str] | None = None,
    archive_options: Mapping[str, Any] | None = None,
) -> Scan:
    """A read of what is there from `start` up to `end`, planned now and read when iterated.

    Bounds: "earliest", "latest", a datetime with a time zone (the first record at or after it; the
    end of the log where there is none), a timedelta or a text like "-10 minutes" (so long ago),
    "-1000 offsets" (so many before the end), or offsets for exactly the partitions that there are
    (`{"orders": {0: 23, 1: "latest"}}`). Offsets before a log's beginning, or beyond its end, are
    data loss. `threads`: how many partitions are read at once. `min_partitions` cuts ranges until
    there are so many, as Spark's `minPartitions`; see `Scan.ranges`.
    """
    client = client_of(servers, isolation)
    begin = parse_bound("start", start)
    options = source_options(
        client,
        subscription_of(topics, pattern, assign),
        start=begin,
        end=end_of(end),
        on_data_loss=on_data_loss,
        min_partitions=min_partitions,
        stall_timeout_ms=stall_timeout_ms,
        archive=archive_of(archive, archive_options),
    )
    if positive("threads", threads) is None:
        raise ArgumentError("threads", threads, "must be a positive whole number")
    shape = Shape(columns, text, filters)
    with Cluster(config=client) as cluster:
        ranges = plan_batch(options, survey_for(options, cluster), shape.filter.narrowing)
    return Scan(options, shape, ranges, threads)


def read(servers: Servers, **arguments: Any) -> pa.Table:
    """All of a `scan`, with the same arguments, as a table: by partition and offset, in memory."""
    return scan(servers, **arguments).read_all()


def stream(
    servers: Servers,
    *,
    topics: Topics = None,
    pattern: str | None = None,
    assign: Assigned = None,
    start: Moment = "latest",
    position: str | None = None,
    columns: Sequence[str] | None = None,
    text: Text = False,
    filters: Filters = None,
    isolation: str | None = None,
    on_data_loss: str = "error",
    max_offsets: int = MAX_OFFSETS,
    stall_timeout_ms: int = STALL_TIMEOUT_MS,
    archive: str | PathLike[str] | None = None,
    archive_options: Mapping[str, Any] | None = None,
) -> Stream:
    """A read that begins at `start`, or where another stream's `position` was, and goes on.

    `start` as of `scan`. At a position it is compared with the log as it is now: a topic that was
    deleted and made again, a log that was cut, rewritten, or begins later, is data loss.
    `max_offsets`: how many offsets of all partitions are read before those of others get their
    turn, and ends are asked for again. Filters are applied to the rows; they narrow nothing here.
    """
    begin = parse_bound("start", start)
    options = source_options(
        client_of(servers, isolation),
        subscription_of(topics, pattern, assign),
        start=begin if position is None else Point.LATEST,
        on_data_loss=on_data_loss,
        max_offsets=max_offsets,
        stall_timeout_ms=stall_timeout_ms,
        archive=archive_of(archive, archive_options),
    )
    return Stream(options, Shape(columns, text, filters, with_offsets=True), position)
