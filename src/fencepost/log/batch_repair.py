"""Damaged batches in the middle of a log: where the first one is, and putting a good copy in place.

A batch that is replicated is the same bytes everywhere. So one that is corrupt here is replaced by
another replica's, in its own place, and nothing else of the log moves: what was promised to be
here is here again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from fencepost.batch.header import check_crc, read_header
from fencepost.log.disk import Buffer
from fencepost.log.errors import CorruptFileError
from fencepost.log.segment import Segment


def first_damaged(segments: Sequence[Segment], from_offset: int) -> int | None:
    """The offset at which the first batch begins that is not sound, from a sound end on; or None.

    Batches must follow each other without gaps, as in a log that is not compacted. OSError.
    """
    expected = from_offset
    for segment in segments:
        try:
            start = _begin_of(segment, expected)
            for position, header in segment.headers(start, segment.size_bytes):
                data = segment.file.read_at(header.size_bytes, position)
                if header.base_offset != expected or not check_crc(data, 0, header):
                    return expected
                expected = header.next_offset
        except CorruptFileError:
            return expected
    return None


def is_framed(segment: Segment, offset: int) -> bool:
    """Whether the batch in the place of `offset` says that it is, and the next one follows it.

    Then a good copy will fit, whatever of its records is damaged. OSError.
    """
    try:
        start = _begin_of(segment, offset)
        _, header = next(segment.headers(start, segment.size_bytes), (start, None))
        if header is None or header.base_offset != offset:
            return False
        following = segment.base_offset_at(start + header.size_bytes)
    except CorruptFileError:
        return False
    return header.next_offset == (segment.next_offset if following is None else following)


def repair_batch(segment: Segment, offset: int, batch: Buffer) -> None:
    """Write the batch that begins at `offset` over what is in its place, durably.

    Raises ValueError if it does not fit there, CorruptFileError if the place cannot be found,
    OSError.
    """
    header = read_header(batch)
    position = _begin_of(segment, offset)
    end = position + header.size_bytes
    if header.base_offset != offset or len(batch) != header.size_bytes:
        raise ValueError(f"no batch of offset {offset}")
    if end > segment.size_bytes or header.next_offset > segment.next_offset:
        raise ValueError(f"the batch at {offset} is larger than its place")
    if not _ends(segment, position, end, header.next_offset):
        raise ValueError(f"the batch at {offset} does not end where the next one begins")
    segment.file.write_at(batch, position)
    segment.file.sync()


def _begin_of(segment: Segment, offset: int) -> int:
    """Where the batch of `offset` begins: where the one before it, which is sound, ends."""
    if offset <= segment.base_offset:
        return 0
    before = segment.position_of(offset - 1)
    return before + segment.batch_size_at(before)


def _ends(segment: Segment, position: int, end: int, next_offset: int) -> bool:
    """Whether the batch at `position` ends at `end`: the next one says so, or it does itself."""
    if end == segment.size_bytes:
        return True
    try:
        return segment.base_offset_at(end) == next_offset
    except CorruptFileError:  # the next one is damaged, too
        with contextlib.suppress(CorruptFileError):
            return segment.batch_size_at(position) == end - position
        return False
