"""The node's data directories: found or formatted, checked against each other, opened under lock.

A directory that is empty or not there yet is made this node's: the cluster id of the others (a new
one if this is the first start), the node's id and a directory id go into `meta.properties`, as
Kafka's `kafka-storage format` writes them. Only a node that is the whole of its cluster may choose
the cluster's id, so the first directory of any other has to be formatted by an operator.

What an operator has to put right ends the start with LogError: a directory of another node or
cluster, one that has data without saying whose, the same directory id twice. What a disk does is
another matter: a directory that cannot be read, made or opened is offline, and the node starts with
the others (KIP-112, KIP-858). Only the directory of the metadata log must be there, since without
it there is no cluster to be part of.
"""

from __future__ import annotations

import logging

from msgspec import Struct, field

from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.config.file_limit import SEGMENT_FILES_MAX
from fencepost.log.checkpoints import TopicPartition
from fencepost.log.disk import Disk
from fencepost.log.errors import (
    CorruptFileError,
    LogDirLockedError,
    LogDirNotFormattedError,
    LogError,
    in_words,
    with_advice,
)
from fencepost.log.log_dir import LogDir
from fencepost.log.meta import MetaProperties, format_log_dir, read_meta_properties
from fencepost.log.names import (
    LOCK_FILE,
    LOG_SUFFIX,
    META_PROPERTIES_FILE,
    TEMPORARY_SUFFIX,
    parse_partition_dir,
    partition_dir,
)
from fencepost.wire.types import Uuid

log = logging.getLogger(__name__)

HARMLESS_FILES = frozenset({"lost+found", LOCK_FILE, META_PROPERTIES_FILE + TEMPORARY_SUFFIX})
"""What an empty directory may have in it; a crash in the midst of formatting leaves the last."""


class DataDir(Struct, eq=False):
    """One directory of the node's."""

    path: str
    holds_partitions: bool = True
    """Whether it is one of `log.dirs`; `metadata.log.dir` need not be."""
    directory_id: Uuid | None = None
    """None as long as nothing could be read of it."""
    log_dir: LogDir | None = None
    """None if it could not be opened."""
    offline_reason: str | None = None
    """Why nothing can be had from it; None while it works."""
    partitions: set[TopicPartition] = field(default_factory=set)
    """Those that are in it or on their way there."""

    @property
    def is_online(self) -> bool:
        """Whether it works."""
        return self.offline_reason is None

    @property
    def logs(self) -> LogDir:
        """The open directory."""
        assert self.log_dir is not None, f"{self.path} is not open"
        return self.log_dir

    @property
    def why_offline(self) -> str:
        """A clause that says that it is offline, and why."""
        return f"the log directory {self.path} is offline: {self.offline_reason}"

    def fail(self, reason: object) -> None:
        """Nothing is to be had from it any more."""
        if self.offline_reason is None:
            said = in_words(reason) if isinstance(reason, Exception) else str(reason)
            self.offline_reason = with_advice(said)
            log.error("%s", self.why_offline)


class DataDirs(Struct):
    """All of them, that of the metadata log among them."""

    all: list[DataDir]
    metadata: DataDir
    cluster_id: str


def open_data_dirs(
    config: BrokerConfig, disk: Disk, files_max: int = SEGMENT_FILES_MAX
) -> DataDirs:
    """Open the configured directories, formatting new ones. LogError, OSError.

    `files_max` bounds the open segment files of each; see `SegmentCache`.
    """
    found = [DataDir(str(path)) for path in config.log_dirs]
    metadata_path = str(config.metadata_log_dir)
    metadata = next((one for one in found if one.path == metadata_path), None)
    if metadata is None:
        metadata = DataDir(metadata_path, holds_partitions=False)
        found.append(metadata)
    opened = DataDirs(found, metadata, "")
    try:
        metas = _read_all(disk, opened, config.node_id)
        _format_new(disk, opened, metas, config)
        _open_all(disk, opened, config, files_max)
    except (LogError, OSError):
        for one in found:
            if one.log_dir is not None:
                one.log_dir.close(clean=False)
        raise
    return opened


def _must_work(opened: DataDirs, one: DataDir, error: Exception) -> None:
    """Take a directory offline, or give up if it is the one that cannot be done without."""
    if one is opened.metadata:
        raise error
    one.fail(error)


