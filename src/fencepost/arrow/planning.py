"""How offsets become tasks: rate limits and splits, as Spark's own connector computes them.

Pure arithmetic (KafkaMicroBatchStream.rateLimit and KafkaOffsetRangeCalculator are the models):

* a limit on a micro-batch is shared out in proportion to what each partition has, rounded down, but
  never below one record, so that small partitions are not starved; one in bytes, which Spark's
  connector has not, goes by what a record of each partition was seen to take;
* `max_records` cuts every range into equal pieces of at most that many offsets;
* `min_partitions`, if there are fewer ranges still, gives big ranges several pieces and leaves
  small ones whole.

Sizes count offsets, which compaction and transaction markers make an upper bound for records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from fencepost.client.metadata import TopicPartition


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets `start` up to `end` of one partition, with what is known of its log.

    `leader_epoch` was seen to reach `end` (-1: unknown), `topic_id` is empty where unknown.
    `from_earliest` marks a range of a batch read whose start the user gave as "the beginning":
    should retention move the beginning before the range's first record is read, nothing is lost
    that was asked for. Of a range that is split only the first piece has it: what is missing in a
    later one, or behind a record that was read, is a hole in the middle of the result.
    Streams never set it: what a checkpoint says was read must have been read.
    """

    partition: TopicPartition
    start: int
    end: int
    leader_epoch: int = -1
    topic_id: str = ""
    from_earliest: bool = False
    archive_below: int = 0
    """Offsets below this one are read from the archive, where it has them; brokers have the rest.
    What they have deleted by then is looked for in the archive, too, if it is below
    `archive_until`: from there on the archive had other records."""
    archive_until: int = 0

    @property
    def size(self) -> int:
        return self.end - self.start


def limit_offsets(
    begins: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], limit: int | None
) -> dict[TopicPartition, int]:
    """End offsets of a micro-batch of about `limit` offsets (None: all there are).

    A partition whose latest offset is not beyond its beginning keeps its beginning.
    """
    sizes = {key: latest[key] - begin for key, begin in begins.items() if latest[key] > begin}
    total = sum(sizes.values())
    if limit is None or total <= limit:
        return {key: max(begin, latest[key]) for key, begin in begins.items()}
    ends = {}
    for key, begin in begins.items():
        # In integers: floats would lose offsets beyond 2**53.
        share = sizes.get(key, 0) * limit // total
        ends[key] = begin + min(sizes.get(key, 0), max(share, 1))
    return ends


def limit_bytes(
    begins: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    bytes_per_offset: Mapping[TopicPartition, float],
    limit: int,
) -> dict[TopicPartition, int]:
    """Those of `ends` that make a micro-batch of about `limit` bytes.

    It is shared out in proportion to the bytes that partitions have, at least one offset to each
    that has any: so a limit smaller than a record is passed rather than the query stopped.
    """
    sizes = {key: (ends[key] - begin) * bytes_per_offset[key] for key, begin in begins.items()
             if ends[key] > begin}  # fmt: skip
    total = sum(sizes.values())
    if total <= limit:
        return dict(ends)
    return {
        key: begin + max(1, int((ends[key] - begin) * (limit / total))) if key in sizes else begin
        for key, begin in begins.items()
    }


def split_ranges(
    ranges: Iterable[OffsetRange],
    *,
    min_partitions: int | None = None,
    max_records: int | None = None,
) -> list[OffsetRange]:
    """Ranges for tasks; empty ones are dropped."""
    whole = [item for item in ranges if item.size > 0]
    if max_records is not None:
        whole = [piece for item in whole for piece in _pieces(item, -(-item.size // max_records))]
    if min_partitions is None or len(whole) >= min_partitions:
        return whole
    total = sum(item.size for item in whole)
    small = [item for item in whole if _share(item.size, total, min_partitions) == 1]
    split_total = total - sum(item.size for item in small)
    split_target = max(min_partitions - len(small), 1)
    kept = set(small)
    return [
        piece
        for item in whole
        for piece in _pieces(
            item, 1 if item in kept else _share(item.size, split_total, split_target)
        )
    ]


def _share(size: int, total: int, parts: int) -> int:
    """How many of `parts` a range of `size` gets: rounded half up, at least one."""
    return max((2 * size * parts + total) // (2 * total), 1)


def _pieces(item: OffsetRange, parts: int) -> list[OffsetRange]:
    pieces = []
    start, remaining = item.start, item.size
    for part in range(parts):
        size = remaining // (parts - part)
        remaining -= size
        if size:
            is_first = start == item.start
            pieces.append(
                replace(
                    item,
                    start=start,
                    end=start + size,
                    from_earliest=item.from_earliest and is_first,
                )
            )
        start += size
    return pieces
