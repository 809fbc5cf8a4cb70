"""Clients' batches for one partition that come together are one step, one write, one flush request.

Theory of operation
-------------------
The handlers of Produce give each batch to `add`; nothing happens to it before `settle`, which is
called when the turn of the event loop ends (`read_done` and `soon` see to that), when enough has
been collected, and before any other kind of request is handled, so that requests of a connection
take effect in their order. Then each partition's machine gets all its batches at once
(`ProduceGroup`). Under load that is most of what an append costs: the step, the write and the flush
request are shared. A client that is alone need not wait for others: what it sent is settled when it
has been read.

A group is what the machine and the log can take in one go. A batch that may not follow one of the
same producer without another look (`may_follow`) has the group in front of it settled first, and
begins the next one. One too large to be copied is not collected, as receive buffers are used again,
nor is one with a ticket, the first of its transaction: those behind it find the transaction open
already. Nor is one that might begin a segment (`PartitionLog.newest_collected_ms`): that takes
milliseconds, and a client can have each of its batches do it, so the loop looks at the time between
them. Where the segment has no room for a group all the same, its batches are appended one by one,
with the files that each needs opened before (`open_files`).

Plain batches are not handled one by one: `ProduceInBlocks` puts them into a block (`block_for`),
which has nothing but plain batches of one acks and one timeout, and is a group of its own
(`ProduceBlock`). Blocks and other groups of a partition are settled in the order in which they were
begun, so that batches keep theirs.

A partition may go between `add` and `settle`; its batches are then refused, with the error that a
client meets when it comes too late.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from fencepost.batch import backend
from fencepost.batch.header import BatchHeader
from fencepost.batch.record_batch import RecordBatch
from fencepost.log.rolling import NO_MS
from fencepost.machines.driver import Driver
from fencepost.machines.partition import (
    NO_TICKET,
    Produce,
    ProduceBlock,
    ProduceGroup,
    ProduceResult,
    may_follow,
)
from fencepost.runtime.clock import Clocks
from fencepost.runtime.replicas import HostedPartition
from fencepost.wire.errors import ErrorCode

log = logging.getLogger(__name__)

COPIED_BYTES_MAX: Final = 32 * 1024
"""A larger batch is appended at once rather than copied; the kernel's bounds are the same
(`_produce_runs.pxi`)."""
GROUP_BATCHES_MAX: Final = 500
COLLECTED_BYTES_MAX: Final = 1024 * 1024
"""Of all groups together; with more of it waiting they are settled at once."""
BLOCK_CLASSES: Final = (BatchHeader, RecordBatch, may_follow)
NO_FILES: Final = ProduceResult(
    ErrorCode.KAFKA_STORAGE_ERROR,
    error_message="the broker has no file descriptor for it now (ulimit -n)",
)


class _Group:
    """What has come for one partition, in its order."""

    __slots__ = ("fails", "hosted", "last_of", "newest_ms", "produces")

    def __init__(self, hosted: HostedPartition, newest_ms: int) -> None:
        self.hosted = hosted
        self.newest_ms = newest_ms
        self.produces: list[Produce] = []
        self.fails: list[Callable[[], None]] = []
        self.last_of: dict[int, BatchHeader] = {}

    def takes(self, header: BatchHeader) -> bool:
        """Whether a batch may join those that are here."""
        if len(self.produces) >= GROUP_BATCHES_MAX or header.max_timestamp > self.newest_ms:
            return False
        if header.producer_id < 0:
            return True
        before = self.last_of.get(header.producer_id)
        return before is None or may_follow(before, header)


class CombinedAppends:
    """Those of one node; see the module docstring."""

    def __init__(
        self,
        driver: Driver,
        clocks: Clocks,
        soon: Callable[[Callable[[], None]], object],
        open_files: Callable[[HostedPartition, BatchHeader, int], bool],
    ) -> None:
        """`soon` has a callback called at the end of this turn. `open_files(hosted, header,
        wall_ms)` has what an append needs opened, or says that there is no descriptor for it."""
        self._driver = driver
        self._clocks = clocks
        self._soon = soon
        self._open_files = open_files
        self._groups: dict[HostedPartition, Any] = {}
        """A `_Group`, or a block."""
        self.open_blocks: dict[bytes, Any] = {}
        """The blocks that `ProduceInBlocks` fills, by what clients call their partitions."""
        self._size_bytes = 0
        self._is_scheduled = False
        self._last_reader = -1

    def add(self, hosted: HostedPartition, produce: Produce, fail: Callable[[], None]) -> None:
        """Have the partition's machine take `produce`, whose token gets the result.

        The caller sees to it that `read_done` or `settle` is called, too. `fail` is called
        instead if the machine breaks down over it.
        """
        batch, acks, token, deadline_ms, ticket = produce
        header, data = batch
        group = self._groups.get(hosted)
        if group is not None and (type(group) is not _Group or not group.takes(header)):
            self._settle_group(self._groups.pop(hosted))
            group = None
        is_alone = len(data) > COPIED_BYTES_MAX or ticket > NO_TICKET
        if is_alone and group is not None:
            self._settle_group(self._groups.pop(hosted))
        if is_alone or group is None:
            group = _Group(
                hosted, NO_MS if is_alone else self._newest_ms(hosted, self._clocks.wall_ms())
            )
            if is_alone or not group.takes(header):
                group.produces.append(produce)
                group.fails.append(fail)
                self._settle_group(group)
                return
            self._groups[hosted] = group
        kept = RecordBatch(header, bytearray(data))
        group.produces.append(Produce(kept, acks, token, deadline_ms, ticket))
        group.fails.append(fail)
        if header.producer_id >= 0:
            group.last_of[header.producer_id] = header
        self._size_bytes += len(data)
        if self._size_bytes > COLLECTED_BYTES_MAX:
            self.settle()

    def block_for(
        self,
        hosted: HostedPartition,
        acks: int,
        timeout_ms: int,
        on_told: Callable[..., None],
    ) -> Any:
        """The `_produce.Block` that takes the partition's next plain batches, whose requests have
        such acks and timeout. The topic must store what producers send. `on_told` is called with
        the result of it, or of a part of it. The caller, which fills it, calls `filled`."""
        block = self._open_block(hosted, acks, timeout_ms)
        if block is not None:
            return block
        return self._begin_block(hosted, acks, timeout_ms, on_told)

    def block_behind(self, block: Any, on_told: Callable[..., None]) -> Any:
        """Where batches go on that a block does not take any more."""
        hosted: HostedPartition = block.target
        if self._groups.get(hosted) is block:
            self._settle_group(self._groups.pop(hosted))
        acks, timeout_ms = block.acks, block.timeout_ms
        behind = self._open_block(hosted, acks, timeout_ms)
        if behind is not None:  # it may be empty
            return behind
        return self._begin_block(hosted, acks, timeout_ms, on_told)

    def _open_block(self, hosted: HostedPartition, acks: int, timeout_ms: int) -> Any | None:
        """The block of such requests that is open; whatever else is collected is settled."""
        group: Any = self._groups.get(hosted)
        if group is None:
            return None
        if type(group) is not _Group and (group.acks, group.timeout_ms) == (acks, timeout_ms):
            return group
        self._settle_group(self._groups.pop(hosted))
        return None

    def _begin_block(
        self, hosted: HostedPartition, acks: int, timeout_ms: int, on_told: Callable[..., None]
    ) -> Any:
        rules, wall_ms = hosted.log.config.produce_rules, self._clocks.wall_ms()
        newest_ms = self._newest_ms(hosted, wall_ms)
        block: Any = backend.produce_kernel.Block(
            hosted, acks, timeout_ms, rules, wall_ms, newest_ms, BLOCK_CLASSES, on_told
        )
        self._groups[hosted] = block
        return block

    def filled(self, size_bytes: int) -> None:
        """Blocks have grown by about so much."""
        self._size_bytes += size_bytes
        if self._size_bytes > COLLECTED_BYTES_MAX:
            self.settle()

    def read_done(self, reader: int) -> None:
        """What has arrived on a connection, known by a number of its own, has been handled."""
        if not self._groups or self._is_scheduled:
            return
        if reader == self._last_reader:
            self.settle()
        else:
            self._last_reader = reader
            self._is_scheduled = True
            self._soon(self._turn_ends)

    def settle(self) -> None:
        """Have every partition's machine take what was collected for it."""
        if self._groups:
            groups, self._groups = self._groups, {}
            self._size_bytes = 0
            for group in groups.values():
                self._settle_group(group)

    def _turn_ends(self) -> None:
        self._is_scheduled = False
        self.settle()

    def _settle_group(self, group: Any) -> None:
        if type(group) is not _Group:
            self._settle_block(group)
            return
        hosted = group.hosted
        try:
            if self._driver.machine(hosted.key) is not hosted.machine:
                for produce in group.produces:
                    produce.token(ProduceResult(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            elif len(group.produces) > 1 and self._has_room(
                hosted, [produce.batch for produce in group.produces]
            ):
                self._driver.feed(hosted.key, ProduceGroup(group.produces))
            else:
                for produce in group.produces:
                    self._feed_one(hosted, produce)
        except Exception:
            log.exception("appending to %s failed", hosted.key)
            for fail in group.fails:
                fail()

    def _settle_block(self, block: Any) -> None:
        block.close()
        self.open_blocks.clear()  # what is settled is not kept for being remembered
        if not block:
            return
        hosted, clocks = block.target, self._clocks
        deadline_ms = clocks.now_ms() + max(block.timeout_ms, 0)
        produce = ProduceBlock(block, block.acks, block.tell, block.token, deadline_ms)
        try:
            if self._driver.machine(hosted.key) is not hosted.machine:
                block.tell(ProduceResult(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            elif self._has_room(hosted, block):
                self._driver.feed(hosted.key, produce)
            else:
                for one in produce.one_by_one():
                    self._feed_one(hosted, one)
        except Exception:
            log.exception("appending to %s failed", hosted.key)
            block.give_up()

    def begins_segment(self, hosted: HostedPartition, header: BatchHeader) -> bool:
        """Whether a batch is appended by itself because it may begin a segment, or opens files."""
        return header.max_timestamp > self._newest_ms(hosted, self._clocks.wall_ms())

    def _newest_ms(self, hosted: HostedPartition, wall_ms: int) -> int:
        try:
            return hosted.log.newest_collected_ms(wall_ms)
        except OSError:  # the append raises it, too
            return NO_MS

    def _has_room(self, hosted: HostedPartition, batches: Sequence[RecordBatch]) -> bool:
        try:
            return hosted.log.has_room_for(batches, self._clocks.wall_ms())
        except OSError:  # the append raises it, too
            return False

    def _feed_one(self, hosted: HostedPartition, produce: Produce) -> None:
        if self._open_files(hosted, produce.batch.header, self._clocks.wall_ms()):
            self._driver.feed(hosted.key, produce)
        else:
            produce.token(NO_FILES)
