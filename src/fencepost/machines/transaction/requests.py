"""What is asked of a coordinator about the partitions of a transaction: decided in `partitions`,
perhaps kept for a while in `waiting`."""

from __future__ import annotations

from typing import NamedTuple

from fencepost.machines.transaction.model import TopicPartition


class AddPartitions(NamedTuple):
    """AddPartitionsToTxn, of one transaction, or AddOffsetsToTxn."""

    transactional_id: str
    producer_id: int
    epoch: int
    partitions: frozenset[TopicPartition]
    client_version: int = 0
    """2 if a leader adds them for a producer of version 2 (AddPartitionsToTxn v4 and later)."""
