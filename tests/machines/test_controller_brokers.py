"""Brokers: registration with every refusal, heartbeats as a table, fencing, shutting down."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from fencepost.machines.controller import Controller, brokers
from fencepost.machines.controller.brokers import BrokerControl, next_control
from fencepost.machines.image import ClusterImage, ReplayError
from fencepost.wire.api.allocate_producer_ids import AllocateProducerIdsRequest
from fencepost.wire.api.broker_heartbeat import BrokerHeartbeatRequest
from fencepost.wire.api.broker_registration import Feature
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.metadata import (
    FeatureLevelRecord,
    PartitionChangeRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)

from .controller_fixtures import SESSION_MS, Bench, check_invariants, uuid

MV = Feature(name="metadata.version", min_supported_version=7, max_supported_version=33)


def feature(name: str, least: int, most: int) -> Feature:
    return Feature(name=name, min_supported_version=least, max_supported_version=most)


# -- a new cluster -----------------------------------------------------------------------------


def test_a_new_cluster_gets_its_features_once() -> None:
    controller = Controller.from_image(ClusterImage(), Bench().config, 0)
    decision = controller.decide_take_over(levels={"group.version": 1, "metadata.version": 33})
    names = [r.name for r in decision.records if isinstance(r, FeatureLevelRecord)]
    assert names == ["metadata.version", "group.version"] and decision.reply is True
    controller.apply_all(decision.records)
    assert controller.image.features == {"metadata.version": 33, "group.version": 1}
    again = controller.decide_take_over()
    assert (again.records, again.reply) == ([], False)


# -- registration ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"cluster_id": "other"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"is_migrating_zk_broker": True}, ErrorCode.BROKER_ID_NOT_REGISTERED),
        ({"log_dirs": []}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [uuid(600), uuid(600)]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [uuid(99)]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [uuid(501)]}, ErrorCode.INVALID_REGISTRATION),
        ({"features": []}, ErrorCode.INVALID_REGISTRATION),
        ({"features": [feature("metadata.version", 7, 29)]}, ErrorCode.UNSUPPORTED_VERSION),
        ({"features": [MV]}, ErrorCode.UNSUPPORTED_VERSION),
        ({"features": [MV, feature("x", 2, 3)]}, ErrorCode.UNSUPPORTED_VERSION),
        (
            {"features": [MV, feature("x", 0, 1), feature("y", 1, 2)]},
            ErrorCode.UNSUPPORTED_VERSION,
        ),
        ({"features": [MV, feature("x", 0, 1), feature("y", 0, 2)]}, ErrorCode.NONE),
    ],
)
def test_registrations_are_checked(changes: dict[str, Any], error: ErrorCode) -> None:
    bench = Bench()
    bench.register(1)
    bench.apply([FeatureLevelRecord(name="x", feature_level=1)])
    reply = bench.register(2, **changes)
    assert reply.error_code == error
    assert (2 in bench.image.brokers) is (error is ErrorCode.NONE)
    assert (reply.broker_epoch == -1) is (error is not ErrorCode.NONE)


def test_a_broker_is_registered_fenced_under_the_offset_of_its_record() -> None:
    bench = Bench()
    reply = bench.register(1, rack="r", log_dirs=[uuid(702), uuid(701)])
    broker = bench.image.brokers[1]
    assert reply.broker_epoch == broker.epoch == len(bench.log) - 1
    assert isinstance(bench.log[broker.epoch], RegisterBrokerRecord)
    assert broker.fenced and broker.rack == "r" and broker.log_dirs == (uuid(701), uuid(702))
    assert broker.listeners[0].host == "host1"


def test_the_next_offset_may_be_told() -> None:
    bench = Bench()
    decision = bench.controller.decide_register_broker(bench.registration(1), 0, next_offset=77)
    assert decision.reply.broker_epoch == 77


def test_the_same_incarnation_keeps_its_epoch_and_state() -> None:
    bench = Bench()
    bench.brokers(1)
    epoch = bench.image.brokers[1].epoch
    reply = bench.register(1, rack="moved")
    broker = bench.image.brokers[1]
    assert reply.broker_epoch == broker.epoch == epoch
    assert broker.rack == "moved" and not broker.fenced


def test_a_second_broker_under_an_id_must_wait_for_the_first_ones_session() -> None:
    bench = Bench()
    bench.brokers(1)
    bench.now_ms += SESSION_MS - 1
    assert bench.register(1, life=2).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    bench.now_ms += 1
    assert bench.register(1, life=2).error_code == 0


def test_a_broker_that_is_shutting_down_need_not_be_waited_for() -> None:
    """KAFKA-19047: it is killed in the middle of its controlled shutdown, and comes back."""
    bench = Bench()
    bench.brokers(1, 2)
    bench.create("t", assignments=[(0, [1, 2])])
    bench.heartbeat(1, want_shut_down=True)
    assert bench.image.brokers[1].in_controlled_shutdown
    assert bench.register(1, life=2).error_code == 0
    assert not bench.image.brokers[1].in_controlled_shutdown and bench.image.brokers[1].fenced


def test_a_fenced_broker_may_come_back_at_once() -> None:
    bench = Bench()
    bench.brokers(1)
    first = bench.image.brokers[1].epoch
    bench.fence(1)
    assert bench.register(1, life=2).broker_epoch > first


def test_a_new_incarnation_gives_up_what_the_old_one_had() -> None:
    bench = Bench()
    bench.brokers(1, 2)
    bench.create("t", assignments=[(0, [1, 2]), (1, [2, 1])])
    bench.create("alone", assignments=[(0, [1])])
    bench.now_ms += SESSION_MS
    reply = bench.register(1, life=2)
    assert isinstance(bench.log[reply.broker_epoch], RegisterBrokerRecord), "epoch is its offset"
    assert [p.leader for p in bench.topic("t").partitions] == [2, 2]
    assert [p.isr for p in bench.topic("t").partitions] == [(2,), (2,)]
    assert (bench.partition("alone").leader, bench.partition("alone").isr) == (-1, (1,))
    bench.heartbeat(1)
    only = bench.partition("alone")
    assert (only.leader, only.leader_epoch) == (1, 2), "elected again, in a new epoch"
    check_invariants(bench.image)


# -- heartbeats --------------------------------------------------------------------------------

FENCED, UNFENCED = BrokerControl.FENCED, BrokerControl.UNFENCED
STOPPING, STOP = BrokerControl.SHUTTING_DOWN, BrokerControl.SHUTDOWN_NOW


@pytest.mark.parametrize(
    ("now", "want_fence", "want_stop", "caught_up", "leads", "others_know", "then"),
    [
        (FENCED, False, False, True, False, False, UNFENCED),
        (FENCED, False, False, False, False, False, FENCED),
        (FENCED, True, False, True, False, False, FENCED),
        (FENCED, False, True, True, False, False, STOP),
        (FENCED, True, True, False, False, False, STOP),
        (UNFENCED, False, False, True, True, True, UNFENCED),
        (UNFENCED, True, False, True, True, True, FENCED),
        (UNFENCED, True, True, True, True, True, STOP),
        (UNFENCED, False, True, True, True, True, STOPPING),
        (UNFENCED, False, True, True, False, False, STOP),
        (STOPPING, False, True, True, True, True, STOPPING),
        (STOPPING, False, True, True, False, False, STOPPING),
        (STOPPING, False, True, True, False, True, STOP),
        (STOPPING, False, False, True, False, True, STOP),
        (STOPPING, True, False, True, True, True, STOPPING),
    ],
)
def test_what_a_heartbeat_leads_to(
    now: BrokerControl,
    want_fence: bool,
    want_stop: bool,
    caught_up: bool,
    leads: bool,
    others_know: bool,
    then: BrokerControl,
) -> None:
    bench = Bench()
    bench.register(1)
    broker = bench.image.brokers[1]
    values = {
        FENCED: (True, False),
        UNFENCED: (False, False),
        STOPPING: (False, True),
    }
    fenced, stopping = values[now]
    broker = replace(broker, fenced=fenced, in_controlled_shutdown=stopping)
    request = BrokerHeartbeatRequest(
        broker_id=1,
        broker_epoch=broker.epoch,
        current_metadata_offset=broker.epoch - (0 if caught_up else 1),
        want_fence=want_fence,
        want_shut_down=want_stop,
    )
    has_read = request.current_metadata_offset >= broker.epoch
    assert next_control(broker, request, lambda: leads, others_know, has_read) is then


def test_heartbeats_of_strangers_and_earlier_incarnations_are_stale() -> None:
    bench = Bench()
    bench.brokers(1)
    assert bench.heartbeat(1, broker_epoch=0).error_code == ErrorCode.STALE_BROKER_EPOCH
    request = BrokerHeartbeatRequest(broker_id=9, broker_epoch=1)
    reply = bench.do(bench.controller.decide_broker_heartbeat(request, 0))
    assert reply.error_code == ErrorCode.STALE_BROKER_EPOCH


def test_a_broker_is_unfenced_when_it_has_read_its_registration() -> None:
    bench = Bench()
    epoch = bench.register(1).broker_epoch
    reply = bench.heartbeat(1, current_metadata_offset=epoch - 1)
    assert (reply.is_caught_up, reply.is_fenced) == (False, True)
    reply = bench.heartbeat(1, current_metadata_offset=epoch)
    assert (reply.is_caught_up, reply.is_fenced) == (True, False)
    before = len(bench.log)
    bench.heartbeat(1)
    assert len(bench.log) == before, "nothing changes, nothing is written"


def test_fencing_moves_leaders_and_keeps_the_last_in_sync() -> None:
    bench = Bench()
    bench.brokers(1, 2, 3)
    bench.create("t", assignments=[(0, [1, 2, 3]), (1, [2, 3, 1]), (2, [3, 1, 2])])
    bench.create("alone", assignments=[(0, [1])])
    bench.fence(1)
    assert bench.heartbeat(2).is_fenced is False
    leaders = [(p.leader, p.leader_epoch, p.isr) for p in bench.topic("t").partitions]
    assert leaders == [(2, 1, (2, 3)), (2, 0, (2, 3)), (3, 0, (3, 2))]
    alone = bench.partition("alone")
    assert (alone.leader, alone.leader_epoch, alone.isr) == (-1, 1, (1,))
    bench.heartbeat(1)
    alone = bench.partition("alone")
    assert (alone.leader, alone.leader_epoch) == (1, 2)
    assert bench.partition("t").isr == (2, 3), "it must catch up before it is in sync again"
    check_invariants(bench.image)


def test_sessions_end_in_order_and_are_renewed_by_heartbeats() -> None:
    bench = Bench()
    bench.brokers(1, 2)
    bench.create("t", assignments=[(0, [1, 2])])
    bench.now_ms += 5_000
    bench.heartbeat(2)
    assert bench.controller.next_session_deadline_ms() == 1_000 + SESSION_MS
    bench.now_ms = 1_000 + SESSION_MS - 1
    assert bench.do(bench.controller.decide_session_expiry(bench.now_ms)) is None
    bench.now_ms += 1
    assert bench.do(bench.controller.decide_session_expiry(bench.now_ms)) == 1
    assert bench.image.brokers[1].fenced and bench.partition("t").leader == 2
    assert bench.controller.next_session_deadline_ms() == 6_000 + SESSION_MS
    bench.now_ms += 5_000
    assert bench.do(bench.controller.decide_session_expiry(bench.now_ms)) == 2
    assert bench.controller.next_session_deadline_ms() is None
    assert bench.partition("t").leader == -1 and bench.partition("t").isr == (2,)


def test_two_sessions_that_end_at_once_leave_no_fenced_leader() -> None:
    bench = Bench()
    bench.brokers(1, 2, 3)
    bench.create("t", assignments=[(0, [1, 2, 3]), (1, [3, 1, 2])])
    bench.create("u", assignments=[(0, [2, 1])])
    bench.now_ms += SESSION_MS
    bench.heartbeat(3)
    for fenced in (1, 2, None):
        expiry = bench.controller.decide_session_expiry(bench.now_ms)
        assert bench.do(expiry) == fenced, "one at a time"
        assert (bench.controller.next_session_look_ms(bench.now_ms) > bench.now_ms) == (
            fenced != 1
        ), "and the next is due at once"
    assert [p.leader for p in bench.topic("t").partitions] == [3, 3]
    assert (bench.partition("u").leader, bench.partition("u").isr) == (-1, (2,))
    check_invariants(bench.image)


def test_a_new_controller_gives_every_broker_a_session() -> None:
    bench = Bench()
    bench.brokers(1)
    bench.now_ms += SESSION_MS - 1
    bench.fail_over()
    bench.now_ms += SESSION_MS - 1
    assert bench.do(bench.controller.decide_session_expiry(bench.now_ms)) is None
    assert bench.register(1, life=2).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    bench.now_ms += 1
    assert bench.do(bench.controller.decide_session_expiry(bench.now_ms)) == 1


def test_a_broker_stops_when_the_others_know_of_its_successors() -> None:
    bench = Bench()
    bench.brokers(1, 2)
    bench.create("t", assignments=[(0, [1, 2])])
    bench.heartbeat(2)
    known_before = len(bench.log) - 1
    reply = bench.heartbeat(1, want_shut_down=True)
    assert (reply.is_fenced, reply.should_shut_down) == (False, False)
    assert bench.partition("t").leader == 2 and bench.partition("t").isr == (2,)
    assert bench.image.brokers[1].in_controlled_shutdown
    bench.heartbeat(2, current_metadata_offset=known_before)
    assert not bench.heartbeat(1, want_shut_down=True).should_shut_down
    bench.heartbeat(2)
    reply = bench.heartbeat(1, want_shut_down=True)
    assert (reply.is_fenced, reply.should_shut_down) == (True, True)
    assert bench.image.brokers[1].fenced
    assert bench.heartbeat(1, want_shut_down=True).should_shut_down, "it may ask again"


def test_partitions_are_looked_through_only_when_the_others_know(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker that stops sends heartbeats in quick succession, and there may be many of them."""
    bench = Bench()
    bench.brokers(1, 2)
    bench.create("t", assignments=[(0, [1, 2])])
    bench.heartbeat(2)
    looks: list[int] = []
    look = brokers.leads_partitions

    def counted(image: ClusterImage, broker_id: int) -> bool:
        looks.append(broker_id)
        return look(image, broker_id)

    monkeypatch.setattr(brokers, "leads_partitions", counted)
    bench.heartbeat(1)
    assert looks == []
    for _ in range(5):
        assert not bench.heartbeat(1, want_shut_down=True).should_shut_down
    assert looks == [1], "to decide whether it may go at once"
    bench.heartbeat(2)
    assert bench.heartbeat(1, want_shut_down=True).should_shut_down
    assert looks == [1, 1]


