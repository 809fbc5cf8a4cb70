"""Where a group's offsets are to be set, in words, and the offsets that this comes to."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from fencepost.client.cluster_view import ClusterView
from fencepost.client.conversation import Conversation
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import EARLIEST, LATEST, listing_offsets

Offsets = dict[TopicPartition, int]
INT64_MAX: Final = (1 << 63) - 1
EARLIEST_KIND, LATEST_KIND, CURRENT, OFFSET, TIME = (
    "earliest",
    "latest",
    "current",
    "offset",
    "time",
)
ALLOWED: Final = (
    "earliest, latest, current, an offset, @MILLISECONDS or a time like 2026-01-31T12:00:00"
)


class OffsetTarget(NamedTuple):
    """A place in every log: one of the kinds above, with an offset or the milliseconds since 1970
    of a time."""

    kind: str
    number: int = 0

    @classmethod
    def of(cls, text: str) -> OffsetTarget:
        """The target of one of the ALLOWED words. ValueError, with what is allowed."""
        if text in (EARLIEST_KIND, LATEST_KIND, CURRENT):
            return cls(text)
        digits = text.removeprefix("@")
        if digits.isascii() and digits.isdecimal():
            number = int(digits) if len(digits) <= 19 else INT64_MAX + 1
            kind = TIME if text.startswith("@") else OFFSET
        else:
            kind, number = TIME, iso_time_ms(text)
        if not 0 <= number <= INT64_MAX:
            raise ValueError(f"allowed is 0 to {INT64_MAX}")
        return cls(kind, number)


def iso_time_ms(text: str) -> int:
    """Milliseconds since 1970 of an ISO 8601 time, in UTC if it does not say. ValueError."""
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return round(moment.timestamp() * 1000)
    except (OverflowError, ValueError):
        raise ValueError(f"must be {ALLOWED}") from None


def resolving_target(
    view: ClusterView[Any],
    partitions: Collection[TopicPartition],
    target: OffsetTarget,
    committed: Mapping[TopicPartition, int],
) -> Conversation[Offsets]:
    """The offset in each partition, within what its log has: of a time that of the first record
    since, or the log's end where there is none; for `current` what is committed, or the log's end
    where nothing is."""
    if target.kind == EARLIEST_KIND:
        return (yield from _listed(view, partitions, EARLIEST))
    if target.kind == OFFSET:
        return (yield from within_logs(view, dict.fromkeys(partitions, target.number)))
    ends = yield from _listed(view, partitions, LATEST)
    if target.kind == CURRENT:
        return {one: committed.get(one, ends[one]) for one in partitions}
    if target.kind == LATEST_KIND:
        return ends
    since = yield from _listed(view, partitions, target.number)
    return {one: at if at >= 0 else ends[one] for one, at in since.items()}


def within_logs(
    view: ClusterView[Any], wanted: Mapping[TopicPartition, int]
) -> Conversation[Offsets]:
    """The same, but no offset before the beginning or behind the end of its log."""
    begin = yield from _listed(view, wanted, EARLIEST)
    end = yield from _listed(view, wanted, LATEST)
    return {one: min(max(offset, begin[one]), end[one]) for one, offset in wanted.items()}


def _listed(
    view: ClusterView[Any], partitions: Collection[TopicPartition], when: int
) -> Conversation[Offsets]:
    found = yield from listing_offsets(view, dict.fromkeys(partitions, when))
    return {one: at.offset for one, at in found.items()}
