"""What share groups were told and have stored, as the observer of brokers knows it.

`ShareOracle` is told what the batches of `__share_group_state` say when a replica appends them, as
`GroupOracle` is of `__consumer_offsets`.
"""

from __future__ import annotations

from typing import NamedTuple

from fencepost.machines.share.state_batch import SharePartitionKey
from fencepost.sim.partition_oracle import PartitionBatch, PartitionKey


class ShareStart(NamedTuple):
    """A record of `__share_group_state`: where a share partition begins. None is forgotten."""

    key: SharePartitionKey
    start_offset: int | None


class Delivered(NamedTuple):
    """A leader's answer to a member: records that it has acquired.

    `share` is the same for as long as one leader has the share partition in memory. Times are of
    the leader's clock: it was asked `from_ms`, and answers `to_ms`; `lock_ms` is how long it locks
    records at least. A deposed leader does not know it.
    """

    key: SharePartitionKey
    share: object
    member_id: str
    first: int
    last: int
    delivery_count: int
    limit: int
    from_ms: int
    to_ms: int
    lock_ms: int
    is_deposed: bool


class Returned(NamedTuple):
    """A member's request that has arrived: it holds these records no longer, or none at all.

    `is_settled`: the member accepts or rejects them, so that they are not to be delivered again.
    """

    key: SharePartitionKey | None
    group_id: str
    member_id: str
    first: int
    last: int
    is_settled: bool


class Renewed(NamedTuple):
    """A leader's answer that a member holds records for longer, from a time of the leader's clock
    on."""

    share: object
    member_id: str
    first: int
    last: int
    from_ms: int


class Settled(NamedTuple):
    """What a member of a share group has heard to be accepted, or rejected."""

    key: SharePartitionKey
    first: int
    last: int
    is_accepted: bool


class Letters(NamedTuple):
    """What a leader is about to write dead letters for."""

    key: SharePartitionKey
    first: int
    last: int
    is_deposed: bool


class ShareOracle:
    """See the module docstring."""

    def __init__(self) -> None:
        self.reads_committed = False
        """Whether share groups are given nothing of open or aborted transactions."""
        self._written: dict[tuple[PartitionKey, int], tuple[ShareStart, ...]] = {}

    def appended(
        self, partition: PartitionKey, batch: PartitionBatch, starts: tuple[ShareStart, ...]
    ) -> None:
        """A replica has a batch that says this. A batch is known by its checksum."""
        self._written[partition, batch.crc] = starts

    def starts_in(self, partition: PartitionKey, batch: PartitionBatch) -> tuple[ShareStart, ...]:
        """What a batch says, in its order."""
        return self._written.get((partition, batch.crc), ())
