"""Where partitions are, and who leads them: reassignments, elections, log directories.

`Admin` has these methods. Each is one request, as there; those that concern many partitions tell of
each what became of it, and raise only if the request as a whole was refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from fencepost.client import asking
from fencepost.client.cluster import Cluster
from fencepost.client.cluster_view import ClusterView
from fencepost.client.conversation import Conversation
from fencepost.client.errors import BrokerError, ClientError
from fencepost.client.faces import blocking
from fencepost.client.leaders import by_topic
from fencepost.client.metadata import Node, TopicPartition
from fencepost.wire.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from fencepost.wire.api.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from fencepost.wire.api.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from fencepost.wire.api.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from fencepost.wire.api.elect_leaders import ElectLeadersRequest, TopicPartitions
from fencepost.wire.api.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from fencepost.wire.errors import ErrorCode, is_retriable

PREFERRED: Final = 0
UNCLEAN: Final = 1
"""Types of elections."""
PARTITIONS_AT_ONCE: Final = 2_000
"""How many partitions one DescribeTopicPartitions asks for; a broker may send fewer."""


class Outcome(NamedTuple):
    """What became of one partition: an error code, 0 for none, and the broker's words if any."""

    error_code: int
    message: str | None = None

    @property
    def is_done(self) -> bool:
        """Whether it went well."""
        return self.error_code == ErrorCode.NONE

    def check(self, what: str) -> None:
        """Raise BrokerError unless it went well."""
        if not self.is_done:
            raise BrokerError.of(
                self.error_code, f"{what}: {self.message}" if self.message else what
            )


