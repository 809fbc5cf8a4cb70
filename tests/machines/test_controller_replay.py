"""Whatever a controller decides: its log, replayed by anybody, is its image, and that is sound.

Hypothesis draws operations; after each, what must hold of partitions and brokers is checked, epochs
must not fall, and controllers fail over in between.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from fencepost.machines.controller import Controller
from fencepost.machines.image import (
    RESOURCE_TOPIC,
    ClusterImage,
    PersistentMap,
    apply_records,
    diff,
)
from fencepost.wire.api.allocate_producer_ids import AllocateProducerIdsRequest
from fencepost.wire.api.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from fencepost.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from fencepost.wire.types import Uuid

from .controller_fixtures import SESSION_MS, Bench, check_invariants

BROKERS = st.integers(1, 4)
TOPICS = st.sampled_from(["a", "b.c", "b_c", "d"])


class Clusters(RuleBasedStateMachine):
    """Brokers come and go, topics too, leaders change ISRs, controllers fail."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench()
        self.lives = dict.fromkeys(range(1, 5), 0)
        self.epochs: dict[tuple[Uuid, int], tuple[int, int]] = {}
        self.broker_epochs: dict[int, int] = {}
        self.follower = ClusterImage()
        self.followed = 0
        for broker in (1, 2, 3):
            self.register(broker, True)
            self.heartbeat(broker, False, False, 0)
        self.create("a", 3, 3, 0, False)

    @rule(broker=BROKERS, is_new=st.booleans())
    def register(self, broker: int, is_new: bool) -> None:
        life = self.lives[broker] + (1 if is_new or not self.lives[broker] else 0)
        if self.bench.register(broker, life=life).error_code == 0:
            self.lives[broker] = life

    @rule(
        broker=BROKERS,
        fence=st.booleans(),
        stop=st.integers(0, 3).map(lambda n: n == 0),
        behind=st.integers(0, 6),
    )
    def heartbeat(self, broker: int, fence: bool, stop: bool, behind: int) -> None:
        if broker in self.bench.image.brokers:
            self.bench.heartbeat(
                broker,
                want_fence=fence,
                want_shut_down=stop,
                current_metadata_offset=max(0, len(self.bench.log) - 1 - behind),
            )

    @rule(ms=st.integers(1, SESSION_MS))
    def time_passes(self, ms: int) -> None:
        self.bench.now_ms += ms
        self.bench.do(self.bench.controller.decide_session_expiry(self.bench.now_ms))

    @rule(broker=BROKERS)
    def unregister(self, broker: int) -> None:
        self.bench.do(self.bench.controller.decide_unregister_broker(broker))

    @rule(
        name=TOPICS,
        partitions=st.integers(1, 3),
        factor=st.integers(1, 3),
        start=st.integers(0, 9),
        unclean=st.booleans(),
    )
    def create(self, name: str, partitions: int, factor: int, start: int, unclean: bool) -> None:
        configs: dict[str, str | None] = {"unclean.leader.election.enable": str(unclean).lower()}
        self.bench.create(name, partitions, factor, configs=configs, start=start)

    @rule(name=TOPICS)
    def delete(self, name: str) -> None:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)])
        self.bench.do(self.bench.controller.decide_delete_topics(request))

    @rule(name=TOPICS, total=st.integers(1, 5))
    def grow(self, name: str, total: int) -> None:
        asked = CreatePartitionsTopic(name=name, count=total, assignments=None)
        request = CreatePartitionsRequest(topics=[asked])
        self.bench.do(self.bench.controller.decide_create_partitions(request, 3))

    @rule(name=TOPICS, members=st.sets(BROKERS), stale=st.booleans(), recovery=st.integers(0, 1))
    def alter_isr(self, name: str, members: set[int], stale: bool, recovery: int) -> None:
        topic = self.bench.image.topics_by_name.get(name)
        if topic is None or topic.partitions[0].leader < 0:
            return
        partition = topic.partitions[0]
        isr = [
            (id_, self.bench.image.brokers[id_].epoch - stale)
            for id_ in partition.replicas
            if (id_ in members or id_ == partition.leader) and id_ in self.bench.image.brokers
        ]
        self.bench.alter_partition(name, isr, leader_recovery_state=recovery)

    @rule(name=TOPICS, value=st.sampled_from(["1", "x", None]))
    def configure(self, name: str, value: str | None) -> None:
        change = (1 if value is None else 0, "retention.ms", value)
        self.bench.alter_config(RESOURCE_TOPIC, name, change)

    @rule(broker=BROKERS)
    def allocate(self, broker: int) -> None:
        if broker in self.bench.image.brokers:
            epoch = self.bench.image.brokers[broker].epoch
            request = AllocateProducerIdsRequest(broker_id=broker, broker_epoch=epoch)
            self.bench.do(self.bench.controller.decide_allocate_producer_ids(request))

    @rule()
    def elect_uncleanly(self) -> None:
        self.bench.do(self.bench.controller.decide_unclean_elections())

    @rule()
    def fail_over(self) -> None:
        self.bench.fail_over()

    @invariant()
    def the_log_is_the_image(self) -> None:
        assert self.bench.replayed() == self.bench.image

    @invariant()
    def the_image_is_sound(self) -> None:
        check_invariants(self.bench.image)

    @invariant()
    def epochs_only_rise(self) -> None:
        """I15 and I16, and a new leader never without a new epoch."""
        image = self.bench.image
        for topic, index, partition in image.partitions():
            key = (topic.topic_id, index)
            leader_epoch, partition_epoch = self.epochs.get(key, (-1, -1))
            assert partition.leader_epoch >= leader_epoch
            assert partition.partition_epoch >= partition_epoch
            self.epochs[key] = (partition.leader_epoch, partition.partition_epoch)
        for broker_id, broker in image.brokers.items():
            assert broker.epoch >= self.broker_epochs.get(broker_id, -1)
            self.broker_epochs[broker_id] = broker.epoch

    @invariant()
    def a_follower_sees_every_difference(self) -> None:
        """An image that lags, and the difference to the new one, tell the same as both images."""
        old = self.follower
        for offset in range(self.followed, len(self.bench.log)):
            self.follower = apply_records(self.follower, [self.bench.log[offset]], offset)
        self.followed = len(self.bench.log)
        delta = diff(old, self.follower)
        told = {(p.topic_id, p.index): (p.old, p.new) for p in delta.partitions}
        assert told == differences(old, self.follower)
        for change in delta.partitions:
            if change.old is not None and change.new is not None and not change.is_new_leader_epoch:
                assert change.old.leader == change.new.leader


def differences(old: ClusterImage, new: ClusterImage) -> dict[Any, Any]:
    """What `diff` should find, found by looking at everything."""
    before = {(t.topic_id, i): p for t, i, p in old.partitions()}
    after = {(t.topic_id, i): p for t, i, p in new.partitions()}
    return {
        key: (before.get(key), after.get(key))
        for key in before.keys() | after.keys()
        if before.get(key) != after.get(key)
    }


TestClusters = Clusters.TestCase
TestClusters.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


class Forgets(Controller):
    """A canary: a controller whose live state is not what its log says."""

    def apply_all(self, records: Any, base_offset: int | None = None) -> None:
        super().apply_all(list(records), base_offset)
        self.image = apply_records(
            ClusterImage(self.image.offset, 0, self.image.features, self.image.brokers),
            [],
        )


def test_the_property_notices_a_live_state_of_its_own() -> None:
    bench = Bench(controller_class=Forgets)
    bench.brokers(1)
    bench.create("t")
    assert bench.replayed() != bench.image
    assert isinstance(bench.image.topics_by_name, PersistentMap)