def test_a_life_that_was_told_to_stop_does_not_come_back() -> None:
    bench = Bench()
    bench.brokers(1)
    bench.create("t")
    while not bench.heartbeat(1, want_shut_down=True).should_shut_down:
        pass
    assert bench.heartbeat(1).is_fenced and bench.partition("t").leader == -1
    bench.brokers(1, life=2)
    assert bench.partition("t").leader == 1


def test_a_lone_broker_may_stop_too() -> None:
    bench = Bench()
    bench.brokers(1)
    bench.create("t")
    assert not bench.heartbeat(1, want_shut_down=True).should_shut_down
    assert bench.partition("t").leader == -1
    assert bench.heartbeat(1, want_shut_down=True).should_shut_down
    assert bench.partition("t").isr == (1,)


def test_a_failed_log_directory_gives_up_its_replicas_only() -> None:
    bench = Bench()
    bench.brokers(1, log_dirs=[uuid(601), uuid(602)])
    bench.brokers(2)
    bench.create("a", assignments=[(0, [1, 2])])
    bench.create("b", assignments=[(0, [1, 2])])
    for name, directory in (("a", uuid(601)), ("b", uuid(602))):
        bench.apply(
            [
                PartitionChangeRecord(
                    topic_id=bench.topic(name).topic_id,
                    partition_id=0,
                    directories=[directory, uuid(502)],
                )
            ]
        )
    bench.heartbeat(1, offline_log_dirs=[uuid(601)])
    assert bench.image.brokers[1].log_dirs == (uuid(602),)
    assert (bench.partition("a").leader, bench.partition("b").leader) == (2, 1)
    before = len(bench.log)
    bench.heartbeat(1, offline_log_dirs=[uuid(601)])
    assert len(bench.log) == before, "it is known already"
    bench.fence(2)
    assert bench.partition("a").leader == -1, "the copy on the failed disk does not lead"


