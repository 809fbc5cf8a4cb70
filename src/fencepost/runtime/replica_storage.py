"""Where logs of replicas are kept and who opens them, as far as `replicas` has to know it.

A broker process has directories, threads and a configuration, the simulator has one disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from msgspec import Struct

from fencepost.log.checkpoints import TopicPartition
from fencepost.log.config import LogConfig
from fencepost.log.partition_log import PartitionLog
from fencepost.wire.types import Uuid


class ReplicaPlacement(Struct, frozen=True):
    """What the cluster's metadata say of where this broker's replica is."""

    assigned: Uuid
    """The id of its log directory."""
    is_new: bool
    """Whether the broker cannot have had a log: the partition was just made, or moves here."""
    is_only_copy: bool
    """Whether no other replica has all of the records, as far as the controller knows."""


class Directory(Protocol):
    """A log directory."""

    @property
    def is_online(self) -> bool:
        """Whether it works."""
        ...

    def fail(self, reason: object) -> None:
        """Nothing is to be had from it any more."""
        ...


class Opening(Protocol):
    """A partition's log on its way."""

    @property
    def data_dir(self) -> Any:
        """The `Directory` that it is in."""
        ...

    @property
    def name(self) -> str:
        """The partition's name, topic and number."""
        ...

    @property
    def directory_id(self) -> Uuid:
        """The id of the directory."""
        ...


class ReplicaStorage(Protocol):
    """Where the logs of this node's replicas are kept."""

    def note_shortage(self, reason: str) -> None:
        """There was no file descriptor for something that was refused therefore."""
        ...

    @property
    def data_dirs(self) -> Sequence[Directory]:
        """The directories that hold partitions, those that are offline among them."""
        ...

    @property
    def metadata_dir(self) -> Directory:
        """The directory of the metadata log."""
        ...

    @property
    def may_need_recovery(self) -> bool:
        """Whether a directory was not closed in order, so that opening takes long."""
        ...

    def high_watermark_of(self, partition_log: PartitionLog) -> int:
        """The high watermark as of the last checkpoint."""
        ...

    def delete_partition(self, partition_log: PartitionLog) -> None:
        """Close the log and have its files removed. OSError."""
        ...


class LogRecoveryPool(Protocol):
    """How logs are opened, some of them by threads, ahead of the time that they are needed."""

    def begin(
        self,
        key: TopicPartition,
        topic_id: Uuid,
        config: LogConfig,
        placement: ReplicaPlacement,
    ) -> Any:
        """Begin to open or create a log, once: an `Opening`. ReplicaUnavailable if that cannot be.

        A directory that fails over it goes offline.
        """
        ...

    def waiting_for(self, key: TopicPartition) -> Future[Any] | None:
        """What has to be waited for before `finish`, if anything."""
        ...

    def finish(self, key: TopicPartition, opening: Any) -> PartitionLog:
        """The log. ReplicaUnavailable if it cannot be opened, which takes its directory offline."""
        ...

    def close(self) -> None:
        """Open nothing more."""
        ...
