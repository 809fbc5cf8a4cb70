"""What is in a replica's log directory: the first task of an audit, run where the directory is."""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from fencepost.log.checkpoints import TopicPartition
from fencepost.log.disk import FILE_BYTES_MAX, index_bytes_max
from fencepost.log.errors import CorruptFileError
from fencepost.log.meta import MetaProperties, decode_partition_metadata
from fencepost.log.names import (
    HIGH_WATERMARK_FILE,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    META_PROPERTIES_FILE,
    PARTITION_METADATA_FILE,
    offset_file,
    parse_partition_dir,
)
from fencepost.log.offset_index import OffsetIndex
from fencepost.log.verify.checkpoints import CheckpointReader, read_identity
from fencepost.log.verify.facts import DirectoryFacts
from fencepost.log.verify.files import Files, PlainFiles
from fencepost.log.verify.partition import Listing
from fencepost.log.verify.problems import Problem
from fencepost.spark.audit.model import Copy, Partition, SegmentFile
from fencepost.wire.types import Uuid

SPLIT_BYTES: Final = 256 << 20
"""Segments of more than one and a half times as much are read in parts."""
METADATA_TOPIC: Final = "__cluster_metadata"
CLUSTER_NODE: Final = "data"
"""Where a node of `fencepost cluster` has its log directory."""


@dataclass
class LogDirectory:
    """A log directory of one replica."""

    path: str
    cluster_id: str | None = None
    node_id: int | None = None
    problems: list[Problem] = field(default_factory=list)
    """Of the files that are about all of it."""
    copies: list[Copy] = field(default_factory=list)
    has_topics: bool = False
    """Whether a partition of a topic is in it, audited or not: controllers have none."""


@dataclass(frozen=True)
class ListTask:
    """Lists one directory: a log directory, or that of a cluster as `fencepost cluster` keeps it.

    `replica` is the number it is to have; without one it is its own `node.id`.
    """

    path: str
    replica: int | None
    topics: tuple[str, ...] = ()
    """Regular expressions, one of which a topic's whole name must match; all topics if there are
    none."""
    only: frozenset[Partition] | None = None
    split_bytes: int = SPLIT_BYTES

    @property
    def weight_bytes(self) -> int:
        """See `Task`."""
        return 0

    def run(self) -> list[LogDirectory] | str:
        """The log directories; a text if there are none."""
        files = PlainFiles()
        path = self.path.rstrip("/") or "/"
        try:
            if not files.is_dir(path):
                return f"{path} is no directory, or is not there, on {os.uname().nodename}"
            nodes = [path] if is_log_dir(files, path) else list(_nodes_of(files, path))
            if not nodes:
                return f"{path} is neither a log directory nor one of a cluster"
            return [self._directory(files, node) for node in nodes]
        except OSError as error:
            return f"{error.filename or path} cannot be read: {error.strerror or error}"

    def _directory(self, files: Files, path: str) -> LogDirectory:
        found = LogDirectory(path)
        identity = read_identity(files, path)
        if isinstance(identity, MetaProperties):
            found.cluster_id, found.node_id = identity.cluster_id, identity.node_id
        elif files.exists(f"{path}/{META_PROPERTIES_FILE}"):
            found.problems.append(identity)
        reader = CheckpointReader(files, path)
        facts = reader.facts(is_live=False)
        found.problems += reader.problems
        has_checkpoints = files.exists(f"{path}/{HIGH_WATERMARK_FILE}")
        replica = self.replica if self.replica is not None else found.node_id
        present: set[TopicPartition] = set()
        for name in files.list(path):
            key = parse_partition_dir(name)
            if key is None or not files.is_dir(f"{path}/{name}"):
                continue
            found.has_topics |= key[0] != METADATA_TOPIC
            if not self._is_chosen(key):
                continue
            present.add(key)
            number = -1 if replica is None else replica
            found.copies.append(
                self._copy(files, f"{path}/{name}", key, facts, number, has_checkpoints)
            )
        if facts.is_clean and not self.topics and self.only is None:
            found.problems += reader.strangers(present)
        return found

    def _is_chosen(self, key: TopicPartition) -> bool:
        if self.only is not None:
            return Partition(*key) in self.only
        return not self.topics or any(re.fullmatch(one, key[0]) for one in self.topics)

    def _copy(
        self,
        files: Files,
        path: str,
        key: TopicPartition,
        facts: DirectoryFacts,
        replica: int,
        has_checkpoints: bool,
    ) -> Copy:
        of_partition = facts.of(key)
        try:
            listing = Listing.of(files.list(path))
        except OSError as error:
            reason = f"cannot be read: {error.strerror or error}"
            return Copy(replica, path, Partition(*key), of_partition, has_checkpoints, error=reason)
        return Copy(
            replica,
            path,
            Partition(*key),
            of_partition,
            has_checkpoints,
            tuple(self._segments(files, path, listing.bases)),
            tuple(listing.snapshots),
            _topic_id(files, path),
        )

    def _segments(self, files: Files, path: str, bases: list[int]) -> Iterator[SegmentFile]:
        for base in bases:
            try:
                stat = os.stat(f"{path}/{offset_file(base, LOG_SUFFIX)}")
            except FileNotFoundError:
                continue  # it was deleted while we looked
            except OSError:
                yield SegmentFile(base, 0, 0, 0)  # reading it will say what is wrong
                continue
            splits: tuple[tuple[int, int], ...] = ()
            if stat.st_size * 2 > self.split_bytes * 3:
                splits = tuple(self._splits(files, path, base, stat.st_size))
            yield SegmentFile(base, stat.st_size, stat.st_mtime_ns, stat.st_ino, splits)

    def _splits(self, files: Files, path: str, base: int, size: int) -> Iterator[tuple[int, int]]:
        """Where batches begin, about every `split_bytes`, as far as the offset index says."""
        index_path = f"{path}/{offset_file(base, INDEX_SUFFIX)}"
        try:
            data = files.read(index_path, max(index_bytes_max(size), FILE_BYTES_MAX))
            index = OffsetIndex.decode(index_path, data, size)
        except (OSError, CorruptFileError):
            return
        previous = 0
        for wanted in range(self.split_bytes, size - self.split_bytes // 2, self.split_bytes):
            at = bisect_right(index.positions, wanted) - 1
            if at >= 0 and index.positions[at] > previous:
                previous = index.positions[at]
                yield previous, base + index.offsets[at]


def is_log_dir(files: Files, path: str) -> bool:
    """Whether it is formatted, or has partitions in it. OSError."""
    return any(
        name == META_PROPERTIES_FILE
        or (parse_partition_dir(name) and _has_segments(files, f"{path}/{name}"))
        for name in files.list(path)
    )


def _has_segments(files: Files, path: str) -> bool:
    """Whether a directory is a partition's: `broker-1` of a cluster is named like one."""
    if not files.is_dir(path):
        return False
    with suppress(OSError):
        names = files.list(path)
        return bool(Listing.of(names).bases) or PARTITION_METADATA_FILE in names
    return False


def _nodes_of(files: Files, path: str) -> Iterator[str]:
    for name in files.list(path):
        for node in (f"{path}/{name}/{CLUSTER_NODE}", f"{path}/{name}"):
            if files.is_dir(node) and is_log_dir(files, node):
                yield node
                break


def _topic_id(files: Files, path: str) -> Uuid | None:
    metadata = f"{path}/{PARTITION_METADATA_FILE}"
    try:
        return decode_partition_metadata(metadata, files.read(metadata))
    except (OSError, CorruptFileError):
        return None  # which is for the check of the directory to report
