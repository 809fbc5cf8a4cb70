"""`QuorumAdmin`: look at the metadata quorum, add voters to it and remove them (KIP-595, KIP-853).

It asks brokers, which take every question to the leader of the quorum, or the controllers
themselves (`controllers=True`), where only the leader answers: the others name it, and it is found
among the given addresses and those that the cluster says its controllers have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from fencepost.client.asking import request_any
from fencepost.client.cluster import Cluster
from fencepost.client.cluster_view import ClusterView
from fencepost.client.config import ClientConfig
from fencepost.client.connection_core import ConnectionCore
from fencepost.client.conversation import Connect, Conversation, Exchange, Where
from fencepost.client.errors import BrokerError, ClientError, ConnectionFailed
from fencepost.client.retry import Deadline, repeating, retrying
from fencepost.wire.api import add_raft_voter as add, describe_quorum as describe
from fencepost.wire.api.describe_cluster import DescribeClusterRequest
from fencepost.wire.api.remove_raft_voter import RemoveRaftVoterRequest
from fencepost.wire.errors import ErrorCode, is_retriable
from fencepost.wire.message import Message, Request
from fencepost.wire.types import Uuid

TOPIC = "__cluster_metadata"
ENDPOINT_CONTROLLERS = 2
LOOKING_TIMEOUT_MS = 2_000
"""A controller answers for itself at once; while one does not, the next is asked."""

R = TypeVar("R", bound=Message)


class VoterListener(NamedTuple):
    """A listener of a controller: its name, host and TCP port."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """A node that holds the metadata log. Times are ms since 1970, -1 when unknown."""

    node_id: int
    directory_id: Uuid
    """Zero where the quorum does not tell directories apart."""
    log_end_offset: int
    last_fetch_timestamp: int
    last_caught_up_timestamp: int


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    """The quorum as its leader sees it. Offsets are -1 when unknown."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: list[QuorumReplica]
    observers: list[QuorumReplica]
    listeners: dict[int, list[VoterListener]]
    """Where voters are reached, by node id, as far as the leader says so."""


class QuorumLeader:
    """Where the leader of the quorum was found last, for conversations that need it.

    With `asks_controllers` the addresses of a client's configuration are controllers'; otherwise
    brokers', which take every question to the leader.
    """

    def __init__(self, *, asks_controllers: bool) -> None:
        self.asks_controllers = asks_controllers
        self.where: Where | None = None


def describing_quorum(
    view: ClusterView[Any], leader: QuorumLeader
) -> Conversation[QuorumDescription]:
    """Who leads, who votes, who follows, and how far everybody is. Raises ClientError."""
    response = yield from _asking_leader(view, leader, _describe_request())
    _check(response.error_code, response.error_message, "the quorum cannot be described")
    partition = response.topics[0].partitions[0]
    _check(partition.error_code, partition.error_message, "the quorum cannot be described")
    return QuorumDescription(
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        high_watermark=partition.high_watermark,
        voters=[_replica(one) for one in partition.current_voters],
        observers=[_replica(one) for one in partition.observers],
        listeners={
            node.node_id: [VoterListener(one.name, one.host, one.port) for one in node.listeners]
            for node in response.nodes
        },
    )


def adding_voter(
    view: ClusterView[Any],
    leader: QuorumLeader,
    node_id: int,
    directory_id: Uuid,
    listeners: Sequence[VoterListener],
    *,
    timeout_ms: int = 30_000,
) -> Conversation[None]:
    """Make a controller that follows already a voter; returns when that is committed. Raises
    ClientError."""
    request = add.AddRaftVoterRequest(
        cluster_id=None,
        timeout_ms=timeout_ms,
        voter_id=node_id,
        voter_directory_id=directory_id,
        listeners=[add.Listener(name=n, host=h, port=p) for n, h, p in listeners],
    )
    response = yield from _asking_leader(view, leader, request)
    _check(response.error_code, response.error_message, f"node {node_id} was not added")


def removing_voter(
    view: ClusterView[Any], leader: QuorumLeader, node_id: int, directory_id: Uuid
) -> Conversation[None]:
    """Take a controller's vote away; returns when that is committed. Raises ClientError."""
    request = RemoveRaftVoterRequest(
        cluster_id=None, voter_id=node_id, voter_directory_id=directory_id
    )
    response = yield from _asking_leader(view, leader, request)
    _check(response.error_code, response.error_message, f"node {node_id} was not removed")


