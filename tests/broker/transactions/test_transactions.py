"""Transactions over a whole node: a coordinator, markers in partitions, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fencepost.batch.control import read_control
from fencepost.wire.api import (
    DescribeConfigsRequest,
    DescribeTransactionsRequest,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    MetadataRequest,
)
from fencepost.wire.api.describe_configs import DescribeConfigsResource
from fencepost.wire.errors import ErrorCode

from ...waiting import eventually
from ..conftest import RunningNode
from ..listener_fixtures import Client
from ..topic_requests import make_topic
from .transaction_requests import (
    BUSY,
    TRANSACTION,
    add,
    add_offsets,
    asked_by_leader,
    coordinated,
    describe,
    end,
    init,
    initialized,
    new_id,
    state_of,
)

FENCED, OLD_FENCED = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH
MAPPING = ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.fixture
def txn(client: Client) -> str:
    """A transactional id that nobody has used, and a node that coordinates it."""
    coordinated(client)
    return new_id()


def markers_in(node: RunningNode, topic: Any, index: int = 0) -> list[tuple[int, int, bool]]:
    """The markers of a partition: (producer id, epoch, whether it commits)."""
    log = node.node.broker.replicas.get(topic.name, index).log
    return [
        (header.producer_id, header.producer_epoch, bool(record.type))
        for header, data in log.read_all_batches(0, log.end_offset)
        if header.is_control
        for record in read_control(data)
    ]


def test_the_topic_is_made_as_the_configuration_says(
    node_factory: Callable[..., RunningNode],
) -> None:
    running = node_factory(
        transaction_state_log_num_partitions=2, transaction_state_log_segment_bytes=4_000_000
    )
    with running.connect() as client:
        request = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=["a", "b", "a"])
        first = client.ask(request, 4)
        assert {one.error_code for one in first.coordinators} == {
            ErrorCode.COORDINATOR_NOT_AVAILABLE
        }
        refused = init(client, "a")
        # The topic that the question had made may be there by now, and its coordinator load.
        early = {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE}
        assert refused.error_code in early
        eventually(lambda: client.ask(request, 4).coordinators[0].error_code == 0)
        found = client.ask(request, 4).coordinators
        assert [(one.key, one.port) for one in found] == [(k, running.port) for k in "aba"]
        (topic,) = client.ask(MetadataRequest(topics=None), 9).topics
        assert (topic.name, topic.is_internal) == ("__transaction_state", True)
        assert len(topic.partitions) == 2
        resource = DescribeConfigsResource(resource_type=2, resource_name="__transaction_state")
        (described,) = client.ask(DescribeConfigsRequest(resources=[resource]), 4).results
        configs = {one.name: one.value for one in described.configs}
        assert configs["cleanup.policy"] == "compact"
        assert configs["segment.bytes"] == "4000000"
        assert configs["min.insync.replicas"] == "1"
        assert configs["compression.type"] == "uncompressed"


@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_of_a_client_of_version_1(
    node: RunningNode, client: Client, txn: str, committed: bool
) -> None:
    topic = make_topic(client, 2)
    producer = initialized(client, txn)
    assert add(client, txn, producer, topic.name, 0, 1) == {0: 0, 1: 0}
    assert state_of(client, txn) == "Ongoing"
    assert end(client, txn, producer, committed=committed).error_code == 0
    done = "CompleteCommit" if committed else "CompleteAbort"
    eventually(lambda: state_of(client, txn) == done)
    for index in (0, 1):
        assert markers_in(node, topic, index) == [(*producer, committed)]
    assert end(client, txn, producer, committed=committed).error_code == 0, "asked again"
    assert end(client, txn, producer, committed=not committed).error_code == (
        ErrorCode.INVALID_TXN_STATE
    )


def test_a_transaction_of_version_2_gives_the_next_epoch(
    node: RunningNode, client: Client, txn: str
) -> None:
    topic = make_topic(client, 2)
    pid, epoch = initialized(client, txn)
    assert asked_by_leader(client, (txn, (pid, epoch), topic.name, [1])) == {
        txn: {(topic.name, 1): 0}
    }
    ended = end(client, txn, (pid, epoch), committed=True, version=5)
    assert (ended.error_code, ended.producer_id, ended.producer_epoch) == (0, pid, epoch + 1)
    eventually(lambda: state_of(client, txn) == "CompleteCommit")
    assert markers_in(node, topic, 1) == [(pid, epoch + 1, True)]
    again = end(client, txn, (pid, epoch), committed=True, version=5)
    assert (again.error_code, again.producer_epoch) == (0, epoch + 1)
    empty = end(client, txn, (pid, epoch + 1), committed=False, version=5)
    assert (empty.error_code, empty.producer_epoch) == (0, epoch + 2)


def test_a_second_producer_fences_the_first_and_aborts_its_transaction(
    node: RunningNode, client: Client, txn: str
) -> None:
    topic = make_topic(client)
    first = initialized(client, txn)
    add(client, txn, first, topic.name, 0)
    assert init(client, txn).error_code == BUSY
    second = initialized(client, txn)
    assert second[0] == first[0] and second[1] > first[1]
    ((_, _, committed),) = markers_in(node, topic)
    assert not committed
    assert add(client, txn, first, topic.name, 0, version=3) == {0: FENCED}
    assert add(client, txn, first, topic.name, 0, version=1) == {0: OLD_FENCED}
    assert end(client, txn, first, committed=True, version=4).error_code == FENCED
    assert end(client, txn, first, committed=True, version=1).error_code == OLD_FENCED
    assert add_offsets(client, txn, first, "g", version=1) in (OLD_FENCED, 15)
    assert init(client, txn, first, version=4).error_code == FENCED
    assert init(client, txn, first, version=3).error_code == OLD_FENCED
    assert end(client, txn, (second[0] + 1, second[1]), committed=True).error_code == MAPPING


def test_leaders_ask_for_many_transactions_at_once(client: Client, txn: str) -> None:
    topic, other = make_topic(client, 3), new_id()
    producer, second = initialized(client, txn), initialized(client, other)
    add(client, txn, producer, topic.name, 0)
    asked = asked_by_leader(
        client,
        (txn, producer, topic.name, [0, 1]),
        (other, second, topic.name, [0]),
        (txn, producer, topic.name, [2]),
        ("nobody's", second, topic.name, [0]),
        ("", second, topic.name, [0]),
        verify_only=True,
    )
    outside = ErrorCode.TRANSACTION_ABORTABLE
    assert asked == {
        txn: {(topic.name, 0): 0, (topic.name, 1): outside, (topic.name, 2): outside},
        other: {(topic.name, 0): outside},
        "nobody's": {(topic.name, 0): MAPPING},
        "": {(topic.name, 0): ErrorCode.INVALID_REQUEST},
    }
    added = asked_by_leader(
        client, (txn, producer, topic.name, [0, 7]), (other, second, topic.name, [2]), version=4
    )
    assert added == {
        txn: {(topic.name, 0): ErrorCode.OPERATION_NOT_ATTEMPTED, (topic.name, 7): 3},
        other: {(topic.name, 2): 0},
    }
    assert [(t.topic, t.partitions) for t in describe(client, other).topics] == [(topic.name, [2])]


def test_the_offsets_of_a_group_join_a_transaction(client: Client, txn: str) -> None:
    producer = initialized(client, txn)
    eventually(lambda: add_offsets(client, txn, producer, "some group") == 0)
    (topic,) = describe(client, txn).topics
    assert topic.topic == "__consumer_offsets" and len(topic.partitions) == 1
    assert add_offsets(client, "", producer, "some group") == ErrorCode.INVALID_REQUEST
    assert end(client, txn, producer, committed=True).error_code == 0
    eventually(lambda: state_of(client, txn) == "CompleteCommit")


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"transaction_timeout_ms": 0}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"transaction_timeout_ms": 900_001}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"producer_id": 5}, ErrorCode.INVALID_REQUEST),
        ({"producer_epoch": 5}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_producer_that_is_refused(
    client: Client, txn: str, more: dict[str, Any], error: ErrorCode
) -> None:
    asked = {"transactional_id": txn, "transaction_timeout_ms": 1_000, **more}
    answer = client.ask(InitProducerIdRequest(**asked), 5)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (error, -1, -1)


def test_what_is_in_the_log_is_there_after_a_restart(
    node_factory: Callable[..., RunningNode],
) -> None:
    running = node_factory()
    with running.connect() as client:
        coordinated(client)
        topic = make_topic(client)
        producer = initialized(client, "kept")
        add(client, "kept", producer, topic.name, 0)
        before = describe(client, "kept")
    running.restart()
    with running.connect() as client:
        coordinated(client)
        assert describe(client, "kept") == before
        assert end(client, "kept", producer, committed=True).error_code == 0
        eventually(lambda: state_of(client, "kept") == "CompleteCommit")
    assert markers_in(running, topic) == [(*producer, True)]


def test_a_transaction_that_lasts_too_long_is_aborted(
    node_factory: Callable[..., RunningNode],
) -> None:
    running = node_factory(
        transaction_abort_timed_out_transaction_cleanup_interval_ms=20,
        transaction_remove_expired_transaction_cleanup_interval_ms=20,
    )
    with running.connect() as client:
        coordinated(client)
        topic = make_topic(client)
        producer = initialized(client, "slow", timeout_ms=1)
        add(client, "slow", producer, topic.name, 0)
        eventually(lambda: state_of(client, "slow") == "CompleteAbort")
        assert end(client, "slow", producer, committed=True).error_code == FENCED
        ((pid, epoch, committed),) = markers_in(running, topic)
        assert (pid, epoch, committed) == (producer[0], producer[1] + 1, False)


def test_ids_that_nobody_uses_expire(node_factory: Callable[..., RunningNode]) -> None:
    running = node_factory(
        transaction_remove_expired_transaction_cleanup_interval_ms=20,
        transactional_id_expiration_ms=1,
    )
    with running.connect() as client:
        coordinated(client)
        init(client, "forgotten")
        missing = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        eventually(lambda: describe(client, "forgotten").error_code == missing)


def test_what_is_described(client: Client, txn: str) -> None:
    topic = make_topic(client, 2)
    producer = initialized(client, txn, timeout_ms=4_711)
    empty = describe(client, txn)
    assert (empty.error_code, empty.transaction_state, empty.topics) == (0, "Empty", [])
    assert empty.transaction_start_time_ms == -1
    add(client, txn, producer, topic.name, 1, 0)
    state = describe(client, txn)
    assert (state.producer_id, state.producer_epoch) == producer
    assert state.transaction_timeout_ms == 4_711 and state.transaction_start_time_ms > 0
    assert [(one.topic, one.partitions) for one in state.topics] == [(topic.name, [0, 1])]
    request = DescribeTransactionsRequest(transactional_ids=["nobody's", "", txn, txn])
    states = client.ask(request, 0).transaction_states
    assert [(one.transactional_id, one.error_code) for one in states] == [
        ("nobody's", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND),
        ("", ErrorCode.INVALID_REQUEST),
        (txn, 0),
    ]
    assert client.ask(DescribeTransactionsRequest(), 0).transaction_states == []


def test_what_is_listed(client: Client, txn: str) -> None:
    topic, idle = make_topic(client), new_id()
    producer, resting = initialized(client, txn), initialized(client, idle)
    add(client, txn, producer, topic.name, 0)

    def listed(version: int = 1, **filters: Any) -> dict[str, str]:
        answer = client.ask(ListTransactionsRequest(**filters), version)
        assert answer.error_code == 0
        assert answer.unknown_state_filters == [
            one for one in filters.get("state_filters", []) if one == "Sleeping"
        ]
        return {one.transactional_id: one.transaction_state for one in answer.transaction_states}

    both = {txn: "Ongoing", idle: "Empty"}
    assert both.items() <= listed(version=0).items()
    assert listed(producer_id_filters=[producer[0], resting[0]]) == both
    mine = {"producer_id_filters": [producer[0], resting[0]]}
    assert listed(state_filters=["Ongoing", "Sleeping"], **mine) == {txn: "Ongoing"}
    assert listed(state_filters=["Sleeping"]) == {}
    assert listed(duration_filter=3_600_000, **mine) == {idle: "Empty"}
    assert listed(duration_filter=-1, **mine) == both
