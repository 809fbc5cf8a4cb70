"""A coordinator with a log: decisions carried out as the runtime would, and records as bytes.

Replies of a decision are held until `commit`, or leave at once with `committing=True`. While
`refusing` is an error, the log refuses all records. `restart` loads a new coordinator from the
committed part of the log; requests that waited are gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from fencepost.machines.coordinator import WorkName, WorkResult
from fencepost.machines.group.caller import Caller
from fencepost.machines.group.classic.group import ClassicGroup
from fencepost.machines.group.codec import GroupCodec
from fencepost.machines.group.config import GroupConfig
from fencepost.machines.group.coordinator import GroupCoordinator
from fencepost.machines.group.group_type import GroupType
from fencepost.machines.group.memory import GroupMemory
from fencepost.machines.group.shard import Decision
from fencepost.machines.group.types import GROUP_TYPES
from fencepost.machines.image import ClusterImage
from fencepost.wire.api.heartbeat import HeartbeatRequest
from fencepost.wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from fencepost.wire.api.leave_group import LeaveGroupRequest, MemberIdentity
from fencepost.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from fencepost.wire.api.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from fencepost.wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.consumer import ConsumerProtocolSubscription, encode_prefixed

Entry = tuple[bytes, bytes | None]
Types = Sequence[type[GroupType]]
PROTOCOL_TYPE = "consumer"
RETRY_MS = 500


def subscription(*topics: str) -> bytes:
    """A consumer's subscription, as it travels in JoinGroup."""
    return encode_prefixed(ConsumerProtocolSubscription(topics=list(topics)), 1)


def replay(
    log: list[Entry],
    config: GroupConfig | None = None,
    memory: GroupMemory | None = None,
    types: Types = GROUP_TYPES,
    image: Callable[[], ClusterImage] = ClusterImage,
) -> GroupCoordinator:
    """A coordinator of groups of `types` that has read `log`, as the loader does."""
    coordinator = GroupCoordinator(config, memory, image=image, types=types)
    codec = GroupCodec(types)
    for offset, (key, value) in enumerate(log):
        record = codec.decode(key, value)
        if record is not None:
            coordinator.apply(record, offset)
    return coordinator


def apply_entry(
    coordinator: GroupCoordinator,
    key: bytes,
    value: bytes | None,
    offset: int,
    types: Types = GROUP_TYPES,
) -> None:
    """Apply a record from its bytes."""
    record = GroupCodec(types).decode(key, value)
    assert record is not None
    coordinator.apply(record, offset)


def state_of(coordinator: GroupCoordinator) -> Any:
    """All of a coordinator's state as values, ephemeral and durable."""
    groups = {
        group_id: {name: _copied(value) for name, value in vars(group).items()}
        for group_id, group in coordinator.groups.items()
    }
    return groups, coordinator.durable_view(), coordinator._shard.memory.used_bytes


def _copied(value: Any) -> Any:
    """A value that later changes in place do not reach: dicts in dicts are copied, too."""
    if isinstance(value, dict):
        return {key: _copied(one) for key, one in value.items()}
    return value


def check_sums(coordinator: GroupCoordinator) -> None:
    """What a classic group keeps besides its members is what they add up to."""
    for group in coordinator.groups.values():
        if isinstance(group, ClassicGroup):
            users = Counter(
                name
                for member in group.members.values()
                for name in {name for name, _ in member.protocols}
            )
            assert group.protocol_users == users
            assert group.joined_count == sum(m.awaits_join for m in group.members.values())


def compact(log: list[Entry]) -> list[Entry]:
    """The last record of each key, tombstones gone too, in the order of the log."""
    last = {key: index for index, (key, _) in enumerate(log)}
    return [(k, v) for index, (k, v) in enumerate(log) if last[k] == index and v is not None]


def waiting_tokens(coordinator: GroupCoordinator) -> list[Any]:
    """The requests that wait in JoinGroup or SyncGroup."""
    return [
        token
        for group in coordinator.groups.values()
        if isinstance(group, ClassicGroup)
        for member in group.members.values()
        for token in (member.join_token, member.sync_token)
        if token is not None
    ]


