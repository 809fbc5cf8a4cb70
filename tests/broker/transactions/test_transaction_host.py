"""The host of transaction coordinators: leads that come and go, producer ids that are late."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from fencepost.machines.transaction.epochs import EPOCH_MAX, Identity
from fencepost.machines.transaction.model import Transaction, TransactionState
from fencepost.machines.transaction.records import TransactionRecord
from fencepost.machines.transaction.sends import SendMarkers
from fencepost.machines.transaction.shard import Decision
from fencepost.runtime import transactions
from fencepost.runtime.coordinator import Coordinator
from fencepost.runtime.internal_topics import TRANSACTIONS_TOPIC
from fencepost.wire.api import InitProducerIdRequest
from fencepost.wire.api.write_txn_markers import WriteTxnMarkersRequest
from fencepost.wire.errors import ErrorCode

from ...marker_answers import answer_to_markers
from ...waiting import eventually
from ..conftest import RunningNode
from ..listener_fixtures import Client
from ..topic_requests import make_topic
from .transaction_requests import (
    add,
    asked_by_leader,
    coordinated,
    describe,
    end,
    init,
    initialized,
    new_id,
    state_of,
)


@pytest.fixture
def txn(client: Client) -> str:
    """A transactional id that nobody has used, and a node that coordinates it."""
    coordinated(client)
    return new_id()


def no_blocks(on_block: Any) -> None:
    """The controller gives out no producer ids."""
    on_block(ErrorCode.NOT_CONTROLLER, -1, 0)


def use_up(node: RunningNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """No producer id is left, and none comes."""
    ids = node.node.broker.producer_ids
    monkeypatch.setattr(ids, "_next", ids._end)
    monkeypatch.setattr(ids, "fetch_block", no_blocks)


def test_without_producer_ids_clients_are_told_to_wait(
    node: RunningNode, client: Client, txn: str
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        node.call(use_up, node, patch)
        answer = init(client, txn)
        assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        plain = client.ask(InitProducerIdRequest(transactional_id=None), 5)
        assert (plain.error_code, plain.producer_id) == (answer.error_code, -1)
        assert describe(client, txn).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert init(client, txn).error_code == 0


def test_an_end_that_needs_a_producer_id_waits_for_it(
    node: RunningNode, client: Client, txn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "PRODUCER_ID_RETRY_MS", 5)
    host, topic = node.node.broker.coordinators.transactions, make_topic(client)
    prepared = Transaction(
        txn,
        Identity(4_711, EPOCH_MAX),
        60_000,
        TransactionState.PREPARE_COMMIT,
        frozenset({(topic.name, 0)}),
        1,
        1,
        2,
    )
    asked = []

    def late_blocks(on_block: Any) -> None:
        asked.append(on_block)
        no_blocks(on_block)

    def write() -> None:
        coordinator = host.coordinator_of(txn)
        assert isinstance(coordinator, Coordinator)
        record = TransactionRecord(txn, prepared, 1)
        decision: Decision = Decision(records=[record], sends=[SendMarkers((prepared,))])
        coordinator.tell(lambda machine: decision)

    with pytest.MonkeyPatch.context() as patch:
        node.call(use_up, node, patch)
        patch.setattr(node.node.broker.producer_ids, "fetch_block", late_blocks)
        node.call(write)
        eventually(lambda: len(asked) > 2, "it is tried again")
        assert state_of(client, txn) == "PrepareCommit"
    eventually(lambda: state_of(client, txn) == "CompleteCommit")
    state = describe(client, txn)
    assert state.producer_id not in (-1, 4_711) and state.producer_epoch == 0


def test_markers_belong_to_the_lead_in_which_they_were_sent(
    node: RunningNode, client: Client, txn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    part, topic = node.node.broker, make_topic(client)
    host = part.coordinators.transactions
    sent: list[int] = []
    held: list[Any] = []

    def hold(request: WriteTxnMarkersRequest, on_response: Any) -> None:
        sent.extend(one.coordinator_epoch for one in request.markers)
        held.append(partial(on_response, answer_to_markers(request, {})))

    monkeypatch.setattr(host.markers._leaders, "write_here", hold)
    producer = initialized(client, txn)
    add(client, txn, producer, topic.name, 0)
    assert end(client, txn, producer, committed=True).error_code == 0
    index = host.partition_of(txn)
    hosted = part.replicas.get(TRANSACTIONS_TOPIC, index)
    epoch = hosted.machine.leader_epoch

    def lose() -> int:
        host.lost_leadership(hosted, epoch + 1)
        return host.markers.waiting

    def regain() -> None:
        host.runtime._ended.pop(index)  # as if this had been the epoch of another leader
        host.became_leader(hosted, epoch)

    def lead_much_later() -> int:
        host.became_leader(hosted, epoch + 5)  # others may have led between
        waiting = host.markers.waiting
        host.lost_leadership(hosted, None)
        return waiting

    assert node.call(lambda: host.markers.waiting) == 1
    assert node.call(lose) == 0
    assert end(client, txn, producer, committed=True).error_code in (
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    )
    node.call(regain)
    eventually(lambda: sent == [epoch, epoch], "the coordinator sends what is left to be written")
    assert node.call(lead_much_later) == 0
    node.call(host.became_leader, hosted, epoch)
    eventually(lambda: host.markers.waiting == 1, "it is loaded, and two requests are under way")
    for late in held[:2]:
        node.call(late)
        assert state_of(client, txn) == "PrepareCommit", "nobody waits for that answer"
    assert sent == [epoch] * 3
    node.call(held[2])
    eventually(lambda: state_of(client, txn) == "CompleteCommit")


@pytest.mark.parametrize("version", [4, 5])
def test_what_leaders_add_is_of_version_2(
    node: RunningNode, client: Client, txn: str, version: int
) -> None:
    topic = make_topic(client)
    producer = initialized(client, txn)
    asked_by_leader(client, (txn, producer, topic.name, [0]), version=version)
    coordinator = node.node.broker.coordinators.transactions.coordinator_of(txn)
    assert isinstance(coordinator, Coordinator)
    assert coordinator.machine.transactions[txn].client_version == 2
    add(client, txn, producer, topic.name, 0, version=3)
    assert coordinator.machine.transactions[txn].client_version == 2, "nothing was added"