class QuorumAdmin:
    """Asks about the quorum and changes it; a context manager. All methods raise ClientError.

    `config` has the addresses (`bootstrap_servers`) of brokers, or of controllers with
    `controllers`. The asyncio twin is `client.aio.quorum.AsyncQuorumAdmin`.
    """

    def __init__(self, config: ClientConfig, *, controllers: bool = False) -> None:
        self.cluster = Cluster(config=config)
        self.leader = QuorumLeader(asks_controllers=controllers)

    def __enter__(self) -> QuorumAdmin:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self.cluster.close()

    def connect(self, timeout_ms: float) -> None:
        """Reach anybody at all within `timeout_ms`; asking for the leader may take longer."""
        connecting = self.cluster.any_connection
        retrying("connecting", connecting, Deadline(timeout_ms), self.cluster.backoff())

    def describe(self) -> QuorumDescription:
        """Who leads, who votes, who follows, and how far everybody is."""
        return self.cluster.run(describing_quorum(self.cluster, self.leader))

    def add_voter(
        self,
        node_id: int,
        directory_id: Uuid,
        listeners: Sequence[VoterListener],
        *,
        timeout_ms: int = 30_000,
    ) -> None:
        """Make a controller that follows already a voter; returns when that is committed."""
        voter = node_id, directory_id, listeners
        adding = adding_voter(self.cluster, self.leader, *voter, timeout_ms=timeout_ms)
        self.cluster.run(adding)

    def remove_voter(self, node_id: int, directory_id: Uuid) -> None:
        """Take a controller's vote away; returns when that is committed."""
        self.cluster.run(removing_voter(self.cluster, self.leader, node_id, directory_id))


def _asking_leader(
    view: ClusterView[Any], leader: QuorumLeader, request: Request[R]
) -> Conversation[R]:
    """The leader's answer, by way of any broker or from the leader itself."""
    if not leader.asks_controllers:
        return request_any(view, request, _passing_error_of)

    def attempt() -> Conversation[R]:
        connection = yield from _connecting_to_leader(view, leader)
        response = yield from Exchange(connection, request)
        error = _error_of(response)
        if error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_CONTROLLER):
            raise BrokerError.of(error, "it does not lead the quorum", host=connection.address)
        return response

    def forget(_: ClientError) -> None:
        leader.where = None

    deadline = view.deadline()
    return repeating(type(request).__name__, attempt, deadline, view.backoff(), forget)


def _connecting_to_leader(
    view: ClusterView[Any], leader: QuorumLeader
) -> Conversation[ConnectionCore]:
    """A connection to the controller that says that it leads. ClientError."""
    if leader.where is not None:
        return (yield from Connect(leader.where))
    last: ClientError | None = None
    seen: set[Where] = set()
    answered = 0
    known = [Where(host, port) for host, port in view.bootstrap]
    while known:
        where = known.pop(0)
        if where in seen:
            continue
        seen.add(where)
        try:
            connection = yield from Connect(where)
            response = yield from _looking(connection, _describe_request())
            if _error_of(response) == ErrorCode.NONE:
                leader.where = where
                return connection
            answered += 1
            known += yield from _other_controllers(connection)
        except ClientError as error:
            last = error
    if not answered and last is not None:
        raise last
    raise ConnectionFailed(f"no controller leads; {answered} of {len(seen)} answer")


def _looking(connection: ConnectionCore, request: Request[R]) -> Conversation[R]:
    return (yield from Exchange(connection, request, timeout_ms=LOOKING_TIMEOUT_MS))


def _other_controllers(connection: ConnectionCore) -> Conversation[list[Where]]:
    """Where the controller at the other end says that the others are, if it knows."""
    if DescribeClusterRequest.api_key not in connection.api_versions:
        return []
    request = DescribeClusterRequest(endpoint_type=ENDPOINT_CONTROLLERS)
    response = yield from _looking(connection, request)
    return [Where(node.host, node.port) for node in response.brokers]


def _describe_request() -> describe.DescribeQuorumRequest:
    partition = describe.PartitionDataRequest(partition_index=0)
    topic = describe.TopicDataRequest(topic_name=TOPIC, partitions=[partition])
    return describe.DescribeQuorumRequest(topics=[topic])


def _error_of(response: Message) -> int:
    """The error of a response, or of the one partition in it."""
    if isinstance(response, describe.DescribeQuorumResponse) and not response.error_code:
        for topic in response.topics:
            for partition in topic.partitions:
                return partition.error_code
    code: int = response.error_code  # type: ignore[attr-defined]
    return code


def _passing_error_of(response: Message) -> int:
    """The error, if it is one that passes; of a change, 7 may be for good, and 0 stands for it."""
    code = _error_of(response)
    return code if is_retriable(code) and code != ErrorCode.REQUEST_TIMED_OUT else 0


def _check(code: int, message: str | None, what: str) -> None:
    if code:
        raise BrokerError.of(code, f"{what}: {message}" if message else what)


def _replica(state: describe.ReplicaState) -> QuorumReplica:
    return QuorumReplica(
        state.replica_id,
        state.replica_directory_id,
        state.log_end_offset,
        state.last_fetch_timestamp,
        state.last_caught_up_timestamp,
    )
