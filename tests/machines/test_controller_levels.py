"""Clusters at older levels of `metadata.version`: what their logs may say, and what they come to.

A log of such a cluster is also read by releases that know no more, and what is replayed from it has
to be what a snapshot of the same cluster says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from fencepost.machines.controller import Controller
from fencepost.machines.image import DIRECTORY_MIGRATING, ClusterImage, apply_records
from fencepost.machines.image.records import image_values, record_value, written_at
from fencepost.wire.api.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from fencepost.wire.api.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.records.metadata import (
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    decode_record,
)

from .controller_fixtures import Bench, uuid

LEVELS = (7, 8, 11, 12, 16, 17, 22, 23, 30, 32, 33)


class OldBench(Bench):
    """A bench whose cluster is at a level; it remembers the versions of its records."""

    def __init__(self, level: int) -> None:
        self.versions: Counter[tuple[str, int]] = Counter()
        super().__init__()
        self.apply([FeatureLevelRecord(name="metadata.version", feature_level=level)])
        self.versions.clear()

    def written(self, decision: Any) -> list[Message]:
        for record in decision.records:
            value = record_value(record, self.image)
            self.versions[type(record).__name__.removesuffix("Record"), value[2]] += 1
        return super().written(decision)


def busy(level: int) -> OldBench:
    """A cluster in which most that can happen has."""
    bench = OldBench(level)
    bench.brokers(1, 2, 3)
    bench.create("t", assignments=[(0, [1, 2, 3]), (1, [2, 3, 1])])
    bench.create("u", partitions=3, factor=2)
    grow = CreatePartitionsTopic(name="u", count=4, assignments=None)
    bench.do(bench.controller.decide_create_partitions(CreatePartitionsRequest(topics=[grow])))
    bench.alter_partition("t", [(1, -1), (2, -1)])
    bench.fence(2)
    bench.heartbeat(1, want_shut_down=True)
    bench.heartbeat(3)
    assert bench.heartbeat(1, want_shut_down=True).should_shut_down
    bench.brokers(1, life=2)
    bench.do(bench.controller.decide_unregister_broker(3))
    return bench


def replayed(values: Iterable[bytes]) -> ClusterImage:
    return apply_records(ClusterImage(), [decode_record(value) for value in values])


@pytest.mark.parametrize("level", LEVELS)
def test_a_snapshot_says_what_the_log_says(level: int) -> None:
    bench = busy(level)
    image = bench.image
    assert bench.replayed() == image
    assert replayed(image_values(image)).standing_at(image.offset, image.epoch) == image


@pytest.mark.parametrize("level", LEVELS)
def test_records_are_of_versions_that_the_level_knows(level: int) -> None:
    versions = busy(level).versions
    kinds = RegisterBrokerRecord, PartitionRecord, PartitionChangeRecord
    for kind in kinds:
        name = kind.__name__.removesuffix("Record")
        assert {v for found, v in versions if found == name} == {written_at(kind, level)}, name
    assert ("Partition", 0 if level < 17 else 1 if level < 23 else 2) in versions
    assert ("PartitionChange", 0 if level < 17 else 1 if level < 23 else 2) in versions
    broker = 1 if level < 8 else 2 if level < 17 else 3 if level < 30 else 4
    assert ("RegisterBroker", broker) in versions
    changes = {v for found, v in versions if found == "BrokerRegistrationChange"}
    assert changes == {0, 1}, "fencing is said in the oldest, shutting down in the one that can"


def test_a_directory_that_is_lost_is_said_in_the_version_that_can() -> None:
    bench = OldBench(30)
    bench.brokers(1, log_dirs=[uuid(601), uuid(602)])
    bench.versions.clear()
    bench.heartbeat(1, offline_log_dirs=[uuid(601)])
    assert bench.versions == {("BrokerRegistrationChange", 2): 1}
    assert bench.image.brokers[1].log_dirs == (uuid(602),)


@pytest.mark.parametrize("level", [16, 17])
def test_where_replicas_are_is_known_since_there_are_directories(level: int) -> None:
    bench = OldBench(level)
    bench.brokers(1)
    bench.create("t")
    is_known = level >= 17
    assert bool(bench.image.brokers[1].log_dirs) is is_known
    assert (bench.partition("t").directory_of(1) != DIRECTORY_MIGRATING) is is_known
    request = AssignReplicasToDirsRequest(
        broker_id=1, broker_epoch=bench.image.brokers[1].epoch, directories=[]
    )
    reply = bench.do(bench.controller.decide_assign_replicas_to_dirs(request))
    assert reply.error_code == (0 if is_known else ErrorCode.UNSUPPORTED_VERSION)


@pytest.mark.parametrize(
    ("level", "dirs", "error"),
    [
        (16, [], ErrorCode.NONE),
        (16, [uuid(0)], ErrorCode.NONE),
        (17, [], ErrorCode.INVALID_REGISTRATION),
        (17, [uuid(0)], ErrorCode.INVALID_REGISTRATION),
    ],
)
def test_brokers_without_directories_may_register_before(
    level: int, dirs: list[Any], error: ErrorCode
) -> None:
    assert OldBench(level).register(1, log_dirs=dirs).error_code == error


@pytest.mark.parametrize("level", [11, 12])
def test_before_3_6_a_smaller_isr_is_a_new_leader_epoch(level: int) -> None:
    """Without it, brokers of those versions do not start their fetchers again (KAFKA-15021)."""
    bench = OldBench(level)
    bench.brokers(1, 2, 3)
    bench.create("t", assignments=[(0, [1, 2, 3])])

    def epoch_after(*isr: int) -> int:
        answer = bench.alter_partition("t", [(id_, -1) for id_ in isr])
        assert (answer.error_code, answer.leader_id) == (0, 1)
        assert answer.leader_epoch == bench.partition("t").leader_epoch
        return bench.partition("t").leader_epoch

    assert epoch_after(1, 2) == (1 if level < 12 else 0)
    assert epoch_after(1, 2, 3) == (1 if level < 12 else 0), "growing needs none"
    bench.fence(3)
    assert bench.partition("t").leader_epoch == (2 if level < 12 else 0)


def test_after_an_upgrade_a_broker_that_registers_again_has_its_directories() -> None:
    bench = OldBench(16)
    bench.brokers(1)
    bench.create("t")
    before = bench.image.brokers[1]
    bench.apply([FeatureLevelRecord(name="metadata.version", feature_level=17)])
    assert bench.register(1).error_code == 0
    after = bench.image.brokers[1]
    assert (after.epoch, after.fenced) == (before.epoch, before.fenced)
    assert after.log_dirs and not before.log_dirs
    taken_over = Controller.from_image(bench.replayed(), bench.config, bench.now_ms)
    assert taken_over.image == bench.image
