"""What a page of records is asked for, and where in the log that is.

| parameter | |
|---|---|
| `from`, `to` | `earliest`, `latest`, `latest-N`, an offset, an ISO 8601 time; `to` is left out |
| `partitions` | `0,2,5-7`; all of them if it is not given |
| `order` | `newest` or `oldest` |
| `limit` | how many records |
| `isolation` | `read_uncommitted` shows all; `read_committed` what such a consumer would read |
| `at` | `0:340,1:220`: where a look before this one ended, from its "continue" |
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from fencepost.client.cluster_view import ClusterView
from fencepost.client.conversation import Conversation
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import EARLIEST, LATEST, listing_offsets
from fencepost.console.asked import Asked, BadQuery, iso_ms

LIMIT: Final = 50
LIMIT_MAX: Final = 1_000
PARTITIONS_MAX: Final = 100
"""Partitions of one look; a topic with more is looked at in parts."""
OFFSET_MAX: Final = 2**63 - 1
BUDGET_BYTES: Final = 16 << 20
BUDGET_BYTES_MAX: Final = 256 << 20
BUDGET_S: Final = 5
BUDGET_S_MAX: Final = 20
BOUNDS: Final = "earliest, latest, latest-N, an offset, or an ISO 8601 time is allowed"
_LATEST: Final = re.compile(r"latest(?:-([0-9]{1,19}))?")
_PARTITION: Final = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_POSITION: Final = re.compile(r"([0-9]{1,9}):([0-9]{1,19})")


class Bound(NamedTuple):
    """One end of what is asked for: a `kind` ("earliest", "latest", "offset" or "time") with its
    number: how many offsets before the end, the offset, or ms since 1970."""

    kind: str
    number: int = 0


def read_bound(asked: Asked, key: str, default: Bound) -> Bound:
    """The bound of a parameter. Raises BadQuery."""
    text = asked.text(key).strip()
    if not text:
        return default
    if text == "earliest":
        return Bound("earliest")
    latest = _LATEST.fullmatch(text)
    if latest is not None:
        return Bound("latest", int(latest[1] or 0))
    if text.isascii() and text.isdecimal() and len(text) <= 19 and int(text) <= OFFSET_MAX:
        return Bound("offset", int(text))
    time_ms = iso_ms(text)
    if time_ms is None:
        raise BadQuery(key, text, BOUNDS)
    return Bound("time", time_ms)


@dataclass(frozen=True, slots=True)
class LookQuery:
    """What is looked at; see the module. `partitions` is None for all."""

    topic: str
    first: Bound
    last: Bound
    partitions: frozenset[int] | None
    is_newest_first: bool
    limit: int
    only_committed: bool
    at: Mapping[int, int]
    budget_bytes: int
    budget_s: int

    @classmethod
    def of(cls, asked: Asked) -> LookQuery:
        """Raises BadQuery."""
        return cls(
            asked.text("topic"),
            read_bound(asked, "from", Bound("earliest")),
            read_bound(asked, "to", Bound("latest")),
            _partitions(asked),
            asked.choice("order", ("newest", "oldest")) == "newest",
            asked.number("limit", LIMIT, 1, LIMIT_MAX),
            asked.choice("isolation", ("read_uncommitted", "read_committed")) == "read_committed",
            read_positions(asked, "at"),
            asked.number("bytes", BUDGET_BYTES, 1, BUDGET_BYTES_MAX),
            asked.number("seconds", BUDGET_S, 1, BUDGET_S_MAX),
        )


def _partitions(asked: Asked) -> frozenset[int] | None:
    text = asked.text("partitions").replace(" ", "")
    if not text or text == "all":
        return None
    found: set[int] = set()
    for part in text.split(","):
        match = _PARTITION.fullmatch(part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not first <= last < first + 100_000:
            raise BadQuery("partitions", text, "numbers as in 0,2,5-7 are allowed")
        found.update(range(first, last + 1))
    return frozenset(found)


def read_positions(asked: Asked, key: str) -> dict[int, int]:
    """Offsets by partition, of a text like "0:340,1:220". Raises BadQuery."""
    text = asked.text(key)
    return positions_of(text, key) if text else {}


def positions_of(text: str, key: str) -> dict[int, int]:
    """The same of a text that is there. Raises BadQuery."""
    found = {}
    for part in text.split(","):
        match = _POSITION.fullmatch(part)
        if match is None or int(match[2]) > OFFSET_MAX:
            raise BadQuery(key, text, "PARTITION:OFFSET, separated by commas, is allowed")
        found[int(match[1])] = int(match[2])
    return found


def positions_text(positions: Mapping[int, int]) -> str:
    """What `positions_of` reads."""
    return ",".join(f"{partition}:{offset}" for partition, offset in sorted(positions.items()))


class LogRange(NamedTuple):
    """What of a partition is asked for: from `start` up to `end`, and what its log has."""

    start: int
    end: int
    log_start: int
    log_end: int


def finding_ranges(
    view: ClusterView[Any], query: LookQuery, partitions: Iterable[int]
) -> Conversation[dict[int, LogRange]]:
    """The ranges asked for, by partition, within what the logs have: ListOffsets for where they
    begin, where they end, and for each time. Raises ClientError."""
    wanted = [TopicPartition(query.topic, one) for one in partitions]

    def listed(timestamp: int) -> Conversation[dict[int, int]]:
        found = yield from listing_offsets(
            view, dict.fromkeys(wanted, timestamp), isolation_level="read_uncommitted"
        )
        return {one.partition: offset.offset for one, offset in found.items()}

    starts = yield from listed(EARLIEST)
    ends = yield from listed(LATEST)
    times = {}
    for bound in (query.first, query.last):
        if bound.kind == "time" and bound.number not in times:
            times[bound.number] = yield from listed(bound.number)

    def place(bound: Bound, partition: int) -> int:
        start, end = starts[partition], ends[partition]
        if bound.kind == "earliest":
            return start
        if bound.kind == "latest":
            return max(start, end - bound.number)
        offset = bound.number
        if bound.kind == "time":
            offset = times[bound.number][partition]  # -1: every record is older
            offset = end if offset < 0 else offset
        return min(max(offset, start), end)

    found = {}
    for one in sorted(starts):
        start, end = place(query.first, one), place(query.last, one)
        if one in query.at and query.is_newest_first:
            end = min(end, query.at[one])
        elif one in query.at:
            start = max(start, query.at[one])
        found[one] = LogRange(start, max(start, end), starts[one], ends[one])
    return found
