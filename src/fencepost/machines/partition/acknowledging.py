"""When a leader acknowledges what it has appended, and how far consumers may read.

A batch counts when it is durable (`Persisted`): acks=1 is answered then, acks=all when the high
watermark has passed it. What a position of a follower means for the high watermark is
`LeaderState`'s to say (`isr`).
"""

from __future__ import annotations

from typing import Final

from fencepost.machines.effects import Persisted
from fencepost.machines.outbox import StepOutbox
from fencepost.machines.partition.inputs import Produce, ProduceBlock, ProduceResult
from fencepost.machines.partition.part import PartitionPart
from fencepost.machines.partition.queries import PartitionQueries
from fencepost.machines.partition.waiting import NO_DEADLINE_MS, WaitingProduces
from fencepost.wire.errors import ErrorCode

ALL_IN_SYNC: Final = -1
"""The acks of a producer that waits for every in-sync replica."""


class Acknowledging(PartitionPart):
    """Holds the requests that wait, and moves the leader's high watermark."""

    __slots__ = ("for_all", "for_disk")

    def __init__(self, partition: PartitionQueries, outbox: StepOutbox) -> None:
        super().__init__(partition, outbox)
        self.for_all = WaitingProduces(outbox)
        """Those with acks=all, and markers: they wait for the high watermark."""
        self.for_disk = WaitingProduces(outbox)
        """Those with acks=1: they wait for `durable_offset`."""

    def wait(
        self,
        produce: Produce | ProduceBlock,
        last_offset: int,
        result: ProduceResult,
        batches: int = 1,
    ) -> None:
        """Answer a request with acks=1 or acks=all when its last offset counts."""
        if produce.acks == ALL_IN_SYNC:
            self.for_all.add(last_offset, produce.deadline_ms, produce.token, result, batches)
        else:
            self.for_disk.add(last_offset, NO_DEADLINE_MS, produce.token, result, batches)

    def step_persisted(self, persisted: Persisted, now_ms: int) -> None:
        """A flush is done."""
        partition = self._partition
        if persisted.end_offset <= partition.durable_offset:
            return
        # A flush may finish after the log was cut: what is gone is not durable.
        partition.durable_offset = min(persisted.end_offset, partition.log.end_offset)
        self.maybe_advance(now_ms)
        self.for_disk.release(partition.durable_offset)

    def maybe_advance(self, now_ms: int) -> None:
        """Advance the high watermark to the least position that counts, and answer acks=all."""
        partition = self._partition
        leader = partition.leader_state
        if leader is None:
            return
        log_end, durable = partition.log.end_offset, partition.durable_offset
        least = leader.least_position(durable, log_end, partition.config, now_ms)
        if least is None or least <= partition.high_watermark:
            return
        assert least <= durable <= log_end, (least, durable, log_end)
        partition.raise_high_watermark(least)
        self.for_all.release(least)

    def step_deadline(self, now_ms: int) -> None:
        """The timer of requests with acks=all fired."""
        partition = self._partition
        leader, log_end = partition.leader_state, partition.log.end_offset
        followers_end = leader and leader.least_position(log_end, log_end, partition.config, now_ms)
        self.for_all.expire(now_ms, followers_end or 0)

    def refuse_all(self, error: ErrorCode) -> None:
        """This replica acknowledges nothing any more."""
        self.for_disk.refuse_all(error)
        self.for_all.refuse_all(error)
