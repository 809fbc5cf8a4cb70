"""What goes wrong around share partitions: a share coordinator that refuses, is slow or knows
another state; topics that are deleted; sessions beyond the limit; dead letters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.batch.records import read_records
from fencepost.machines.partition import BecomeFollower
from fencepost.machines.share.state_batch import ReadState, StateBatch
from fencepost.wire.api import (
    DeleteTopicsRequest,
)
from fencepost.wire.api.delete_topics import DeleteTopicState
from fencepost.wire.api.share_fetch import FetchPartition, FetchTopic
from fencepost.wire.errors import ErrorCode

from ...waiting import eventually
from ..conftest import RunningNode
from ..topic_requests import fetch_request, make_topic
from .share_members import STATE_TOPIC, Member, Share, set_configs, set_group_configs

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
CLUSTER_CONFIGS = 4
LIMIT = 3
ANSWER_BYTES_MAX = 1024


class Persister:
    """The node's own persister, whose answers can be held back or replaced."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.read_error: ErrorCode | None = None
        self.read_state: ReadState | None = None
        self.write_error: ErrorCode | None = None
        self.held: list[Callable[[], None]] | None = None
        """What is to be done when the coordinator answers; None: it answers at once."""
        self.reads = 0

    def read(self, key: Any, leader_epoch: int, done: Any) -> None:
        self.reads += 1
        if self.read_state is not None:
            done(self.read_state)
        elif self.read_error is not None:
            done(ReadState(self.read_error, "refused", 0, -1, ()))
        elif self.held is not None:
            self.held.append(lambda: self._real.read(key, leader_epoch, done))
        else:
            self._real.read(key, leader_epoch, done)

    def write(self, key: Any, *, done: Any, **fields: Any) -> None:
        if self.write_error is not None:
            done(self.write_error, "refused")
        elif self.held is not None:
            self.held.append(lambda: self._real.write(key, done=done, **fields))
        else:
            self._real.write(key, done=done, **fields)

    def let_go(self) -> None:
        held, self.held = self.held or [], None
        for one in held:
            one()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """One node for the module; few sessions, small answers."""
    config = {
        **STATE_TOPIC,
        "group.share.max.share.sessions": str(LIMIT),
        "fetch.max.bytes": str(ANSWER_BYTES_MAX),
    }
    running = RunningNode(tmp_path_factory.mktemp("node") / "data", config)
    yield running
    running.close()


@pytest.fixture
def share(node: RunningNode, request: pytest.FixtureRequest) -> Share:
    return Share(node, request.node.name.partition("[")[0][-80:])


@pytest.fixture
def persister(share: Share) -> Iterator[Persister]:
    partitions, running = share.partitions, share.running
    real = partitions.persister
    faulty = Persister(real)
    partitions.persister = faulty  # type: ignore[assignment]
    yield faulty
    running.call(faulty.let_go)
    partitions.persister = real


@pytest.fixture
def a(share: Share) -> Iterator[Member]:
    member = Member(share, "a")
    yield member
    member.close()
    eventually(lambda: share.hosted() is None)


@pytest.mark.parametrize(
    ("stored", "answered"), [(15, 15), (16, 15), (69, 69), (74, 6), (124, 6), (42, -1)]
)
def test_a_state_that_cannot_be_read_is_read_again_by_the_next_fetch(
    share: Share, persister: Persister, a: Member, stored: int, answered: int
) -> None:
    share.produce(b"0")
    persister.read_error = ErrorCode(stored)
    (row,) = a.rows()
    assert row.error_code == answered and share.hosted() is None
    assert (row.current_leader.leader_id == 1) == (answered == 6)
    persister.read_error = None
    assert a.acquire() == [(0, 0, 1)]


def test_fetches_wait_while_the_state_is_read_once(
    share: Share, persister: Persister, a: Member
) -> None:
    share.produce(b"0", b"1")
    persister.held = []
    b = Member(share, "b")
    a.client.send(a.fetch_request(max_records=1, share_acquire_mode=1), 2)
    b.client.send(b.fetch_request(max_records=1, share_acquire_mode=1), 2)
    eventually(lambda: (found := share.hosted()) is not None and len(found.waiters) == 2)
    assert persister.reads == 1
    share.running.call(persister.let_go)
    got = [
        (one.first_offset, one.last_offset)
        for member in (a, b)
        for one in member.client.receive(78, 2)[1].responses[0].partitions[0].acquired_records
    ]
    assert sorted(got) == [(0, 0), (1, 1)]
    b.close()


def test_a_stored_state_that_cannot_be_is_an_error(
    share: Share, persister: Persister, a: Member
) -> None:
    batches = (StateBatch(5, 6, 2, 1), StateBatch(3, 4, 2, 1))
    persister.read_state = ReadState(ErrorCode.NONE, None, 1, 0, batches)
    (row,) = a.rows()
    assert row.error_code == ErrorCode.UNKNOWN_SERVER_ERROR and share.hosted() is None


