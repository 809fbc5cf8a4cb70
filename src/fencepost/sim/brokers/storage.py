"""Where the replicas of a simulated broker are: in the one directory of its disk, opened at once.

The observer hears of every log that is opened, and of what recovery has found in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fencepost.log.checkpoints import TopicPartition
from fencepost.log.config import LogConfig
from fencepost.log.errors import LogError
from fencepost.log.open_job import OpenJob
from fencepost.log.partition_log import PartitionLog
from fencepost.runtime.halted import HaltCause, ReplicaUnavailable
from fencepost.runtime.replica_storage import ReplicaPlacement
from fencepost.sim.brokers.checkpoints import checkpoints_of
from fencepost.sim.brokers.process import BrokerProcess
from fencepost.sim.partition_oracle import partition_batch
from fencepost.wire.types import Uuid


class OnlyDirectory:
    """The directory of a broker's disk. When it fails, so does the broker."""

    def __init__(self) -> None:
        self.is_online = True

    def fail(self, reason: object) -> None:
        """Nothing is to be had from it any more."""
        self.is_online = False


@dataclass(frozen=True, slots=True)
class DirectoryOpening:
    """A log on its way."""

    data_dir: OnlyDirectory
    name: str
    directory_id: Uuid
    topic_id: Uuid
    job: OpenJob


class BrokerStorage:
    """`ReplicaStorage` and `LogRecoveryPool` of a simulated broker in one of its incarnations."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker
        self.metadata_dir = OnlyDirectory()
        self.data_dirs = (self.metadata_dir,)
        self.may_need_recovery = False  # nothing is gained by opening ahead

    def begin(
        self,
        key: TopicPartition,
        topic_id: Uuid,
        config: LogConfig,
        placement: ReplicaPlacement,
    ) -> Any:
        """Begin to open or create a log."""
        broker = self._broker
        try:
            job = broker.log_dir.begin_open(*key, topic_id, config, wall_ms=broker.clocks.wall_ms())
        except OSError as error:
            raise self._failed(str(error)) from error
        name = f"{key[0]}-{key[1]}"
        return DirectoryOpening(self.metadata_dir, name, broker.directory_id, topic_id, job)

    def waiting_for(self, key: TopicPartition) -> None:
        """Nothing."""

    def finish(self, key: TopicPartition, opening: DirectoryOpening) -> PartitionLog:
        """The log. ReplicaUnavailable if it cannot be opened, which ends the broker."""
        broker = self._broker
        try:
            opening.job.run()
            log = broker.log_dir.finish_open(opening.job)
            found = [
                partition_batch(batch)
                for _, batch in log.read_all_batches(log.start_offset, log.end_offset)
            ]
        except (LogError, OSError) as error:
            raise self._failed(f"{opening.name}: {error}") from error
        partition = opening.topic_id, key[1]
        broker.world.observer.replica_recovered(broker.id, partition, found, log.start_offset)
        epochs = [(entry.epoch, entry.start_offset) for entry in log.epochs]
        broker.world.observer.epochs_seen(broker.id, partition, epochs)
        seen = checkpoints_of(broker, key)._replace(high_watermark=-1)
        broker.world.observer.checkpoints_seen(broker.id, partition, seen)
        return log

    def high_watermark_of(self, partition_log: PartitionLog) -> int:
        """The high watermark as of the last checkpoint."""
        logs = self._broker.log_dir
        return logs.high_watermark(partition_log.topic, partition_log.partition)

    def delete_partition(self, partition_log: PartitionLog) -> None:
        """Close the log and remove its files. OSError."""
        self._broker.log_dir.delete(partition_log)
        self._broker.log_dir.remove_deleted()

    def note_shortage(self, reason: str) -> None:
        """There are always enough file descriptors here."""

    def close(self) -> None:
        """Open nothing more."""

    def _failed(self, reason: str) -> ReplicaUnavailable:
        self._broker.cannot_load()
        self._broker.replicas.dir_failed(self.metadata_dir, reason)
        return ReplicaUnavailable(HaltCause.DIRECTORY_OFFLINE, reason)
