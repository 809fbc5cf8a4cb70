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
from fencepost.wire.types import Uuid

from ..in_turn import in_turn

FORBIDDEN = ErrorCode.TOPIC_AUTHORIZATION_FAILED
LOADS = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
AWAY = ErrorCode.COORDINATOR_NOT_AVAILABLE
BUSY = ErrorCode.CONCURRENT_TRANSACTIONS
BAD_STATE, ABORTABLE = ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE

TOLD = {
    ErrorCode.NETWORK_EXCEPTION: [AWAY, AWAY, LOADS, LOADS, LOADS, LOADS, LOADS],
    LOADS: [AWAY, AWAY, LOADS, LOADS, LOADS, LOADS, LOADS],
    BUSY: [AWAY, AWAY, LOADS, LOADS, LOADS, BUSY, BUSY],
    ABORTABLE: [BAD_STATE] * 4 + [ABORTABLE] * 3,
    ErrorCode.PRODUCER_FENCED: [ErrorCode.INVALID_PRODUCER_EPOCH] * 7,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: [AWAY] * 7,
    ErrorCode.REQUEST_TIMED_OUT: [AWAY] * 7,
    ErrorCode.NOT_ENOUGH_REPLICAS: [AWAY] * 7,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: [ErrorCode.NOT_COORDINATOR] * 7,
    ErrorCode.FENCED_LEADER_EPOCH: [ErrorCode.NOT_COORDINATOR] * 7,
    ErrorCode.KAFKA_STORAGE_ERROR: [ErrorCode.NOT_COORDINATOR] * 7,
}
"""By version."""


@in_turn("error", list(ErrorCode))
def test_by_version(error: ErrorCode) -> None:
    heard = [_for_client(error, version) for version in range(7)]
    assert heard == TOLD.get(error, [error] * 7)


TOPIC_ID = Uuid(b"the id of topic_")
TOPIC = SimpleNamespace(name="t", topic_id=TOPIC_ID, partitions={0: None, 1: None})
IMAGE: Any = SimpleNamespace(topics_by_name={"t": TOPIC}, topics_by_id={TOPIC_ID: TOPIC})


def heard(
    coordinator: Any,
    *indexes: int,
    version: int = 5,
    topic_id: Uuid = TOPIC_ID,
    refusal: ErrorCode = ErrorCode.NONE,
) -> list[int]:
    """The errors of a commit, which never comes as far as to ask for the transaction.

    Up to v5 it names the topic, from v6 on its id.
    """
    groups: Any = SimpleNamespace(coordinator_of=lambda group: coordinator)
    commits = TransactionalCommits(None, groups, None, lambda: IMAGE)  # type: ignore[arg-type]
    entries = [TxnOffsetCommitRequestPartition(partition_index=index) for index in indexes]
    topic = (
        TxnOffsetCommitRequestTopic(name="t", partitions=entries)
        if version < 6
        else TxnOffsetCommitRequestTopic(topic_id=topic_id, partitions=entries)
    )
    answers: list[Any] = []
    request = TxnOffsetCommitRequest(transactional_id="tx", group_id="g", topics=[topic])
    asked: list[str] = []

    def refuse(topic: str) -> ErrorCode:
        asked.append(topic)
        return refusal

    commits.commit(request, version, refuse, answers.append)
    assert asked == ["t"] * (version < 6 or topic_id == TOPIC_ID), "permissions go by names"
    [answer] = answers
    assert [(one.name, one.topic_id) for one in answer.topics] == [(topic.name, topic.topic_id)]
    return [entry.error_code for topic in answer.topics for entry in topic.partitions]


@pytest.mark.parametrize("version", [0, 3, 5, 6])
def test_while_the_groups_coordinator_loads_the_commit_is_refused(version: int) -> None:
    coordinator: Any = Coordinator.__new__(Coordinator)
    coordinator.state = SimpleNamespace(value=LOADS)
    expected = AWAY if version < 2 else LOADS
    assert heard(coordinator, 0, 1, version=version) == [expected] * 2


@pytest.mark.parametrize("version", [5, 6])
def test_partitions_end_before_their_count(version: int) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    moved = ErrorCode.NOT_COORDINATOR
    assert heard(moved, -1, 0, 1, 2, version=version) == [unknown, moved, moved, unknown]


@pytest.mark.parametrize("topic_id", [Uuid(b"no topic's id 16"), Uuid.ZERO])
def test_an_id_without_a_topic_is_unknown_to_everyone(topic_id: Uuid) -> None:
    """Before permissions are looked at, as in Fetch and OffsetCommit (KIP-1319)."""
    told = heard(ErrorCode.NOT_COORDINATOR, 0, version=6, topic_id=topic_id, refusal=FORBIDDEN)
    assert told == [ErrorCode.UNKNOWN_TOPIC_ID]
    assert heard(ErrorCode.NOT_COORDINATOR, 0, version=6, refusal=FORBIDDEN) == [FORBIDDEN]
