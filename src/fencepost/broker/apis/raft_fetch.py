"""Fetch (key 1) v4-18 on a controller's listener: the metadata log, for the nodes that follow it.

The quorum machine says what may be read and from where on the reader's log is another one
(`machines.quorum.serving`); here are the bytes. There are no fetch sessions, as in Kafka: each
request names the one partition.

The bytes are read when the connection is ready to send them, which may be later. They are what the
machine meant only as long as this node leads in the same epoch, since a leader's log only grows.
Otherwise the reader is told to look for the leader.
"""

from __future__ import annotations

from msgspec.structs import replace

from fencepost.broker.cluster.quorum_requests import told_on
from fencepost.broker.loop.fault_handler import FaultHandler
from fencepost.broker.net.registry import CONTROLLER, handles
from fencepost.log.errors import LogError
from fencepost.machines.driver import Driver
from fencepost.machines.quorum import FetchBounds, Role, fetch_response, received, unreadable
from fencepost.machines.quorum.versions import fit
from fencepost.runtime.metadata.host import METADATA_KEY, MetadataHost
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import RequestContext
from fencepost.runtime.requests.permissions import CLUSTER_ACTION
from fencepost.wire.api.fetch import FetchRequest, FetchResponse
from fencepost.wire.errors import ErrorCode


@handles(FetchRequest, listeners=(CONTROLLER,))
def handle(
    context: RequestContext,
    request: FetchRequest,
    *,
    access: Access,
    driver: Driver,
    metadata: MetadataHost,
    faults: FaultHandler,
) -> None:
    """Answer with batches of the metadata log, or wait for them."""

    if refusal := access.refusal(context, CLUSTER_ACTION):
        context.fail(refusal)
        return

    def on_bounds(bounds: FetchBounds) -> None:
        def answer() -> FetchResponse:
            response = told_on(
                context.listener_name, metadata.machine, _read(metadata, faults, bounds)
            )
            return fit(response, context.api_version)

        context.reply_lazily(answer)

    driver.feed(METADATA_KEY, received(on_bounds, request))


def _read(metadata: MetadataHost, faults: FaultHandler, bounds: FetchBounds) -> FetchResponse:
    """The response with the bytes within `bounds`."""
    if bounds.error or bounds.upper_bound_offset <= bounds.offset:
        return fetch_response(bounds)
    machine = metadata.machine
    if machine.role is not Role.LEADER or machine.epoch != bounds.leader_epoch:
        return _refused(bounds, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    try:
        buffers = metadata.read(bounds)
    except (LogError, OSError) as error:
        faults.fail(f"the metadata log cannot be read: {error}")
        return _refused(bounds, ErrorCode.KAFKA_STORAGE_ERROR)
    return fetch_response(unreadable(bounds) if buffers is None else bounds, buffers or b"")


def _refused(bounds: FetchBounds, error: ErrorCode) -> FetchResponse:
    return fetch_response(replace(bounds, error=error))
