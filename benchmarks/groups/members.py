"""Many members of consumer groups in one process: raw heartbeats over a few connections.

A member does what a consumer does and nothing else: it gives up at once what is revoked, says so
with its next heartbeat, which it sends without waiting, and otherwise sends one every interval.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from fencepost.client.aio.connection import AsyncConnection
from fencepost.client.config import ClientConfig
from fencepost.client.errors import ClientError
from fencepost.wire.api.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

CONNECTIONS = 8
MEMBERS_OF_CONNECTION_MAX = 500
"""A member has one heartbeat in flight, and a connection has only so many of them."""
VERSION = 1
PATIENCE_S = 120.0
REJOINED_AFTER = frozenset((ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH))
SENT_AGAIN_AFTER = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )
)
Owned = frozenset[tuple[Uuid, int]]


@dataclass
class Member:
    """One member, and what it owns."""

    group: str
    member_id: str
    topic: str
    epoch: int = 0
    owned: Owned = frozenset()
    heartbeats: int = 0
    is_stale: bool = True
    """Whether it has something to say before the interval is over."""

    def request(self) -> ConsumerGroupHeartbeatRequest:
        """Its next heartbeat: full when it joins, else only what changed."""
        if self.epoch == 0:
            return ConsumerGroupHeartbeatRequest(
                group_id=self.group,
                member_id=self.member_id,
                rebalance_timeout_ms=300_000,
                subscribed_topic_names=[self.topic],
                topic_partitions=[],
            )
        partitions = _rows(self.owned) if self.is_stale else None
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            topic_partitions=partitions,
        )

    def apply(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        """Take over what the coordinator answered; ClientError for what no member expects."""
        self.heartbeats += 1
        if answer.error_code in REJOINED_AFTER:
            self.epoch, self.owned, self.is_stale = 0, frozenset(), True
            return
        if answer.error_code in SENT_AGAIN_AFTER:
            return
        if answer.error_code:
            raise ClientError(f"{self.member_id}: a heartbeat is refused", code=answer.error_code)
        self.is_stale = False
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            given = _partitions(answer.assignment.topic_partitions)
            self.is_stale = given != self.owned
            self.owned = given

    def leaving(self) -> ConsumerGroupHeartbeatRequest:
        """The heartbeat with which it leaves."""
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group, member_id=self.member_id, member_epoch=-1
        )


def _rows(owned: Owned) -> list[TopicPartitions]:
    by_topic: dict[Uuid, list[int]] = {}
    for topic, number in sorted(owned):
        by_topic.setdefault(topic, []).append(number)
    return [TopicPartitions(topic_id=one, partitions=many) for one, many in by_topic.items()]


def _partitions(rows: list[TopicPartitions]) -> Owned:
    return frozenset((row.topic_id, number) for row in rows for number in row.partitions)


class Reached(NamedTuple):
    """How long it took until something was true of all members, and how many heartbeats."""

    seconds: float
    heartbeats: int


@dataclass
class Crowd:
    """Members of one group or of many, which heartbeat as long as `drive` runs."""

    members: list[Member]
    interval_s: float
    connections: list[AsyncConnection] = field(default_factory=list)

    async def open(self, servers: str) -> None:
        """Open the connections to the one broker at `servers`, which coordinates all groups."""
        host, _, port = servers.rpartition(":")
        config = ClientConfig(bootstrap_servers=servers)
        for _ in range(max(CONNECTIONS, len(self.members) // MEMBERS_OF_CONNECTION_MAX)):
            self.connections.append(await AsyncConnection.open(config, host, int(port)))

    def close(self) -> None:
        for connection in self.connections:
            connection.close()
        self.connections.clear()

    @property
    def heartbeats(self) -> int:
        """Answered, by all members together."""
        return sum(member.heartbeats for member in self.members)

    async def beat_until(self, is_reached: Callable[[], bool]) -> Reached:
        """Let all members heartbeat until something is true; AssertionError after `PATIENCE_S`."""
        began, before = time.monotonic(), self.heartbeats
        tasks = [
            asyncio.create_task(self._live(member, number / max(1, len(self.members))))
            for number, member in enumerate(self.members)
        ]
        try:
            while not is_reached():
                for task in tasks:
                    if task.done():
                        task.result()
                assert time.monotonic() - began < PATIENCE_S, "members do not get there"
                await asyncio.sleep(max(0.005, len(self.members) * 1e-5))
            return Reached(time.monotonic() - began, self.heartbeats - before)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def beat_for(self, seconds: float) -> Reached:
        """Let all members heartbeat for so long."""
        ends = time.monotonic() + seconds
        return await self.beat_until(lambda: time.monotonic() >= ends)

    async def leave(self, member: Member) -> None:
        """Take a member out of the group, unless its session is over by now."""
        answer = await self.connections[0].request(member.leaving(), VERSION)
        if answer.error_code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID):
            raise ClientError("a member cannot leave", code=answer.error_code)
        self.members.remove(member)

    async def _live(self, member: Member, share: float) -> None:
        """One member's heartbeats; their beginnings are spread over the interval."""
        connection = self.connections[hash(member.member_id) % len(self.connections)]
        if not member.is_stale:
            await asyncio.sleep(share * self.interval_s)
        while True:
            request = member.request()
            member.apply(await connection.request(request, VERSION, timeout_ms=PATIENCE_S * 1e3))
            if not member.is_stale:
                await asyncio.sleep(self.interval_s)


def crowd_of(count: int, group: str, topic: str, interval_s: float) -> Crowd:
    """Members of one group."""
    members = [Member(group, f"member-{number:05}", topic) for number in range(count)]
    return Crowd(members, interval_s)


def all_own(crowd: Crowd, partitions: int) -> bool:
    """Whether every partition has one member, and every member has its share and has said so."""
    share = partitions // len(crowd.members)
    for member in crowd.members:
        if member.is_stale or not share <= len(member.owned) <= share + 1:
            return False
    held = [one for member in crowd.members for one in member.owned]
    return len(held) == len(set(held)) == partitions
