"""`ClassicMembersOfConsumerGroups`: members of consumer groups that speak the classic protocol.

Theory of operation
-------------------
While a group migrates, some of its members send ConsumerGroupHeartbeat and some JoinGroup,
SyncGroup and Heartbeat. The coordinator assigns for all of them, so no classic member leads, none
waits for the others, and its generation is its own member epoch:

* JoinGroup does what a heartbeat of the consumer protocol does: the member says what it reads and
  what it owns, and goes a step towards its target. The answer leaves when the step is committed.
* SyncGroup tells the member what it has after that step.
* Heartbeat answers REBALANCE_IN_PROGRESS when there is a next step: a newer target, partitions that
  the member is to give up, or partitions it waits for that are free now; also when members or
  topics have changed and only classic members are there, or no request would assign (unlike Kafka).

A member that is told to join again has its rebalance timeout to do it, and then as long to sync;
these timers and its session remove it. What it has given up it says as owned partitions of its next
JoinGroup. A group without members is the classic type's (`classic.membership`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from fencepost.machines.group.caller import Caller
from fencepost.machines.group.classic.member import Protocols, protocols_of
from fencepost.machines.group.classic.membership import (
    RECORD_ALLOWANCE_BYTES,
    REQUIRES_MEMBER_ID_FROM,
    REQUIRES_PROTOCOL_FROM,
    Membership,
)
from fencepost.machines.group.classic.rebalance import printable
from fencepost.machines.group.classic.refusals import refuse_join
from fencepost.machines.group.consumer.embedded import (
    Embedded,
    read_subscription,
    write_assignment,
)
from fencepost.machines.group.consumer.group import ConsumerGroup, Rejoining
from fencepost.machines.group.consumer.heartbeat import Heartbeats
from fencepost.machines.group.consumer.joining import (
    Entered,
    check_instance,
    enter_instance,
    refuse_if_full,
    unknown_member,
)
from fencepost.machines.group.consumer.leaving import remove_members
from fencepost.machines.group.consumer.member import MemberState, Progress, Subscription
from fencepost.machines.group.consumer.migration import (
    DISABLED,
    classic_metadata,
    downgrade,
    may_downgrade,
)
from fencepost.machines.group.consumer.reconciliation import Heard
from fencepost.machines.group.consumer.timers import (
    CONSUMER,
    join_timer,
    rebalance_timer,
    session_timer,
    sync_timer,
)
from fencepost.machines.group.refused import RefusedError
from fencepost.machines.group.shard import Decision, Shard
from fencepost.wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from fencepost.wire.api.join_group import JoinGroupRequest, JoinGroupResponse
from fencepost.wire.api.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from fencepost.wire.api.sync_group import SyncGroupRequest, SyncGroupResponse
from fencepost.wire.errors import DecodeError, ErrorCode

_INCONSISTENT: Final = ErrorCode.INCONSISTENT_GROUP_PROTOCOL


class _Joining(NamedTuple):
    """A JoinGroup of a member that may join."""

    entered: Entered
    said: Subscription
    embedded: Embedded
    protocols: Protocols
    wall_ms: int


class ClassicMembersOfConsumerGroups:
    """See the module docstring; implements `ClassicMembers`."""

    def __init__(self, shard: Shard, heartbeats: Heartbeats) -> None:
        self._shard = shard
        self._heartbeats = heartbeats
        self._classic = Membership(shard)

    def _group_of(self, group_id: str) -> ConsumerGroup | None:
        """The group, if it has members; without any it is the classic type's."""
        group = self._shard.group_of(group_id, ConsumerGroup)
        return group if group is not None and not group.is_empty else None

    # JoinGroup

    def join(self, request: JoinGroupRequest, caller: Caller, wall_ms: int) -> Decision:
        """JoinGroup v0-9; the reply does not wait for other members."""
        config, group = self._shard.config, self._group_of(request.group_id)
        timeout_ms, least_ms = request.session_timeout_ms, config.min_session_timeout_ms
        if group is None or not least_ms <= timeout_ms <= config.max_session_timeout_ms:
            return self._classic.join(request, caller, wall_ms)
        decision = Decision()
        try:
            if config.migration_policy == DISABLED:
                raise RefusedError(_INCONSISTENT, "the migration of groups is disabled")
            joining = self._enter(decision, group, request, caller, wall_ms)
            if joining is None:
                decision = Decision()
                error = ErrorCode.MEMBER_ID_REQUIRED
                refuse_join(decision, caller.token, error, caller.uuid)
                return decision
            decision = self._join(decision, group, request, joining, caller)
        except RefusedError as refused:
            decision = Decision()
            refuse_join(decision, caller.token, refused.error, "")
        return decision

    def _enter(
        self,
        decision: Decision,
        group: ConsumerGroup,
        request: JoinGroupRequest,
        caller: Caller,
        wall_ms: int,
    ) -> _Joining | None:
        """The member that joins; None if it has to come back with an id. RefusedError."""
        instance_id, member_id = request.group_instance_id, request.member_id or caller.uuid
        refuse_if_full(self._shard, group, member_id, instance_id)
        protocols = protocols_of(request.protocols)
        if request.protocol_type != CONSUMER or not group.supports_classic(protocols):
            raise RefusedError(_INCONSISTENT, f"protocols of {member_id} are not supported")
        if sum(len(name) + len(data) for name, data in protocols) + RECORD_ALLOWANCE_BYTES > (
            self._shard.record_bytes_max
        ):
            raise RefusedError(ErrorCode.MESSAGE_TOO_LARGE, "the record would be too large")
        is_unnamed = instance_id is None and not request.member_id
        if is_unnamed and caller.api_version >= REQUIRES_MEMBER_ID_FROM:
            return None
        if instance_id is None:
            known, progress = group.members.get(member_id), group.progress_of(member_id)
            entered = Entered(group, member_id, known, progress)
        elif request.member_id:
            check_instance(group, member_id, instance_id)
            known, progress = group.members[member_id], group.progress_of(member_id)
            entered = Entered(group, member_id, known, progress)
        else:
            entered = enter_instance(decision, group, member_id, instance_id)
        try:
            embedded = read_subscription(protocols[0][1], self._shard.image)
        except DecodeError:
            raise RefusedError(_INCONSISTENT, "the subscription is malformed") from None
        said = _said(entered.known, request, protocols, embedded, caller)
        return _Joining(entered, said, embedded, protocols, wall_ms)

    def _join(
        self,
        decision: Decision,
        group: ConsumerGroup,
        request: JoinGroupRequest,
        joining: _Joining,
        caller: Caller,
    ) -> Decision:
        """The member's step, or the end of the consumer group if it was what kept it one."""
        entered, said, embedded, protocols, wall_ms = joining
        replaced_id = group.static_members.get(said.instance_id or "")
        after: Progress | None = None
        if (
            replaced_id is not None
            and group.members[replaced_id].classic is None
            and may_downgrade(self._shard, group, [replaced_id], 1)
        ):
            after = self._downgrade(ended := Decision(), group, replaced_id, joining)
            if after is not None:
                decision = ended
        if after is None:
            after = self._heartbeats.advance(decision, entered, said, embedded.owned, None, wall_ms)
            self._watch(decision, group.group_id, entered.member_id, said)
        decision.reply(
            caller.token,
            JoinGroupResponse(
                generation_id=after.epoch,
                protocol_type=CONSUMER,
                protocol_name=protocols[0][0],
                leader="",
                member_id=entered.member_id,
                members=[],
            ),
        )
        decision.notes.append(
            f"group {group.group_id}: {entered.member_id} joins with the classic protocol; "
            f"client reason: {printable(request.reason)}"
        )
        return decision

    def _watch(self, decision: Decision, group_id: str, member_id: str, said: Subscription) -> None:
        """A member that has joined is to sync in time, and to send heartbeats."""
        assert said.classic is not None
        session = session_timer(group_id, member_id)
        decision.set_timer(session, said.classic.session_timeout_ms)
        decision.set_timer(sync_timer(group_id, member_id), said.rebalance_timeout_ms)
        decision.set_timer(join_timer(group_id, member_id), None)
        decision.set_timer(rebalance_timer(group_id, member_id), None)
        decision.changes.append(Rejoining(group_id, member_id, is_told=False))

    def _downgrade(
        self, decision: Decision, group: ConsumerGroup, replaced_id: str, joining: _Joining
    ) -> Progress | None:
        """The classic member takes the place of the last of the consumer protocol.

        None if the group stays a consumer group. RefusedError.
        """
        entered, said, embedded, _, wall_ms = joining
        step = Decision()  # of which nothing is written: the classic group has it all
        epoch, is_other = self._heartbeats.subscribe(step, entered, said, None, wall_ms)
        after, target = entered.progress, group.target_of(replaced_id)
        is_current = epoch <= group.target_epoch
        if is_current:
            heard = Heard(embedded.owned, is_other)
            after = self._heartbeats.reconcile(
                step, entered, said, group.target_epoch, target, heard
            )
        reconciled = group.stable_members.get(group.target_epoch, 0)
        reconciled -= group.progress_of(replaced_id).is_reconciled_to(group.target_epoch)
        is_settled = (
            is_current
            and after.is_reconciled_to(group.target_epoch)
            and reconciled == group.member_count - 1
        )
        reason = None if is_settled else f"{entered.member_id} is the last to leave its protocol"
        is_done = downgrade(
            self._shard,
            decision,
            group,
            [replaced_id],
            wall_ms,
            joined=(entered.member_id, said),
            rebalance_for=reason,
        )
        return after if is_done else None

    # SyncGroup

    def sync(self, request: SyncGroupRequest, caller: Caller, wall_ms: int) -> Decision:
        """SyncGroup v0-5; the reply does not wait for other members."""
        group = self._group_of(request.group_id)
        named = request.protocol_type is not None and request.protocol_name is not None
        if group is None or (caller.api_version >= REQUIRES_PROTOCOL_FROM and not named):
            return self._classic.sync(request, caller, wall_ms)
        decision = Decision()
        try:
            member_id, instance_id = request.member_id, request.group_instance_id
            said = _classic_member(group, member_id, instance_id)
            progress = group.progress_of(member_id)
            _check_generation(progress, request.generation_id)
            metadata = _check_protocol(said, request.protocol_type, request.protocol_name)
        except RefusedError as refused:
            decision.reply(caller.token, SyncGroupResponse(error_code=refused.error))
            return decision
        if (
            group.target_epoch > progress.epoch
            and progress.state is not MemberState.UNREVOKED_PARTITIONS
        ):
            # One that has to give up partitions has joined already, and is told which now.
            _have_rejoin(decision, group, member_id, said)
            error = ErrorCode.REBALANCE_IN_PROGRESS
            decision.reply(caller.token, SyncGroupResponse(error_code=error))
            return decision
        assert said.classic is not None
        decision.set_timer(sync_timer(group.group_id, member_id), None)
        session = session_timer(group.group_id, member_id)
        decision.set_timer(session, said.classic.session_timeout_ms)
        partitions = {topic_id: frozenset(epochs) for topic_id, epochs in progress.assigned.items()}
        response = SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=write_assignment(partitions, metadata, self._shard.image),
        )
        decision.reply(caller.token, response)
        return decision

    # Heartbeat

    def heartbeat(self, request: HeartbeatRequest, caller: Caller) -> Decision:
        """Heartbeat v0-4: the member is alive; the answer says whether it is to join again."""
        group = self._group_of(request.group_id)
        if group is None:
            return self._classic.heartbeat(request, caller)
        decision = Decision()
        try:
            error = self._heartbeat(decision, group, request)
        except RefusedError as refused:
            error = refused.error
        decision.reply(caller.token, HeartbeatResponse(error_code=error))
        return decision

    def _heartbeat(
        self, decision: Decision, group: ConsumerGroup, request: HeartbeatRequest
    ) -> ErrorCode:
        member_id = request.member_id
        said = _classic_member(group, member_id, request.group_instance_id)
        progress = group.progress_of(member_id)
        _check_generation(progress, request.generation_id)
        assert said.classic is not None
        session = session_timer(group.group_id, member_id)
        decision.set_timer(session, said.classic.session_timeout_ms)
        if (
            progress.epoch < group.target_epoch
            or _is_first_to_see(group)
            or progress.state is MemberState.UNREVOKED_PARTITIONS
            or _may_have_more(group, member_id, progress)
        ):
            _have_rejoin(decision, group, member_id, said)
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    # LeaveGroup

    def leave(self, request: LeaveGroupRequest, caller: Caller, wall_ms: int) -> Decision:
        """LeaveGroup v0-5; names members of either protocol (KAFKA-18188)."""
        group = self._group_of(request.group_id)
        if group is None:
            return self._classic.leave(request, caller, wall_ms)
        decision, gone, answers = Decision(), dict[str, None](), []
        for who in request.members:
            answer = MemberResponse(
                member_id=who.member_id, group_instance_id=who.group_instance_id
            )
            try:
                member_id = _leaving(group, who)
            except RefusedError as refused:
                answer.error_code = refused.error
            else:
                gone[member_id] = None
                decision.notes.append(
                    f"group {group.group_id}: {member_id} left; "
                    f"client reason: {printable(who.reason)}"
                )
            answers.append(answer)
        if gone:
            remove_members(self._shard, decision, group, list(gone), wall_ms)
        decision.reply(caller.token, LeaveGroupResponse(members=answers))
        return decision


