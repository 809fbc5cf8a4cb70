"""What a consumer and its membership of a group have to do with each other.

`classic_member` and `consumer_member` drive the two kinds of membership; `ConsumerCore` has one of
them, or none while its application assigns partitions by hand.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Any, Final, Generic, Protocol, TypeVar

from fencepost.client.clock import now_ms
from fencepost.client.cluster_view import ClusterView
from fencepost.client.config import ClientConfig
from fencepost.client.conversation import Conversation
from fencepost.client.errors import ClientError
from fencepost.client.metadata import TopicPartition
from fencepost.client.protocol.transaction_requests import ConsumerGroupMetadata

log = logging.getLogger("fencepost.client")

LEAVE_TIMEOUT_MS: Final = 5_000
"""For leaving; the session times out by itself."""


class Reader(Protocol):
    """The consumer, as a membership sees it."""

    @property
    def config(self) -> ClientConfig: ...

    @property
    def view(self) -> ClusterView[Any]: ...

    @property
    def coordinator_purpose(self) -> str:
        """Of the connection over which the coordinator is asked; see `conversation.Where`."""

    def held(self) -> tuple[TopicPartition, ...]:
        """The partitions that are read, or about to be."""

    def giving_up(
        self, partitions: Collection[TopicPartition], *, is_lost: bool
    ) -> Conversation[None]:
        """Commit what is stored, tell the listener, and read these no more; nothing is committed
        of what `is_lost`, because other members may have it already."""

    def taking_on(self, partitions: Collection[TopicPartition]) -> Conversation[None]:
        """Read these as well, after telling the listener; `placing` finds where."""

    def placing(self) -> Conversation[None]:
        """Find positions for partitions that have none."""


class Member(Protocol):
    """A membership, as the consumer sees it. Conversations ask the group's coordinator."""

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that are this member's now."""

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics subscribed to by name."""

    @property
    def member_id(self) -> str: ...

    @property
    def metadata(self) -> ConsumerGroupMetadata | None:
        """With what offsets are committed; None before the first assignment."""

    @property
    def may_commit(self) -> bool:
        """Whether the coordinator takes offsets from this member."""

    @property
    def has_to_join(self) -> bool:
        """Whether `rebalancing` has something to do before reading goes on."""

    @property
    def beats(self) -> bool:
        """Whether heartbeats are to be sent."""

    @property
    def beats_apart(self) -> bool:
        """Whether heartbeats may leave during `rebalancing`."""

    @property
    def wait_ms(self) -> float:
        """Milliseconds until a heartbeat is due."""

    def subscribe(self, topics: tuple[str, ...], pattern: str | None) -> None:
        """Read other topics from now on. ConfigError for a pattern where none can be used."""

    def beating(self) -> Conversation[None]:
        """Send a heartbeat if it is due."""

    def rebalancing(self) -> Conversation[None]:
        """Join if that is to be done, give up partitions, take on others. BrokerError for what
        joining again cannot help."""

    def recovering(self, code: int) -> Conversation[bool]:
        """Take in that committing was refused with `code`; whether trying again may help."""

    def leaving(self) -> Conversation[None]:
        """Leave the group, so that others get the partitions at once."""


class MembershipMachine(Protocol):
    """A membership that decides, and sends nothing itself: of either protocol."""

    @property
    def assignment(self) -> tuple[TopicPartition, ...]: ...

    @property
    def member_id(self) -> str: ...

    @property
    def config(self) -> Any: ...

    @property
    def may_commit(self) -> bool: ...

    @property
    def has_to_leave(self) -> bool: ...

    def wait_ms(self, now_ms: float) -> float: ...

    def forget(self) -> None: ...


M = TypeVar("M", bound=MembershipMachine)


class MachineMember(ABC, Generic[M]):
    """What members of both kinds of groups have in common, which are driven by such a machine."""

    def __init__(self, reader: Reader, group: str, machine: M) -> None:
        self._reader = reader
        self._group = group
        self._machine = machine

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        return self._machine.assignment

    @property
    def topics(self) -> tuple[str, ...]:
        topics: tuple[str, ...] = self._machine.config.topics
        return topics

    @property
    def member_id(self) -> str:
        return self._machine.member_id

    @property
    def may_commit(self) -> bool:
        return self._machine.may_commit

    @property
    def wait_ms(self) -> float:
        return self._machine.wait_ms(now_ms())

    def leaving(self) -> Conversation[None]:
        try:
            if self._machine.has_to_leave:
                yield from self._asking_to_leave()
        except ClientError as error:  # the session ends by itself
            log.warning("leaving group %s: %s", self._group, error)
        self._machine.forget()

    @abstractmethod
    def _asking_to_leave(self) -> Conversation[Any]:
        """Send the request of this member's protocol."""
