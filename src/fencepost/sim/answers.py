"""What the shell of a node adds to its machine's answers: bytes of the log and of snapshots.

The broker does the same when a connection is ready (`broker/apis/raft_fetch.py` and its
neighbours); here it is done at once.
"""

from __future__ import annotations

from typing import Any

from fencepost.machines.quorum import FetchBounds, fetch_response
from fencepost.machines.quorum.inputs import DraftBounds, SnapshotBounds
from fencepost.machines.quorum.messages import (
    fetch_snapshot_response,
    quorum_records_response,
    unreadable,
)
from fencepost.runtime.metadata.host import MetadataHost
from fencepost.wire.api.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    SupportedFeatureKey,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

KRAFT_VERSION = "kraft.version"


def compose(host: MetadataHost, value: Any) -> Message:
    """The response that goes with a machine's answer. LogError, OSError."""
    if isinstance(value, FetchBounds):
        records = _records(host, value)
        return fetch_response(unreadable(value) if records is None else value, records or b"")
    if isinstance(value, DraftBounds):
        records = _records(host, value)
        bounds = unreadable(value) if records is None else value
        return quorum_records_response(bounds, records or b"")
    if isinstance(value, SnapshotBounds):
        if value.error or value.snapshot_id is None or value.max_bytes <= 0:
            return fetch_snapshot_response(value)
        data = host.read_snapshot(value)
        if data is None:
            return fetch_snapshot_response(unreadable(value))
        return fetch_snapshot_response(value, data)
    made: Message = value
    return made


def _records(host: MetadataHost, bounds: FetchBounds | DraftBounds) -> bytes | None:
    """The bytes; None at a CRC mismatch."""
    if bounds.upper_bound_offset <= bounds.offset:
        return b""
    buffers = host.read(bounds)
    return None if buffers is None else b"".join(buffers)


def of_the_shell(request: Message) -> Message | None:
    """The answer to a request that no machine is asked about; None for all others."""
    if isinstance(request, ApiVersionsRequest):
        feature = SupportedFeatureKey(name=KRAFT_VERSION, min_version=0, max_version=1)
        return ApiVersionsResponse(error_code=ErrorCode.NONE, supported_features=[feature])
    return None
