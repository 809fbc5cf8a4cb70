"""Metadata: brokers and topics told, topics created, and every error, at every version."""

import pytest

from fencepost.broker.cluster import topic_creation
from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.metadata import PartitionChangeRecord
from fencepost.wire.types import Uuid

from .harness import (
    CLUSTER_ID,
    StillNode,
    ask,
    broker,
    register,
    served_versions,
    topic,
    topic_id,
)

register("metadata")

VERSIONS = served_versions(MetadataRequest)
UNKNOWN_ID = Uuid(b"nobody has this!")


def a_cluster(**overrides: str) -> StillNode:
    config = BrokerConfig.load(None, {key.replace("_", "."): v for key, v in overrides.items()})
    return StillNode(config).learn(
        broker(1, rack="east"),
        broker(2),
        broker(3, fenced=True),
        broker(4, listeners=("INTERNAL",)),
        *topic(
            "events",
            {"replicas": [1, 2, 3], "isr": [1, 2], "leader_epoch": 5},
            {"replicas": [2, 1], "leader": 2},
        ),
        *topic("__consumer_offsets", {}),
    )


def by_name(*names, **options):
    options.setdefault("allow_auto_topic_creation", False)
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], **options)


def by_id(*ids):
    topics = [MetadataRequestTopic(name=None, topic_id=id_) for id_ in ids]
    return MetadataRequest(topics=topics)


def ask_names(node, *names, version=13, **options):
    if version < 4:
        options["allow_auto_topic_creation"] = True
    return ask(node, by_name(*names, **options), version)


# -- what every answer says ----------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_live_brokers_of_this_listener(version):
    answer = ask_names(a_cluster(), "events", version=version)
    assert [(b.node_id, b.host, b.port) for b in answer.brokers] == [
        (1, "broker-1", 9001),
        (2, "broker-2", 9002),
    ]
    if version >= 1:
        assert [b.rack for b in answer.brokers] == ["east", None]
        assert answer.controller_id == 1
    if version >= 2:
        assert answer.cluster_id == CLUSTER_ID
    assert answer.error_code == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_and_its_partitions(version):
    (found,) = ask_names(a_cluster(), "events", version=version).topics
    assert (found.error_code, found.name, found.is_internal) == (0, "events", False)
    if version >= 10:
        assert found.topic_id == topic_id("events")
    first, second = found.partitions
    assert (first.partition_index, first.leader_id, first.isr_nodes) == (0, 1, [1, 2])
    assert (second.partition_index, second.leader_id, second.replica_nodes) == (1, 2, [2, 1])
    assert first.replica_nodes == [1, 2, 3]
    assert first.leader_epoch == (5 if version >= 7 else -1)
    assert first.offline_replicas == ([3] if version >= 5 else [])
    assert found.topic_authorized_operations == -(2**31)


@pytest.mark.parametrize("version", VERSIONS)
def test_all_topics(version):
    everything = MetadataRequest(topics=None if version else [], allow_auto_topic_creation=True)
    answer = ask(a_cluster(), everything, version)
    assert [t.name for t in answer.topics] == ["__consumer_offsets", "events"]
    assert [t.is_internal for t in answer.topics] == [version >= 1, False]


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_no_topics(version):
    assert ask(a_cluster(), MetadataRequest(topics=[]), version).topics == []


def test_operations_are_told_on_request():
    request = by_name(
        "events",
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    answer = ask(a_cluster(), request, 8)
    assert answer.topics[0].topic_authorized_operations == 3576
    assert answer.cluster_authorized_operations == 8096


@pytest.mark.parametrize("name", ["absent", "a b"])
def test_operations_are_told_of_names_without_a_topic(name):
    request = by_name(name, include_topic_authorized_operations=True)
    (found,) = ask(a_cluster(auto_create_topics_enable="false"), request, 8).topics
    assert found.topic_authorized_operations == 3576


def test_a_name_asked_for_twice_is_told_once():
    answer = ask_names(a_cluster(), "events", "__consumer_offsets", "events")
    assert [t.name for t in answer.topics] == ["events", "__consumer_offsets"]


def test_another_listener_has_other_brokers_and_leaders():
    answer = ask(a_cluster(), by_name("events"), 13, "INTERNAL")
    assert [b.node_id for b in answer.brokers] == [4]
    assert [p.error_code for p in answer.topics[0].partitions] == [72, 72]
    assert [p.leader_id for p in answer.topics[0].partitions] == [-1, -1]


# -- names and ids that are not there --------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("name", "code"), [("absent", 3), ("a b", 17), ("", 17), (".", 17), ("x" * 250, 17)]
)
def test_names_without_a_topic(name, code, version):
    node = a_cluster(auto_create_topics_enable="false")
    (found,) = ask_names(node, name, version=version).topics
    assert (found.error_code, found.name, found.partitions) == (code, name, [])


