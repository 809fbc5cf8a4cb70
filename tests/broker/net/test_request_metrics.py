"""What is counted of requests: all of them, with their errors; times of each or of one in seven."""

from collections import Counter

import pytest

from fencepost.broker.net.client_quotas import NO_QUOTAS
from fencepost.broker.net.registry import Route
from fencepost.broker.net.request_metrics import (
    ALL_TIMED_UP_TO,
    TIMED_ONE_IN,
    RequestMetrics,
    count_errors_in,
)
from fencepost.wire.api import (
    HeartbeatRequest,
    HeartbeatResponse,
    MetadataResponse,
    ProduceResponse,
)
from fencepost.wire.api.metadata import MetadataResponsePartition, MetadataResponseTopic
from fencepost.wire.api.produce import PartitionProduceResponse, TopicProduceResponse

ROUTE = Route(12, "Heartbeat", HeartbeatRequest, 0, 4, 0, lambda context, request: None)


class Door:
    """A connection on which bytes arrived at `arrived_s`, and every answer leaves at once."""

    client_host, listener_name, closed, available_bytes = "h", "PLAINTEXT", False, 1 << 20
    quotas = NO_QUOTAS

    def __init__(self, arrived_s):
        self.arrived_s = arrived_s
        self.routes = {12: ROUTE}

    def settled(self, context):
        assert context.take_pieces() is None
        context.take_parts()

    def add_buffered(self, size_bytes):
        pass

    def close(self, reason):
        pass


def ask(metrics, arrived_s, response):
    """A request, handled and answered."""
    context = metrics.new_context(Door(arrived_s), ROUTE, 4, 1, "c", 50)
    metrics.watch(ROUTE).handler(context, HeartbeatRequest())
    context.reply(response)


@pytest.mark.parametrize(("interval_s", "is_exact"), [(0.1, True), (0.0001, False)])
def test_few_requests_are_timed_each_and_of_many_one_stands_for_all(interval_s, is_exact):
    metrics, count = RequestMetrics(), 3_000
    for number in range(count):
        ask(metrics, number * interval_s, HeartbeatResponse(error_code=25 if number % 3 else 0))
    api = metrics.apis[12]
    assert api.versions == {4: count}
    assert api.errors == {25: count * 2 // 3, 0: count // 3}
    assert api.request_bytes == 50 * count
    for times in api.times().values():
        assert abs(times.count - count) <= (0 if is_exact else TIMED_ONE_IN)
    assert count > ALL_TIMED_UP_TO


def test_an_answer_that_leaves_at_once_counts_as_any_other():
    metrics, count = RequestMetrics(), 3_000
    watched = metrics.watch(
        Route(12, "Heartbeat", HeartbeatRequest, 0, 4, 0, None, take_bytes=lambda *_: [b"12", b"3"])
    )
    for number in range(count):
        context = metrics.new_context(Door(number * 0.0001), ROUTE, 4, 1, "c", 50)
        context.leave(watched.take_bytes(context, memoryview(b""), 0))
        assert context.answered
    api = metrics.apis[12]
    assert (api.errors, api.response_bytes, api.request_bytes) == (
        {0: count},
        3 * count,
        50 * count,
    )
    times = api.times()
    assert abs(times["totaltimems"].count - count) <= TIMED_ONE_IN
    assert times["remotetimems"].count == times["totaltimems"].count


def test_every_error_in_an_answer_counts():
    parts = [PartitionProduceResponse(index=i, error_code=code) for i, code in enumerate((0, 3, 6))]
    topics = [TopicProduceResponse(name=n, partition_responses=parts) for n in ("a", "b")]
    errors = Counter()
    count = count_errors_in(ProduceResponse)
    assert count(ProduceResponse(responses=topics), errors) == 4
    assert errors == {3: 2, 6: 2}
    partitions = [MetadataResponsePartition(error_code=5)]
    topic = MetadataResponseTopic(error_code=3, name="a", partitions=partitions)
    errors.clear()
    assert count_errors_in(MetadataResponse)(MetadataResponse(topics=[topic]), errors) == 2
    assert errors == {3: 1, 5: 1}