def test_acknowledgements_that_are_not_stored_are_taken_back(
    share: Share, persister: Persister, a: Member
) -> None:
    share.produce(b"0")
    assert a.acquire() == [(0, 0, 1)]
    persister.write_error = ErrorCode.REQUEST_TIMED_OUT
    assert a.acknowledged((0, 0, [ACCEPT])) == -1
    persister.write_error = None
    assert a.acknowledged((0, 0, [ACCEPT])) == 0


def test_an_answer_waits_until_the_acknowledgements_are_stored(
    share: Share, persister: Persister, a: Member
) -> None:
    share.produce(b"0")
    assert a.acquire() == [(0, 0, 1)]
    persister.held = []
    request = a.fetch_request((0, 0, [ACCEPT]), max_wait_ms=0)
    a.client.send(request, 2)
    eventually(lambda: persister.held)
    a.client.sock.settimeout(0.05)
    with pytest.raises(TimeoutError):
        a.client.receive(78, 2)
    a.client.sock.settimeout(30)
    share.running.call(persister.let_go)
    assert a.client.receive(78, 2)[1].responses[0].partitions[0].acknowledge_error_code == 0


def test_a_fenced_leader_drops_the_share_partition(
    share: Share, persister: Persister, a: Member
) -> None:
    share.produce(b"0")
    assert a.acquire() == [(0, 0, 1)]
    persister.write_error = ErrorCode.FENCED_STATE_EPOCH
    fenced = share.hosted()
    assert fenced is not None and fenced._timer is not None
    answer = a.acknowledge((0, 0, [ACCEPT]))
    (row,) = answer.responses[0].partitions
    assert (row.error_code, row.current_leader.leader_id) == (6, 1)
    assert [one.node_id for one in answer.node_endpoints] == [1]
    assert share.hosted() is None and fenced._timer is None
    assert a.acknowledged((0, 0, [ACCEPT])) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    persister.write_error = None
    assert a.acquire() == [(0, 0, 1)]


def test_a_share_partition_of_an_older_leader_epoch_is_dropped(share: Share, a: Member) -> None:
    """The broker leads the partition again, and other leaders may have been there between."""
    sent = a.client.send(a.fetch_request(), 2)
    eventually(share.is_waited_for)
    older = share.hosted()
    assert older is not None
    machine = SimpleNamespace(leader_epoch=older.leader_epoch + 1, check_asker=lambda *asked: None)
    newer = SimpleNamespace(key=older.hosted.key, machine=machine)
    share.running.call(share.partitions.moved, newer, False)
    correlation, answer = a.client.receive(78, 2)
    row = answer.responses[0].partitions[0]
    assert (correlation, row.error_code) == (sent, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert share.hosted() is None and older.is_gone
    a.epoch = 1


def test_the_next_acknowledgement_is_by_the_configs_of_now(share: Share, a: Member) -> None:
    share.produce(b"0")
    assert a.acquire() == [(0, 0, 1)]
    set_group_configs(share, share_renew_acknowledge_enable="false")
    answered = a.acknowledged((0, 0, [RENEW]), is_renew_ack=True)
    assert answered == ErrorCode.INVALID_RECORD_STATE


def test_the_next_acquisition_is_by_the_configs_of_now(share: Share, a: Member) -> None:
    share.produce(b"0", b"1")
    first = a.acquire(max_records=1, share_acquire_mode=1)
    set_group_configs(share, share_record_lock_duration_ms="15000")
    assert (first, a.acquire()) == ([(0, 0, 1)], [(1, 1, 1)])
    hosted = share.hosted()
    assert hosted is not None and hosted.machine is not None
    before, after = (run.deadline_ms for run in hosted.machine.runs)
    assert after < before, "15 seconds from now, and not 30"


def test_an_answer_has_no_more_than_the_broker_lets_it_have(share: Share, a: Member) -> None:
    for number in range(3):
        share.produce(bytes([number]) * (ANSWER_BYTES_MAX * 2 // 3))
    assert [a.acquire(max_bytes=1 << 20) for _ in range(3)] == [
        [(number, number, 1)] for number in range(3)
    ]


def test_a_fetch_that_waits_for_a_deleted_topic_is_answered(share: Share, a: Member) -> None:
    a.client.send(a.fetch_request(), 2)
    eventually(share.is_waited_for)
    with share.running.connect() as client:
        state = DeleteTopicState(topic_id=share.topic_id)
        answer = client.ask(DeleteTopicsRequest(topics=[state], timeout_ms=30_000), 6)
        assert answer.responses[0].error_code == 0
    row = a.client.receive(78, 2)[1].responses[0].partitions[0]
    assert row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert share.hosted() is None


def test_a_fetch_that_waits_is_told_that_another_broker_leads(share: Share, a: Member) -> None:
    a.client.send(a.fetch_request(), 2)
    eventually(share.is_waited_for)
    found = share.hosted()
    assert found is not None
    hosted, driver = found.hosted, share.running.node.driver
    follow = BecomeFollower(2, found.leader_epoch + 1, 9, (1, 2), (1, 2))
    share.running.call(driver.feed, hosted.key, follow)
    answer = a.client.receive(78, 2)[1]
    (row,) = answer.responses[0].partitions
    assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and row.current_leader.leader_id == 1
    assert share.hosted() is None
    a.epoch = 1
    assert a.acknowledged((0, 0, [ACCEPT])) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_records_that_are_deleted_are_not_delivered(share: Share, a: Member) -> None:
    from ..topic_requests import batch, produce

    with share.running.connect() as client:
        for value in (b"0", b"1", b"2"):
            produce(client, share.topic, batch(value))
        assert a.acquire(max_records=1) == [(0, 0, 1)]
        delete_records(client, share.topic.name, 2)
    assert a.acknowledged((0, 0, [ACCEPT])) == 0  # in front of the start
    assert a.acquire() == [(2, 2, 1)]


def delete_records(client: Any, topic: str, offset: int) -> None:
    from fencepost.wire.api.delete_records import (
        DeleteRecordsPartition,
        DeleteRecordsRequest,
        DeleteRecordsTopic,
    )

    partition = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic, partitions=[partition])], timeout_ms=30_000
    )
    assert client.ask(request, 2).topics[0].partitions[0].error_code == 0


