"""A member of a consumer group that speaks the classic protocol (KIP-848's migration).

It joins the group of the members that do not: so the group is a classic one while there are no
others, is upgraded when one of those joins, and downgraded when the last of them has left. It says
which topics it reads, as a coordinator of consumer groups looks into that, and owns nothing while
it joins.
"""

from __future__ import annotations

from fencepost.sim.clients.epoch_member import GROUP_ID
from fencepost.sim.clients.member import Member
from fencepost.sim.group_oracle import OffsetWrite
from fencepost.sim.partition_oracle import PartitionKey
from fencepost.sim.surroundings import Surroundings
from fencepost.wire.records.consumer import ConsumerProtocolSubscription, encode_prefixed
from fencepost.wire.types import Uuid

_VERSION = 3


class MixedMember(Member):
    """See the module docstring."""

    def __init__(self, world: Surroundings, client_id: int) -> None:
        super().__init__(world, client_id, GROUP_ID)

    def subscription(self) -> bytes:
        """The topics that it knows of."""
        topics = sorted({self.name_of(key) or "" for key in self.partitions()} - {""})
        return encode_prefixed(ConsumerProtocolSubscription(topics=topics), _VERSION)

    def note_sent(self, write: OffsetWrite, topic_id: Uuid) -> None:
        """It commits as a member of a consumer group does: not by generations alone."""
        groups = self.world.observer.oracle.groups
        groups.sent_by_member(write, self.member_id, topic_id)

    def owned_keys(self) -> list[PartitionKey]:
        """What it owns, by the ids of topics that there are."""
        topics = self.world.observer.committed_image.topics_by_name
        return [(topics[name].topic_id, index) for name, index in self.owned if name in topics]
