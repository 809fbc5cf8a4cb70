"""WriteTxnMarkers (key 27) v1-2: a transaction's coordinator ends it in partitions of this node.

What is checked, and the errors per partition, are in `runtime.markers`. From v2 on a marker names
the version of the transaction protocol, by which the leader knows how strict to be about its epoch
(KIP-1228); an older one is taken as of version 0.

It is for brokers and administrators (CLUSTER_ACTION or ALTER on the cluster), which end
transactions with `kafka-transactions.sh abort`; to other clients each marker is
CLUSTER_AUTHORIZATION_FAILED in all of its partitions. A request of many markers is worked on in
pieces.
"""

from __future__ import annotations

from fencepost.runtime.markers import MarkerWriter, refuse_markers
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import Pieces, RequestContext
from fencepost.runtime.requests.permissions import ALTER_CLUSTER, CLUSTER_ACTION
from fencepost.wire.api.write_txn_markers import WriteTxnMarkersRequest
from fencepost.wire.errors import ErrorCode


def write_txn_markers(
    context: RequestContext,
    request: WriteTxnMarkersRequest,
    *,
    access: Access,
    markers: MarkerWriter,
) -> Pieces:
    """Have the markers written; answer when every one of them is committed or refused."""
    refusal = ErrorCode.NONE
    if not access.allows(context, ALTER_CLUSTER, quiet=True):
        refusal = access.refusal(context, CLUSTER_ACTION)
    if refusal:
        yield from refuse_markers(request, refusal, context.reply)
    else:
        yield from markers.pieces(request, context.reply)
    return None
