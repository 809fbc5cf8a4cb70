"""Names of files and directories in a log directory, and what they say.

A partition lives in `<topic>-<partition>`; its files are named after the first offset in them,
twenty digits, and a suffix for what they are. Suffixes behind the suffix say what is being done:
`.deleted` waits to be removed, `.cleaned` is a compaction's unfinished output, `.swap` its finished
output on the way to its final name, `.swap.aside` one that was not fit for it. A partition's
directory that waits to be removed is named `<topic>-<partition>.<32 hex digits>-delete`, one that
is set aside `-stray`, and a copy on its way to another log directory `-future`.

Topic names come from outside and become paths, so only Kafka's own alphabet passes.
"""

from __future__ import annotations

import re
from typing import Final

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TXN_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
TEMPORARY_SUFFIX: Final = ".tmp"
ASIDE_SUFFIX: Final = ".aside"
DELETE_DIR_SUFFIX: Final = "-delete"
STRAY_DIR_SUFFIX: Final = "-stray"
FUTURE_DIR_SUFFIX: Final = "-future"

SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
"""The files that make up one segment; indexes are of no use without their log."""

LEADER_EPOCH_FILE: Final = "leader-epoch-checkpoint"
PARTITION_METADATA_FILE: Final = "partition.metadata"
QUORUM_STATE_FILE: Final = "quorum-state"
META_PROPERTIES_FILE: Final = "meta.properties"
CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
LOCK_FILE: Final = ".lock"
RECOVERY_POINT_FILE: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_FILE: Final = "log-start-offset-checkpoint"
HIGH_WATERMARK_FILE: Final = "replication-offset-checkpoint"
CLEANER_FILE: Final = "cleaner-offset-checkpoint"
DURABLE_END_SUFFIX: Final = ".durable-end"

TOPIC_NAME_MAX: Final = 249
FILE_NAME_MAX: Final = 255
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_PARTITION_DIR = re.compile(r"(.+)-(0|[1-9][0-9]{0,9})", re.DOTALL)
_DELETED_DIR = r"(?s).+-[0-9]{1,10}\.[^.]+-delete"
_FUTURE_DIR = r"(?s)(.+)\.[^.]+-future"
_OFFSET_FILE = re.compile(r"([0-9]{20})(\.[a-z]+)(\.[a-z]+)?")
_PARTITION_MAX = (1 << 31) - 1
_OFFSET_MAX = (1 << 63) - 1


def is_valid_topic(topic: str) -> bool:
    """Whether `topic` is a name Kafka allows, and hence safe as part of a path."""
    return _TOPIC.fullmatch(topic) is not None and topic not in (".", "..")


def invalid_topic_reason(topic: str) -> str | None:
    """Why `topic` is no name of a topic, in the shape of Kafka's messages; None if it is one."""
    if is_valid_topic(topic):
        return None
    if not topic:
        reason = "the empty string is not allowed"
    elif topic in (".", ".."):
        reason = f"'{topic}' is not allowed"
    elif len(topic) > TOPIC_NAME_MAX:
        reason = f"the length of '{topic}' is longer than the max allowed length {TOPIC_NAME_MAX}"
    else:
        reason = (
            f"'{topic}' contains one or more characters other than ASCII alphanumerics, '.', '_'"
            " and '-'"
        )
    return f"Topic name is invalid: {reason}"


def partition_dir(topic: str, partition: int) -> str:
    """Name of the partition's directory. ValueError for what is not a topic and a partition."""
    if not is_valid_topic(topic):
        raise ValueError(f"not a topic name: {topic!r}")
    if not 0 <= partition <= _PARTITION_MAX:
        raise ValueError(f"not a partition: {partition}")
    return f"{topic}-{partition}"


def parse_partition_dir(name: str) -> tuple[str, int] | None:
    """Topic and partition of a directory's name; None if it is not one of a partition in use."""
    match = _PARTITION_DIR.fullmatch(name)
    if match is None or not is_valid_topic(match[1]) or int(match[2]) > _PARTITION_MAX:
        return None
    return match[1], int(match[2])


def deleted_dir(topic: str, partition: int, unique: str) -> str:
    """Name of a partition's directory that is to be removed; `unique` sets it apart."""
    tail = f"-{partition}.{unique}{DELETE_DIR_SUFFIX}"
    return topic[: FILE_NAME_MAX - len(tail)] + tail


def is_deleted_dir(name: str) -> bool:
    """Whether a directory's name is one that `deleted_dir`, or Kafka, gives."""
    return name.endswith(DELETE_DIR_SUFFIX) and re.fullmatch(_DELETED_DIR, name) is not None


def stray_dir(topic: str, partition: int, unique: str) -> str:
    """Name of a partition's directory that is set aside; `unique` sets it apart."""
    tail = f"-{partition}.{unique}{STRAY_DIR_SUFFIX}"
    return topic[: FILE_NAME_MAX - len(tail)] + tail


def future_dir(topic: str, partition: int, unique: str) -> str:
    """Name of the directory in which a partition is copied to another log directory (KIP-113).

    ValueError for what is not a topic and a partition, or a name that is too long for a file.
    """
    name = f"{partition_dir(topic, partition)}.{unique}{FUTURE_DIR_SUFFIX}"
    if len(name) > FILE_NAME_MAX:
        raise ValueError(f"{name!r} is too long for a file")
    return name


def is_future_dir_too_long(topic: str, partition: int) -> bool:
    """Whether the name that `future_dir` would have to give is too long for a file."""
    return len(f"{topic}-{partition}.{'0' * 32}{FUTURE_DIR_SUFFIX}") > FILE_NAME_MAX


def parse_future_dir(name: str) -> tuple[str, int] | None:
    """Topic and partition of a directory that `future_dir`, or Kafka, names; None for others."""
    match = re.fullmatch(_FUTURE_DIR, name) if name.endswith(FUTURE_DIR_SUFFIX) else None
    return None if match is None else parse_partition_dir(match[1])


def is_former_dir(name: str, topic: str, partition: int) -> bool:
    """Whether a directory is named as the partition's is when it is deleted or set aside."""
    unique = name.rpartition(".")[2].rpartition("-")[0]
    return name in (deleted_dir(topic, partition, unique), stray_dir(topic, partition, unique))


def offset_file(offset: int, suffix: str) -> str:
    """Name of the file for `offset`."""
    return f"{offset:020d}{suffix}"


def parse_offset_file(name: str) -> tuple[int, str, str] | None:
    """(offset, suffix, suffix behind it or "") of a file's name; None for any other file."""
    match = _OFFSET_FILE.fullmatch(name)
    if match is None or int(match[1]) > _OFFSET_MAX:
        return None
    return int(match[1]), match[2], match[3] or ""
