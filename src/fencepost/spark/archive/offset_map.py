"""Which offset a replayed record has in its new topic, and what that makes of consumers' offsets.

The table has a row for every run of records whose old and new offsets both rise by one: `topic`,
`topic_id`, `partition`, `first_offset`, `last_offset`, and `new_topic`, `new_partition`,
`new_first_offset`. With partitions kept, and nothing else written to the topic meanwhile, that is a
row per partition and step; with records dealt out by key it may be a row per record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from fencepost.client.metadata import TopicPartition

SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("new_topic", pa.string()),
        ("new_partition", pa.int32()),
        ("new_first_offset", pa.int64()),
    ]
)


def runs_of(old: Any, partitions: Any, new: Any) -> dict[str, Any]:
    """Runs, from the old offset, new partition and new offset of every record (NumPy arrays)."""
    if len(old) == 0:
        empty = np.empty(0, np.int64)
        names = ("first_offset", "last_offset", "new_partition", "new_first_offset")
        return dict.fromkeys(names, empty)
    order = np.lexsort((old, partitions))
    old, partitions, new = old[order], partitions[order], new[order]
    breaks = (np.diff(old) != 1) | (np.diff(partitions) != 0) | (np.diff(new) != 1)
    starts = np.concatenate(([0], np.flatnonzero(breaks) + 1))
    ends = np.concatenate((starts[1:] - 1, [len(old) - 1]))
    return {
        "first_offset": old[starts],
        "last_offset": old[ends],
        "new_partition": partitions[starts],
        "new_first_offset": new[starts],
    }


def each_offset(table: pa.Table) -> Iterator[tuple[str, str, int, int, str, int, int]]:
    """A row per record: topic, topic id, partition, offset, and the new three."""
    for batch in table.to_batches():
        for row in batch.to_pylist():
            for step in range(row["last_offset"] - row["first_offset"] + 1):
                yield (
                    row["topic"],
                    row["topic_id"],
                    row["partition"],
                    row["first_offset"] + step,
                    row["new_topic"],
                    row["new_partition"],
                    row["new_first_offset"] + step,
                )


def translate(
    table: pa.Table, committed: Mapping[TopicPartition, int], topic_ids: Iterable[str] = ()
) -> dict[TopicPartition, int]:
    """Where a consumer group goes on in the new topic, from the offsets it committed in the old.

    Per new partition it is the first record that the group has not read, so it reads none twice
    where partitions were kept, and misses none in any case: with records dealt out again, some that
    it has read may lie behind that one. Where it has read all, it is the offset behind the last
    record replayed. Partitions without a committed offset count as read. `topic_ids`: the topics
    whose offsets these are, where one of that name was replaced; others' records count as read.
    """
    wanted = set(topic_ids)
    positions: dict[TopicPartition, int] = {}
    ends: dict[TopicPartition, int] = {}
    for row in table.to_pylist():
        new = TopicPartition(row["new_topic"], row["new_partition"])
        count = row["last_offset"] - row["first_offset"] + 1
        ends[new] = max(ends.get(new, 0), row["new_first_offset"] + count)
        position = committed.get(TopicPartition(row["topic"], row["partition"]))
        if position is None or position > row["last_offset"]:
            continue
        if wanted and row["topic_id"] not in wanted:
            continue
        first = row["new_first_offset"] + max(0, position - row["first_offset"])
        positions[new] = min(first, positions.get(new, first))
    return {new: positions.get(new, end) for new, end in sorted(ends.items())}
