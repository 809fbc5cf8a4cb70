"""Requests that make no sense, for every API and version that a listener serves."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Mapping

from fencepost.broker.net.registry import Route
from fencepost.wire.api import request_class
from fencepost.wire.frame import encode_request

ROUNDS = 3


def malformed_requests(dice: random.Random, routes: Mapping[int, Route]) -> Iterator[bytes]:
    """Frames with spoiled and random bodies, several of each kind."""
    for key, route in sorted(routes.items()):
        for version in range(route.min_version, route.max_version + 1):
            good = encode_request(request_class(key)(), version, 1, "garbage")[4:]
            head = struct.pack(">hhihb", key, version, 1, -1, 0)
            for _ in range(ROUNDS):
                for body in (
                    spoiled(dice, good),
                    head + dice.randbytes(dice.randint(0, 60)),
                    head + bytes(dice.randint(0, 60)),
                ):
                    yield struct.pack(">i", len(body)) + body


def spoiled(dice: random.Random, good: bytes) -> bytes:
    """A request with something wrong: cut, lengthened, bits flipped, or numbers replaced."""
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
