"""I44: in the log of a consumer group a partition has one holder, and member epochs never fall.

No offset is committed for a partition that another member holds. What a member has to give up it
still holds: it is no other's until the member has said so. The epoch in which a partition was given
to a member does not fall either, and is none that the member has not come to. A static member that
leaves for a while keeps its partitions, in no epoch, for the one that comes back.
"""

from __future__ import annotations

from fencepost.machines.group.consumer.member import JOINS, LEAVES_FOR_A_WHILE
from fencepost.sim.checks import Check
from fencepost.sim.group_oracle import NO_EPOCHS, HoldingWrite, OffsetKey, OffsetWrite, SentByMember
from fencepost.sim.oracle import Oracle, Violation
from fencepost.sim.partition_oracle import PartitionBatch, PartitionKey

Place = tuple[PartitionKey, str]
"""A partition of `__consumer_offsets`, and a group in it."""


class OneHolder(Check):
    """Follows what each member of a consumer group has, as it is stored."""

    kind = "I44"

    def __init__(self) -> None:
        self._held: dict[Place, dict[str, HoldingWrite]] = {}

    def became_visible(self, oracle: Oracle, key: PartitionKey, batch: PartitionBatch) -> None:
        for write in oracle.groups.writes_in(key, batch):
            if isinstance(write, HoldingWrite):
                self._holds(self._held.setdefault((key, write.group_id), {}), write)
                continue
            sender = oracle.groups.sender_of(write) if isinstance(write, OffsetWrite) else None
            if isinstance(write, OffsetWrite) and sender is not None:
                self._commits((key, write.key.group_id), sender, write.key)

    def _holds(self, members: dict[str, HoldingWrite], write: HoldingWrite) -> None:
        before = members.pop(write.member_id, None)
        if write.epoch is None:
            return
        epoch = write.epoch
        if epoch == LEAVES_FOR_A_WHILE:
            before, write = None, write._replace(since=NO_EPOCHS)
        if before is not None and before.epoch is not None and epoch < before.epoch:
            self._refuse(write, f"is in epoch {epoch} behind {before.epoch}")
        fallen = [key for key, since in write.since.items() if since > epoch > JOINS]
        if before is not None:
            kept = before.since.keys() & write.since.keys()
            fallen += [key for key in kept if write.since[key] < before.since[key]]
        if fallen:
            self._refuse(write, f"has another assignment epoch of {sorted(fallen)}")
        for other in members.values():
            shared = other.held & write.held
            if shared:
                self._refuse(write, f"has {sorted(shared)}, as {other.member_id} has")
        members[write.member_id] = write

    def _commits(self, place: Place, sender: SentByMember, key: OffsetKey) -> None:
        partition = sender.topic_id, key.partition
        for other in self._held.get(place, {}).values():
            if partition in other.held and other.member_id != sender.member_id:
                topic, who = f"{key.topic}-{key.partition}", f"{sender.member_id} of {key.group_id}"
                raise Violation(
                    self.kind, f"{who} has committed for {topic}, which {other.member_id} holds"
                )

    def _refuse(self, write: HoldingWrite, wrong: str) -> None:
        raise Violation(self.kind, f"{write.member_id} of {write.group_id} {wrong}")


CHECK = OneHolder
