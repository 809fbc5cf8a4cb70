"""WriteTxnMarkers (key 27) v1-2: a transaction's coordinator ends it in partitions of this node.

What is checked, and the errors per partition, are in `runtime.markers`. From v2 on a marker names
the version of the transaction protocol, by which the leader knows how strict to be about its epoch
(KIP-1228); an older one is taken as of version 0.

Kafka allows this to brokers and administrators only (CLUSTER_ACTION or ALTER on the cluster); there
is no authorizer here, so a client may end a transaction whose producer id and epoch it knows, as
`kafka-transactions.sh abort` does. A request of many markers is worked on in pieces.
"""

from __future__ import annotations

from fencepost.runtime.markers import MarkerWriter
from fencepost.runtime.requests.context import Pieces, RequestContext
from fencepost.wire.api.write_txn_markers import WriteTxnMarkersRequest


def write_txn_markers(
    context: RequestContext, request: WriteTxnMarkersRequest, *, markers: MarkerWriter
) -> Pieces:
    """Have the markers written; answer when every one of them is committed or refused."""
    yield from markers.pieces(request, context.reply)
    return None
