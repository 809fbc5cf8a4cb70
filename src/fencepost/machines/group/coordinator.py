"""`GroupCoordinator`: the classic groups of one partition of `__consumer_offsets`.

Theory of operation
-------------------
Requests go to `decide_*`, timers to `decide_timer`; each answers with a `Decision`. The records of
a decision are given to `apply` when they are in the log, before anything else is decided, and the
same `apply` reads the log back after a restart. It is the only mutator of what a group durably is:

* durable: the last GroupMetadata record of each group (`ClassicGroup.take_over`) and the committed
  offsets. Replaying the log gives the same, and so does replaying it compacted;
* soft: rebalances under way, members that joined since the last record, waiting requests, session
  deadlines. Decisions change it at once. It is gone with the coordinator, and clients that retry
  bring it back; a restarted group goes on with its generation, members and assignments.

If a decision's records could not be written, the coordinator is to be thrown away and loaded again.
Whoever has no answer by then gets none from it any more: the shell knows whom it asked for.

Not offered here: groups of the consumer protocol (KIP-848), share and streams groups. Their records
are skipped by whoever replays; a group id that only they use does not exist here.

It must not know: clocks, random numbers (member ids are made unique by the shell), how records are
written, who its clients are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fencepost.machines.group.admin import delete_groups, describe_groups, list_groups
from fencepost.machines.group.commits import Commits
from fencepost.machines.group.config import GroupConfig
from fencepost.machines.group.decision import EXPIRY_TIMER, Decision, Shard, TimerName
from fencepost.machines.group.membership import Caller, Membership
from fencepost.machines.group.memory import GroupMemory
from fencepost.machines.group.model import GROUP_METADATA_VERSION, ClassicGroup, GroupState
from fencepost.wire.api.heartbeat import HeartbeatRequest
from fencepost.wire.api.join_group import JoinGroupRequest
from fencepost.wire.api.leave_group import LeaveGroupRequest
from fencepost.wire.api.offset_commit import OffsetCommitRequest
from fencepost.wire.api.offset_delete import OffsetDeleteRequest
from fencepost.wire.api.offset_fetch import OffsetFetchRequestGroup
from fencepost.wire.api.sync_group import SyncGroupRequest
from fencepost.wire.message import Message
from fencepost.wire.records.group import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from fencepost.wire.types import Uuid

OFFSET_COMMIT_VERSION = 4
OFFSET_COMMIT_WITH_EXPIRY_VERSION = 1


class GroupCoordinator:
    """See the module."""

    def __init__(
        self, config: GroupConfig | None = None, memory: GroupMemory | None = None
    ) -> None:
        """`memory` is shared by the coordinators of a node."""
        self._shard = Shard(config or GroupConfig(), memory=memory or GroupMemory())
        self._membership = Membership(self._shard)
        self._commits = Commits(self._shard)

    @property
    def groups(self) -> dict[str, ClassicGroup]:
        """The groups by id; to be read only."""
        return self._shard.groups

    # Bounds

    def limit_records(self, max_bytes: int) -> None:
        """`__consumer_offsets` takes batches of at most `max_bytes`."""
        self._shard.record_bytes_max = max_bytes

    def discard(self) -> None:
        """The coordinator is thrown away: its groups take no memory any more."""
        self._shard.discard()

    # State

    @staticmethod
    def keeps(key: Message) -> bool:
        """Whether records with such a key mean anything here; values of others need no decoding."""
        return isinstance(key, OffsetCommitKey | LegacyOffsetCommitKey | GroupMetadataKey)

    def apply(self, key: Message, value: Message | None, *, producer_id: int = -1) -> None:
        """A record is in the log. `producer_id` is that of a transaction, decided or not.

        Records of a kind that is not kept here change nothing.
        """
        if isinstance(key, OffsetCommitKey | LegacyOffsetCommitKey):
            assert value is None or isinstance(value, OffsetCommitValue)
            self._apply_offset(key, value, producer_id)
        elif isinstance(key, GroupMetadataKey):
            assert value is None or isinstance(value, GroupMetadataValue)
            self._apply_group(key.group, value)

    def apply_transaction_end(self, producer_id: int, *, committed: bool) -> None:
        """The marker that ends a producer's transaction is in the log."""
        for group_id in self._shard.offsets.end_transaction(producer_id, committed=committed):
            self._shard.maybe_forget(group_id)

    def finish_loading(self, now_ms: int, wall_ms: int) -> Decision:
        """The whole log is applied: watch the members, and look for expired offsets from now on."""
        decision = Decision(wall_ms)
        for group in self._shard.groups.values():
            self._membership.watch(decision, group, now_ms)
        check_ms = self._shard.config.offsets_retention_check_ms
        decision.set_timer(EXPIRY_TIMER, now_ms + check_ms)
        return decision

    def _apply_offset(
        self,
        key: OffsetCommitKey | LegacyOffsetCommitKey,
        value: OffsetCommitValue | None,
        producer_id: int,
    ) -> None:
        partition = (key.topic, key.partition)
        if value is None:
            self._shard.offsets.remove(key.group, partition)
            self._shard.maybe_forget(key.group)
        else:
            if key.group not in self._shard.groups:
                self._shard.groups[key.group] = ClassicGroup(key.group)
            self._shard.offsets.put(key.group, partition, value, producer_id)

    def _apply_group(self, group_id: str, value: GroupMetadataValue | None) -> None:
        group = self._shard.groups.get(group_id)
        if value is not None:
            if group is None:
                group = self._shard.groups[group_id] = ClassicGroup(group_id)
            group.take_over(value)
            self._shard.count(group_id)
        elif group is not None:
            # Only empty groups are deleted. Offsets that are left make it a simple one.
            fresh = ClassicGroup(group_id)
            fresh.pending_members = group.pending_members
            fresh.measure()
            self._shard.groups[group_id] = fresh
            self._shard.maybe_forget(group_id)
            self._shard.count(group_id)

    # Decisions, at a moment of the monotonic clock; where records get timestamps, `wall_ms` is one

    def decide_join_group(
        self, request: JoinGroupRequest, caller: Caller, now_ms: int, wall_ms: int
    ) -> Decision:
        """JoinGroup v0-9; replies JoinGroupResponse, perhaps much later."""
        decision = self._membership.join(request, caller, now_ms, wall_ms)
        self._shard.count(request.group_id)
        return decision

    def decide_sync_group(
        self, request: SyncGroupRequest, caller: Caller, now_ms: int, wall_ms: int
    ) -> Decision:
        """SyncGroup v0-5; replies SyncGroupResponse, perhaps later."""
        decision = self._membership.sync(request, caller, now_ms, wall_ms)
        self._shard.count(request.group_id)
        return decision

    def decide_heartbeat(self, request: HeartbeatRequest, caller: Caller, now_ms: int) -> Decision:
        """Heartbeat v0-4; replies HeartbeatResponse."""
        return self._membership.heartbeat(request, caller, now_ms)

    def decide_leave_group(
        self, request: LeaveGroupRequest, caller: Caller, now_ms: int, wall_ms: int
    ) -> Decision:
        """LeaveGroup v0-5, its members in `members`; replies LeaveGroupResponse."""
        decision = self._membership.leave(request, caller, now_ms, wall_ms)
        self._shard.count(request.group_id)
        return decision

    def decide_offset_commit(
        self,
        request: OffsetCommitRequest,
        api_version: int,
        token: Any,
        now_ms: int,
        wall_ms: int,
    ) -> Decision:
        """OffsetCommit v2-10, topics by name; replies OffsetCommitResponse."""
        return self._commits.commit(request, api_version, token, now_ms, wall_ms)

    def decide_offset_fetch(
        self, wanted: OffsetFetchRequestGroup, require_stable: bool, token: Any
    ) -> Decision:
        """One group of OffsetFetch v1-10; replies OffsetFetchResponseGroup."""
        return self._commits.fetch(wanted, require_stable, token)

    def decide_offset_delete(self, request: OffsetDeleteRequest, token: Any) -> Decision:
        """OffsetDelete v0; replies OffsetDeleteResponse."""
        return self._commits.delete(request, token)

    def decide_describe_groups(
        self, group_ids: Sequence[str], api_version: int, token: Any
    ) -> Decision:
        """DescribeGroups v0-6; replies list[DescribedGroup]."""
        return describe_groups(self._shard, group_ids, api_version, token)

    def decide_list_groups(
        self, states: Sequence[str], types: Sequence[str], token: Any
    ) -> Decision:
        """ListGroups v0-5; replies list[ListedGroup]."""
        return list_groups(self._shard, states, types, token)

    def decide_delete_groups(self, group_ids: Sequence[str], token: Any) -> Decision:
        """DeleteGroups v0-2; replies list[DeletableGroupResult]."""
        return delete_groups(self._shard, self._commits, group_ids, token)

    def decide_topics_deleted(self, is_gone: Callable[[str, Uuid], bool]) -> Decision:
        """Topics are gone from the cluster: their offsets go too.

        `is_gone` is asked with the name and the id of every topic that has offsets; the id is zero
        where none was stored.
        """
        return self._commits.forget_topics(is_gone)

    def decide_timer(self, name: TimerName, now_ms: int, wall_ms: int) -> Decision:
        """A timer that a decision armed has reached its deadline."""
        if name == EXPIRY_TIMER:
            return self._commits.expire(now_ms, wall_ms)
        kind, group_id = name[0], name[1]
        if kind == "session":
            decision = self._membership.session_expired(group_id, name[2], now_ms, wall_ms)
        elif kind == "join":
            decision = self._membership.join_expired(group_id, now_ms, wall_ms)
        else:
            assert kind == "sync", name
            decision = self._membership.sync_expired(group_id, now_ms, wall_ms)
        self._shard.count(group_id)
        return decision

    # Comparing

    def durable_view(self) -> Any:
        """Everything that is durable, as plain values: equal iff the same is stored."""
        stored = {
            group_id: group.stored
            for group_id, group in self._shard.groups.items()
            if group.stored is not None
        }
        return stored, self._shard.offsets.snapshot()

    def settled_view(self) -> dict[str, Any]:
        """What members and administrators see of groups that no rebalance is under way in."""
        settled = (GroupState.STABLE, GroupState.EMPTY)
        return {
            group_id: (
                group.state,
                group.generation,
                group.protocol_type,
                group.protocol,
                group.leader_id,
                {m.member_id: (m.instance_id, m.assignment) for m in group.members.values()},
                group.static_members,
                group.subscribed_topics,
            )
            for group_id, group in self._shard.groups.items()
            if group.state in settled
        }


def value_version(value: Message) -> int:
    """The version in which a record's value is written: what every broker since 2.1 can read.

    Offsets go as v4 with their topic's id, or as v1 if they bring their own expiry, which later
    versions do not have.
    """
    if isinstance(value, GroupMetadataValue):
        return GROUP_METADATA_VERSION
    assert isinstance(value, OffsetCommitValue)
    if value.expire_timestamp != -1:
        return OFFSET_COMMIT_WITH_EXPIRY_VERSION
    return OFFSET_COMMIT_VERSION
