"""The coordinator of transactions as a machine: decide, then apply."""

from fencepost.machines.transaction.config import TransactionConfig
from fencepost.machines.transaction.coordinator import TransactionCoordinator
from fencepost.machines.transaction.ending import Ended, EndTxn
from fencepost.machines.transaction.epochs import NEEDS_PRODUCER_ID
from fencepost.machines.transaction.initialization import Granted, InitProducerId
from fencepost.machines.transaction.listing import Filters, filters_for
from fencepost.machines.transaction.memory import TransactionMemory
from fencepost.machines.transaction.model import (
    TopicPartition,
    Transaction,
    TransactionState,
)
from fencepost.machines.transaction.partition_set import PartitionSet, by_topic, grouped
from fencepost.machines.transaction.partitions import AddPartitions
from fencepost.machines.transaction.records import TransactionCodec, TransactionRecord
from fencepost.machines.transaction.sends import AbortTimedOut, CompleteWith, SendMarkers
from fencepost.machines.transaction.shard import Decision

__all__ = [
    "NEEDS_PRODUCER_ID",
    "AbortTimedOut",
    "AddPartitions",
    "CompleteWith",
    "Decision",
    "EndTxn",
    "Ended",
    "Filters",
    "Granted",
    "InitProducerId",
    "PartitionSet",
    "SendMarkers",
    "TopicPartition",
    "Transaction",
    "TransactionCodec",
    "TransactionConfig",
    "TransactionCoordinator",
    "TransactionMemory",
    "TransactionRecord",
    "TransactionState",
    "by_topic",
    "filters_for",
    "grouped",
]
