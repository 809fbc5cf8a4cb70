"""What the files of a damaged log still tell: every sound batch in them, in front of the damage and
behind it.

Recovery stops at the first damage, because a log without a gap is all that it may give out. This
module reads on, to find what the log had been: a batch that is sound by its checksum was in the log
once, wherever it stands. Behind damage the next batch is looked for byte by byte, by what its
header must look like; so a batch inside of another's records can be taken for one, which says too
much and not too little.

The offset and the epoch of a batch are not in its checksum. An offset that the bytes of the log do
not leave room for is not believed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

from fencepost.batch.errors import BatchError
from fencepost.batch.header import HEADER_BYTES, MAGIC, BatchHeader, check_crc, read_header
from fencepost.log.disk import Disk, File
from fencepost.log.epochs import LeaderEpochCache
from fencepost.log.errors import CorruptFileError
from fencepost.log.names import LEADER_EPOCH_FILE, LOG_SUFFIX, parse_offset_file

log = logging.getLogger(__name__)

_CHUNK_BYTES: Final = 1 << 20
_MAGIC_AT: Final = 16
_MAGIC_BYTE: Final = bytes((MAGIC,))


def sound_batches(disk: Disk, directory: str) -> Iterator[tuple[BatchHeader, bytes]]:
    """Header and bytes of every sound batch of format v2 in a log's segments. OSError."""
    bases = []
    for name in disk.list(directory):
        parsed = parse_offset_file(name)
        if parsed is not None and parsed[1:] == (LOG_SUFFIX, ""):
            bases.append((parsed[0], f"{directory}/{name}"))
    for base_offset, path in sorted(bases):
        file = disk.open(path)
        try:
            yield from _batches_in(file, base_offset)
        finally:
            file.close()


def _batches_in(file: File, base_offset: int) -> Iterator[tuple[BatchHeader, bytes]]:
    size = file.size()
    position = 0
    while size - position >= HEADER_BYTES:
        found = _batch_at(file, position, size, base_offset)
        if found is None:
            position = _next_candidate(file, position + 1, size)
            continue
        yield found
        position += found[0].size_bytes


def _batch_at(
    file: File, position: int, size: int, base_offset: int
) -> tuple[BatchHeader, bytes] | None:
    """The sound batch that begins there; None if there is none."""
    try:
        header = read_header(file.read_at(HEADER_BYTES, position))
    except BatchError:
        return None
    has_room = base_offset <= header.base_offset <= header.last_offset < base_offset + size
    if header.magic != MAGIC or not has_room or header.size_bytes > size - position:
        return None
    data = bytes(file.read_at(header.size_bytes, position))
    return (header, data) if check_crc(data, 0, header) else None


def _next_candidate(file: File, position: int, size: int) -> int:
    """The next place from there on that has a batch's magic where a batch has it."""
    for at in range(position + _MAGIC_AT, size, _CHUNK_BYTES):
        found = file.read_at(min(_CHUNK_BYTES, size - at), at).find(_MAGIC_BYTE)
        if found >= 0:
            return at + found - _MAGIC_AT
    return size


def log_end_of(disk: Disk, directory: str, known_end: int, epoch_max: int) -> tuple[int, int]:
    """(epoch of the last record, end offset) that the damaged log in `directory` had, or more.

    `known_end` is an offset that it is known to have reached; no record was of an epoch above
    `epoch_max`, which takes the place of one that cannot be told. OSError.
    """
    ends = [(_epoch_before(disk, directory, known_end, epoch_max), known_end)]
    for header, _ in sound_batches(disk, directory):
        if 0 <= header.partition_leader_epoch <= epoch_max:
            ends.append((header.partition_leader_epoch, header.next_offset))
    return max(ends)


def _epoch_before(disk: Disk, directory: str, offset: int, epoch_max: int) -> int:
    """The epoch of the record below `offset`, as the epochs' own file has it."""
    path = f"{directory}/{LEADER_EPOCH_FILE}"
    try:
        epochs = LeaderEpochCache.decode(path, disk.read(path))
    except (CorruptFileError, FileNotFoundError) as error:
        log.warning("cannot determine the leader epoch of offset %d: %s", offset - 1, error)
        return epoch_max
    epoch = epochs.epoch_at(offset - 1)
    return epoch_max if epoch is None else min(epoch, epoch_max)