def test_an_internal_topic_is_internal_before_it_exists():
    (found,) = ask_names(a_cluster(), "__transaction_state").topics
    assert (found.error_code, found.is_internal) == (3, True)


@pytest.mark.parametrize("version", [12, 13])
def test_ids(version):
    answer = ask(a_cluster(), by_id(topic_id("events"), UNKNOWN_ID, UNKNOWN_ID), version)
    known, unknown = answer.topics
    assert (known.error_code, known.name, len(known.partitions)) == (0, "events", 2)
    assert (unknown.error_code, unknown.name, unknown.topic_id) == (100, None, UNKNOWN_ID)


def test_with_one_id_names_do_not_count():
    topics = [
        MetadataRequestTopic(name="events"),
        MetadataRequestTopic(name=None, topic_id=UNKNOWN_ID),
    ]
    answer = ask(a_cluster(), MetadataRequest(topics=topics))
    assert [(t.error_code, t.topic_id) for t in answer.topics] == [(100, UNKNOWN_ID)]


@pytest.mark.parametrize(
    ("version", "name", "asked_id"),
    [
        (10, "events", UNKNOWN_ID),
        (11, "events", UNKNOWN_ID),
        (10, None, UNKNOWN_ID),
        (11, None, Uuid.ZERO),
        (12, None, Uuid.ZERO),
        (13, None, Uuid.ZERO),
    ],
)
def test_malformed_requests_are_refused_as_a_whole(version, name, asked_id):
    topics = [
        MetadataRequestTopic(name="events"),
        MetadataRequestTopic(name=name, topic_id=asked_id),
    ]
    answer = ask(a_cluster(), MetadataRequest(topics=topics), version)
    assert answer.brokers == []
    assert [t.error_code for t in answer.topics] == [42, 42]
    assert answer.error_code == (42 if version >= 13 else 0)


# -- partitions in trouble -------------------------------------------------------------------------


def trouble(**partition) -> StillNode:
    return StillNode().learn(
        broker(1),
        broker(2, fenced=True),
        broker(3, listeners=("INTERNAL",)),
        *topic("t", partition),
    )


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("partition", "code_before_6", "code"),
    [
        ({"replicas": [2], "leader": -1}, 5, 5),
        ({"replicas": [9], "leader": 9}, 5, 5),
        ({"replicas": [3], "leader": 3}, 5, 72),
    ],
)
def test_partitions_without_a_leader_to_turn_to(partition, code_before_6, code, version):
    (found,) = ask_names(trouble(**partition), "t", version=version).topics
    assert found.error_code == 0
    assert found.partitions[0].error_code == (code if version >= 6 else code_before_6)
    assert found.partitions[0].leader_id == -1


def test_a_fenced_leader_is_still_named():
    (found,) = ask_names(trouble(replicas=[2], leader=2), "t").topics
    assert (found.partitions[0].error_code, found.partitions[0].leader_id) == (0, 2)
    assert found.partitions[0].offline_replicas == [2]


def test_v0_leaves_out_replicas_it_cannot_name():
    node = trouble(replicas=[1, 3, 9], isr=[1, 3], leader=1)
    (old,) = ask_names(node, "t", version=0).topics
    assert old.partitions[0].error_code == 9
    assert (old.partitions[0].replica_nodes, old.partitions[0].isr_nodes) == ([1], [1])
    (new,) = ask_names(node, "t", version=5).topics
    assert new.partitions[0].error_code == 0
    assert new.partitions[0].replica_nodes == [1, 3, 9]
    assert new.partitions[0].offline_replicas == [3, 9]


def test_a_replica_in_a_lost_directory_is_offline():
    kept, lost = Uuid(bytes(15) + b"\xf0"), Uuid(bytes(15) + b"\xf1")
    node = StillNode().learn(
        broker(1, log_dirs=[kept]),
        broker(2, log_dirs=[kept]),
        *topic("t", {"replicas": [1, 2], "directories": [kept, lost]}),
    )
    (found,) = ask_names(node, "t").topics
    assert found.partitions[0].offline_replicas == [2]


# -- creation on demand --------------------------------------------------------------------------


