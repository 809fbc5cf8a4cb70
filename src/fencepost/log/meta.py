"""What a log directory says about itself: who it belongs to, and how it was last left.

`meta.properties` is a Java properties file that the directory is formatted with, once:

    version=1
    cluster.id=<the cluster>
    node.id=<the node>
    directory.id=<this directory, a Uuid>

A comment in front of them, `#crc32c=<8 hex digits>`, is the checksum of the lines behind it; Kafka
passes over comments, and we over a file that has none. Version 0, of Kafka's ZooKeeper days, has
`broker.id` in place of `node.id` and need not have a cluster. Keys that are not known are kept when
the file is written again.

`.kafka_cleanshutdown` is there from a clean shutdown until the next start: JSON, `{"version":0,
"brokerEpoch":<the epoch the broker had>}`. Older brokers left it empty. While it stands, logs are
opened without a look at every batch, so a marker that cannot be read counts as none.

`partition.metadata` ties a partition's directory to the topic's id: a directory that is left over
from a deleted topic of the same name must not be taken for the new one's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct, field

from fencepost.batch.crc import crc32c
from fencepost.log.disk import Disk
from fencepost.log.errors import CorruptFileError, LogDirNotFormattedError, LogError
from fencepost.log.names import CLEAN_SHUTDOWN_FILE, META_PROPERTIES_FILE, PARTITION_METADATA_FILE
from fencepost.log.properties import decode_properties, encode_properties
from fencepost.wire.types import Uuid

_INT_MAX: Final = (1 << 31) - 1
_FILE_BYTES_MAX: Final = 1 << 20
_PARTITION_METADATA: Final = r"version: 0\ntopic_id: ([A-Za-z0-9_-]{22})\n?"


class MetaProperties(Struct, frozen=True):
    """Content of `meta.properties`."""

    cluster_id: str | None
    node_id: int | None
    directory_id: Uuid | None = None
    version: int = 1
    others: Mapping[str, str] = field(default_factory=dict)

    def encode(self) -> bytes:
        """The file's content."""
        entries = {"version": str(self.version), **self.others}
        if self.cluster_id is not None:
            entries["cluster.id"] = self.cluster_id
        if self.node_id is not None:
            entries["node.id" if self.version else "broker.id"] = str(self.node_id)
        if self.directory_id is not None:
            entries["directory.id"] = str(self.directory_id)
        body = encode_properties(entries)
        return b"#crc32c=%08x\n" % crc32c(body) + body

    @classmethod
    def decode(cls, path: str, data: bytes) -> MetaProperties:
        """The content of the file at `path`. CorruptFileError."""
        _check_crc(path, data)
        entries = decode_properties(path, data)
        version = _number(path, "version", entries.pop("version", "0"))
        if version > 1:
            raise CorruptFileError(path, f"has version {version}, newer than 1")
        node_key = "node.id" if version else "broker.id"
        node = entries.pop(node_key, None)
        cluster_id = entries.pop("cluster.id", None)
        directory = entries.pop("directory.id", None)
        if version and (node is None or not cluster_id):
            raise CorruptFileError(path, "lacks cluster.id or node.id")
        try:
            directory_id = None if directory is None else Uuid.from_string(directory)
        except ValueError as error:
            raise CorruptFileError(path, f"directory.id is {error}") from None
        node_id = None if node is None else _number(path, node_key, node)
        return cls(cluster_id, node_id, directory_id, version, entries)


def read_meta_properties(disk: Disk, directory: str) -> MetaProperties:
    """The directory's `meta.properties`. LogDirNotFormattedError, CorruptFileError, OSError."""
    path = f"{directory}/{META_PROPERTIES_FILE}"
    try:
        return MetaProperties.decode(path, disk.read(path, _FILE_BYTES_MAX))
    except FileNotFoundError:
        raise LogDirNotFormattedError(f"{directory} is not formatted: no {path}") from None


def write_meta_properties(disk: Disk, directory: str, properties: MetaProperties) -> None:
    """Replace the directory's `meta.properties`, durably. OSError."""
    disk.write_atomic(f"{directory}/{META_PROPERTIES_FILE}", properties.encode())


