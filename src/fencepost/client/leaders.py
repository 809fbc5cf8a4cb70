"""Questions about many partitions, each answered by its own leader.

One request per leader, all written before the first answer is awaited. Partitions that come back
with a retriable error are asked again, of their leaders then, until the deadline; the first
other error ends it. The caller supplies how to build a request and how to read a response.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from fencepost.client import asking
from fencepost.client.cluster import Cluster
from fencepost.client.cluster_view import ClusterView
from fencepost.client.conversation import Conversation, Exchange, ExchangeAll
from fencepost.client.errors import BrokerError, ClientError, DeadlineExceeded
from fencepost.client.metadata import Node, TopicInfo, TopicPartition
from fencepost.client.retry import Deadline, pausing
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Request

Q = TypeVar("Q")
A = TypeVar("A")


class Asked(NamedTuple, Generic[Q]):
    """What is asked about one partition, and the leader epoch its leader is believed to have."""

    question: Q
    leader_epoch: int


class Answered(NamedTuple, Generic[A]):
    """One partition's part of a response; `answer` counts only when `error_code` is 0."""

    partition: TopicPartition
    error_code: int
    answer: A


Build = Callable[[dict[TopicPartition, Asked[Q]]], Request[Any]]
Read = Callable[[Any], Iterable[Answered[A]]]


def by_topic(items: Mapping[TopicPartition, Q]) -> dict[str, list[tuple[int, Q]]]:
    """Regroup as requests list them: topic, then partitions in order."""
    topics: dict[str, list[tuple[int, Q]]] = {}
    for (topic, partition), value in sorted(items.items(), key=lambda item: item[0]):
        topics.setdefault(topic, []).append((partition, value))
    return topics


def ask_leaders(
    cluster: Cluster,
    questions: Mapping[TopicPartition, Q],
    build: Build[Q],
    read: Read[A],
    *,
    what: str,
    lowest: int | None = None,
    deadline: Deadline | None = None,
) -> dict[TopicPartition, A]:
    """`asking_leaders` of a blocking client."""
    return cluster.run(
        asking_leaders(cluster, questions, build, read, what=what, lowest=lowest, deadline=deadline)
    )


def asking_leaders(
    view: ClusterView[Any],
    questions: Mapping[TopicPartition, Q],
    build: Build[Q],
    read: Read[A],
    *,
    what: str,
    lowest: int | None = None,
    deadline: Deadline | None = None,
) -> Conversation[dict[TopicPartition, A]]:
    """Answers to all `questions`; raises the first hopeless error, or DeadlineExceeded.

    `lowest` is the lowest version of the API that can carry the questions (UnsupportedApi).
    """
    deadline = deadline or view.deadline()
    backoff = view.backoff()
    give_up_on_unknown = view.unknown_topic_limit()
    answers: dict[TopicPartition, A] = {}
    waiting = {
        key if isinstance(key, TopicPartition) else TopicPartition(*key): value
        for key, value in questions.items()
    }
    while waiting:
        failures: list[ClientError] = []
        groups = yield from _by_leader(view, waiting, build, lowest, failures, deadline)
        responses = yield from ExchangeAll([exchange for exchange, _ in groups])
        for (exchange, group), response in zip(groups, responses, strict=True):
            if isinstance(response, ClientError):
                failures.append(_about(response, group))
            else:
                host = exchange.connection.address
                failures += _sort(read(response), group, answers, what, host)
        for partition in answers:
            waiting.pop(partition, None)
        if not waiting:
            break
        hopeless = [error for error in failures if not error.retriable]
        if hopeless:
            raise hopeless[0]
        for error in failures:
            view.note_failure(error)
        if failures:
            give_up_on_unknown(failures[0])
        if not (yield from pausing(backoff, deadline)):
            raise DeadlineExceeded(
                f"{what} was not answered for {', '.join(map(str, sorted(waiting)))} within "
                f"{deadline.timeout_ms:.0f} ms",
                failures[0] if failures else None,
            )
    return answers


def _by_leader(
    view: ClusterView[Any],
    waiting: Mapping[TopicPartition, Q],
    build: Build[Q],
    lowest: int | None,
    failures: list[ClientError],
    deadline: Deadline,
) -> Conversation[list[tuple[Exchange[Any], dict[TopicPartition, Asked[Q]]]]]:
    """A request for each leader that can be reached, with what it asks."""
    groups: dict[int, dict[TopicPartition, Asked[Q]]] = {}
    nodes: dict[int, Node] = {}
    # Topics have thousands of partitions: each is looked up once for all of them.
    topics: dict[str, TopicInfo] = {}
    for partition, question in waiting.items():
        try:
            info = topics.get(partition.topic)
            if info is None:
                info = yield from asking.topic_once(view, partition.topic, deadline)
                topics[partition.topic] = info
            node, epoch = view.leader_in(info, partition.partition)
        except BrokerError as error:
            failures.append(error)
        else:
            nodes[node.node_id] = node
            groups.setdefault(node.node_id, {})[partition] = Asked(question, epoch)
    requests = []
    for node_id, group in groups.items():
        node = nodes[node_id]
        try:
            connection = yield from asking.connect(node)
            message = build(group)
            version = connection.version_for(type(message), lowest=lowest)
        except ClientError as error:
            failures.append(_about(error, group))
        else:
            requests.append((Exchange(connection, message, version), group))
    return requests


def _sort(
    answered: Iterable[Answered[A]],
    group: Mapping[TopicPartition, Any],
    answers: dict[TopicPartition, A],
    what: str,
    host: str,
) -> list[ClientError]:
    """Fill `answers`; what was refused."""
    refused: list[ClientError] = []
    for partition, code, answer in answered:
        if partition not in group:
            continue
        if code == ErrorCode.NONE:
            answers[partition] = answer
        else:
            topic, number = partition
            text = f"{what} was refused"
            refused.append(BrokerError.of(code, text, host=host, topic=topic, partition=number))
    return refused


def _about(error: ClientError, group: Mapping[TopicPartition, Any]) -> ClientError:
    """Have a connection's error name one of the partitions it concerns."""
    first = min(group)
    error.topic, error.partition = first.topic, first.partition
    return error
