"""Share consumers in one process: each with a connection, for that is what a share session is of.

A consumer acknowledges every record that it acquired with its next fetch, explicitly.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import NamedTuple

from fencepost.batch.records import build_batch
from fencepost.client.aio.connection import AsyncConnection
from fencepost.client.config import ClientConfig
from fencepost.client.connection import Connection
from fencepost.client.errors import ClientError
from fencepost.wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from fencepost.wire.api.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
    ShareFetchResponse,
)
from fencepost.wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

VALUE = b"v" * 100
BATCH = 500
"""Records in a batch that is produced."""
ACCEPT = 1
NOT_LED_YET = frozenset((ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
PATIENCE_S = 120.0
Acks = dict[tuple[Uuid, int], list[AcknowledgementBatch]]


class Consumed(NamedTuple):
    """What share consumers did together."""

    records: int
    seconds: float
    repeated: int
    """Records that were delivered a second time."""


def fill(servers: str, topic: str, partitions: int, records: int) -> int:
    """Produce so many records, spread over the partitions; how many there are."""
    host, _, port = servers.rpartition(":")
    # Records of long ago would be deleted by the first check of retention, half a minute after the
    # broker's start.
    batch = build_batch([(None, VALUE)] * BATCH, timestamp_ms=int(time.time() * 1000))
    made = 0
    with Connection(host, int(port)) as connection:
        while made < records:
            row = PartitionProduceData(index=made // BATCH % partitions, records=batch)
            data = TopicProduceData(name=topic, partition_data=[row])
            request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data])
            (answer,) = connection.request(request, 9).responses[0].partition_responses
            if answer.error_code not in NOT_LED_YET:
                if answer.error_code:
                    raise ClientError("records are not written", code=answer.error_code)
                made += BATCH
    return made


@dataclass
class Consumer:
    """One share consumer and its session."""

    connection: AsyncConnection
    group: str
    member_id: str
    topic: str
    epoch: int = 0
    session_epoch: int = 0
    acquired: int = 0
    repeated: int = 0

    async def join(self, deadline: float) -> list[tuple[Uuid, int]]:
        """Heartbeats until it is given partitions; those."""
        while time.monotonic() < deadline:
            request = ShareGroupHeartbeatRequest(
                group_id=self.group,
                member_id=self.member_id,
                member_epoch=self.epoch,
                subscribed_topic_names=[self.topic],
            )
            answer = await self.connection.request(request, 1)
            if answer.error_code:
                raise ClientError("a member cannot join", code=answer.error_code)
            self.epoch = answer.member_epoch
            if answer.assignment is not None and answer.assignment.topic_partitions:
                rows = answer.assignment.topic_partitions
                return [(row.topic_id, number) for row in rows for number in row.partitions]
            await asyncio.sleep(0.1)
        raise ClientError("a member is given nothing")

    async def fetch(self, partitions: list[tuple[Uuid, int]], acks: Acks, last: bool) -> Acks:
        """Fetch once with these acknowledgements; those of what it acquired."""
        named = partitions if self.session_epoch == 0 else list(acks)
        by_topic: dict[Uuid, list[FetchPartition]] = {}
        for topic, number in named:
            batches = acks.get((topic, number), [])
            row = FetchPartition(partition_index=number, acknowledgement_batches=batches)
            by_topic.setdefault(topic, []).append(row)
        request = ShareFetchRequest(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=-1 if last else self.session_epoch,
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=50 << 20,
            max_records=BATCH,
            batch_size=BATCH,
            topics=[FetchTopic(topic_id=one, partitions=rows) for one, rows in by_topic.items()],
        )
        answer = await self.connection.request(request, 1)
        if answer.error_code:
            raise ClientError("a share fetch fails", code=answer.error_code)
        self.session_epoch += 1
        return self._take(answer)

    def _take(self, answer: ShareFetchResponse) -> Acks:
        acks: Acks = {}
        for topic in answer.responses:
            for row in topic.partitions:
                if row.error_code or row.acknowledge_error_code:
                    code = row.error_code or row.acknowledge_error_code
                    raise ClientError("a share partition fails", code=code)
                for one in row.acquired_records:
                    count = one.last_offset - one.first_offset + 1
                    self.acquired += count
                    self.repeated += count if one.delivery_count > 1 else 0
                    batch = AcknowledgementBatch(
                        first_offset=one.first_offset,
                        last_offset=one.last_offset,
                        acknowledge_types=[ACCEPT],
                    )
                    acks.setdefault((topic.topic_id, row.partition_index), []).append(batch)
        return acks


async def consume(servers: str, group: str, topic: str, consumers: int, records: int) -> Consumed:
    """Let so many consumers read until they have acquired so many records, and acknowledge them.

    ClientError if one of them fails, AssertionError after `PATIENCE_S`.
    """
    host, _, port = servers.rpartition(":")
    config = ClientConfig(bootstrap_servers=servers)
    crowd = [
        Consumer(await AsyncConnection.open(config, host, int(port)), group, f"member-{n}", topic)
        for n in range(consumers)
    ]
    deadline = time.monotonic() + PATIENCE_S
    try:
        await asyncio.gather(*(one.join(deadline) for one in crowd))
        # The last to join decided what each of them has now.
        shares = await asyncio.gather(*(one.join(deadline) for one in crowd))
        began = time.monotonic()

        def is_done() -> bool:
            assert time.monotonic() < deadline, "share consumers do not get there"
            return sum(one.acquired - one.repeated for one in crowd) >= records

        async def read(one: Consumer, partitions: list[tuple[Uuid, int]]) -> None:
            acks: Acks = {}
            while not is_done():
                acks = await one.fetch(partitions, acks, last=False)
            await one.fetch(partitions, acks, last=True)

        await asyncio.gather(*(read(*pair) for pair in zip(crowd, shares, strict=True)))
        took_s = time.monotonic() - began
        acquired, repeated = (
            sum(getattr(one, n) for one in crowd) for n in ("acquired", "repeated")
        )
        return Consumed(acquired, took_s, repeated)
    finally:
        for one in crowd:
            one.connection.close()
