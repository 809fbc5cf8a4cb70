"""The target assignment of a streams group: when it is computed, where, and from what.

It is computed when the group epoch has been raised above the target's: not while a group that was
empty waits for further members (`streams.initial.rebalance.delay.ms`), nor before the assignment
interval is over since the last one. A small one is computed in the heartbeat, as Kafka does, so
that its member has tasks in the answer; a large one elsewhere, so that other groups need not wait.
What was computed elsewhere counts even if the epoch has been raised meanwhile: then it is the
target of an older epoch, and the next one follows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from fencepost.machines.coordinator import WorkResult
from fencepost.machines.group.assignment_interval import may_assign
from fencepost.machines.group.records import GroupRecord
from fencepost.machines.group.settings import StreamsSettings
from fencepost.machines.group.shard import Decision, Shard
from fencepost.machines.group.streams.configuring import ConfiguredTopology
from fencepost.machines.group.streams.group import StreamsGroup
from fencepost.machines.group.streams.member import NO_REPORTED_OFFSETS, StreamsMember
from fencepost.machines.group.streams.records import target_epoch_record, target_record
from fencepost.machines.group.streams.soft_changes import SoftChange
from fencepost.machines.group.streams.sticky_assignor import (
    AssignmentSpec,
    SpecMember,
    SpecSubtopology,
    assign_sticky,
)
from fencepost.machines.group.streams.tasks import NO_TASKS, Tasks
from fencepost.machines.group.streams.timers import assign_work

INLINE_MAX: Final = 2_000
"""Members and tasks together, up to which a target is computed in the heartbeat."""

DELAYED_INITIALLY: Final = "Assignment delayed due to the configured initial rebalance delay."
DELAYED_BY_INTERVAL: Final = "Assignment delayed due to the configured assignment interval."
BEING_COMPUTED: Final = "Assignment delayed because it is being computed."

NUM_STANDBY_REPLICAS: Final = "num.standby.replicas"
RACK_AWARE_TAGS: Final = "rack.aware.assignment.tags"


class Target(NamedTuple):
    """The target that a member is reconciled to."""

    epoch: int
    tasks: Tasks
    delay: str | None = None
    """Why there is no newer one yet, though there should be."""


class Replacement(NamedTuple):
    """The member whose heartbeat is decided, as it will be, and the one that it replaces."""

    member: StreamsMember
    old_id: str | None


def assignment_configs(settings: StreamsSettings) -> dict[str, str]:
    """What the assignor is given; a change of it calls for a new target."""
    configs = {NUM_STANDBY_REPLICAS: str(settings.num_standby_replicas)}
    if settings.rack_aware_assignment_tags:
        configs[RACK_AWARE_TAGS] = ",".join(settings.rack_aware_assignment_tags)
    return configs


class Targets:
    """Decides about the targets of the groups of one shard."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    def next(
        self,
        decision: Decision,
        group: StreamsGroup,
        epoch: int,
        configured: ConfiguredTopology,
        beat: Replacement,
        wall_ms: int,
    ) -> Target:
        """The target for a member whose heartbeat is decided, while the group is at `epoch`; its
        records, or the work that makes it, are added to the decision."""
        member_id = beat.member.member_id
        present = group.targets.get(beat.old_id or member_id, NO_TASKS)
        if group.target_epoch >= epoch:
            return Target(group.target_epoch, present)
        settings = self._shard.streams_settings(group.group_id)
        interval_ms = settings.assignment_interval_ms
        if not may_assign(group.target_timestamp_ms, interval_ms, wall_ms):
            return Target(group.target_epoch, present, DELAYED_BY_INTERVAL)
        targets = self._assign(decision, group, epoch, configured, beat, wall_ms)
        if targets is None:
            return Target(group.target_epoch, present, BEING_COMPUTED)
        return Target(epoch, targets.get(member_id, NO_TASKS))

    def compute(self, decision: Decision, group: StreamsGroup, wall_ms: int) -> None:
        """Compute the group's first target: its initial delay is over."""
        configured = group.soft.configured
        if not group.is_empty and configured is not None and group.epoch > group.target_epoch:
            self._assign(decision, group, group.epoch, configured, None, wall_ms)

    def _assign(
        self,
        decision: Decision,
        group: StreamsGroup,
        epoch: int,
        configured: ConfiguredTopology,
        beat: Replacement | None,
        wall_ms: int,
    ) -> dict[str, Tasks] | None:
        """The target of every member, or None if it is computed elsewhere."""
        if group.soft.computing_epoch is not None:
            return None
        settings = self._shard.streams_settings(group.group_id)
        spec = _spec(group, configured, beat, settings.num_standby_replicas)
        size = len(spec.members) + spec.task_count * (1 + spec.standby_replicas)
        if size > INLINE_MAX:
            self._begin(decision, group.group_id, epoch, spec)
            return None
        targets = assign_sticky(spec)
        before = dict(group.targets)
        if beat is not None and beat.old_id is not None:
            before[beat.member.member_id] = before.pop(beat.old_id, NO_TASKS)
        decision.records += _records(group.group_id, before, targets)
        decision.records.append(target_epoch_record(group.group_id, epoch, wall_ms))
        return targets

    def _begin(self, decision: Decision, group_id: str, epoch: int, spec: AssignmentSpec) -> None:
        def on_done(result: WorkResult, wall_ms: int) -> Decision:
            return self._computed(group_id, epoch, result, wall_ms)

        decision.changes.append(SoftChange(group_id, computing_epoch=epoch))
        decision.begin_work(assign_work(group_id), assign_sticky, spec, on_done)

    def _computed(self, group_id: str, epoch: int, result: WorkResult, wall_ms: int) -> Decision:
        """A target that was computed elsewhere is there."""
        decision = Decision(is_atomic=False)
        group = self._shard.group_of(group_id, StreamsGroup)
        if group is None or group.soft.computing_epoch != epoch:
            return decision  # gone, or emptied and filled again
        done = SoftChange(group_id, computing_epoch=None)
        decision.changes.append(done)
        decision.on_refused = lambda error: Decision(changes=[done])
        if result.error is not None:
            decision.notes.append(f"group {group_id}: no assignment: {result.error}")
        elif group.target_epoch < epoch <= group.epoch:
            targets = {one: tasks for one, tasks in result.value.items() if one in group.metadata}
            decision.records += _records(group_id, group.targets, targets)
            decision.records.append(target_epoch_record(group_id, epoch, wall_ms))
        return decision


