"""A sample as a JSON document that a later one is compared with: `fencepost console --once sample
--json > old.json`, and `--diff old.json` after what was done."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from fencepost.client.groups import ListedGroup
from fencepost.client.metadata import Node, PartitionInfo, TopicInfo
from fencepost.client.quorum import QuorumDescription, QuorumReplica
from fencepost.console.sample import Sample
from fencepost.views.view import View
from fencepost.wire.types import Uuid

FORMAT: Final[Literal["fencepost-console-sample"]] = "fencepost-console-sample"
VERSION: Final[Literal[1]] = 1
BYTES_MAX: Final = 256 << 20
"""A sample of 100,000 partitions takes about 12 MB."""


class BadSample(ValueError):
    """A file that has no sample: names the file and what is wrong with it."""


class BrokerDocument(View, frozen=True):
    """A broker of a sample."""

    id: int
    host: str
    port: int
    rack: str | None
    fenced: bool


class PartitionDocument(View, frozen=True):
    """A partition of a sample; the leader is -1 if there is none."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]


class TopicDocument(View, frozen=True):
    """A topic of a sample."""

    name: str
    id: str
    internal: bool
    partitions: list[PartitionDocument]


class GroupDocument(View, frozen=True):
    """A group of a sample."""

    group: str
    state: str
    type: str
    protocol_type: str


class QuorumDocument(View, frozen=True):
    """The quorum of a sample; voters and observers by node id."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: list[int]
    observers: list[int]


class SampleDocument(View, frozen=True):
    """A sample; `groups` and `quorum` are None where they could not be had."""

    format: Literal["fencepost-console-sample"]
    version: Literal[1]
    taken_at_ms: int
    cluster_id: str
    controller_id: int
    brokers: list[BrokerDocument]
    topics: list[TopicDocument]
    groups: list[GroupDocument] | None
    quorum: QuorumDocument | None

    @classmethod
    def of(cls, sample: Sample) -> SampleDocument:
        """The document of a sample."""
        quorum = sample.quorum
        return cls(
            FORMAT,
            VERSION,
            sample.taken_at_ms,
            sample.cluster_id,
            sample.controller_id,
            [
                BrokerDocument(id_, node.host, node.port, node.rack, id_ in sample.fenced)
                for id_, node in sorted(sample.brokers.items())
            ],
            [_topic_document(topic) for _, topic in sorted(sample.topics.items())],
            None if sample.groups is None else [GroupDocument(*one) for one in sample.groups],
            None
            if quorum is None
            else QuorumDocument(
                quorum.leader_id,
                quorum.leader_epoch,
                quorum.high_watermark,
                sorted(one.node_id for one in quorum.voters),
                sorted(one.node_id for one in quorum.observers),
            ),
        )

    def sample(self) -> Sample:
        """The sample, without what the document leaves out. ValueError for an id of a topic that is
        none."""
        return Sample(
            self.taken_at_ms,
            0.0,
            self.cluster_id,
            self.controller_id,
            {one.id: Node(one.id, one.host, one.port, one.rack) for one in self.brokers},
            frozenset(one.id for one in self.brokers if one.fenced),
            {one.name: _topic(one) for one in self.topics},
            None
            if self.groups is None
            else [
                ListedGroup(one.group, one.state, one.type, one.protocol_type)
                for one in self.groups
            ],
            None if self.quorum is None else _quorum(self.quorum),
            {},
            {},
        )


def _topic_document(topic: TopicInfo) -> TopicDocument:
    return TopicDocument(
        topic.name,
        str(topic.topic_id),
        topic.is_internal,
        [
            PartitionDocument(
                number, one.leader_id, one.leader_epoch, one.replicas, one.isr, one.offline
            )
            for number, one in sorted(topic.partitions.items())
        ],
    )


def _topic(one: TopicDocument) -> TopicInfo:
    return TopicInfo(
        one.name,
        Uuid.from_string(one.id),
        one.internal,
        {
            part.partition: PartitionInfo(
                part.partition,
                part.leader,
                part.leader_epoch,
                part.replicas,
                part.isr,
                part.offline,
            )
            for part in one.partitions
        },
    )


def _quorum(one: QuorumDocument) -> QuorumDescription:
    return QuorumDescription(
        one.leader_id,
        one.leader_epoch,
        one.high_watermark,
        [QuorumReplica(id_, Uuid.ZERO, -1, -1, -1) for id_ in one.voters],
        [QuorumReplica(id_, Uuid.ZERO, -1, -1, -1) for id_ in one.observers],
        {},
    )


class _SectionOfPage(msgspec.Struct):
    document: Any = None


class _SavedPage(msgspec.Struct):
    """The page `sample` as `--once sample --json` prints it: its first section has the document."""

    sections: list[_SectionOfPage] = []


def read_sample(path: Path) -> Sample:
    """The sample in a file that `--once sample --json` wrote. BadSample, with the file's name."""
    try:
        with path.open("rb") as file:
            data = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise BadSample(f"{path}: {error.strerror or error}") from None
    if len(data) > BYTES_MAX:
        raise BadSample(f"{path}: larger than {BYTES_MAX} bytes")
    return parsed_sample(data, f"{path}")


def parsed_sample(data: bytes, name: str) -> Sample:
    """The sample in a page's JSON; BadSample calls the text `name`."""
    wanted = "not a page `fencepost console --once sample --json` printed"
    try:
        page = msgspec.json.decode(data, type=_SavedPage)
        if not page.sections:
            raise BadSample(f"{name}: {wanted}: it has no sections")
        return msgspec.convert(page.sections[0].document, SampleDocument).sample()
    except BadSample:
        raise
    except (ValueError, RecursionError) as error:
        raise BadSample(f"{name}: {wanted}: {error}") from None
