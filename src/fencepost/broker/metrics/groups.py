"""Metrics of the groups that a node coordinates."""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import Final

from fencepost.broker.groups.group_host import GroupHost
from fencepost.broker.metrics.catalogue import COORDINATOR, GROUPS
from fencepost.broker.metrics.sheet import Sheet
from fencepost.machines.group.classic.member import GroupState
from fencepost.machines.group.classic.timers import CLASSIC
from fencepost.runtime.cooperative import Pieces
from fencepost.runtime.coordinator.coordinator import CoordinatorState

GROUPS_PER_PIECE: Final = 500
_STATES: Final = {
    CoordinatorState.ACTIVE: "active",
    CoordinatorState.LOADING: "loading",
    CoordinatorState.FAILED: "failed",
}
_GROUP_STATES: Final = {
    GroupState.EMPTY: "empty",
    GroupState.PREPARING_REBALANCE: "preparingrebalance",
    GroupState.COMPLETING_REBALANCE: "completingrebalance",
    GroupState.STABLE: "stable",
}


def collect_groups(sheet: Sheet, groups: GroupHost) -> Pieces[None]:
    """Put in what there is now."""
    partitions: Counter[CoordinatorState] = Counter()
    states: Counter[Enum] = Counter()
    types: Counter[str] = Counter()
    members = offsets = 0
    for coordinator in list(groups.coordinators()):
        partitions[coordinator.state] += 1
        if coordinator.state is CoordinatorState.ACTIVE:
            machine = coordinator.machine
            offsets += machine.offset_count
            for number, group in enumerate(list(machine.groups.values()), 1):
                states[group.state] += 1
                types[group.group_type] += 1
                members += group.member_count
                if number % GROUPS_PER_PIECE == 0:
                    yield None
        yield None
    sheet.add(f"{GROUPS}numgroups", states.total())
    for group_state, name in _GROUP_STATES.items():
        sheet.add(f"{GROUPS}numgroups{name}", states[group_state])
    sheet.add(f"{GROUPS}numoffsets", offsets)
    sheet.add(f"{COORDINATOR}group_count", types[CLASSIC], protocol=CLASSIC)
    longest_ms, average_ms = groups.runtime.load_times.recent()
    sheet.add(f"{COORDINATOR}partition_load_time_max", longest_ms)
    sheet.add(f"{COORDINATOR}partition_load_time_avg", average_ms)
    for state, name in _STATES.items():
        sheet.add(f"{COORDINATOR}num_partitions", partitions[state], state=name)
    sheet.add("fencepost_group_members", members)
    sheet.add("fencepost_group_memory_bytes", groups.memory.used_bytes)
