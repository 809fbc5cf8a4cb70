"""Coordinator, leaders and groups of one node together, through a raw client of both protocols."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.machines.transaction import partitions
from fencepost.wire.api.find_coordinator import FindCoordinatorRequest
from fencepost.wire.api.produce import PartitionProduceData
from fencepost.wire.errors import ErrorCode

from ...waiting import eventually
from ..apis.test_transactional_data import commit, committed, offset_of, stable_end, write
from ..conftest import RunningNode
from ..listener_fixtures import Client
from ..topic_requests import batch, fetch, make_topic, produce_request, values
from .transaction_requests import (
    Producer,
    add,
    add_offsets,
    adding,
    coordinated,
    end,
    init,
    initialized,
    new_id,
)

BUSY = ErrorCode.CONCURRENT_TRANSACTIONS
NOT_IN_IT = {9: ErrorCode.INVALID_TXN_STATE, 11: ErrorCode.TRANSACTION_ABORTABLE}


@pytest.fixture
def txn(client: Client) -> str:
    """A transactional id whose coordinator is there, and that of groups."""
    coordinated(client)
    request = FindCoordinatorRequest(key="g", key_type=0)
    eventually(lambda: client.ask(request, 3).error_code == 0)
    return new_id()


def put(client: Client, topic: Any, txn: str, producer: Producer, value: bytes, **said: Any) -> int:
    pid, epoch = producer
    answer = write(client, topic, value, transactional_id=txn, pid=pid, epoch=epoch, **said)
    return int(answer.error_code)


def put_soon(*args: Any, **said: Any) -> None:
    """The same, once the transaction before is quite over."""
    code = eventually(lambda: _unless_busy(put(*args, version=12, **said)))
    assert code == [0]


def _unless_busy(code: int) -> list[int] | None:
    return None if code == BUSY else [code]


def is_stable(client: Client, topic: Any, offset: int) -> None:
    """All transactions below are ended, and readers see it."""
    assert eventually(lambda: stable_end(client, topic) == offset)


def committed_soon(client: Client, topic: Any, offset: int, **said: Any) -> None:
    """An offset of version 2 is in the transaction, once the one before is quite over."""
    assert eventually(lambda: commit(client, topic, offset, version=5, **said) == {0: 0})


def ended(client: Client, txn: str, producer: Producer, *, is_committed: bool) -> Producer:
    """EndTxn of version 2: the producer of the next transaction."""
    answer = end(client, txn, producer, committed=is_committed, version=5)
    assert answer.error_code == 0
    return answer.producer_id, answer.producer_epoch


@pytest.mark.parametrize("version", [9, 11])
def test_a_partition_that_was_not_added_is_refused(
    client: Client, topic: Any, txn: str, version: int
) -> None:
    producer = initialized(client, txn)
    assert put(client, topic, txn, producer, b"a", version=version) == NOT_IN_IT[version]
    other = make_topic(client)
    assert add(client, txn, producer, other.name, 0) == {0: 0}
    assert put(client, topic, txn, producer, b"a", version=version) == NOT_IN_IT[version]
    assert put(client, other, txn, producer, b"a", version=version) == 0
    assert stable_end(client, topic) == 0, "nothing has entered the log"


@pytest.mark.parametrize("is_committed", [True, False])
def test_version_1(client: Client, topic: Any, txn: str, is_committed: bool) -> None:
    producer = initialized(client, txn)
    for round_number in range(2):
        assert eventually(lambda: add(client, txn, producer, topic.name, 0) == {0: 0})
        sequence, behind = round_number * 2, round_number * 3 + 3
        assert put(client, topic, txn, producer, b"a", sequence=sequence) == 0
        assert put(client, topic, txn, producer, b"b", sequence=sequence + 1) == 0
        assert stable_end(client, topic) == behind - 3
        assert end(client, txn, producer, committed=is_committed).error_code == 0
        is_stable(client, topic, behind)
    assert len(committed(client, topic)[1]) == (0 if is_committed else 2)


def test_version_2(client: Client, topic: Any, txn: str) -> None:
    """Partitions are added by being written to, and each end gives the next epoch."""
    producer = initialized(client, txn)
    for behind, is_committed in ((3, True), (6, False), (9, True)):
        put_soon(client, topic, txn, producer, b"a")
        put_soon(client, topic, txn, producer, b"b", sequence=1)
        put_soon(client, topic, txn, producer, b"b", sequence=1)
        before, producer = producer, ended(client, txn, producer, is_committed=is_committed)
        assert producer == (before[0], before[1] + 1)
        is_stable(client, topic, behind)
        late = put(client, topic, txn, before, b"late", sequence=2, version=12)
        assert late == ErrorCode.INVALID_PRODUCER_EPOCH
    _, aborted, part = committed(client, topic)
    assert aborted == [(producer[0], 3)]
    assert values(part).count(b"b") == 3, "what is sent again is there once"
    assert b"late" not in values(part)


@pytest.mark.parametrize("version", [0, 2])
def test_a_transaction_may_begin_right_behind_another(
    client: Client, topic: Any, txn: str, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The coordinator waits until the one before is complete; here for as long as it takes."""
    monkeypatch.setattr(partitions, "WAIT_MS", 600_000)
    producer = initialized(client, txn)
    for number in range(3):
        if version < 2:
            assert add(client, txn, producer, topic.name, 0) == {0: 0}
            assert put(client, topic, txn, producer, b"a", sequence=number) == 0
            assert end(client, txn, producer, committed=True).error_code == 0
            assert add_offsets(client, txn, producer, "g") == 0
            assert end(client, txn, producer, committed=True).error_code == 0
        else:
            assert put(client, topic, txn, producer, b"a", version=12) == 0
            producer = ended(client, txn, producer, is_committed=True)
            said = {"transactional_id": txn, "pid": producer[0], "epoch": producer[1]}
            assert commit(client, topic, number, version=5, **said) == {0: 0}
            producer = ended(client, txn, producer, is_committed=True)
    is_stable(client, topic, 6)
    assert values(committed(client, topic)[2]) == [b"a"] * 3


