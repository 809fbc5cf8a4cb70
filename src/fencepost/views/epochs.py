"""The leader epochs of every replica's log, and where logs diverge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from fencepost.client import asking
from fencepost.client.cluster_view import ClusterView
from fencepost.client.conversation import Conversation
from fencepost.client.lineage import (
    Divergence,
    ReplicaLineage,
    find_divergence,
    reading_lineages,
)
from fencepost.client.metadata import PartitionInfo, TopicPartition
from fencepost.client.offsets import EpochSpan
from fencepost.views.epochs_drawing import Mark, Picture, Row
from fencepost.views.view import View, known


class EpochView(View, frozen=True):
    """A leader epoch of a log: its records have offsets `start_offset` up to `end_offset`."""

    leader_epoch: int
    start_offset: int
    end_offset: int


class PartitionEpoch(View, frozen=True):
    """A leader epoch of the log that a partition's replicas are compared with."""

    partition: int
    leader_epoch: int
    start_offset: int
    end_offset: int


class ReplicaEpochs(View, frozen=True):
    """The leader epochs of one replica's log, None with the reason in `error` if it does not
    answer; `diverges_at` is the first offset at which the log that it is compared with differs."""

    partition: int
    broker: int
    role: str
    epochs: list[EpochView] | None
    high_watermark: int | None
    diverges_at: int | None
    error: str | None


class TopicEpochs(View, frozen=True):
    """A topic's leader epochs, and those of every replica."""

    topic: str
    epochs: list[PartitionEpoch]
    replicas: list[ReplicaEpochs]


def viewing_epochs(
    view: ClusterView[Any], topic: str, partitions: Iterable[int]
) -> Conversation[tuple[TopicEpochs, list[Picture]]]:
    """Ask every replica; the document, and a picture of each partition."""
    described = yield from asking.topic(view, topic)
    pictures: list[Picture] = []
    epochs: list[PartitionEpoch] = []
    replicas: list[ReplicaEpochs] = []
    for number in partitions:
        info = described.partitions[number]
        found = yield from reading_lineages(view, TopicPartition(topic, number))
        one, picture = partition_epochs(topic, info, found)
        pictures.append(picture)
        epochs += one.epochs
        replicas += one.replicas
    return TopicEpochs(topic, epochs, replicas), pictures


def partition_epochs(
    topic: str,
    info: PartitionInfo,
    found: Sequence[ReplicaLineage],
    marks: Mapping[int, Sequence[Mark]] = MappingProxyType({}),
) -> tuple[TopicEpochs, Picture]:
    """The document and the picture of one partition, of the lineages of its replicas; `marks` are
    drawn below a broker's bar."""
    reference = reference_of(found, info.leader_id)
    parted = {one.broker_id: _divergence(reference, one) for one in found}
    epochs = (
        [PartitionEpoch(info.partition, *span) for span in reference.spans] if reference else []
    )
    replicas = [_replica(info, one, parted[one.broker_id]) for one in found]
    picture = _picture(topic, info, found, reference, parted, marks)
    return TopicEpochs(topic, epochs, replicas), picture


def reference_of(found: Sequence[ReplicaLineage], leader_id: int) -> ReplicaLineage | None:
    """The log that others are compared with: the leader's, else that of the newest epoch."""
    answered = [one for one in found if one.error is None]
    leading = [one for one in answered if one.broker_id == leader_id]
    newest = sorted(answered, key=lambda one: one.spans[-1][::2] if one.spans else (-1, -1))
    return next(iter(leading + newest[::-1]), None)


def _divergence(reference: ReplicaLineage | None, one: ReplicaLineage) -> Divergence | None:
    if reference is None or one is reference or one.error is not None:
        return None
    return find_divergence(reference.spans, one.spans)


def role_of(info: PartitionInfo, broker: int) -> str:
    """What a replica is in its partition."""
    if broker == info.leader_id:
        return "leader"
    return "in sync" if broker in info.isr else "out of sync"


def _replica(
    info: PartitionInfo, one: ReplicaLineage, divergence: Divergence | None
) -> ReplicaEpochs:
    return ReplicaEpochs(
        info.partition,
        one.broker_id,
        role_of(info, one.broker_id),
        _spans(one.spans) if one.error is None else None,
        known(one.high_watermark),
        divergence.offset if divergence is not None else None,
        one.error,
    )


def _spans(spans: Iterable[EpochSpan]) -> list[EpochView]:
    return [EpochView(*span) for span in spans]


def _picture(
    topic: str,
    info: PartitionInfo,
    found: Sequence[ReplicaLineage],
    reference: ReplicaLineage | None,
    parted: dict[int, Divergence | None],
    marks: Mapping[int, Sequence[Mark]],
) -> Picture:
    leader = f"leader {info.leader_id}" if info.leader_id >= 0 else "no leader"
    heading = (
        f"{topic}-{info.partition}  {leader}, leader epoch {info.leader_epoch}, in sync"
        f" {','.join(map(str, info.isr)) or '-'}"
    )
    rows, notes = [], []
    for one in found:
        divergence = parted[one.broker_id]
        label = f"{one.broker_id} {role_of(info, one.broker_id)}"
        rows.append(Row(label, one, divergence, marks.get(one.broker_id, ())))
        if divergence is not None and reference is not None:
            notes.append(_sentence(one, divergence, reference.broker_id, info))
    return Picture(heading, rows, notes)


def _sentence(
    one: ReplicaLineage, divergence: Divergence, reference: int, info: PartitionInfo
) -> str:
    offset, epoch, there = divergence
    whose = f"leader {reference}" if reference == info.leader_id else f"broker {reference}"
    has = f"has leader epoch {there} there" if there >= 0 else "has no record there"
    return (
        f"broker {one.broker_id} diverges at offset {offset}: it has leader epoch {epoch},"
        f" {whose} {has} ({one.end_offset - offset} records)"
    )
