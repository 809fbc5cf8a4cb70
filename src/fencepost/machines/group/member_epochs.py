"""Who may send a heartbeat in a group with member epochs: what KIP-848 and KIP-1071 have in common.

A member names the epoch that it was told last. One that joins (epoch 0) is always admitted; one
whose answer was lost names the epoch before, and shows by what it owns that it is the member that
was given it. A static member has an instance id of its own for as long as it has not left.

Each function gives the refusal, in Kafka's words, or None; `kind` is "consumer" or "streams".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from fencepost.wire.errors import ErrorCode


class Refusal(NamedTuple):
    """Why a heartbeat is refused."""

    error: ErrorCode
    message: str


def full_group(kind: str, limit: int) -> Refusal:
    """The group has as many members as it may."""
    return Refusal(
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        f"The {kind} group has reached its maximum capacity of {limit} members.",
    )


def unknown_member(group_id: str, member_id: str) -> Refusal:
    """The group has no such member."""
    return Refusal(
        ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}."
    )


def other_instance(
    static_members: Mapping[str, str], instance_id: str, member_id: str
) -> Refusal | None:
    """The instance id must be known, and the member's."""
    holder = static_members.get(instance_id)
    if holder is None:
        return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if holder != member_id:
        return Refusal(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member"
            f" {holder}.",
        )
    return None


def unreleased_instance(instance_id: str, member_id: str, holder: str) -> Refusal:
    """A member joins with the instance id of another that has not left."""
    return Refusal(
        ErrorCode.UNRELEASED_INSTANCE_ID,
        f"Static member {member_id} with instance id {instance_id} cannot join the group because"
        f" the instance id is owned by {holder} member.",
    )


def other_epoch(
    kind: str, named: int, known: int, previous: int, owns_what_it_has: Callable[[], bool]
) -> Refusal | None:
    """The member must be in the epoch that it names, or join (0), or have been in the `previous`
    epoch and own nothing but what it has been given."""
    if named in (0, known):
        return None
    if named < known and named == previous and owns_what_it_has():
        return None
    return Refusal(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The {kind} group member has a {'greater' if named > known else 'smaller'} member epoch"
        f" ({named}) than the one known by the group coordinator ({known}). The member must abandon"
        " all its partitions and rejoin.",
    )
