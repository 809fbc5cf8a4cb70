"""The node's log directory: formatted when new, opened under lock, and the logs in it.

An empty directory is made this node's: a new cluster id (or the one that is there), the node's id
and a directory id go into `meta.properties`, as Kafka's `kafka-storage format` writes them. A
directory that belongs to another node, or has data without saying whose, is refused.

A partition's directory that the cluster image does not know is left over from a deletion that a
crash cut short, or was put there by hand. It is set aside under a name ending in `-stray`, not
deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from uuid import uuid4

from fencepost.broker.config import BrokerConfig
from fencepost.broker.metadata import (
    METADATA_TOPIC,
    QUORUM_STATE_VERSION,
    MetadataHost,
    quorum_config,
    quorum_state_of,
    stored_quorum_state,
)
from fencepost.broker.ports import AsyncPorts
from fencepost.log.config import LogConfig
from fencepost.log.disk import OsDisk
from fencepost.log.errors import DurableDataLostError, LogDirNotFormattedError, LogError
from fencepost.log.log_dir import LogDir
from fencepost.log.meta import format_log_dir, read_meta_properties
from fencepost.log.names import FILE_NAME_MAX, LOCK_FILE, parse_partition_dir, partition_dir
from fencepost.log.partition_log import PartitionLog
from fencepost.log.quorum_state import QuorumStateFile
from fencepost.machines.quorum import QuorumMachine, QuorumState
from fencepost.wire.types import Uuid

log = logging.getLogger(__name__)

STRAY_DIR_SUFFIX = "-stray"
METADATA_CONFIGS = {
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "max.message.bytes": str(64 * 1024 * 1024),
}
HARMLESS_FILES = frozenset({"lost+found", LOCK_FILE})
"""What an empty directory may have in it."""


class Storage:
    """The open log directory of a node."""

    def __init__(
        self,
        log_dir: LogDir,
        cluster_id: str,
        directory_id: Uuid,
        now_ms: int,
        accept_loss: Collection[str],
    ) -> None:
        self._log_dir = log_dir
        self._accept_loss = accept_loss
        self._now_ms = now_ms
        self.cluster_id = cluster_id
        self.directory_id = directory_id

    @property
    def was_clean(self) -> bool:
        """Whether the last stop was an orderly one."""
        return self._log_dir.was_clean

    def open_partition(
        self, topic: str, index: int, topic_id: Uuid, config: LogConfig
    ) -> PartitionLog:
        """Open or create the log of a partition. LogError, OSError."""
        name = f"{topic}-{index}"
        try:
            opened = self._log_dir.create(
                topic,
                index,
                topic_id,
                config,
                now_ms=self._now_ms,
                accept_loss=name in self._accept_loss,
            )
        except DurableDataLostError as error:
            raise LogError(
                f"{error}; to go on without what is lost: -o fencepost.accept.loss={name}"
            ) from error
        report = opened.recovery
        if report.lost_from_offset is not None:
            log.warning("%s has lost records from offset %d on", name, report.lost_from_offset)
        if report.bytes_cut:
            log.warning(
                "%s: %d bytes at the end were not whole and sound and are cut off; it ends at %d",
                name,
                report.bytes_cut,
                report.end_offset,
            )
        if report.epochs_rebuilt:
            log.warning("%s: the leader epochs were made anew from the records", name)
        return opened

    def delete_partition(self, partition_log: PartitionLog) -> None:
        """Close the log and have its files removed. OSError."""
        self._log_dir.delete(partition_log)

    def high_watermark_of(self, topic: str, index: int) -> int:
        """The high watermark as of the last checkpoint."""
        return self._log_dir.high_watermark(topic, index)

    def metadata_host(
        self, ports: AsyncPorts, config: BrokerConfig, on_broken: Callable[[str], None]
    ) -> MetadataHost:
        """The metadata log and the quorum machine in front of it. LogError, OSError."""
        metadata_log = self._log_dir.create(
            METADATA_TOPIC,
            0,
            Uuid.METADATA_TOPIC_ID,
            LogConfig.from_props(METADATA_CONFIGS),
            now_ms=self._now_ms,
        )
        if metadata_log.recovery_point < metadata_log.end_offset:
            metadata_log.flush()
        state_file = QuorumStateFile(self._log_dir.disk, metadata_log.directory)
        voters = (config.node_id,)
        machine = QuorumMachine(
            config.node_id,
            voters,
            metadata_log,
            quorum_state_of(state_file.read()),
            quorum_config(self.cluster_id, self.directory_id, config.get),
        )

        def write_state(state: QuorumState) -> None:
            state_file.write(stored_quorum_state(state, voters), QUORUM_STATE_VERSION)

        return MetadataHost(ports, metadata_log, machine, write_state, on_broken)

    def set_strays_aside(self) -> None:
        """Rename the directories of partitions that nobody has opened. OSError."""
        path, disk = self._log_dir.path, self._log_dir.disk
        for topic, index in self._log_dir.partitions_on_disk():
            if self._log_dir.get(topic, index) is not None:
                continue
            tail = f"-{index}.{uuid4().hex}{STRAY_DIR_SUFFIX}"
            aside = topic[: FILE_NAME_MAX - len(tail)] + tail
            log.warning("the cluster has no partition %s-%d: set aside as %s", topic, index, aside)
            disk.rename(f"{path}/{partition_dir(topic, index)}", f"{path}/{aside}")
            disk.sync_dir(path)

    def checkpoint(self, high_watermarks: Mapping[tuple[str, int], int]) -> None:
        """Write down how far every log is. OSError."""
        self._log_dir.checkpoint(high_watermarks)

    def close(
        self, *, clean: bool, broker_epoch: int, high_watermarks: Mapping[tuple[str, int], int]
    ) -> None:
        """Close every log and give the directory back; failures are logged."""
        try:
            self._log_dir.close(
                clean=clean, broker_epoch=broker_epoch, high_watermarks=high_watermarks
            )
        except OSError as error:
            log.error("the log directory was not closed in order: %s", error)


def open_storage(config: BrokerConfig, now_ms: int) -> Storage:
    """Open the configured directory, formatting it if it is new. LogError, OSError."""
    disk = OsDisk()
    path = str(config.log_dir)
    try:
        read_meta_properties(disk, path)
        is_new = False
    except LogDirNotFormattedError:
        _format(disk, path, config.node_id)
        is_new = True
    log_dir = LogDir.open(disk, path)
    try:
        meta = log_dir.meta
        if meta.node_id is None or meta.cluster_id is None:
            raise LogError(f"{path}/meta.properties does not say whose the directory is")
        if meta.node_id != config.node_id:
            raise LogError(
                f"{path} belongs to node {meta.node_id} of cluster {meta.cluster_id}, "
                f"and node.id is {config.node_id}"
            )
        if meta.directory_id is None:
            raise LogError(f"{path} has no directory.id: it was formatted before Kafka 3.7")
    except LogError:
        log_dir.close(clean=False)
        raise
    if not log_dir.was_clean and not is_new:
        log.info("%s was not closed in order: its logs are checked as they are opened", path)
    accept_loss = frozenset(config.get("fencepost.accept.loss"))
    return Storage(log_dir, meta.cluster_id, meta.directory_id, now_ms, accept_loss)


def _format(disk: OsDisk, path: str, node_id: int) -> None:
    """Make an empty directory this node's. LogError if it is not empty."""
    disk.mkdir(path)
    names = [name for name in disk.list(path) if name not in HARMLESS_FILES]
    if names:
        kind = "partitions" if any(parse_partition_dir(name) for name in names) else "files"
        raise LogError(
            f"{path} has {kind} but no meta.properties: not an empty directory, nor one of a broker"
        )
    made = format_log_dir(
        disk,
        path,
        cluster_id=str(Uuid.random()),
        node_id=node_id,
        directory_id=Uuid.random(),
    )
    log.info("formatted %s for node %d of the new cluster %s", path, node_id, made.cluster_id)
