"""Groups of two types under whatever order of requests, conversions, refusals and crashes.

Members of both types come, commit and leave; groups become the other type and back; work elsewhere
ends late, in any order, or fails; the log refuses decisions, and the coordinator is loaded again
from a log that compaction has left in any state. Checked: what is durable is the same live and
replayed, whatever compaction took; a refused decision leaves nothing behind (the world asserts it);
memory is counted right; a partition has one holder; timers and work belong to groups of their type.
"""

from __future__ import annotations

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from fencepost.machines.group.classic.group import ClassicGroup
from fencepost.wire.errors import ErrorCode

from .group_world import Entry, GroupWorld, replay, subscription
from .rota_groups import ROTA, RotaGroup
from .test_group_types import TYPES, image_of

GROUPS = st.sampled_from(["g", "h"])
MEMBERS = st.sampled_from(["a", "b", "c"])


def compacted(log: list[Entry], end: int, cleaned: int, horizon: int) -> list[Entry]:
    """What is left of a log while it is compacted: `horizon` <= `cleaned` <= `end`.

    The pass knows the last record of each key below `end`, has rewritten what is below `cleaned`,
    and drops tombstones below `horizon`, which are old enough.
    """
    last = {key: at for at, (key, _) in enumerate(log[:end])}
    return [
        (key, value)
        for at, (key, value) in enumerate(log)
        if at >= cleaned or (last[key] == at and (value is not None or at >= horizon))
    ]


class TwoTypes(RuleBasedStateMachine):
    """Two group ids, three members each that speak either protocol."""

    def __init__(self) -> None:
        super().__init__()
        self.world = GroupWorld(types=TYPES, offsets_retention_check_ms=10**9)
        self.world.image = image_of(t=3)
        self.world.restart()

    @rule(group=GROUPS, member=MEMBERS, leaves=st.booleans(), moved=st.integers(0, 3))
    def heartbeat(self, group: str, member: str, leaves: bool, moved: int) -> None:
        found = self.world.coordinator.groups.get(group)
        epoch = found.epoch_of(member) if isinstance(found, RotaGroup) else 0
        epoch = -1 if leaves else max(0, epoch - moved)
        rota = self.world.coordinator.of_type(TYPES[1])
        self.world.ask(lambda token: rota.heartbeat(group, member, epoch, ("t",), token))

    @rule(group=GROUPS, member=MEMBERS)
    def join(self, group: str, member: str) -> None:
        found = self.world.coordinator.groups.get(group)
        known = isinstance(found, ClassicGroup) and member in found.members
        topics = {"range": subscription("t")}
        self.world.join(member if known else "", group=group, protocols=topics, version=3)

    @rule(group=GROUPS)
    def sync_all(self, group: str) -> None:
        found = self.world.coordinator.groups.get(group)
        if isinstance(found, ClassicGroup):
            given = {member_id: member_id.encode() for member_id in found.members}
            for member_id in list(found.members):
                self.world.sync(member_id, found.generation, given, group=group)

    @rule(group=GROUPS)
    def leave_all(self, group: str) -> None:
        found = self.world.coordinator.groups.get(group)
        if isinstance(found, ClassicGroup) and found.members:
            self.world.ask_to_leave(*found.members, group=group)

    @rule(group=GROUPS)
    def downgrade(self, group: str) -> None:
        rota = self.world.coordinator.of_type(TYPES[1])
        self.world.ask(lambda token: rota.downgrade(group, token, self.world.wall))

    @rule(group=GROUPS)
    def delete(self, group: str) -> None:
        self.world.ask(lambda token: self.world.coordinator.decide_delete_groups([group], token))

    @rule(group=GROUPS, member=MEMBERS, partition=st.integers(0, 2))
    def commit(self, group: str, member: str, partition: int) -> None:
        found = self.world.coordinator.groups.get(group)
        if isinstance(found, RotaGroup):
            self.world.offset_commit(
                7, group=group, partition=partition, member_id=member, generation=0
            )
        else:
            self.world.offset_commit(7, group=group, partition=partition)

    @rule(which=st.integers(0, 9), fails=st.booleans())
    def finish_work(self, which: int, fails: bool) -> None:
        works = sorted(self.world.works)
        if works:
            error = ValueError("the thread failed") if fails else None
            self.world.finish_work(works[which % len(works)], error)

    @rule(by_ms=st.sampled_from([100, 4_000, 11_000, 70_000]))
    def time_passes(self, by_ms: int) -> None:
        self.world.advance(by_ms)

    @rule(refuses=st.booleans())
    def the_log_refuses(self, refuses: bool) -> None:
        self.world.refusing = ErrorCode.NOT_ENOUGH_REPLICAS if refuses else None

    @rule(data=st.data())
    def crash_on_a_compacted_log(self, data: st.DataObject) -> None:
        world = self.world
        world.refusing = None
        end = data.draw(st.integers(0, len(world.log)))
        cleaned = data.draw(st.integers(0, end))
        horizon = data.draw(st.integers(0, cleaned))
        before = world.coordinator.durable_view()
        left = compacted(world.log, end, cleaned, horizon)
        assert replay(left, types=TYPES).durable_view() == before
        world.log, world.committed = left, len(left)
        world.restart()
        assert world.coordinator.durable_view() == before

    @invariant()
    def memory_is_counted(self) -> None:
        groups = self.world.coordinator.groups.values()
        assert self.world.memory.used_bytes == sum(group.counted_bytes for group in groups)

    @invariant()
    def a_partition_has_one_holder(self) -> None:
        for group in self.world.coordinator.groups.values():
            if isinstance(group, RotaGroup):
                held = [one for _, partitions in group.assigned.values() for one in partitions]
                assert len(held) == len(set(held))

    @invariant()
    def timers_and_work_are_of_groups_that_are_there(self) -> None:
        groups = self.world.coordinator.groups
        for name in (*self.world.timers, *self.world.works):
            if name[0] == ROTA:
                assert groups[name[1]].group_type == ROTA, name
            elif name[0] == "classic" and name[1] in groups:
                assert groups[name[1]].group_type == "classic", name

    @invariant()
    def members_are_watched(self) -> None:
        for group in self.world.coordinator.groups.values():
            if isinstance(group, RotaGroup):
                assert {n for n in group.timers() if n[2] == "session"} <= set(self.world.timers)


TestTwoTypes = TwoTypes.TestCase
TestTwoTypes.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
