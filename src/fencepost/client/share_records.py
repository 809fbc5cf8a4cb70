"""Records that a share group has acquired for a consumer, and what becomes of each; no I/O.

A record that is handed out is locked for the consumer. It has to be acknowledged, with one of four
types, before the lock runs out; else it is handed out again. `Delivered` keeps this of one
partition in one share session:

    handed out --say(ACCEPT, RELEASE, REJECT)--> said --sent--> done
               --say(RENEW)--> said --sent--> renewed --say(...)--> ...

What is said may be said otherwise until it is sent. Offsets that were acquired and have no record
(a compaction took it, or it is a transaction's marker) are acknowledged as gaps on their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple

from fencepost.batch.errors import BatchError
from fencepost.batch.record import Header, Record
from fencepost.batch.records import read_record_lists
from fencepost.client.metadata import TopicPartition
from fencepost.wire.api.share_fetch import AcknowledgementBatch, AcquiredRecords
from fencepost.wire.types import Uuid

GAP: Final = 0


class AcknowledgeType(IntEnum):
    """What became of a record, by Kafka's numbers."""

    ACCEPT = 1
    """It was processed."""
    RELEASE = 2
    """It was not processed; it may be handed out again, to any member."""
    REJECT = 3
    """It cannot be processed, and is not to be handed out again."""
    RENEW = 4
    """It takes longer: lock it for the whole time again (KIP-1222)."""


class ShareRecord(NamedTuple):
    """A record of a share group. `timestamp` is in milliseconds; `timestamp_type` is 0 for the
    producer's clock, 1 for the broker's, -1 for none. `delivery_count` is 1 the first time that a
    record is handed out."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    delivery_count: int


class Range(NamedTuple):
    """Offsets from `first` to `last`, both among them."""

    first: int
    last: int


@dataclass(slots=True)
class Delivered:
    """What a share session has handed out of one partition; see the module."""

    topic_id: Uuid
    unsaid: dict[int, None] = field(default_factory=dict)
    renewed: dict[int, None] = field(default_factory=dict)
    said: dict[int, AcknowledgeType] = field(default_factory=dict)
    unread: list[tuple[Range, int]] = field(default_factory=list)
    """Acquired ranges that no record was handed out of, with the type they are settled with."""

    def hand_out(self, offset: int) -> None:
        """A record was handed out. One that comes again has lost its lock, and what was said of
        it before."""
        self.said.pop(offset, None)
        self.renewed.pop(offset, None)
        self.unsaid[offset] = None

    def say(self, offset: int, kind: AcknowledgeType) -> bool:
        """Acknowledge a record; False for one that is not this consumer's to acknowledge."""
        if offset in self.unsaid:
            del self.unsaid[offset]
        elif offset in self.renewed:
            del self.renewed[offset]
        elif offset not in self.said:
            return False
        self.said[offset] = kind
        return True

    def say_of_unsaid(self, kind: AcknowledgeType) -> None:
        """Acknowledge every record that nothing has been said of."""
        self.said.update(dict.fromkeys(self.unsaid, kind))
        self.unsaid.clear()

    def drop_renewals(self) -> None:
        """Say nothing of records whose locks were to be renewed: the session ends."""
        for offset, kind in list(self.said.items()):
            if kind is AcknowledgeType.RENEW:
                del self.said[offset]
                self.unsaid[offset] = None

    @property
    def is_to_be_sent(self) -> bool:
        """Whether there are acknowledgements."""
        return bool(self.said or self.unread)

    @property
    def renews(self) -> bool:
        """Whether locks are to be renewed."""
        return AcknowledgeType.RENEW in self.said.values()

    def take(self) -> Said:
        """What is to be sent now, which then counts as sent."""
        taken = Said(dict(sorted(self.said.items())), self.unread)
        self.said, self.unread = {}, []
        return taken

    def on_renewed(self, said: Said) -> None:
        """The broker has taken these: what was renewed can be acknowledged again."""
        for offset, kind in said.types.items():
            if kind is AcknowledgeType.RENEW:
                self.renewed[offset] = None


class Said(NamedTuple):
    """Acknowledgements of one partition, on their way."""

    types: dict[int, AcknowledgeType]
    unread: list[tuple[Range, int]]

    @property
    def offsets(self) -> frozenset[int]:
        """The offsets of records, without gaps."""
        return frozenset(self.types)

    @property
    def renews(self) -> bool:
        """Whether locks are to be renewed."""
        return AcknowledgeType.RENEW in self.types.values()

    def batches(self) -> list[tuple[Range, list[int]]]:
        """As requests list them: stretches of offsets, with one type for all or one for each."""
        found = [(gap, [kind]) for gap, kind in self.unread]
        for stretch in _stretches(self.types):
            kinds = [int(self.types[offset]) for offset in stretch]
            is_one = len(set(kinds)) == 1
            found.append((Range(stretch[0], stretch[-1]), kinds[:1] if is_one else kinds))
        return sorted(found)

    def fetch_batches(self) -> list[AcknowledgementBatch]:
        """The same, as the structs of ShareFetch."""
        return [
            AcknowledgementBatch(
                first_offset=at.first, last_offset=at.last, acknowledge_types=kinds
            )
            for at, kinds in self.batches()
        ]


def _stretches(offsets: Iterable[int]) -> Iterator[list[int]]:
    stretch: list[int] = []
    for offset in offsets:
        if stretch and offset != stretch[-1] + 1:
            yield stretch
            stretch = []
        stretch.append(offset)
    if stretch:
        yield stretch


class Acquired(NamedTuple):
    """What a fetch has acquired of a partition: records to hand out, and ranges without any, with
    the type to settle each with. `error` says what is wrong with the batches of the latter."""

    records: list[ShareRecord]
    unread: list[tuple[Range, int]]
    error: BatchError | None


def read_acquired(
    where: TopicPartition, blob: memoryview, acquired: Iterable[AcquiredRecords]
) -> Acquired:
    """The records in `blob` that are acquired, which may be fewer than it has.

    From a batch on that cannot be read, what is acquired is rejected, as Kafka's consumer does:
    handing it out again would not make it readable.
    """
    ranges = sorted((Range(one.first_offset, one.last_offset), one) for one in acquired)
    records: list[ShareRecord] = []
    unread: list[tuple[Range, int]] = []
    found, error = _read(blob)
    end = len(found)
    place = 0
    for at, one in ranges:
        expected = at.first
        while place < end and found[place].offset < at.first:
            place += 1
        while place < end and found[place].offset <= at.last:
            record = found[place]
            if record.offset > expected:
                unread.append((Range(expected, record.offset - 1), GAP))
            records.append(ShareRecord._make((*where, *record, one.delivery_count)))
            expected = record.offset + 1
            place += 1
        if expected <= at.last:
            kind = GAP if error is None else int(AcknowledgeType.REJECT)
            unread.append((Range(expected, at.last), kind))
    return Acquired(records, unread, error)


def _read(blob: memoryview) -> tuple[list[Record], BatchError | None]:
    records: list[Record] = []
    try:
        for batch in read_record_lists(blob):
            records.extend(batch)
    except BatchError as error:
        return records, error
    return records, None
