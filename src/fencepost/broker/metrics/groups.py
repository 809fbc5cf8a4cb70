"""Metrics of the groups that a node coordinates."""

from __future__ import annotations

from collections import Counter
from typing import Final

from fencepost.broker.groups.group_host import GroupHost
from fencepost.broker.metrics.catalogue import COORDINATOR, GROUPS
from fencepost.broker.metrics.sheet import Sheet
from fencepost.runtime.cooperative import Pieces
from fencepost.runtime.coordinator.coordinator import CoordinatorState

GROUPS_PER_PIECE: Final = 500
_STATES: Final = {
    CoordinatorState.ACTIVE: "active",
    CoordinatorState.LOADING: "loading",
    CoordinatorState.FAILED: "failed",
}
_CLASSIC: Final = "classic"
_GROUP_STATES: Final = {
    _CLASSIC: ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable"),
    "consumer": ("Empty", "Assigning", "Reconciling", "Stable"),
    "share": ("Empty", "Stable"),
    "streams": ("Empty", "NotReady", "Assigning", "Reconciling", "Stable"),
}
"""The states of groups of each type, by Kafka's names; none is seen dead."""


def collect_groups(sheet: Sheet, groups: GroupHost) -> Pieces[None]:
    """Put in what there is now."""
    partitions: Counter[CoordinatorState] = Counter()
    states: Counter[tuple[str, str]] = Counter()
    members = offsets = 0
    for coordinator in list(groups.coordinators()):
        partitions[coordinator.state] += 1
        if coordinator.state is CoordinatorState.ACTIVE:
            machine = coordinator.machine
            offsets += machine.offset_count
            for number, group in enumerate(list(machine.groups.values()), 1):
                states[group.group_type, group.state.value] += 1
                members += group.member_count
                if number % GROUPS_PER_PIECE == 0:
                    yield None
        yield None
    for group_type, names in _GROUP_STATES.items():
        counts = {name: states[group_type, name] for name in names}
        sheet.add(f"{COORDINATOR}group_count", sum(counts.values()), protocol=group_type)
        for name, count in counts.items():
            sheet.add(f"{COORDINATOR}{group_type}_group_count", count, state=name)
            if group_type == _CLASSIC:
                sheet.add(f"{GROUPS}numgroups{name.lower()}", count)
        if group_type == _CLASSIC:
            sheet.add(f"{GROUPS}numgroups", sum(counts.values()))
    sheet.add(f"{GROUPS}numoffsets", offsets)
    longest_ms, average_ms = groups.runtime.load_times.recent()
    sheet.add(f"{COORDINATOR}partition_load_time_max", longest_ms)
    sheet.add(f"{COORDINATOR}partition_load_time_avg", average_ms)
    for state, name in _STATES.items():
        sheet.add(f"{COORDINATOR}num_partitions", partitions[state], state=name)
    sheet.add("fencepost_group_members", members)
    sheet.add("fencepost_group_memory_bytes", groups.memory.used_bytes)
