"""What Fetch is decided with: its request's context, and the parts of the node that it needs.

The broker and the simulator provide the protocols in different ways. A broker's answers read logs
in turns with those of other connections, within the memory that is left, from the page cache alone,
and followers are throttled; a simulated broker reads what is asked for at once.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Final, NamedTuple, Protocol, runtime_checkable

from fencepost.log.page_cache import NotCachedError
from fencepost.machines.driver import Driver
from fencepost.runtime.clock import Clocks
from fencepost.runtime.delayed_fetches import FetchHost
from fencepost.runtime.replicas import HostedPartition, ReplicaManager
from fencepost.runtime.requests.access import Find, PartitionAccess
from fencepost.runtime.requests.context import Pieces, RequestContext
from fencepost.runtime.requests.parts import ClusterMetadata
from fencepost.runtime.requests.permissions import READ_TOPIC
from fencepost.wire.message import Message

TOPIC_IDS_FROM: Final = 13
"""The version of Fetch from which topics go by id."""


class FetchRequestContext(RequestContext, Protocol):
    """A Fetch until it is answered."""

    @property
    def available_bytes(self) -> int:
        """How large the answer should be at most: memory may be short."""
        ...

    @property
    def at_once_bytes(self) -> int:
        """How many bytes the answer may read before it lets others go first."""
        ...

    def have_read(self, size_bytes: int) -> None:
        """The answer has read so many bytes from a log."""
        ...

    @property
    def fetch_bytes_max(self) -> int:
        """How large the answer to a consumer may be without exceeding the client's quota, if it
        used none of that lately."""
        ...

    def is_throttled_for(self, size_bytes: int) -> bool:
        """Charge a consumer for an answer of so many bytes; whether the answer is to have none of
        them, because the client has used its quotas up."""
        ...

    def comes_from_broker(self) -> None:
        """The client is a broker: what it is sent comes before what clients are."""
        ...

    def add_outgoing(self, size_bytes: int) -> None:
        """An answer that is made in pieces takes so much more memory, or less."""
        ...

    def reply_when_next(
        self, make: Callable[[], Message | Pieces], pieces: Callable[[], Pieces]
    ) -> None:
        """`make` the answer now if it would leave now, else what `pieces` returns when it would."""
        ...


@runtime_checkable
class CachedReads(Protocol):
    """Reads of logs that do not wait for a disk, and what brings in what they did not find."""

    def reading(self, tries: int, /) -> AbstractContextManager[object]:
        """The context within which reads raise what `begin` takes, when that was begun `tries`
        times; after too many of them reads wait."""
        ...

    def without_waiting(self) -> AbstractContextManager[object]:
        """The context within which no read waits for a file descriptor."""
        ...

    def begin(self, cold: NotCachedError, ahead_bytes: int = 0, /) -> Future[None]:
        """Have a range read, or `ahead_bytes` from where it begins if that is more. Done when it is
        worth another try; its exception is the OSError of the disk."""
        ...


@runtime_checkable
class FetchPolicy(Protocol):
    """What a node's configuration says about fetches."""

    @property
    def max_bytes(self) -> int:
        """`fetch.max.bytes`: the most that an answer has of records."""
        ...

    def choose_replica(
        self, listener_name: str, rack: str, /
    ) -> Callable[[HostedPartition, int], int] | None:
        """What says which replica a consumer in `rack` is to read an offset from (KIP-392); None
        if all read from the leader."""
        ...

    def is_held_back(self, replica_id: int, /) -> Callable[[HostedPartition], bool] | None:
        """What says whether the follower has to wait (KIP-73); None if no follower has to."""
        ...

    def sent_to_follower(self, hosted: HostedPartition, size_bytes: int, /) -> None:
        """A follower is sent so many bytes of the partition."""
        ...


class FetchParts(NamedTuple):
    """What fetches are answered from."""

    clocks: Clocks
    cached_reads: CachedReads
    fetches: FetchHost
    metadata: ClusterMetadata
    partitions: PartitionAccess
    policy: FetchPolicy
    replicas: ReplicaManager
    driver: Driver

    def finder(self, context: RequestContext, *, is_replica: bool) -> Find:
        """What finds the partitions that the request wants, or why the client cannot have them."""
        by_id = context.api_version >= TOPIC_IDS_FROM
        if is_replica:
            return self.partitions.finder_for_follower(context, by_id=by_id)
        return self.partitions.finder(context, READ_TOPIC, by_id=by_id)