class Reassignment(NamedTuple):
    """A partition that moves: all its replicas, and those of them that come and that go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas in the end."""
        return tuple(id_ for id_ in self.replicas if id_ not in self.removing)


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition as DescribeTopicPartitions tells of it; `leader_id` is -1 if there is none.

    `eligible` are replicas out of sync that may lead, `last_known` those that may be recovered from
    (KIP-966); `offline` are replicas that cannot be used now.
    """

    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    eligible: tuple[int, ...]
    last_known: tuple[int, ...]
    offline: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReplicaInDir:
    """One replica in a log directory; `is_future` while it is copied there from another one."""

    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDirState:
    """One log directory of a broker; bytes of the volume are -1 where the broker does not tell."""

    path: str
    error_code: int
    total_bytes: int
    usable_bytes: int
    is_cordoned: bool
    replicas: Mapping[TopicPartition, ReplicaInDir]


# -- reassignments ---------------------------------------------------------------------------


def altering_reassignments(
    view: ClusterView[Any],
    targets: Mapping[TopicPartition, Sequence[int] | None],
    *,
    allow_replication_factor_change: bool = True,
    timeout_ms: int = 60_000,
) -> Conversation[dict[TopicPartition, Outcome]]:
    """Move partitions to the given brokers, preferred leader first; None calls a move off.

    Returns when the moves are recorded; `list_reassignments` tells when they are over. KIP-455.
    """
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=timeout_ms,
        allow_replication_factor_change=allow_replication_factor_change,
        topics=[
            ReassignableTopic(
                name=name,
                partitions=[
                    ReassignablePartition(
                        partition_index=number,
                        replicas=None if brokers is None else list(brokers),
                    )
                    for number, brokers in partitions
                ],
            )
            for name, partitions in by_topic(dict(targets)).items()
        ],
    )
    response = yield from asking.request_controller(view, request, _retriable_at_the_top)
    _check(response, "cannot reassign partitions")
    return {
        TopicPartition(topic.name, one.partition_index): Outcome(one.error_code, one.error_message)
        for topic in response.responses
        for one in topic.partitions
    }


def listing_reassignments(
    view: ClusterView[Any],
    partitions: Iterable[TopicPartition] | None = None,
    *,
    timeout_ms: int = 60_000,
) -> Conversation[dict[TopicPartition, Reassignment]]:
    """Those of the partitions that move, of all if None."""
    topics = None
    if partitions is not None:
        topics = [
            ListPartitionReassignmentsTopics(name=name, partition_indexes=numbers)
            for name, numbers in _numbers(partitions)
        ]
    request = ListPartitionReassignmentsRequest(timeout_ms=timeout_ms, topics=topics)
    response = yield from asking.request_controller(view, request, _retriable_at_the_top)
    _check(response, "cannot list reassignments")
    return {
        TopicPartition(topic.name, one.partition_index): Reassignment(
            tuple(one.replicas), tuple(one.adding_replicas), tuple(one.removing_replicas)
        )
        for topic in response.topics
        for one in topic.partitions
    }


# -- elections -------------------------------------------------------------------------------


def electing_leaders(
    view: ClusterView[Any],
    partitions: Iterable[TopicPartition] | None,
    election: int = PREFERRED,
    *,
    timeout_ms: int = 60_000,
) -> Conversation[dict[TopicPartition, Outcome]]:
    """Elect leaders now, PREFERRED or UNCLEAN; None for all partitions.

    Of all, those that needed no election (ELECTION_NOT_NEEDED) are left out. KIP-460.
    """
    topics = None
    if partitions is not None:
        topics = [
            TopicPartitions(topic=name, partitions=numbers)
            for name, numbers in _numbers(partitions)
        ]
    request = ElectLeadersRequest(
        election_type=election, topic_partitions=topics, timeout_ms=timeout_ms
    )
    response = yield from asking.request_controller(view, request, _retriable_at_the_top)
    _check(response, "cannot elect leaders")
    return {
        TopicPartition(topic.topic, one.partition_id): Outcome(one.error_code, one.error_message)
        for topic in response.replica_election_results
        for one in topic.partition_result
    }


def describing_partitions(
    view: ClusterView[Any],
    topics: Sequence[str] = (),
    *,
    first: TopicPartition | None = None,
    limit: int | None = None,
) -> Conversation[dict[TopicPartition, PartitionState]]:
    """Partitions of the topics, of all without any, with who is eligible to lead (KIP-966): from
    `first` on, in the order of names and numbers, and with a `limit` no more than one request
    brings of so many.

    Raises BrokerError for an unknown topic, ClientError if the broker is older than that.
    """
    found: dict[TopicPartition, PartitionState] = {}
    cursor = Cursor(topic_name=first.topic, partition_index=first.partition) if first else None
    while True:
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in topics],
            response_partition_limit=limit or PARTITIONS_AT_ONCE,
            cursor=cursor,
        )
        response = yield from asking.request_any(view, request)
        for topic in response.topics:
            if topic.error_code != ErrorCode.NONE:
                raise BrokerError.of(topic.error_code, f"cannot describe topic {topic.name}")
            for one in topic.partitions:
                where = TopicPartition(topic.name or "", one.partition_index)
                found[where] = PartitionState(
                    one.leader_id,
                    one.leader_epoch,
                    tuple(one.replica_nodes),
                    tuple(one.isr_nodes),
                    tuple(one.eligible_leader_replicas or ()),
                    tuple(one.last_known_elr or ()),
                    tuple(one.offline_replicas),
                )
        if limit is not None or response.next_cursor in (None, cursor):
            return found
        cursor = response.next_cursor


# -- log directories -------------------------------------------------------------------------


def describing_log_dirs(
    view: ClusterView[Any],
    broker: int | Node,
    partitions: Iterable[TopicPartition] | None = None,
) -> Conversation[list[LogDirState]]:
    """The log directories of a broker and what is in them, of all partitions if None. A broker that
    is given by its id is looked up first, which is one more request."""
    topics = None
    if partitions is not None:
        topics = [
            DescribableLogDirTopic(topic=name, partitions=numbers)
            for name, numbers in _numbers(partitions)
        ]
    request = DescribeLogDirsRequest(topics=topics)
    if isinstance(broker, Node):
        response = yield from asking.request_node(broker, request)
        broker = broker.node_id
    else:
        response = yield from _asking_broker(view, broker, request)
    _check(response, f"cannot describe log directories of broker {broker}")
    return [
        LogDirState(
            result.log_dir,
            result.error_code,
            result.total_bytes,
            result.usable_bytes,
            bool(getattr(result, "is_cordoned", False)),
            {
                TopicPartition(topic.name, one.partition_index): ReplicaInDir(
                    one.partition_size, one.offset_lag, one.is_future_key
                )
                for topic in result.topics
                for one in topic.partitions
            },
        )
        for result in response.results
    ]


def altering_replica_log_dirs(
    view: ClusterView[Any], broker_id: int, targets: Mapping[TopicPartition, str]
) -> Conversation[dict[TopicPartition, Outcome]]:
    """Have a broker move its replicas to other log directories, by their paths.

    Returns when the copying has begun; `describe_log_dirs` tells when it is over. KIP-113.
    """
    by_path: dict[str, list[TopicPartition]] = {}
    for where, path in targets.items():
        by_path.setdefault(path, []).append(where)
    request = AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=path,
                topics=[
                    AlterReplicaLogDirTopic(name=name, partitions=numbers)
                    for name, numbers in _numbers(those)
                ],
            )
            for path, those in by_path.items()
        ]
    )
    response = yield from _asking_broker(view, broker_id, request)
    return {
        TopicPartition(topic.topic_name, one.partition_index): Outcome(one.error_code)
        for topic in response.results
        for one in topic.partitions
    }


def _asking_broker(view: ClusterView[Any], broker_id: int, request: Any) -> Conversation[Any]:
    """Ask one broker about itself."""
    yield from asking.describe(view, [])
    node = view.metadata.nodes.get(broker_id)
    if node is None:
        known = sorted(view.metadata.nodes)
        raise ClientError(f"no broker {broker_id} in the cluster; there are {known}")
    return (yield from asking.request_node(node, request))


class ReplicaAdmin:
    """The half of `Admin` that is about replicas and leaders."""

    cluster: Cluster

    alter_reassignments = blocking(altering_reassignments)
    list_reassignments = blocking(listing_reassignments)
    elect_leaders = blocking(electing_leaders)
    describe_partitions = blocking(describing_partitions)
    describe_log_dirs = blocking(describing_log_dirs)
    alter_replica_log_dirs = blocking(altering_replica_log_dirs)


def _numbers(partitions: Iterable[TopicPartition]) -> Iterator[tuple[str, list[int]]]:
    """Topics with the numbers of their partitions."""
    for name, found in by_topic(dict.fromkeys(partitions)).items():
        yield name, [number for number, _ in found]


def _retriable_at_the_top(response: Any) -> int:
    """The error of the whole request, if trying again may help."""
    code = response.error_code
    return code if is_retriable(code) else 0


def _check(response: Any, what: str) -> None:
    if response.error_code != ErrorCode.NONE:
        text = getattr(response, "error_message", None)
        raise BrokerError.of(response.error_code, f"{what}: {text}" if text else what)
