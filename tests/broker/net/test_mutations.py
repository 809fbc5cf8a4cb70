"""Valid requests of every API, cut at every byte and bent at random: an answer or a disconnect, and
nothing else happens to anybody."""

from __future__ import annotations

import random
import struct

import pytest

from fencepost.broker import apis
from fencepost.broker.net.registry import ROUTES
from fencepost.testing import Cluster
from fencepost.wire.api import CreateTopicsRequest
from fencepost.wire.api.create_topics import CreatableTopic
from fencepost.wire.frame import encode_request

from ...waiting import DEADLINE_S
from ..hostile import Watch, besieged
from ..listener_fixtures import connect
from ..samples import sample

pytestmark = pytest.mark.slow

apis.load_all()
ROUNDS = 60
A_MOMENT_S = 0.3
"""A bent request may be a good one that waits: nothing hangs on what became of it by then."""
SPLICES = (
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff",
    b"\x7f\xff",
    b"\xff\xff\xff\xff\x0f",
    b"\x00\x00\x00\x00",
)
STOP_AT_PARTITIONS = {"CreateTopics", "CreatePartitions"}
"""APIs whose numbers mean work for everybody: a bent one may ask for ten thousand partitions."""


@pytest.fixture(scope="module")
def cluster():
    with Cluster(
        faults=False, offsets_topic_num_partitions=1, auto_create_topics_enable=False
    ) as started:
        with connect(started) as client:
            for name in ("sample", "bystander"):
                asked = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
                request = CreateTopicsRequest(topics=[asked], timeout_ms=60_000)
                assert client.ask(request, 7).topics[0].error_code == 0
        yield started


@pytest.fixture(scope="module")
def topic_id(cluster):
    from fencepost.wire.api import MetadataRequest
    from fencepost.wire.api.metadata import MetadataRequestTopic

    with connect(cluster) as client:
        asked = MetadataRequest(topics=[MetadataRequestTopic(name="sample")])
        return client.ask(asked, 12).topics[0].topic_id


def outcome(cluster, body: bytes, patience_s: float = DEADLINE_S) -> str:
    """What becomes of a request: answered, closed, or still waiting after `patience_s`."""
    with connect(cluster, timeout_s=patience_s) as client:
        client.send_raw(struct.pack(">i", len(body)) + body)
        try:
            client.receive_frame()
        except (EOFError, ConnectionError):
            return "closed"
        except TimeoutError:
            return "waiting"
    return "answered"


def bent(dice: random.Random, good: bytes) -> bytes:
    data = bytearray(good)
    kind = dice.randrange(4)
    for _ in range(dice.choice((1, 1, 2, 4))):
        at = dice.randrange(8, len(data)) if len(data) > 8 else 8
        if kind == 0:
            data[at : at + 1] = dice.randbytes(1)
        elif kind == 1:
            data[at : at + 1] = bytes(
                [(data[at] if at < len(data) else 0) ^ 1 << dice.randrange(8)]
            )
        elif kind == 2:
            splice = dice.choice(SPLICES)
            data[at : at + len(splice)] = splice
        elif dice.random() < 0.5:
            del data[at : at + dice.randrange(1, 4)]
        else:
            data[at:at] = dice.randbytes(dice.randrange(1, 5))
    return bytes(data)


ROUTE_IDS = [ROUTES[key].name for key in sorted(ROUTES)]


@pytest.mark.parametrize("key", sorted(ROUTES), ids=ROUTE_IDS)
def test_a_request_cut_at_every_byte_is_closed_or_answered(cluster, topic_id, key):
    route = ROUTES[key]
    with Watch(cluster) as watch:
        for version in {route.min_version, route.max_version}:
            request = sample(route.request_class, version, "sample", topic_id)
            body = encode_request(request, version, 7, "test")[4:]
            assert len(body) < 1000
            for size in range(8, len(body) - 1):
                assert outcome(cluster, body[:size]) == "closed", (version, size, len(body))
    watch.assert_quiet()


@pytest.mark.parametrize("key", sorted(ROUTES), ids=ROUTE_IDS)
def test_a_bent_request_disturbs_nobody(cluster, topic_id, key):
    route = ROUTES[key]
    dice = random.Random(key)
    with Watch(cluster) as watch:
        for version in {route.min_version, route.max_version}:
            request = sample(route.request_class, version, "sample", topic_id)
            if route.name in STOP_AT_PARTITIONS:
                request.validate_only = True
            body = encode_request(request, version, 7, "test")[4:]
            for _ in range(ROUNDS):
                outcome(cluster, bent(dice, body), A_MOMENT_S)
    watch.assert_quiet()


def test_a_mixture_of_bent_requests_disturbs_no_bystander(cluster, topic_id):
    dice = random.Random(1)
    routes = [route for route in ROUTES.values() if route.name not in STOP_AT_PARTITIONS]
    with besieged(cluster, "bystander"):
        for _ in range(400):
            route = dice.choice(routes)
            version = dice.randint(route.min_version, route.max_version)
            request = sample(route.request_class, version, "sample", topic_id)
            body = bent(dice, encode_request(request, version, 7, "test")[4:])
            outcome(cluster, body, A_MOMENT_S)
