"""`.swap` files that a stopped compaction has left: put in place, or set aside if they are no copy.

A copy of segments holds some of their batches, where they were, and nothing else; the segment that
is written to is never among them. That is checked batch by batch before anything is replaced: not
every field of a batch is covered by its checksum, and one flipped bit in an offset can make a
`.swap` reach over segments that it knows nothing of.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from fencepost.batch.header import MAGIC, BatchHeader
from fencepost.log.disk import Disk
from fencepost.log.errors import DurableDataLostError
from fencepost.log.names import (
    ASIDE_SUFFIX,
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    offset_file,
    parse_offset_file,
)
from fencepost.log.offset_index import RELATIVE_MAX

log = logging.getLogger(__name__)

ReadSegment = Callable[[str, int], Iterator[tuple[int, BatchHeader]]]
"""Position and header of the batches at the beginning of a segment file that are sound."""


def settle_swap_files(disk: Disk, directory: str, read_segment: ReadSegment) -> None:
    """Put in place what is a copy, set aside what is not.

    Raises DurableDataLostError if something is no copy and the segments it stands for are not
    whole, OSError.
    """
    swap_files = _SwapFiles(disk, directory, read_segment)
    if swap_files.names:
        swap_files.settle()


class _SwapFiles:
    """The `.swap` files of one directory and the segments around them."""

    def __init__(self, disk: Disk, directory: str, read_segment: ReadSegment) -> None:
        self._disk = disk
        self._directory = directory
        self._read_segment = read_segment
        self.names: list[str] = []
        self._bases: list[int] = []
        self._cleaned: list[int] = []
        self._live: set[int] = set()
        self._deleted: set[int] = set()
        for name in disk.list(directory):
            parsed = parse_offset_file(name)
            if parsed is None:
                continue
            base, suffix, stage = parsed
            if stage == SWAP_SUFFIX:
                self.names.append(name)
            elif stage == CLEANED_SUFFIX:
                self._cleaned.append(base)
            if suffix == LOG_SUFFIX:
                if stage == SWAP_SUFFIX:
                    self._bases.append(base)
                elif stage == DELETED_SUFFIX:
                    self._deleted.add(base)
                elif not stage:
                    self._live.add(base)

    def _path(self, base: int, suffix: str) -> str:
        return f"{self._directory}/{offset_file(base, suffix)}"

    def settle(self) -> None:
        """See `settle_swap_files`."""
        ends: dict[int, int] = {}
        refused: dict[int, str] = {}
        for base in self._bases:
            if self._is_unfinished(base):
                refused[base] = "its compaction was not finished"
            elif (end := self._end_of_copy(base)) is None:
                refused[base] = "it is no sound copy of the segments it stands for"
            else:
                ends[base] = end
        for base, reason in refused.items():
            self._restore(base, reason)
        self._disk.sync_dir(self._directory)
        for base, reason in refused.items():
            # Amid a compaction's first renames: what it has copied is there, and needs no copy.
            if not (self._is_unfinished(base) and base in self._live):
                path = self._path(base, LOG_SUFFIX + SWAP_SUFFIX)
                log.warning("not using %s: %s", path, reason)
        for name in self.names:
            parsed = parse_offset_file(name)
            if parsed is not None and (parsed[0] in refused or self._is_unfinished(parsed[0])):
                self._get_rid_of(parsed[0], name)
        self._put_in_place(ends)

    def _is_unfinished(self, base: int) -> bool:
        return bool(self._cleaned) and base >= min(self._cleaned)

    def _get_rid_of(self, base: int, name: str) -> None:
        path = f"{self._directory}/{name}"
        if self._is_unfinished(base) and base in self._live:
            self._disk.unlink(path)
        else:
            self._disk.rename(path, path + ASIDE_SUFFIX)

    def _put_in_place(self, ends: dict[int, int]) -> None:
        for base in sorted(self._live):
            if any(first <= base < end for first, end in ends.items()):
                for suffix in SEGMENT_SUFFIXES:
                    self._move(base, suffix, suffix + DELETED_SUFFIX)
        self._disk.sync_dir(self._directory)  # the old must be gone before the new have names
        for name in self.names:
            parsed = parse_offset_file(name)
            if parsed is not None and self._disk.exists(f"{self._directory}/{name}"):
                self._move(parsed[0], parsed[1] + SWAP_SUFFIX, parsed[1])
        self._disk.sync_dir(self._directory)

    def _move(self, base: int, suffix: str, new_suffix: str) -> None:
        path = self._path(base, suffix)
        if self._disk.exists(path):
            self._disk.rename(path, self._path(base, new_suffix))

    # ---- is it a copy?

    def _end_of_copy(self, base: int) -> int | None:
        """The offset behind a copy's last batch; None if it is no copy."""
        copied = self._whole(base, LOG_SUFFIX + SWAP_SUFFIX)
        if not copied:
            return None
        end = copied[-1].next_offset
        if end - base > RELATIVE_MAX + 1 or not any(at >= end for at in self._live):
            return None
        originals = self._originals(base, end)
        original = next(originals, None)
        for header in copied:
            while original is not None and original.next_offset <= header.base_offset:
                original = next(originals, None)
            if original is None or not _is_of(header, original):
                return None
        return end

    def _whole(self, base: int, suffix: str) -> list[BatchHeader] | None:
        """The headers of a file that is sound to its end; None if it is not."""
        path = self._path(base, suffix)
        headers, end = [], 0
        for position, header in self._read_segment(path, base):
            headers.append(header)
            end = position + header.size_bytes
        return headers if end == self._disk.size(path) else None

    def _originals(self, base: int, end: int) -> Iterator[BatchHeader]:
        """The batches that a copy of these offsets may hold, in order."""
        known = self._live | self._deleted
        first = max((at for at in known if at <= base), default=base)
        reached = first
        for at in sorted(at for at in known if first <= at < end):
            if at < reached:
                continue  # of an earlier incarnation: compacted into what was read already
            suffix = LOG_SUFFIX if at in self._live else LOG_SUFFIX + DELETED_SUFFIX
            for _, header in self._read_segment(self._path(at, suffix), at):
                reached = header.next_offset
                yield header

    # ---- if it is not

    def _restore(self, base: int, reason: str) -> None:
        """Give the segments that a refused copy stands for their names back."""
        live_at = max((at for at in self._live if at <= base), default=None)
        last = max(self._live, default=-1)
        if live_at is None and base not in self._deleted:
            path = self._path(base, LOG_SUFFIX + SWAP_SUFFIX)
            raise DurableDataLostError(path, f"{reason}, and these are gone")
        reached = first = base if live_at is None else live_at
        restored = []
        for at in sorted(at for at in self._live | self._deleted if first <= at < last):
            if at in self._live:
                headers = [header for _, header in self._read_segment(self._path(at, ".log"), at)]
            elif at < reached:
                continue  # of an earlier incarnation: compacted into what stands in front of it
            else:
                found = self._whole(at, LOG_SUFFIX + DELETED_SUFFIX)
                if found is None:
                    path = self._path(at, LOG_SUFFIX + DELETED_SUFFIX)
                    raise DurableDataLostError(path, f"is not sound, and its copy: {reason}")
                headers = found
                restored.append(at)
            reached = max(reached, headers[-1].next_offset if headers else at)
        if live_at is None and last < 0:
            path = self._path(base, LOG_SUFFIX + SWAP_SUFFIX)
            raise DurableDataLostError(path, f"{reason}, and no segment follows it")
        for at in restored:
            for suffix in SEGMENT_SUFFIXES:
                if not self._disk.exists(self._path(at, suffix)):
                    self._move(at, suffix + DELETED_SUFFIX, suffix)
            self._deleted.discard(at)
            self._live.add(at)


def _is_of(copied: BatchHeader, original: BatchHeader) -> bool:
    """Whether a batch can be what compaction has left of another, by its offsets."""
    if copied.magic == MAGIC == original.magic:
        return copied.base_offset == original.base_offset and (
            copied.next_offset == original.next_offset
        )
    return original.base_offset <= copied.base_offset and (
        copied.next_offset <= original.next_offset
    )