def _said(
    known: Subscription | None,
    request: JoinGroupRequest,
    protocols: Protocols,
    embedded: Embedded,
    caller: Caller,
) -> Subscription:
    """What the member says of itself; no classic member has a regular expression."""
    rebalance_timeout_ms = request.rebalance_timeout_ms
    if rebalance_timeout_ms < 0:  # v0 had none and used the session timeout
        rebalance_timeout_ms = request.session_timeout_ms
    return Subscription(
        instance_id=request.group_instance_id or (known.instance_id if known else None),
        rack_id=embedded.rack_id or (known.rack_id if known else None),
        client_id=caller.client_id,
        client_host=caller.client_host,
        topic_names=embedded.topic_names,
        rebalance_timeout_ms=rebalance_timeout_ms,
        server_assignor=known.server_assignor if known else None,
        classic=classic_metadata(request.session_timeout_ms, protocols),
    )


def _classic_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> Subscription:
    """The member, if it is one of the classic protocol. RefusedError."""
    if instance_id is not None:
        check_instance(group, member_id, instance_id)
    said = group.members.get(member_id)
    if said is None or said.classic is None:
        raise unknown_member(group.group_id, member_id)
    return said


def _check_generation(progress: Progress, generation_id: int) -> None:
    """A classic member's generation is its epoch. RefusedError."""
    if generation_id != progress.epoch:
        raise RefusedError(
            ErrorCode.ILLEGAL_GENERATION, f"generation {generation_id} is not {progress.epoch}"
        )


