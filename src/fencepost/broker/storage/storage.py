"""The node's logs in its data directories: where a partition goes, and where it is found again.

A new partition goes to the directory that was asked for (AlterReplicaLogDirs), or else to the one
that has the fewest. One that is there stays where it is, and this is reported to the controller
(`PartitionOpening.directory_id`, AssignReplicasToDirs).

A replica that the metadata place here and that no directory has (KIP-858):

| a directory | its directory is          | another replica  | then                          |
| is offline  |                           | has all records  |                               |
|-------------|---------------------------|------------------|-------------------------------|
| yes         | ours, and works           | yes              | made, and fetched             |
| yes         | anything else, or         | no               | unavailable: its log may be   |
|             |                           |                  | there                         |
| no          | ours, or not known yet    |                  | made, and fetched             |
| no          | none of ours: its disk    | yes              | made, and fetched             |
|             | was replaced              | no               | unavailable, unless the loss  |
|             |                           |                  | is accepted                   |

The last row is not Kafka's, which makes an empty log there that may lead: all records would be lost
and no line of any log would say so.

A partition's directory that the cluster image does not know is left over from a deletion that a
crash cut short, or was put there by hand. It is renamed to end in `-stray`, not
deleted.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Final

from msgspec import Struct

from fencepost.batch.header import BatchHeader
from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.config.endpoints import Endpoint
from fencepost.broker.config.file_limit import FileShares
from fencepost.broker.config.metadata_settings import metadata_log_settings, quorum_config
from fencepost.broker.loop.ports import AsyncPorts
from fencepost.broker.storage.data_dirs import DataDir, DataDirs, open_data_dirs
from fencepost.log.checkpoints import TopicPartition
from fencepost.log.config import LogConfig
from fencepost.log.descriptors import Descriptors, is_shortage
from fencepost.log.disk import OsDisk
from fencepost.log.errors import DurableDataLostError, LogError, describe
from fencepost.log.log_dir import LogDir
from fencepost.log.open_job import OpenJob
from fencepost.log.partition_log import PartitionLog
from fencepost.machines.image import DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED
from fencepost.runtime.halted import HaltCause, ReplicaUnavailable
from fencepost.runtime.metadata.host import METADATA_KEY, MetadataHost
from fencepost.runtime.metadata.log import open_metadata
from fencepost.runtime.replica_storage import ReplicaPlacement
from fencepost.runtime.replicas import HostedPartition
from fencepost.wire.types import Uuid

log = logging.getLogger(__name__)

SHORTAGE_TOLD_EVERY_S: Final = 1.0
NOWHERE = frozenset({DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED})
"""Ids that say only that the controller does not know the directory."""
WAY_BACK: Final = (
    "repair the disk, or put an empty directory in its place, and start the broker again: replicas"
    " that are missing then are fetched"
)
"""What to do about a directory that is offline."""


class PartitionOpening(Struct, frozen=True):
    """A partition's log on its way: where it is, and the work of opening it."""

    data_dir: DataDir
    name: str
    job: OpenJob

    @property
    def directory_id(self) -> Uuid:
        """The id of the directory the log is in."""
        assert self.data_dir.directory_id is not None, "an open directory has an id"
        return self.data_dir.directory_id


