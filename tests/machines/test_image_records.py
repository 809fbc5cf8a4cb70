"""An image written out as records and replayed is the same image, whatever is in it."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from fencepost.machines.image import ClusterImage, apply_records
from fencepost.machines.image.records import image_records, image_values, written_at
from fencepost.wire.message import Message
from fencepost.wire.records import metadata as records
from fencepost.wire.records.metadata import decode_record
from fencepost.wire.types import Uuid

LATEST = 30


def random_uuid(rnd: random.Random) -> Uuid:
    return Uuid(rnd.randbytes(16))


def some_brokers(rnd: random.Random) -> Iterator[Message]:
    for broker_id in rnd.sample(range(50), rnd.randrange(6)):
        yield records.RegisterBrokerRecord(
            broker_id=broker_id,
            incarnation_id=random_uuid(rnd),
            broker_epoch=rnd.randrange(1 << 40),
            end_points=[
                records.BrokerEndpoint(
                    name=name, host="höst", port=rnd.randrange(65536), security_protocol=0
                )
                for name in ("PLAIN", "OTHER")[: rnd.randrange(3)]
            ],
            features=[
                records.BrokerFeature(
                    name="metadata.version", min_supported_version=1, max_supported_version=30
                )
            ],
            rack=rnd.choice([None, "", "r1"]),
            fenced=rnd.random() < 0.5,
            in_controlled_shutdown=rnd.random() < 0.3,
            log_dirs=[random_uuid(rnd) for _ in range(rnd.randrange(3))],
            cordoned_log_dirs=rnd.choice([None, None, [], [random_uuid(rnd)]]),
        )


def some_topics(rnd: random.Random) -> Iterator[Message]:
    for number in range(rnd.randrange(8)):
        topic_id = random_uuid(rnd)
        name = f"topic-{number}" if rnd.random() < 0.9 else "t" * 249
        yield records.TopicRecord(name=f"{number}{name}"[:249], topic_id=topic_id)
        for partition_id in range(rnd.randrange(5)):
            replicas = rnd.sample(range(10), rnd.randrange(1, 5))
            yield records.PartitionRecord(
                partition_id=partition_id,
                topic_id=topic_id,
                replicas=replicas,
                isr=rnd.sample(replicas, rnd.randrange(len(replicas) + 1)),
                removing_replicas=rnd.choice([[], replicas[:1]]),
                adding_replicas=rnd.choice([[], replicas[-1:]]),
                leader=rnd.choice([-1, *replicas]),
                leader_recovery_state=rnd.randrange(2),
                leader_epoch=rnd.randrange(1 << 31),
                partition_epoch=rnd.randrange(1 << 31),
                directories=rnd.choice([[], [random_uuid(rnd) for _ in replicas]]),
                eligible_leader_replicas=rnd.choice([None, [], replicas[:1]]),
                last_known_elr=rnd.choice([None, [], replicas[:2]]),
            )
        if rnd.random() < 0.2:
            yield records.RemoveTopicRecord(topic_id=topic_id)


def some_configs(rnd: random.Random) -> Iterator[Message]:
    for _ in range(rnd.randrange(12)):
        yield records.ConfigRecord(
            resource_type=rnd.choice([2, 4, 16, 32]),
            resource_name=rnd.choice(["", "1", "topic-1", "ü"]),
            name=rnd.choice(["a", "b", "retention.ms"]),
            value=rnd.choice([None, "", "x" * 300]),
        )


def some_others(rnd: random.Random) -> Iterator[Message]:
    yield records.ZkMigrationStateRecord(zk_migration_state=rnd.randrange(3))
    for number in rnd.sample(range(20), rnd.randrange(4)):
        yield records.RegisterControllerRecord(
            controller_id=number,
            incarnation_id=random_uuid(rnd),
            zk_migration_ready=False,
            end_points=[
                records.ControllerEndpoint(name="C", host="h", port=9093, security_protocol=0)
            ],
            features=[],
        )
    for number in range(rnd.randrange(4)):
        yield records.ClientQuotaRecord(
            entity=[
                records.EntityData(entity_type="user", entity_name=rnd.choice([None, "u"])),
                records.EntityData(entity_type="client-id", entity_name=f"c{number}"),
            ],
            key="producer_byte_rate",
            value=rnd.random(),
            remove=False,
        )
        yield records.AccessControlEntryRecord(
            id=random_uuid(rnd),
            resource_type=2,
            resource_name="t",
            pattern_type=3,
            principal="User:a",
            host="*",
            operation=3,
            permission_type=3,
        )
        yield records.UserScramCredentialRecord(
            name=f"user{number}",
            mechanism=1,
            salt=b"s",
            stored_key=b"k",
            server_key=b"e",
            iterations=4096,
        )
        yield records.DelegationTokenRecord(
            owner="User:a",
            requester="User:b",
            renewers=["User:c"],
            issue_timestamp=1,
            max_timestamp=2,
            expiration_timestamp=3,
            token_id=f"id{number}",
        )


def random_image(seed: int, level: int = LATEST) -> ClusterImage:
    """An image of anything that records can make."""
    rnd = random.Random(seed)
    made: list[Message] = []
    if rnd.random() < 0.9:
        made.append(records.FeatureLevelRecord(name="group.version", feature_level=1))
        made.append(records.FeatureLevelRecord(name="metadata.version", feature_level=level))
    for make in (some_brokers, some_topics, some_configs, some_others):
        if rnd.random() < 0.85:
            made += make(rnd)
    if rnd.random() < 0.5:
        made.append(
            records.ProducerIdsRecord(
                broker_id=1, broker_epoch=2, next_producer_id=1 + rnd.randrange(1 << 60)
            )
        )
    return apply_records(ClusterImage(), made, rnd.randrange(1 << 50), rnd.randrange(1 << 20))


def replayed(image: ClusterImage) -> ClusterImage:
    """The image after a life on paper."""
    found = map(decode_record, image_values(image))
    return apply_records(ClusterImage(), found, image.offset, image.epoch)


def test_replaying_the_records_gives_the_image() -> None:
    for seed in range(300):
        image = random_image(seed)
        assert replayed(image) == image, seed


def test_the_seeds_reach_everything() -> None:
    images = [random_image(seed) for seed in range(300)]
    kinds = {key[0] for image in images for key in image.others}
    assert kinds >= {"zk-migration"}
    assert any(image.scram for image in images) and any(image.tokens for image in images)
    assert any(image.quotas for image in images)
    assert any(image.controllers for image in images)
    assert any(image.acls for image in images)
    assert any(b.cordoned_log_dirs for i in images for b in i.brokers.values())
    assert any(p.last_known_elr for i in images for _, _, p in i.partitions())
    assert any(not image.features for image in images)


def test_the_order_is_kafkas() -> None:
    order = (
        records.FeatureLevelRecord,
        records.ZkMigrationStateRecord,
        records.RegisterBrokerRecord,
        records.RegisterControllerRecord,
        (records.TopicRecord, records.PartitionRecord),
        records.ConfigRecord,
        records.ClientQuotaRecord,
        records.ProducerIdsRecord,
        records.AccessControlEntryRecord,
        records.UserScramCredentialRecord,
        records.DelegationTokenRecord,
    )
    for seed in range(100):
        written = [record for record, _ in image_records(random_image(seed))]
        places = [
            next(place for place, kinds in enumerate(order) if isinstance(record, kinds))
            for record in written
        ]
        assert places == sorted(places)
        if written and isinstance(written[0], records.FeatureLevelRecord):
            assert written[0].name == "metadata.version"


@pytest.mark.parametrize(
    ("level", "partition_version", "broker_version"),
    [(7, 0, 1), (8, 0, 2), (16, 0, 2), (17, 1, 3), (22, 1, 3), (23, 2, 3), (29, 2, 3), (30, 2, 4)],
)
def test_older_clusters_get_older_records(
    level: int, partition_version: int, broker_version: int
) -> None:
    assert written_at(records.PartitionRecord, level) == partition_version
    assert written_at(records.RegisterBrokerRecord, level) == broker_version
    for seed in range(40):
        image = random_image(seed, level)
        written = {
            (type(record), version)
            for record, version in image_records(image)
            if getattr(record, "cordoned_log_dirs", None) is None
        }
        if image.features:
            assert not {
                entry
                for entry in written
                if entry[0] is records.PartitionRecord and entry[1] != partition_version
            }
        again = replayed(image)
        assert again.configs == image.configs and again.others == image.others
        assert again.quotas == image.quotas
        assert [p.isr for _, _, p in again.partitions()] == [
            p.isr for _, _, p in image.partitions()
        ]


def test_an_open_transaction_is_not_written() -> None:
    image = replace(random_image(1), pending=())
    with pytest.raises(ValueError, match="transaction"):
        list(image_values(image))


def test_equal_tuples_are_one_object_in_a_loaded_image() -> None:
    topics, identical = 0, 0
    for seed in range(100):
        seen: dict[tuple[int, ...], tuple[int, ...]] = {}
        for _, _, partition in replayed(random_image(seed)).partitions():
            topics += 1
            identical += partition.replicas in seen
            assert seen.setdefault(partition.replicas, partition.replicas) is partition.replicas
    assert topics > identical > 10
