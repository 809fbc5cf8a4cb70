"""Digests of ranges: whichever task reads which part, in any order."""

from __future__ import annotations

from fencepost.batch.header import BatchHeader, read_header
from fencepost.spark.audit.cover import EMPTY, Cover, Digest, DigestBuilder

from ...log.helpers import make_batch


def header(offset: int) -> BatchHeader:
    return read_header(make_batch(1), 0)._replace(base_offset=offset, crc=offset * 7919)


def digests(cover: Cover, *offsets: int) -> dict[int, Digest]:
    builder = DigestBuilder(cover, 0)
    for offset in offsets:
        builder.add(header(offset))
    return builder.finish()


def test_parts_of_a_range_add_up_to_the_whole():
    cover = Cover(((0, 30), (0, 30)), 10)
    whole = digests(cover, 0, 1, 2, 11)
    assert {start: one.batches for start, one in whole.items()} == {0: 3, 10: 1}
    assert digests(cover, 0, 11, 2, 1) == whole  # it comes back to the first
    first, second = digests(cover, 0), digests(cover, 1, 2, 11)
    assert first[0].with_(second[0]) == second[0].with_(first[0]) == whole[0]
    assert EMPTY.with_(first[0]) == first[0]
    assert digests(cover, 0, 1, 3, 11)[0] != whole[0]