def test_an_unregistered_broker_is_forgotten() -> None:
    bench = Bench()
    bench.brokers(1, 2)
    bench.create("t", assignments=[(0, [1, 2])])
    assert bench.do(bench.controller.decide_unregister_broker(1)) is ErrorCode.NONE
    assert isinstance(bench.log[-1], UnregisterBrokerRecord)
    assert 1 not in bench.image.brokers and bench.partition("t").leader == 2
    gone = bench.do(bench.controller.decide_unregister_broker(1))
    assert gone is ErrorCode.BROKER_ID_NOT_REGISTERED


# -- producer ids ------------------------------------------------------------------------------


def test_producer_ids_are_given_out_in_blocks() -> None:
    bench = Bench()
    bench.brokers(1)
    epoch = bench.image.brokers[1].epoch

    def allocate(broker_epoch: int) -> Any:
        request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=broker_epoch)
        return bench.do(bench.controller.decide_allocate_producer_ids(request))

    blocks = [allocate(epoch) for _ in range(3)]
    assert [(b.producer_id_start, b.producer_id_len) for b in blocks] == [
        (0, 1000),
        (1000, 1000),
        (2000, 1000),
    ]
    assert allocate(epoch + 1).error_code == ErrorCode.STALE_BROKER_EPOCH
    bench.apply([ProducerIdsRecord(broker_id=1, next_producer_id=2**63 - 500)])
    used_up = allocate(epoch)
    assert used_up.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


# -- decide and apply --------------------------------------------------------------------------


def test_deciding_changes_nothing() -> None:
    bench = Bench()
    bench.brokers(1)
    bench.create("t")
    image = bench.image
    request = BrokerHeartbeatRequest(
        broker_id=1, broker_epoch=image.brokers[1].epoch, want_fence=True
    )
    for _ in range(2):
        assert len(bench.controller.decide_broker_heartbeat(request, 0).records) == 2
    assert bench.image is image


def test_a_failed_write_is_as_if_nothing_had_been_decided() -> None:
    """S57: what was decided and could not be written is void, and so is what builds on it."""
    bench = Bench()
    bench.brokers(1)
    committed = bench.image
    bench.controller.apply_all(bench.written(bench.controller.decide_unregister_broker(1)))
    assert 1 not in bench.image.brokers, "the next decision would build on it"
    bench.fail_over()
    assert bench.image == committed
    assert bench.heartbeat(1).error_code == 0


def test_records_that_do_not_fit_are_refused() -> None:
    bench = Bench()
    with pytest.raises(ReplayError):
        bench.controller.apply(UnregisterBrokerRecord(broker_id=4, broker_epoch=1))
