"""What a client hears when all offsets of a TxnOffsetCommit have one error."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.runtime.coordinator import Coordinator
from fencepost.runtime.transactional_commits import TransactionalCommits, _for_client
from fencepost.wire.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from fencepost.wire.errors import ErrorCode

LOADS = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
AWAY = ErrorCode.COORDINATOR_NOT_AVAILABLE
BUSY = ErrorCode.CONCURRENT_TRANSACTIONS
BAD_STATE, ABORTABLE = ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE

TOLD = {
    ErrorCode.NETWORK_EXCEPTION: [AWAY, AWAY, LOADS, LOADS, LOADS, LOADS],
    LOADS: [AWAY, AWAY, LOADS, LOADS, LOADS, LOADS],
    BUSY: [AWAY, AWAY, LOADS, LOADS, LOADS, BUSY],
    ABORTABLE: [BAD_STATE] * 4 + [ABORTABLE] * 2,
    ErrorCode.PRODUCER_FENCED: [ErrorCode.INVALID_PRODUCER_EPOCH] * 6,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: [AWAY] * 6,
    ErrorCode.REQUEST_TIMED_OUT: [AWAY] * 6,
    ErrorCode.NOT_ENOUGH_REPLICAS: [AWAY] * 6,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: [ErrorCode.NOT_COORDINATOR] * 6,
    ErrorCode.FENCED_LEADER_EPOCH: [ErrorCode.NOT_COORDINATOR] * 6,
    ErrorCode.KAFKA_STORAGE_ERROR: [ErrorCode.NOT_COORDINATOR] * 6,
}
"""By version."""


@pytest.mark.parametrize("error", list(ErrorCode), ids=lambda error: error.name)
def test_by_version(error: ErrorCode) -> None:
    heard = [_for_client(error, version) for version in range(6)]
    assert heard == TOLD.get(error, [error] * 6)


IMAGE: Any = SimpleNamespace(
    topics_by_name={"t": SimpleNamespace(name="t", topic_id=None, partitions={0: None, 1: None})}
)


def heard(coordinator: Any, *indexes: int, version: int = 5) -> list[int]:
    """The errors of a commit, which never comes as far as to ask for the transaction."""
    groups: Any = SimpleNamespace(coordinator_of=lambda group: coordinator)
    commits = TransactionalCommits(None, groups, None, lambda: IMAGE)  # type: ignore[arg-type]
    entries = [TxnOffsetCommitRequestPartition(partition_index=index) for index in indexes]
    topic = TxnOffsetCommitRequestTopic(name="t", partitions=entries)
    answers: list[Any] = []
    request = TxnOffsetCommitRequest(transactional_id="tx", group_id="g", topics=[topic])
    commits.commit(request, version, lambda topic: ErrorCode.NONE, answers.append)
    [answer] = answers
    return [entry.error_code for topic in answer.topics for entry in topic.partitions]


@pytest.mark.parametrize("version", [0, 3, 5])
def test_while_the_groups_coordinator_loads_nobody_is_asked(version: int) -> None:
    coordinator: Any = Coordinator.__new__(Coordinator)
    coordinator.state = SimpleNamespace(value=LOADS)
    expected = AWAY if version < 2 else LOADS
    assert heard(coordinator, 0, 1, version=version) == [expected] * 2


def test_partitions_end_before_their_count() -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    moved = ErrorCode.NOT_COORDINATOR
    assert heard(moved, -1, 0, 1, 2) == [unknown, moved, moved, unknown]
