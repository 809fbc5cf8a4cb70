"""Where a query goes on in a topic that has another one's records: after a replay or a migration.

A `Translation` says, for offsets of old partitions, from where in new ones nothing is missing.
Where the answer cannot be exact, it is one that reads some records twice. Ways to know it:

* the offset table of a replay (`archive.offset_map`), exact for partitions that were kept;
* MirrorMaker 2's topic of offset syncs, by its own rule: exact at a sync, and the record after the
  sync before where the offset is between two;
* the same offsets, for copies that keep them;
* timestamps: the first record in the new partition that is not older than the first one unread.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from fencepost.arrow.offsets import Position, StreamOffset
from fencepost.batch.records import read_records
from fencepost.client.cluster import Cluster
from fencepost.client.errors import ClientError
from fencepost.client.fetcher import Fetcher
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import EARLIEST, LATEST, list_offsets
from fencepost.spark.archive import offset_map
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

SYNCS_MAX: Final = 10_000_000
"""Offset syncs that are read; MirrorMaker writes one per 100 records of lag, and the topic is
compacted."""

Offsets = Mapping[TopicPartition, int]


class TranslationError(ValueError):
    """An offset has no counterpart; the text says which and why."""


@dataclass(frozen=True)
class Translation:
    """Topics whose offsets are replaced, and what replaces them."""

    topics: frozenset[str]
    translate: Callable[[Offsets], dict[TopicPartition, int]]
    """Offsets in the new topics for those in the old. TranslationError, ClientError."""


def translated(offset: StreamOffset, translation: Translation) -> StreamOffset | None:
    """An offset with the topics replaced; None where it has none of them. TranslationError."""
    old = {
        where: position.offset
        for where, position in offset.positions.items()
        if where.topic in translation.topics
    }
    if not old:
        return None
    new = translation.translate(old)
    kept = {one: at for one, at in offset.positions.items() if one not in old}
    if both := sorted(set(kept) & set(new)):
        raise TranslationError(f"{both[0]}: the source reads it already, beside the old topic")
    ids = {topic: one for topic, one in offset.topic_ids.items() if topic not in translation.topics}
    return StreamOffset({**kept, **{one: Position(at) for one, at in new.items()}}, ids)


def topics_there(
    cluster: Cluster, topics: Iterable[str]
) -> tuple[set[TopicPartition], dict[str, str]]:
    """Partitions that exist, and ids of topics. ClientError."""
    infos = [info for info in cluster.describe(sorted(topics)) if info.error_code == ErrorCode.NONE]
    there = {TopicPartition(info.name, number) for info in infos for number in info.partition_ids}
    return there, {one.name: str(one.topic_id) for one in infos if one.topic_id != Uuid.ZERO}


def identified(cluster: Cluster, offset: StreamOffset) -> StreamOffset:
    """The offset with topic ids where it has none, and where it has no leader epochs with those
    that reach its positions now.

    From then on a topic that is created again, and rewritten records, are detected. Partitions that
    do not exist, and topics that have another id now, are left as they are. ClientError.
    """
    infos = {
        info.name: info
        for info in cluster.describe(sorted({where.topic for where in offset.positions}))
        if info.error_code == ErrorCode.NONE
    }
    ids = {name: str(info.topic_id) for name, info in infos.items() if info.topic_id != Uuid.ZERO}
    unknown = [
        where
        for where, position in offset.positions.items()
        if position.leader_epoch < 0
        and where.topic in infos
        and where.partition in infos[where.topic].partition_ids
        and offset.topic_ids.get(where.topic, ids.get(where.topic)) == ids.get(where.topic)
    ]
    positions = dict(offset.positions)
    for where, end in list_offsets(cluster, dict.fromkeys(unknown, LATEST)).items():
        known = infos[where.topic].partitions[where.partition].leader_epoch
        epoch = end.leader_epoch if end.leader_epoch >= 0 else known
        at = positions[where].offset
        positions[where] = Position(at, epoch if at <= end.offset else -1)
    return replace(offset, positions=positions, topic_ids={**ids, **offset.topic_ids})


# -- ways ------------------------------------------------------------------------------------------


def by_replay(table: pa.Table, topic_ids: Iterable[str] = ()) -> Translation:
    """By a replay's offsets (`archive.replaying.read_offsets`); `topic_ids` as `offset_map` takes
    them."""
    ids = list(topic_ids)
    topics = frozenset(table.column("topic").unique().to_pylist())
    return Translation(topics, lambda old: offset_map.translate(table, old, ids))


def same_offsets(names: Mapping[str, str]) -> Translation:
    """For copies that keep offsets: old topics' names with the new ones."""

    def translate(old: Offsets) -> dict[TopicPartition, int]:
        return {_renamed(names, where): offset for where, offset in old.items()}

    return Translation(frozenset(names), translate)


def given_offsets(topics: Iterable[str], new: Offsets) -> Translation:
    """Offsets that are known from elsewhere, in place of all of some topics."""
    return Translation(frozenset(topics), lambda old: dict(new))


