"""Reconciliation of one member (KIP-848): the next step from what it has to what it is to have.

Theory of operation
-------------------
A function of values, without a group: what a member has (`Progress`), its target, what others hold
and what it says that it owns. Members never wait for all; a partition goes from one to the other in
three steps, each in a heartbeat of the member that moves:

1. the old holder is told to give it up: UNREVOKED_PARTITIONS, in the epoch that it is in;
2. it says that it owns it no longer, and goes on to the target's epoch;
3. the new holder, which waits in UNRELEASED_PARTITIONS, is given it.

    STABLE ──target moved──> revoke? ──yes──> UNREVOKED ──it gave up──┐
      ^                         │no                                    │
      │                         v                                      │
      └──all free── UNRELEASED <── some are held by others <───────────┘

A partition has one holder at most, assigned or pending: what is free to take is decided by
`is_free`, which looks at all members. `previous_epoch` becomes the epoch at every step, also of one
that keeps the epoch (KAFKA-19974): two members could hold a partition in one epoch otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Final, NamedTuple

from fencepost.machines.group.consumer.member import Held, MemberState, Partitions, Progress
from fencepost.wire.types import Uuid

_NO_PARTITIONS: Final[frozenset[int]] = frozenset()
_NONE: Final[Mapping[int, int]] = {}


class Heard(NamedTuple):
    """What a member's heartbeat says that matters here."""

    owned: Partitions | None = None
    """What it says that it owns; None: as before, so it may own all that it ever had."""
    subscription_changed: bool = False
    """Whether it brings other names, or another regular expression."""


def reconcile(
    before: Progress,
    target: Partitions,
    target_epoch: int,
    subscribed: Container[Uuid],
    is_free: Callable[[Uuid, int], bool],
    heard: Heard,
) -> Progress:
    """What the member is to have now; `before` itself if that has not changed.

    `subscribed` has the ids of the topics that the member subscribes to, `is_free` says whether no
    member holds a partition. A member whose state is UNKNOWN must not own anything any more.
    """
    if before.state is MemberState.STABLE and before.epoch == target_epoch:
        return _unsubscribe(before, subscribed, heard)
    gives_up = before.state is MemberState.UNREVOKED_PARTITIONS
    if gives_up and may_own(before.pending, heard.owned):
        return _unsubscribe(before, subscribed, heard)
    return _next(before, target, target_epoch, subscribed, is_free, heard)


def may_own(partitions: Held, owned: Partitions | None) -> bool:
    """Whether the member may still own one of the partitions, by what it says."""
    if owned is None:
        return True
    return any(
        not owned.get(topic_id, _NO_PARTITIONS).isdisjoint(epochs)
        for topic_id, epochs in partitions.items()
    )


def _unsubscribe(before: Progress, subscribed: Container[Uuid], heard: Heard) -> Progress:
    """Take topics away at once that the member itself has unsubscribed from; the rest waits."""
    if not heard.subscription_changed:
        return before
    gone = {
        topic_id: held for topic_id, held in before.assigned.items() if topic_id not in subscribed
    }
    if not gone:
        return before
    kept = {topic_id: held for topic_id, held in before.assigned.items() if topic_id in subscribed}
    pending = {topic_id: dict(epochs) for topic_id, epochs in before.pending.items()}
    for topic_id, epochs in gone.items():
        pending.setdefault(topic_id, {}).update(epochs)
    if may_own(pending, heard.owned):
        return Progress(before.epoch, before.epoch, MemberState.UNREVOKED_PARTITIONS, kept, pending)
    return Progress(before.epoch, before.epoch, before.state, kept, before.pending)


def _next(
    before: Progress,
    target: Partitions,
    target_epoch: int,
    subscribed: Container[Uuid],
    is_free: Callable[[Uuid, int], bool],
    heard: Heard,
) -> Progress:
    kept: dict[Uuid, dict[int, int]] = {}
    revoked: dict[Uuid, dict[int, int]] = {}
    added: dict[Uuid, list[int]] = {}
    is_blocked = False
    for topic_id in target.keys() | before.assigned.keys():
        wanted = target.get(topic_id, _NO_PARTITIONS) if topic_id in subscribed else _NO_PARTITIONS
        assigned = before.assigned.get(topic_id, _NONE)
        pending = before.pending.get(topic_id, _NONE)
        for index, epoch in assigned.items():
            (kept if index in wanted else revoked).setdefault(topic_id, {})[index] = epoch
        for index in wanted:
            if index in assigned:
                continue
            if index in pending or is_free(topic_id, index):
                added.setdefault(topic_id, []).append(index)
            else:
                is_blocked = True
    if revoked and may_own(revoked, heard.owned):
        state = MemberState.UNREVOKED_PARTITIONS
        return Progress(before.epoch, before.epoch, state, kept, revoked)
    for topic_id, indexes in added.items():
        kept.setdefault(topic_id, {}).update(dict.fromkeys(indexes, target_epoch))
    state = MemberState.UNRELEASED_PARTITIONS if is_blocked else MemberState.STABLE
    after = Progress(target_epoch, before.epoch, state, kept, {})
    return before if after == before else after
