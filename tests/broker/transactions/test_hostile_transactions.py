"""What strangers may try with transactional ids: refused, bounded, and nobody else's trouble."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fencepost.broker import apis
from fencepost.broker.net.registry import ROUTES
from fencepost.wire.api import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    ApiVersionsRequest,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    TxnOffsetCommitRequest,
    WriteTxnMarkersRequest,
)
from fencepost.wire.api.add_partitions_to_txn import (
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from fencepost.wire.api.describe_producers import TopicRequest
from fencepost.wire.api.txn_offset_commit import (
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from fencepost.wire.api.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic
from fencepost.wire.errors import EncodeError, ErrorCode
from fencepost.wire.frame import encode_request

from ...waiting import eventually
from ..conftest import RunningNode
from ..listener_fixtures import Client
from ..topic_requests import make_topic
from .transaction_requests import (
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

apis.load_all()

REFUSALS = {
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_REQUEST,
}


def test_guesses_of_ids_and_epochs_end_nobodys_transaction(client: Client) -> None:
    coordinated(client)
    txn, topic = new_id(), make_topic(client, 2)
    pid, epoch = initialized(client, txn)
    add(client, txn, (pid, epoch), topic.name, 0)
    lane = random.Random(7)
    edges = [-(1 << 15), -1, epoch + 1, epoch + 2, 32_766, 32_767]
    guesses = [(pid, guess) for guess in edges]
    guesses += [(guess, epoch) for guess in (-1, 0x7FFF_FFFF_FFFF_FFFF, pid + 1, pid - 1)]
    guesses += [(lane.randrange(1 << 62), lane.randrange(1 << 15)) for _ in range(20)]
    for guess in guesses:
        for version in (4, 5):
            answer = end(client, txn, guess, committed=True, version=version)
            assert answer.error_code in REFUSALS, guess
            assert (answer.producer_id, answer.producer_epoch) == (-1, -1)
        assert set(add(client, txn, guess, topic.name, 1).values()) <= REFUSALS
        assert add_offsets(client, txn, guess, "g") in REFUSALS | {15}
        asked = asked_by_leader(client, (txn, guess, topic.name, [1]))
        assert set(asked[txn].values()) <= REFUSALS
    assert state_of(client, txn) == "Ongoing"
    assert [one.partitions for one in describe(client, txn).topics] == [[0]]
    assert end(client, txn, (pid, epoch), committed=True).error_code == 0


def test_the_longest_ids_are_ids(client: Client) -> None:
    coordinated(client)
    for text in ("x" * 32_767, "é" * 16_383, "\0", "../../etc", "a\nb"):
        assert init(client, text).error_code == 0
        state = describe(client, text)
        assert (state.error_code, state.transactional_id) == (0, text)
    assert client.ask(ListTransactionsRequest(), 1).error_code == 0


def test_an_id_that_is_too_long_for_the_protocol_ends_the_connection(node: RunningNode) -> None:
    with node.connect() as client:
        coordinated(client)
        request = InitProducerIdRequest(transactional_id="MARK" * 10, transaction_timeout_ms=1_000)
        framed = bytes(encode_request(request, 5, 1, "too long"))
        short = b"\x29" + b"MARK" * 10  # a compact length is one more
        assert short in framed
        body = framed[4:].replace(short, b"\x81\x80\x04" + b"x" * 65_536)
        client.send_raw(len(body).to_bytes(4, "big") + body)
        assert client.is_disconnected()
    with node.connect() as client:
        assert init(client, "MARK").error_code == 0


def test_thousands_of_open_transactions_are_bounded(
    node_factory: Callable[..., RunningNode],
) -> None:
    running = node_factory(fencepost_transactions_max_bytes=100_000)
    memory = running.node.broker.coordinators.transactions.memory
    with running.connect() as client:
        coordinated(client)
        topic = make_topic(client, 3)
        opened = []
        for number in range(200):
            answer = init(client, f"flood-{number}")
            if answer.error_code:
                assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
                break
            producer = (answer.producer_id, answer.producer_epoch)
            if add(client, f"flood-{number}", producer, topic.name, 0, 1, 2)[0] == 0:
                opened.append((f"flood-{number}", producer))
        assert 20 < len(opened) < 200
        assert memory.used_bytes <= memory.max_bytes
        for txn, producer in opened:
            assert end(client, txn, producer, committed=False).error_code == 0
        eventually(lambda: {state_of(client, txn) for txn, _ in opened} == {"CompleteAbort"})


def requests_about(txn: str, pid: int, epoch: int, topic: str) -> list[Any]:
    """One of each API of transactions, with something in each of its arrays."""
    who = {"transactional_id": txn, "producer_id": pid, "producer_epoch": epoch}
    topics = [AddPartitionsToTxnTopic(name=topic, partitions=[0, 1])]
    committed = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=4)
    return [
        InitProducerIdRequest(**who, transaction_timeout_ms=1_000),
        AddPartitionsToTxnRequest(
            transactions=[AddPartitionsToTxnTransaction(**who, verify_only=True, topics=topics)],
            v3_and_below_topics=topics,
            **{f"v3_and_below_{name}": value for name, value in who.items()},
        ),
        AddOffsetsToTxnRequest(**who, group_id="g"),
        EndTxnRequest(**who, committed=False),
        WriteTxnMarkersRequest(
            markers=[
                WritableTxnMarker(
                    producer_id=pid,
                    producer_epoch=epoch,
                    transaction_result=False,
                    topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[0, 1])],
                )
            ]
        ),
        TxnOffsetCommitRequest(
            **who,
            group_id="g",
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[committed])],
        ),
        DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[0])]),
        DescribeTransactionsRequest(transactional_ids=[txn]),
        ListTransactionsRequest(
            state_filters=["Ongoing"], producer_id_filters=[pid], duration_filter=0
        ),
    ]


def spoiled(dice: random.Random, body: bytes) -> Iterator[bytes]:
    """A request cut, with a bit flipped, and with a length or a number replaced."""
    for at in range(8, len(body), 2):
        yield body[:at]
        yield body[:at] + bytes([body[at] ^ 1 << dice.randrange(8)]) + body[at + 1 :]
        number = dice.choice([0x7FFF_FFFF, 0xFFFF_FFFF, 0xFFFF_FFFE, 1 << 24])
        yield body[:at] + number.to_bytes(4, "big") + body[at + 4 :]


@pytest.mark.slow
def test_spoiled_requests_of_every_api_touch_nobodys_transaction(
    node: RunningNode, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    coordinated(client)
    txn, topic = new_id(), make_topic(client, 2)
    pid, epoch = initialized(client, txn)
    add(client, txn, (pid, epoch), topic.name, 0)
    dice, sent = random.Random(13), 0
    # No single bit makes these the victim's own.
    for request in requests_about(f"x{txn[1:-1]}y", pid ^ 0x0303, 0x0303, topic.name):
        route = ROUTES[request.api_key]
        for version in range(route.min_version, route.max_version + 1):
            try:
                frame = encode_request(request, version, 1, "x")
            except EncodeError:  # it names what that version has not
                frame = encode_request(type(request)(), version, 1, "x")
            for body in spoiled(dice, bytes(frame[4:])):
                with node.connect() as stranger, contextlib.suppress(ConnectionError):
                    stranger.send_raw(len(body).to_bytes(4, "big") + body)
                sent += 1
        assert state_of(client, txn) == "Ongoing"
    ask = ApiVersionsRequest(client_software_name="t", client_software_version="1")
    assert client.ask(ask, 3).error_code == 0
    assert sent > 1_200
    assert [one.partitions for one in describe(client, txn).topics] == [[0]]
    assert end(client, txn, (pid, epoch), committed=True).error_code == 0
    assert node.node.failure is None
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []
