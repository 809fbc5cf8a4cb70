"""Share consumers at a broker: raw requests, sessions, waiting fetches, and the state behind them.

The share coordinator is the broker's own; its state is begun as a group coordinator does it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.batch.records import read_records
from fencepost.client.cluster import Cluster as Client
from fencepost.client.producer import Producer
from fencepost.wire.api.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

from ...waiting import eventually
from ..conftest import RunningNode
from .share_members import STATE_TOPIC, Member, Share, set_group_configs

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """One node whose share coordinators have one replica."""
    running = RunningNode(tmp_path_factory.mktemp("node") / "data", STATE_TOPIC)
    yield running
    running.close()


@pytest.fixture
def share(node: RunningNode, request: pytest.FixtureRequest) -> Share:
    return Share(node, request.node.name.partition("[")[0][-80:])


@pytest.fixture
def members(share: Share):  # type: ignore[no-untyped-def]
    some = [Member(share, "a"), Member(share, "b")]
    yield some
    for one in some:
        one.close()


def values_of(row: Any) -> list[bytes]:
    return [record.value for record in read_records(bytes(row.records))]


def test_records_are_acquired_once_accepted_and_gone(share: Share, members: list[Member]) -> None:
    a, b = members
    share.produce(b"0", b"1", b"2")
    (row,) = a.rows()
    assert values_of(row) == [b"0", b"1", b"2"]
    assert [(one.first_offset, one.last_offset) for one in row.acquired_records] == [(0, 2)]
    assert b.acquire(max_wait_ms=0) == []
    assert a.acknowledged((0, 1, [ACCEPT]), (2, 2, [RELEASE])) == 0
    (row,) = b.rows()
    assert values_of(row) == [b"0", b"1", b"2"]  # whole batches
    assert row.acquired_records[0].first_offset == 2
    assert row.acquired_records[0].delivery_count == 2
    (row,) = b.rows((2, 2, [ACCEPT]), max_wait_ms=0)
    assert (row.error_code, row.acknowledge_error_code, list(row.records)) == (0, 0, [])


def test_a_fetch_waits_for_records(share: Share, members: list[Member]) -> None:
    a, b = members
    sent = a.client.send(a.fetch_request(), 2)
    eventually(share.is_waited_for)
    share.produce(b"0")
    correlation, answer = a.client.receive(78, 2)
    assert correlation == sent and answer.responses[0].partitions[0].acquired_records
    assert answer.acquisition_lock_timeout_ms == 30_000
    a.epoch = 1
    sent = b.client.send(b.fetch_request(), 2)
    eventually(share.is_waited_for)
    assert a.acknowledged((0, 0, [RELEASE])) == 0
    correlation, answer = b.client.receive(78, 2)
    assert answer.responses[0].partitions[0].acquired_records[0].delivery_count == 2


def test_a_connection_that_is_gone_releases_what_it_held(
    share: Share, members: list[Member]
) -> None:
    a, b = members
    share.produce(b"0", b"1")
    assert a.acquire() == [(0, 1, 1)]
    sent = b.client.send(b.fetch_request(), 2)
    a.close()
    correlation, answer = b.client.receive(78, 2)
    assert correlation == sent
    (acquired,) = answer.responses[0].partitions[0].acquired_records
    assert (acquired.first_offset, acquired.last_offset, acquired.delivery_count) == (0, 1, 2)


def test_closing_the_session_takes_acknowledgements_and_releases_the_rest(
    share: Share, members: list[Member]
) -> None:
    a, b = members
    share.produce(b"0", b"1", b"2")
    assert a.acquire() == [(0, 2, 1)]
    a.epoch = -1
    (row,) = a.rows((0, 0, [ACCEPT]))
    assert row.acknowledge_error_code == 0 and not row.acquired_records
    assert b.acquire() == [(1, 2, 2)]
    assert a.fetch(share_session_epoch=1).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


def test_the_state_outlives_the_share_partition(share: Share, members: list[Member]) -> None:
    """When all sessions end, the share partition goes; the next begins with what was stored."""
    a, b = members
    share.produce(b"0", b"1", b"2", b"3")
    assert a.acquire() == [(0, 3, 1)]
    assert a.acknowledged((1, 1, [ACCEPT])) == 0
    a.close()
    eventually(lambda: share.hosted() is None)
    assert b.acquire() == [(0, 0, 2), (2, 3, 2)]


def test_a_fetch_waits_for_as_many_bytes_as_it_wants(share: Share, members: list[Member]) -> None:
    a, _ = members
    share.produce(b"x" * 100)
    sent = a.client.send(a.fetch_request(min_bytes=700), 2)
    eventually(share.is_waited_for)
    share.produce(b"x" * 100)
    assert share.is_waited_for()
    share.produce(b"x" * 500)
    correlation, answer = a.client.receive(78, 2)
    assert correlation == sent
    (row,) = answer.responses[0].partitions
    assert (row.acquired_records[0].first_offset, row.acquired_records[-1].last_offset) == (0, 2)
    a.epoch = 1
    share.produce(b"x")
    assert a.acquire(min_bytes=500, max_wait_ms=50) == [(3, 3, 1)]


def test_record_limit_mode_is_exact(share: Share, members: list[Member]) -> None:
    a, _ = members
    share.produce(b"0", b"1", b"2", b"3")
    assert a.acquire(max_records=3, share_acquire_mode=1) == [(0, 2, 1)]
    assert a.acquire(max_records=3, share_acquire_mode=1) == [(3, 3, 1)]


def test_renewal_answers_at_once(share: Share, members: list[Member]) -> None:
    a, _ = members
    share.produce(b"0")
    assert a.acquire() == [(0, 0, 1)]
    nothing = dict.fromkeys(("max_wait_ms", "min_bytes", "max_bytes", "max_records"), 0)
    renewal = {"is_renew_ack": True, **nothing}
    (row,) = a.rows((0, 0, [RENEW]), **renewal)
    assert row.acknowledge_error_code == 0
    assert a.acknowledged((0, 0, [RENEW]), is_renew_ack=True) == 0
    assert a.acknowledged((0, 0, [RENEW])) == ErrorCode.INVALID_REQUEST
    answer = a.fetch((0, 0, [RENEW]), is_renew_ack=True)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


# -- checks, in order ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"group_id": None}, ErrorCode.INVALID_REQUEST),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_id": None}, ErrorCode.INVALID_REQUEST),
        ({"member_id": "x" * 37}, ErrorCode.INVALID_REQUEST),
        ({"member_id": "x" * 36, "share_session_epoch": 0}, ErrorCode.NONE),
        ({"share_session_epoch": 5}, ErrorCode.INVALID_SHARE_SESSION_EPOCH),
        ({"share_session_epoch": 5, "member_id": "other"}, ErrorCode.SHARE_SESSION_NOT_FOUND),
        ({"share_session_epoch": -1, "member_id": "other"}, ErrorCode.SHARE_SESSION_NOT_FOUND),
    ],
)
def test_requests_are_refused_as_a_whole(
    share: Share, members: list[Member], fields: dict[str, Any], error: ErrorCode
) -> None:
    a, _ = members
    a.fetch(max_wait_ms=0)
    assert a.fetch(**{"max_wait_ms": 0, **fields}).error_code == error
    if "share_session_epoch" not in fields:
        assert a.acknowledge(**fields).error_code == error


def test_the_first_fetch_has_no_acknowledgements_and_only_a_fetch_opens(
    share: Share, members: list[Member]
) -> None:
    a, _ = members
    assert a.fetch((0, 0, [ACCEPT])).error_code == ErrorCode.INVALID_REQUEST
    assert a.acknowledge((0, 0, [ACCEPT])).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH


@pytest.mark.parametrize(
    ("batches", "version", "error"),
    [
        ([(0, 0, [ACCEPT])], 2, 0),
        ([(1, 0, [ACCEPT])], 2, 42),
        ([(0, 0, [])], 2, 42),
        ([(0, 2, [ACCEPT, ACCEPT])], 2, 42),
        ([(0, 0, [5])], 2, 42),
        ([(0, 0, [-1])], 2, 42),
        ([(0, 0, [RENEW])], 1, 42),
        ([(2, 3, [ACCEPT]), (0, 1, [ACCEPT])], 2, 42),
        ([(0, 9, [ACCEPT])], 2, 42),
        ([(9, 9, [ACCEPT])], 2, 42),
        ([(0, 1, [ACCEPT]), (1, 2, [ACCEPT])], 2, 121),
    ],
)
def test_acknowledgements_are_checked(
    share: Share, members: list[Member], batches: Any, version: int, error: int
) -> None:
    a, _ = members
    share.produce(b"0", b"1", b"2", b"3")
    assert a.acquire() == [(0, 3, 1)]
    assert a.acknowledged(*batches, version=version) == error


def test_partitions_that_are_not_there(share: Share, members: list[Member]) -> None:
    a, _ = members
    nowhere = Uuid(b"\x07" * 16)
    topics = [
        FetchTopic(topic_id=share.topic_id, partitions=[FetchPartition(partition_index=7)]),
        FetchTopic(topic_id=nowhere, partitions=[FetchPartition(partition_index=0)]),
    ]
    rows = a.rows(topics=topics)
    assert sorted(row.error_code for row in rows) == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ]
    forgotten = [
        ForgottenTopic(topic_id=share.topic_id, partitions=[7]),
        ForgottenTopic(topic_id=nowhere, partitions=[0]),
    ]
    assert a.rows(forgotten_topics_data=forgotten, max_wait_ms=0) == []
    wrong = [AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[])]
    for topic in topics:
        topic.partitions[0].acknowledgement_batches = wrong
    rows = a.rows(topics=topics, max_wait_ms=0)
    assert sorted(row.acknowledge_error_code for row in rows) == [
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ]


def test_a_group_without_state_has_no_records(share: Share, members: list[Member]) -> None:
    """The share coordinator refuses the read, as nothing was initialised."""
    a, _ = members
    (row,) = a.rows(group_id="unknown-to-all", max_wait_ms=2_000)
    assert row.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_readers_of_committed_data_get_no_aborted_records(
    share: Share, members: list[Member]
) -> None:
    """What is behind an open transaction waits for its end; what was aborted is passed over."""
    a, _ = members
    set_group_configs(share, share_isolation_level="read_committed")
    with Client(share.running.bootstrap_servers, transactional_id=share.group_id) as client:
        producer = Producer(client)
        producer.init_transactions()
        for value, commits in ((b"aborted", False), (b"committed", True), (b"open", True)):
            producer.begin_transaction()
            producer.send(share.topic.name, value, partition=0)
            producer.flush()
            if value == b"open":
                got = a.acquire(max_wait_ms=100)
            if commits:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
    assert got == [(1, 3, 1)]  # the marker of the abort, the record, its marker
    assert a.acquire() == [(4, 5, 1)]
    machine = share.hosted().machine  # type: ignore[union-attr]
    assert machine is not None and machine.start_offset == 1


def test_a_transaction_that_is_aborted_takes_no_records_of_another(
    share: Share, members: list[Member]
) -> None:
    """Both write by turns: what one of them aborts is on both sides of what the other commits."""
    a, _ = members
    set_group_configs(share, share_isolation_level="read_committed")
    servers = share.running.bootstrap_servers
    with (
        Client(servers, transactional_id=f"{share.group_id}-1") as one,
        Client(servers, transactional_id=f"{share.group_id}-2") as other,
    ):
        aborting, committing = Producer(one), Producer(other)
        for producer in (aborting, committing):
            producer.init_transactions()
            producer.begin_transaction()
        for producer in (aborting, committing, aborting):
            producer.send(share.topic.name, b"value", partition=0)
            producer.flush()
        committing.commit_transaction()
        aborting.abort_transaction()
    acquired = a.acquire(max_wait_ms=2_000)
    offsets = {offset for first, last, _ in acquired for offset in range(first, last + 1)}
    assert offsets & {0, 1, 2} == {1}


def test_the_state_outlives_the_broker(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """A broker that is started again delivers what was not accepted, with its delivery count."""
    running = RunningNode(tmp_path_factory.mktemp("restarted") / "data", STATE_TOPIC)
    try:
        share = Share(running, "restarted")
        share.produce(b"0", b"1", b"2", b"3")
        a = Member(share, "a")
        assert a.acquire() == [(0, 3, 1)]
        assert a.acknowledged((0, 1, [ACCEPT, RELEASE])) == 0
        assert a.acknowledged((3, 3, [REJECT])) == 0
        running.restart()
        b = Member(share, "b")

        def acquire() -> list[tuple[int, int, int]]:
            b.epoch = 0
            return b.acquire(max_wait_ms=500)

        assert eventually(acquire) in ([(1, 1, 2), (2, 2, 1)], [(1, 2, 2)])
        b.close()
    finally:
        running.close()