class Storage:
    """The data directories of a node and the logs in them."""

    def __init__(
        self,
        dirs: DataDirs,
        disk: OsDisk,
        wall_ms: Callable[[], int],
        accept_loss: Collection[str],
    ) -> None:
        self._dirs = dirs
        self.descriptors = disk.descriptors
        """What opens the files of all directories."""
        self.page_cache = disk.page_cache
        """The context within which reads of them do not wait."""
        self.shortages = ShortageLog()
        self._accept_loss = accept_loss
        self._wall_ms = wall_ms
        self.cluster_id = dirs.cluster_id
        self.cordoned: frozenset[str] = frozenset()
        """Paths of the directories that take no new partitions (KIP-1066)."""
        self.preferred: dict[TopicPartition, DataDir] = {}
        """Where partitions go that are not here yet, as AlterReplicaLogDirs asked."""
        self.on_failed: Callable[[DataDir, str], None] = DataDir.fail
        """Called with a directory that has failed, and why; has to take it offline."""
        self.on_deleted: Callable[[LogDir, str], None] = lambda logs, name: None
        """Called with what a deleted partition's directory is called now."""

    @property
    def data_dirs(self) -> list[DataDir]:
        """The directories that hold partitions, those that are offline among them."""
        return [one for one in self._dirs.all if one.holds_partitions]

    @property
    def metadata_dir(self) -> DataDir:
        """The directory of the metadata log."""
        return self._dirs.metadata

    @property
    def log_dirs(self) -> list[LogDir]:
        """What is open of the directories that work."""
        return [one.logs for one in self._dirs.all if one.is_online]

    @property
    def may_need_recovery(self) -> bool:
        """Whether there is a directory that was not closed in order, so that opening takes long."""
        return any(not log_dir.was_clean for log_dir in self.log_dirs)

    def cordon(self, paths: Collection[str]) -> list[Uuid]:
        """Put no new partitions into these directories (`*`: all); the ids of those that work."""
        named = {str(Path(path)) for path in paths}
        chosen = [one for one in self.data_dirs if "*" in named or one.path in named]
        self.cordoned = frozenset(one.path for one in chosen)
        return [one.directory_id for one in chosen if one.is_online and one.directory_id]

    def online_ids(self) -> list[Uuid]:
        """Ids of the directories that hold partitions and work."""
        return [one.directory_id for one in self.data_dirs if one.is_online and one.directory_id]

    def offline_ids(self) -> list[Uuid]:
        """Ids, as far as they are known, of those that hold partitions and do not work."""
        return [
            one.directory_id for one in self.data_dirs if not one.is_online and one.directory_id
        ]

    def previous_broker_epoch(self) -> int:
        """The broker epoch that all directories were closed with, cleanly; -1 if not all were."""
        epochs = {
            one.log_dir.previous_broker_epoch if one.log_dir is not None else -1
            for one in self.data_dirs
        }
        return epochs.pop() if len(epochs) == 1 else -1

    def dir_of(self, partition_log: PartitionLog) -> DataDir:
        """The directory that an open log is in."""
        parent = partition_log.directory.rpartition("/")[0] or "/"
        return next(one for one in self._dirs.all if one.log_dir and one.log_dir.path == parent)

    # -- partitions ------------------------------------------------------------------------

    def begin_open(
        self,
        key: TopicPartition,
        topic_id: Uuid,
        config: LogConfig,
        placement: ReplicaPlacement,
    ) -> PartitionOpening:
        """Begin to open or create a partition's log. ReplicaUnavailable if there is to be none.

        A directory that fails over it goes offline.
        """
        data_dir = self._place(key, topic_id, placement)
        topic, index = key
        name = f"{topic}-{index}"
        try:
            job = data_dir.logs.begin_open(
                topic,
                index,
                topic_id,
                config,
                wall_ms=self._wall_ms(),
                accept_loss=name in self._accept_loss,
            )
        except OSError as error:
            self.on_failed(data_dir, str(error))
            raise unavailable_in(data_dir) from error
        except Exception as error:
            self._cannot_set_up(data_dir, name, error)
            raise unavailable_in(data_dir) from error
        data_dir.partitions.add(key)
        return PartitionOpening(data_dir, name, job)

    def finish_open(
        self, opening: PartitionOpening, running: Future[None] | None = None
    ) -> PartitionLog:
        """The log, run by `running` or else here and now.

        ReplicaUnavailable if it cannot be opened, which takes its directory offline.
        """
        try:
            if running is None:
                opening.job.run()
            else:
                running.result()
            opened = opening.data_dir.logs.finish_open(opening.job)
        except (LogError, OSError) as error:
            reason = str(error)
            if isinstance(error, DurableDataLostError):
                reason += (
                    f"; to go on without what is lost: -o fencepost.accept.loss={opening.name}"
                )
            self.on_failed(opening.data_dir, f"a partition could not be set up: {reason}")
            raise unavailable_in(opening.data_dir) from error
        except Exception as error:
            self._cannot_set_up(opening.data_dir, opening.name, error)
            raise unavailable_in(opening.data_dir) from error
        finally:
            del running  # it keeps the error, whose traceback has this frame
        _report(opening.name, opened)
        return opened

    def _cannot_set_up(self, data_dir: DataDir, name: str, error: Exception) -> None:
        """Something in a partition's files leads to an unexpected error."""
        log.error("opening %s failed", name, exc_info=error)
        reason = f"{data_dir.path}/{name}: {describe(error)}"
        self.on_failed(data_dir, f"a partition could not be set up: {reason}")

    def _place(self, key: TopicPartition, topic_id: Uuid, placement: ReplicaPlacement) -> DataDir:
        """The directory that the replica is in, or is to be made in. ReplicaUnavailable."""
        online = [one for one in self.data_dirs if one.is_online]
        found = [one for one in online if key in one.partitions]
        for one in found:
            if one.directory_id == placement.assigned:
                return one
        own = [one for one in found if one.logs.topic_id_on_disk(*key) == topic_id]
        if len(own) > 1:
            paths = " and ".join(one.path for one in own)
            raise ReplicaUnavailable(
                HaltCause.LOG_IN_TWO_DIRS,
                f"{paths} have a log of the same partition each; stop the broker, move the one that"
                " is older or smaller out of the log directory, and start the broker",
            )
        if own:
            return own[0]
        if not placement.is_new:
            self._check_may_be_made_again(key, placement)
        assigned = [one for one in online if one.directory_id == placement.assigned]
        if assigned:
            return assigned[0]
        if not online:
            raise unavailable_in(self.data_dirs[0])
        preferred = self.preferred.pop(key, None)
        if preferred is not None and preferred.is_online:
            return preferred
        # The metadata have it here: if all are cordoned by now, it goes into one of them.
        return min(online, key=lambda one: (one.path in self.cordoned, len(one.partitions)))

    def _check_may_be_made_again(self, key: TopicPartition, placement: ReplicaPlacement) -> None:
        """Whether a replica that no directory has is to be made, to be fetched from its leader.

        ReplicaUnavailable if its log may be in a directory that is offline, or its log directory is
        gone and with it the only copy of its records (see the module).
        """
        offline = next((one for one in self.data_dirs if not one.is_online), None)
        assigned, is_in_ours = placement.assigned, placement.assigned in self.online_ids()
        if offline is not None and (placement.is_only_copy or not is_in_ours):
            raise unavailable_in(offline, "the log may be in a directory that is offline: ")
        if is_in_ours or assigned in NOWHERE:
            return
        name = f"{key[0]}-{key[1]}"
        if not placement.is_only_copy:
            log.info(
                "%s was in a log directory that no longer exists: creating it again and"
                " fetching it",
                name,
            )
        elif name in self._accept_loss:
            log.warning("creating %s again, EMPTY, as fencepost.accept.loss says", name)
        else:
            raise ReplicaUnavailable(
                HaltCause.ONLY_COPY_MISSING,
                f"the log directory with directory.id={assigned} is none of this broker's, and no"
                " other replica has all of the records; start the broker with that directory, or"
                " give the records up: delete the topic, elect another replica uncleanly (fencepost"
                " elect unclean), or start the broker with -o fencepost.accept.loss=NAME",
            )

    def delete_partition(self, partition_log: PartitionLog) -> None:
        """Close the log and have its files removed; one that is offline is left alone. OSError."""
        data_dir = self.dir_of(partition_log)
        data_dir.partitions.discard((partition_log.topic, partition_log.partition))
        if data_dir.is_online:
            name = data_dir.logs.delete(partition_log)
            self.on_deleted(data_dir.logs, name)
        else:
            partition_log.close(clean=False)

    def high_watermark_of(self, partition_log: PartitionLog) -> int:
        """The high watermark as of the last checkpoint."""
        logs = self.dir_of(partition_log).logs
        return logs.high_watermark(partition_log.topic, partition_log.partition)

    def metadata_host(
        self,
        ports: AsyncPorts,
        config: BrokerConfig,
        bound: Sequence[Endpoint] = (),
    ) -> MetadataHost:
        """The metadata log and the quorum machine in front of it. LogError, OSError.

        `bound` is where the controllers' listeners are bound.
        """
        log_dir = self._dirs.metadata.logs
        directory_id = self._dirs.metadata.directory_id
        assert directory_id is not None, "an open directory has an id"
        return open_metadata(
            ports,
            log_dir,
            config.node_id,
            config.quorum.static_voters,
            quorum_config(config, self.cluster_id, directory_id, bound),
            metadata_log_settings(config),
            wall_ms=self._wall_ms(),
            accept_loss=METADATA_KEY in self._accept_loss,
            follow_with_draft=config.get("fencepost.draft.fetch.quorum.records.follow.version"),
        )

    def rename_strays(self, is_wanted: Callable[[str, int], bool]) -> None:
        """Rename the directories of partitions that are not open, but for those that are wanted.

        OSError.
        """
        for one in self._dirs.all:
            if one.is_online:
                _rename_strays(one, is_wanted)

    def has_copies(self) -> bool:
        """Whether a copy that was on its way lies in a directory, or one cannot tell."""
        try:
            return any(
                True for one in self.data_dirs if one.is_online for _ in one.logs.copies_on_disk()
            )
        except OSError:  # the search for copies takes the directory offline
            return True

    # -- what is written down --------------------------------------------------------------

    def checkpoint_recovery_points(self) -> None:
        """Write down how far every log is durable. Directories that fail are offline after it."""
        self._on_each(LogDir.checkpoint_recovery_points)

    def checkpoint_start_offsets(self) -> None:
        """Write down where every log starts; likewise."""
        self._on_each(LogDir.checkpoint_start_offsets)

    def checkpoint_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> bool:
        """Write down the high watermarks; likewise. Whether it was done wherever it can be."""
        return self._on_each(lambda logs: logs.checkpoint_high_watermarks(high_watermarks))

    def remove_deleted(self, now_ms: int, delay_ms: int, most: int) -> int:
        """Remove what partitions deleted `delay_ms` ago have left, up to `most` of them; how many.

        Likewise.
        """
        removed: list[int] = []
        self._on_each(lambda logs: removed.append(logs.remove_deleted(now_ms, delay_ms, most)))
        return sum(removed)

    @property
    def first_deleted_ms(self) -> int | None:
        """When the first partition was deleted whose directory is still there, if any is."""
        online = (one.logs for one in self._dirs.all if one.is_online)
        found = [logs.first_deleted_ms for logs in online]
        return min((since_ms for since_ms in found if since_ms is not None), default=None)

    def _on_each(self, task: Callable[[LogDir], None]) -> bool:
        """Whether there was no shortage, for which it would have to be done again."""
        is_done = True
        for one in self._dirs.all:
            if one.is_online:
                try:
                    with self.descriptors.without_waiting():
                        task(one.logs)
                except OSError as error:
                    if is_shortage(error):  # the next time will do
                        self.shortages.note(str(error))
                        is_done = False
                    else:
                        self.on_failed(one, str(error))
        return is_done

    def close(
        self, *, clean: bool, broker_epoch: int, high_watermarks: Mapping[TopicPartition, int]
    ) -> bool:
        """Close every log and give the directories back; failures are logged.

        Whether nothing is left for the next start to recover, of the directories that work.
        """
        is_clean = clean
        for one in self._dirs.all:
            if one.log_dir is None:
                continue
            try:
                one.log_dir.close(
                    clean=clean and one.is_online,
                    broker_epoch=broker_epoch,
                    high_watermarks=high_watermarks,
                )
            except OSError as error:
                is_clean = False
                log.error("the log directory %s was not closed cleanly: %s", one.path, error)
        self.descriptors.close()
        return is_clean

    def open_for_append(self, hosted: HostedPartition, header: BatchHeader, wall_ms: int) -> bool:
        """Have the files open that appending a client's batch needs; not if there is no descriptor.

        Whatever else is wrong with them the append will tell.
        """
        if not hosted.machine.is_leader:
            return True
        try:
            if not hosted.log.has_files_for(header, wall_ms):
                with self.descriptors.without_waiting():
                    hosted.log.prepare_append(header, wall_ms)
        except OSError as error:
            if is_shortage(error):
                self.shortages.note(f"appending to {hosted.key}: {error}")
                return False
        return True

    def note_shortage(self, reason: str) -> None:
        """There was no file descriptor for something that was refused therefore."""
        self.shortages.note(reason)

    def close_idle_files(self) -> None:
        """Close segment files that nothing waits for: file descriptors are short."""
        for one in self._dirs.all:
            if one.log_dir is not None:
                one.log_dir.close_idle_files()