class GroupWorld:
    """One shard and its clients' view of it."""

    def __init__(
        self,
        *,
        committing: bool = True,
        memory: GroupMemory | None = None,
        types: Types = GROUP_TYPES,
        **settings: Any,
    ) -> None:
        settings.setdefault("initial_rebalance_delay_ms", 0)
        self.config = GroupConfig(**settings)
        self.committing = committing
        self.memory = memory or GroupMemory()
        self.types = types
        self.image = ClusterImage()
        self.works: dict[WorkName, Any] = {}
        self.coordinator = replay([], self.config, self.memory, types, lambda: self.image)
        self.log: list[Entry] = []
        self.committed = 0
        self.replies: dict[int, Any] = {}
        self.held: list[tuple[int, int, Any]] = []  # (end offset, token, response)
        self.timers: dict[tuple[str, ...], int] = {}
        self.notes: list[str] = []
        self.now = -5_000
        self.wall_ahead = 1_700_000_000_000
        self.last_token = 0
        self.refusing: ErrorCode | None = None
        self.refused: dict[int, ErrorCode] = {}

    @property
    def wall(self) -> int:
        """What the wall clock shows, in ms; `wall_ahead` sets it."""
        return self.now + self.wall_ahead

    # Carrying out

    def carry_out(self, decide: Callable[[], Decision], token: int | None = None) -> None:
        """Have something decided, and carry it out whole or not at all."""
        before = state_of(self.coordinator)
        decision = decide()
        assert state_of(self.coordinator) == before, "a decision changes nothing"
        entries = [GroupCodec.encode(record) for record in decision.records]
        # The log could refuse any decision: each is undone once before it is kept.
        self._apply(decision, entries)
        self.coordinator.undo_log.revert()
        assert state_of(self.coordinator) == before, "reverted"
        if entries and self.refusing is not None:
            self.refuse(decision, self.refusing, token)
            return
        self._apply(decision, entries)
        self.coordinator.undo_log.commit()
        check_sums(self.coordinator)
        self.log += entries
        for name, delay_ms in decision.timers:
            self.timers.pop(name, None)
            if delay_ms is not None:
                self.timers[name] = self.now + delay_ms
        for work_name, work in decision.works:
            self.works.pop(work_name, None)
            if work is not None:
                self.works[work_name] = work
        self.notes += decision.notes
        self.held += [(len(self.log), token, value) for token, value in decision.replies]
        if self.committing or self.committed == len(self.log):
            self.commit()

    def _apply(self, decision: Decision, entries: Sequence[Entry]) -> None:
        """Apply the changes and the records of a decision; the undo log stays open."""
        self.coordinator.undo_log.begin()
        for change in decision.changes:
            self.coordinator.apply_change(change)
        for offset, entry in enumerate(entries, len(self.log)):
            apply_entry(self.coordinator, *entry, offset, self.types)

    def refuse(self, decision: Decision, error: ErrorCode, token: int | None) -> None:
        """The log has refused a decision."""
        if token is not None:
            self.refused[token] = error
        if decision.on_refused is not None:
            on_refused = decision.on_refused
            self.carry_out(lambda: on_refused(error))

    def commit(self, end: int | None = None) -> None:
        """The log is committed up to `end`: answers that rest on it leave."""
        self.committed = len(self.log) if end is None else max(end, self.committed)
        leaving = [held for held in self.held if held[0] <= self.committed]
        self.held = [held for held in self.held if held[0] > self.committed]
        for _, token, response in leaving:
            assert token not in self.replies, f"request {token} is answered twice"
            self.replies[token] = response

    def restart(self) -> None:
        """The coordinator dies; another loads what was committed."""
        del self.log[self.committed :]
        self.held = []
        self.timers = {}
        self.works = {}
        self.coordinator.discard()
        self.coordinator = replay(
            self.log, self.config, self.memory, self.types, lambda: self.image
        )
        self.carry_out(lambda: self.coordinator.decide_loaded(self.wall))

    def finish_work(self, name: WorkName, error: Exception | None = None) -> None:
        """Work elsewhere is done, or ends with `error`."""
        work = self.works.pop(name)
        result = WorkResult(error=error)
        if error is None:
            try:
                result = WorkResult(work.run(work.spec))
            except Exception as raised:  # noqa: BLE001 - as the runtime does
                result = WorkResult(error=raised)
        self.carry_out(lambda: work.on_done(result, self.wall))
        if self.refusing is not None:
            self.works.setdefault(name, work)

    def advance(self, by_ms: int) -> None:
        """Let time pass, firing timers in the order of their deadlines."""
        until = self.now + by_ms
        while due := [(at, name) for name, at in self.timers.items() if at <= until]:
            at, name = min(due)
            self.now = max(self.now, at)
            del self.timers[name]
            self.carry_out(partial(self.coordinator.decide_timer, name, self.wall))
            if self.refusing is not None and name not in self.timers:
                self.timers[name] = self.now + RETRY_MS
        self.now = until

    # Requests; each returns its token

    def ask(self, decide: Callable[[int], Decision]) -> int:
        self.last_token += 1
        token = self.last_token
        self.carry_out(lambda: decide(token), token)
        return token

    def join(
        self,
        member_id: str = "",
        *,
        group: str = "g",
        instance: str | None = None,
        protocols: dict[str, bytes] | None = None,
        protocol_type: str = PROTOCOL_TYPE,
        version: int = 9,
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        client: str = "c",
        reason: str | None = None,
    ) -> int:
        if protocols is None:
            protocols = {"range": subscription("t")}
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=data)
                for name, data in protocols.items()
            ],
            reason=reason,
        )

        def decide(token: int) -> Decision:
            caller = Caller(token, version, client, "/127.0.0.1", f"u{token}")
            return self.coordinator.decide_join_group(request, caller, self.wall)

        return self.ask(decide)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group: str = "g",
        instance: str | None = None,
        version: int = 5,
        protocol_type: str | None = PROTOCOL_TYPE,
        protocol: str | None = "range",
    ) -> int:
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol,
            assignments=[
                SyncGroupRequestAssignment(member_id=name, assignment=data)
                for name, data in (assignments or {}).items()
            ],
        )
        return self.ask(
            lambda token: self.coordinator.decide_sync_group(
                request, Caller(token, version), self.wall
            )
        )

    def ask_heartbeat(
        self, member_id: str, generation: int, *, group: str = "g", instance: str | None = None
    ) -> int:
        request = HeartbeatRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
        )
        return self.ask(lambda token: self.coordinator.decide_heartbeat(request, Caller(token, 4)))

    def heartbeat(self, member_id: str, generation: int, **said: Any) -> ErrorCode:
        return self.error(self.ask_heartbeat(member_id, generation, **said))

    def ask_to_leave(self, *who: str | tuple[str, str | None], group: str = "g") -> int:
        members = [(one, None) if isinstance(one, str) else one for one in who]
        request = LeaveGroupRequest(
            group_id=group,
            members=[
                MemberIdentity(member_id=member_id, group_instance_id=instance, reason="bye")
                for member_id, instance in members
            ],
        )
        return self.ask(
            lambda token: self.coordinator.decide_leave_group(request, Caller(token, 5), self.wall)
        )

    def leave(self, *who: str | tuple[str, str | None], group: str = "g") -> list[ErrorCode]:
        response = self.replies[self.ask_to_leave(*who, group=group)]
        assert response.error_code == ErrorCode.NONE
        return [ErrorCode(member.error_code) for member in response.members]

    def offset_commit(
        self,
        offset: int = 1,
        *,
        topic: str = "t",
        partition: int = 0,
        member_id: str = "",
        generation: int = -1,
        group: str = "g",
        instance: str | None = None,
        metadata: str | None = "",
        version: int = 9,
        retention_ms: int = -1,
        **ids: Any,
    ) -> int:
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition,
                            committed_offset=offset,
                            committed_leader_epoch=3,
                            committed_metadata=metadata,
                        )
                    ],
                    **ids,
                )
            ],
        )
        return self.ask(
            lambda token: self.coordinator.decide_offset_commit(request, version, token, self.wall)
        )

    def commit_error(self, **said: Any) -> ErrorCode:
        response = self.replies[self.offset_commit(**said)]
        return ErrorCode(response.topics[0].partitions[0].error_code)

    def offset_fetch(
        self,
        group: str = "g",
        topics: dict[str, list[int]] | None = None,
        *,
        require_stable: bool = False,
        **ids: Any,
    ) -> dict[tuple[str, int], tuple[int, int, str, int]]:
        """{(topic, partition): (offset, leader epoch, metadata, error)}"""
        wanted = OffsetFetchRequestGroup(
            group_id=group,
            topics=None
            if topics is None
            else [
                OffsetFetchRequestTopics(name=name, partition_indexes=indexes, **ids)
                for name, indexes in topics.items()
            ],
        )
        token = self.ask(
            lambda token: self.coordinator.decide_offset_fetch(wanted, require_stable, token)
        )
        return {
            (topic.name, one.partition_index): (
                one.committed_offset,
                one.committed_leader_epoch,
                one.metadata,
                one.error_code,
            )
            for topic in self.replies[token].topics
            for one in topic.partitions
        }

    # Answers and short cuts

    def error(self, token: int) -> ErrorCode:
        """The error of an answer that has arrived."""
        return ErrorCode(self.replies[token].error_code)

    def new_id(self, **said: Any) -> str:
        """What a v4+ client does first: it joins without an id and is given one."""
        response = self.replies[self.join(**said)]
        assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return response.member_id

    def form(self, count: int = 2, **said: Any) -> list[str]:
        """A stable group of `count` new members, the first leading; their ids."""
        ids = [self.new_id(**said) for _ in range(count)]
        tokens = [self.join(member_id, **said) for member_id in ids]
        self.advance(self.config.initial_rebalance_delay_ms)
        generation = self.replies[tokens[0]].generation_id
        where = {
            "group": said.get("group", "g"),
            "protocol_type": said.get("protocol_type", PROTOCOL_TYPE),
        }
        given = {member_id: member_id.encode() for member_id in ids}
        for member_id in reversed(ids):
            self.sync(member_id, generation, given if member_id == ids[0] else None, **where)
        return ids

    @property
    def group(self) -> Any:
        """The group "g"."""
        return self.coordinator.groups["g"]
