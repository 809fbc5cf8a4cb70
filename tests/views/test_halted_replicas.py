"""Why replicas are not in sync, by what brokers say of their log directories."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.client.conversation import Conversation, drive
from fencepost.client.errors import ConnectionFailed
from fencepost.client.metadata import TopicPartition
from fencepost.client.replicas import LogDirState, ReplicaInDir
from fencepost.views import topics
from fencepost.views.topics import (
    NO_LOG,
    NOT_THERE,
    HaltedReplica,
    PartitionView,
    viewing_halted_replicas,
)
from fencepost.wire.errors import ErrorCode


def partition(number: int, isr: list[int], leader: int = 1, offline: Any = ()) -> PartitionView:
    return PartitionView(number, leader, 0, [1, 2], isr, list(offline), None, None)


class Brokers:
    """What two brokers answer; an exception is raised."""

    def __init__(self, *dirs: LogDirState, error: Exception | None = None) -> None:
        self.metadata = SimpleNamespace(nodes={1: None, 2: None})
        self.dirs = list(dirs)
        self.error = error
        self.asked: list[int] = []

    def describing_log_dirs(
        self, broker_id: int, partitions: Any
    ) -> Conversation[list[LogDirState]]:
        self.asked.append(broker_id)
        if self.error is not None:
            raise self.error
        return self.dirs
        yield  # a conversation without a step

    def halted(self, *partitions: PartitionView, **known: Any) -> list[tuple[int, int, str]]:
        view: Any = self
        unreachable = known.get("unreachable", {})
        asked = viewing_halted_replicas(view, "t", partitions, unreachable)
        found: list[HaltedReplica] = drive(asked, lambda step: None)
        return [(one.partition, one.replica, one.why) for one in found]


@pytest.fixture(autouse=True)
def fake_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The view of the cluster is the fake, which answers for its brokers."""
    monkeypatch.setattr(
        topics,
        "describing_log_dirs",
        lambda view, broker_id, partitions: view.describing_log_dirs(broker_id, partitions),
    )


def log_dir(path: str, error: int = 0, **replicas: ReplicaInDir) -> LogDirState:
    held = {TopicPartition("t", int(name[1:])): one for name, one in replicas.items()}
    return LogDirState(path, error, 0, 0, False, held)


def test_nobody_is_asked_while_all_are_in_sync():
    brokers = Brokers()
    assert brokers.halted(partition(0, [1, 2])) == []
    assert brokers.asked == []


def test_a_replica_that_lags_and_one_without_a_log():
    brokers = Brokers(log_dir("/a", p0=ReplicaInDir(100, 7, False)))
    assert brokers.halted(partition(0, [1]), partition(1, [1], offline=[2])) == [
        (0, 2, "its log in /a lacks 7 records that it knows of"),
        (1, 2, NO_LOG),
    ]
    assert brokers.asked == [2], "once for all partitions"


def test_a_copy_on_its_way_is_no_log():
    brokers = Brokers(log_dir("/a", p0=ReplicaInDir(100, 7, True)))
    assert brokers.halted(partition(0, [1])) == [(0, 2, NO_LOG)]


def test_a_log_of_a_partition_without_a_leader():
    brokers = Brokers(log_dir("/a", p0=ReplicaInDir(100, 0, False)))
    assert brokers.halted(partition(0, [1], leader=-1)) == [
        (0, 2, "its log is in /a; no replica leads")
    ]


def test_a_directory_that_is_offline_may_have_it():
    brokers = Brokers(log_dir("/a"), log_dir("/b", ErrorCode.KAFKA_STORAGE_ERROR))
    assert brokers.halted(partition(0, [2, 1], offline=[2])) == [
        (0, 2, "its log directory is offline, or may be: /b")
    ]


def test_a_broker_that_does_not_answer_is_asked_once_for_all_topics():
    brokers = Brokers(error=ConnectionFailed("refused"))
    unreachable: dict[int, str] = {}
    for _ in range(2):
        ((_, _, why),) = brokers.halted(partition(0, [1]), unreachable=unreachable)
        assert why == "the broker does not answer: refused"
    assert brokers.asked == [2]


def test_a_broker_that_is_not_in_the_metadata_is_not_asked():
    brokers = Brokers()
    del brokers.metadata.nodes[2]
    assert brokers.halted(partition(0, [1])) == [(0, 2, NOT_THERE)]
    assert brokers.asked == []
