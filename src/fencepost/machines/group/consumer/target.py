"""The target assignment of a group: when it is computed, from what, and what is written of it.

It is computed when the group's epoch is ahead of the target's, once per
`consumer.assignment.interval.ms` (KIP-1263): members that join within it are assigned together. A
group whose target has no time yet (it is new, or was empty) is assigned at once, so that the first
member has partitions in its first answer.

A small target is computed within the heartbeat, as Kafka does. A large one would hold up the event
loop, so it is work elsewhere, of an immutable spec. One at a time is computed for a group; when its
result comes the group may be further, and the next heartbeat begins the next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple

from fencepost.machines.coordinator import WorkResult
from fencepost.machines.group.consumer.assignors import ASSIGNORS, AssignmentSpec, SpecMember
from fencepost.machines.group.consumer.group import ConsumerGroup, Note
from fencepost.machines.group.consumer.member import Partitions, Subscription
from fencepost.machines.group.consumer.records import target_epoch_record, target_record
from fencepost.machines.group.consumer.timers import assign_work
from fencepost.machines.group.found_topics import found_topics
from fencepost.machines.group.shard import Decision, Shard
from fencepost.machines.image import ClusterImage
from fencepost.wire.types import Uuid

INLINE_COST_MAX: Final = 2_000
"""Partitions and members of a target that is computed within a heartbeat: some milliseconds."""

_NO_TARGET: Final[Partitions] = {}


class Changed(NamedTuple):
    """The member that the heartbeat is about, as it is before and after it."""

    member_id: str
    before: Subscription | None
    after: Subscription | None
    replaced_id: str | None = None
    """The id that the member had, if this heartbeat gives it another."""


def subscribed_names(group: ConsumerGroup, *changes: Changed) -> set[str]:
    """All topics that the members subscribe to, once the changes of some are made."""
    before = [one.before for one in changes if one.before is not None]
    gone_sets = Counter(said.topic_names for said in before)
    gone = Counter(
        name
        for names, users in gone_sets.items()
        if group.name_sets[names].users == users
        for name in names
    )
    names = {name for name, users in group.topic_users.items() if users > gone.get(name, 0)}
    gone_regexes = Counter(said.regex for said in before)
    regexes = {regex for regex, n in group.regex_users.items() if n > gone_regexes.get(regex, 0)}
    for one in changes:
        if one.after is not None:
            names |= one.after.topic_names
            if one.after.regex:
                regexes.add(one.after.regex)
    for regex in regexes:
        resolved = group.regexes.get(regex)
        if resolved is not None:
            names |= resolved.topics
    return names


def effective_assignor(group: ConsumerGroup, default: str, changed: Changed | None = None) -> str:
    """The assignor that most members prefer, the first by name of several; else the default."""
    users = group.assignor_users
    if changed is not None:
        users = dict(users)
        if changed.before is not None and changed.before.server_assignor:
            users[changed.before.server_assignor] -= 1
        if changed.after is not None and changed.after.server_assignor:
            name = changed.after.server_assignor
            users[name] = users.get(name, 0) + 1
    preferred = [(-n, name) for name, n in users.items() if n > 0 and name in ASSIGNORS]
    return min(preferred)[1] if preferred else default


def may_assign(timestamp_ms: int, interval_ms: int, wall_ms: int) -> bool:
    """Whether a target may be computed now, the last one being of `timestamp_ms` (0: of never).

    A wall clock that was set back does not hold up the group for longer than the interval.
    """
    return (
        timestamp_ms == 0
        or interval_ms == 0
        or not timestamp_ms <= wall_ms < timestamp_ms + interval_ms
    )


def spec_of(
    group: ConsumerGroup, image: ClusterImage, changed: Changed | None = None
) -> AssignmentSpec:
    """What an assignor needs to know of the group, with the change of this heartbeat made."""
    members: dict[str, Subscription] = dict(group.members)
    targets: Mapping[str, Partitions] = group.target
    if changed is not None and changed.after is not None:
        if changed.replaced_id is not None:
            members.pop(changed.replaced_id)
            target = group.target_of(changed.replaced_id)
            targets = {**targets, changed.member_id: target}
        members[changed.member_id] = changed.after
    counts: dict[Uuid, int] = {}
    known: dict[tuple[frozenset[str], str | None], frozenset[Uuid]] = {}

    def topic_ids(said: Subscription) -> frozenset[Uuid]:
        key = said.topic_names, said.regex
        ids = known.get(key)
        if ids is None:
            topics = existing_topics(image, group.topic_names_of(said))
            counts.update(topics)
            ids = known[key] = frozenset(topics)
        return ids

    return AssignmentSpec(
        tuple(
            SpecMember(
                member_id, said.instance_id, topic_ids(said), targets.get(member_id, _NO_TARGET)
            )
            for member_id, said in sorted(members.items())
        ),
        counts,
    )


def existing_topics(image: ClusterImage, names: Iterable[str]) -> dict[Uuid, int]:
    """The ids of those topics that exist, and how many partitions they have."""
    return {topic.topic_id: len(topic.partitions) for topic in found_topics(image, names)}


def cost_of(spec: AssignmentSpec) -> int:
    """How much work a target of the spec is: its partitions, and its members."""
    return sum(spec.partition_counts.values()) + len(spec.members)


class Targets:
    """Computes targets, now or elsewhere; shares the shard's state."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    def update(
        self, decision: Decision, group: ConsumerGroup, changed: Changed, epoch: int, wall_ms: int
    ) -> tuple[int, Partitions]:
        """The target epoch and what the member of `changed` is to have, in the group's `epoch`.

        If that is to be computed now, its records are added to the decision, or its work.
        """
        shard, group_id = self._shard, group.group_id
        present = group.target_epoch, group.target_of(changed.replaced_id or changed.member_id)
        if epoch <= group.target_epoch or group.assigning_epoch is not None:
            return present
        interval_ms = shard.consumer_settings(group_id).assignment_interval_ms
        if not may_assign(group.target_timestamp_ms, interval_ms, wall_ms):
            return present
        spec = spec_of(group, shard.image, changed)
        assign = ASSIGNORS[effective_assignor(group, shard.config.consumer_assignors[0], changed)]
        if cost_of(spec) > INLINE_COST_MAX:
            decision.changes.append(Note(group_id, "assigning_epoch", epoch))
            on_done = partial(self._assigned, group_id, epoch)
            decision.begin_work(assign_work(group_id), assign, spec, on_done)
            return present
        assignment = assign(spec)
        for member_id, target in assignment.items():
            is_copied = member_id == changed.member_id and changed.replaced_id is not None
            if target != (present[1] if is_copied else group.target.get(member_id)):
                decision.records.append(target_record(group_id, member_id, target))
        decision.records.append(target_epoch_record(group_id, epoch, wall_ms))
        return epoch, assignment[changed.member_id]

    def _assigned(self, group_id: str, epoch: int, result: WorkResult, wall_ms: int) -> Decision:
        """A target of that epoch was computed elsewhere; the group may be further by now.

        It counts as long as no later one does: members that have left since are left out, and those
        that came wait for the next. The epoch is the last record, since all may not be one batch.
        """
        decision = Decision(is_atomic=False)
        group = self._shard.group_of(group_id, ConsumerGroup)
        if group is None:
            return decision
        decision.changes.append(Note(group_id, "assigning_epoch", None))
        if result.error is not None:
            decision.notes.append(f"group {group_id} cannot be assigned: {result.error!r}")
        elif group.target_epoch < epoch <= group.epoch:
            for member_id, target in result.value.items():
                if member_id in group.members and group.target.get(member_id) != target:
                    decision.records.append(target_record(group_id, member_id, target))
            decision.records.append(target_epoch_record(group_id, epoch, wall_ms))
        return decision
