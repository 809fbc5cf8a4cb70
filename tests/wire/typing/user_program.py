"""What a user of the codec writes, right and wrong, for type checkers.

A line that must be refused says so at its end: `# mypy:` and the code of the error there, then
`pyright:` and the rule. All other lines must be clean. The file is read, never run.
"""

from typing import assert_type

from fencepost.client.connection import Connection
from fencepost.client.protocol.in_flight import Token
from fencepost.wire import api
from fencepost.wire.api import (
    FetchRequest,
    MetadataRequest,
    MetadataResponse,
    request_class,
    response_class,
)
from fencepost.wire.api.fetch import FetchPartition, FetchRequest as FromModule, FetchTopic
from fencepost.wire.frame import decode_request, decode_response
from fencepost.wire.header import RequestHeader, ResponseHeader
from fencepost.wire.message import Field, Message, Request, Struct, field
from fencepost.wire.types import Buffer, Int32, String, Uuid

# Constructors: keywords only, all of them optional, with the types of the fields.
request = FetchRequest(
    max_wait_ms=500,
    cluster_id=None,
    topics=[FetchTopic(topic="orders", topic_id=Uuid.ZERO, partitions=[FetchPartition()])],
    unknown_tags={9: b"x"},
)
FetchRequest(max_wait_ms="500")  # mypy: arg-type pyright: reportArgumentType
FetchRequest(max_wait_ms=None)  # mypy: arg-type pyright: reportArgumentType
FetchRequest(max_wait=500)  # mypy: call-arg pyright: reportCallIssue
FetchRequest(500)  # mypy: call-arg, arg-type pyright: reportCallIssue
FetchRequest(topics=[FetchPartition()])  # mypy: list-item pyright: reportArgumentType
FetchTopic(topic_id=b"0123456789abcdef")  # mypy: arg-type pyright: reportArgumentType

# Fields: every one is known, with its type, for reading and for writing.
assert_type(request, FetchRequest)
assert_type(request.max_wait_ms, int)
assert_type(request.cluster_id, str | None)
assert_type(request.topics, list[FetchTopic])
assert_type(request.topics[0].partitions[0].fetch_offset, int)
assert_type(request.replica_state.replica_id, int)
assert_type(request.unknown_tags, dict[int, bytes] | None)
request.max_bytes = 1
request.max_bytes = "1"  # mypy: assignment pyright: reportAttributeAccessIssue
print(request.topics[0].partition)  # mypy: attr-defined pyright: reportAttributeAccessIssue
request.cluster_id.upper()  # mypy: union-attr pyright: reportOptionalMemberAccess
request.nothing = 1  # mypy: attr-defined pyright: reportAttributeAccessIssue

# Bytes and back.
data = request.encode(12)
assert_type(data, bytes)
assert_type(request.encode_parts(12), list[Buffer])
assert_type(FetchRequest.decode(data, 12), FetchRequest)
assert_type(MetadataResponse.read(data, 0, version=12), tuple[MetadataResponse, int])
request.encode("12")  # mypy: arg-type pyright: reportArgumentType
FetchRequest.decode("text", 12)  # mypy: arg-type pyright: reportArgumentType

# Frames, and what is asked of a broker: a request knows the class of its response.
assert_type(decode_request(data), tuple[RequestHeader, Request[Message]])
assert_type(decode_response(MetadataResponse, 12, data), tuple[ResponseHeader, MetadataResponse])
with Connection("localhost", 9092) as connection:
    assert_type(connection.request(MetadataRequest(topics=None)), MetadataResponse)
    assert_type(connection.request(MetadataRequest()).brokers[0].port, int)
    token = connection.send(request)
    assert_type(token, Token[api.FetchResponse])
    assert_type(connection.receive(token).responses[0].partitions[0].error_code, int)
    assert_type(connection.request(request_class(3)()), Message)
    connection.request(MetadataResponse())  # mypy: arg-type pyright: reportArgumentType

# Classes by key, and the same class from both places.
by_class = {FetchRequest: 1, response_class(3): 3}
assert_type(by_class[MetadataResponse], int)
assert_type(request_class(1), type[Request[Message]])
assert_type(response_class(1).decode(data, 12), Message)
found: type[FromModule] = FetchRequest
assert_type(api.FetchRequest, type[FetchRequest])
api.NoSuchRequest()  # mypy: attr-defined pyright: reportAttributeAccessIssue
wrong: type[FetchRequest] = MetadataResponse  # mypy: assignment pyright: reportAssignmentType

# What a class says of itself.
assert_type(FetchRequest.api_key, int | None)
assert_type(FetchRequest.min_version, int)
assert_type(FetchRequest.fields, tuple[Field, ...])
assert_type(FetchRequest.is_flexible(12), bool)


# Classes of one's own are checked in the same way.
class Lap(Struct):
    """A struct of a user."""

    number: Int32 = field(doc="From 1 up.")
    driver: String | None = field("1+", default=None, doc="Who.")


class Race(Message, kind="data", versions="0-1"):
    """A message of a user."""

    laps: list[Lap] = field(doc="In order.")


assert_type(Race(laps=[Lap(number=1)]).laps[0].driver, str | None)
Lap(number="one")  # mypy: arg-type pyright: reportArgumentType
Race(laps=[1])  # mypy: list-item pyright: reportArgumentType
