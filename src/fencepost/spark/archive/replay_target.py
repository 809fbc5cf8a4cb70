"""Which topic a replay writes, and where it ended there.

    DIR/_fencepost/replays/NAME/target.json    the new topic's id, since before the first step
                                end.json       the offset behind the last record of each partition,
                                               with the leader epoch that reached it

A topic that is deleted and created again while a replay is under way has nothing of the steps
before: the replay must not go on in it. And what goes on where the replay ended (`continuing`) must
find that topic, with the records that were written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from fencepost.arrow.archive.layout import ArchiveError, place_of
from fencepost.arrow.offsets import Position
from fencepost.arrow.storage import Storage
from fencepost.client.cluster import Cluster
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import LATEST, list_offsets
from fencepost.wire.types import Uuid

TARGET: Final = "target.json"
END: Final = "end.json"
_NO_DOCUMENT: Final = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


@dataclass(frozen=True)
class ReplayEnd:
    """Where a replay ended: the new topic's id, and where its partitions go on."""

    topic_id: str
    positions: Mapping[TopicPartition, Position]


def keep_target(cluster: Cluster, place: Storage, topic: str, *, is_begun: bool) -> str:
    """The new topic's id, which is noted unless steps were done without it; empty where that, or
    the id itself, is not known. ArchiveError for another topic of the name than the one noted."""
    now = cluster.topic(topic).topic_id
    topic_id = "" if now == Uuid.ZERO else str(now)
    if not place.exists(TARGET):
        if is_begun or not topic_id:
            return ""
        place.create_bytes(TARGET, json.dumps({"topic_id": topic_id}).encode())
    try:
        noted = str(json.loads(place.read_bytes(TARGET))["topic_id"])
    except _NO_DOCUMENT as error:
        raise ArchiveError(f"{place_of(place, TARGET)}: names no topic: {error!r}") from error
    if topic_id and noted != topic_id:
        raise ArchiveError(
            f"{place_of(place, '')}: the replay began to write topic {topic} with the id {noted}, "
            f"and the id is {topic_id} now: it was deleted and created again, and has nothing of "
            "what was replayed before; give the replay another name"
        )
    return noted if topic_id else ""


def keep_end(cluster: Cluster, place: Storage, topic_id: str, offsets: pa.Table) -> None:
    """Note where a replay ended, once; `offsets` is its table."""
    if not topic_id or place.exists(END):
        return
    ends: dict[TopicPartition, int] = {}
    for row in offsets.to_pylist():
        where = TopicPartition(row["new_topic"], row["new_partition"])
        behind = row["new_first_offset"] + row["last_offset"] - row["first_offset"] + 1
        ends[where] = max(ends.get(where, 0), behind)
    latest = list_offsets(cluster, dict.fromkeys(ends, LATEST))
    content = {
        "topic_id": topic_id,
        "ends": [[*where, end, latest[where].leader_epoch] for where, end in sorted(ends.items())],
    }
    place.write_bytes(END, json.dumps(content).encode())


def read_end(place: Storage) -> ReplayEnd | None:
    """Where a replay ended; None where it has not, or that was not noted. ArchiveError."""
    try:
        content: dict[str, Any] = json.loads(place.read_bytes(END))
        positions = {
            TopicPartition(str(topic), int(partition)): Position(int(offset), int(epoch))
            for topic, partition, offset, epoch in content["ends"]
        }
        return ReplayEnd(str(content["topic_id"]), positions)
    except FileNotFoundError:
        return None
    except _NO_DOCUMENT as error:
        text = f"{place_of(place, END)}: no end of a replay: {error!r}"
        raise ArchiveError(text) from error
