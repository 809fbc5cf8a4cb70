"""AddPartitionsToTxn (key 24) v0-5: partitions become part of transactions.

What is decided is in `runtime.transaction_requests`, which leaders on the coordinator's own node
call as well. Kafka lets only brokers ask from v4 on (CLUSTER_ACTION); there is no authorizer here.
"""

from __future__ import annotations

from fencepost.broker.cluster.metadata_cache import MetadataCache
from fencepost.broker.net.registry import handles
from fencepost.broker.transactions.transaction_host import TransactionHost
from fencepost.runtime.requests.context import Pieces, RequestContext
from fencepost.runtime.transaction_requests import add_partitions
from fencepost.wire.api.add_partitions_to_txn import AddPartitionsToTxnRequest


@handles(AddPartitionsToTxnRequest)
def handle(
    context: RequestContext,
    request: AddPartitionsToTxnRequest,
    *,
    metadata: MetadataCache,
    transaction_host: TransactionHost,
) -> Pieces:
    """Have the coordinators decide; answer when all have."""
    version = context.api_version
    yield from add_partitions(transaction_host, metadata.image, request, version, context.reply)
    return None
