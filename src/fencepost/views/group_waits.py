"""Why a group has not reached its assignment: which member waits for which."""

from __future__ import annotations

from typing import ClassVar

from fencepost.client.consumer_membership import LEAVE_FOR_A_WHILE_EPOCH
from fencepost.client.group_descriptions import CLASSIC, SHARE, GroupMember
from fencepost.client.group_waits import GroupWaits, Wait
from fencepost.views.times import iso_time
from fencepost.views.view import View, count


class WaitView(View, frozen=True):
    """A member that waits for a partition ("topic-0"), and the one that has it (`holder`, None for
    a free one). Times are milliseconds since 1970, None where they are not known."""

    columns: ClassVar = {
        "member": "member",
        "waits-for": "partition",
        "held-by": "holder",
        "since": "since",
    }

    member: str
    partition: str
    holder: str | None
    holder_is_asked: bool
    holder_is_away: bool
    since_ms: int | None
    ends_ms: int | None

    @property
    def since(self) -> str | None:
        return None if self.since_ms is None else iso_time(self.since_ms)

    @classmethod
    def of(cls, one: Wait) -> WaitView:
        return cls(
            one.member_id,
            str(one.partition),
            one.holder_id,
            one.is_asked,
            one.is_away,
            one.since_ms,
            one.ends_ms,
        )


class GroupWaitsView(View, frozen=True):
    """A group with its waits. `assignment_since_ms` is when the group reached an epoch for which no
    target assignment is computed yet."""

    group: str
    kind: str
    state: str
    group_epoch: int
    assignment_epoch: int
    assignment_since_ms: int | None
    waits: list[WaitView]

    @classmethod
    def of(cls, one: GroupWaits) -> GroupWaitsView:
        group = one.group
        return cls(
            group.group_id,
            group.kind,
            group.state,
            group.group_epoch,
            group.assignment_epoch,
            one.assignment_since_ms,
            [WaitView.of(wait) for wait in one.waits],
        )


def waits_explained(one: GroupWaits, now_ms: int) -> list[str]:
    """Sentences about a group at `now_ms` (since 1970): what its members wait for."""
    group = one.group
    lines = [f"group {group.group_id}  type {group.kind}  state {group.state}"]
    if group.kind == CLASSIC:
        return [*lines, *_classic(one)]
    if group.kind == SHARE:
        return [*lines, "members of a share group do not wait for each other"]
    if one.awaits_assignment:
        lines.append(
            f"the coordinator has to compute an assignment for epoch {group.group_epoch}"
            f"{_ago(one.assignment_since_ms, now_ms)}; the last one is of epoch"
            f" {group.assignment_epoch}"
        )
    members = {member.member_id: member for member in group.members}
    lines += [_wait(wait, members, now_ms) for wait in one.waits]
    away = [one for one in group.members if one.member_epoch == LEAVE_FOR_A_WHILE_EPOCH]
    if len(lines) == 1:
        at_rest = count(len(group.members) - len(away), "member")
        lines.append(f"no member waits: {at_rest} at rest")
    lines += [
        f"{_named(one)} has left for a while, and is a member until its session ends"
        for one in away
    ]
    return lines


def _classic(one: GroupWaits) -> list[str]:
    joined = count(len(one.group.members), "member")
    return {
        "PreparingRebalance": [
            "the coordinator waits for members to join again, up to the longest rebalance timeout;"
            " brokers do not tell which have joined"
        ],
        "CompletingRebalance": [f"{joined} joined; they wait for the leader's assignment"],
    }.get(one.group.state, [f"no member waits: {joined} at rest"])


def _wait(wait: Wait, members: dict[str, GroupMember], now_ms: int) -> str:
    first = f"{_named(members[wait.member_id])} waits for {wait.partition}"
    if wait.holder_id is None:
        return f"{first}, which is free: its next heartbeat brings it"
    holder = _named(members[wait.holder_id])
    since = _ago(wait.since_ms, now_ms)
    if wait.is_away:
        return f"{first}{since}: {holder} has left for a while, and keeps it until its session ends"
    if not wait.is_asked:
        return f"{first}{since}: {holder} has it, and has to give it up"
    ends = (
        "" if wait.ends_ms is None else f"; it is put out of the group at {iso_time(wait.ends_ms)}"
    )
    return f"{first}{since}: {holder} was asked to give it up, and has not{ends}"


def _named(member: GroupMember) -> str:
    instance = "" if member.instance_id is None else f" (instance {member.instance_id})"
    return f"{member.member_id}{instance} at {member.client_host}"


def _ago(since_ms: int | None, now_ms: int) -> str:
    if since_ms is None:
        return ""
    return f" since {iso_time(since_ms)} ({max(0, now_ms - since_ms) // 1000} s)"
