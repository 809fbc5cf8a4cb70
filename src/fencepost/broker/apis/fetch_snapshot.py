"""FetchSnapshot (key 59) v0-1: a metadata snapshot in pieces, for who is too far behind (KIP-630).

Which snapshot may be read, and from where, is the quorum machine's to say; here are the bytes. They
need not end where a batch does. A snapshot that has gone meanwhile is error 98, after which the
reader begins again with a fetch.
"""

from __future__ import annotations

from msgspec.structs import replace

from fencepost.broker.cluster.quorum_requests import told_on
from fencepost.broker.loop.fault_handler import FaultHandler
from fencepost.broker.net.registry import CONTROLLER, handles
from fencepost.machines.driver import Driver
from fencepost.machines.quorum import received
from fencepost.machines.quorum.inputs import SnapshotBounds
from fencepost.machines.quorum.messages import fetch_snapshot_response
from fencepost.machines.quorum.versions import fit
from fencepost.runtime.metadata.host import METADATA_KEY, MetadataHost
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import RequestContext
from fencepost.runtime.requests.permissions import CLUSTER_ACTION
from fencepost.wire.api.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from fencepost.wire.errors import ErrorCode


@handles(FetchSnapshotRequest, listeners=(CONTROLLER,))
def handle(
    context: RequestContext,
    request: FetchSnapshotRequest,
    *,
    access: Access,
    driver: Driver,
    metadata: MetadataHost,
    faults: FaultHandler,
) -> None:
    """Answer with a piece of the snapshot."""

    if refusal := access.refusal(context, CLUSTER_ACTION):
        context.fail(refusal)
        return

    def on_bounds(bounds: SnapshotBounds) -> None:
        def answer() -> FetchSnapshotResponse:
            response = told_on(
                context.listener_name, metadata.machine, _read(metadata, faults, bounds)
            )
            return fit(response, context.api_version)

        context.reply_lazily(answer)

    driver.feed(METADATA_KEY, received(on_bounds, request))


def _read(
    metadata: MetadataHost, faults: FaultHandler, bounds: SnapshotBounds
) -> FetchSnapshotResponse:
    """The response with the bytes within `bounds`."""
    if bounds.error or bounds.snapshot_id is None:
        return fetch_snapshot_response(bounds)
    try:
        data = metadata.read_snapshot(bounds)
    except OSError as error:
        faults.fail(f"the metadata snapshot cannot be read: {error}")
        return _refused(bounds, ErrorCode.KAFKA_STORAGE_ERROR)
    if data is None:
        return _refused(bounds, ErrorCode.SNAPSHOT_NOT_FOUND)
    return fetch_snapshot_response(bounds, data)


def _refused(bounds: SnapshotBounds, error: ErrorCode) -> FetchSnapshotResponse:
    return fetch_snapshot_response(replace(bounds, error=error, snapshot_id=None))
