"""How far a query is behind the logs that it reads, whichever driver runs it.

`measure_lag` takes the offsets of a query (from a checkpoint, or from a progress report) and asks
the cluster: where do the logs begin and end, is it still the same topic, does the leader epoch
still reach that far (`loss.judge`), and when was the oldest record written that the query has not
read. It changes nothing and commits nothing.

* Records behind are offsets behind: compaction and transaction markers make them an upper bound.
* Bytes behind are an estimate, since no request tells them: the size of the leader's log
  (DescribeLogDirs) in the proportion of the offsets behind to all offsets there are.
* The age of the oldest unread record goes by its timestamp, so it is as good as the producer's
  clock. It takes a Fetch of a batch per partition that is behind.

A partition that cannot be asked is told with what is known; `condition` says why. With an archive,
as queries with the option `archive` read it, offsets that brokers have deleted and the archive has
are `archived` and no loss.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from fencepost.arrow.archives import Archive, HeldTopic, Ranges, clipped
from fencepost.arrow.backfill import available, believed
from fencepost.arrow.loss import Loss, PartitionState, judge
from fencepost.arrow.offsets import INT64_MAX, Position, StreamOffset
from fencepost.batch.errors import BatchError
from fencepost.batch.records import read_records
from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.errors import ClientError
from fencepost.client.fetch_core import FetchPosition
from fencepost.client.fetcher import Fetcher
from fencepost.client.metadata import PartitionInfo, TopicInfo, TopicPartition
from fencepost.client.offsets import (
    EARLIEST,
    LATEST,
    EpochEnd,
    list_offsets,
    offsets_for_leader_epochs,
)
from fencepost.wire.errors import ErrorCode, error_name
from fencepost.wire.types import Uuid

log = logging.getLogger("fencepost.spark")

CLIENT_PROPERTIES: Final = {"max.partition.fetch.bytes": 65_536, "fetch.max.bytes": 4 * 1024 * 1024}
"""What a Cluster for `measure_lag` is to be made with: one batch of a partition is enough."""
AGED_OUT: Final = "aged out"
ARCHIVED: Final = "archived"
FETCHES_MAX: Final = 20
"""A fetch that is full leaves partitions out, so those are asked for again, up to so often."""


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """How far a query is behind in one partition; None stands for what is not known.

    `onward` is where the query would go on: `position` unless records were lost.
    `oldest_unread_ms` is the timestamp of the oldest unread record, in ms since 1970.
    """

    partition: TopicPartition
    position: Position
    onward: int | None = None
    start_offset: int | None = None
    end_offset: int | None = None
    leader_epoch: int | None = None
    bytes_behind: int | None = None
    oldest_unread_ms: int | None = None
    loss: Loss | None = None
    condition: str = "ok"
    """`ok`, `archived`, `no leader`, a kind of `Loss`, or the error by which the broker refused the
    topic."""

    @property
    def records_behind(self) -> int | None:
        """Offsets from where the query goes on to the log's end."""
        if self.onward is None or self.end_offset is None:
            return None
        return max(0, self.end_offset - self.onward)


def measure_lag(
    cluster: Cluster,
    stored: StreamOffset,
    *,
    with_bytes: bool = False,
    archive: Archive | None = None,
) -> dict[TopicPartition, PartitionLag]:
    """The lag of every partition of `stored`; ClientError when the cluster does not answer,
    ArchiveReadError for an archive that cannot be read."""
    topics = {info.name: info for info in _described(cluster, stored)}
    states: dict[TopicPartition, PartitionState] = {}
    led = {
        where: info
        for where in stored.positions
        if (info := _info(topics, where)) is not None and info.leader_id >= 0
    }
    if led:
        states = _states(cluster, stored, topics, led)
    lags = {
        where: _lag(where, position, stored, states.get(where), topics)
        for where, position in stored.positions.items()
    }
    behind = {where: lag for where, lag in lags.items() if lag.records_behind}
    if archive is not None:
        for where, lag in _archived(cluster, archive, lags, states):
            lags[where] = lag
            del behind[where]
    for where, timestamp_ms in _oldest_unread(cluster, behind):
        lags[where] = replace(lags[where], oldest_unread_ms=timestamp_ms)
    if with_bytes:
        for where, size in _log_sizes(cluster, led).items():
            lags[where] = replace(lags[where], bytes_behind=_share(lags[where], size))
    return lags


