"""The members of classic groups as values, and the states that a group can be in."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, NamedTuple

from fencepost.machines.group.memory import member_bytes
from fencepost.wire.api.describe_groups import DescribedGroupMember
from fencepost.wire.records.group import MemberMetadata

Protocols = tuple[tuple[str, bytes], ...]
"""What a member supports, its favourite first: (name, metadata)."""


class GroupState(Enum):
    """The states of a classic group, by Kafka's names."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    """Only said of groups that do not exist."""


class Member(NamedTuple):
    """One member. The stored half first, the ephemeral half below."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""

    join_token: Any = None
    """The JoinGroup request of it that waits."""
    sync_token: Any = None
    """The SyncGroup request of it that waits."""
    is_new: bool = False
    """Whether it was never yet in a generation."""

    @classmethod
    def from_record(cls, stored: MemberMetadata, protocol: str | None) -> Member:
        """A member as its group's record has it: it supports the protocol that was chosen."""
        rebalance_timeout_ms = stored.rebalance_timeout
        if rebalance_timeout_ms == -1:
            rebalance_timeout_ms = stored.session_timeout
        return cls(
            stored.member_id,
            stored.group_instance_id,
            stored.client_id,
            stored.client_host,
            rebalance_timeout_ms,
            stored.session_timeout,
            ((protocol or "", bytes(stored.subscription)),),
            bytes(stored.assignment),
        )

    def with_ephemeral_half_of(self, before: Member) -> Member:
        """This member, with what is not stored of `before`, which it was until its record.

        A record has one of the protocols that a member supports. If the others are known and were
        offered along with this one they stay known; those of an older record say nothing.
        """
        return self._replace(
            join_token=before.join_token,
            sync_token=before.sync_token,
            is_new=before.is_new,
            protocols=(
                before.protocols if self.protocols[0] in before.protocols else self.protocols
            ),
        )

    @property
    def size_bytes(self) -> int:
        """What the member takes of memory, as far as clients decide it."""
        texts = (self.member_id, self.instance_id, self.client_id, self.client_host)
        return member_bytes(self.protocols, self.assignment, *texts)

    @property
    def awaits_join(self) -> bool:
        """Whether a JoinGroup request of it waits."""
        return self.join_token is not None

    @property
    def awaits_sync(self) -> bool:
        """Whether a SyncGroup request of it waits."""
        return self.sync_token is not None

    def describe(self, protocol: str | None) -> DescribedGroupMember:
        """The member as DescribeGroups has it, with its metadata for `protocol` if one is given."""
        return DescribedGroupMember(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            member_metadata=b"" if protocol is None else self.metadata(protocol),
            member_assignment=self.assignment,
        )

    def metadata(self, protocol: str) -> bytes:
        """What it said for `protocol`, which it supports."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        raise AssertionError(f"{self.member_id} does not support {protocol}")


def protocols_of(offered: Sequence[Any]) -> Protocols:
    """JoinGroup's protocols as plain values, the first of equal names kept."""
    protocols: dict[str, bytes] = {}
    for protocol in offered:
        protocols.setdefault(protocol.name, bytes(protocol.metadata))
    return tuple(protocols.items())
