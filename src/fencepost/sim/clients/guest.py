"""A client with a name, which may do what ACLs say: it fetches, and asks where partitions end."""

from __future__ import annotations

from typing import Any, Final

from fencepost.sim.clients.client import Client
from fencepost.sim.clients.consumer import CONSUMER
from fencepost.sim.partition_oracle import PartitionKey
from fencepost.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from fencepost.wire.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

EVERY_MS: Final = 200
MAX_WAIT_MS: Final = 600
BYTES: Final = 1_000
AHEAD: Final = 3
"""How far behind the end of what may be read a fetch may begin, and so wait for what comes."""
_LATEST: Final = -1


class Guest(Client):
    """See the module docstring."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.allowed = 0
        self.refused = 0
        self._waits = False

    def begin(self) -> None:
        self.later(2 * EVERY_MS, self._turn)

    def _turn(self) -> None:
        self.begin()
        keys = [] if self.is_closing or self._waits else self.partitions()
        if not keys:
            return
        key = keys[self.lane.pick(len(keys))]
        leader = self.leader_of(key)
        if leader is None:
            return
        if self.lane.pick(2):
            self.latest(key, leader)
        else:
            visible = self.world.observer.oracle.partitions.visible_offset(key)
            offset = max(visible - self.lane.pick(AHEAD), 0)
            self.fetch(key, leader, offset, self.lane.pick(2) * MAX_WAIT_MS)

    def fetch(self, key: PartitionKey, broker_id: int, offset: int, max_wait_ms: int = 0) -> None:
        """Ask for the records at that offset, which takes READ."""
        asked = FetchPartition(partition=key[1], fetch_offset=offset, partition_max_bytes=BYTES)
        topic = FetchTopic(topic=self.name_of(key) or "", topic_id=key[0], partitions=[asked])
        request = FetchRequest(
            replica_id=CONSUMER,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=BYTES,
            session_epoch=-1,
            topics=[topic],
        )
        self._ask(broker_id, request)

    def latest(self, key: PartitionKey, broker_id: int) -> None:
        """Ask where the partition ends, which takes DESCRIBE."""
        name = self.name_of(key)
        if name is None:
            return
        one = ListOffsetsPartition(partition_index=key[1], timestamp=_LATEST)
        topic = ListOffsetsTopic(name=name, partitions=[one])
        self._ask(broker_id, ListOffsetsRequest(replica_id=CONSUMER, topics=[topic]))

    def _ask(self, broker_id: int, request: Message) -> None:
        self._waits = True

        def answered(response: Any) -> None:
            self._waits = False
            topics = getattr(response, "topics", None) or getattr(response, "responses", None)
            if not topics:
                self.on_outcome("no answer")
                return
            part = topics[0].partitions[0]
            error = ErrorCode(part.error_code)
            if error is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                self.refused += 1
            elif error is ErrorCode.NONE:
                self.allowed += 1
            has_records = " with records" if getattr(part, "records", None) else ""
            self.on_outcome(f"{error.name}{has_records}")

        self.ask(broker_id, request, answered)
