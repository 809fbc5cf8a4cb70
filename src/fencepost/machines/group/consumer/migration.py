"""A group changes between the classic and the consumer protocol while it has members.

Theory of operation
-------------------
`group.consumer.migration.policy` says which ways are open. Members change one after the other, so a
group is mixed meanwhile; a mixed group is a consumer group, whose classic members are served by
`classic_members`.

* **Upgrade**: the first member of the consumer protocol joins a classic group. What the members
  were assigned becomes target and present assignment; their generation becomes the epoch of all.
  Members that wait in JoinGroup or SyncGroup are answered REBALANCE_IN_PROGRESS and join again.
* **Downgrade**: the last member of the consumer protocol leaves, is removed, or is replaced by a
  classic one of the same instance id. The others' targets become their assignments, in the
  generation that is the group epoch, and the group rebalances. It need not if a static member was
  replaced that reads what it read before, and every member has what it is to have (KAFKA-19546).

Either way one batch ends the one group and begins the other, or the log refuses it and nothing has
changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from fencepost.machines.group.classic.group import CONSUMER_PROTOCOL_TYPE, ClassicGroup
from fencepost.machines.group.classic.member import GroupState, Member
from fencepost.machines.group.classic.rebalance import (
    assignments_of,
    fits_in_record,
    prepare_rebalance,
    store,
    touch,
)
from fencepost.machines.group.consumer.apply import apply
from fencepost.machines.group.consumer.embedded import (
    CustomAssignorError,
    Embedded,
    read_assignment,
    read_subscription,
    write_assignment,
)
from fencepost.machines.group.consumer.group import ConsumerGroup
from fencepost.machines.group.consumer.member import MemberState, Partitions, Progress, Subscription
from fencepost.machines.group.consumer.records import (
    epoch_record,
    member_record,
    progress_record,
    target_epoch_record,
    target_record,
)
from fencepost.machines.group.consumer.timers import session_timer
from fencepost.machines.group.group import dissolve
from fencepost.machines.group.memory import GroupMemory
from fencepost.machines.group.metadata_hash import group_metadata_hash
from fencepost.machines.group.records import GroupRecord
from fencepost.machines.group.refused import RefusedError
from fencepost.machines.group.shard import Decision, Shard
from fencepost.machines.image import ClusterImage
from fencepost.wire.errors import DecodeError, ErrorCode
from fencepost.wire.records.group import ClassicMemberMetadata, ClassicProtocol
from fencepost.wire.types import Uuid

BIDIRECTIONAL: Final = "bidirectional"
UPGRADE: Final = "upgrade"
DOWNGRADE: Final = "downgrade"
DISABLED: Final = "disabled"
"""The policies of `group.consumer.migration.policy`."""


# Upgrade


def upgrade(shard: Shard, decision: Decision, classic: ClassicGroup) -> ConsumerGroup:
    """Make a classic group with members a consumer group; the new group, which no shard has yet.

    RefusedError (GROUP_ID_NOT_FOUND) if it cannot be one.
    """
    _check_upgrade(shard, classic)
    try:
        records = _records_of(classic, shard.image)
    except DecodeError:
        raise _cannot_upgrade(classic, "the embedded consumer protocol is malformed") from None
    except CustomAssignorError:
        raise _cannot_upgrade(
            classic,
            "an unsupported custom assignor is in use. Please refer to the documentation or "
            "switch to a default assignor before re-attempting the upgrade",
        ) from None
    dissolve(decision, classic)
    decision.records += records
    for member in classic.members.values():
        timer = session_timer(classic.group_id, member.member_id)
        decision.set_timer(timer, member.session_timeout_ms)
    decision.notes.append(f"group {classic.group_id}: becomes a consumer group")
    # What follows in this decision looks at the group as it will be.
    ahead = Shard(shard.config, GroupMemory(), lambda: shard.image, ClassicGroup)
    for key, value in records:
        apply(ahead, key, value)
    group = ahead.group_of(classic.group_id, ConsumerGroup)
    assert group is not None
    return group


def _check_upgrade(shard: Shard, classic: ClassicGroup) -> None:
    if shard.config.migration_policy not in (BIDIRECTIONAL, UPGRADE):
        raise _cannot_upgrade(classic, "online upgrade is disabled")
    if not classic.uses_consumer_protocol:
        reason = "the group does not use the consumer embedded protocol"
        raise _cannot_upgrade(classic, reason)
    if classic.member_count > shard.config.consumer_max_size:
        reason = "the group size exceeds the consumer group maximum size"
        raise _cannot_upgrade(classic, reason)


def _cannot_upgrade(classic: ClassicGroup, reason: str) -> RefusedError:
    return RefusedError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {classic.group_id} to consumer group because {reason}.",
    )


def _records_of(classic: ClassicGroup, image: ClusterImage) -> list[GroupRecord]:
    """What a classic group is as a consumer group. DecodeError, CustomAssignorError, RefusedError.

    A group that has no protocol yet is taken for what it would choose now.
    """
    group_id, epoch = classic.group_id, classic.generation
    protocol = classic.protocol or classic.select_protocol()
    said = {
        member_id: read_subscription(member.metadata(protocol), image)
        for member_id, member in classic.members.items()
    }
    members = {
        member_id: Subscription(
            instance_id=member.instance_id,
            rack_id=said[member_id].rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            topic_names=said[member_id].topic_names,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            classic=classic_metadata(member.session_timeout_ms, member.protocols),
        )
        for member_id, member in classic.members.items()
    }
    assigned = _assigned(classic, said, image)
    names = frozenset().union(*[one.topic_names for one in members.values()])
    records = [member_record(group_id, *one) for one in members.items()]
    records.append(epoch_record(group_id, epoch, group_metadata_hash(image, names)))
    records += [target_record(group_id, *one) for one in assigned.items()]
    records.append(target_epoch_record(group_id, epoch, 0))
    for member_id, partitions in assigned.items():
        has = {topic_id: dict.fromkeys(some, epoch) for topic_id, some in partitions.items()}
        progress = Progress(epoch, epoch, MemberState.STABLE, has)
        records.append(progress_record(group_id, member_id, progress))
    return records


def _assigned(
    classic: ClassicGroup, said: Mapping[str, Embedded], image: ClusterImage
) -> dict[str, Partitions]:
    """What each member has been assigned, and what it owns besides.

    A cooperative consumer owns partitions across generations: it may not have been assigned since
    it joined, or not have heard of it. What it said it owned, and no other was assigned, is its own
    until it says otherwise; Kafka gives it to the next member at once, while both read it.
    DecodeError, CustomAssignorError, RefusedError.
    """
    assigned: dict[str, dict[Uuid, frozenset[int]]] = {}
    taken: set[tuple[Uuid, int]] = set()
    for member_id, member in classic.members.items():
        assigned[member_id] = dict(read_assignment(member.assignment, image))
        held = set(_each(assigned[member_id]))
        if held & taken:
            raise _cannot_upgrade(classic, "its leader gave a partition to two members")
        taken |= held
    for member_id in sorted(said, key=lambda one: (-said[one].generation, one)):
        for topic_id, index in _each(said[member_id].owned):
            if (topic_id, index) not in taken:
                taken.add((topic_id, index))
                has = assigned[member_id]
                has[topic_id] = has.get(topic_id, frozenset()).union([index])
    return {**assigned}


def _each(partitions: Partitions) -> Iterator[tuple[Uuid, int]]:
    for topic_id, indexes in partitions.items():
        for index in indexes:
            yield topic_id, index


def classic_metadata(
    session_timeout_ms: int, protocols: Collection[tuple[str, bytes]]
) -> ClassicMemberMetadata:
    """What is kept of a member that speaks the classic protocol."""
    return ClassicMemberMetadata(
        session_timeout_ms=session_timeout_ms,
        supported_protocols=[ClassicProtocol(name=name, metadata=data) for name, data in protocols],
    )


# Downgrade


def may_downgrade(shard: Shard, group: ConsumerGroup, gone: Collection[str], joining: int) -> bool:
    """Whether the group becomes a classic one, without the members that are `gone`.

    `joining` is how many classic members come in their place.
    """
    classic_gone = sum(group.members[member_id].classic is not None for member_id in gone)
    left = group.member_count - len(gone)
    return (
        group.classic_count - classic_gone == left
        and 0 < left + joining <= shard.config.max_size
        and shard.config.migration_policy in (BIDIRECTIONAL, DOWNGRADE)
    )


def downgrade(
    shard: Shard,
    decision: Decision,
    group: ConsumerGroup,
    gone: Collection[str],
    wall_ms: int,
    *,
    joined: tuple[str, Subscription] | None = None,
    rebalance_for: str | None,
) -> bool:
    """Make a consumer group of classic members a classic group; False if that cannot be: a record
    has no room, or what the members' records say cannot be of one classic group.

    `joined` comes in the place of the member that is gone and has its target; without
    `rebalance_for` (the reason, for the log) members go on with what they have.
    """
    image, group_id = shard.image, group.group_id
    classic = ClassicGroup(group_id)
    classic.generation = group.epoch
    staying, targets = _staying(group, gone, joined)
    instance_ids = [said.instance_id for said in staying.values() if said.instance_id is not None]
    if len(set(instance_ids)) < len(instance_ids):
        decision.notes.append(f"group {group_id}: has two classic members with one instance id")
        return False
    for member_id, said in staying.items():
        classic.add(_classic_member(member_id, said), CONSUMER_PROTOCOL_TYPE)
    if not classic.has_common_protocol:
        decision.notes.append(f"group {group_id}: its classic members have no protocol in common")
        return False
    protocol = classic.protocol = classic.select_protocol()
    for member_id, member in list(classic.members.items()):
        metadata = member.metadata(protocol)
        assignment = write_assignment(targets[member_id], metadata, image)
        classic.update(member_id, assignment=assignment)
    if not fits_in_record(classic, assignments_of(classic), shard.record_bytes_max):
        decision.notes.append(f"group {group_id}: is too large for a record of a classic group")
        return False
    decision.changes.append(classic)
    dissolve(decision, group)
    store(decision, classic, assignments_of(classic), wall_ms)
    classic.state = GroupState.STABLE
    for member in classic.members.values():
        touch(decision, classic, member)
    decision.notes.append(f"group {group_id}: becomes a classic group")
    if rebalance_for is not None:
        prepare_rebalance(decision, classic, shard.config, rebalance_for, wall_ms)
    return True


def _staying(
    group: ConsumerGroup, gone: Collection[str], joined: tuple[str, Subscription] | None
) -> tuple[dict[str, Subscription], dict[str, Partitions]]:
    """The members of the classic group, and their targets; one that has `joined` takes over the
    target of the member that is gone."""
    staying: dict[str, Subscription] = {}
    targets: dict[str, Partitions] = {}
    for member_id, said in group.members.items():
        if member_id not in gone:
            staying[member_id] = said
            targets[member_id] = group.target_of(member_id)
        elif joined is not None:
            targets[joined[0]] = group.target_of(member_id)
    if joined is not None:
        staying[joined[0]] = joined[1]
    return staying, targets


def _classic_member(member_id: str, said: Subscription) -> Member:
    assert said.classic is not None
    return Member(
        member_id,
        said.instance_id,
        said.client_id,
        said.client_host,
        max(said.rebalance_timeout_ms, 0),
        said.classic.session_timeout_ms,
        tuple((one.name, bytes(one.metadata)) for one in said.classic.supported_protocols),
    )
