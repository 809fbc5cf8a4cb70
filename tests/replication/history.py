"""What producers were told and consumers saw, held against the logs at the end.

Every record names who sent it and its number among that sender's, so that each can be told from
all others, wherever it stands.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple


class Record(NamedTuple):
    """A record, as its value spells it."""

    writer: str
    number: int

    @classmethod
    def parse(cls, value: bytes) -> Record:
        """The record of a value."""
        writer, _, number = value.decode().rpartition(" ")
        return cls(writer, int(number))

    @property
    def value(self) -> bytes:
        """What is sent."""
        return f"{self.writer} {self.number}".encode()


class Place(NamedTuple):
    """Where a record stands."""

    partition: int
    offset: int


Log = Sequence[tuple[int, Record]]
"""A partition's records with their offsets, from the first to the last."""


def anomalies(
    acknowledged: Mapping[Record, Place],
    sent: Iterable[Record],
    seen: Iterable[tuple[Place, Record]],
    logs: Mapping[int, Log],
) -> list[str]:
    """What must not be, in words; nothing if all is well.

    `sent` is all that may be in the logs, `seen` what consumers read at any time. The writers are
    idempotent, and each sends its records to a partition one after the other.
    """
    found: list[str] = []
    at = {Place(p, offset): record for p, log in logs.items() for offset, record in log}
    where: dict[Record, list[Place]] = defaultdict(list)
    for place, record in at.items():
        where[record].append(place)
    for record, place in acknowledged.items():
        if record not in where:
            found.append(f"lost: {record} was acknowledged at {place}")
        elif place not in where[record]:
            found.append(f"moved: {record} was acknowledged at {place}, is at {where[record]}")
    for record, places in where.items():
        if len(places) > 1:
            found.append(f"repeated: {record} stands at {sorted(places)}")
    found += [f"invented: {record} was never sent" for record in where.keys() - set(sent)]
    for partition, log in logs.items():
        last: dict[str, int] = {}
        for offset, record in sorted(log):
            if record.number < last.get(record.writer, -1):
                found.append(f"reordered: {record} stands at {Place(partition, offset)}")
            last[record.writer] = record.number
    for place, record in seen:
        if at.get(place) != record:
            found.append(f"taken back: {record} was read at {place}, where {at.get(place)} is")
    return found


def differences(replicas: Mapping[int, Log]) -> list[str]:
    """Where the replicas of a partition, by broker, do not have the same records."""
    if not replicas:
        return []
    (first, log), *others = sorted(replicas.items())
    found = []
    for broker, other in others:
        for mine, theirs in zip(log, other, strict=False):
            if mine != theirs:
                found.append(f"divergent: {mine} on {first}, {theirs} on {broker}")
                break
        if len(log) != len(other):
            found.append(f"divergent: {len(log)} records on {first}, {len(other)} on {broker}")
    return found
