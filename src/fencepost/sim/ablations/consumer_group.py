"""Coordinators of consumer groups (KIP-848) without one of their rules, as Kafka's were once."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any, Final

from fencepost.machines.group import member_epochs
from fencepost.machines.group.classic.group import ClassicGroup
from fencepost.machines.group.commits import Commits
from fencepost.machines.group.consumer import (
    apply,
    assignors,
    embedded,
    heartbeat,
    joining,
    leaving,
    migration,
    reconciliation,
    target,
)
from fencepost.machines.group.consumer.assignors import AssignmentSpec
from fencepost.machines.group.consumer.group import ConsumerGroup
from fencepost.machines.group.consumer.member import LEAVES_FOR_A_WHILE, MemberState, Progress
from fencepost.machines.group.shard import Decision, Shard
from fencepost.sim.ablations.ablation import Ablation, always, in_brokers, patched
from fencepost.wire.errors import DecodeError
from fencepost.wire.records.group import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)

_NOTHING = embedded.Embedded(frozenset(), {}, -1, None)

_reconcile = reconciliation.reconcile


def _reconcile_in_the_target_epoch(
    before: Progress, target: Any, target_epoch: int, subscribed: Any, is_free: Any, heard: Any
) -> Progress:
    """What a member has to give up is its own in the epoch of its target."""
    after = _reconcile(before, target, target_epoch, subscribed, is_free, heard)
    is_giving_up = after is not before and after.state is MemberState.UNREVOKED_PARTITIONS
    return after._replace(epoch=target_epoch) if is_giving_up else after


_remove_members = leaving.remove_members


def _remove_and_keep_the_target_epoch(
    shard: Shard, decision: Decision, group: ConsumerGroup, member_ids: Any, wall_ms: int
) -> None:
    _remove_members(shard, decision, group, member_ids, wall_ms)
    of_target = ConsumerGroupTargetAssignmentMetadataKey
    decision.records = [one for one in decision.records if not isinstance(one[0], of_target)]


_other_epoch = member_epochs.other_epoch


def _refuse_members_that_join_again(
    kind: str, named: int, known: int, previous: int, owns_what_it_has: Any
) -> Any:
    return _other_epoch(kind, named or -1 if known else 0, known, previous, owns_what_it_has)


_said = heartbeat._said


def _said_without_no_expression(known: Any, request: Any, caller: Any) -> Any:
    """An expression that is empty counts as one that is not given."""
    if request.subscribed_topic_regex == "":
        request = copy(request)
        request.subscribed_topic_regex = None
    return _said(known, request, caller)


def _has_left_by_itself(group: ConsumerGroup, member_id: str) -> bool:
    return group.progress_of(member_id).epoch == LEAVES_FOR_A_WHILE


_apply_member, _apply_progress = apply._apply_member, apply._apply_progress


def _apply_member_and_keep_its_instance(
    shard: Shard, group: ConsumerGroup, key: Any, value: Any
) -> None:
    before = group.members.get(key.member_id)
    _apply_member(shard, group, key, value)
    if before is not None and before.instance_id is not None and value is not None:
        shard.undo_log.put(group.static_members, before.instance_id, key.member_id)


def _apply_progress_of_members(shard: Shard, group: ConsumerGroup, key: Any, value: Any) -> None:
    """A tombstone must have something to take away."""
    if value is None and key.member_id not in group.progress:
        raise ValueError(f"there is no member {key.member_id}")
    _apply_progress(shard, group, key, value)


_assign_uniform = assignors.assign_uniform


def _assign_from_the_beginning(spec: AssignmentSpec) -> Any:
    """Whatever members have had."""
    members = [one._replace(partitions={}) for one in spec.members]
    return _assign_uniform(spec._replace(members=tuple(members)))


_read_subscription, _read_assignment = embedded.read_subscription, embedded.read_assignment


def _read_subscription_or_nothing(metadata: bytes, image: Any) -> embedded.Embedded:
    try:
        return _read_subscription(metadata, image)
    except DecodeError:
        return _NOTHING


def _read_assignment_that_is_there(assignment: bytes, image: Any) -> Any:
    """One without bytes does not read."""
    if not assignment:
        raise DecodeError("an assignment has a version")
    return _read_assignment(assignment, image)


_downgrade = migration.downgrade


def _downgrade_in_silence(
    shard: Any,
    decision: Any,
    group: Any,
    gone: Any,
    wall_ms: int,
    *,
    joined: Any = None,
    rebalance_for: Any,
) -> bool:
    return _downgrade(shard, decision, group, gone, wall_ms, joined=joined, rebalance_for=None)


def _applied_by(key: type[Any], apply_record: Any) -> tuple[Any, str, Any]:
    return apply, "_APPLY", {**apply._APPLY, key: apply_record}


TABLE: Final[Mapping[str, Ablation]] = {
    # KAFKA-18688: the uniform assignor does not look at what members have.
    "assigns-from-the-beginning": in_brokers(
        "a member that comes takes partitions from those that could keep them",
        patched(
            (target, "ASSIGNORS", {**assignors.ASSIGNORS, "uniform": _assign_from_the_beginning})
        ),
        "KAFKA-18688",
        searched=False,
    ),
    # KAFKA-20434: the group epoch stays when members prefer another assignor.
    "assignors-change-nothing": in_brokers(
        "a static member comes back with another assignor, and is assigned by the one before",
        patched((heartbeat, "effective_assignor", always("uniform"))),
        "KAFKA-20434",
        searched=False,
    ),
    # KAFKA-17733: a classic member that was not assigned yet has a malformed assignment.
    "assignments-have-bytes": in_brokers(
        "a group that is not assigned yet cannot become a consumer group",
        patched((migration, "read_assignment", _read_assignment_that_is_there)),
        "KAFKA-17733",
        searched=False,
    ),
    # KAFKA-17228: only a member of the consumer protocol that left is replaced.
    "classic-members-are-not-replaced": in_brokers(
        "a static member is refused when it has moved to the consumer protocol",
        patched((joining, "_has_left", _has_left_by_itself)),
        "KAFKA-17228",
        searched=False,
    ),
    # KAFKA-19546: a group that becomes a classic one has what its members had.
    "downgrades-in-silence": in_brokers(
        "no member has the partitions of the last one that spoke the consumer protocol",
        patched((leaving, "downgrade", _downgrade_in_silence)),
        "KAFKA-19546",
        searched=False,
    ),
    # KAFKA-20442: the target epoch stays behind when the last member has left.
    "emptied-groups-are-not-assigned": in_brokers(
        "the first member of a group that was emptied has nothing until the assignment interval",
        patched((leaving, "remove_members", _remove_and_keep_the_target_epoch)),
        "KAFKA-20442",
        searched=False,
    ),
    # KAFKA-19720: a member that subscribes to no expression any more keeps the one it had.
    "expressions-stay": in_brokers(
        "a member reads on what it has unsubscribed from",
        patched((heartbeat, "_said", _said_without_no_expression)),
        "KAFKA-19720",
        searched=False,
    ),
    # Any member that names an instance id is taken for the owner of that id.
    "fences-no-instance": in_brokers(
        "two processes of one instance id commit for one partition",
        patched((ClassicGroup, "validate_member", always(None))),
        "S83",
        searched=False,
    ),
    # KAFKA-20747: an instance id stays a member's that has joined under another.
    "instances-are-kept": in_brokers(
        "a static member is refused, for an instance id that no member has",
        patched(_applied_by(ConsumerGroupMemberMetadataKey, _apply_member_and_keep_its_instance)),
        "KAFKA-20747",
        searched=False,
    ),
    # KAFKA-19233: a member that the group has does not join.
    "joins-once": in_brokers(
        "a member that has lost its state is fenced until its session is over",
        patched((member_epochs, "other_epoch", _refuse_members_that_join_again)),
        "KAFKA-19233",
        searched=False,
    ),
    # KAFKA-20570: what a classic member says of itself counts as nothing if it does not read.
    "malformed-members-subscribe-to-nothing": in_brokers(
        "a classic member reads on what the consumer group gives to others",
        patched((migration, "read_subscription", _read_subscription_or_nothing)),
        "KAFKA-20570",
        searched=False,
    ),
    # Offsets of a topic that is deleted stay.
    "offsets-outlive-topics": in_brokers(
        "a group begins to read a new topic where it had read another of that name to",
        patched((Commits, "forget_topics", lambda self, is_gone: Decision())),
        "S86",
        searched=False,
    ),
    # The coordinator takes offsets from any member of a consumer group, in any member epoch.
    "old-epochs-commit": in_brokers(
        "a member that was put out commits for a partition that another has",
        patched((ConsumerGroup, "refuse_commit", always(None))),
        "S85",
        having={"epoch_members": 3},
    ),
    # KAFKA-19974: a member rises to the target epoch while it still has to give something up.
    "rises-while-it-gives-up": in_brokers(
        "two members have been told to own a partition, in one epoch",
        patched((heartbeat, "reconcile", _reconcile_in_the_target_epoch)),
        "KAFKA-19974",
        searched=False,
    ),
    # A static member takes over from one that has not left.
    "static-members-take-over": in_brokers(
        "two processes of one instance id own the same partitions",
        patched((joining, "_has_left", always(True))),
        "S83",
        searched=False,
    ),
    # KAFKA-17306: replay trusts that a tombstone takes something away.
    "tombstones-need-members": in_brokers(
        "a coordinator cannot be loaded from a log that was compacted",
        patched(_applied_by(ConsumerGroupCurrentMemberAssignmentKey, _apply_progress_of_members)),
        "S81",
        searched=False,
    ),
}