def _records(
    group_id: str, before: Mapping[str, Tasks], targets: Mapping[str, Tasks]
) -> list[GroupRecord]:
    return [
        target_record(group_id, member_id, tasks)
        for member_id, tasks in sorted(targets.items())
        if before.get(member_id) != tasks
    ]


def _spec(
    group: StreamsGroup,
    configured: ConfiguredTopology,
    beat: Replacement | None,
    standby_replicas: int,
) -> AssignmentSpec:
    """Of the members as they will be. A topology that is not ready has no tasks."""
    members = {one: group.member(one) for one in group.metadata}
    if beat is not None:
        members.pop(beat.old_id or "", None)
        members[beat.member.member_id] = beat.member
    subtopologies = configured.subtopologies if configured.is_ready else None
    return AssignmentSpec(
        tuple(
            SpecMember(
                member.member_id,
                member.metadata.process_id,
                frozenset(member.current.assigned.active),
                member.current.assigned.standby,
                group.offsets.get(member.member_id, NO_REPORTED_OFFSETS).offsets,
            )
            for member in members.values()
            if member is not None
        ),
        tuple(
            SpecSubtopology(subtopology_id, one.task_count, one.is_stateful)
            for subtopology_id, one in (subtopologies or {}).items()
        ),
        standby_replicas,
    )
