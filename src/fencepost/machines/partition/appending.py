"""What a leader appends, and when it says so to whom.

Produce, coordinators' batches and markers enter the log here, or are refused; whoever waits is
answered as durability (`Persisted`) and the high watermark come along. What a position of a
follower means for them is `LeaderState`'s to say (`isr`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fencepost.batch.record_batch import RecordBatch
from fencepost.machines.effects import Append, Effect, Persist, Persisted, Reply, SetTimer
from fencepost.machines.partition.following import FollowingPartition
from fencepost.machines.partition.inputs import (
    CoordinatorAppend,
    PartitionConfig,
    Produce,
    ProduceBlock,
    ProduceGroup,
    ProduceResult,
    StartVerification,
    VerificationStarted,
    WriteMarker,
)
from fencepost.machines.partition.isr import LeaderState
from fencepost.machines.partition.queries import LogView
from fencepost.machines.partition.rules import PartitionRules
from fencepost.machines.partition.transactions import Transactions
from fencepost.machines.partition.waiting import NO_DEADLINE_MS, WaitingProduces
from fencepost.wire.errors import ErrorCode

ISR_TIMER: Final = "isr"

ALL_IN_SYNC: Final = -1
"""The acks of a producer that waits for every in-sync replica."""

_NO_ERROR: Final = ErrorCode.NONE


class AppendingPartition(FollowingPartition):
    """A partition's steps that append as its leader, and what makes appends count."""

    def __init__(
        self,
        local_id: int,
        log: LogView,
        *,
        high_watermark: int,
        durable_offset: int,
        config: PartitionConfig,
        rules: PartitionRules,
    ) -> None:
        super().__init__(
            local_id, log, high_watermark=high_watermark, durable_offset=durable_offset, rules=rules
        )
        self.config = config
        self._waiting = WaitingProduces()  # acks=all, for the high watermark
        self._waiting_for_disk = WaitingProduces()  # acks=1, for `durable_offset`
        self._transactions = Transactions(rules)
        # When followers are looked at next, by this leader's clock; None: the timer is not armed.
        self._isr_check_due_ms: int | None = None
        self._wall_ms = 0

    @property
    def effective_min_isr(self) -> int:
        """`min.insync.replicas`, but never more than there are replicas."""
        return min(self.config.min_insync_replicas, self.replica_count)

    @property
    def waiting_produces(self) -> int:
        """How many batches wait to be acknowledged."""
        return len(self._waiting) + len(self._waiting_for_disk)

    def is_in_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether we lead, and the next batch of the producer's transaction needs no ticket."""
        if self._leader_state is None:
            return False
        return self._transactions.is_in_one(self._log.producers, producer_id, producer_epoch)

    def _step_produce(self, produce: Produce, now_ms: int) -> list[Effect]:
        return self._take((produce,), now_ms)

    def _step_produce_group(self, group: ProduceGroup, now_ms: int) -> list[Effect]:
        return self._take(group.produces, now_ms)

    def _step_produce_block(self, produce: ProduceBlock, now_ms: int) -> list[Effect]:
        """All of it is appended and acknowledged as one, where nothing speaks against any of it."""
        leader = self._leader_state
        if leader is None or not self._takes_whole(leader, produce):
            return self._take(produce.one_by_one(), now_ms)
        block = produce.block
        first_offset = self._log.end_offset
        result = ProduceResult(_NO_ERROR, first_offset, -1, self._log.start_offset)
        effects: list[Effect] = [Persist(Append(block, self.leader_epoch))]
        if leader.followers and self._isr_check_due_ms is None:
            self._watch_followers(effects, now_ms)
        if produce.acks == 0:
            effects.append(Reply(produce.token, result))
        else:
            last_offset = first_offset + block.offsets - 1
            self._wait(produce, last_offset, result, effects, len(block))
        return effects

    def _takes_whole(self, leader: LeaderState, produce: ProduceBlock) -> bool:
        """Whether each batch of a block would be appended, with nothing but its offset to say."""
        if self.config.log_append_time:
            return False
        if produce.acks == ALL_IN_SYNC and leader.is_under_min_isr(self.config):
            return False
        written: set[int] = set()
        for _, header in produce.block.producers:
            if header.producer_id not in written:
                verdict = self._log.producers.check(header)
                if not verdict.is_ok:
                    return False
                written.add(header.producer_id)
        return True

    def _take(self, produces: Sequence[Produce], now_ms: int) -> list[Effect]:
        """Append what may be appended, as one piece of work for the disk."""
        leader = self._leader_state
        if leader is None:
            error = self._closed or ErrorCode.NOT_LEADER_OR_FOLLOWER
            return [Reply(produce.token, ProduceResult(error)) for produce in produces]
        log = self._log
        next_offset = log.end_offset
        start_offset = log.start_offset
        append_time_ms = self._wall_ms if self.config.log_append_time else -1
        effects: list[Effect] = []
        batches: list[RecordBatch] = []
        waits: list[Effect] = []
        written: set[int] = set()
        is_under = leader.is_under_min_isr(self.config)
        for produce in produces:
            header = produce.batch.header
            producer_id = header.producer_id
            refused = self._refuse(produce, is_under, producer_id in written)
            if refused is not None:
                effects += refused
                continue
            if producer_id >= 0:
                written.add(producer_id)
            result = ProduceResult(_NO_ERROR, next_offset, append_time_ms, start_offset)
            next_offset += header.last_offset_delta + 1
            batches.append(produce.batch)
            if produce.acks == 0:
                waits.append(Reply(produce.token, result))
            else:
                self._wait(produce, next_offset - 1, result, waits)
        if batches:
            effects.append(Persist(Append(batches, self.leader_epoch)))
            if leader.followers and self._isr_check_due_ms is None:
                self._watch_followers(effects, now_ms)
            effects += waits
        return effects

    def _refuse(
        self, produce: Produce, is_under_min_isr: bool, has_written: bool
    ) -> list[Effect] | None:
        """The answer to a batch that does not enter the log; None if it does.

        One whose producer `has_written` in the same step goes on behind that (`may_follow`).
        """
        acks = produce.acks
        if acks == ALL_IN_SYNC:
            if is_under_min_isr:
                return [Reply(produce.token, self._refusal(ErrorCode.NOT_ENOUGH_REPLICAS))]
        elif acks not in (0, 1):
            return [Reply(produce.token, ProduceResult(ErrorCode.INVALID_REQUIRED_ACKS))]
        header = produce.batch.header
        if header.producer_id < 0 or has_written:
            return None
        log = self._log
        if header.is_transactional:
            verdict = self._transactions.judge(log.producers, produce)
        else:
            verdict = log.producers.check(header)
        if verdict.is_duplicate:
            result = ProduceResult(
                _NO_ERROR,
                verdict.first_offset,
                verdict.timestamp_ms if self.config.log_append_time else -1,
                log.start_offset,
            )
            return self._answer_duplicate(produce, verdict.last_offset, result)
        if not verdict.is_ok:
            return [Reply(produce.token, self._refusal(verdict.error_code))]
        if header.is_transactional:
            self._transactions.written(header)
        return None

    def _refusal(self, error: ErrorCode) -> ProduceResult:
        """The answer to a batch that was looked at, which says where the log starts, as Kafka's."""
        return ProduceResult(error, log_start_offset=self._log.start_offset)

    def _step_coordinator_append(self, request: CoordinatorAppend, now_ms: int) -> list[Effect]:
        leader = self._leader_state
        error = _NO_ERROR
        if self._closed is not None:
            error = self._closed
        elif leader is None or request.leader_epoch != self.leader_epoch:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif leader.is_under_min_isr(self.config):
            error = ErrorCode.NOT_ENOUGH_REPLICAS
        elif request.batch.header.is_transactional:
            error = self._transactions.check_coordinator(self._log.producers, request)
        if error is not _NO_ERROR:
            return [Reply(request.token, ProduceResult(error))]
        first_offset = self._log.end_offset
        result = ProduceResult(_NO_ERROR, first_offset, -1, self._log.start_offset)
        effects: list[Effect] = [
            Persist(Append((request.batch,), self.leader_epoch)),
            Reply(request.token, result),
        ]
        assert leader is not None
        if leader.followers and self._isr_check_due_ms is None:
            self._watch_followers(effects, now_ms)
        return effects

    def _step_start_verification(self, start: StartVerification, now_ms: int) -> list[Effect]:
        if self._leader_state is None:
            error = self._closed or ErrorCode.NOT_LEADER_OR_FOLLOWER
            return [Reply(start.token, VerificationStarted(error))]
        return [Reply(start.token, self._transactions.start(self._log.producers, start))]

    def _step_write_marker(self, marker: WriteMarker, now_ms: int) -> list[Effect]:
        leader = self._leader_state
        error = _NO_ERROR
        if leader is None:
            error = self._closed or ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif leader.is_under_min_isr(self.config):
            error = ErrorCode.NOT_ENOUGH_REPLICAS
        else:
            error = self._transactions.check_marker(self._log.producers, marker)
        if error is not _NO_ERROR:
            return [Reply(marker.token, ProduceResult(error))]
        first_offset = self._log.end_offset
        result = ProduceResult(_NO_ERROR, first_offset, -1, self._log.start_offset)
        effects: list[Effect] = [Persist(Append((marker.batch,), self.leader_epoch))]
        assert leader is not None
        if leader.followers and self._isr_check_due_ms is None:
            self._watch_followers(effects, now_ms)
        self._waiting.add(first_offset, marker.deadline_ms, marker.token, result, effects)
        return effects

    def _wait(
        self,
        produce: Produce | ProduceBlock,
        last_offset: int,
        result: ProduceResult,
        effects: list[Effect],
        batches: int = 1,
    ) -> None:
        if produce.acks == ALL_IN_SYNC:
            waiting, deadline_ms = self._waiting, produce.deadline_ms
        else:
            waiting, deadline_ms = self._waiting_for_disk, NO_DEADLINE_MS
        waiting.add(last_offset, deadline_ms, produce.token, result, effects, batches)

    def _answer_duplicate(
        self, produce: Produce, last_offset: int, result: ProduceResult
    ) -> list[Effect]:
        """A retry is answered like the original, and not before the original can be."""
        done = self.high_watermark if produce.acks == ALL_IN_SYNC else self.durable_offset
        if produce.acks == 0 or last_offset < done:
            return [Reply(produce.token, result)]
        effects: list[Effect] = []
        self._wait(produce, last_offset, result, effects)
        return effects

    def _step_persisted(self, persisted: Persisted, now_ms: int) -> list[Effect]:
        if persisted.end_offset <= self.durable_offset:
            return []
        # A flush may finish after the log was cut: what is gone is not durable.
        self.durable_offset = min(persisted.end_offset, self._log.end_offset)
        effects: list[Effect] = []
        self._maybe_advance(effects, now_ms)
        self._waiting_for_disk.release(self.durable_offset, effects)
        return effects

    def _maybe_advance(self, effects: list[Effect], now_ms: int) -> None:
        """Move the high watermark to where everybody in sync is, and answer who waited for it."""
        leader = self._leader_state
        if leader is None:
            return
        log_end = self._log.end_offset
        least = leader.least_position(self.durable_offset, log_end, self.config, now_ms)
        if least is None or least <= self.high_watermark:
            return
        assert least <= self.durable_offset <= log_end, (least, self.durable_offset, log_end)
        self._raise_high_watermark(least)
        self._waiting.release(least, effects)

    def _watch_followers(self, effects: list[Effect], now_ms: int) -> None:
        interval_ms = max(self.config.replica_lag_time_max_ms // 2, 1)
        self._isr_check_due_ms = now_ms + interval_ms
        effects.append(SetTimer(ISR_TIMER, self._isr_check_due_ms))
