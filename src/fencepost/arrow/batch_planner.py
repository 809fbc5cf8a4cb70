"""What a batch read reads: its bounds as offsets, checked against the logs and split into ranges.

Each end is kept with the leader epoch in which it was seen. A start given as "earliest" stays so:
if retention moves the beginning before a range is read, nothing is missing that was asked for.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from fencepost.arrow.conditions import GIVEN_START_BEHIND_END, START_BEHIND_END
from fencepost.arrow.errors import BoundsError, DataLossError
from fencepost.arrow.loss import Loss
from fencepost.arrow.narrowing import Narrowing
from fencepost.arrow.options import AtOffsets, AtTimestamps, Point, SourceOptions
from fencepost.arrow.planning import OffsetRange, split_ranges
from fencepost.arrow.survey import Look, Survey
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import EARLIEST

log = logging.getLogger("fencepost.arrow")


def plan_batch(options: SourceOptions, survey: Survey, narrowing: Narrowing) -> list[OffsetRange]:
    """The ranges of a batch read. ValueError for bounds that do not fit the logs, DataLossError
    for explicit starts that lie before a log's beginning (a warning with failOnDataLoss=false)."""
    _require_times_in_order(options)
    look = survey.look(new_query=True)
    starts = survey.resolve(options.start, look, "starting")
    ends = survey.resolve(options.end, look, "ending")
    by_name = _earliest_by_name(options)
    ranges = [
        OffsetRange(
            partition,
            starts[partition],
            ends[partition],
            latest.leader_epoch,
            look.topic_ids.get(partition.topic, ""),
            options.start is Point.EARLIEST or partition in by_name,
        )
        for partition, latest in sorted(look.latest.items())
    ]
    ranges = _checked(options, survey, look, ranges)
    return split_ranges(
        survey.placed(_narrowed(survey, ranges, narrowing)),
        min_partitions=options.min_partitions,
        max_records=options.max_records_per_partition,
    )


def _require_times_in_order(options: SourceOptions) -> None:
    """Of one partition, the start may not be later than the end, whatever is in the log."""
    start, end = options.start, options.end
    if not isinstance(start, AtTimestamps) or not isinstance(end, AtTimestamps):
        return
    ends = end.by_partition or {}
    for partition, start_ms in (start.by_partition or {}).items():
        end_ms = ends.get(partition, start_ms)
        if start_ms > end_ms:
            raise BoundsError(
                GIVEN_START_BEHIND_END,
                f"{partition}: the timestamp {start_ms} to start at is later than {end_ms}, to end "
                "at",
                {
                    "offsetType": "timestamp",
                    "startOffset": start_ms,
                    "endOffset": end_ms,
                    "topic": partition.topic,
                    "partition": partition.partition,
                },
            )


def _earliest_by_name(options: SourceOptions) -> set[TopicPartition]:
    if not isinstance(options.start, AtOffsets):
        return set()
    return {partition for partition, at in options.start.offsets.items() if at == EARLIEST}


def _checked(
    options: SourceOptions, survey: Survey, look: Look, ranges: list[OffsetRange]
) -> list[OffsetRange]:
    """The ranges within their logs; see `plan_batch` for what is raised."""
    losses = []
    checked = []
    earliest = survey.earliest(look.latest) if isinstance(options.start, AtOffsets) else {}
    for wanted in ranges:
        start, end = wanted.start, wanted.end
        log_end = look.latest[wanted.partition].offset
        if start > end:
            raise _inverted(options, wanted)
        beginning = earliest.get(wanted.partition, start)
        if start < beginning:
            detail = f"the log begins at offset {beginning}, the read was to start at {start}"
            losses.append(Loss("aged out", wanted.partition, start, min(beginning, end), detail))
            start = min(beginning, end)
        if end > log_end:
            detail = f"the log ends at offset {log_end}, the read was to end at {end}"
            losses.append(Loss("truncated", wanted.partition, max(start, log_end), end, detail))
            end = max(start, log_end)
        checked.append(replace(wanted, start=start, end=end))
    if losses and options.fail_on_data_loss:
        raise DataLossError(losses)
    for loss in losses:
        log.warning("data loss: %s", loss)
    return checked


def _inverted(options: SourceOptions, wanted: OffsetRange) -> BoundsError:
    """The error for a range whose start lies behind its end."""
    topic, partition = wanted.partition
    both_given = all(
        isinstance(bound, AtOffsets) and bound.offsets[wanted.partition] >= 0
        for bound in (options.start, options.end)
    )
    kind = {"offsetType": "offset"} if both_given else {}
    return BoundsError(
        GIVEN_START_BEHIND_END if both_given else START_BEHIND_END,
        f"{wanted.partition}: start {wanted.start} lies behind the end {wanted.end}",
        {
            **kind,
            "startOffset": wanted.start,
            "endOffset": wanted.end,
            "topic": topic,
            "partition": partition,
        },
    )


def _narrowed(survey: Survey, ranges: list[OffsetRange], narrowing: Narrowing) -> list[OffsetRange]:
    """Ranges without the offsets that no row the query wants can have."""
    allowed = [wanted for wanted in ranges if narrowing.allows(wanted.partition)]
    since: dict[TopicPartition, int] = {}
    if narrowing.least_timestamp_ms is not None:
        wanted_times = {wanted.partition: narrowing.least_timestamp_ms for wanted in allowed}
        since = survey.since(wanted_times)
    narrowed = []
    for wanted in allowed:
        first = since.get(wanted.partition, 0)
        start = max(wanted.start, narrowing.least_offset, wanted.end if first < 0 else first)
        end = min(wanted.end, narrowing.most_offset + 1)
        narrowed.append(replace(wanted, start=start, end=end))
    return narrowed
