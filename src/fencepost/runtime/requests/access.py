"""What a client may do, asked in one place: with an operation on a resource, before it is done.

Theory of operation
-------------------
Every handler asks `Access` before it looks whether a resource exists, so that a client without the
right learns nothing from a name. Only a topic's id is resolved first, as in Kafka: an id that no
topic has is UNKNOWN_TOPIC_ID, whatever the client may do. The permissions that an API asks for are
in its row of `broker.net.served`; a permission knows the error that its refusal is answered with.

`PartitionAccess.find` is the one way from a request to a partition. A handler that looks up many
partitions takes a `finder` for its request, which asks the authorizer once per topic. Where no
authorizer is configured a finder is the replica manager's own method, so the check costs nothing.

Without an authorizer every client may do everything, as in Kafka without `authorizer.class.name`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from fencepost.machines.image.acls import CLUSTER_NAME, AclOperation, ResourceType
from fencepost.machines.session import Principal
from fencepost.runtime.internal_topics import INTERNAL_TOPICS
from fencepost.runtime.replicas import HostedPartition
from fencepost.runtime.requests.audit import UNTOLD, Tally
from fencepost.runtime.requests.permissions import (
    CLUSTER_ACTION,
    DESCRIBE_CLUSTER,
    OPERATIONS,
    OPERATIONS_NOT_ASKED_FOR,
    WRITE_TOPIC,
    Permission,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid


class Client(Protocol):
    """The sender of requests: the context of one, or the connection that they arrive on."""

    @property
    def principal(self) -> Principal:
        """The client's identity."""
        ...

    @property
    def client_host(self) -> str:
        """The client's address, without port."""
        ...

    @property
    def listener_name(self) -> str:
        """The listener that the client came in by."""
        ...

    @property
    def api_name(self) -> str:
        """The request's API by its name in Kafka."""
        ...


class Authorizer(Protocol):
    """Decides what clients may do. Its decisions may change between two calls."""

    @property
    def version(self) -> object:
        """Another object when decisions may have changed: what was remembered of them is void."""
        ...

    def allows(self, client: Client, permission: Permission, name: str, *, quiet: bool) -> bool:
        """Whether the client has the permission for the resource of that name. A `quiet` question
        only chooses what an answer contains: its refusal is not logged."""
        ...

    def grant(self, client: Client, permission: Permission, name: str) -> tuple[bool, Tally | None]:
        """`allows` of a question that is not quiet; and if it is a yes, where the client's further
        uses of it are counted instead of being asked about: until that is over, or `version` is
        another. None: each must be asked about, for it is told."""
        ...

    def allows_any(self, client: Client, permission: Permission) -> bool:
        """Whether the client has the permission for some resource, of whatever name."""
        ...


CLIENTS_REMEMBERED: Final = 1_000
TOPICS_REMEMBERED: Final = 100
"""Of so many clients it is remembered of so many topics what they may do to partitions."""

Granted = dict[str | Uuid, Tally]
"""Topics, by name or id, and where their uses are counted."""
Find = Callable[[str | Uuid, int], HostedPartition | ErrorCode]
"""The partition of a topic (its name or id) with that index, or the error to answer with."""


