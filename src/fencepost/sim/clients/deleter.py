"""A client that has records deleted (KIP-107): logs begin later, and readers are too late."""

from __future__ import annotations

from typing import Any, Final

from fencepost.sim.clients.client import Client
from fencepost.sim.oracle import Violation
from fencepost.sim.partition_oracle import PartitionKey
from fencepost.wire.api.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from fencepost.wire.errors import ErrorCode

EVERY_MS: Final = 2_000
TIMEOUT_MS: Final = 1_000

_EXPECTED: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


class Deleter(Client):
    """See the module docstring."""

    def begin(self) -> None:
        self.later(2 * EVERY_MS, self._turn)

    def _turn(self) -> None:
        self.begin()
        keys = [] if self.is_closing else self.partitions()
        if not keys:
            return
        key = keys[self.lane.pick(len(keys))]
        visible = self.world.observer.oracle.partitions.visible_offset(key)
        self.delete(key, self.lane.pick(visible + 1))

    def delete(self, key: PartitionKey, offset: int) -> None:
        """Have the leader delete what stands below `offset`, once."""
        topic, leader = self.name_of(key), self.leader_of(key)
        if topic is None or leader is None:
            return
        self.world.observer.oracle.partitions.may_delete(key, offset)
        partition = DeleteRecordsPartition(partition_index=key[1], offset=offset)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=topic, partitions=[partition])], timeout_ms=TIMEOUT_MS
        )
        self.ask(leader, request, self._answered)

    def _answered(self, response: Any) -> None:
        if response is None:
            self.on_outcome("no answer")
            return
        answer = response.topics[0].partitions[0]
        error = ErrorCode(answer.error_code)
        self.world.trace.note(f"deleted {int(error)} {answer.low_watermark}")
        if error not in _EXPECTED:
            raise Violation("unforeseen", f"client {self.id} is answered {error.name}")
        self.on_outcome(f"{error.name}, low watermark {answer.low_watermark}")
