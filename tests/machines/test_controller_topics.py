"""Topics, partitions, placement and ISRs: every rule with its error code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, strategies as st

from fencepost.log.config import validate_topic_configs
from fencepost.machines.controller import Controller, Refused, config as limits, decision, topics
from fencepost.machines.controller.configs import SET
from fencepost.machines.controller.partition_change import Election, Target, propose_change
from fencepost.machines.controller.placement import place_replicas
from fencepost.machines.image import (
    RESOURCE_BROKER,
    RESOURCE_TOPIC,
    BrokerImage,
    ClusterImage,
    PartitionImage,
)
from fencepost.wire.api.alter_partition import (
    AlterPartitionRequest,
    PartitionDataRequest,
    TopicDataRequest,
)
from fencepost.wire.api.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from fencepost.wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from fencepost.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.metadata import (
    BeginTransactionRecord,
    EndTransactionRecord,
    PartitionChangeRecord,
    TopicRecord,
)
from fencepost.wire.types import Uuid

from .controller_fixtures import Bench, check_invariants, cluster, topic, uuid

# -- CreateTopics ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (topic(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic(".."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("ä"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("x" * 249), ErrorCode.NONE),
        (topic("co_l.d"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("co.l.d"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (topic("there"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (topic("__cluster_metadata"), ErrorCode.INVALID_REQUEST),
        (topic("__consumer_offsets"), ErrorCode.NONE),
        (topic("t", 0), ErrorCode.INVALID_PARTITIONS),
        (topic("t", -2), ErrorCode.INVALID_PARTITIONS),
        (topic("t", 0, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic("t", 1, -2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic("t", 1, 5), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic("t", 1, 3), ErrorCode.NONE),
        (topic("t", 10_001), ErrorCode.POLICY_VIOLATION),
        (topic("t", 1, -1, [(0, [1])]), ErrorCode.INVALID_REQUEST),
        (topic("t", -1, 1, [(0, [1])]), ErrorCode.INVALID_REQUEST),
        (topic("t", assignments=[(1, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", assignments=[(0, [1]), (0, [2])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", assignments=[(0, [9])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", assignments=[(0, [1, 1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", assignments=[(0, [])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", assignments=[(0, [1, 2]), (1, [3])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", assignments=[(0, [4])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", assignments=[(0, [4, 1])]), ErrorCode.NONE),
        (topic("t", assignments=[(1, [1]), (0, [2])]), ErrorCode.NONE),
        (topic("t", configs={"nope": "1"}), ErrorCode.INVALID_CONFIG),
        (topic("t", configs={"retention.ms": "x"}), ErrorCode.INVALID_CONFIG),
        (topic("t", configs={"retention.ms": "-2"}), ErrorCode.INVALID_CONFIG),
        (topic("t", configs={"retention.ms": None}), ErrorCode.INVALID_CONFIG),
        (topic("t", configs={"cleanup.policy": "foo"}), ErrorCode.INVALID_CONFIG),
        (topic("t", configs={"min.compaction.lag.ms": str(2**62)}), ErrorCode.NONE),
        (
            topic("t", configs={"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"}),
            ErrorCode.INVALID_CONFIG,
        ),
        (topic("t", configs={"retention.ms": "1"}), ErrorCode.NONE),
    ],
)
@pytest.mark.parametrize("validate_only", [False, True])
def test_new_topics_are_checked(asked: Any, error: ErrorCode, validate_only: bool) -> None:
    bench = cluster()
    bench.register(4)  # and stays fenced
    bench.create("there")
    bench.create("co.l.d")
    before = len(bench.log)
    request = CreateTopicsRequest(topics=[asked], validate_only=validate_only)
    [result] = bench.do(bench.controller.decide_create_topics(request, bench.ids)).topics
    assert result.error_code == error
    assert (result.error_message is None) is (error is ErrorCode.NONE)
    is_made = error is ErrorCode.NONE and not validate_only
    assert (len(bench.log) > before) is is_made
    if is_made:
        made = bench.topic(asked.name)
        assert result.topic_id == made.topic_id
        assert result.num_partitions == len(made.partitions)
        assert result.replication_factor == len(made.partitions[0].replicas)
        wanted = {c.name: c.value for c in asked.configs}
        assert bench.image.topic_configs(asked.name) == wanted
    check_invariants(bench.image)


def test_topics_of_one_request_know_of_each_other() -> None:
    bench = cluster()
    names = ["a", "b.c", "a", "b_c", "d"]
    request = CreateTopicsRequest(topics=[topic(name) for name in names])
    reply = bench.do(bench.controller.decide_create_topics(request, bench.ids))
    assert [(r.name, r.error_code) for r in reply.topics] == [
        ("b.c", 0),
        ("b_c", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("d", 0),
        ("a", ErrorCode.INVALID_REQUEST),
    ]
    assert sorted(bench.image.topics_by_name) == ["b.c", "d"]


def test_a_request_makes_a_limited_number_of_partitions() -> None:
    bench = cluster()
    most = limits.MAX_PARTITIONS_PER_REQUEST
    request = CreateTopicsRequest(topics=[topic("a", most - 1), topic("b"), topic("c")])
    reply = bench.do(bench.controller.decide_create_topics(request, bench.ids))
    assert {r.error_code for r in reply.topics} == {ErrorCode.POLICY_VIOLATION}
    request = CreateTopicsRequest(topics=[topic("a", most + 1), topic("b"), topic("b")])
    reply = bench.do(bench.controller.decide_create_topics(request, bench.ids))
    too_much = ErrorCode.POLICY_VIOLATION
    assert [(r.name, r.error_code) for r in reply.topics] == [(n, too_much) for n in "abb"]
    request = CreateTopicsRequest(topics=[topic("a", 20), topic("b")])
    reply = bench.do(bench.controller.decide_create_topics(request, bench.ids))
    assert {r.error_code for r in reply.topics} == {0}


TOO_MANY = "Unable to perform excessively large batch operation."


@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize(
    ("topics", "is_too_much"),
    [
        ([topic("a", 9_999)], False),
        ([topic("a", 10_000)], True),
        ([topic("a", 9_998, configs={"retention.ms": "5"})], False),
        ([topic("a", 9_999, configs={"retention.ms": "5"})], True),
        ([topic("a", 5_000), topic("b", 4_998)], False),
        ([topic("a", 9_990), topic("b c", 1), topic("d", 0), topic("e", 8)], False),
        ([topic("a", 9_990), topic("b c", 1), topic("d", 0), topic("e", 9)], True),
        ([topic("a b", 10_000)], False),
        ([topic("a b", 5_000), topic("b", 5_000)], False),
    ],
)
def test_a_request_comes_to_a_limited_number_of_records(
    topics: list[CreatableTopic], is_too_much: bool, validate_only: bool
) -> None:
    """The topic's own and its configs' are counted, and those of what is refused are not."""
    bench = cluster()
    request = CreateTopicsRequest(topics=topics, validate_only=validate_only)
    reply = bench.do(bench.controller.decide_create_topics(request, bench.ids))
    told = [(one.name, one.error_code, one.error_message) for one in reply.topics]
    whole = [(one.name, ErrorCode.POLICY_VIOLATION, TOO_MANY) for one in topics]
    assert (told == whole) is is_too_much
    assert is_too_much or ErrorCode.POLICY_VIOLATION not in {code for _, code, _ in told}
    assert not (is_too_much or validate_only) or not bench.image.topics_by_name


def test_configs_that_many_topics_share_are_checked_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checked: list[dict[str, object]] = []

    def check(props: Mapping[str, object], defaults: Mapping[str, Any] | None = None) -> None:
        checked.append(dict(props))
        validate_topic_configs(props, defaults)

    monkeypatch.setattr(topics, "validate_topic_configs", check)
    bench = cluster()
    own: dict[str, str | None] = {"retention.ms": "5"}
    wrong: dict[str, str | None] = {"retention.ms": "-2"}
    asked = [
        topic(f"{kind}-{number}", 1, -1, None, configs)
        for kind, configs in (("plain", None), ("own", own), ("wrong", wrong))
        for number in range(20)
    ]
    request = CreateTopicsRequest(topics=asked)
    reply = bench.do(bench.controller.decide_create_topics(request, bench.ids))
    errors = {r.name.split("-")[0]: ErrorCode(r.error_code) for r in reply.topics}
    assert errors == {
        "plain": ErrorCode.NONE,
        "own": ErrorCode.NONE,
        "wrong": ErrorCode.INVALID_CONFIG,
    }
    assert checked.count({}) == checked.count({"retention.ms": "5"}) == 1
    assert all(bench.image.topic_configs(f"own-{number}") == own for number in range(20))


def test_defaults_are_the_clusters() -> None:
    bench = cluster(num_partitions=4, default_replication_factor=2)
    result = bench.create("t")
    assert (result.num_partitions, result.replication_factor) == (4, 2)


def test_a_new_partition_is_led_by_its_first_active_replica() -> None:
    bench = cluster()
    bench.fence(2)
    bench.create("t", assignments=[(0, [2, 3, 1])])
    born = bench.partition("t")
    assert (born.leader, born.isr, born.replicas) == (3, (3, 1), (2, 3, 1))
    assert (born.leader_epoch, born.partition_epoch) == (0, 0)
    assert born.directories == (uuid(502), uuid(503), uuid(501))


def test_nothing_is_placed_where_no_replica_may_lead() -> None:
    bench = Bench()
    assert bench.create("t").error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    bench.brokers(1)
    bench.fence(1)
    assert bench.create("t").error_code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_names_collide_with_what_there_is_now() -> None:
    """As topics come and go, one by one, many at once, and in a transaction of a predecessor."""
    bench = cluster()
    for fail_over in (False, True):
        assert bench.create("a.b").error_code == 0
        if fail_over:
            bench.fail_over()
        assert bench.create("a_b").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert bench.create("a.b").error_code == ErrorCode.TOPIC_ALREADY_EXISTS
        assert delete(bench, DeleteTopicState(name="a.b"))[0].error_code == 0
        assert bench.create("a_b").error_code == 0
        assert bench.create("a.b").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert delete(bench, DeleteTopicState(name="a_b"))[0].error_code == 0
    held = [BeginTransactionRecord(), TopicRecord(name="c.d", topic_id=uuid(77))]
    bench.controller.apply_all(held)
    assert bench.create("c_d", validate_only=True).error_code == 0, "it is not there yet"
    bench.controller.apply(EndTransactionRecord())
    assert bench.create("c_d").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


# -- placement ---------------------------------------------------------------------------------


def broker(broker_id: int, rack: str | None = None, fenced: bool = False) -> BrokerImage:
    return BrokerImage(broker_id, 1, Uuid.ZERO, (), (), rack, fenced, False, ())


def test_replicas_are_striped_as_documented() -> None:
    brokers = [broker(n, "A" if n < 3 else "B") for n in range(6)]
    placed = place_replicas(brokers, 8, 3, 0)
    assert placed[:4] == [[0, 3, 1], [3, 0, 4], [1, 4, 2], [4, 1, 5]]
    assert placed[4:] == [[2, 5, 0], [5, 2, 3], [0, 4, 2], [3, 1, 5]]
    assert place_replicas([broker(n) for n in (7, 8, 9)], 4, 2, 1) == [
        [8, 9],
        [9, 7],
        [7, 9],
        [8, 7],
    ]


@given(
    st.lists(
        st.tuples(st.sampled_from([None, "A", "B", "C"]), st.booleans()), min_size=1, max_size=12
    ),
    st.integers(1, 12),
    st.integers(1, 40),
    st.integers(0, 10_000),
)
def test_placement_keeps_its_rules(
    kinds: list[tuple[str | None, bool]], factor: int, partitions: int, start: int
) -> None:
    brokers = [broker(n, rack, fenced) for n, (rack, fenced) in enumerate(kinds)]
    active = [b.broker_id for b in brokers if b.is_active]
    if not active or factor > len(brokers):
        with pytest.raises(Refused) as refused:
            place_replicas(brokers, partitions, factor, start)
        assert refused.value.error is ErrorCode.INVALID_REPLICATION_FACTOR
        return
    placed = place_replicas(brokers, partitions, factor, start)
    assert len(placed) == partitions
    racks = {b.rack for b in brokers}
    for replicas in placed:
        assert len(set(replicas)) == len(replicas) == factor
        assert replicas[0] in active
        used = {kinds[id_][0] for id_ in replicas}
        assert len(used) == min(factor, len(racks)), "as many racks as there can be"


def test_leaders_are_spread_evenly() -> None:
    brokers = [broker(n, "ABC"[n % 3]) for n in range(9)]
    placed = place_replicas(brokers, 90, 3, 0)
    assert set(Counter(replicas[0] for replicas in placed).values()) == {10}
    assert set(Counter(id_ for replicas in placed for id_ in replicas).values()) == {30}
    placed = place_replicas(brokers, 90, 3, 5)
    assert set(Counter(replicas[0] for replicas in placed).values()) == {10}


@pytest.mark.parametrize("start", range(40))
def test_replicas_are_spread_evenly_wherever_placement_starts(start: int) -> None:
    brokers = [broker(n, rack) for n, rack in enumerate("ABBACC")]
    placed = place_replicas(brokers, 18, 3, start)
    assert Counter(id_ for replicas in placed for id_ in replicas) == dict.fromkeys(range(6), 9)
    assert Counter(replicas[0] for replicas in placed) == dict.fromkeys(range(6), 3)


def spread(placed: list[list[int]], ids: list[int]) -> int:
    """By how many replicas the brokers differ at most."""
    counts = Counter(id_ for replicas in placed for id_ in replicas)
    return max(counts[id_] for id_ in ids) - min(counts[id_] for id_ in ids)


@given(
    st.integers(1, 5),
    st.integers(1, 5),
    st.integers(1, 5),
    st.integers(1, 60),
    st.integers(0, 10_000),
)
def test_brokers_of_equal_racks_differ_by_one_replica_at_most(
    racks: int, size: int, factor: int, partitions: int, start: int
) -> None:
    brokers = [broker(n, str(n % racks)) for n in range(racks * size)]
    placed = place_replicas(brokers, partitions, min(factor, len(brokers)), start)
    assert spread(placed, [b.broker_id for b in brokers]) <= 1


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=4),
    st.integers(1, 5),
    st.integers(1, 60),
    st.integers(0, 10_000),
)
def test_brokers_of_one_rack_differ_by_one_replica_at_most(
    sizes: list[int], factor: int, partitions: int, start: int
) -> None:
    """Also where racks have different numbers of brokers."""
    racks = [rack for rack, size in enumerate(sizes) for _ in range(size)]
    brokers = [broker(n, str(rack)) for n, rack in enumerate(racks)]
    placed = place_replicas(brokers, partitions, min(factor, len(brokers)), start)
    for rack in range(len(sizes)):
        assert spread(placed, [n for n, of in enumerate(racks) if of == rack]) <= 1


def test_levelling_gives_a_fenced_broker_no_replica_of_an_active_one() -> None:
    brokers = [broker(0), broker(1), broker(2, fenced=True)]
    assert place_replicas(brokers, 2, 2, 3) == [[1, 0], [0, 1]]


def test_levelling_takes_no_rack_from_a_partition() -> None:
    brokers = [broker(n, str(n % 4)) for n in range(8)]
    placed = place_replicas(brokers, 5, 2, 30)
    assert all(first % 4 != second % 4 for first, second in placed)


def test_levelling_gives_each_leader_different_followers() -> None:
    placed = place_replicas([broker(n) for n in range(4)], 6, 2, 7)
    assert len(set(map(tuple, placed))) == 6


def test_levelling_goes_by_way_of_a_third_broker() -> None:
    brokers = [broker(n, str(n % 4)) for n in range(12)]
    assert spread(place_replicas(brokers, 6, 6, 23), list(range(12))) <= 1


def test_racks_of_different_sizes_keep_their_shares() -> None:
    brokers = [broker(n, rack) for n, rack in enumerate("CBAC")]
    assert place_replicas(brokers, 2, 2, 45) == [[2, 0], [1, 2]]


@pytest.mark.parametrize(("racks", "heirs"), [(1, 29), (2, 15), (3, 20), (5, 24), (30, 29)])
def test_what_a_broker_leads_is_inherited_by_all_in_other_racks(racks: int, heirs: int) -> None:
    """Not by the same one or two, who would have to bear all of its load."""
    brokers = [broker(n, f"r{n % racks:02}" if racks > 1 else None) for n in range(30)]
    placed = place_replicas(brokers, 30 * 60, 3, 0)
    for leader in range(30):
        inherited = Counter(replicas[1] for replicas in placed if replicas[0] == leader)
        assert len(inherited) == heirs
        assert max(inherited.values()) <= 60 // heirs + 2


def test_topics_of_one_request_begin_at_different_brokers() -> None:
    """Fifty topics of one partition must not all be led by one broker."""
    bench = cluster()
    request = CreateTopicsRequest(
        topics=[topic(f"t{n}", 1, 2) for n in range(9)],
    )
    bench.do(bench.controller.decide_create_topics(request, bench.ids, 0))
    leaders = Counter(bench.topic(f"t{n}").partitions[0].leader for n in range(9))
    assert set(leaders.values()) == {9 // len(bench.image.brokers)}


# -- DeleteTopics and CreatePartitions ---------------------------------------------------------


def delete(bench: Bench, *topics: DeleteTopicState, names: list[str] | None = None) -> Any:
    request = DeleteTopicsRequest(topics=list(topics), topic_names=names or [])
    return bench.do(bench.controller.decide_delete_topics(request)).responses


def test_topics_are_deleted_by_name_or_id() -> None:
    bench = cluster()
    for name in ("a", "b", "c", "__consumer_offsets"):
        bench.create(name)
    b_id = bench.topic("b").topic_id
    results = delete(bench, DeleteTopicState(name="a"), DeleteTopicState(name=None, topic_id=b_id))
    assert [(r.name, r.topic_id, r.error_code) for r in results][1] == ("b", b_id, 0)
    assert [r.error_code for r in delete(bench, names=["c", "__consumer_offsets"])] == [0, 0]
    assert len(bench.image.topics_by_name) == 0


def test_a_request_deletes_a_limited_number_of_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = cluster()
    for name in ("a", "b", "c"):
        bench.create(name)
    monkeypatch.setattr(decision, "MAX_RECORDS", 2)
    results = delete(bench, names=["no-such-topic", "a", "b", "c"])
    assert {one.name: one.error_code for one in results} == {
        "no-such-topic": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "a": 0,
        "b": 0,
        "c": ErrorCode.UNKNOWN_SERVER_ERROR,
    }
    assert list(bench.image.topics_by_name) == ["c"]


def test_deletions_are_checked() -> None:
    bench = cluster()
    bench.create("a")
    a_id = bench.topic("a").topic_id
    errors = {
        "unknown name": [DeleteTopicState(name="zz")],
        "metadata": [DeleteTopicState(name="__cluster_metadata")],
        "unknown id": [DeleteTopicState(name=None, topic_id=uuid(77))],
        "neither": [DeleteTopicState(name=None)],
        "both": [DeleteTopicState(name="a", topic_id=a_id)],
        "name twice": [DeleteTopicState(name="a"), DeleteTopicState(name="a")],
        "id twice": [DeleteTopicState(name=None, topic_id=a_id)] * 2,
        "name and id": [
            DeleteTopicState(name="a"),
            DeleteTopicState(name=None, topic_id=a_id),
        ],
    }
    found = {case: [r.error_code for r in delete(bench, *asked)] for case, asked in errors.items()}
    invalid = int(ErrorCode.INVALID_REQUEST)
    assert found == {
        "unknown name": [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        "metadata": [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        "unknown id": [ErrorCode.UNKNOWN_TOPIC_ID],
        "neither": [invalid],
        "both": [invalid],
        "name twice": [invalid],
        "id twice": [invalid],
        "name and id": [invalid],
    }
    assert "a" in bench.image.topics_by_name


def test_a_topic_that_is_meant_by_name_and_by_id_is_answered_once() -> None:
    bench = cluster()
    bench.create("t")
    id_ = bench.topic("t").topic_id
    by_name, by_id = DeleteTopicState(name="t"), DeleteTopicState(name=None, topic_id=id_)

    def answers(*asked: DeleteTopicState) -> list[tuple[str | None, Uuid, int]]:
        return [(r.name, r.topic_id, r.error_code) for r in delete(bench, *asked)]

    assert answers(by_name, by_id) == [("t", id_, ErrorCode.INVALID_REQUEST)]
    assert sorted(answers(by_id, by_name, by_id), key=repr) == [
        ("t", id_, ErrorCode.INVALID_REQUEST),
        (None, id_, ErrorCode.INVALID_REQUEST),
    ]
    assert "t" in bench.image.topics_by_name


def more(name: str, total: int, assignments: list[list[int]] | None = None) -> Any:
    return CreatePartitionsTopic(
        name=name,
        count=total,
        assignments=None
        if assignments is None
        else [CreatePartitionsAssignment(broker_ids=ids) for ids in assignments],
    )


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (more("zz", 2), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (more("t", 2), ErrorCode.INVALID_PARTITIONS),
        (more("t", 1), ErrorCode.INVALID_PARTITIONS),
        (more("t", -1), ErrorCode.INVALID_PARTITIONS),
        (more("t", 4, [[1, 2]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (more("t", 3, []), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (more("t", 3, [[1, 9]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (more("t", 3, [[1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (more("t", 3, [[1, 1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (more("t", 10_003), ErrorCode.POLICY_VIOLATION),
        (more("t", 3, [[3, 2]]), ErrorCode.NONE),
        (more("t", 5), ErrorCode.NONE),
    ],
)
@pytest.mark.parametrize("validate_only", [False, True])
def test_more_partitions_are_checked(asked: Any, error: ErrorCode, validate_only: bool) -> None:
    bench = cluster()
    bench.create("t", 2, 2)
    request = CreatePartitionsRequest(topics=[asked], validate_only=validate_only)
    [result] = bench.do(bench.controller.decide_create_partitions(request)).results
    assert result.error_code == error
    grown = error is ErrorCode.NONE and not validate_only
    assert len(bench.topic("t").partitions) == (asked.count if grown else 2)
    if grown and asked.assignments:
        assert bench.partition("t", 2).replicas == (3, 2)
    check_invariants(bench.image)


def test_a_topic_grows_once_per_request() -> None:
    bench = cluster()
    bench.create("t")
    bench.create("u")
    request = CreatePartitionsRequest(topics=[more("t", 3), more("u", 3), more("t", 4)])
    results = bench.do(bench.controller.decide_create_partitions(request)).results
    assert [(r.name, r.error_code) for r in results] == [
        ("t", ErrorCode.INVALID_REQUEST),
        ("u", 0),
    ]
    assert len(bench.topic("t").partitions) == 1


def test_a_request_that_adds_too_many_partitions_is_refused_as_a_whole() -> None:
    bench = cluster()
    bench.create("t")
    bench.create("u")
    most = limits.MAX_PARTITIONS_PER_REQUEST
    names = ["t", "u", "zz", "v", "v"]
    counts = [most, 3, 20_000, 20_000, 20_000]  # 9,999 and 2 more: what is not there adds nothing
    topics = [more(name, count, []) for name, count in zip(names, counts, strict=True)]
    request = CreatePartitionsRequest(topics=topics)
    results = bench.do(bench.controller.decide_create_partitions(request)).results
    too_much = ErrorCode.POLICY_VIOLATION
    assert [(r.name, r.error_code) for r in results] == [(name, too_much) for name in names]
    assert {r.error_message for r in results} == {
        "Excessively large number of additional partitions per request."
    }
    topics[1].count = 2
    results = bench.do(bench.controller.decide_create_partitions(request)).results
    assert too_much not in {r.error_code for r in results}
    assert len(bench.topic("t").partitions) == len(bench.topic("u").partitions) == 1


def test_a_request_adds_partitions_to_a_limited_number_of_topics() -> None:
    bench = cluster()
    bench.create("t")
    topics = [more("t", 2), *(more(f"no-{number}", 2) for number in range(10_000))]
    request = CreatePartitionsRequest(topics=topics)
    results = bench.do(bench.controller.decide_create_partitions(request)).results
    assert {(r.error_code, r.error_message) for r in results} == {
        (ErrorCode.POLICY_VIOLATION, TOO_MANY)
    }
    assert len(results) == 10_001 and len(bench.topic("t").partitions) == 1
    request.topics.pop()
    results = bench.do(bench.controller.decide_create_partitions(request)).results
    assert {r.error_code for r in results} == {0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


# -- AlterPartition ----------------------------------------------------------------------------


def three() -> Bench:
    """A topic on three brokers, led by 1, with 3 out of sync; broker 4 has none of it."""
    bench = cluster(1, 2, 3, 4)
    bench.create("t", assignments=[(0, [1, 2, 3])])
    bench.fence(3)
    bench.heartbeat(3)
    assert bench.partition("t").isr == (1, 2)
    return bench


ISR = [(1, -1), (2, -1), (3, -1)]


@pytest.mark.parametrize(
    ("isr", "changes", "error"),
    [
        (ISR, {"topic_id": uuid(9)}, ErrorCode.UNKNOWN_TOPIC_ID),
        (ISR, {"partition_index": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ISR, {"partition_index": -1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ISR, {"leader_epoch": 1}, ErrorCode.NOT_CONTROLLER),
        (ISR, {"partition_epoch": 2}, ErrorCode.NOT_CONTROLLER),
        (ISR, {"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        (ISR, {"sender": 2}, ErrorCode.INVALID_REQUEST),
        (ISR, {"partition_epoch": 0}, ErrorCode.INVALID_UPDATE_VERSION),
        ([], {}, ErrorCode.INVALID_REQUEST),
        ([(1, -1), (1, -1)], {}, ErrorCode.INVALID_REQUEST),
        ([(1, -1), (4, -1)], {}, ErrorCode.INVALID_REQUEST),
        ([(2, -1), (3, -1)], {}, ErrorCode.INVALID_REQUEST),
        ([(1, -1)], {"leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        (ISR, {"leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        (ISR, {"leader_recovery_state": 7}, ErrorCode.INVALID_REQUEST),
        ([(1, -1), (3, 1)], {}, ErrorCode.INELIGIBLE_REPLICA),
        (ISR, {}, ErrorCode.NONE),
        ([(1, -1)], {}, ErrorCode.NONE),
    ],
)
def test_isr_changes_are_checked(isr: Any, changes: dict[str, Any], error: ErrorCode) -> None:
    bench = three()
    before = len(bench.log)
    answer = bench.alter_partition("t", isr, **changes)
    assert answer.error_code == error
    assert (len(bench.log) > before) is (error is ErrorCode.NONE)
    if error is ErrorCode.NONE:
        partition = bench.partition("t")
        assert partition.isr == tuple(id_ for id_, _ in isr)
        assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (1, 0, 2)
        assert list(partition.isr) == answer.isr
        assert (answer.leader_id, answer.leader_epoch, answer.partition_epoch) == (1, 0, 2)
    else:
        assert (answer.leader_id, answer.leader_epoch, answer.partition_epoch) == (0, 0, 0)


def test_the_order_of_checks_is_the_tables() -> None:
    bench = three()
    behind_and_fenced = bench.alter_partition("t", [], leader_epoch=-1, partition_epoch=9)
    assert behind_and_fenced.error_code == ErrorCode.NOT_CONTROLLER
    fenced_and_not_leader = bench.alter_partition("t", [], leader_epoch=-1, sender=2)
    assert fenced_and_not_leader.error_code == ErrorCode.FENCED_LEADER_EPOCH
    old_and_bad = bench.alter_partition("t", [], partition_epoch=0)
    assert old_and_bad.error_code == ErrorCode.INVALID_UPDATE_VERSION


def test_a_sender_of_an_earlier_incarnation_is_stale() -> None:
    bench = three()
    request = AlterPartitionRequest(broker_id=1, broker_epoch=0)
    reply = bench.do(bench.controller.decide_alter_partition(request))
    assert reply.error_code == ErrorCode.STALE_BROKER_EPOCH and reply.topics == []


def test_an_unchanged_isr_is_answered_without_a_record() -> None:
    bench = three()
    before = len(bench.log)
    answer = bench.alter_partition("t", [(1, -1), (2, -1)])
    assert (answer.error_code, answer.partition_epoch) == (0, 1)
    assert len(bench.log) == before


def test_a_partition_named_twice_is_changed_once() -> None:
    bench = three()
    asked = PartitionDataRequest(partition_index=0, partition_epoch=1, new_isr=[1])
    request = AlterPartitionRequest(
        broker_id=1,
        broker_epoch=bench.image.brokers[1].epoch,
        topics=[
            TopicDataRequest(topic_id=bench.topic("t").topic_id, partitions=[asked, asked]),
        ],
    )
    reply = bench.do(bench.controller.decide_alter_partition(request))
    errors = [p.error_code for p in reply.topics[0].partitions]
    assert errors == [0, ErrorCode.INVALID_UPDATE_VERSION]
    assert bench.partition("t").isr == (1,), "new_isr of v2 is read too"


def test_brokers_that_may_not_be_in_sync_are_not() -> None:
    bench = three()
    bench.fence(3)
    assert bench.alter_partition("t", ISR).error_code == ErrorCode.INELIGIBLE_REPLICA
    bench.heartbeat(3)
    bench.create("led-by-3", assignments=[(0, [3, 1])])
    bench.heartbeat(3, want_shut_down=True)
    assert bench.image.brokers[3].in_controlled_shutdown
    assert bench.alter_partition("t", ISR).error_code == ErrorCode.INELIGIBLE_REPLICA
    bench.do(bench.controller.decide_unregister_broker(3))
    assert bench.alter_partition("t", ISR).error_code == ErrorCode.INELIGIBLE_REPLICA


class TrustsBrokerIds(Controller):
    """S10's old bug: epochs of ISR members are not looked at."""

    def decide_alter_partition(self, request: AlterPartitionRequest) -> Any:
        for asked_topic in request.topics:
            for asked in asked_topic.partitions:
                for member in asked.new_isr_with_epochs:
                    member.broker_epoch = -1
        return super().decide_alter_partition(request)