class Access:
    """What clients may do on this node. One object per node, whose `authorizer` can be replaced."""

    __slots__ = ("authorizer",)

    def __init__(self, authorizer: Authorizer | None = None) -> None:
        self.authorizer = authorizer
        """None: every client may do everything."""

    @property
    def version(self) -> object:
        """Another object when clients may do something else than before."""
        return None if self.authorizer is None else self.authorizer.version

    def allows(
        self,
        client: Client,
        permission: Permission,
        name: str = CLUSTER_NAME,
        *,
        quiet: bool = False,
    ) -> bool:
        """Whether the client has the permission for the resource of that name."""
        authorizer = self.authorizer
        return authorizer is None or authorizer.allows(client, permission, name, quiet=quiet)

    def allows_any(self, client: Client, permission: Permission) -> bool:
        """Whether the client has the permission for some resource, of whatever name."""
        return self.authorizer is None or self.authorizer.allows_any(client, permission)

    def refusal(
        self,
        client: Client,
        permission: Permission,
        name: str = CLUSTER_NAME,
        *,
        quiet: bool = False,
    ) -> ErrorCode:
        """The error to answer with if the client lacks the permission; NONE if it has it."""
        authorizer = self.authorizer
        if authorizer is None or authorizer.allows(client, permission, name, quiet=quiet):
            return ErrorCode.NONE
        return permission.refusal

    def visible(
        self, client: Client, permission: Permission, names: Iterable[str]
    ) -> Iterable[str]:
        """Those of the names that the client may be shown, without a word about the others."""
        if self.authorizer is None:
            return names
        return [name for name in names if self.allows(client, permission, name, quiet=True)]

    def operations(
        self, client: Client, resource_type: ResourceType, name: str = CLUSTER_NAME
    ) -> int:
        """The operations that the client may do to the resource, as `authorized_operations` has
        them: bit n is set for operation n."""
        return sum(
            1 << code
            for code in OPERATIONS[resource_type]
            if self.authorizer is None
            or self.allows(client, Permission(AclOperation(code), resource_type), name, quiet=True)
        )


def cluster_operations(access: Access, client: Client, *, is_asked_for: bool) -> int:
    """`cluster_authorized_operations` of an answer: none for a client that may not describe the
    cluster."""
    if not is_asked_for:
        return OPERATIONS_NOT_ASKED_FOR
    if not access.allows(client, DESCRIBE_CLUSTER, quiet=True):
        return 0
    return access.operations(client, ResourceType.CLUSTER)


class Replicas(Protocol):
    """What is needed of a `ReplicaManager`."""

    def get(self, topic: str, index: int) -> HostedPartition | ErrorCode:
        """The partition of a topic's name, or the error to answer with."""
        ...

    def by_id(self, topic_id: Uuid, index: int) -> HostedPartition | ErrorCode:
        """The same of a topic's id; UNKNOWN_TOPIC_ID for one that no topic has."""
        ...

    def topic_name(self, topic_id: Uuid) -> str | None:
        """The name of the topic with that id."""
        ...


