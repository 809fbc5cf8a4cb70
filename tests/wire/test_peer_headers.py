"""The header in front of every request and response, as kio and kafka-python expect it there.

Both choose the header of an API and version by rules of their own. Here they read ours, for all
APIs and versions: the header must end where the message begins, and say what we said.
"""

from __future__ import annotations

import io
from typing import Any

import pytest

from fencepost.wire import api
from fencepost.wire.frame import encode_request_parts, encode_response_parts
from fencepost.wire.message import VersionRange

from .test_peers import PAIRS, for_each_known, kafka_python_class, kio_class, typical

kio_serial = pytest.importorskip("kio.serial")

UNKNOWN_TO_BOTH = {
    # ZooKeeper's, or from before the versions that 4.x begins with:
    "LeaderAndIsr": "0-7",
    "StopReplica": "0-4",
    "UpdateMetadata": "0-8",
    "ControlledShutdown": "0-3",
    "CreateDelegationToken": "0",
    "RenewDelegationToken": "0",
    "ExpireDelegationToken": "0",
    "DescribeDelegationToken": "0",
    "AlterPartition": "0-1",
    # Early access:
    "ShareGroupHeartbeat": "0",
    "ShareGroupDescribe": "0",
    "ShareFetch": "0",
    "ShareAcknowledge": "0",
    # Newer than the peers:
    "ApiVersions": "5",
    "TxnOffsetCommit": "6",
    "DeleteGroups": "3",
    "StreamsGroupHeartbeat": "1",
    "StreamsGroupDescribe": "1",
    "StreamsGroupTopologyDescriptionUpdate": "0",
    "UnregisterController": "0",
}
CORRELATION_ID = 0x01020304
CLIENT_ID = "mé"


def header_bytes(cls: Any, version: int) -> bytes:
    """What `frame` puts between the length and the message."""
    message = typical(cls, version, nulls=False)
    if cls.kind == "request":
        parts = encode_request_parts(message, version, CORRELATION_ID, CLIENT_ID)
    else:
        parts = encode_response_parts(message, version, CORRELATION_ID)
    frame, body = b"".join(map(bytes, parts)), message.encode(version)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert frame.endswith(body)
    return frame[4 : len(frame) - len(body)]


def check(header: Any, cls: Any, version: int) -> None:
    """Whether a peer's header says what we meant."""
    assert header.correlation_id == CORRELATION_ID
    if cls.kind == "request":
        said = (header.request_api_key, header.request_api_version)
        assert said == (cls.api_key, version)
        assert getattr(header, "client_id", CLIENT_ID) == CLIENT_ID


def test_kio_reads_our_headers() -> None:
    for_each_known(kio_class, check_kio_reads)


def check_kio_reads(theirs: Any, cls: Any, version: int) -> None:
    data = header_bytes(cls, version)
    header, size = kio_serial.entity_reader(theirs.__header_schema__)(data, 0)
    assert size == len(data)
    check(header, cls, version)


def test_kafka_python_reads_our_headers() -> None:
    for_each_known(kafka_python_class, check_kafka_python_reads)


def check_kafka_python_reads(theirs: Any, cls: Any, version: int) -> None:
    data = io.BytesIO(header_bytes(cls, version))
    header = theirs.parse_header(data, version=version)
    assert data.read() == b""
    check(header, cls, version)


def test_kinds_of_headers() -> None:
    """All there are: the sizes of headers, in front of flexible messages and of others."""
    sizes: dict[tuple[str, bool, int], set[str]] = {}
    for cls, version in PAIRS:
        kind = (cls.kind, cls.is_flexible(version), len(header_bytes(cls, version)))
        sizes.setdefault(kind, set()).add(cls.__name__)
    client_id = 2 + len(CLIENT_ID.encode())
    assert sizes.keys() == {
        ("request", False, 8),
        ("request", False, 8 + client_id),
        ("request", True, 8 + client_id + 1),
        ("response", False, 4),
        ("response", True, 4),
        ("response", True, 4 + 1),
    }
    assert sizes["request", False, 8] == {"ControlledShutdownRequest"}
    assert sizes["response", True, 4] == {"ApiVersionsResponse"}
    assert "ApiVersionsResponse" not in sizes["response", True, 4 + 1]


def test_most_headers_are_read_by_another_library() -> None:
    for cls, version in PAIRS:
        known = bool(kio_class(cls, version) or kafka_python_class(cls, version))
        excepted = VersionRange.parse(UNKNOWN_TO_BOTH.get(api.api_name(cls.api_key), "none"))
        assert known != excepted.holds(version), (cls, version)
