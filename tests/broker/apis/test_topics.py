"""CreateTopics, DeleteTopics, CreatePartitions: every version, and errors by the dozen.

The error codes are those Apache Kafka 4.3 gave to the same requests.
"""

import pytest

from fencepost.broker.cluster import topic_creation
from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.wire.api.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from fencepost.wire.api.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from fencepost.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

from .harness import (
    StillNode,
    answer_of,
    ask,
    broker,
    register,
    send,
    served_versions,
    topic,
    topic_id,
)

register("create_topics", "delete_topics", "create_partitions")

CREATE = served_versions(CreateTopicsRequest)
DELETE = served_versions(DeleteTopicsRequest)
GROW = served_versions(CreatePartitionsRequest)
UNKNOWN_ID = Uuid(b"nobody has this!")


def a_node(**overrides: str) -> StillNode:
    config = BrokerConfig.load(None, {key.replace("_", "."): v for key, v in overrides.items()})
    return StillNode(config).learn(broker(1), broker(2), *topic("old", {}), *topic("a.b", {}))


def new(name="new", partitions=1, replicas=1, *, configs=(), assignments=()):
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs],
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in assignments
        ],
    )


def create(node, *topics, version=7, **options):
    return ask(node, CreateTopicsRequest(topics=list(topics), **options), version).topics


# -- CreateTopics --------------------------------------------------------------------------------


def test_kafka_4_3_versions_are_served():
    assert (range(2, 8), range(1, 7), range(4)) == (CREATE, DELETE, GROW)


@pytest.mark.parametrize("version", CREATE)
def test_a_topic_is_created(version):
    node = a_node()
    (made,) = create(node, new("new", 3, 2, configs=[("retention.ms", "5")]), version=version)
    assert (made.name, made.error_code, made.error_message) == ("new", 0, None)
    image = node.image.topics_by_name["new"]
    assert [len(p.replicas) for p in image.partitions] == [2, 2, 2]
    assert all(p.leader in p.replicas for p in image.partitions)
    assert node.image.topic_configs("new") == {"retention.ms": "5"}
    if version >= 5:
        assert (made.num_partitions, made.replication_factor) == (3, 2)
        configs = {config.name: config for config in made.configs}
        assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("5", 1)
        assert configs["segment.bytes"].config_source == 5
        assert len(configs) > 25
    if version >= 7:
        assert made.topic_id == image.topic_id != Uuid.ZERO


@pytest.mark.parametrize("version", CREATE)
def test_validation_alone_creates_nothing(version):
    node = a_node()
    (made,) = create(node, new(), version=version, validate_only=True)
    assert made.error_code == 0
    assert "new" not in node.image.topics_by_name


def test_minus_one_is_the_brokers_default():
    node = a_node(num_partitions="4", log_retention_ms="9")
    (made,) = create(node, new("new", -1, -1))
    assert (made.num_partitions, made.replication_factor) == (4, 1)
    configs = {config.name: config for config in made.configs}
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("9", 4)


def test_topics_that_set_the_same_are_told_the_same_configs_found_once(monkeypatch):
    looked_for = []
    find = topic_creation.topic_entries
    monkeypatch.setattr(
        topic_creation,
        "topic_entries",
        lambda config, image, own: looked_for.append(dict(own)) or find(config, image, own),
    )
    asked = [new(f"plain-{number}") for number in range(20)]
    asked += [new(f"own-{number}", configs=[("retention.ms", "5")]) for number in range(20)]
    made = create(a_node(), *asked)
    assert looked_for == [{}, {"retention.ms": "5"}]
    for topic_made in made:
        configs = {config.name: config for config in topic_made.configs}
        is_own = topic_made.name.startswith("own")
        assert configs["retention.ms"].config_source == (1 if is_own else 5)
        assert len(configs) > 25


def test_replicas_are_placed_as_told():
    node = a_node()
    create(node, new("new", -1, -1, assignments=[(1, [2, 1]), (0, [1, 2])]))
    image = node.image.topics_by_name["new"]
    assert [p.replicas for p in image.partitions] == [(1, 2), (2, 1)]
    assert [p.leader for p in image.partitions] == [1, 2]


REFUSED = [
    (new("", 1, 1), 17),
    (new(".", 1, 1), 17),
    (new("..", 1, 1), 17),
    (new("a b", 1, 1), 17),
    (new("ä", 1, 1), 17),
    (new("x" * 250, 1, 1), 17),
    (new("a_b", 1, 1), 17),
    (new("__cluster_metadata", 1, 1), 42),
    (new("old", 1, 1), 36),
    (new("new", 0, 1), 37),
    (new("new", -2, 1), 37),
    (new("new", 1, 0), 38),
    (new("new", 1, -2), 38),
    (new("new", 1, 3), 38),
    (new("new", 1, -1, assignments=[(0, [1])]), 42),
    (new("new", -1, 1, assignments=[(0, [1])]), 42),
    (new("new", -1, -1, assignments=[(1, [1])]), 39),
    (new("new", -1, -1, assignments=[(0, [1]), (0, [1])]), 39),
    (new("new", -1, -1, assignments=[(0, [9])]), 39),
    (new("new", -1, -1, assignments=[(0, [1, 1])]), 39),
    (new("new", -1, -1, assignments=[(0, [])]), 39),
    (new("new", -1, -1, assignments=[(0, [1]), (1, [1, 2])]), 39),
    (new("new", configs=[("no.such", "1")]), 40),
    (new("new", configs=[("retention.ms", "x")]), 40),
    (new("new", configs=[("retention.ms", "-2")]), 40),
    (new("new", configs=[("cleanup.policy", "shred")]), 40),
    (new("new", configs=[("retention.ms", None)]), 40),
    (new("new", configs=[("segment.bytes", "1")]), 40),
]


