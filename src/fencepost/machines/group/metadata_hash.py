"""The hash of the metadata that a group's assignment depends on (KIP-1101), with Kafka's own value.

It is stored with the epoch of consumer, share and streams groups: a coordinator that finds another
value knows that the topics have changed since, and assigns again. Because it is Kafka's value, a
group that moves between a broker of Kafka and one of ours is not assigned again for that.

The hash of a topic is the XXH3 of these bytes, all little-endian, 64 bits read as a signed number:

    byte 0 | high half of the id, int64 | low half, int64 | name | partition count, int32
    per partition: number, int32 | per replica whose broker has a rack, in the order of the
                   racks and with repetitions: length of the rack, int32 | rack

A text is its UTF-16 units and then their number as an int32. The hash of a group is the XXH3 of
its topics' hashes, as int64 in the order of their names. Topics that do not exist are left out, and
without any topic the hash is 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from struct import pack
from typing import Final, NamedTuple
from weakref import ref

from xxhash import xxh3_64_intdigest

from fencepost.machines.group.found_topics import found_topics
from fencepost.machines.image import ClusterImage, TopicImage

_MAGIC: Final = b"\x00"
_SIGN: Final = 1 << 63
Racks = Mapping[int, str]


class _TopicHash(NamedTuple):
    """A hash that was computed, and what it was computed from."""

    topic: ref[TopicImage]
    racks: Racks
    value: int


# By the identity of the topic in an image, which changes whenever the topic does. Groups by the
# thousand read one topic, whose 10,000 partitions take milliseconds to hash.
_hashes: dict[int, _TopicHash] = {}


def group_metadata_hash(image: ClusterImage, topic_names: Iterable[str]) -> int:
    """The hash of the topics that a group subscribes to, an int64; 0 if none of them exists."""
    racks = {one.broker_id: one.rack for one in image.brokers.values() if one.rack is not None}
    topics = found_topics(image, topic_names)
    if not topics:
        return 0
    return _digest(pack(f"<{len(topics)}q", *[_hash_of(topic, racks) for topic in topics]))


def _hash_of(topic: TopicImage, racks: Racks) -> int:
    key = id(topic)
    known = _hashes.get(key)
    if known is not None and known.topic() is topic and known.racks == racks:
        return known.value
    value = _digest(_topic_bytes(topic, racks))
    _hashes[key] = _TopicHash(ref(topic, partial(_forget, key)), racks, value)
    return value


def _forget(key: int, topic: ref[TopicImage]) -> None:
    known = _hashes.get(key)
    if known is not None and known.topic is topic:
        del _hashes[key]


def _topic_bytes(topic: TopicImage, racks: Racks) -> bytes:
    id_, partitions = topic.topic_id, topic.partitions
    count = len(partitions)
    pieces = [_MAGIC, id_[7::-1], id_[:7:-1], _text(topic.name), pack("<i", count)]
    if racks:
        # A topic has many partitions on few sets of replicas.
        rack_bytes = {replicas: _rack_bytes(replicas, racks) for replicas in _replica_sets(topic)}
        for number, partition in enumerate(partitions):
            pieces += (pack("<i", number), rack_bytes[partition.replicas])
    else:
        pieces.append(pack(f"<{count}i", *range(count)))
    return b"".join(pieces)


def _replica_sets(topic: TopicImage) -> set[tuple[int, ...]]:
    return {partition.replicas for partition in topic.partitions}


def _rack_bytes(replicas: tuple[int, ...], racks: Racks) -> bytes:
    found = [racks[broker_id] for broker_id in replicas if broker_id in racks]
    # The order of UTF-16 units, as Java compares texts.
    found.sort(key=lambda rack: rack.encode("utf-16-be"))
    return b"".join(pack("<i", len(rack.encode("utf-16-le")) // 2) + _text(rack) for rack in found)


def _text(text: str) -> bytes:
    units = text.encode("utf-16-le")
    return units + pack("<i", len(units) // 2)


def _digest(data: bytes) -> int:
    value: int = xxh3_64_intdigest(data)
    return value - 2 * _SIGN if value >= _SIGN else value