def test_who_leaves_while_its_request_waits_holds_up_no_client(
    node: RunningNode,
    client: Client,
    topic: Any,
    txn: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The request is decided all the same, as one whose answer is lost, and may come again."""
    monkeypatch.setattr(partitions, "WAIT_MS", 600_000)
    host = node.node.broker.coordinators.transactions
    held: list[Any] = []
    producer = initialized(client, txn)
    assert add(client, txn, producer, topic.name, 0) == {0: 0}

    def connections() -> int:
        return len(node.node.broker.listener.connections)

    def waiting() -> int:
        machine = host.coordinator_of(txn).machine
        return len(machine._shard.waiting.names_of(txn))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host.markers, "on_written", lambda *written: held.append(written))
        assert end(client, txn, producer, committed=True).error_code == 0
        before = node.call(connections)
        with node.connect() as leaving:
            leaving.send(adding(txn, producer, topic.name, 0), 3)
            eventually(lambda: node.call(waiting) == 1)
        eventually(lambda: node.call(connections) == before, "it has left")
        eventually(lambda: held, "the markers are written")
    assert node.call(waiting) == 1
    for written in held:
        node.call(host.markers.on_written, *written)
    eventually(lambda: node.call(waiting) == 0)
    assert add(client, txn, producer, topic.name, 0) == {0: 0}
    assert end(client, txn, producer, committed=False).error_code == 0
    assert not [one for one in caplog.records if one.levelname == "ERROR"]


def test_the_end_of_nothing_lets_the_next_transaction_begin(
    client: Client, topic: Any, txn: str
) -> None:
    """KAFKA-18464: also when it was aborted before anything was written."""
    producer = initialized(client, txn)
    producer = ended(client, txn, producer, is_committed=False)
    put_soon(client, topic, txn, producer, b"a")
    ended(client, txn, producer, is_committed=True)
    is_stable(client, topic, 2)


def test_a_first_sequence_that_is_not_0_is_out_of_order(
    client: Client, topic: Any, txn: str
) -> None:
    producer = initialized(client, txn)
    said = {"sequence": 3, "version": 12}
    out_of_order = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert put(client, topic, txn, producer, b"a", **said) == out_of_order


def test_a_producer_that_another_fenced_hears_so_at_the_leader(
    client: Client, topic: Any, txn: str
) -> None:
    """KAFKA-19690: INVALID_PRODUCER_EPOCH, from which it recovers, and not INVALID_TXN_STATE."""
    old = initialized(client, txn)
    assert add(client, txn, old, topic.name, 0) == {0: 0}
    assert put(client, topic, txn, old, b"a") == 0
    assert init(client, txn).error_code == BUSY
    assert initialized(client, txn)[1] > old[1]
    is_stable(client, topic, 2)
    for version in (9, 11, 12):
        said = {"sequence": 1, "version": version}
        assert put(client, topic, txn, old, b"b", **said) == ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize(
    ("version", "error"),
    [(3, ErrorCode.INVALID_TXN_STATE), (4, ErrorCode.TRANSACTION_ABORTABLE)],
)
def test_offsets_of_version_1(
    client: Client, topic: Any, txn: str, version: int, error: ErrorCode
) -> None:
    pid, epoch = producer = initialized(client, txn)
    said = {"version": version, "epoch": epoch, "pid": pid, "transactional_id": txn}
    assert commit(client, topic, 5, **said) == {0: error}
    assert add_offsets(client, txn, producer, "g") == 0
    assert commit(client, topic, 5, **said) == {0: 0}
    assert offset_of(client, topic) == ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert end(client, txn, producer, committed=True).error_code == 0
    assert eventually(lambda: offset_of(client, topic) == 5)


def test_records_and_offsets_of_version_2_count_together(
    client: Client, topic: Any, txn: str
) -> None:
    producer = initialized(client, txn)
    for offset, is_committed, expected in ((5, True, 5), (9, False, 5), (7, True, 7)):
        pid, epoch = producer
        said = {"epoch": epoch, "pid": pid, "transactional_id": txn}
        put_soon(client, topic, txn, producer, b"a")
        committed_soon(client, topic, offset, **said)
        assert offset_of(client, topic) == ErrorCode.UNSTABLE_OFFSET_COMMIT
        producer = ended(client, txn, producer, is_committed=is_committed)
        assert eventually(lambda: offset_of(client, topic) != ErrorCode.UNSTABLE_OFFSET_COMMIT)
        assert offset_of(client, topic) == expected
        stale = commit(client, topic, 99, version=5, **said)
        assert stale == {0: ErrorCode.INVALID_PRODUCER_EPOCH}


def test_batches_wait_as_they_were_sent(
    node: RunningNode, client: Client, topic: Any, txn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Further requests overwrite the buffer that they came in, while the coordinator is asked."""
    verifier = node.node.broker.writes._verifier
    asked: list[Any] = []
    monkeypatch.setattr(verifier, "ask", lambda *claim: asked.append(claim))
    pid, epoch = initialized(client, txn)
    said = {"producer_id": pid, "producer_epoch": epoch, "transactional": True}
    sent = [batch(b"%d" % n * 50, base_sequence=n, **said) for n in range(2)]
    other = make_topic(client)
    before = node.node.broker.decompression.queued_bytes
    for records in sent:
        client.send(produce_request(topic, records, 12, transactional_id=txn), 12)
    for _ in range(20):
        client.send(produce_request(other, batch(b"x" * 60), 12), 12)
    with node.connect() as observer:
        assert eventually(lambda: stable_end(observer, other) == 20)
        waiting = node.node.broker.decompression.queued_bytes - before
        assert waiting == sum(map(len, sent))
        assert len(asked) == 2
        for claim, on_outcome in asked:
            node.call(on_outcome, dict.fromkeys(claim.partitions, ErrorCode.NONE))
    for _ in range(22):
        _, answer = client.receive(0, 12)
        assert answer.responses[0].partition_responses[0].error_code == 0
    [part] = fetch(client, topic, 0)
    assert values(part) == [b"0" * 50, b"1" * 50]
    assert node.node.broker.decompression.queued_bytes == before


@pytest.mark.parametrize("version", [10, 12])
def test_a_later_batch_does_not_overtake_one_that_is_asked_about(
    node: RunningNode,
    client: Client,
    topic: Any,
    txn: str,
    version: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first batch has begun the transaction, so the third need not be asked about. The second
    is: it came before the first was in the log. The producer would hear of a gap after the second
    batch's answer, and give up."""
    verifier = node.call(lambda: node.node.broker.late.verification).verifier
    ask_once = verifier._ask_once
    held: list[Any] = []
    monkeypatch.setattr(verifier, "_ask_once", lambda *claim: held.append(claim))
    pid, epoch = initialized(client, txn)
    if version < 12:
        add(client, txn, (pid, epoch), topic.name, 0)
    said = {"producer_id": pid, "producer_epoch": epoch, "transactional": True}

    def send(number: int) -> None:
        records = batch(b"%d" % number, base_sequence=number, **said)
        client.send(produce_request(topic, records, version, transactional_id=txn), version)

    other = make_topic(client)
    send(0)
    send(1)
    client.send(produce_request(other, batch(b"behind them"), version), version)
    with node.connect() as observer:
        assert eventually(lambda: stable_end(observer, other) == 1)
        node.call(ask_once, *held.pop())
        [second] = eventually(lambda: held)
        assert eventually(lambda: fetch(observer, topic, 0)[0].high_watermark == 1)
    send(2)
    client.send(produce_request(other, batch(b"behind it"), version), version)
    with node.connect() as observer:
        assert eventually(lambda: stable_end(observer, other) == 2)
    node.call(ask_once, *second)
    errors = [
        client.receive(0, version)[1].responses[0].partition_responses[0].error_code
        for _ in range(5)
    ]
    assert errors == [0] * 5
    [part] = fetch(client, topic, 0)
    assert values(part) == [b"0", b"1", b"2"]


def test_a_small_batch_beside_a_large_one_is_appended_although_nothing_else_is_read(
    client: Client, txn: str
) -> None:
    """A thread looks at the large one. The transaction is open already, so nobody is asked."""
    topic = make_topic(client, 2)
    pid, epoch = initialized(client, txn)
    said = {"producer_id": pid, "producer_epoch": epoch, "transactional": True}
    for number in range(2):
        large = batch(b"x" * 1_000_000, compression="gzip", base_sequence=number, **said)
        request = produce_request(topic, large, 12, transactional_id=txn)
        small = batch(b"x", base_sequence=number, **said)
        request.topic_data[0].partition_data.append(PartitionProduceData(index=1, records=small))
        answered = client.ask(request, 12).responses[0].partition_responses
        assert [part.error_code for part in answered] == [0, 0]


def test_batches_that_wait_are_bounded(
    node: RunningNode, client: Client, topic: Any, txn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = node.node.broker
    asked: list[Any] = []
    monkeypatch.setattr(part.writes._verifier, "ask", lambda *claim: asked.append(claim))
    pid, epoch = initialized(client, txn)
    said = {"producer_id": pid, "producer_epoch": epoch, "base_sequence": 0}
    records = batch(b"a", transactional=True, **said)
    monkeypatch.setattr(part.decompression, "reserve", lambda size_bytes: False)
    client.send(produce_request(topic, records, 12, transactional_id=txn), 12)
    [(claim, on_outcome)] = eventually(lambda: asked)
    node.call(on_outcome, dict.fromkeys(claim.partitions, ErrorCode.NONE))
    _, answer = client.receive(0, 12)
    refused = answer.responses[0].partition_responses[0]
    assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert stable_end(client, topic) == 0
