"""What a streaming query remembers between batches: offsets, and whose log they are offsets of.

As JSON, one object, keys sorted so that equal offsets are equal texts (Spark compares texts):

    {"#fencepost": {"orders": {"id": "q1Yr...", "epochs": {"0": 7}, "from": {"1": 40}}},
     "orders": {"0": 1200, "1": 55}}

Everything but "#fencepost" is the format of Spark's own connector, which is read as well: topic to
partition to the next offset to read. "#" cannot begin a topic's name. Per topic there are

* `id`: the topic id, so that a topic deleted and made again under its name is noticed;
* `epochs`: the leader epoch in which the partition was seen to reach that offset. Whatever leader
  comes later and lacks some of those records has a higher epoch that starts below the offset, and
  OffsetForLeaderEpoch shows it. Absent where brokers do not tell.
* `from`: where the batch that ends here begins, for partitions where that is not the offset it
  starts from: new partitions, and those that go on elsewhere after data loss. Kept here so that a
  batch run again after a crash is the same batch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from fencepost.client.metadata import TopicPartition

EXTRA = "#fencepost"
INT32_MAX: Final = (1 << 31) - 1
INT64_MAX: Final = (1 << 63) - 1
_PARTITION: Final = re.compile("0|[1-9][0-9]{0,9}")
_SHOWN_MAX: Final = 40


class Position(NamedTuple):
    """The next offset to read, and the leader epoch that was seen to reach it (-1: unknown)."""

    offset: int
    leader_epoch: int = -1


@dataclass(frozen=True)
class StreamOffset:
    """A place in a stream: one position per partition."""

    positions: Mapping[TopicPartition, Position]
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    begins: Mapping[TopicPartition, int] = field(default_factory=dict)

    def to_json(self, *, plain: bool = False) -> dict[str, Any]:
        """The object that Spark stores; `plain` leaves out all but Spark's own format."""
        offsets: dict[str, dict[str, int]] = {}
        extra: dict[str, dict[str, Any]] = {}
        for (topic, partition), position in _sorted(self.positions):
            offsets.setdefault(topic, {})[str(partition)] = position.offset
            if position.leader_epoch >= 0:
                epochs = extra.setdefault(topic, {}).setdefault("epochs", {})
                epochs[str(partition)] = position.leader_epoch
        for (topic, partition), begin in _sorted(self.begins):
            extra.setdefault(topic, {}).setdefault("from", {})[str(partition)] = begin
        for topic in offsets:
            if topic in self.topic_ids:
                extra.setdefault(topic, {})["id"] = self.topic_ids[topic]
        whole: dict[str, Any] = dict(sorted(offsets.items()))
        if extra and not plain:
            sorted_extra = {name: dict(sorted(extra[name].items())) for name in sorted(extra)}
            whole = {EXTRA: sorted_extra, **whole}
        return whole

    @classmethod
    def from_json(cls, parsed: Mapping[str, Any], *, negative: bool = False) -> StreamOffset:
        """Read either format. ValueError says what is wrong; `negative` allows -1 and -2, which
        mean the end and the beginning in options but never in a checkpoint."""
        if not isinstance(parsed, Mapping):
            raise ValueError("it is no JSON object")
        extra = parsed.get(EXTRA, {})
        if not isinstance(extra, Mapping):
            raise ValueError(f"{EXTRA} must be an object")
        topic_ids, epochs, begins = _read_extra(extra)
        positions = {}
        for topic, entries in parsed.items():
            if topic == EXTRA:
                continue
            for where, offset in _numbers(topic, entries, topic):
                if offset < 0 and not negative:
                    raise ValueError(f"{where} has the negative offset {offset}")
                positions[where] = Position(offset, epochs.get(where, -1))
        return cls(positions, topic_ids, begins)


def _read_extra(
    extra: Mapping[str, Any],
) -> tuple[dict[str, str], dict[TopicPartition, int], dict[TopicPartition, int]]:
    topic_ids: dict[str, str] = {}
    epochs: dict[TopicPartition, int] = {}
    begins: dict[TopicPartition, int] = {}
    for topic, known in extra.items():
        if not isinstance(known, Mapping):
            raise ValueError(f"{EXTRA}.{topic} must be an object")
        if "id" in known:
            if not isinstance(known["id"], str):
                raise ValueError(f"{EXTRA}.{topic}.id is no topic id")
            topic_ids[topic] = known["id"]
        epochs.update(_numbers(topic, known.get("epochs", {}), f"{EXTRA}.{topic}.epochs"))
        begins.update(_numbers(topic, known.get("from", {}), f"{EXTRA}.{topic}.from"))
    for where, epoch in epochs.items():
        if not 0 <= epoch <= INT32_MAX:
            raise ValueError(f"{where} cannot have the leader epoch {epoch}")
    for where, begin in begins.items():
        if begin < 0:
            raise ValueError(f"{where} cannot begin at {begin}")
    return topic_ids, epochs, begins


def _numbers(topic: str, entries: Any, what: str) -> list[tuple[TopicPartition, int]]:
    if not isinstance(entries, Mapping):
        raise ValueError(f"{what} must be an object of partitions")
    numbers: dict[TopicPartition, int] = {}
    for partition, number in entries.items():
        # As Spark writes them: other spellings of a number would name a partition twice.
        if not _PARTITION.fullmatch(str(partition)) or int(partition) > INT32_MAX:
            raise ValueError(f"{str(partition)[:_SHOWN_MAX]!r} is not a partition of {topic}")
        if type(number) is not int or abs(number) > INT64_MAX:
            shown = repr(number)[:_SHOWN_MAX]
            raise ValueError(f"{shown} of {topic}-{partition} is not a whole number of 64 bits")
        numbers[TopicPartition(topic, int(partition))] = number
    return list(numbers.items())


def _sorted(items: Mapping[TopicPartition, Any]) -> list[tuple[TopicPartition, Any]]:
    # As texts, because that is how the keys appear in JSON.
    return sorted(items.items(), key=lambda item: (item[0].topic, str(item[0].partition)))