def _read_all(disk: Disk, opened: DataDirs, node_id: int) -> dict[str, MetaProperties]:
    """What the directories say of themselves; those that are new are not in it."""
    metas: dict[str, MetaProperties] = {}
    for one in opened.all:
        try:
            metas[one.path] = read_meta_properties(disk, one.path)
        except LogDirNotFormattedError:
            continue
        except NotADirectoryError:
            _must_work(opened, one, LogError(f"{one.path} is not a directory"))
        except (CorruptFileError, OSError) as error:
            _must_work(opened, one, error)
    owners: dict[Uuid, str] = {}
    for one in opened.all:
        if one.path in metas:
            one.directory_id = _check_owner(one.path, metas[one.path], node_id)
            other = owners.setdefault(one.directory_id, one.path)
            if other != one.path:
                raise LogError(f"{other} and {one.path} have the same directory.id: one is a copy")
    clusters = {meta.cluster_id: path for path, meta in metas.items()}
    if len(clusters) > 1:
        said = ", ".join(f"{path} to {cluster}" for cluster, path in clusters.items())
        raise LogError(f"the log directories belong to different clusters: {said}")
    return metas


def _check_owner(path: str, meta: MetaProperties, node_id: int) -> Uuid:
    if meta.node_id is None or meta.cluster_id is None:
        raise LogError(f"{path}/meta.properties does not say whose the directory is")
    if meta.node_id != node_id:
        raise LogError(
            f"{path} belongs to node {meta.node_id} of cluster {meta.cluster_id}, "
            f"and node.id is {node_id}"
        )
    if meta.directory_id is None:
        raise LogError(f"{path} has no directory.id: it was formatted before Kafka 3.7")
    return meta.directory_id


def _format_new(
    disk: Disk, opened: DataDirs, metas: dict[str, MetaProperties], config: BrokerConfig
) -> None:
    if not metas and not config.formats_itself:
        raise LogError(
            f"{opened.metadata.path} is not formatted: this node is one of several, so they have"
            " to be told the cluster's id (fencepost format)"
        )
    known = {meta.cluster_id for meta in metas.values()}
    opened.cluster_id = known.pop() or "" if known else str(Uuid.random())
    if metas and opened.metadata.path not in metas:
        raise LogError(
            f"{opened.metadata.path} is empty and is to have the metadata log, but"
            f" {min(metas)} is of cluster {opened.cluster_id} already: the metadata log is missing;"
            " if a broker's disk was replaced there, fencepost format --cluster-id"
            f" {opened.cluster_id} --config FILE --ignore-formatted; a voter comes back as another"
            " voter (--no-initial-controllers)"
        )
    for one in opened.all:
        if one.path in metas or not one.is_online:
            continue
        try:
            _format(disk, one.path, opened.cluster_id, config.node_id, is_first=not metas)
            one.directory_id = read_meta_properties(disk, one.path).directory_id
        except OSError as error:
            _must_work(opened, one, error)


def _format(disk: Disk, path: str, cluster_id: str, node_id: int, *, is_first: bool) -> None:
    """Make an empty directory this node's. LogError if it is not empty; OSError.

    `is_first` says that the node has no other directory, so that the cluster begins here.
    """
    disk.mkdir(path)
    names = [name for name in disk.list(path) if name not in HARMLESS_FILES]
    if names:
        kind = "partitions" if any(parse_partition_dir(name) for name in names) else "files"
        raise LogError(
            f"{path} has {kind} but no meta.properties: not an empty directory, nor one of a broker"
        )
    format_log_dir(disk, path, cluster_id=cluster_id, node_id=node_id, directory_id=Uuid.random())
    if is_first:
        log.info("formatted %s for node %d of the new cluster %s", path, node_id, cluster_id)
    else:
        log.warning(
            "%s was empty; formatted it for node %d of cluster %s: replicas that were on a"
            " disk mounted there before are created again, empty, and fetched from their"
            " leaders",
            path,
            node_id,
            cluster_id,
        )


def _has_logs(disk: Disk, one: DataDir) -> bool:
    """Whether there is anything to check; a directory that was just formatted has no segments."""
    return any(
        name.endswith(LOG_SUFFIX)
        for topic, index in one.partitions
        for name in disk.list(f"{one.path}/{partition_dir(topic, index)}")
    )


def _open_all(disk: Disk, opened: DataDirs, config: BrokerConfig, files_max: int) -> None:
    for one in opened.all:
        if not one.is_online:
            continue
        try:
            one.log_dir = LogDir.open(
                disk,
                one.path,
                files_max=files_max,
                producer_id_expiration_ms=config.get("producer.id.expiration.ms"),
            )
            one.partitions.update(one.log_dir.partitions_on_disk())
        except LogDirLockedError:
            raise
        except (LogError, OSError) as error:
            _must_work(opened, one, error)
            continue
        if not one.log_dir.was_clean and _has_logs(disk, one):
            log.info("%s was not closed cleanly: checking its logs as they are opened", one.path)
