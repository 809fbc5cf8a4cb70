"""Eligible leader replicas as brokers come and go, and the min ISR that they rest on (KIP-966)."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.machines.image import NO_LEADER, RECOVERING, RESOURCE_BROKER, RESOURCE_TOPIC
from fencepost.wire.api.broker_registration import Feature
from fencepost.wire.api.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records import metadata as records

from .controller_fixtures import Bench

ELR, MIN_ISR = "eligible.leader.replicas.version", "min.insync.replicas"
SET, DELETE = 0, 1
UPGRADE, SAFE_DOWNGRADE = 1, 2
FEATURES = [
    Feature(name="metadata.version", min_supported_version=7, max_supported_version=33),
    Feature(name=ELR, min_supported_version=0, max_supported_version=1),
]


def update(bench: Bench, **levels: int) -> int:
    """Set features to levels, `_` standing for '.' in their names; the error."""
    request = UpdateFeaturesRequest(
        feature_updates=[
            FeatureUpdateKey(
                feature=name.replace("_", "."),
                max_version_level=level,
                upgrade_type=UPGRADE if level else SAFE_DOWNGRADE,
            )
            for name, level in levels.items()
        ]
    )
    reply: Any = bench.do(bench.controller.decide_update_features(request, 2))
    return int(reply[0].error_code)


def enable(bench: Bench) -> None:
    assert update(bench, eligible_leader_replicas_version=1) == 0


def cluster(min_isr: int = 2) -> Bench:
    """Three brokers and a topic with a replica on each."""
    bench = Bench()
    bench.brokers(1, 2, 3, features=FEATURES)
    enable(bench)
    bench.create("t", assignments=[(0, [1, 2, 3])], configs={MIN_ISR: str(min_isr)})
    return bench


def state(bench: Bench) -> tuple[int, set[int], set[int], tuple[int, ...]]:
    """Leader, ISR, ELR and last known ELR of the topic."""
    one = bench.partition("t")
    return one.leader, set(one.isr), set(one.eligible_leader_replicas), one.last_known_elr


def come_back(bench: Bench, broker_id: int, *, clean: bool) -> None:
    """The broker registers as a new incarnation, and stays fenced."""
    epoch = bench.image.brokers[broker_id].epoch if clean else -1
    reply = bench.register(broker_id, life=2, features=FEATURES, previous_broker_epoch=epoch)
    assert reply.error_code == 0


# -- who is eligible -------------------------------------------------------------------------------


def test_no_replica_is_eligible_as_long_as_enough_are_in_sync() -> None:
    bench = cluster()
    bench.fence(1)
    assert state(bench) == (2, {2, 3}, set(), ())


def test_who_leaves_a_short_in_sync_set_stays_eligible_and_leads_again_without_loss() -> None:
    bench = cluster()
    for broker_id in (1, 2, 3):
        bench.fence(broker_id)
    assert state(bench) == (NO_LEADER, set(), {2, 3}, (3,)), "1 went while enough were left"
    bench.heartbeat(1)
    assert state(bench)[0] == NO_LEADER, "1 may lack what the others have acknowledged"
    bench.heartbeat(2)
    assert state(bench) == (2, {2}, {3}, ())
    assert bench.partition("t").leader_recovery_state != RECOVERING


def test_without_the_feature_the_last_one_in_sync_stays_so() -> None:
    bench = cluster()
    assert update(bench, eligible_leader_replicas_version=0) == 0
    for broker_id in (1, 2, 3):
        bench.fence(broker_id)
    assert state(bench) == (NO_LEADER, {3}, set(), ())


@pytest.mark.parametrize("clean", [True, False])
def test_a_broker_that_was_not_closed_in_order_is_not_eligible_any_more(clean: bool) -> None:
    bench = cluster()
    for broker_id in (1, 2, 3):
        bench.fence(broker_id)
    come_back(bench, 2, clean=clean)
    assert state(bench)[2] == ({2, 3} if clean else {3})
    bench.heartbeat(2)
    assert state(bench)[0] == (2 if clean else NO_LEADER)


def test_a_broker_that_crashed_and_is_back_before_its_session_ended_has_lost_its_place() -> None:
    """The registration itself takes it out of the ISR, in front of its own record."""
    bench = cluster()
    bench.fence(1)
    bench.fence(2)
    assert state(bench) == (3, {3}, {2}, ())
    bench.now_ms += bench.config.broker_session_timeout_ms
    before = len(bench.log)
    come_back(bench, 3, clean=False)
    assert state(bench) == (NO_LEADER, set(), {2}, (3,))
    kinds = [type(one) for one in bench.log[before:]]
    assert kinds == [records.PartitionChangeRecord, records.RegisterBrokerRecord]


def test_the_last_known_leader_leads_when_no_other_is_known_and_it_is_alive() -> None:
    """KAFKA-19522: another broker's return does not elect it while it is fenced."""
    bench = cluster()
    for broker_id in (1, 2, 3):
        bench.fence(broker_id)
    for broker_id in (2, 3):
        come_back(bench, broker_id, clean=False)
    assert state(bench) == (NO_LEADER, set(), set(), (3,))
    bench.heartbeat(2)
    assert state(bench)[0] == NO_LEADER
    bench.heartbeat(3)
    assert state(bench) == (3, {3}, set(), ())
    assert bench.partition("t").leader_recovery_state == RECOVERING


