"""Every served API and version fed with garbage: the node stays up and serves everybody else."""

import contextlib
import random

import pytest

from fencepost.broker import apis
from fencepost.broker.net.registry import ROUTES
from fencepost.wire.api import ApiVersionsRequest
from fencepost.wire.frame import encode_request

from ..malformed_requests import malformed_requests
from ..topic_requests import batch, fetch, make_topic, produce, values

apis.load_all()

pytestmark = pytest.mark.slow

ASK = ApiVersionsRequest(client_software_name="t", client_software_version="1")


@pytest.mark.parametrize("seed", range(3))
def test_garbage_in_every_api_and_version(node, seed, caplog):
    dice = random.Random(seed)
    sent = 0
    with node.connect() as bystander:
        topic = make_topic(bystander)
        assert produce(bystander, topic, batch(b"kept")).error_code == 0
        for data in malformed_requests(dice, ROUTES):
            with node.connect() as client, contextlib.suppress(ConnectionError):
                client.send_raw(data)
                # What the node makes of it is its business; the next request tells that it lives.
                client.send_raw(encode_request(ASK, 3, 2, None))
                client.sock.settimeout(0.01 if sent % 50 else 0.2)
                with contextlib.suppress(TimeoutError):
                    client.sock.recv(1 << 16)
            sent += 1
        assert bystander.ask(ASK, 3).error_code == 0
        (part,) = fetch(bystander, topic, 0)
        assert values(part) == [b"kept"]
    assert sent > 500
    assert node.node.failure is None
    # Garbage is the client's mistake: no handler may take it for one of its own.
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []
