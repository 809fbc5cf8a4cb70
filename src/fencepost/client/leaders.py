"""Questions about many partitions, each answered by its own leader.

One request per leader, all written before the first answer is awaited. Partitions that come back
with a retriable error are asked again, of whoever leads them then, until the deadline; the first
other error ends it. The caller supplies how to build a request and how to read a response.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from fencepost.client.cluster import Cluster
from fencepost.client.errors import BrokerError, ClientError, DeadlineExceeded
from fencepost.client.metadata import Node, TopicPartition
from fencepost.client.retry import Deadline
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
    """Answers to all `questions`; raises the first hopeless error, or DeadlineExceeded.

    `lowest` is the lowest version of the API that can carry the questions (UnsupportedApi).
    """
    deadline = deadline or cluster.deadline()
    backoff = cluster.backoff()
    give_up_on_unknown = cluster.unknown_topic_limit()
    answers: dict[TopicPartition, A] = {}
    waiting = {TopicPartition(*key): value for key, value in questions.items()}
    while waiting:
        failures = _round(cluster, waiting, build, read, what, lowest, answers, deadline)
        for partition in list(waiting):
            if partition in answers:
                del waiting[partition]
        if not waiting:
            break
        hopeless = [error for error in failures if not error.retriable]
        if hopeless:
            raise hopeless[0]
        for error in failures:
            cluster.note_failure(error)
        if failures:
            give_up_on_unknown(failures[0])
        if not backoff.sleep(deadline):
            raise DeadlineExceeded(
                f"{what} was not answered for {', '.join(map(str, sorted(waiting)))} within "
                f"{deadline.timeout_ms:.0f} ms",
                failures[0] if failures else None,
            )
    return answers


def _round(
    cluster: Cluster,
    waiting: Mapping[TopicPartition, Q],
    build: Build[Q],
    read: Read[A],
    what: str,
    lowest: int | None,
    answers: dict[TopicPartition, A],
    deadline: Deadline,
) -> list[ClientError]:
    """Ask every leader once; fills `answers`, returns what went wrong."""
    failures: list[ClientError] = []
    groups: dict[Node, dict[TopicPartition, Asked[Q]]] = {}
    for partition, question in waiting.items():
        try:
            node, epoch = cluster.leader(partition.topic, partition.partition, deadline)
        except BrokerError as error:
            failures.append(error)
        else:
            groups.setdefault(node, {})[partition] = Asked(question, epoch)
    sent = []
    for node, group in groups.items():
        try:
            connection = cluster.connection(node)
            message = build(group)
            version = connection.version_for(type(message), lowest=lowest)
            sent.append((connection, connection.send(message, version), group))
        except ClientError as error:
            failures.append(_about(error, group))
    for connection, token, group in sent:
        try:
            response = connection.receive(token)
        except ClientError as error:
            failures.append(_about(error, group))
            continue
        for partition, code, answer in read(response):
            if partition not in group:
                continue
            if code == ErrorCode.NONE:
                answers[partition] = answer
                continue
            failures.append(
                BrokerError.of(
                    code,
                    f"{what} was refused",
                    host=connection.address,
                    topic=partition.topic,
                    partition=partition.partition,
                )
            )
    return failures


def _about(error: ClientError, group: Mapping[TopicPartition, Any]) -> ClientError:
    """Have a connection's error name one of the partitions it concerns."""
    first = min(group)
    error.topic, error.partition = first.topic, first.partition
    return error
