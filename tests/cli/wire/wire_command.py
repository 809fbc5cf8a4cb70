"""What the tests of `fencepost wire` share: how a run ended, and some frames."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from fencepost.batch.records import build_batch
from fencepost.wire.api import ApiVersionsRequest, HeartbeatResponse, ProduceRequest
from fencepost.wire.api.produce import PartitionProduceData, TopicProduceData
from fencepost.wire.frame import encode_request, encode_response_parts


class Ran(NamedTuple):
    code: int
    raw: bytes
    err: str

    @property
    def out(self) -> str:
        return self.raw.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.raw)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


Wire = Callable[..., Ran]


BATCH = build_batch([(b"k", b"v", [("h", b"\xff")]), (None, b"")], timestamp_ms=5)


def produced() -> bytes:
    partition = PartitionProduceData(index=3, records=BATCH)
    message = ProduceRequest(
        acks=-1, topic_data=[TopicProduceData(name="t", partition_data=[partition])]
    )
    return encode_request(message, 9, 8, None)


def asked() -> bytes:
    return encode_request(ApiVersionsRequest(client_software_name="me"), 3, 7, "ä")


def answered(error_code: int = 0) -> bytes:
    return b"".join(encode_response_parts(HeartbeatResponse(error_code=error_code), 4, 9))
