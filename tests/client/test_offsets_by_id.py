"""Offsets are committed and read by the ids of topics (KIP-516, KIP-1319), where they are known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.client import Admin, Cluster as Client, Producer
from fencepost.client.connection_core import ConnectionCore
from fencepost.client.errors import AbortableTransactionError, UnknownTopic
from fencepost.client.metadata import CommittedOffset, TopicPartition
from fencepost.testing import Cluster
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

TOPICS = ("orders", "words")
OFFSETS = {TopicPartition(name, 0): CommittedOffset(5, 1, "so far") for name in TOPICS}


@pytest.fixture(scope="module")
def served() -> Iterator[Cluster]:
    with Cluster(faults=False, auto_create_topics_enable=False) as cluster:
        yield cluster


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The requests that are sent, and their versions."""
    found: list[tuple[str, int]] = []
    for name in ("agree", "version_for"):
        agree = getattr(ConnectionCore, name)

        def noted(self: Any, message: Any, *args: Any, agree: Any = agree, **more: Any) -> int:
            version: int = agree(self, message, *args, **more)
            cls = type(message) if isinstance(message, Message) else message
            found.append((cls.__name__, version))
            return version

        monkeypatch.setattr(ConnectionCore, name, noted)
    return found


@pytest.fixture
def client(served: Cluster) -> Iterator[Client]:
    """A client that knows two topics, which are new."""
    settings = {"retry_backoff_ms": 1, "api_timeout_ms": 60_000, "transactional_id": "by-id"}
    with Client(served.bootstrap_servers, **settings) as made:
        admin = Admin(made)
        for name in TOPICS:
            if any(one.name == name for one in admin.list_topics()):
                admin.delete_topic(name)
            admin.create_topic(name, 1)
            admin.wait_for_topic(name)
            made.topic(name)
        yield made


def another(served: Cluster, topic: str) -> None:
    """Another topic of that name takes the place of the one there is."""
    with Client(served.bootstrap_servers) as client:
        admin = Admin(client)
        admin.delete_topic(topic)
        admin.create_topic(topic, 1)
        admin.wait_for_topic(topic)


def versions(asked: list[tuple[str, int]], name: str) -> set[int]:
    return {version for request, version in asked if request == name}


def test_what_is_known_is_named_by_id(client: Client, asked: list[tuple[str, int]]):
    admin = Admin(client)
    admin.alter_group_offsets("by-id", OFFSETS)
    assert admin.group_offsets("by-id", list(OFFSETS)) == OFFSETS
    assert versions(asked, "OffsetCommitRequest") == {10}
    assert versions(asked, "OffsetFetchRequest") == {10}


def test_what_is_not_known_is_named_by_name(
    served: Cluster, client: Client, asked: list[tuple[str, int]]
):
    with Client(served.bootstrap_servers) as stranger:
        admin = Admin(stranger)
        admin.alter_group_offsets("by-name", OFFSETS)
        assert admin.group_offsets("by-name", list(OFFSETS)) == OFFSETS
    assert Admin(client).group_offsets("by-name") == OFFSETS, "all of them, without their names"
    assert versions(asked, "OffsetCommitRequest") == {9}
    assert versions(asked, "OffsetFetchRequest") == {9}
    client.metadata.topics.pop("words")
    Admin(client).alter_group_offsets("by-name", OFFSETS)
    assert versions(asked, "OffsetCommitRequest") == {9}, "all by id, or none"


def test_offsets_of_a_deleted_topic_are_not_those_of_another_of_its_name(
    served: Cluster, client: Client
):
    another(served, "orders")
    with pytest.raises(UnknownTopic, match="deleted") as caught:
        Admin(client).alter_group_offsets("stale", OFFSETS)
    assert (caught.value.code, caught.value.topic) == (ErrorCode.UNKNOWN_TOPIC_ID, "orders")
    assert TopicPartition("orders", 0) not in Admin(client).group_offsets("stale")
    Admin(client).alter_group_offsets("stale", OFFSETS)  # the client knows the new topic now
    assert Admin(client).group_offsets("stale") == OFFSETS


def test_a_topic_that_is_another_by_now_is_read_by_its_name(served: Cluster, client: Client):
    another(served, "orders")
    with Client(served.bootstrap_servers) as knowing:
        Admin(knowing).alter_group_offsets("read", OFFSETS)
    assert Admin(client).group_offsets("read", list(OFFSETS)) == OFFSETS


def test_a_transaction_commits_offsets_by_id(
    served: Cluster, client: Client, asked: list[tuple[str, int]]
):
    with Producer(client) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send_offsets_to_transaction(OFFSETS, "in-transaction")
        producer.commit_transaction()
        assert versions(asked, "TxnOffsetCommitRequest") == {6}
        assert Admin(client).group_offsets("in-transaction") == OFFSETS
        producer.begin_transaction()
        another(served, "orders")
        with pytest.raises(AbortableTransactionError, match="UNKNOWN_TOPIC_ID"):
            producer.send_offsets_to_transaction(OFFSETS, "in-transaction")
        producer.abort_transaction()
        client.metadata.topics.pop("words")
        producer.begin_transaction()
        producer.send_offsets_to_transaction(OFFSETS, "by-name")
        producer.commit_transaction()
    assert versions(asked, "TxnOffsetCommitRequest") == {5, 6}
    assert Admin(client).group_offsets("by-name") == OFFSETS
