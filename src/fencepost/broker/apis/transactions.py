"""What a broker serves to producers with transactions, and brokers to each other about them;
`runtime.requests` decides."""

from __future__ import annotations

from fencepost.broker.net.registry import handles
from fencepost.runtime.requests.add_offsets_to_txn import add_offsets_to_txn
from fencepost.runtime.requests.add_partitions_to_txn import add_partitions_to_txn
from fencepost.runtime.requests.end_txn import end_txn
from fencepost.runtime.requests.init_producer_id import init_producer_id
from fencepost.runtime.requests.txn_offset_commit import txn_offset_commit
from fencepost.runtime.requests.write_txn_markers import write_txn_markers
from fencepost.wire.api.add_offsets_to_txn import AddOffsetsToTxnRequest
from fencepost.wire.api.add_partitions_to_txn import AddPartitionsToTxnRequest
from fencepost.wire.api.end_txn import EndTxnRequest
from fencepost.wire.api.init_producer_id import InitProducerIdRequest
from fencepost.wire.api.txn_offset_commit import TxnOffsetCommitRequest
from fencepost.wire.api.write_txn_markers import WriteTxnMarkersRequest

# A transactional id that is not UTF-8 could not be stored as the producer sent it.
handles(InitProducerIdRequest, stores_text=True)(init_producer_id)
handles(AddPartitionsToTxnRequest)(add_partitions_to_txn)
handles(AddOffsetsToTxnRequest)(add_offsets_to_txn)
handles(EndTxnRequest)(end_txn)
handles(WriteTxnMarkersRequest)(write_txn_markers)
handles(TxnOffsetCommitRequest)(txn_offset_commit)
