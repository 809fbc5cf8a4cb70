"""What a broker serves to consumers of share groups; `runtime.requests` decides."""

from __future__ import annotations

from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.broker.net.registry import handles
from fencepost.runtime.requests.context import Pieces
from fencepost.runtime.requests.share_acknowledge import share_acknowledge
from fencepost.runtime.requests.share_checks import ShareParts
from fencepost.runtime.requests.share_fetch import share_fetch
from fencepost.wire.api.share_acknowledge import ShareAcknowledgeRequest
from fencepost.wire.api.share_fetch import ShareFetchRequest

handles(ShareAcknowledgeRequest)(share_acknowledge)


@handles(ShareFetchRequest, in_pieces=True)
def fetch(
    context: PendingRequest,
    request: ShareFetchRequest,
    *,
    config: BrokerConfig,
    parts: ShareParts,
) -> Pieces:
    """Answer with records, or wait for them."""
    max_bytes = min(config.get("fetch.max.bytes"), context.fetch_bytes_max)
    return share_fetch(context, request, context.connection, max_bytes, parts=parts)
