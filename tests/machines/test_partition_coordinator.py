"""A coordinator's own batches: refused or in the log at once, never a later leader's business."""

from __future__ import annotations

from fencepost.batch.record_batch import RecordBatch
from fencepost.machines.partition import (
    BecomeFollower,
    CoordinatorAppend,
    PartitionConfig,
    ProduceResult,
    StopReplica,
)
from fencepost.wire.errors import ErrorCode

from .fakes import batch
from .test_partition_produce import KEY, Leader


def append(leader: Leader, token: str, leader_epoch: int = 1, count: int = 1) -> ProduceResult:
    data = RecordBatch.parse(batch(count, producer=(5, 0, 40)))
    leader.feed(CoordinatorAppend(data, leader_epoch, token))
    return leader.world.replies[token]


def test_it_is_answered_when_it_is_appended_and_not_yet_committed() -> None:
    leader = Leader((1, 2))
    assert append(leader, "a", count=3) == ProduceResult(ErrorCode.NONE, 0, -1, 0)
    assert append(leader, "b").base_offset == 3
    assert leader.log.end_offset == 4 and leader.machine.high_watermark == 0


def test_its_producers_sequence_is_not_looked_at() -> None:
    """What a coordinator writes in a client's transaction begins with any sequence, and again."""
    leader = Leader()
    assert [append(leader, token).error_code for token in "ab"] == [ErrorCode.NONE] * 2
    assert leader.log.end_offset == 2


def test_too_few_replicas_in_sync_refuse_it() -> None:
    leader = Leader((1, 2), isr=(1,), config=PartitionConfig(min_insync_replicas=2))
    assert append(leader, "a").error_code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert leader.log.end_offset == 0


def test_what_was_decided_in_another_epoch_is_refused() -> None:
    leader = Leader()
    leader.lead(2, 2, (1,), (1,))
    assert append(leader, "old", 1).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert append(leader, "new", 2).error_code is ErrorCode.NONE
    leader.feed(BecomeFollower(2, 3, 3, (1, 2), (1, 2)))
    assert append(leader, "lost", 3).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_disk_that_refuses_refuses_it() -> None:
    leader = Leader()
    leader.log.refuses = "no space left"
    assert append(leader, "a").error_code is ErrorCode.KAFKA_STORAGE_ERROR
    leader.log.refuses = None
    assert append(leader, "b").error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert KEY in leader.world.failures and leader.log.end_offset == 0


def test_a_replica_that_is_gone_refuses_it() -> None:
    leader = Leader()
    leader.feed(StopReplica(is_deleted=True))
    assert append(leader, "a").error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