def test_one_session_too_many_is_told_after_the_wait(share: Share, a: Member) -> None:
    members = [Member(share, name) for name in "bcde"]
    a.fetch(max_wait_ms=0)
    for one in members[: LIMIT - 1]:
        assert one.fetch(max_wait_ms=0).error_code == 0
    assert members[-1].fetch(max_wait_ms=50).error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    members[0].close()
    eventually(lambda: members[-1].fetch(max_wait_ms=10).error_code == 0)
    for one in members:
        one.close()


def test_a_session_names_no_more_partitions_than_are_left(
    share: Share, a: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert a.fetch(max_wait_ms=0).error_code == 0
    sessions: Any = share.running.node.broker.late.share_sessions.sessions
    monkeypatch.setattr(sessions, "_max_partitions", sessions._partitions)
    rows = [FetchPartition(partition_index=index) for index in (0, 1)]
    for row, error in zip(rows, (0, ErrorCode.SHARE_SESSION_LIMIT_REACHED), strict=True):
        named = [FetchTopic(topic_id=share.topic_id, partitions=[row])]
        assert a.fetch(max_wait_ms=0, topics=named).error_code == error


# -- dead letters ----------------------------------------------------------------------------


def letters_in(running: RunningNode, topic: str) -> list[Any]:
    made = running.node.metadata.image.topics_by_name.get(topic)
    if made is None:
        return []
    with running.connect() as client:
        answer = client.ask(
            fetch_request(SimpleNamespace(name=topic, topic_id=made.topic_id), 0), 12
        )
    return list(read_records(bytes(answer.responses[0].partitions[0].records)))


@pytest.mark.parametrize("copies", [False, True])
def test_a_rejected_record_becomes_a_letter_in_a_topic_that_is_created(
    share: Share, a: Member, copies: bool
) -> None:
    running = share.running
    name = f"dlq.{share.topic.name}"
    set_configs(
        running, CLUSTER_CONFIGS, "", errors_deadletterqueue_auto_create_topics_enable="true"
    )
    set_group_configs(
        share,
        errors_deadletterqueue_topic_name=name,
        errors_deadletterqueue_copy_record_enable=str(copies).lower(),
    )
    share.produce(b"0", b"1", b"2")
    assert a.acquire() == [(0, 2, 1)]
    assert a.acknowledged((0, 2, [ACCEPT, REJECT, ACCEPT])) == 0
    (letter,) = eventually(lambda: letters_in(running, name))
    assert letter.value == (b"1" if copies else None) and letter.key is None
    assert dict(letter.headers) == {
        "__dlq.errors.topic": share.topic.name.encode(),
        "__dlq.errors.partition": b"0",
        "__dlq.errors.offset": b"1",
        "__dlq.errors.group": share.group_id.encode(),
        "__dlq.errors.delivery.count": b"1",
        "__dlq.errors.message": b"Offset rejected by client.",
    }
    eventually(lambda: (found := share.hosted()) and found.machine.start_offset == 3)


def test_a_topic_that_does_not_take_letters_gets_none(
    share: Share, a: Member, caplog: pytest.LogCaptureFixture
) -> None:
    with share.running.connect() as client:
        refusing = make_topic(client).name
    set_group_configs(share, errors_deadletterqueue_topic_name=refusing)
    share.produce(b"0")
    assert a.acquire() == [(0, 0, 1)]
    assert a.acknowledged((0, 0, [REJECT])) == 0
    eventually(lambda: (found := share.hosted()) and found.machine.start_offset == 1)
    assert letters_in(share.running, refusing) == []
    assert "errors.deadletterqueue.group.enable is not true" in caplog.text