def _described(cluster: Cluster, stored: StreamOffset) -> Iterable[TopicInfo]:
    names = sorted({where.topic for where in stored.positions})
    return cluster.describe(names) if names else ()


def _info(topics: Mapping[str, TopicInfo], where: TopicPartition) -> PartitionInfo | None:
    topic = topics.get(where.topic)
    return topic.partitions.get(where.partition) if topic is not None else None


def _states(
    cluster: Cluster,
    stored: StreamOffset,
    topics: Mapping[str, TopicInfo],
    led: Mapping[TopicPartition, PartitionInfo],
) -> dict[TopicPartition, PartitionState]:
    earliest = list_offsets(cluster, dict.fromkeys(led, EARLIEST))
    latest = list_offsets(cluster, dict.fromkeys(led, LATEST))
    ends = _epoch_ends(cluster, {where: stored.positions[where].leader_epoch for where in led})
    return {
        where: PartitionState(
            topic_id=_topic_id(topics[where.topic]),
            earliest=earliest[where].offset,
            latest=latest[where].offset,
            leader_epoch=max(latest[where].leader_epoch, led[where].leader_epoch),
            epoch_end=ends.get(where),
        )
        for where in led
    }


def _topic_id(topic: TopicInfo) -> str:
    return "" if topic.topic_id == Uuid.ZERO else str(topic.topic_id)


def _epoch_ends(
    cluster: Cluster, epochs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, EpochEnd]:
    """Where known epochs end; nothing from brokers that do not tell."""
    known = {where: epoch for where, epoch in epochs.items() if epoch >= 0}
    if not known:
        return {}
    try:
        return offsets_for_leader_epochs(cluster, known)
    except ClientError as error:
        log.debug("cannot check for rewritten logs: %s", error)
        return {}


def _lag(
    where: TopicPartition,
    position: Position,
    stored: StreamOffset,
    state: PartitionState | None,
    topics: Mapping[str, TopicInfo],
) -> PartitionLag:
    code = topics[where.topic].error_code if where.topic in topics else ErrorCode.NONE
    if code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        return PartitionLag(where, position, condition=error_name(code))
    info = _info(topics, where)
    if state is None and info is not None:
        epoch = info.leader_epoch if info.leader_epoch >= 0 else None
        return PartitionLag(where, position, leader_epoch=epoch, condition="no leader")
    loss, onward = judge(where, position, stored.topic_ids.get(where.topic, ""), state)
    condition = loss.kind if loss is not None else "ok"
    if state is None:
        return PartitionLag(where, position, loss=loss, condition=condition)
    return PartitionLag(
        where,
        position,
        onward=onward,
        start_offset=state.earliest,
        end_offset=state.latest,
        leader_epoch=state.leader_epoch if state.leader_epoch >= 0 else None,
        loss=loss,
        condition=condition,
    )


def _archived(
    cluster: Cluster,
    archive: Archive,
    lags: Mapping[TopicPartition, PartitionLag],
    states: Mapping[TopicPartition, PartitionState],
) -> Iterator[tuple[TopicPartition, PartitionLag]]:
    """Lags of partitions whose next offset the brokers have deleted, and the archive has."""
    aged = {where for where, lag in lags.items() if lag.condition == AGED_OUT}
    held = _held(archive, {where: states[where].topic_id for where in aged})
    epochs = {where: one.epochs.get(where.partition, -1) for where, one in held.items()}
    ends = _epoch_ends(cluster, epochs)
    for where, one in held.items():
        lag = lags[where]
        state = replace(states[where], epoch_end=ends.get(where))
        ranges = one.partitions[where.partition]
        kept, _ = believed(where, ranges, epochs[where], state)
        found = _with_archived(lag, kept, state.earliest)
        if found is not None:
            start = lag.position.offset
            oldest_ms = _oldest_archived(
                archive, where, one.topic_id, clipped(kept, start, INT64_MAX)
            )
            yield where, replace(found, oldest_unread_ms=oldest_ms)