def _check_protocol(said: Subscription, protocol_type: str | None, name: str | None) -> bytes:
    """What the member said for its protocol, the first it supports. RefusedError."""
    assert said.classic is not None
    protocol = said.classic.supported_protocols[0]
    if protocol_type not in (None, CONSUMER) or name not in (None, protocol.name):
        raise RefusedError(_INCONSISTENT, f"the protocol is {protocol.name}")
    return bytes(protocol.metadata)


def _have_rejoin(
    decision: Decision, group: ConsumerGroup, member_id: str, said: Subscription
) -> None:
    """The member is told to join again, within its rebalance timeout from the first time on."""
    if member_id not in group.rejoining:
        decision.changes.append(Rejoining(group.group_id, member_id, is_told=True))
        timer = join_timer(group.group_id, member_id)
        decision.set_timer(timer, max(said.rebalance_timeout_ms, 0))


def _is_first_to_see(group: ConsumerGroup) -> bool:
    """Whether there is something to assign for, and no member that would have it assigned.

    The next heartbeat of a member of the consumer protocol does it in a mixed group. In one that
    may not become a classic group the next JoinGroup has to.
    """
    is_changed = group.is_check_due or group.epoch > group.target_epoch
    return is_changed and group.classic_count == group.member_count


def _may_have_more(group: ConsumerGroup, member_id: str, progress: Progress) -> bool:
    """Whether the member waits for partitions, and all of them are free by now."""
    if progress.state is not MemberState.UNRELEASED_PARTITIONS:
        return False
    return not any(
        group.is_held(topic_id, index)
        for topic_id, indexes in group.target_of(member_id).items()
        for index in indexes
        if index not in progress.assigned.get(topic_id, ())
    )


def _leaving(group: ConsumerGroup, who: MemberIdentity) -> str:
    """The id of a member that leaves; a static one may be named by its instance alone."""
    instance_id = who.group_instance_id
    if instance_id is not None:
        member_id = who.member_id or group.static_members.get(instance_id, "")
        check_instance(group, member_id, instance_id)
        return member_id
    if who.member_id not in group.members:
        raise unknown_member(group.group_id, who.member_id)
    return who.member_id