@pytest.mark.parametrize("controller_class", [Controller, TrustsBrokerIds])
def test_a_broker_that_lost_its_disk_is_not_taken_for_the_one_before(
    controller_class: type[Controller],
) -> None:
    """S10, KIP-903: the leader saw 2 in sync; 2 died, lost its disk, and registered again."""
    bench = Bench(controller_class=controller_class)
    bench.brokers(1, 2)
    bench.create("t", assignments=[(0, [1, 2])])
    bench.fence(2)
    bench.heartbeat(2)
    seen_in_sync = bench.image.brokers[2].epoch
    bench.fence(2)
    bench.register(2, life=2, log_dirs=[uuid(888)])
    bench.heartbeat(2)
    answer = bench.alter_partition("t", [(1, bench.image.brokers[1].epoch), (2, seen_in_sync)])
    is_fooled = controller_class is TrustsBrokerIds
    assert answer.error_code == (0 if is_fooled else ErrorCode.INELIGIBLE_REPLICA)
    assert (2 in bench.partition("t").isr) is is_fooled


def test_a_controller_that_is_behind_says_so() -> None:
    """S16, KAFKA-14154: the leader knows more than this controller; it must not feel fenced."""
    bench = three()
    behind = Controller.from_image(bench.image, bench.config, bench.now_ms)
    bench.alter_partition("t", ISR)
    partition = bench.partition("t")
    request = AlterPartitionRequest(
        broker_id=1,
        broker_epoch=bench.image.brokers[1].epoch,
        topics=[
            TopicDataRequest(
                topic_id=bench.topic("t").topic_id,
                partitions=[
                    PartitionDataRequest(
                        leader_epoch=partition.leader_epoch,
                        partition_epoch=partition.partition_epoch,
                        new_isr=[1],
                    )
                ],
            )
        ],
    )
    reply = behind.decide_alter_partition(request).reply
    assert reply.topics[0].partitions[0].error_code == ErrorCode.NOT_CONTROLLER


