"""A share session of a consumer with one broker, without I/O: requests, and what answers mean.

The broker keeps the partitions that are fetched and the records that are locked for the session's
connection; both sides count its requests (KIP-932). So a session is lost with its connection, and
with an answer that did not come, and another one is opened. Acknowledgements of a lost session
fail: the broker has released its records.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from fencepost.client.connection_core import ConnectionCore
from fencepost.client.consumer_membership import IdPartition
from fencepost.client.conversation import Begun
from fencepost.client.metadata import Node, TopicPartition
from fencepost.client.share_records import Delivered, Said, ShareRecord
from fencepost.wire.api.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from fencepost.wire.api.share_fetch import (
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareFetchRequest,
)
from fencepost.wire.types import Uuid

OPENING: Final = 0
CLOSING: Final = -1
EPOCH_MAX: Final = 2**31 - 1
RENEWING_VERSION: Final = 2
"""First version of both requests with renewals and the exact limit of records."""

Sent = Mapping[TopicPartition, Said]
"""Acknowledgements that a request carries."""


class FetchLimits(NamedTuple):
    """What a fetch asks for. `is_exact` has the broker hold to `max_records` (KIP-1206)."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    is_exact: bool


class PendingFetch(NamedTuple):
    """A fetch on its way: the partitions it is about, the acknowledgements that it carries, and
    for how long from then the broker may have held it."""

    begun: Begun
    wanted: Mapping[IdPartition, TopicPartition]
    sent: Sent
    max_wait_ms: float
    sent_at_ms: float


class Arrived(NamedTuple):
    """Records that a fetch has brought, and that the application has not been given yet. At
    `lapsed_at_ms` they are not locked any more, whenever in its time the broker acquired them."""

    session: ShareSession
    where: TopicPartition
    topic_id: Uuid
    records: list[ShareRecord]
    lapsed_at_ms: float


@dataclass(slots=True, eq=False)
class ShareSession:
    """See the module. A broker takes one request of a session at a time: while there is a `pending`
    fetch, acknowledgements wait for its answer."""

    group_id: str
    member_id: str
    node: Node
    connection: ConnectionCore
    is_lost: bool = False
    pending: PendingFetch | None = None
    epoch: int = OPENING
    fetched: frozenset[IdPartition] = frozenset()
    delivered: dict[TopicPartition, Delivered] = field(default_factory=dict)
    _asked: frozenset[IdPartition] = frozenset()

    @property
    def is_open(self) -> bool:
        """Whether the broker has it."""
        return self.epoch != OPENING and not self.is_lost and self.connection.is_open

    def say(self, where: TopicPartition, offset: int, kind: Any) -> bool:
        """Acknowledge a record that this session has handed out; False for others."""
        delivered = self.delivered.get(where)
        return delivered is not None and delivered.say(offset, kind)

    def outstanding(self) -> bool:
        """Whether anything that was handed out is not settled."""
        return any(
            one.unsaid or one.renewed or one.is_to_be_sent for one in self.delivered.values()
        )

    @property
    def has_to_send(self) -> bool:
        """Whether there are acknowledgements."""
        return any(one.is_to_be_sent for one in self.delivered.values())

    def take(self, only: Collection[TopicPartition] | None = None) -> dict[TopicPartition, Said]:
        """The acknowledgements to send now, of these partitions or of all."""
        return {
            where: one.take()
            for where, one in self.delivered.items()
            if one.is_to_be_sent and (only is None or where in only)
        }

    def renews(self) -> bool:
        """Whether locks are to be renewed, which a fetch does not do."""
        return any(one.renews for one in self.delivered.values())

    # -- requests --------------------------------------------------------------------------------

    def fetch_request(
        self, wanted: Mapping[IdPartition, TopicPartition], limits: FetchLimits, sent: Sent
    ) -> ShareFetchRequest:
        """A fetch of `wanted`, which carries the acknowledgements `sent` of some of these."""
        acknowledged = {
            IdPartition(self.delivered[where].topic_id, where.partition): said.fetch_batches()
            for where, said in sent.items()
        }
        self._asked = frozenset(wanted)
        named = {*(self._asked - self.fetched), *acknowledged}
        return ShareFetchRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            share_session_epoch=self.epoch,
            max_wait_ms=limits.max_wait_ms,
            min_bytes=limits.min_bytes,
            max_bytes=limits.max_bytes,
            max_records=limits.max_records,
            batch_size=limits.max_records,
            share_acquire_mode=int(limits.is_exact),
            topics=[
                FetchTopic(
                    topic_id=topic_id,
                    partitions=[
                        FetchPartition(
                            partition_index=one.partition,
                            acknowledgement_batches=acknowledged.get(one, []),
                        )
                        for one in partitions
                    ],
                )
                for topic_id, partitions in _by_topic(named).items()
            ],
            forgotten_topics_data=[
                ForgottenTopic(topic_id=topic_id, partitions=[one.partition for one in partitions])
                for topic_id, partitions in _by_topic(self.fetched - self._asked).items()
            ],
        )

    def acknowledge_request(self, sent: Sent, *, closes: bool = False) -> ShareAcknowledgeRequest:
        """The acknowledgements by themselves; the end of the session if it `closes`."""
        topics: dict[Uuid, list[AcknowledgePartition]] = {}
        for where, said in sent.items():
            batches = [
                AcknowledgementBatch(
                    first_offset=at.first, last_offset=at.last, acknowledge_types=kinds
                )
                for at, kinds in said.batches()
            ]
            partition = AcknowledgePartition(
                partition_index=where.partition, acknowledgement_batches=batches
            )
            topics.setdefault(self.delivered[where].topic_id, []).append(partition)
        return ShareAcknowledgeRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            share_session_epoch=CLOSING if closes else self.epoch,
            is_renew_ack=any(said.renews for said in sent.values()),
            topics=[
                AcknowledgeTopic(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in sorted(topics.items())
            ],
        )

    # -- answers ---------------------------------------------------------------------------------

    def on_answered(self, *, is_fetch: bool) -> None:
        """The broker has taken a request of the session."""
        self.epoch = self.epoch + 1 if self.epoch < EPOCH_MAX else 1
        if is_fetch:
            self.fetched = self._asked

    def deliver(self, where: TopicPartition, topic_id: Uuid) -> Delivered:
        """What was handed out of a partition: nothing yet of another topic of the same name."""
        known = self.delivered.get(where)
        if known is None or known.topic_id != topic_id:
            known = self.delivered[where] = Delivered(topic_id)
        return known


def _by_topic(partitions: Collection[IdPartition]) -> dict[Uuid, list[IdPartition]]:
    topics: dict[Uuid, list[IdPartition]] = {}
    for one in sorted(partitions):
        topics.setdefault(one.topic_id, []).append(one)
    return topics
