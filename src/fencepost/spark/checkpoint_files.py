"""A checkpoint's files as texts, and changes of them that Spark takes for its own.

`checkpoint` says what a checkpoint means; this keeps what it does not look at (the line of
metadata, offsets of sources that read no topics), so that a file can be written again with one line
changed.

Spark writes a file under another name and renames it, so a reader sees a whole file; `Storage` does
the same. On local disks Hadoop keeps checksums in `.N.crc` beside `N` and refuses a file that does
not match, so that is removed before a file is replaced and written again after: at every moment a
file has its own checksums or none, which Hadoop takes as well.

Everything that is replaced or removed is copied to `fencepost-backup/TIME/` in the checkpoint
first, under the path that it had; Spark looks at no directory there that it did not make.
"""

from __future__ import annotations

import json
import re
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from fencepost.arrow.checkpoint import CheckpointError
from fencepost.arrow.offsets import EXTRA, StreamOffset
from fencepost.arrow.storage import Storage

BACKUPS: Final = "fencepost-backup"
NO_OFFSET: Final = "-"
CHECKSUM_BYTES: Final = 512
"""Hadoop's file.bytes-per-checksum: a CRC-32 for each so many bytes."""
_BATCH: Final = re.compile("offsets/(0|[1-9][0-9]{0,17})")


@dataclass(frozen=True, slots=True)
class OffsetsFile:
    """`offsets/N` as it is; `sources` are names with texts, in v1 names are numbers in order."""

    batch: int
    version: str
    metadata: str
    sources: tuple[tuple[str, str], ...]

    @property
    def path(self) -> str:
        return f"offsets/{self.batch}"

    def with_texts(self, texts: Mapping[str, str]) -> OffsetsFile:
        """With other texts for some sources."""
        found = tuple((name, texts.get(name, text)) for name, text in self.sources)
        return replace(self, sources=found)

    def to_bytes(self) -> bytes:
        """As Spark writes it: no line break at the end."""
        named = self.version == "v2"
        lines = [f"{name}:{text}" if named else text for name, text in self.sources]
        return "\n".join([self.version, self.metadata, *lines]).encode()

    @property
    def watermark_ms(self) -> int:
        """The watermark with which the batch runs, ms since 1970; 0 where there is none."""
        try:
            found = json.loads(self.metadata).get("batchWatermarkMs", 0)
        except (ValueError, AttributeError, RecursionError):
            return 0
        return found if type(found) is int else 0


def parse_offsets_file(batch: int, data: bytes) -> OffsetsFile:
    """A file that `checkpoint.read_checkpoint` has found to be in order."""
    version, metadata, *lines = data.decode().removesuffix("\n").split("\n")
    if version == "v1":
        sources = tuple((str(number), text) for number, text in enumerate(lines))
    else:
        parts = [line.partition(":") for line in lines]
        sources = tuple((name, text) for name, _, text in parts)
    return OffsetsFile(batch, version, metadata, sources)


def read_offsets_file(storage: Storage, batch: int) -> OffsetsFile:
    """`offsets/N`. CheckpointError."""
    try:
        return parse_offsets_file(batch, storage.read_bytes(f"offsets/{batch}"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{storage.uri_of(f'offsets/{batch}')}: {error}") from error


def batches_of(storage: Storage) -> list[int]:
    """The batches that have a file of offsets, in order."""
    names = (_BATCH.fullmatch(entry.path) for entry in storage.list("offsets"))
    return sorted(int(match[1]) for match in names if match)


def offset_text(offset: StreamOffset, like: str) -> str:
    """A source's offset as the connector that wrote `like` spells it: compact and without ids by
    Spark's own, with blanks by ours, since Spark compares a Python source's offsets as texts."""
    is_ours = EXTRA in like or '": ' in like
    if not is_ours:
        return plain_text(offset)
    return own_text(offset, plain=EXTRA not in like)


def own_text(offset: StreamOffset, *, plain: bool = False) -> str:
    """As this connector spells offsets (`plain`: with plainOffsets=true)."""
    return json.dumps(offset.to_json(plain=plain))


def plain_text(offset: StreamOffset) -> str:
    """As Spark's own connector spells offsets."""
    return json.dumps(offset.to_json(plain=True), separators=(",", ":"))


def initial_offsets_file(offset: StreamOffset) -> bytes:
    """`sources/N/0`, in which Spark's own connector keeps where a query started: a zero byte, the
    version, JSON (KafkaSourceInitialOffsetWriter)."""
    return b"\0v1\n" + plain_text(offset).encode()


# -- changing --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Change:
    """A file to be written as a whole (`before` None: it is new), or removed (`after` None)."""

    path: str
    before: bytes | None
    after: bytes | None


def apply_changes(storage: Storage, changes: Sequence[Change], newest_batch: int) -> str:
    """Make the changes, in order, and return where the backup is.

    CheckpointError if a file is not as it was when the changes were planned, and if batches have
    been added: a query runs then. Every change by itself is done or not done.
    """
    _require_unchanged(storage, changes, newest_batch)
    backup = f"{BACKUPS}/{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}"
    taken = backup
    number = 1
    while storage.list(taken):
        number += 1
        taken = f"{backup}-{number}"
    for change in changes:
        if change.before is not None:
            storage.write_bytes(f"{taken}/{change.path}", change.before)
    for change in changes:
        _apply(storage, change)
    added = [batch for batch in batches_of(storage) if batch > newest_batch]
    if added:
        raise CheckpointError(
            f"{storage.uri}: batch {added[0]} was planned while the checkpoint was changed, so a "
            f"query runs: stop it and do this again; what was there is in {taken}"
        )
    return taken


def _require_unchanged(storage: Storage, changes: Iterable[Change], newest_batch: int) -> None:
    batches = batches_of(storage)
    if not batches or batches[-1] != newest_batch:
        found = batches[-1] if batches else "none"
        raise CheckpointError(
            f"{storage.uri}: the newest batch was {newest_batch} and is {found} now: a query runs; "
            "stop it first"
        )
    for change in changes:
        try:
            now: bytes | None = storage.read_bytes(change.path)
        except FileNotFoundError:
            now = None
        if now != change.before:
            raise CheckpointError(
                f"{storage.uri_of(change.path)}: changed in the meantime: a query runs, or another "
                "command changes the checkpoint"
            )


def _apply(storage: Storage, change: Change) -> None:
    is_local = storage.uri.startswith("file:")
    checksums = _checksums_path(change.path)
    if is_local:
        storage.delete(checksums)
    if change.after is None:
        storage.delete(change.path)
        return
    storage.write_bytes(change.path, change.after)
    if is_local:
        storage.write_bytes(checksums, checksums_of(change.after))


def _checksums_path(path: str) -> str:
    directory, _, name = path.rpartition("/")
    return f"{directory}/.{name}.crc"


def checksums_of(data: bytes) -> bytes:
    """What Hadoop keeps in `.NAME.crc`: "crc", a zero byte, how many bytes each CRC-32 is of, and
    these (ChecksumFileSystem)."""
    pieces = [data[at : at + CHECKSUM_BYTES] for at in range(0, len(data), CHECKSUM_BYTES)]
    sums = b"".join(zlib.crc32(piece).to_bytes(4, "big") for piece in pieces)
    return b"crc\0" + CHECKSUM_BYTES.to_bytes(4, "big") + sums
