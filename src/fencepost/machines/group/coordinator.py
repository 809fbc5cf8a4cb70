"""`GroupCoordinator`: the groups of one partition of `__consumer_offsets`, of whatever types.

Theory of operation
-------------------
Requests go to `decide_*`, timers to `decide_timer`; each answers with a `Decision` and changes
nothing. The runtime (`runtime.coordinator`) carries it out: `apply_change` and `apply` are the only
mutators, and what they change can be reverted (`shard`).

* durable: the groups' records and the committed offsets. `apply` makes state of records, live and
  when the partition is loaded, and the same of a compacted partition;
* ephemeral: rebalances under way, members that joined since the last record, waiting requests.
  Decisions bring it along as a change (`shard.Change`), and `apply_change` puts it in place. It is
  gone with the coordinator, and clients that retry bring it back.

Groups have types (`types.GROUP_TYPES`). Offsets, listing and deletion are the same for all and work
with the protocol `group.Group`; what is particular to a type is in its room, behind
`group_type.GroupType`. Records of types that are not offered are passed over when the partition is
loaded (`codec`), and a group id that only they use does not exist here.

It must not know: clocks, random numbers (member ids are made unique by the shell), how records are
written, who its clients are. Sessions and rebalances are timers with a delay; `wall_ms` is the time
that records are stamped with and that the age of offsets is judged by, nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from fencepost.machines.coordinator import Producer, TimerName, TransactionEnd
from fencepost.machines.group.admin import delete_groups, list_groups
from fencepost.machines.group.caller import Caller
from fencepost.machines.group.classic.group import ClassicGroup
from fencepost.machines.group.classic.groups import ClassicGroups
from fencepost.machines.group.commits import Commits, TxnOffset
from fencepost.machines.group.config import GroupConfig
from fencepost.machines.group.group import Group
from fencepost.machines.group.group_type import ClassicMembers, GroupType
from fencepost.machines.group.memory import GroupMemory
from fencepost.machines.group.records import GroupRecord
from fencepost.machines.group.rules import RULES, GroupRules
from fencepost.machines.group.settings import GroupSettings
from fencepost.machines.group.shard import EXPIRY_TIMER, Change, Decision, Shard
from fencepost.machines.group.types import GROUP_TYPES
from fencepost.machines.image import ClusterImage, ImageDelta
from fencepost.wire.api.heartbeat import HeartbeatRequest
from fencepost.wire.api.join_group import JoinGroupRequest
from fencepost.wire.api.leave_group import LeaveGroupRequest
from fencepost.wire.api.offset_commit import OffsetCommitRequest
from fencepost.wire.api.offset_delete import OffsetDeleteRequest
from fencepost.wire.api.offset_fetch import OffsetFetchRequestGroup
from fencepost.wire.api.sync_group import SyncGroupRequest
from fencepost.wire.api.txn_offset_commit import TxnOffsetCommitRequest
from fencepost.wire.records.group import (
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from fencepost.wire.types import Uuid

T = TypeVar("T", bound=GroupType)


class GroupCoordinator:
    """See the module."""

    def __init__(
        self,
        config: GroupConfig | None = None,
        memory: GroupMemory | None = None,
        rules: GroupRules = RULES,
        image: Callable[[], ClusterImage] = ClusterImage,
        types: Sequence[type[GroupType]] = GROUP_TYPES,
        settings: GroupSettings | None = None,
    ) -> None:
        """`memory` is shared by the coordinators of a node; `image` gives the metadata of now."""
        self._shard = Shard(
            config or GroupConfig(), memory or GroupMemory(), image, ClassicGroup, rules, settings
        )
        self.undo_log = self._shard.undo_log
        self._types = {cls: cls(self._shard) for cls in types}
        self._type_of_name = {one.name: one for one in self._types.values()}
        self._type_of_key = {key: one for one in self._types.values() for key in one.keys}
        self._classic = self.of_type(ClassicGroups)
        self._commits = Commits(self._shard)

    @property
    def groups(self) -> dict[str, Group]:
        """The groups by id; to be read only."""
        return self._shard.groups

    def of_type(self, cls: type[T]) -> T:
        """The decisions about groups of one type: for requests of its own APIs."""
        one = self._types[cls]
        assert isinstance(one, cls)
        return one

    def _classic_members_of(self, group_id: str) -> ClassicMembers:
        """Who serves classic members of the group; the classic type refuses where no type does."""
        group = self._shard.groups.get(group_id)
        if group is not None:
            members = self._type_of_name[group.group_type].classic_members
            if members is not None:
                return members
        return self._classic.classic_members

    @property
    def offset_count(self) -> int:
        """How many offsets the groups have committed."""
        return sum(self._shard.offsets.counts)

    @property
    def max_batch_bytes(self) -> int:
        """`__consumer_offsets` takes batches of at most so many bytes."""
        return self._shard.record_bytes_max

    @max_batch_bytes.setter
    def max_batch_bytes(self, max_bytes: int) -> None:
        self._shard.record_bytes_max = max_bytes

    def discard(self) -> None:
        """The coordinator is thrown away: its groups take no memory any more."""
        self._shard.discard()

    # State

    def apply(self, record: GroupRecord, offset: int, producer_id: int = -1) -> None:
        """A record is in the log at `offset`, or about to be.

        `producer_id` is that of a transaction, decided or not.
        """
        key, value = record
        if isinstance(key, OffsetCommitKey | LegacyOffsetCommitKey):
            assert value is None or isinstance(value, OffsetCommitValue)
            self._apply_offset(key, value, offset, producer_id)
        else:
            self._type_of_key[type(key)].apply(key, value)

    def apply_transaction_end(self, producer_id: int, *, committed: bool) -> None:
        """The marker that ends a producer's transaction is in the log."""
        self._shard.offsets.end_transaction(producer_id, committed=committed)

    def apply_change(self, change: Change) -> None:
        """A change in memory alone is made: a draft takes the place of its group, for example."""
        change.apply_to(self._shard)

    def _apply_offset(
        self,
        key: OffsetCommitKey | LegacyOffsetCommitKey,
        value: OffsetCommitValue | None,
        offset: int,
        producer_id: int,
    ) -> None:
        shard, partition = self._shard, (key.topic, key.partition)
        if value is None:
            # A group whose last offset this was stays, empty, until offsets expire, as in Kafka.
            shard.offsets.remove(key.group, partition)
        else:
            shard.offsets.put(key.group, partition, value, offset, producer_id)
            shard.add_simple_group(key.group)

    # Decisions

    def decide_loaded(self, wall_ms: int) -> Decision:
        """The whole partition is applied: watch the members, look for expired offsets later."""
        decision = Decision()
        for group in self._shard.groups.values():
            self._type_of_name[group.group_type].loaded(decision, group, wall_ms)
        decision.set_timer(EXPIRY_TIMER, self._shard.config.offsets_retention_check_ms)
        return decision

    def decide_join_group(
        self, request: JoinGroupRequest, caller: Caller, wall_ms: int
    ) -> Decision:
        """JoinGroup v0-9; replies JoinGroupResponse, perhaps much later."""
        return self._classic_members_of(request.group_id).join(request, caller, wall_ms)

    def decide_sync_group(
        self, request: SyncGroupRequest, caller: Caller, wall_ms: int
    ) -> Decision:
        """SyncGroup v0-5; replies SyncGroupResponse, perhaps later."""
        return self._classic_members_of(request.group_id).sync(request, caller, wall_ms)

    def decide_heartbeat(self, request: HeartbeatRequest, caller: Caller) -> Decision:
        """Heartbeat v0-4; replies HeartbeatResponse."""
        return self._classic_members_of(request.group_id).heartbeat(request, caller)

    def decide_leave_group(
        self, request: LeaveGroupRequest, caller: Caller, wall_ms: int
    ) -> Decision:
        """LeaveGroup v0-5, its members in `members`; replies LeaveGroupResponse."""
        return self._classic_members_of(request.group_id).leave(request, caller, wall_ms)

    def decide_offset_commit(
        self, request: OffsetCommitRequest, api_version: int, token: Any, wall_ms: int
    ) -> Decision:
        """OffsetCommit v2-10, topics by name; replies OffsetCommitResponse."""
        return self._commits.commit(request, api_version, token, wall_ms)

    def decide_txn_offset_commit(
        self,
        request: TxnOffsetCommitRequest,
        api_version: int,
        offsets: Sequence[TxnOffset],
        producer: Producer,
        token: Any,
        wall_ms: int,
    ) -> Decision:
        """TxnOffsetCommit v0-6; replies the errors of `offsets`, in their order."""
        return self._commits.commit_in_transaction(
            request, api_version, offsets, producer, token, wall_ms
        )

    def decide_transaction_end(self, end: TransactionEnd, token: Any) -> Decision:
        """A producer's transaction with offsets in this partition has ended; replies None."""
        decision = Decision(transaction_end=end)
        decision.reply(token, None)
        return decision

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
        return self._classic.describe(group_ids, api_version, token)

    def decide_list_groups(
        self, states: Sequence[str], types: Sequence[str], token: Any
    ) -> Decision:
        """ListGroups v0-5; replies list[ListedGroup]."""
        return list_groups(self._shard, states, types, token)

    def decide_delete_groups(self, group_ids: Sequence[str], token: Any) -> Decision:
        """DeleteGroups v0-3; replies list[DeletableGroupResult]."""
        return delete_groups(self._shard, self._commits, group_ids, token)

    def decide_topics_deleted(self, is_gone: Callable[[str, Uuid], bool]) -> Decision:
        """Topics are gone from the cluster: their offsets go too.

        `is_gone` is asked with the name and the id of every topic that has offsets; the id is zero
        where none was stored.
        """
        return self._commits.forget_topics(is_gone)

    def decide_image_changed(self, delta: ImageDelta) -> Decision:
        """The cluster's metadata have changed; the image is `delta.new` by now, or a later one."""
        decision = Decision(is_atomic=False)
        for one in self._types.values():
            one.image_changed(decision, delta)
        return decision

    def decide_timer(self, name: TimerName, wall_ms: int) -> Decision:
        """A timer that a decision set has fired."""
        if name == EXPIRY_TIMER:
            return self._commits.expire(wall_ms)
        return self._type_of_name[name[0]].decide_timer(name, wall_ms)

    # Comparing

    def durable_view(self) -> Any:
        """Everything that is durable, as plain values: equal iff the same is stored."""
        views = {group_id: group.durable_view() for group_id, group in self._shard.groups.items()}
        stored = {group_id: view for group_id, view in views.items() if view is not None}
        return stored, self._shard.offsets.snapshot()

    def settled_view(self) -> dict[str, Any]:
        """What members and administrators see of groups that no rebalance is under way in."""
        views = {group_id: group.settled_view() for group_id, group in self._shard.groups.items()}
        return {group_id: view for group_id, view in views.items() if view is not None}
