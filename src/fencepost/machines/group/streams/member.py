"""What is known of a member of a streams group: what it said (record 19), and what it was given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from fencepost.machines.group.memory import member_bytes
from fencepost.machines.group.streams.reconciliation import NOTHING_ASSIGNED, CurrentAssignment
from fencepost.machines.group.streams.tasks import TaskId

LEFT_FOR_NOW: Final = -2
"""The member epoch of a static member that will be back (KIP-345)."""

TASK_BYTES: Final = 200
"""Allowance for a task of a member in its assignment, with its place among the holders."""
OFFSET_BYTES: Final = 150
"""Allowance for an offset that a member reports of a task."""


class MemberMetadata(NamedTuple):
    """What a member said of itself, in all its heartbeats together."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    user_endpoint: tuple[str, int] | None = None
    """Host and port at which its state can be queried."""
    client_tags: tuple[tuple[str, str], ...] = ()
    """Sorted by key."""

    @property
    def counted_bytes(self) -> int:
        """What the member takes of memory, its id and tasks aside."""
        host = self.user_endpoint[0] if self.user_endpoint is not None else None
        tags = [(key, value.encode()) for key, value in self.client_tags]
        texts = (self.instance_id, self.rack_id, self.client_id, self.client_host, self.process_id)
        return member_bytes(tags, b"", *texts, host)

    def needs_new_target(self, said: MemberMetadata) -> bool:
        """Whether what a static member says now changes what it should be given. What only names
        it or says where it is does not."""
        return (self.topology_epoch, self.rack_id, self.client_tags, self.process_id) != (
            said.topology_epoch,
            said.rack_id,
            said.client_tags,
            said.process_id,
        )


NEW_MEMBER: Final = MemberMetadata()


class StreamsMember(NamedTuple):
    """A member as a decision sees it."""

    member_id: str
    metadata: MemberMetadata = NEW_MEMBER
    current: CurrentAssignment = NOTHING_ASSIGNED


class ReportedOffsets(NamedTuple):
    """What a member reported of its state, in memory alone: sums of changelog offsets by task."""

    offsets: Mapping[TaskId, int]
    end_offsets: Mapping[TaskId, int]

    @property
    def counted_bytes(self) -> int:
        """What they take of memory."""
        return (len(self.offsets) + len(self.end_offsets)) * OFFSET_BYTES


NO_REPORTED_OFFSETS: Final = ReportedOffsets({}, {})