def reassign(bench: Bench, replicas: list[int], adding: list[int], removing: list[int]) -> None:
    bench.apply(
        [
            PartitionChangeRecord(
                topic_id=bench.topic("t").topic_id,
                partition_id=0,
                replicas=replicas,
                adding_replicas=adding,
                removing_replicas=removing,
                directories=[uuid(500 + id_) for id_ in replicas],
            )
        ]
    )


def test_a_reassignment_is_completed_when_the_new_replicas_are_in_sync() -> None:
    bench = three()
    reassign(bench, [4, 2, 3, 1], adding=[4], removing=[1])
    answer = bench.alter_partition("t", [(1, -1), (2, -1)])
    assert answer.error_code == 0 and bench.partition("t").is_reassigning
    answer = bench.alter_partition("t", [(1, -1), (2, -1), (4, -1)])
    assert answer.error_code == ErrorCode.NEW_LEADER_ELECTED
    partition = bench.partition("t")
    assert (partition.replicas, partition.isr, partition.leader) == ((4, 2, 3), (2, 4), 4)
    assert partition.leader_epoch == 1 and not partition.is_reassigning
    assert partition.directories == (uuid(504), uuid(502), uuid(503))
    check_invariants(bench.image)


def test_taking_away_a_replica_fences_it_although_the_leader_stays() -> None:
    bench = three()
    reassign(bench, [1, 2, 3], adding=[], removing=[3])
    answer = bench.alter_partition("t", [(1, -1), (2, -1)])
    assert (answer.error_code, answer.leader_id, answer.leader_epoch) == (0, 1, 1)
    assert bench.partition("t").replicas == (1, 2)


