"""What requests take while they wait: it counts, it is bounded, and it is let go of."""

import contextlib
import gc

import pytest

from fencepost.broker.apis import fetch_from_bytes
from fencepost.broker.net import connection as bounds, memory_budget
from fencepost.runtime.requests import fetch as fetch_api
from fencepost.runtime.requests.fetch_answer import PARTITION_BYTES
from fencepost.wire.api import FetchRequest, FetchResponse
from fencepost.wire.api.fetch import FetchableTopicResponse, PartitionData

from ...waiting import eventually
from ..listener_fixtures import route, serve_listener
from ..topic_requests import FOR_DAYS_MS, batch, fetch, fetch_request, make_topic, produce, values

FETCH, VERSION = 1, 12
LARGE_BYTES = 4 << 20
"""Of records; the answer has a little more."""


class ParksTheFirst:
    """A Fetch handler: the first waits, the others have a large answer."""

    def __init__(self):
        self.parked = None
        self.answered = 0

    def __call__(self, context, request):
        if self.parked is None:
            self.parked = context
            return None
        self.answered += 1
        part = PartitionData(partition_index=0, records=bytes(LARGE_BYTES))
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[part])])


def waiting_bytes(running):
    return running.call(lambda: running.node.broker.listener.memory_budget.waiting_bytes)


@contextlib.contextmanager
def without_collector():
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def test_answers_that_wait_behind_another_are_bounded():
    handler = ParksTheFirst()
    most = bounds.BUFFERED_HIGH_WATER_BYTES // LARGE_BYTES
    with (
        serve_listener() as served,
        route(FetchRequest, (4, 18), handler),
        served.connect() as client,
    ):
        sent = [client.send(FetchRequest(max_wait_ms=1), VERSION) for _ in range(20)]
        eventually(lambda: handler.answered > 0)
        (connection,) = served.listener.connections
        eventually(lambda: connection._blocked(), "it is not read from any more")
        assert served.thread.call(lambda: handler.answered) == most
        assert served.listener.memory_budget.waiting_bytes >= most * LARGE_BYTES
        served.thread.call(lambda: handler.parked.reply(FetchResponse()))
        assert [client.receive(FETCH, VERSION)[0] for _ in sent] == sent
        eventually(
            lambda: served.listener.memory_budget.waiting_bytes == 0, "all of it is let go of"
        )


def test_answers_behind_a_client_that_leaves_are_let_go_of():
    handler = ParksTheFirst()
    with serve_listener() as served, route(FetchRequest, (4, 18), handler):
        with served.connect() as client:
            for _ in range(3):
                client.send(FetchRequest(max_wait_ms=1), VERSION)
            eventually(lambda: handler.answered == 2)
        eventually(lambda: served.connection_count() == 0)
        assert served.listener.memory_budget.waiting_bytes == 0


def test_a_fetch_counts_with_its_partitions_until_it_is_answered(node, client):
    topic = make_topic(client, partitions=20)
    for end in ("answered", "left"):
        with node.connect() as waiting:
            waiting.send(fetch_request(topic, *[0] * 20, max_wait_ms=FOR_DAYS_MS), VERSION)
            eventually(lambda: waiting_bytes(node) == 20 * PARTITION_BYTES)
            if end == "answered":
                produce(client, topic, batch(b"a"))
                assert waiting.receive(FETCH, VERSION)[1].error_code == 0
                assert waiting_bytes(node) == 0
        eventually(lambda: waiting_bytes(node) == 0)
        topic = make_topic(client, partitions=20)


def test_a_fetch_counts_with_the_partitions_of_its_session(node, client):
    topic = make_topic(client, partitions=20)
    first = client.ask(fetch_request(topic, *[0] * 20, session_epoch=0), VERSION)
    assert first.session_id > 0
    more = fetch_request(
        topic, max_wait_ms=FOR_DAYS_MS, session_id=first.session_id, session_epoch=1
    )
    client.send(more, VERSION)
    eventually(lambda: waiting_bytes(node) == 20 * PARTITION_BYTES)


def test_a_client_whose_fetches_wait_for_too_much_is_disconnected_and_others_wait_on(
    node, client, monkeypatch
):
    monkeypatch.setattr(memory_budget, "WAITING_BYTES_MAX", 100 * PARTITION_BYTES)
    topic = make_topic(client, partitions=30)
    client.send(fetch_request(topic, 0, max_wait_ms=FOR_DAYS_MS), VERSION)
    with node.connect() as attacker:
        for _ in range(4):
            attacker.send(fetch_request(topic, *[0] * 30, max_wait_ms=FOR_DAYS_MS), VERSION)
        assert attacker.is_disconnected()
    eventually(lambda: waiting_bytes(node) == PARTITION_BYTES)
    with node.connect() as producer:
        produce(producer, topic, batch(b"a"))
    _, response = client.receive(FETCH, VERSION)
    assert values(response.responses[0].partitions[0]) == [b"a"]


@pytest.mark.parametrize("min_bytes", [1, 2], ids=["usual", "unusual"])
@pytest.mark.parametrize("waits_behind", [False, True], ids=["parked", "answered behind another"])
def test_a_fetch_whose_client_leaves_needs_no_garbage_collector(
    node, client, waits_behind, min_bytes
):
    """Cycles would keep thousands of partitions until the collector has looked everywhere."""
    idle, topic = make_topic(client), make_topic(client)
    asked = {"max_wait_ms": FOR_DAYS_MS, "min_bytes": min_bytes}
    fetch(client, topic, 0)
    with without_collector():
        before = fetches_in_memory()
        with node.connect() as leaving:
            if waits_behind:
                leaving.send(fetch_request(idle, 0, **asked), VERSION)
            leaving.send(fetch_request(topic, 0, **asked), VERSION)
            eventually(lambda: waiting_fetches(node) == 1 + waits_behind)
            if waits_behind:
                produce(client, topic, batch(b"a"))
                eventually(lambda: waiting_fetches(node) == 1)
            assert fetches_in_memory() > before
        eventually(lambda: fetches_in_memory() == before, "nothing is left of it")


def waiting_fetches(node):
    return node.call(lambda: len(node.node.broker.fetches))


def fetches_in_memory():
    kinds = fetch_api._Fetch, fetch_from_bytes._PlainFetch
    return sum(type(one) in kinds for one in gc.get_objects())
