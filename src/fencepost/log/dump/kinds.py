"""What a file of a data directory is, by its name and the directory it stands in."""

from __future__ import annotations

import posixpath
import re
from typing import Final

from fencepost.log.names import (
    CLEAN_SHUTDOWN_FILE,
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    DURABLE_END_SUFFIX,
    HIGH_WATERMARK_FILE,
    INDEX_SUFFIX,
    LEADER_EPOCH_FILE,
    LOG_START_OFFSET_FILE,
    LOG_SUFFIX,
    META_PROPERTIES_FILE,
    PARTITION_METADATA_FILE,
    QUORUM_STATE_FILE,
    RECOVERY_POINT_FILE,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TEMPORARY_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
)
from fencepost.wire.stored_records import TOPICS

CLEANER_OFFSET_FILE: Final = "cleaner-offset-checkpoint"

SEGMENT: Final = "segment"
SEGMENT_KINDS: Final = (SEGMENT, "metadata", "group", "transaction", "share", "remote-log")
"""Files of batches; all but the first have records that are decoded."""

OFFSET_INDEX: Final = "index"
TIME_INDEX: Final = "timeindex"
TXN_INDEX: Final = "txnindex"
PRODUCERS: Final = "snapshot"
OFFSETS: Final = "offset-checkpoint"
EPOCHS: Final = "epoch-checkpoint"
PARTITION_METADATA: Final = "partition-metadata"
META_PROPERTIES: Final = "meta-properties"
QUORUM_STATE: Final = "quorum-state"
CLEAN_SHUTDOWN: Final = "clean-shutdown"
DURABLE_END: Final = "durable-end"

KINDS: Final = (
    *SEGMENT_KINDS,
    OFFSET_INDEX,
    TIME_INDEX,
    TXN_INDEX,
    PRODUCERS,
    OFFSETS,
    EPOCHS,
    PARTITION_METADATA,
    META_PROPERTIES,
    QUORUM_STATE,
    CLEAN_SHUTDOWN,
    DURABLE_END,
)

_BY_NAME: Final = {
    RECOVERY_POINT_FILE: OFFSETS,
    LOG_START_OFFSET_FILE: OFFSETS,
    HIGH_WATERMARK_FILE: OFFSETS,
    CLEANER_OFFSET_FILE: OFFSETS,
    LEADER_EPOCH_FILE: EPOCHS,
    PARTITION_METADATA_FILE: PARTITION_METADATA,
    META_PROPERTIES_FILE: META_PROPERTIES,
    QUORUM_STATE_FILE: QUORUM_STATE,
    CLEAN_SHUTDOWN_FILE: CLEAN_SHUTDOWN,
}
_BY_SUFFIX: Final = {
    INDEX_SUFFIX: OFFSET_INDEX,
    TIME_INDEX_SUFFIX: TIME_INDEX,
    TXN_INDEX_SUFFIX: TXN_INDEX,
    SNAPSHOT_SUFFIX: PRODUCERS,
    DURABLE_END_SUFFIX: DURABLE_END,
}
_STAGES: Final = (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX, TEMPORARY_SUFFIX, ".part")
_TOPIC_DIR: Final = re.compile(r"(.+)-[0-9]+(?:\.[0-9a-f]{32}-(?:delete|stray|future))?")
_METADATA_SNAPSHOT: Final = re.compile(r"(?:[0-9]{20}-[0-9]{10}|bootstrap)(?:-[^.]+)?\.checkpoint")
_OFFSET: Final = re.compile(r"([0-9]{20})[.-]")


def kind_of(path: str) -> str | None:
    """The kind of the file at `path`, one of KINDS; None for what is none of them."""
    name = _without_stage(posixpath.basename(path))
    if name in _BY_NAME:
        return _BY_NAME[name]
    if _METADATA_SNAPSHOT.fullmatch(name):
        return "metadata"
    suffix = posixpath.splitext(name)[1]
    if suffix == LOG_SUFFIX:
        directory = posixpath.basename(posixpath.dirname(posixpath.abspath(path)))
        match = _TOPIC_DIR.fullmatch(directory)
        return TOPICS.get(match[1], SEGMENT) if match is not None else SEGMENT
    return _BY_SUFFIX.get(suffix)


def _without_stage(name: str) -> str:
    for stage in _STAGES:
        name = name.removesuffix(stage)
    return name


def offset_in_name(path: str) -> int | None:
    """The offset that a file is named after."""
    match = _OFFSET.match(posixpath.basename(path))
    return None if match is None else int(match[1])