@pytest.mark.parametrize(("asked", "code"), REFUSED)
@pytest.mark.parametrize("validate_only", [False, True])
def test_what_is_refused_is_refused_alone(asked, code, validate_only):
    node = a_node()
    refused, fine = create(node, asked, new("fine"), validate_only=validate_only)
    assert (refused.name, refused.error_code) == (asked.name, code)
    assert refused.error_message
    assert refused.topic_id == Uuid.ZERO
    assert fine.error_code == 0
    assert ("fine" in node.image.topics_by_name) is not validate_only
    assert "new" not in node.image.topics_by_name


def test_a_name_given_twice_is_refused_once():
    node = a_node()
    answers = create(node, new("twice"), new("once"), new("twice", 2))
    assert [(t.name, t.error_code) for t in answers] == [("once", 0), ("twice", 42)]
    assert "twice" not in node.image.topics_by_name


def test_no_topics_no_answers():
    assert create(a_node()) == []


@pytest.mark.parametrize("version", CREATE)
def test_without_a_controller_nothing_is_created(version):
    node = a_node()
    node.controller.error = ErrorCode.NOT_CONTROLLER
    answers = create(node, new("one"), new("two"), new("one"), version=version)
    assert [(t.name, t.error_code) for t in answers] == [("one", 41), ("two", 41)]


def test_the_answer_waits_for_the_commit():
    node = a_node()
    node.controller.held = True
    context = send(node, CreateTopicsRequest(topics=[new()]), 7)
    assert not context.answered
    assert "new" not in node.image.topics_by_name
    node.controller.release()
    assert answer_of(context).topics[0].error_code == 0
    assert "new" in node.image.topics_by_name


# -- DeleteTopics --------------------------------------------------------------------------------


def delete(node, *names, ids=(), version=6):
    request = DeleteTopicsRequest(timeout_ms=60_000)
    if version >= 6:
        request.topics = [DeleteTopicState(name=name) for name in names]
        request.topics += [DeleteTopicState(name=None, topic_id=id_) for id_ in ids]
    else:
        request.topic_names = list(names)
    return ask(node, request, version).responses


@pytest.mark.parametrize("version", DELETE)
def test_topics_are_deleted_by_name(version):
    node = a_node()
    answers = delete(node, "old", "absent", version=version)
    assert {(t.name, t.error_code) for t in answers} == {("old", 0), ("absent", 3)}
    assert "old" not in node.image.topics_by_name
    if version >= 6:
        assert answers[0].topic_id == topic_id("old")


def test_topics_are_deleted_by_id():
    node = a_node()
    answers = delete(node, ids=[topic_id("old"), UNKNOWN_ID])
    assert [(t.name, t.topic_id, t.error_code) for t in answers] == [
        ("old", topic_id("old"), 0),
        (None, UNKNOWN_ID, 100),
    ]
    assert "old" not in node.image.topics_by_name


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ([DeleteTopicState(name=None)], 42),
        ([DeleteTopicState(name="old", topic_id=topic_id("old"))], 42),
        ([DeleteTopicState(name="old"), DeleteTopicState(name="old")], 42),
        ([DeleteTopicState(name="absent"), DeleteTopicState(name="absent")], 42),
        ([DeleteTopicState(topic_id=UNKNOWN_ID), DeleteTopicState(topic_id=UNKNOWN_ID)], 42),
        ([DeleteTopicState(name="old"), DeleteTopicState(topic_id=topic_id("old"))], 42),
        ([DeleteTopicState(name="__cluster_metadata")], 3),
        ([DeleteTopicState(name="a b")], 3),
    ],
)
def test_deletions_that_are_refused(asked, code):
    node = a_node()
    answers = ask(node, DeleteTopicsRequest(topics=asked, timeout_ms=60_000)).responses
    assert {t.error_code for t in answers} == {code}
    assert "old" in node.image.topics_by_name


def test_a_deleted_topic_can_be_created_again_with_another_id():
    node = a_node()
    delete(node, "old")
    (made,) = create(node, new("old"))
    assert made.error_code == 0
    assert made.topic_id != topic_id("old")


@pytest.mark.parametrize("version", DELETE)
def test_deletion_can_be_switched_off(version):
    node = a_node(delete_topic_enable="false")
    (answer,) = delete(node, "old", version=version)
    assert answer.error_code == (73 if version >= 3 else 42)
    assert "old" in node.image.topics_by_name


