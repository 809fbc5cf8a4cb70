"""Opening many logs: those that a crash left behind by several threads, with word of how far it is.

A log that was closed in order, or is new, is opened on the spot, in a fraction of a millisecond.
One that was not has to be read through behind its recovery point and synced, and syncs of different
files take hardly longer together than one alone. So these go to `num.recovery.threads.per.data.dir`
threads for each directory, all at once, and are taken over in order as they are needed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from fencepost.broker.storage.data_dirs import DataDir
from fencepost.broker.storage.storage import PartitionOpening, Storage
from fencepost.log.checkpoints import TopicPartition
from fencepost.log.config import LogConfig
from fencepost.log.partition_log import PartitionLog
from fencepost.runtime.replica_storage import ReplicaPlacement
from fencepost.wire.types import Uuid

log = logging.getLogger(__name__)

PROGRESS_EVERY_S: Final = 5.0
"""How often, at most, there is a line about how far recovery is."""


class RecoveryPool:
    """The logs that are being opened."""

    def __init__(self, storage: Storage, threads_per_dir: Callable[[], int]) -> None:
        self._storage = storage
        self._threads = threads_per_dir
        self._pools: dict[DataDir, ThreadPoolExecutor] = {}
        self._begun: dict[TopicPartition, PartitionOpening] = {}
        self._ahead: dict[TopicPartition, Future[None]] = {}
        self._wanted = self._recovered = 0
        self._began_s = self._told_s = 0.0

    def begin(
        self,
        key: TopicPartition,
        topic_id: Uuid,
        config: LogConfig,
        placement: ReplicaPlacement,
    ) -> PartitionOpening:
        """See `Storage.begin_open`; what takes long is on its way to a thread afterwards."""
        opening = self._begun.get(key)
        if opening is None:
            opening = self._storage.begin_open(key, topic_id, config, placement)
            self._begun[key] = opening
            if opening.job.needs_recovery:
                self._hand_over(key, opening)
        return opening

    def waiting_for(self, key: TopicPartition) -> Future[None] | None:
        """What has to be waited for before `finish`, if anything."""
        return self._ahead.get(key)

    def finish(self, key: TopicPartition, opening: PartitionOpening) -> PartitionLog:
        """The log. ReplicaUnavailable if it cannot be opened, which takes its directory offline."""
        del self._begun[key]
        running = self._ahead.pop(key, None)
        if running is not None:
            self._note_recovered()
        return self._storage.finish_open(opening, running)

    def close(self) -> None:
        """Wait for what threads are doing, and leave the rest undone."""
        for pool in self._pools.values():
            pool.shutdown(cancel_futures=True)
        for opening in self._begun.values():
            if opening.job.opened is not None:
                opening.job.opened.close(clean=False)
        self._begun.clear()
        self._ahead.clear()

    def new_pool(self) -> ThreadPoolExecutor:
        """Threads for one directory, as many as are configured now."""
        return ThreadPoolExecutor(self._threads(), "fencepost-recovery")

    def _hand_over(self, key: TopicPartition, opening: PartitionOpening) -> None:
        pool = self._pools.get(opening.data_dir)
        if pool is None:
            pool = self._pools[opening.data_dir] = self.new_pool()
        if not self._ahead:
            self._wanted = self._recovered = 0
            self._began_s = self._told_s = time.monotonic()
        self._wanted += 1
        self._ahead[key] = pool.submit(opening.job.run)

    def _note_recovered(self) -> None:
        self._recovered += 1
        now_s = time.monotonic()
        if not self._ahead:
            log.info("%d logs checked in %.1f s", self._recovered, now_s - self._began_s)
            for pool in self._pools.values():
                pool.shutdown()
            self._pools.clear()
        elif now_s - self._told_s >= PROGRESS_EVERY_S:
            self._told_s = now_s
            log.info("%d of %d logs checked", self._recovered, self._wanted)