def _renamed(names: Mapping[str, str], where: TopicPartition) -> TopicPartition:
    return TopicPartition(names[where.topic], where.partition)


# -- MirrorMaker 2 ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sync:
    """A record upstream, and the same one downstream."""

    upstream: int
    downstream: int


Syncs = dict[TopicPartition, list[Sync]]


def parse_sync(key: bytes, value: bytes) -> tuple[TopicPartition, Sync]:
    """A record of the topic of offset syncs: the key is a topic (length in two bytes, UTF-8) and a
    partition, the value two offsets (OffsetSync). TranslationError."""
    try:
        (length,) = struct.unpack_from(">h", key)
        topic = key[2 : 2 + length].decode()
        if length < 1 or len(key) != length + 6:
            raise ValueError("no topic and partition")
        (partition,) = struct.unpack_from(">i", key, 2 + length)
        upstream, downstream = struct.unpack(">qq", value)
        if min(partition, upstream, downstream) < 0:
            raise ValueError("a negative number")
    except (struct.error, ValueError) as error:
        raise TranslationError(f"no offset sync of MirrorMaker: {error}") from error
    return TopicPartition(topic, partition), Sync(upstream, downstream)


def add_sync(syncs: Syncs, where: TopicPartition, sync: Sync) -> None:
    """In the order of the topic. One that goes back makes all before it invalid: the upstream topic
    was created again, or the copy was begun again."""
    known = syncs.setdefault(where, [])
    if known and sync.upstream < known[-1].upstream:
        known.clear()
    if known and sync.upstream == known[-1].upstream:
        known.pop()
    known.append(sync)


def read_syncs(cluster: Cluster, topic: str) -> Syncs:
    """All offset syncs that the topic has. TranslationError, ClientError."""
    where = TopicPartition(topic, 0)
    cluster.topic(topic)  # UnknownTopic, at once
    start = list_offsets(cluster, {where: EARLIEST})[where].offset
    end = list_offsets(cluster, {where: LATEST})[where].offset
    syncs: Syncs = {}
    count = 0
    for fetched in Fetcher(cluster).read_range(where, start, end):
        for record in read_records(fetched.records, start_offset=start):
            if record.offset >= end or record.key is None or record.value is None:
                continue
            count += 1
            if count > SYNCS_MAX:
                raise TranslationError(f"{topic}: more than {SYNCS_MAX} offset syncs")
            add_sync(syncs, *parse_sync(bytes(record.key), bytes(record.value)))
    if not syncs:
        raise TranslationError(f"{topic}: has no offset syncs")
    return syncs


def by_syncs(syncs: Syncs, names: Mapping[str, str]) -> Translation:
    """By MirrorMaker's rule (OffsetSyncStore.translateDownstream, KIP-656): behind a sync it is
    unknown which records were copied, so the offset translates to the one after the sync's."""

    def translate(old: Offsets) -> dict[TopicPartition, int]:
        new = {}
        for where, offset in old.items():
            before = [one for one in syncs.get(where, ()) if one.upstream <= offset]
            if not before:
                known = syncs.get(where)
                first = (
                    f"the first one known is at {known[0].upstream}" if known else "none is known"
                )
                raise TranslationError(
                    f"{where}: no offset sync at or before offset {offset}: {first}"
                )
            last = before[-1]
            step = 0 if last.upstream == offset else 1
            new[_renamed(names, where)] = last.downstream + step
        return new

    return Translation(frozenset(names), translate)


# -- timestamps ------------------------------------------------------------------------------------


def by_time(old_cluster: Cluster, new_cluster: Cluster, names: Mapping[str, str]) -> Translation:
    """By the timestamp of the first unread record of each partition; where all are read, the new
    partition's end. Partitions are those of the same number.

    Records whose timestamps do not rise with their offsets may be missed or read twice: a copy with
    CreateTime and rising times is what this is for.
    """

    def translate(old: Offsets) -> dict[TopicPartition, int]:
        ends = list_offsets(old_cluster, dict.fromkeys(old, LATEST))
        new_ends = list_offsets(new_cluster, {_renamed(names, where): LATEST for where in old})
        new = {where: end.offset for where, end in new_ends.items()}
        times: dict[TopicPartition, int] = {}
        for where, offset in old.items():
            time_ms = _time_of(old_cluster, where, offset, ends[where].offset)
            if time_ms is not None:
                times[_renamed(names, where)] = time_ms
        for where, found in list_offsets(new_cluster, times).items():
            if found.offset >= 0:
                new[where] = found.offset
        return new

    return Translation(frozenset(names), translate)


def _time_of(cluster: Cluster, where: TopicPartition, start: int, end: int) -> int | None:
    """The timestamp of the first record from `start` on, None where there is none."""
    if start >= end:
        return None
    try:
        for fetched in Fetcher(cluster).read_range(where, start, end):
            for record in read_records(fetched.records, start_offset=start):
                if record.timestamp_ms < 0:
                    raise TranslationError(f"{where}: the record at {record.offset} has no time")
                return int(record.timestamp_ms)
    except ClientError as error:
        raise TranslationError(f"{where}: offset {start} cannot be read: {error}") from error
    return None