def wish(*names):
    return by_name(*names, allow_auto_topic_creation=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_unknown_topic_is_unknown_until_the_client_asks_again(version):
    node = a_cluster(num_partitions="3")
    first = ask(node, wish("new", "events"), version)
    assert [(t.name, t.error_code) for t in first.topics] == [("new", 3), ("events", 0)]
    assert first.topics[0].partitions == []
    again = ask(node, wish("new", "events"), version)
    assert [(t.name, t.error_code) for t in again.topics] == [("new", 0), ("events", 0)]
    assert len(again.topics[0].partitions) == 3


def test_nobody_waits_for_the_controller():
    node = a_cluster()
    node.controller.held = True
    for _ in range(2):
        (found,) = ask(node, wish("new")).topics
        assert found.error_code == 3
    node.controller.release()
    (found,) = ask(node, wish("new")).topics
    assert found.error_code == 0


def test_a_topic_is_asked_of_the_controller_once_at_a_time():
    node = a_cluster()
    asked = []
    submit = node.controller.submit
    node.controller.submit = lambda *args, **kw: asked.append(args) or submit(*args, **kw)
    node.controller.held = True
    ask(node, wish("new"))
    ask(node, wish("new", "new", "other"))
    ask(node, wish("other"))
    assert len(asked) == 2
    node.controller.release()
    assert {"new", "other"} <= set(node.image.topics_by_name)


def test_a_topic_whose_creation_failed_is_asked_for_again():
    node = a_cluster()
    node.controller.error = ErrorCode.NOT_CONTROLLER
    (found,) = ask(node, wish("new")).topics
    assert found.error_code == 3
    node.controller.error = ErrorCode.NONE
    ask(node, wish("new"))
    assert "new" in node.image.topics_by_name


def test_so_many_topics_are_created_at_a_time(monkeypatch):
    monkeypatch.setattr(topic_creation, "IN_FLIGHT_MAX", 3)
    node = a_cluster()
    node.controller.held = True
    ask(node, wish("a", "b"))
    answer = ask(node, wish("c", "d"))
    assert [t.error_code for t in answer.topics] == [3, 3]
    node.controller.release()
    assert {"a", "b", "c"} <= set(node.image.topics_by_name)
    assert "d" not in node.image.topics_by_name
    node.controller.held = False
    ask(node, wish("d"))
    assert "d" in node.image.topics_by_name, "what is done makes room"


def test_the_offsets_topic_is_made_for_groups():
    node = StillNode().learn(broker(1))
    ask(node, by_name("__consumer_offsets", allow_auto_topic_creation=True))
    made = node.image.topics_by_name["__consumer_offsets"]
    assert len(made.partitions) == 50
    assert node.image.topic_configs("__consumer_offsets") == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }


@pytest.mark.parametrize(
    ("enabled", "allowed", "created"),
    [("true", True, True), ("true", False, False), ("false", True, False)],
)
def test_who_allows_creation(enabled, allowed, created):
    node = a_cluster(auto_create_topics_enable=enabled)
    (found,) = ask(node, by_name("new", allow_auto_topic_creation=allowed)).topics
    assert found.error_code == 3
    assert ("new" in node.image.topics_by_name) is created


def test_asking_by_id_creates_nothing():
    node = a_cluster()
    ask(node, by_id(UNKNOWN_ID))
    assert set(node.image.topics_by_name) == {"events", "__consumer_offsets"}


@pytest.mark.parametrize("name", ["a b", "", ".."])
def test_impossible_names_are_not_sent_to_the_controller(name):
    node = a_cluster()
    node.controller.error = ErrorCode.NOT_CONTROLLER
    (found,) = ask(node, by_name(name, allow_auto_topic_creation=True)).topics
    assert found.error_code == 17


def test_what_the_controller_refuses_is_unknown_and_logged_once(caplog):
    node = a_cluster().learn(*topic("a.b", {}))
    for _ in range(3):
        answer = ask(node, wish("a_b", "fine"))
        assert answer.topics[0].error_code == 3
    assert answer.topics[1].error_code == 0
    lines = [r.getMessage() for r in caplog.records if "automatic creation" in r.getMessage()]
    assert len(lines) == 1
    assert "a_b failed: INVALID_TOPIC_EXCEPTION" in lines[0]


def test_invalid_names_are_told_and_the_others_created():
    node = a_cluster()
    answer = ask(node, wish("a b", "new"))
    assert [(t.name, t.error_code) for t in answer.topics] == [("a b", 17), ("new", 3)]
    assert "new" in node.image.topics_by_name


def test_what_was_told_once_is_told_anew_when_a_broker_or_the_topic_changes():
    node = a_cluster()
    first = ask_names(node, "events").topics
    assert ask_names(node, "events").topics == first
    assert [p.offline_replicas for p in first[0].partitions] == [[3], []]
    node.learn(broker(2, fenced=True))
    assert [p.offline_replicas for p in ask_names(node, "events").topics[0].partitions] == [
        [2, 3],
        [2],
    ]
    node.learn(
        PartitionChangeRecord(topic_id=topic_id("events"), partition_id=1, leader=1, isr=[1])
    )
    assert ask_names(node, "events").topics[0].partitions[1].leader_id == 1
