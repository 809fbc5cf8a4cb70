"""What is archived: `state.json`, one file that is replaced as a whole with every batch.

It has the last batch, the files of that batch with their places, and per topic and partition which
offsets were read. Replacing it is the moment at which a batch is archived: before, its files are in
staging and do not count; after, they are moved into place, by this run or by the next. Spark runs
a batch again that it does not know to be done; its number tells that it is.

On a local disk one process changes the state at a time, with the lock `layout`, and a move is a
rename. In a store there is no lock: the state is put on condition that it is still the one that was
read (`Storage.replace_bytes`), so of two drivers that archive the same batch, or compact, one
succeeds, and the other looks again at what is there then. A move is a copy and a deletion, which
the next run does again if this one is killed. So a reader that lists directories may see part of
the last batch for a moment, never a file that does not count. A compaction's files cannot be
exchanged in one step there: `swap` names those that are new and those that go, and from then on the
new ones count (`counted_files`); who lists directories sees both until the old ones are deleted.

What was read and what there are records of differ: transaction markers, aborted and compacted
records leave offsets without a record. So "read" is from Spark's checkpoint, and what is missing
from it is missing for a reason that Spark gave (`failOnDataLoss=false`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from fencepost.arrow.archive.layout import (
    CHECKPOINT,
    COMPACTION,
    STAGING,
    STATE,
    ArchiveError,
    DataFile,
    Layout,
    data_file,
    tag_of,
)
from fencepost.arrow.storage import Storage, storage_at
from fencepost.client.metadata import TopicPartition

FORMAT: Final = 1
PARQUET: Final = "parquet"
"""The format of data files that is kept here; others are kept by their own tables (`tables`)."""
STOPPED_AT_LOSS: Final = "stopped_at_loss"
NO_BATCH: Final = -1
CHECKPOINT_SETTING: Final = "checkpoint"
"""Where the query's checkpoint is, as Spark takes it, if not in the archive."""
STATE_BYTES_MAX: Final = 256 * 1024 * 1024
CHANGES_MAX: Final = 100
"""So often a change is tried that other drivers come before."""

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
class Swap:
    """A compaction in a store: files that replace others."""

    id: str = ""
    adds: tuple[tuple[str, str], ...] = ()
    """Where in `compaction/` each is written, and its place."""
    removes: tuple[str, ...] = ()


@dataclass(frozen=True)
class State:
    """See the module. `incarnations` are in the order in which they were first read."""

    batch: int = NO_BATCH
    query: str = ""
    moves: tuple[tuple[str, str], ...] = ()
    incarnations: tuple[Incarnation, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    swap: Swap = Swap()
    """The last one; its files stay out of what counts."""

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
            "swap": {
                "id": self.swap.id,
                "adds": [list(one) for one in self.swap.adds],
                "removes": list(self.swap.removes),
            },
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
            swap=_swap(content.get("swap") or {}),
        )


def _swap(content: Mapping[str, Any]) -> Swap:
    return Swap(
        str(content.get("id", "")),
        tuple((str(source), str(target)) for source, target in content.get("adds", ())),
        tuple(map(str, content.get("removes", ()))),
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
    return _read(layout)[0]


def _read(layout: Layout) -> tuple[State, str]:
    """With the version by which the storage knows it."""
    layout.require()
    try:
        data, version = layout.storage.read_version(STATE, STATE_BYTES_MAX)
        return State.from_json(json.loads(data)), version
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        place = layout.place(STATE)
        raise ArchiveError(f"{place}: no state of an archive: {error!r}") from error


def read_parquet_state(layout: Layout) -> State:
    """The state of an archive in Parquet. ArchiveError also for one in another format, whose
    contents its own table knows."""
    state = read_state(layout)
    if state.data_format != PARQUET:
        raise ArchiveError(f"{layout}: has records as {state.data_format}; this takes Parquet only")
    return state


def checkpoint_location(layout: Layout, state: State) -> str:
    """Where the query's checkpoint is, as Spark takes it."""
    return str(state.settings.get(CHECKPOINT_SETTING) or layout.for_spark(CHECKPOINT))


def checkpoint_of(layout: Layout, state: State) -> Storage:
    """Where the query's checkpoint is, for `read_checkpoint`. OSError."""
    return storage_at(checkpoint_location(layout, state), layout.options)


def write_first_state(layout: Layout, state: State) -> None:
    """Make the state of a new archive, unless another driver just did. OSError."""
    layout.storage.create_bytes(STATE, json.dumps(state.to_json()).encode())


def update_state(layout: Layout, change: Callable[[State], State]) -> State:
    """Replace the state by what `change` makes of it, with no other change in between, and move
    files to where it says. ArchiveError, OSError, and what `change` raises."""
    with layout.lock("layout", wait=True):
        for _ in range(CHANGES_MAX):
            old, version = _read(layout)
            state = change(old)
            data = json.dumps(state.to_json()).encode()
            if state == old or layout.storage.replace_bytes(STATE, data, version):
                _move_files(layout, state)
                return state
    raise ArchiveError(f"{layout}: other drivers change it without an end")


def recover(layout: Layout) -> State:
    """Put right what a run that was killed left: its files go where they belong. ArchiveError,
    OSError."""
    return update_state(layout, lambda state: state)


def _move_files(layout: Layout, state: State) -> None:
    """As far as that was not done. ArchiveError for a state that names places elsewhere."""
    moves = [(_inside(layout, STAGING, old), _inside(layout, "", new)) for old, new in state.moves]
    swap = state.swap
    moves += [
        (_inside(layout, COMPACTION, old), _inside(layout, "", new)) for old, new in swap.adds
    ]
    layout.storage.move_all(moves)
    for path in swap.removes:
        layout.storage.delete(_inside(layout, "", path))


def _inside(layout: Layout, base: str, name: str) -> str:
    parts = name.split("/")
    if not all(parts) or ".." in parts or "." in parts:
        raise ArchiveError(f"{layout.place(STATE)}: {name!r} is no place in {layout.place(base)}")
    return f"{base}/{name}" if base else name


def counted_files(layout: Layout, state: State) -> tuple[list[DataFile], list[str]]:
    """The data files that count, in order, and what is among them and is none: the listing, but in
    a store while files are moved there. ArchiveError, OSError."""
    files, foreign = layout.listing()
    if layout.is_local:
        return files, foreign
    counted = {one.path: one for one in files if one.path not in set(state.swap.removes)}
    for base, moves in ((STAGING, state.moves), (COMPACTION, state.swap.adds)):
        waiting = {base + "/" + old: new for old, new in moves if new not in counted}
        sizes = {one.path: one.size for one in layout.storage.list(base)} if waiting else {}
        for old, new in waiting.items():
            found = data_file(layout.storage, new, sizes.get(old, 0))
            if found is not None and old in sizes:
                counted[new] = replace(found, path=old)
    return sorted(counted.values()), foreign