def test_a_smaller_set_of_replicas_waits_until_all_that_stay_are_in_sync() -> None:
    bench = three()
    reassign(bench, [1, 2, 3], adding=[], removing=[2])
    bench.alter_partition("t", [(1, -1), (2, -1)])
    assert bench.partition("t").is_reassigning, "3 stays, but is not in sync"


# -- elections ---------------------------------------------------------------------------------


def partition_of(**changes: Any) -> PartitionImage:
    values: dict[str, Any] = {
        "replicas": (1, 2, 3),
        "isr": (1, 2),
        "leader": 1,
        "leader_epoch": 5,
        "partition_epoch": 7,
        "directories": (uuid(101), uuid(102), uuid(103)),
        **changes,
    }
    return PartitionImage(**values)


@pytest.mark.parametrize(
    ("isr", "leader", "active", "election", "then"),
    [
        ((1, 2), 1, {1, 2, 3}, Election.ONLINE, None),
        ((1, 2), 2, {1, 2, 3}, Election.ONLINE, None),
        ((1, 2), 2, {1, 2, 3}, Election.PREFERRED, (1, None, -1)),
        ((2, 3), 3, {1, 2, 3}, Election.PREFERRED, None),
        ((2, 3), -1, {1, 2, 3}, Election.ONLINE, (2, None, -1)),
        ((1, 2), 1, {2, 3}, Election.ONLINE, (2, None, -1)),
        ((1, 2), 1, {3}, Election.ONLINE, (-1, None, -1)),
        ((1, 2), -1, {3}, Election.ONLINE, None),
        ((1, 2), 1, {3}, Election.UNCLEAN, (3, [3], 1)),
        ((1, 2), 1, {2, 3}, Election.UNCLEAN, (2, None, -1)),
        ((1, 2), -1, set(), Election.UNCLEAN, None),
    ],
)
def test_who_is_elected(
    isr: tuple[int, ...],
    leader: int,
    active: set[int],
    election: Election,
    then: tuple[int, list[int] | None, int] | None,
) -> None:
    record = propose_change(
        uuid(1),
        0,
        partition_of(isr=isr, leader=leader),
        Target(election=election),
        lambda id_: id_ in active,
        ClusterImage(),
    )
    found = record and (record.leader, record.isr, record.leader_recovery_state)
    assert found == then


