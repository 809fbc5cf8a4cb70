"""I45: a partition of a consumer group is no member's that another may still believe to own.

A member may own what a coordinator has ever told it, until it says that it does not, or is removed;
of classic members, until they join again. Whoever coordinates, what members are told of their epoch
never falls. A coordinator that is deposed may tell what was: nothing is written for it.
"""

from __future__ import annotations

from fencepost.sim.checks import Check
from fencepost.sim.group_oracle import GenerationWrite, HoldingSaid, HoldingTold, HoldingWrite
from fencepost.sim.oracle import Oracle, Violation
from fencepost.sim.partition_oracle import PartitionBatch, PartitionKey

Place = tuple[PartitionKey, str]
"""A partition of `__consumer_offsets`, and a group in it."""


class _Believes:
    """What one member may believe."""

    def __init__(self) -> None:
        self.epoch = 0
        self.owns: frozenset[PartitionKey] = frozenset()


class ToldHolders(Check):
    """Follows what members are told, and what they have said since."""

    kind = "I45"

    def __init__(self) -> None:
        self._groups: dict[Place, dict[str, _Believes]] = {}

    def holding_said(self, oracle: Oracle, said: HoldingSaid) -> None:
        member = self._groups.get((said.partition, said.group_id), {}).get(said.member_id)
        if member is not None:
            member.owns &= said.owned

    def holding_told(self, oracle: Oracle, broker_id: int, told: HoldingTold) -> None:
        group = self._groups.setdefault((told.partition, told.group_id), {})
        member = group.setdefault(told.member_id, _Believes())
        if told.epoch < member.epoch:
            wrong = f"is in epoch {told.epoch}, after {member.epoch}"
            raise Violation(self.kind, f"{broker_id} tells {told.member_id} that it {wrong}")
        member.epoch = told.epoch
        for other_id, other in group.items():
            shared = other.owns & (told.held or frozenset())
            if shared and other is not member:
                raise Violation(
                    self.kind,
                    f"{broker_id} gives {sorted(shared)} to {told.member_id} of {told.group_id} in"
                    f" epoch {told.epoch}, and {other_id} may still own them in {other.epoch}",
                )
        member.owns |= told.held or frozenset()

    def became_visible(self, oracle: Oracle, key: PartitionKey, batch: PartitionBatch) -> None:
        writes = oracle.groups.writes_in(key, batch)
        for write in writes:
            if isinstance(write, HoldingWrite) and write.epoch is None:
                self._groups.get((key, write.group_id), {}).pop(write.member_id, None)
            elif isinstance(write, GenerationWrite):
                group = self._groups.get((key, write.group_id), {})
                for member_id in [
                    one for one in group if not _stays(one, group[one], write, writes)
                ]:
                    del group[member_id]


def _stays(
    member_id: str, member: _Believes, write: GenerationWrite, writes: tuple[object, ...]
) -> bool:
    """Whether a classic group's new generation, or what has become of the group, has a member.

    A generation's members have all joined again; a group that is upgraded takes over those whose
    holdings are written with it.
    """
    if write.generation is not None:
        return member.epoch >= write.generation
    return any(
        isinstance(one, HoldingWrite) and one.member_id == member_id and one.epoch is not None
        for one in writes
    )


CHECK = ToldHolders
