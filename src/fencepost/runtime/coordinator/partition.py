"""`LedPartition`: the partition of a coordinator, led by this node, over the partition's machine.

A coordinator writes for the leader epoch in which it was loaded. If that is over, its records are
refused and the high watermark tells it nothing: the log may have been cut and filled by another
leader since, so that an offset says nothing about who wrote the record at it (KAFKA-20634).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from msgspec.structs import replace

from fencepost.batch.record_batch import RecordBatch
from fencepost.log.partition_log import PartitionLog
from fencepost.machines.coordinator import Producer, TransactionEnd
from fencepost.machines.driver import Driver
from fencepost.machines.partition import (
    AdvanceLogStart,
    CoordinatorAppend,
    Partition,
    ProduceResult,
)
from fencepost.wire.errors import ErrorCode

OnAppended = Callable[[ErrorCode, int], None]
"""Hears of an append: (NONE, the offset behind it), or (why it was refused, -1)."""


class LedPartition:
    """See the module docstring."""

    def __init__(
        self, driver: Driver, key: Hashable, machine: Partition, partition_log: PartitionLog
    ) -> None:
        self._driver = driver
        self.key = key
        self.machine = machine
        self.log = partition_log

    def __str__(self) -> str:
        return str(self.key)

    def replace_log(self, partition_log: PartitionLog) -> None:
        """The log has moved to another directory."""
        self.log = partition_log

    def is_led_in(self, leader_epoch: int) -> bool:
        """Whether this node leads the partition, and in that epoch."""
        return self.machine.is_leader and self.machine.leader_epoch == leader_epoch

    def committed_offset(self, leader_epoch: int) -> int:
        """The high watermark, as far as it counts for a coordinator of that epoch; else -1."""
        return self.machine.high_watermark if self.is_led_in(leader_epoch) else -1

    @property
    def max_batch_bytes(self) -> int:
        """The largest batch it takes (`max.message.bytes`)."""
        return self.log.config.max_message_bytes

    def append(
        self,
        data: bytearray,
        leader_epoch: int,
        on_appended: OnAppended,
        *,
        producer: Producer | None = None,
        end: TransactionEnd | None = None,
    ) -> None:
        """Append a batch if enough replicas are in sync; to hear of it at once, or soon.

        It is part of that `producer`'s transaction, or the marker of its `end`.
        """
        batch = RecordBatch.parse(data)

        def on_result(result: ProduceResult) -> None:
            if result.error_code is ErrorCode.NONE:
                next_offset = result.base_offset + batch.header.last_offset_delta + 1
                on_appended(ErrorCode.NONE, next_offset)
            else:
                on_appended(result.error_code, -1)

        append = CoordinatorAppend(batch, leader_epoch, on_result)
        if producer is not None:
            append = replace(append, ticket=producer.ticket)
        elif end is not None:
            append = replace(
                append,
                coordinator_epoch=end.coordinator_epoch,
                transaction_version=end.transaction_version,
            )
        self._driver.feed(self.key, append)

    def advance_log_start(self, offset: int, leader_epoch: int) -> None:
        """Delete the records below `offset`, which is committed, if this node leads in the epoch.

        A log that begins there already, or later, stays as it is.
        """
        if self.is_led_in(leader_epoch) and offset > self.log.start_offset:
            self._driver.feed(self.key, AdvanceLogStart(offset))
