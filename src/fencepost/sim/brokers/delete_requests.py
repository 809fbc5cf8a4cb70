"""What a simulated broker answers to DeleteRecords: its partition's answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fencepost.machines.partition import AdvanceLogStart, DeleteRecordsResult
from fencepost.sim.brokers.process import BrokerProcess
from fencepost.wire.api.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from fencepost.wire.errors import ErrorCode

Reply = Callable[[Any], None]


def delete_records(broker: BrokerProcess, request: DeleteRecordsRequest, reply: Reply) -> None:
    """Move the start of one partition's log."""
    (topic,) = request.topics
    (asked,) = topic.partitions

    def told(result: DeleteRecordsResult) -> None:
        answer = DeleteRecordsPartitionResult(
            partition_index=asked.partition_index,
            low_watermark=result.low_watermark,
            error_code=int(result.error_code),
        )
        named = DeleteRecordsTopicResult(name=topic.name, partitions=[answer])
        reply(DeleteRecordsResponse(topics=[named]))

    hosted = broker.replicas.get(topic.name, asked.partition_index)
    if isinstance(hosted, ErrorCode):
        told(DeleteRecordsResult(hosted))
        return
    deadline_ms = broker.clocks.now_ms() + request.timeout_ms
    broker.ports.driver.feed(hosted.key, AdvanceLogStart(asked.offset, told, deadline_ms))