class ShortageLog:
    """Says that file descriptors are short, not more often than every `SHORTAGE_TOLD_EVERY_S`."""

    def __init__(self) -> None:
        self._count = 0
        self._told_at = float("-inf")

    def note(self, what: str) -> None:
        """Something was not done for want of a file descriptor."""
        self._count += 1
        now = time.monotonic()
        if now - self._told_at >= SHORTAGE_TOLD_EVERY_S:
            self._told_at = now
            log.warning(
                "no file descriptor (ulimit -n) for %d file(s); retrying; the last: %s",
                self._count,
                what,
            )
            self._count = 0


def open_storage(config: BrokerConfig, files: FileShares, wall_ms: Callable[[], int]) -> Storage:
    """Open the configured directories, formatting new ones. LogError, OSError."""
    descriptors = Descriptors(files.spare)
    try:
        disk = OsDisk(descriptors)
        dirs = open_data_dirs(config, disk, files.segment_files)
    except BaseException:
        descriptors.close()
        raise
    return Storage(dirs, disk, wall_ms, frozenset(config.get("fencepost.accept.loss")))


def _report(name: str, opened: PartitionLog) -> None:
    """Say what recovery found."""
    report = opened.recovery
    if report.lost_from_offset is not None:
        log.warning("%s has lost records from offset %d on", name, report.lost_from_offset)
    if report.bytes_cut:
        log.warning(
            "%s: truncated %d bytes of incomplete or corrupt batches at the end; its log end"
            " offset is %d",
            name,
            report.bytes_cut,
            report.end_offset,
        )
    if report.epochs_rebuilt:
        log.warning("%s: rebuilt the leader epochs from the records", name)


def unavailable_in(data_dir: DataDir, before: str = "") -> ReplicaUnavailable:
    """What is said of replicas in a directory that is offline."""
    return ReplicaUnavailable(
        HaltCause.DIRECTORY_OFFLINE, f"{before}{data_dir.why_offline}; {WAY_BACK}"
    )


def _rename_strays(data_dir: DataDir, is_wanted: Callable[[str, int], bool]) -> None:
    for topic, index in data_dir.logs.unopened():
        if is_wanted(topic, index):
            continue
        renamed = data_dir.logs.rename_stray(topic, index)
        log.warning(
            "renamed stray partition %s-%d, which is not assigned to this broker, to %s",
            topic,
            index,
            renamed,
        )
        data_dir.partitions.discard((topic, index))