def test_a_broker_that_is_unregistered_is_not_eligible() -> None:
    bench = cluster()
    for broker_id in (1, 2, 3):
        bench.fence(broker_id)
    bench.do(bench.controller.decide_unregister_broker(2))
    assert state(bench) == (NO_LEADER, set(), {3}, (3,))


def test_a_controlled_shutdown_leaves_a_broker_eligible() -> None:
    bench = cluster(min_isr=3)
    assert bench.partition("t").leader == 1
    bench.heartbeat(1, want_shut_down=True)
    assert state(bench) == (2, {2, 3}, {1}, ())


# -- the min ISR -----------------------------------------------------------------------------------


def test_the_feature_brings_a_value_for_all_brokers_and_takes_those_of_single_ones() -> None:
    bench = Bench(topic_defaults={MIN_ISR: 2})
    bench.brokers(1, 2, features=FEATURES)
    assert bench.alter_config(RESOURCE_BROKER, "1", (SET, MIN_ISR, "1")).error_code == 0
    before = len(bench.log)
    enable(bench)
    assert bench.image.broker_configs() == {MIN_ISR: "2"}
    assert bench.image.broker_configs(1) == {}
    last = bench.log[-1]
    assert isinstance(last, records.FeatureLevelRecord) and last.name == ELR
    assert len(bench.log) == before + 3


def test_the_feature_keeps_the_value_that_all_brokers_have() -> None:
    bench = Bench()
    bench.brokers(1, features=FEATURES)
    bench.alter_config(RESOURCE_BROKER, "", (SET, MIN_ISR, "3"))
    enable(bench)
    assert bench.image.broker_configs() == {MIN_ISR: "3"}


def test_a_new_cluster_begins_with_a_value_for_all_brokers() -> None:
    bench = Bench()
    bench.log.clear()
    bench.controller = bench._made_of(type(bench.image)())
    levels = {"metadata.version": 33, ELR: 1}
    bench.do(bench.controller.decide_take_over(levels=levels))
    assert bench.image.broker_configs() == {MIN_ISR: "1"}
    assert bench.image.pending is None, "in one transaction"


@pytest.mark.parametrize(
    ("name", "change", "error"),
    [
        ("1", (SET, MIN_ISR, "1"), ErrorCode.INVALID_CONFIG),
        ("1", (DELETE, MIN_ISR, None), ErrorCode.INVALID_CONFIG),
        ("", (DELETE, MIN_ISR, None), ErrorCode.INVALID_CONFIG),
        ("", (SET, MIN_ISR, "3"), ErrorCode.NONE),
        ("1", (SET, "log.retention.ms", "5"), ErrorCode.NONE),
    ],
)
def test_brokers_must_agree_on_the_min_isr(name: str, change: Any, error: ErrorCode) -> None:
    bench = cluster()
    assert bench.alter_config(RESOURCE_BROKER, name, change).error_code == error
    assert update(bench, eligible_leader_replicas_version=0) == 0
    assert bench.alter_config(RESOURCE_BROKER, name, change).error_code == 0


@pytest.mark.parametrize(
    ("kind", "name", "forgotten"),
    [(RESOURCE_TOPIC, "t", {"t"}), (RESOURCE_BROKER, "", {"t", "other"})],
)
def test_another_min_isr_forgets_the_eligible_that_rest_on_the_old_one(
    kind: int, name: str, forgotten: set[str]
) -> None:
    bench = cluster()
    bench.create("other", assignments=[(0, [1, 2, 3])], configs={MIN_ISR: "3"})
    bench.fence(2)
    bench.fence(3)
    topics = {"t", "other"}
    assert all(bench.partition(one).eligible_leader_replicas for one in topics)
    other = "retention.ms" if kind == RESOURCE_TOPIC else "log.retention.ms"
    assert bench.alter_config(kind, name, (SET, other, "77")).error_code == 0
    assert all(bench.partition(one).eligible_leader_replicas for one in topics)
    bench.alter_config(kind, name, (SET, MIN_ISR, "1"))
    assert {one for one in topics if not bench.partition(one).eligible_leader_replicas} == forgotten


def test_topics_that_are_deleted_meanwhile_have_nothing_to_forget() -> None:
    """KAFKA-19383."""
    bench = cluster()
    topic_id = bench.topic("t").topic_id
    bench.apply([records.RemoveTopicRecord(topic_id=topic_id)])
    bench.apply([records.ClearElrRecord(topic_name="t")])
    assert bench.replayed().topics_by_name == bench.image.topics_by_name


def test_the_feature_needs_metadata_that_can_say_who_is_eligible() -> None:
    bench = Bench()
    bench.brokers(1, features=FEATURES)
    bench.apply([records.FeatureLevelRecord(name="metadata.version", feature_level=22)])
    refused = int(ErrorCode.INVALID_UPDATE_VERSION)
    assert update(bench, eligible_leader_replicas_version=1) == refused
    assert update(bench, eligible_leader_replicas_version=1, metadata_version=23) == 0
    assert bench.image.features[ELR] == 1


def test_a_broker_without_the_feature_cannot_join() -> None:
    bench = cluster()
    assert bench.register(4).error_code == ErrorCode.UNSUPPORTED_VERSION