@pytest.mark.parametrize("version", DELETE)
def test_without_a_controller_nothing_is_deleted(version):
    node = a_node()
    node.controller.error = ErrorCode.NOT_CONTROLLER
    ids = [UNKNOWN_ID] if version >= 6 else []
    answers = delete(node, "old", ids=ids, version=version)
    assert {t.error_code for t in answers} == {41}
    assert len(answers) == 1 + len(ids)


# -- CreatePartitions ----------------------------------------------------------------------------


def grow(node, *topics, version=3, **options):
    asked = [
        CreatePartitionsTopic(
            name=name,
            count=count,
            assignments=None
            if placed is None
            else [CreatePartitionsAssignment(broker_ids=list(ids)) for ids in placed],
        )
        for name, count, placed in topics
    ]
    request = CreatePartitionsRequest(topics=asked, **{"timeout_ms": 60_000, **options})
    return ask(node, request, version).results


@pytest.mark.parametrize("version", GROW)
def test_partitions_are_added(version):
    node = a_node()
    (grown,) = grow(node, ("old", 3, None), version=version)
    assert (grown.name, grown.error_code, grown.error_message) == ("old", 0, None)
    assert len(node.image.topics_by_name["old"].partitions) == 3


@pytest.mark.parametrize("version", GROW)
def test_validation_alone_adds_nothing(version):
    node = a_node()
    (grown,) = grow(node, ("old", 3, None), version=version, validate_only=True)
    assert grown.error_code == 0
    assert len(node.image.topics_by_name["old"].partitions) == 1


def test_new_partitions_are_placed_as_told():
    node = a_node()
    grow(node, ("old", 3, [[2], [1]]))
    assert [p.replicas for p in node.image.topics_by_name["old"].partitions] == [(1,), (2,), (1,)]


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (("absent", 3, None), 3),
        (("old", 1, None), 37),
        (("old", 0, None), 37),
        (("old", -1, None), 37),
        (("old", 3, [[1]]), 39),
        (("old", 2, []), 39),
        (("old", 2, [[7]]), 39),
        (("old", 2, [[1, 1]]), 39),
        (("old", 2, [[]]), 39),
    ],
)
def test_growth_that_is_refused_is_refused_alone(asked, code):
    node = a_node()
    refused, fine = grow(node, asked, ("a.b", 2, None))
    assert (refused.name, refused.error_code) == (asked[0], code)
    assert fine.error_code == 0
    assert len(node.image.topics_by_name["old"].partitions) == 1


def test_a_topic_that_is_to_grow_twice_does_not():
    node = a_node()
    answers = grow(node, ("old", 2, None), ("old", 3, None))
    assert [(t.name, t.error_code) for t in answers] == [("old", 42)]
    assert len(node.image.topics_by_name["old"].partitions) == 1


@pytest.mark.parametrize("version", GROW)
def test_without_a_controller_nothing_grows(version):
    node = a_node()
    node.controller.error = ErrorCode.NOT_CONTROLLER
    (answer,) = grow(node, ("old", 2, None), version=version)
    assert (answer.name, answer.error_code) == ("old", 41)


# -- How long it may take ------------------------------------------------------------------------

LISTENERS = pytest.mark.parametrize("listener", ["PLAINTEXT", "CONTROLLER"])


def timed(timeout_ms):
    return [
        CreateTopicsRequest(topics=[new()], timeout_ms=timeout_ms),
        DeleteTopicsRequest(topics=[DeleteTopicState(name="old")], timeout_ms=timeout_ms),
        CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name="old", count=3, assignments=None)],
            timeout_ms=timeout_ms,
        ),
    ]


def codes(answer):
    for items in ("topics", "responses", "results"):
        if hasattr(answer, items):
            return [(item.name, item.error_code) for item in getattr(answer, items)]
    raise AssertionError(answer)


@LISTENERS
@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_without_time_nothing_happens(listener, timeout_ms):
    """Apache Kafka's controllers look at the time before they look at the request."""
    node = a_node()
    before = node.image
    answers = [ask(node, request, listener=listener) for request in timed(timeout_ms)]
    assert [codes(answer) for answer in answers] == [[("new", 7)], [("old", 7)], [("old", 7)]]
    assert node.image is before


@LISTENERS
def test_with_a_little_time_it_does(listener):
    answers = [ask(a_node(), request, listener=listener) for request in timed(1)]
    assert [codes(answer) for answer in answers] == [[("new", 0)], [("old", 0)], [("old", 0)]]


def test_a_broker_waits_as_long_as_the_client_and_not_longer_than_a_minute():
    node = a_node()
    node.controller.held = True
    waiting = [send(node, timed(ms)[0], 7) for ms in (50, 2_000, 100_000)]
    for passed_ms, answered in ((49, 0), (1, 1), (1_949, 1), (1, 2), (57_999, 2), (1, 3)):
        node.timers.advance(passed_ms)
        assert [context.answered for context in waiting] == [n < answered for n in range(3)]
    assert [codes(answer_of(context)) for context in waiting] == [[("new", 7)]] * 3
    node.controller.release()
    assert "new" in node.image.topics_by_name, "the first was under way, and goes on"
