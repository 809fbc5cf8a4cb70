"""A file's dump, whatever it is; files that are only read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from fencepost.log.disk import FILE_BYTES_MAX, open_regular, read_from
from fencepost.log.dump import kinds
from fencepost.log.dump.batches import Readable
from fencepost.log.dump.documents import (
    dump_clean_shutdown,
    dump_durable_end,
    dump_epoch_checkpoint,
    dump_meta_properties,
    dump_offset_checkpoint,
    dump_partition_metadata,
    dump_quorum_state,
)
from fencepost.log.dump.indexes import (
    dump_offset_index,
    dump_snapshot,
    dump_time_index,
    dump_txn_index,
)
from fencepost.log.dump.items import Item, damage
from fencepost.log.dump.segments import DumpOptions, dump_segment
from fencepost.log.producers import SNAPSHOT_BYTES_MAX

INDEX_BYTES_MAX: Final = (1 << 31) - 1
"""Of a segment, and so of its indexes."""

_INDEXES: Final[dict[str, Callable[[Readable, int], Iterator[Item]]]] = {
    kinds.OFFSET_INDEX: dump_offset_index,
    kinds.TIME_INDEX: dump_time_index,
    kinds.TXN_INDEX: dump_txn_index,
}
_DOCUMENTS: Final[dict[str, Callable[[str, bytes], Iterator[Item]]]] = {
    kinds.OFFSETS: dump_offset_checkpoint,
    kinds.EPOCHS: dump_epoch_checkpoint,
    kinds.PARTITION_METADATA: dump_partition_metadata,
    kinds.META_PROPERTIES: dump_meta_properties,
    kinds.QUORUM_STATE: dump_quorum_state,
    kinds.CLEAN_SHUTDOWN: dump_clean_shutdown,
    kinds.DURABLE_END: dump_durable_end,
}


class PlainFile:
    """A file of the operating system that is only read; a `Readable`."""

    def __init__(self, path: str) -> None:
        self._descriptor = open_regular(path, os.O_RDONLY)

    def __enter__(self) -> PlainFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)

    def read_at(self, size: int, position: int) -> bytes:
        """See `Readable`."""
        return read_from(self._descriptor, size, position)

    def size(self) -> int:
        """See `Readable`."""
        return os.fstat(self._descriptor).st_size


def dump(file: Readable, path: str, kind: str, options: DumpOptions) -> Iterator[Item]:
    """What is in the file, which is of this kind (of `kinds.KINDS`). OSError."""
    base_offset = kinds.offset_in_name(path)
    if kind in kinds.SEGMENT_KINDS:
        yield from dump_segment(file, base_offset, options)
    elif (size := file.size()) > _bytes_max(kind):
        yield damage(0, f"{size} bytes are too many for a {kind} file")
    elif kind in _INDEXES:
        yield from _INDEXES[kind](file, base_offset or 0)
    elif kind == kinds.PRODUCERS:
        yield from dump_snapshot(file)
    else:
        yield from _DOCUMENTS[kind](path, file.read_at(size, 0))


def _bytes_max(kind: str) -> int:
    """Beyond this no file of a broker is of the kind."""
    if kind in _INDEXES:
        return INDEX_BYTES_MAX
    return SNAPSHOT_BYTES_MAX if kind == kinds.PRODUCERS else FILE_BYTES_MAX


def files_of(path: str) -> list[str]:
    """The files behind a path: itself, or what is known in a directory and those below it. OSError.

    Sorted, so that what belongs to a segment stands together.
    """
    if not os.path.isdir(path):
        return [path]
    found = []
    for directory, below, names in os.walk(path, onerror=_raise):
        below.sort()
        paths = [str(Path(directory, name)) for name in sorted(names)]
        found += [one for one in paths if kinds.kind_of(one) is not None]
    return found


def _raise(error: OSError) -> None:
    raise error
