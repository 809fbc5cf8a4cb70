"""What a leader appends: clients' batches, those of coordinators, and markers.

Each enters the log here, or is refused. `Acknowledging` answers the requests that wait, as
durability and the high watermark come along.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fencepost.batch.record_batch import RecordBatch
from fencepost.machines.effects import Append, Persist
from fencepost.machines.outbox import StepOutbox
from fencepost.machines.partition.acknowledging import ALL_IN_SYNC, Acknowledging
from fencepost.machines.partition.in_sync import InSync
from fencepost.machines.partition.inputs import (
    CoordinatorAppend,
    Produce,
    ProduceBlock,
    ProduceGroup,
    ProduceResult,
    StartVerification,
    VerificationStarted,
    WriteMarker,
)
from fencepost.machines.partition.isr import LeaderState
from fencepost.machines.partition.part import PartitionPart
from fencepost.machines.partition.queries import PartitionQueries
from fencepost.machines.partition.transactions import Transactions
from fencepost.wire.errors import ErrorCode

_NO_ERROR: Final = ErrorCode.NONE


class Appending(PartitionPart):
    """Appends as the leader."""

    __slots__ = ("_acknowledging", "_in_sync", "transactions")

    def __init__(
        self,
        partition: PartitionQueries,
        outbox: StepOutbox,
        acknowledging: Acknowledging,
        in_sync: InSync,
    ) -> None:
        super().__init__(partition, outbox)
        self._acknowledging = acknowledging
        self._in_sync = in_sync
        self.transactions = Transactions(partition.rules)

    # Clients' batches

    def step_produce(self, produce: Produce, now_ms: int) -> None:
        """One batch."""
        self._take((produce,), now_ms)

    def step_produce_group(self, group: ProduceGroup, now_ms: int) -> None:
        """Batches of several requests, for one write."""
        self._take(group.produces, now_ms)

    def step_produce_block(self, produce: ProduceBlock, now_ms: int) -> None:
        """All of it is appended and acknowledged as one, where nothing speaks against any of it."""
        partition = self._partition
        leader = partition.leader_state
        if leader is None or not self._takes_whole(leader, produce):
            self._take(produce.one_by_one(), now_ms)
            return
        block, log = produce.block, partition.log
        first_offset = log.end_offset
        result = ProduceResult(_NO_ERROR, first_offset, -1, log.start_offset)
        self._append(leader, block, now_ms)
        if produce.acks == 0:
            self._outbox.reply(produce.token, result)
        else:
            last_offset = first_offset + block.offsets - 1
            self._acknowledging.wait(produce, last_offset, result, len(block))

    def _append(self, leader: LeaderState, batches: Sequence[RecordBatch], now_ms: int) -> None:
        self._outbox.emit(Persist(Append(batches, self._partition.leader_epoch)))
        if leader.followers and self._in_sync.check_due_ms is None:
            self._in_sync.watch(now_ms)

    def _takes_whole(self, leader: LeaderState, produce: ProduceBlock) -> bool:
        """Whether each batch of a block would be appended, with nothing but its offset to say."""
        partition = self._partition
        if partition.config.log_append_time:
            return False
        if produce.acks == ALL_IN_SYNC and leader.is_under_min_isr(partition.config):
            return False
        producers = partition.log.producers
        written: set[int] = set()
        for _, header in produce.block.producers:
            if header.producer_id not in written:
                verdict = producers.check(header)
                if not verdict.is_ok:
                    return False
                written.add(header.producer_id)
        return True

    def _take(self, produces: Sequence[Produce], now_ms: int) -> None:
        """Append what may be appended, as one piece of work for the disk.

        What is done with acks=0 is answered behind the append: a disk that refuses is still heard.
        """
        partition = self._partition
        leader = partition.leader_state
        if leader is None:
            error = partition.closed or ErrorCode.NOT_LEADER_OR_FOLLOWER
            for produce in produces:
                self._outbox.reply(produce.token, ProduceResult(error))
            return
        log = partition.log
        next_offset = log.end_offset
        start_offset = log.start_offset
        append_time_ms = partition.wall_ms if partition.config.log_append_time else -1
        batches: list[RecordBatch] = []
        done: list[tuple[Any, ProduceResult]] = []
        wait = self._acknowledging.wait
        written: set[int] = set()
        is_under = leader.is_under_min_isr(partition.config)
        for produce in produces:
            header = produce.batch.header
            producer_id = header.producer_id
            if self._refuses(produce, is_under, producer_id in written):
                continue
            if producer_id >= 0:
                written.add(producer_id)
            result = ProduceResult(_NO_ERROR, next_offset, append_time_ms, start_offset)
            next_offset += header.last_offset_delta + 1
            batches.append(produce.batch)
            if produce.acks == 0:
                done.append((produce.token, result))
            else:
                wait(produce, next_offset - 1, result)
        if batches:
            self._append(leader, batches, now_ms)
            for token, result in done:
                self._outbox.reply(token, result)

    def _refuses(self, produce: Produce, is_under_min_isr: bool, has_written: bool) -> bool:
        """Whether a batch does not enter the log; then it has its answer, or waits for it.

        One whose producer `has_written` in the same step goes on behind that (`may_follow`).
        """
        acks = produce.acks
        if acks == ALL_IN_SYNC:
            if is_under_min_isr:
                self._refuse(produce, ErrorCode.NOT_ENOUGH_REPLICAS)
                return True
        elif acks not in (0, 1):
            self._outbox.reply(produce.token, ProduceResult(ErrorCode.INVALID_REQUIRED_ACKS))
            return True
        header = produce.batch.header
        if header.producer_id < 0 or has_written:
            return False
        producers = self._partition.log.producers
        if header.is_transactional:
            verdict = self.transactions.judge(producers, produce)
        else:
            verdict = producers.check(header)
        if verdict.is_duplicate:
            partition = self._partition
            result = ProduceResult(
                _NO_ERROR,
                verdict.first_offset,
                verdict.timestamp_ms if partition.config.log_append_time else -1,
                partition.log.start_offset,
            )
            self._answer_duplicate(produce, verdict.last_offset, result)
            return True
        if not verdict.is_ok:
            self._refuse(produce, verdict.error_code)
            return True
        if header.is_transactional:
            self.transactions.written(header)
        return False

    def _refuse(self, produce: Produce, error: ErrorCode) -> None:
        """Answer a batch that was looked at, and say where the log starts, as Kafka does."""
        start_offset = self._partition.log.start_offset
        self._outbox.reply(produce.token, ProduceResult(error, log_start_offset=start_offset))

    def _answer_duplicate(self, produce: Produce, last_offset: int, result: ProduceResult) -> None:
        """A retry is answered like the original, and not before the original can be."""
        partition = self._partition
        is_for_all = produce.acks == ALL_IN_SYNC
        done = partition.high_watermark if is_for_all else partition.durable_offset
        if produce.acks == 0 or last_offset < done:
            self._outbox.reply(produce.token, result)
        else:
            self._acknowledging.wait(produce, last_offset, result)

    # Coordinators: their own records, and transactions

    def step_coordinator_append(self, request: CoordinatorAppend, now_ms: int) -> None:
        """A coordinator of this broker writes to the partition that it keeps its state in."""
        partition = self._partition
        leader = partition.leader_state
        error = _NO_ERROR
        if partition.closed is not None:
            error = partition.closed
        elif leader is None or request.leader_epoch != partition.leader_epoch:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif leader.is_under_min_isr(partition.config):
            error = ErrorCode.NOT_ENOUGH_REPLICAS
        elif request.batch.header.is_transactional:
            error = self.transactions.check_coordinator(partition.log.producers, request)
        if error is not _NO_ERROR:
            self._outbox.reply(request.token, ProduceResult(error))
            return
        assert leader is not None
        log = partition.log
        result = ProduceResult(_NO_ERROR, log.end_offset, -1, log.start_offset)
        self._append(leader, (request.batch,), now_ms)
        self._outbox.reply(request.token, result)

    def step_start_verification(self, start: StartVerification, now_ms: int) -> None:
        """A producer wants to begin a transaction here."""
        partition = self._partition
        if partition.leader_state is None:
            error = partition.closed or ErrorCode.NOT_LEADER_OR_FOLLOWER
            self._outbox.reply(start.token, VerificationStarted(error))
        else:
            started = self.transactions.start(partition.log.producers, start)
            self._outbox.reply(start.token, started)

    def step_write_marker(self, marker: WriteMarker, now_ms: int) -> None:
        """A transaction coordinator ends a transaction."""
        partition = self._partition
        leader = partition.leader_state
        error = _NO_ERROR
        if leader is None:
            error = partition.closed or ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif leader.is_under_min_isr(partition.config):
            error = ErrorCode.NOT_ENOUGH_REPLICAS
        else:
            error = self.transactions.check_marker(partition.log.producers, marker)
        if error is not _NO_ERROR:
            self._outbox.reply(marker.token, ProduceResult(error))
            return
        assert leader is not None
        log = partition.log
        first_offset = log.end_offset
        result = ProduceResult(_NO_ERROR, first_offset, -1, log.start_offset)
        self._append(leader, (marker.batch,), now_ms)
        self._acknowledging.for_all.add(first_offset, marker.deadline_ms, marker.token, result)