def _held(
    archive: Archive, topic_ids: Mapping[TopicPartition, str]
) -> dict[TopicPartition, HeldTopic]:
    """What the archive has of these partitions, of topics with these ids."""
    _, topics = archive.topics()
    known = {(one.topic, one.topic_id): one for one in topics}
    found = {where: known.get((where.topic, topic_id)) for where, topic_id in topic_ids.items()}
    return {
        where: one
        for where, one in found.items()
        if one is not None and one.partitions.get(where.partition)
    }


def _with_archived(lag: PartitionLag, held: Ranges, log_start: int) -> PartitionLag | None:
    """The lag of a query that reads from the archive, too; None where that does not begin there.
    What neither has, between what is archived and the log, is lost."""
    there = available(held, log_start)
    stretch = next((one for one in there if one[0] <= lag.position.offset < one[1]), None)
    if stretch is None:
        return None
    onward = replace(lag, onward=lag.position.offset, loss=None, condition=ARCHIVED)
    if stretch[1] >= log_start:
        return onward
    following = next(low for low, _ in there if low >= stretch[1])
    detail = f"the archive ends at offset {stretch[1]}, and what comes next is at {following}"
    loss = Loss(AGED_OUT, lag.partition, stretch[1], following, detail)
    return replace(onward, loss=loss, condition=AGED_OUT)


def _oldest_archived(
    archive: Archive, where: TopicPartition, topic_id: str, ranges: Ranges
) -> int | None:
    """The timestamp of the first record of these ranges that has one."""
    for low, high in ranges:
        for rows in archive.read(where, topic_id, low, high, ("timestamp",)):
            micros = rows.column("timestamp").cast("int64")[0].as_py()
            return None if micros is None or micros < 0 else micros // 1000
    return None


def _oldest_unread(
    cluster: Cluster, behind: Mapping[TopicPartition, PartitionLag]
) -> Iterator[tuple[TopicPartition, int]]:
    """Timestamps of the first records from where each query goes on, of those that have one."""
    wanted = {where: FetchPosition(lag.onward or 0) for where, lag in behind.items()}
    fetcher = Fetcher(cluster)
    for _ in range(FETCHES_MAX):
        if not wanted:
            return
        try:
            fetched = fetcher.fetch(wanted, max_wait_ms=0)
            for one in fetched:
                position = wanted[one.partition]
                record = next(read_records(one.records, start_offset=position.offset), None)
                if record is not None:
                    del wanted[one.partition]
                    if record.timestamp_ms >= 0:
                        yield one.partition, record.timestamp_ms
                elif one.next_offset > position.offset:  # markers only, or compacted away
                    wanted[one.partition] = FetchPosition(one.next_offset)
        except (ClientError, BatchError) as error:
            log.debug("cannot determine the age of unread records: %s", error)
            return


def _log_sizes(
    cluster: Cluster, led: Mapping[TopicPartition, PartitionInfo]
) -> dict[TopicPartition, int]:
    """Bytes of the leaders' logs, of those brokers that tell."""
    sizes: dict[TopicPartition, int] = {}
    admin = Admin(cluster)
    for broker in sorted({info.leader_id for info in led.values()}):
        those = [where for where, info in led.items() if info.leader_id == broker]
        try:
            found = admin.describe_log_dirs(broker, those)
        except ClientError as error:  # DescribeLogDirs needs the ACL Describe on the cluster
            log.debug("cannot determine the bytes behind: %s", error)
            continue
        for directory in found:
            for where, replica in directory.replicas.items():
                if where in led and not replica.is_future:
                    sizes[where] = replica.size_bytes
    return sizes


def _share(lag: PartitionLag, size_bytes: int) -> int | None:
    if lag.records_behind is None or lag.end_offset is None or lag.start_offset is None:
        return None
    there = lag.end_offset - lag.start_offset
    return size_bytes * lag.records_behind // there if there > 0 else 0
