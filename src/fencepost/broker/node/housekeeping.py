"""What a node does now and then: retention, flushes, checkpoints, forgotten producers, halted
replicas, other nodes' defaults of topics, and giving freed memory back.

All of it runs in the event loop, in pieces of one partition (`runtime.cooperative`), so that a node
with thousands of partitions goes on serving meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from fencepost.broker.loop.timers import Timer
from fencepost.broker.node.broker_part import BrokerPart
from fencepost.broker.node.core import NodeCore
from fencepost.log.configdef import LONG_MAX
from fencepost.log.log_dir import LogDir
from fencepost.machines.partition import AdvanceLogStart
from fencepost.runtime.cooperative import Pieces
from fencepost.runtime.halted import LOOK_EVERY_MS
from fencepost.runtime.replicas import HostedPartition, ReplicaManager

if TYPE_CHECKING:
    from fencepost.broker.cluster.topic_defaults import TopicDefaults
    from fencepost.broker.node.memory_trim import MemoryTrim

log = logging.getLogger(__name__)

TRIM_INTERVAL_MS = 5_000
DEFAULTS_INTERVAL_MS = 2_000
DELETED_FILES_INTERVAL_MS = 2_000
REMOVAL_INTERVAL_MS = 10_000
"""How long directories of deleted partitions are not looked at, at most: the delay may change, and
one that could not be removed is tried again."""
REMOVED_AT_A_TIME = 10
"""Directories of deleted partitions that are emptied in one piece of work."""


class Housekeeping:
    """The periodic tasks of a node."""

    def __init__(self, core: NodeCore, broker: BrokerPart | None) -> None:
        self._core = core
        self._broker = broker
        self._timers: dict[str, Timer] = {}
        self._running = False
        self._work = core.ports.scheduler.lane()
        self._removal: Timer | None = None
        self._memory_trim: MemoryTrim | None = None
        self._defaults: TopicDefaults | None = None
        self._written_moves = -1
        """`ReplicaManager.high_watermark_moves` when the high watermarks were last written down."""

    @property
    def _replicas(self) -> ReplicaManager:
        assert self._broker is not None, "only brokers have partitions"
        return self._broker.replicas

    def start(self) -> None:
        """Arm everything; on a node without partitions, what the metadata log needs."""
        get = self._core.config.get
        self._running = True
        self._every(
            "recovery points", get("log.flush.offset.checkpoint.interval.ms"), self._checkpoint
        )
        self._every("memory", TRIM_INTERVAL_MS, self._trim_memory)
        if not self._core.config.quorum.is_lone:
            self._every("topic defaults", DEFAULTS_INTERVAL_MS, self._compare_defaults)
        if self._broker is not None:
            self._start_for_partitions()

    def _start_for_partitions(self) -> None:
        get = self._core.config.get
        initial_ms = get("log.initial.task.delay.ms")
        self._every("retention", get("log.retention.check.interval.ms"), self.retain, initial_ms)
        self._every("flush", get("log.flush.scheduler.interval.ms"), self._flush_due)
        self._every(
            "start offsets",
            get("log.flush.start.offset.checkpoint.interval.ms"),
            self._core.storage.checkpoint_start_offsets,
        )
        self._every(
            "high watermarks",
            get("replica.high.watermark.checkpoint.interval.ms"),
            self._checkpoint_high_watermarks,
        )
        self._every("producers", get("producer.id.expiration.check.interval.ms"), self._expire)
        self._every("deleted files", DELETED_FILES_INTERVAL_MS, self._delete_files)
        assert self._broker is not None, "only brokers have partitions"
        self._every("halted replicas", LOOK_EVERY_MS, self._broker.halted.look)
        self._core.storage.on_deleted = self._note_deleted
        self._remove_deleted_after(1)

    def stop(self) -> None:
        """Do nothing any more."""
        self._running = False
        for timer in self._timers.values():
            timer.cancel()
        if self._removal is not None:
            self._removal.cancel()

    def _every(
        self, name: str, interval_ms: int, task: Callable[[], None], first_ms: int | None = None
    ) -> None:
        """Run `task` every `interval_ms`; 0 is taken for 1, and the largest number for never."""
        if interval_ms >= LONG_MAX:
            return

        def run() -> None:
            if not self._running or self._core.failure is not None:
                return
            task()
            self._timers[name] = self._core.ports.timers.after(max(1, interval_ms), run)

        delay_ms = interval_ms if first_ms is None else first_ms
        self._timers[name] = self._core.ports.timers.after(max(1, delay_ms), run)

    def _one_by_one(self, name: str, task: Callable[[HostedPartition], object]) -> None:
        """Run `task` for each partition that is here now, in pieces."""
        self._work.begin(self._for_each(name, task, list(self._replicas.all())))

    def _for_each(
        self, name: str, task: Callable[[HostedPartition], object], some: list[HostedPartition]
    ) -> Pieces[None]:
        replicas = self._replicas
        for hosted in some:
            if not self._running:
                return
            if replicas.get(hosted.topic, hosted.index) is not hosted:
                continue
            try:
                task(hosted)
            except OSError as error:
                replicas.storage_failed(hosted, f"{name} of {hosted.key}: {error}", error)
            except Exception:
                log.exception("%s of %s failed", name, hosted.key)
            yield None

    def _trim_memory(self) -> None:
        if self._memory_trim is None:  # what it takes, a start can do without
            from fencepost.broker.node.memory_trim import MemoryTrim

            self._memory_trim = MemoryTrim()
        self._memory_trim.trim_if_due()

    def _compare_defaults(self) -> None:
        if self._defaults is None:  # likewise
            from fencepost.broker.cluster.topic_defaults import TopicDefaults

            core = self._core
            self._defaults = TopicDefaults(
                core.config,
                core.brokers,
                core.controllers,
                core.metadata.machine,
                lambda: core.image,
            )
        self._defaults.look()

    def retain(self) -> None:
        """Have every partition delete the segments that its topic's retention does not keep."""
        wall_ms = self._core.wall_ms()

        def retain(hosted: HostedPartition) -> None:
            expired = hosted.log.expired_segments(wall_ms, hosted.machine.high_watermark)
            if expired.segments:
                log.info(
                    "retention deletes %d segment(s) of %s; its log start offset becomes %d",
                    expired.segments,
                    hosted.key,
                    expired.end_offset,
                )
                self._core.ports.driver.feed(hosted.key, AdvanceLogStart(expired.end_offset))

        self._one_by_one("retention", retain)

    def _delete_files(self) -> None:
        now_ms = self._core.now_ms()
        due = [hosted for hosted in self._replicas.all() if hosted.log.has_deleted_files]
        self._work.begin(
            self._for_each("deleting files", lambda one: one.log.delete_old_files(now_ms), due)
        )

    def _note_deleted(self, logs: LogDir, name: str) -> None:
        """A partition was deleted: its directory goes when its delay is over."""
        logs.note_deleted(name, self._core.now_ms())
        if self._removal is None:
            self._remove_deleted_after(self._core.settings.get("log.segment.delete.delay.ms"))

    def _remove_deleted_after(self, delay_ms: int) -> None:
        def remove() -> None:
            if self._running and self._core.failure is None:
                self._work.begin(self._remove_deleted(self._core.now_ms()))

        after_ms = max(1, min(delay_ms, REMOVAL_INTERVAL_MS))
        self._removal = self._core.ports.timers.after(after_ms, remove)

    def _remove_deleted(self, now_ms: int) -> Pieces[None]:
        """Empty the directories of deleted partitions that are due, a few at a time."""
        core = self._core
        delay_ms = core.settings.get("log.segment.delete.delay.ms")
        while self._running and core.storage.remove_deleted(now_ms, delay_ms, REMOVED_AT_A_TIME):
            yield None
        self._removal = None
        first_ms = core.storage.first_deleted_ms
        if self._running and first_ms is not None:
            left_ms = first_ms + delay_ms - core.now_ms()
            self._remove_deleted_after(left_ms if left_ms > 0 else REMOVAL_INTERVAL_MS)

    def _expire(self) -> None:
        wall_ms = self._core.wall_ms()
        after_ms = self._core.settings.get("producer.id.expiration.ms")
        self._one_by_one(
            "producer expiry", lambda hosted: hosted.log.producers.remove_expired(wall_ms, after_ms)
        )

    def _flush_due(self) -> None:
        """Flush what has waited for longer than its topic's `flush.ms`."""
        core = self._core
        now_ms = core.now_ms()
        for hosted in self._replicas.all():
            since_ms = core.ports.flusher.unflushed_since_ms(hosted.key)
            if since_ms is not None and now_ms - since_ms >= hosted.log.config.flush_ms:
                core.ports.flusher.flush_quietly(hosted.key, hosted.log)

    def _checkpoint(self) -> None:
        """Flush what is dirty in the background, and write down how far everything is durable."""
        core = self._core
        for hosted in self._replicas.all() if self._broker is not None else ():
            if hosted.log.recovery_point < hosted.log.end_offset:
                core.ports.flusher.flush_quietly(hosted.key, hosted.log)
        core.storage.checkpoint_recovery_points()

    def _checkpoint_high_watermarks(self) -> None:
        replicas, moves = self._replicas, self._replicas.high_watermark_moves
        if moves == self._written_moves:
            return  # with thousands of partitions, only to look would cost more than their fetches
        if self._core.storage.checkpoint_high_watermarks(replicas.high_watermarks()):
            self._written_moves = moves