def format_log_dir(
    disk: Disk,
    directory: str,
    *,
    cluster_id: str,
    node_id: int,
    directory_id: Uuid,
    ignore_formatted: bool = False,
) -> MetaProperties:
    """Make `directory` one of node `node_id` of cluster `cluster_id`.

    With `ignore_formatted`, a directory that already belongs to that node stays as it is. Raises
    LogError when it is formatted otherwise; CorruptFileError, OSError.
    """
    disk.mkdir(directory)
    try:
        present = read_meta_properties(disk, directory)
    except LogDirNotFormattedError:
        made = MetaProperties(cluster_id, node_id, directory_id)
        write_meta_properties(disk, directory, made)
        disk.sync_dir(directory.rpartition("/")[0] or "/")
        return made
    if (present.cluster_id, present.node_id) != (cluster_id, node_id):
        raise LogError(
            f"{directory} belongs to node {present.node_id} of cluster {present.cluster_id},"
            f" not to node {node_id} of cluster {cluster_id}"
        )
    if not ignore_formatted:
        raise LogError(f"{directory} is already formatted")
    return present


def _check_crc(path: str, data: bytes) -> None:
    head, _, body = data.partition(b"\n")
    match = re.fullmatch(rb"#crc32c=([0-9a-f]{8})", head)
    if match is not None and int(match[1], 16) != crc32c(body):
        raise CorruptFileError(path, "does not have the content its checksum was made of")


def _number(path: str, key: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 10) or int(text) > _INT_MAX:
        raise CorruptFileError(path, f"{key} is {text[:40]!r}, not a number from 0 up")
    return int(text)


def write_clean_shutdown(disk: Disk, directory: str, broker_epoch: int = -1) -> None:
    """Leave the marker, durably; everything else must be on disk by now. OSError."""
    content = msgspec.json.encode({"version": 0, "brokerEpoch": broker_epoch})
    disk.write_atomic(f"{directory}/{CLEAN_SHUTDOWN_FILE}", content)


def read_clean_shutdown(disk: Disk, directory: str) -> int | None:
    """The broker epoch in the marker, -1 if it says none; None without a sound marker. OSError."""
    try:
        data = disk.read(f"{directory}/{CLEAN_SHUTDOWN_FILE}", _FILE_BYTES_MAX)
    except (CorruptFileError, FileNotFoundError):
        return None
    return decode_clean_shutdown(data)


def decode_clean_shutdown(data: bytes) -> int | None:
    """The broker epoch in a marker with this content, -1 if it says none; None if it is not sound.

    Before Kafka 3.7 it was empty.
    """
    if not data:
        return -1
    try:
        content = msgspec.json.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or content.get("version") != 0:
        return None
    epoch = content.get("brokerEpoch", -1)
    return epoch if type(epoch) is int else None


def remove_clean_shutdown(disk: Disk, directory: str) -> None:
    """Take the marker away, durably: from here on a crash is a crash. OSError."""
    path = f"{directory}/{CLEAN_SHUTDOWN_FILE}"
    if disk.exists(path):
        disk.unlink(path)
        disk.sync_dir(directory)


def encode_partition_metadata(topic_id: Uuid) -> bytes:
    """Content of `partition.metadata`."""
    return f"version: 0\ntopic_id: {topic_id}".encode()


def read_partition_metadata(disk: Disk, directory: str) -> Uuid | None:
    """The topic id a partition's directory belongs to; None if it has no file that says so.

    CorruptFileError, OSError.
    """
    path = f"{directory}/{PARTITION_METADATA_FILE}"
    try:
        data = disk.read(path, _FILE_BYTES_MAX)
    except FileNotFoundError:
        return None
    return decode_partition_metadata(path, data)


def decode_partition_metadata(path: str, data: bytes) -> Uuid:
    """The topic id in a file with this content. CorruptFileError."""
    match = re.fullmatch(_PARTITION_METADATA, data.decode("latin-1"))
    if match is None:
        raise CorruptFileError(path, "is not of version 0 with a topic id")
    topic_id = Uuid.from_string(match[1])
    if str(topic_id) != match[1]:  # its last letter has bits to spare, which are 0
        raise CorruptFileError(path, f"{match[1]} is not how a topic id is written")
    return topic_id