class PartitionAccess:
    """The gate to the partitions of this broker; see the module docstring."""

    __slots__ = ("_by_id", "_by_name", "_granted", "_replicas", "_version", "access")

    def __init__(self, access: Access, replicas: Replicas) -> None:
        self.access = access
        self._replicas = replicas
        self._by_name: Find = replicas.get  # type: ignore[assignment]
        self._by_id: Find = replicas.by_id  # type: ignore[assignment]
        # Topics by what clients may do to them, as long as the authorizer's version is this one.
        self._granted: dict[tuple[Principal, str, str, Permission], Granted] = {}
        self._version: object = None

    def find(
        self,
        client: Client,
        permission: Permission,
        topic: str | Uuid,
        index: int,
        *,
        quiet: bool = False,
    ) -> HostedPartition | ErrorCode:
        """The partition of a topic (its name or id); or, in this order, why there is none for the
        client: UNKNOWN_TOPIC_ID, the permission's refusal, and what the replica manager says."""
        if self.access.authorizer is not None:
            error = self.topic_refusal(client, permission, topic, quiet=quiet)
            if error is not ErrorCode.NONE:
                return error
        find = self._by_id if isinstance(topic, Uuid) else self._by_name
        return find(topic, index)

    def finder_for_anyone(self, *, by_id: bool) -> Find:
        """`finder` without an authorizer: for any client, and for good."""
        return self._by_id if by_id else self._by_name

    def finder(self, client: Client, permission: Permission, *, by_id: bool) -> Find:
        """`find` for the partitions of one request, whose topics are all named, or (`by_id`) all
        given by their ids. It asks at most once per topic, and is good as long as the request is
        handled."""
        find = self.finder_for_anyone(by_id=by_id)
        if self.access.authorizer is None:
            return find
        granted = self._granted_to(client, permission, self.access.authorizer.version)
        answers: dict[str | Uuid, ErrorCode] = {}

        def find_permitted(topic: str | Uuid, index: int) -> HostedPartition | ErrorCode:
            tally = granted.get(topic)
            if tally is not None and not tally.is_over:
                if tally is not UNTOLD and topic not in answers:
                    answers[topic] = ErrorCode.NONE
                    tally.count += 1
                return find(topic, index)
            error = answers.get(topic)
            if error is None:
                error = answers[topic] = self._ask(client, permission, topic, granted)
            return find(topic, index) if error is ErrorCode.NONE else error

        return find_permitted

    def find_to_write(
        self, client: Client, topic: str | Uuid, index: int
    ) -> HostedPartition | ErrorCode:
        """`find` for one partition that is to be written. Neither a refusal is recorded, nor that a
        topic of the brokers' own was asked about: the caller leaves both to the code that records
        them."""
        find = self._by_id if isinstance(topic, Uuid) else self._by_name
        authorizer = self.access.authorizer
        if authorizer is None:
            return find(topic, index)
        granted = self._granted_to(client, WRITE_TOPIC, authorizer.version)
        tally = granted.get(topic)
        if tally is not None and not tally.is_over:
            tally.count += 1
            return find(topic, index)
        error = self.topic_refusal(client, WRITE_TOPIC, topic, quiet=True)
        if error is not ErrorCode.NONE:
            return error
        hosted = find(topic, index)
        if not isinstance(hosted, ErrorCode) and hosted.topic not in INTERNAL_TOPICS:
            self._ask(client, WRITE_TOPIC, topic, granted)
        return hosted

    def _granted_to(self, client: Client, permission: Permission, version: object) -> Granted:
        """The topics for which the client is known to have the permission, by the authorizer of
        that version. To be added to."""
        if version is not self._version or len(self._granted) > CLIENTS_REMEMBERED:
            self._granted.clear()
            self._version = version
        key = (client.principal, client.client_host, client.api_name, permission)
        granted = self._granted.get(key)
        if granted is None:
            granted = self._granted[key] = {}
        return granted

    def _ask(
        self, client: Client, permission: Permission, topic: str | Uuid, granted: Granted
    ) -> ErrorCode:
        """`topic_refusal`; what is granted is remembered, if there is room."""
        authorizer = self.access.authorizer
        assert authorizer is not None, "nothing is asked without"
        name = self._replicas.topic_name(topic) if isinstance(topic, Uuid) else topic
        if name is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        is_allowed, tally = authorizer.grant(client, permission, name)
        if not is_allowed:
            return permission.refusal
        if tally is not None and (topic in granted or len(granted) < TOPICS_REMEMBERED):
            granted[topic] = tally
        return ErrorCode.NONE

    def finder_for_follower(self, client: Client, *, by_id: bool) -> Find:
        """`finder` for a broker that replicates: it needs CLUSTER_ACTION and no right to a topic.
        Without it every partition is TOPIC_AUTHORIZATION_FAILED, known or not."""
        if self.access.allows(client, CLUSTER_ACTION):
            return self._by_id if by_id else self._by_name
        return lambda topic, index: ErrorCode.TOPIC_AUTHORIZATION_FAILED

    def topic_refusal(
        self, client: Client, permission: Permission, topic: str | Uuid, *, quiet: bool = False
    ) -> ErrorCode:
        """Why the client may not do that to the topic; NONE if it may, whether there is such a
        topic or not. An id that no topic has is UNKNOWN_TOPIC_ID."""
        if isinstance(topic, Uuid):
            name = self._replicas.topic_name(topic)
            if name is None:
                return ErrorCode.UNKNOWN_TOPIC_ID
            topic = name
        return self.access.refusal(client, permission, topic, quiet=quiet)
