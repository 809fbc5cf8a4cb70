"""Every served API and version fed with rubbish: the node stays up and serves everybody else."""

import contextlib
import random
import struct

import pytest

from fencepost.broker.registry import ROUTES
from fencepost.wire.api import ApiVersionsRequest, request_class
from fencepost.wire.frame import encode_request

from .topic_requests import batch, fetch, make_topic, produce, values

pytestmark = pytest.mark.slow

ASK = ApiVersionsRequest(client_software_name="t", client_software_version="1")
ROUNDS = 3


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def spoiled(dice: random.Random, good: bytes) -> bytes:
    """A request with something wrong: cut, lengthened, bits flipped, or bytes replaced."""
    data = bytearray(good)
    for _ in range(dice.randint(1, 4)):
        kind = dice.randrange(5)
        at = dice.randrange(8, max(9, len(data)))
        if kind == 0:
            del data[at:]
        elif kind == 1:
            data[at:at] = dice.randbytes(dice.randint(1, 20))
        elif kind == 2 and at < len(data):
            data[at] ^= 1 << dice.randrange(8)
        elif kind == 3:
            data[at : at + 4] = b"\xff\xff\xff\xff"
        else:
            data[at : at + 4] = struct.pack(">i", dice.choice([2**31 - 1, -2, 1 << 24, 65536]))
    return bytes(data)


def requests(dice: random.Random):
    """Spoiled and random bodies for every API at every version it is served in."""
    for key, route in sorted(ROUTES.items()):
        cls = request_class(key)
        for version in range(route.min_version, route.max_version + 1):
            good = encode_request(cls(), version, 1, "rubbish")[4:]
            head = struct.pack(">hhihb", key, version, 1, -1, 0)
            for _ in range(ROUNDS):
                yield frame(spoiled(dice, good))
                yield frame(head + dice.randbytes(dice.randint(0, 60)))
                yield frame(head + bytes(dice.randint(0, 60)))


@pytest.mark.parametrize("seed", range(3))
def test_rubbish_in_every_api_and_version(node, seed, caplog):
    dice = random.Random(seed)
    sent = 0
    with node.connect() as bystander:
        topic = make_topic(bystander)
        assert produce(bystander, topic, batch(b"kept")).error_code == 0
        for data in requests(dice):
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
    # Rubbish is the client's mistake: no handler may take it for one of its own.
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []
