"""What is archived: `state.json`, one file that is replaced as a whole with every batch.

It has the last batch, the files of that batch with their places, and per topic and partition which
offsets were read. Replacing it is the moment at which a batch is archived: before, its files are in
staging and do not count; after, they are renamed into place, by this run or by the next. Spark runs
a batch again that it does not know to be done; its number tells that it is.

What was read and what there are records of differ: transaction markers, aborted and compacted
records leave offsets without a record. So "read" is from Spark's checkpoint, and what is missing
from it is missing for a reason that Spark gave (`failOnDataLoss=false`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from fencepost.client.metadata import TopicPartition
from fencepost.spark.archive.layout import ArchiveError, Layout, move_all, tag_of, write_whole

FORMAT: Final = 1
PARQUET: Final = "parquet"
"""The format of data files that is kept here; others are kept by their own tables (`tables`)."""
STOPPED_AT_LOSS: Final = "stopped_at_loss"
NO_BATCH: Final = -1
STATE_BYTES_MAX: Final = 256 * 1024 * 1024

Ranges = list[tuple[int, int]]


@dataclass(frozen=True)
class Incarnation:
    """One topic of a name: deleting and creating it makes another."""

    topic: str
    topic_id: str
    """Empty where brokers do not tell."""
    partitions: Mapping[int, Ranges]
    """Which offsets were read: ranges in order, apart from each other, each without its end."""
    records: Mapping[int, int] = field(default_factory=dict)
    """How many records there were, per partition."""

    @property
    def tag(self) -> str:
        return tag_of(self.topic_id)

    def with_read(self, partition: int, span: tuple[int, int], records: int) -> Incarnation:
        """With one more range of offsets and its records."""
        ranges = merged([*self.partitions.get(partition, []), span])
        count = self.records.get(partition, 0) + records
        return replace(
            self,
            partitions={**self.partitions, partition: ranges},
            records={**self.records, partition: count},
        )


@dataclass(frozen=True)
class State:
    """See the module. `incarnations` are in the order in which they were first read."""

    batch: int = NO_BATCH
    query: str = ""
    moves: tuple[tuple[str, str], ...] = ()
    incarnations: tuple[Incarnation, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def data_format(self) -> str:
        """What the data is kept as."""
        return str(self.settings.get("format"))

    @property
    def stopped_at_loss(self) -> bool:
        """Whether every run is known to have had `failOnDataLoss=true`, so that none went on with
        a topic that was deleted and created again."""
        return self.settings.get(STOPPED_AT_LOSS) is True

    def of(self, topic: str) -> list[Incarnation]:
        """The topics of a name, the oldest first."""
        return [one for one in self.incarnations if one.topic == topic]

    def with_batch(
        self,
        batch: int,
        query: str,
        moves: Iterable[tuple[str, str]],
        read: Mapping[TopicPartition, tuple[int, int]],
        records: Mapping[TopicPartition, int],
        topic_ids: Mapping[str, str],
    ) -> State:
        """The state with one batch more."""
        known = {(one.topic, one.topic_id): one for one in self.incarnations}
        for where, span in sorted(read.items()):
            name = (where.topic, topic_ids.get(where.topic, ""))
            known[name] = known.get(name, Incarnation(*name, {})).with_read(
                where.partition, span, records.get(where, 0)
            )
        return replace(
            self,
            batch=batch,
            query=query,
            moves=tuple(moves),
            incarnations=tuple(known.values()),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "batch": self.batch,
            "query": self.query,
            "moves": [list(move) for move in self.moves],
            "topics": [
                {
                    "topic": one.topic,
                    "id": one.topic_id,
                    "read": {str(number): ranges for number, ranges in one.partitions.items()},
                    "records": {str(number): count for number, count in one.records.items()},
                }
                for one in self.incarnations
            ],
            "settings": dict(self.settings),
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> State:
        """KeyError, TypeError, ValueError for what is no state."""
        if content["format"] != FORMAT:
            raise ValueError(f"format {content['format']} is not known, only {FORMAT}")
        return cls(
            batch=int(content["batch"]),
            query=str(content["query"]),
            moves=tuple((str(source), str(target)) for source, target in content["moves"]),
            incarnations=tuple(
                Incarnation(
                    str(one["topic"]),
                    str(one["id"]),
                    {
                        int(number): merged((int(a), int(b)) for a, b in ranges)
                        for number, ranges in one["read"].items()
                    },
                    {int(number): int(count) for number, count in one["records"].items()},
                )
                for one in content["topics"]
            ),
            settings=dict(content["settings"]),
        )


def merged(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Ranges of offsets in order, those that touch or overlap made one."""
    result: Ranges = []
    for start, end in sorted(ranges):
        if start >= end:
            continue
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result


def read_state(layout: Layout) -> State:
    """The state as it is. ArchiveError where there is none, or a damaged one."""
    layout.require()
    try:
        if layout.state_path.stat().st_size > STATE_BYTES_MAX:
            raise ValueError("larger than any state")
        return State.from_json(json.loads(layout.state_path.read_bytes()))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ArchiveError(f"{layout.state_path}: no state of an archive: {error!r}") from error


def read_parquet_state(layout: Layout) -> State:
    """The state of an archive in Parquet. ArchiveError also for one in another format, whose
    contents its own table knows."""
    state = read_state(layout)
    if state.data_format != PARQUET:
        raise ArchiveError(
            f"{layout.directory}: has records as {state.data_format}; this takes Parquet only"
        )
    return state


def write_state(layout: Layout, state: State) -> None:
    """Replace the state."""
    write_whole(layout.state_path, json.dumps(state.to_json()).encode())


def finish_moves(layout: Layout, state: State) -> None:
    """Rename the files of the last batch into place, as far as nobody has. ArchiveError for a
    state that names places outside of the archive."""
    moves = [
        (_inside(layout, layout.staging, source), _inside(layout, layout.directory, target))
        for source, target in state.moves
    ]
    move_all(moves)


def _inside(layout: Layout, base: Path, name: str) -> Path:
    parts = Path(name).parts
    if not parts or Path(name).is_absolute() or ".." in parts:
        raise ArchiveError(f"{layout.state_path}: {name!r} is no place in {base}")
    return base / name
