"""What strangers may try with transactional ids: refused, bounded, and nobody else's trouble."""

from __future__ import annotations

import random
from collections.abc import Callable

from fencepost.wire.api import InitProducerIdRequest, ListTransactionsRequest
from fencepost.wire.errors import ErrorCode
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
    memory = running.node.broker_part.coordinators.transactions.memory
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