def test_an_unclean_election_is_the_topics_choice() -> None:
    bench = cluster(1, 2)
    unclean = {"unclean.leader.election.enable": "true"}
    bench.create("clean", assignments=[(0, [1, 2])])
    bench.create("unclean", assignments=[(0, [1, 2])], configs=unclean)
    for name in ("clean", "unclean"):
        bench.alter_partition(name, [(1, -1)])
    bench.fence(1)
    assert (bench.partition("clean").leader, bench.partition("clean").isr) == (-1, (1,))
    rescued = bench.partition("unclean")
    assert (rescued.leader, rescued.isr, rescued.leader_recovery_state) == (2, (2,), 1)
    both = bench.alter_partition("unclean", [(2, -1), (1, -1)], leader_recovery_state=1)
    assert both.error_code == ErrorCode.INVALID_REQUEST, "who recovers is alone"
    answer = bench.alter_partition("unclean", [(2, -1)], leader_recovery_state=0)
    assert answer.error_code == 0 and bench.partition("unclean").leader_recovery_state == 0


ALL, OWN, OTHER = (RESOURCE_BROKER, ""), (RESOURCE_BROKER, "1"), (RESOURCE_BROKER, "2")
THE_TOPIC = (RESOURCE_TOPIC, "t")


@pytest.mark.parametrize(
    ("settings", "allowed"),
    [
        ({}, False),
        ({THE_TOPIC: "true"}, True),
        ({ALL: "true"}, True),
        ({ALL: "garbage"}, False),
        ({OWN: "true"}, True),
        ({OTHER: "true"}, False),
        ({ALL: "true", OWN: "false"}, False),
        ({ALL: "false", OWN: "true"}, True),
        ({OWN: "true", THE_TOPIC: "false"}, False),
    ],
)
def test_where_the_choice_is_made(settings: dict[tuple[int, str], str], allowed: bool) -> None:
    """The topic is asked first, then the configs of the controller's node, then all brokers'."""
    bench = cluster(1, 2, node_id=1)
    bench.create("t", assignments=[(0, [1, 2])])
    bench.alter_partition("t", [(1, -1)])
    bench.fence(1)
    assert bench.do(bench.controller.decide_unclean_elections()) == 0
    for (kind, name), value in settings.items():
        bench.alter_config(kind, name, (SET, "unclean.leader.election.enable", value))
    assert bench.do(bench.controller.decide_unclean_elections()) == int(allowed)
    assert bench.partition("t").leader == (2 if allowed else -1)


def test_the_file_may_allow_it_for_all() -> None:
    bench = cluster(1, 2, topic_defaults={"unclean.leader.election.enable": True})
    bench.create("t", assignments=[(0, [1, 2])])
    bench.alter_partition("t", [(1, -1)])
    bench.fence(1)
    assert bench.partition("t").leader == 2
