"""FetchQuorumRecords, the draft of KIP-595, on controllers' listeners of operators who ask for it.

The draft never had an API key that was its own, so `fencepost.draft.fetch.quorum.records.api.key`
gives it one; without that it is not served. A request of v0 is behind a request header v1, one of
v1, which is flexible, behind a v2. The same quorum machine answers as it does Fetch, through an
adapter (`machines/quorum/draft.py`).

With `fencepost.draft.fetch.quorum.records.follow.version` this node fetches the metadata log with
FetchQuorumRecords of that version, at the same key, and never with Fetch.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from fencepost.broker.loop.fault_handler import FaultHandler
from fencepost.broker.net.registry import Route
from fencepost.client.protocol.versions import KeyedApi
from fencepost.log.errors import LogError
from fencepost.machines.driver import Driver
from fencepost.machines.quorum.draft import NOT_SPOKEN
from fencepost.machines.quorum.inputs import DraftBounds, QuorumRecordsReceived
from fencepost.machines.quorum.messages import quorum_records_response, unreadable
from fencepost.machines.quorum.roles import Role
from fencepost.runtime.metadata.host import METADATA_KEY, MetadataHost
from fencepost.runtime.requests.context import RequestContext
from fencepost.wire.draft.fetch_quorum_records import (
    FetchQuorumRecordsRequest,
    FetchQuorumRecordsResponse,
)
from fencepost.wire.errors import ErrorCode

KEY: Final = "fencepost.draft.fetch.quorum.records.api.key"
FOLLOW_KEY: Final = "fencepost.draft.fetch.quorum.records.follow.version"


def draft_routes(api_key: int) -> dict[int, Route]:
    """The draft under this key; nothing if it is negative."""
    if api_key < 0:
        return {}
    low, high = FetchQuorumRecordsRequest.min_version, FetchQuorumRecordsRequest.max_version
    name = "FetchQuorumRecords"
    return {api_key: Route(api_key, name, FetchQuorumRecordsRequest, low, high, low, handle)}


def draft_to_follow(api_key: int, version: int) -> KeyedApi | None:
    """How to ask other controllers for FetchQuorumRecords; None for a node that uses Fetch."""
    if version == NOT_SPOKEN:
        return None
    return KeyedApi(api_key, version, FetchQuorumRecordsResponse)


def handle(
    context: RequestContext,
    request: FetchQuorumRecordsRequest,
    *,
    driver: Driver,
    metadata: MetadataHost,
    faults: FaultHandler,
) -> None:
    """Answer with batches of the metadata log, or wait for them."""

    def on_bounds(bounds: DraftBounds) -> None:
        context.reply_lazily(lambda: _read(metadata, faults, bounds))

    given = QuorumRecordsReceived(on_bounds, request, context.api_version)
    driver.feed(METADATA_KEY, given)


def _read(
    metadata: MetadataHost, faults: FaultHandler, bounds: DraftBounds
) -> FetchQuorumRecordsResponse:
    """The response with the bytes within `bounds`, as long as they are meant; see `raft_fetch`."""
    if bounds.upper_bound_offset <= bounds.offset:
        return quorum_records_response(bounds)
    machine = metadata.machine
    if machine.role is not Role.LEADER or machine.epoch != bounds.leader_epoch:
        return quorum_records_response(replace(bounds, error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    try:
        buffers = metadata.read(bounds)
    except (LogError, OSError) as error:
        faults.fail(f"the metadata log cannot be read: {error}")
        return quorum_records_response(replace(bounds, error=ErrorCode.KAFKA_STORAGE_ERROR))
    return quorum_records_response(
        unreadable(bounds) if buffers is None else bounds, buffers or b""
    )
