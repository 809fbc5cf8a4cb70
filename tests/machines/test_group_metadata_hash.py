"""The metadata hash of groups is Kafka's: vectors were computed by classes of Apache Kafka 4.4.0.

Each is a drawn cluster: racks of brokers, topics with the replicas of each partition, and the hash
of a group that subscribes to all of them and to one more topic that does not exist.
"""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from fencepost.machines.group import metadata_hash
from fencepost.machines.group.metadata_hash import group_metadata_hash
from fencepost.machines.image import (
    BrokerImage,
    ClusterImage,
    PartitionImage,
    PersistentMap,
    TopicImage,
)
from fencepost.wire.types import Uuid

VECTORS = json.loads((Path(__file__).parent / "group_vectors/metadata_hashes.json").read_text())


def broker(broker_id: int, rack: str | None) -> BrokerImage:
    return BrokerImage(broker_id, 1, Uuid(), (), (), rack, False, False, ())


def partition(replicas: list[int]) -> PartitionImage:
    return PartitionImage(tuple(replicas), tuple(replicas), replicas[0], 0, 0)


def image_of(racks: dict[int, str | None], *topics: TopicImage) -> ClusterImage:
    return ClusterImage(
        brokers=PersistentMap({id_: broker(id_, rack) for id_, rack in racks.items()}),
        topics_by_name=PersistentMap({topic.name: topic for topic in topics}),
        topics_by_id=PersistentMap({topic.topic_id: topic for topic in topics}),
    )


def topic_of(stored: Any) -> TopicImage:
    partitions = tuple(partition(replicas) for replicas in stored["partitions"])
    return TopicImage(stored["name"], Uuid(UUID(stored["id"]).bytes), partitions)


@pytest.mark.parametrize("vector", VECTORS, ids=[str(at) for at in range(len(VECTORS))])
def test_the_hash_is_kafkas(vector: Any) -> None:
    racks = {broker_id: vector["racks"].get(str(broker_id)) for broker_id in range(5)}
    topics = [topic_of(stored) for stored in vector["topics"]]
    names = [topic.name for topic in topics]
    assert group_metadata_hash(image_of(racks, *topics), [*names, "missing"]) == vector["hash"]
    assert group_metadata_hash(image_of(racks, *topics), reversed(names)) == vector["hash"]


def test_the_hash_is_the_one_in_a_log_of_kafkas() -> None:
    """A group of one topic with four partitions, on a broker without a rack."""
    topic = TopicImage(
        "t1795897618", Uuid.from_string("fKBLGNxMQuKNBRv33ZlkNg"), (partition([1]),) * 4
    )
    assert group_metadata_hash(image_of({1: None}, topic), [topic.name]) == 4779928339908109051


def test_topics_that_do_not_exist_are_left_out() -> None:
    topic = TopicImage("t", Uuid(b"t" * 16), (partition([1]),))
    image = image_of({1: "a"}, topic)
    assert group_metadata_hash(image, ["t", "u"]) == group_metadata_hash(image, ["t"]) != 0
    assert group_metadata_hash(image, ["u"]) == group_metadata_hash(image, []) == 0


def test_what_an_assignment_depends_on_changes_the_hash() -> None:
    topic = TopicImage("t", Uuid(b"t" * 16), (partition([1, 2]), partition([2, 1])))
    racks: dict[int, str | None] = {1: "a", 2: None}
    kept = group_metadata_hash(image_of(racks, topic), ["t"])
    others = [
        image_of(racks, replace(topic, topic_id=Uuid(b"u" * 16))),
        image_of(racks, replace(topic, partitions=topic.partitions[:1])),
        image_of(racks, replace(topic, partitions=(partition([1]), partition([2])))),
        image_of({1: "b", 2: None}, topic),
        image_of({1: "a", 2: "a"}, topic),
        image_of({1: None, 2: None}, topic),
    ]
    hashes = [group_metadata_hash(image, ["t"]) for image in others]
    assert len({kept, *hashes}) == 7
    moved = tuple(replace(one, leader=2, leader_epoch=9) for one in topic.partitions)
    assert group_metadata_hash(image_of(racks, replace(topic, partitions=moved)), ["t"]) == kept


def test_a_topic_is_hashed_once_for_all_groups_and_forgotten_with_its_image(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hashed = []

    def topic_bytes(topic: TopicImage, racks: metadata_hash.Racks) -> bytes:
        hashed.append(topic.name)
        return b""

    monkeypatch.setattr(metadata_hash, "_topic_bytes", topic_bytes)
    monkeypatch.setattr(metadata_hash, "_hashes", {})  # images of other tests may go at any time
    topic = TopicImage("large", Uuid(b"l" * 16), (partition([1]),) * 10_000)
    image = image_of({1: "a"}, topic)
    first = group_metadata_hash(image, ["large"])
    # Another broker without a rack changes nothing; neither does a later image.
    later = replace(image, brokers=image.brokers.set(2, broker(2, None)), offset=9)
    assert {group_metadata_hash(later, ["large"]) for _ in range(1_000)} == {first}
    assert hashed == ["large"]
    assert len(metadata_hash._hashes) == 1
    del topic, image, later
    gc.collect()
    assert len(metadata_hash._hashes) == 0


class _NeverSorted(str):
    """A name that is not compared with others by order."""

    def __lt__(self, other: str) -> bool:
        raise AssertionError(f"{self!r} < {other!r}")


def test_names_that_no_topic_has_are_not_sorted() -> None:
    """Members may subscribe to a hundred thousand of them, and each heartbeat that joins hashes."""
    topics = [TopicImage(name, Uuid(name.encode() * 16), (partition([1]),)) for name in "tu"]
    image = image_of({1: None}, *topics)
    missing = [_NeverSorted(f"missing-{number}") for number in range(100)]
    wanted = group_metadata_hash(image, ["t", "u"])
    assert group_metadata_hash(image, [*missing, "u", "t"]) == wanted
    assert group_metadata_hash(image, [missing[0], "u"]) == group_metadata_hash(image, ["u"])
