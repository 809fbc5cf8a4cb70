"""An archive's contents against those of the topics, as far as these still have the records.

Both sides are read by Spark and reduced to a fingerprint per partition: how many records, and the
sum of hashes of everything that a record has. Equal fingerprints are equal contents, but for a
chance of one in 2^64.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fencepost.arrow.archive.layout import Layout
from fencepost.arrow.archive.state import (
    Incarnation,
    Ranges,
    counted_files,
    merged,
    read_parquet_state,
)
from fencepost.client.cluster import Cluster
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import EARLIEST, LATEST, list_offsets
from fencepost.wire.errors import ErrorCode

HASH: Final = (
    "xxhash64(offset, key is null, key, value is null, value, headers is null, headers, timestamp, "
    "timestampType)"
)


@dataclass(frozen=True, slots=True)
class Compared:
    """A partition's records on both sides; `condition` says why there is nothing to compare."""

    topic: str
    partition: int
    start: int
    end: int
    archived: int
    in_topic: int
    same: bool
    condition: str = ""


def compare(
    spark: Any, layout: Layout, source: Mapping[str, str], cluster: Cluster
) -> list[Compared]:
    """Compare every partition that was read. `source`: `kafka.` options of the brokers.

    ArchiveError, ClientError, PySparkException.
    """
    found: list[Compared] = []
    spans: dict[TopicPartition, Ranges] = {}
    tags: dict[str, str] = {}
    for one in read_parquet_state(layout).incarnations:
        condition = _condition(cluster, one)
        if condition:
            found += [Compared(one.topic, p, 0, 0, 0, 0, True, condition) for p in one.partitions]
            continue
        tags[one.topic] = one.tag
        spans.update(_still_there(cluster, one))
    shared = {where: ranges for where, ranges in spans.items() if ranges}
    sides = _fingerprints(spark, layout, source, shared, tags) if shared else ({}, {})
    for where, ranges in sorted(spans.items()):
        if not ranges:
            text = "the topic has none of the records any more"
            found.append(Compared(*where, 0, 0, 0, 0, True, text))
            continue
        archived, there = (side.get(where, (0, 0)) for side in sides)
        start, end = ranges[0][0], ranges[-1][1]
        found.append(Compared(*where, start, end, archived[0], there[0], archived == there))
    return found


def _condition(cluster: Cluster, one: Incarnation) -> str:
    now = next(iter(cluster.describe([one.topic])), None)
    if now is None or now.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return "the topic is gone"
    if one.topic_id and str(now.topic_id) != one.topic_id:
        return "the topic is another one now"
    return ""


def _still_there(cluster: Cluster, one: Incarnation) -> dict[TopicPartition, Ranges]:
    partitions = [TopicPartition(one.topic, number) for number in one.partitions]
    starts = list_offsets(cluster, dict.fromkeys(partitions, EARLIEST))
    ends = list_offsets(cluster, dict.fromkeys(partitions, LATEST))
    return {
        where: merged(
            (max(low, starts[where].offset), min(high, ends[where].offset))
            for low, high in one.partitions[where.partition]
        )
        for where in partitions
    }


def _fingerprints(
    spark: Any,
    layout: Layout,
    source: Mapping[str, str],
    spans: Mapping[TopicPartition, Ranges],
    tags: Mapping[str, str],
) -> tuple[dict[TopicPartition, Any], dict[TopicPartition, Any]]:
    files, _ = counted_files(layout, read_parquet_state(layout))
    paths = [layout.for_spark(one.path) for one in files if tags.get(one.topic) == one.tag]
    reader = spark.read.option("basePath", layout.for_spark())
    archived = reader.schema(
        "topic string, partition int, offset long, key binary, value binary, "
        "headers array<struct<key:string,value:binary>>, timestamp timestamp, timestampType int"
    )
    starts = _offsets({where: ranges[0][0] for where, ranges in spans.items()})
    ends = _offsets({where: ranges[-1][1] for where, ranges in spans.items()})
    assigned: dict[str, list[int]] = {}
    for topic, number in spans:
        assigned.setdefault(topic, []).append(number)
    there = (
        spark.read.format("fencepost")
        .options(**source)
        .option("assign", json.dumps(assigned))
        .option("startingOffsets", starts)
        .option("endingOffsets", ends)
        .option("includeHeaders", "true")
    )
    first = _reduced(archived.parquet(*paths), spans) if paths else {}
    return first, _reduced(there.load(), spans)


def _offsets(offsets: Mapping[TopicPartition, int]) -> str:
    content: dict[str, dict[str, int]] = {}
    for (topic, number), offset in offsets.items():
        content.setdefault(topic, {})[str(number)] = offset
    return json.dumps(content)


def _reduced(frame: Any, spans: Mapping[TopicPartition, Ranges]) -> dict[TopicPartition, Any]:
    from pyspark.sql import functions as F  # noqa: N812

    within = F.lit(False)
    for where, ranges in spans.items():
        in_ranges = F.lit(False)
        for low, high in ranges:
            in_ranges |= (F.col("offset") >= low) & (F.col("offset") < high)
        mine = (F.col("topic") == where.topic) & (F.col("partition") == where.partition)
        within |= mine & in_ranges
    rows = (
        frame.where(within)
        .groupBy("topic", "partition")
        .agg(
            F.count("*").alias("rows"), F.sum(F.expr(f"cast({HASH} as decimal(38, 0))")).alias("h")
        )
        .collect()
    )
    return {TopicPartition(row.topic, row.partition): (row.rows, row.h) for row in rows}
