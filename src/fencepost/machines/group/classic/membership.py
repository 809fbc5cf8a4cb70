"""Who is in a group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup of classic groups.

Theory of operation
-------------------
A rebalance has two halves. In the first (PREPARING_REBALANCE) every member sends JoinGroup and
waits; it ends when all have, or when the longest rebalance timeout among them is over, and a
member that is missing then is removed, unless it is static. The generation increases by one; all
members get its number, and the leader also the list of members. In the second
(COMPLETING_REBALANCE) every member sends SyncGroup and waits; the leader's carries the assignment,
which is stored, and then each member gets its own. An assignment is handed out only once it is
stored, so a generation has one assignment, whatever crashes.

A group that was empty waits `group.initial.rebalance.delay.ms` for more members, and again as long
as new ones come, up to the rebalance timeout.

Members are watched: each has a session timer that its heartbeats, commits and completed rebalances
set again. A member that waits in JoinGroup or SyncGroup is here and need not heartbeat, except one
that was never in a generation: nothing else would ever remove it (see
`NEW_MEMBER_JOIN_TIMEOUT_MS`).

What members say is bounded in three ways. A member that says more for one protocol than a record of
`__consumer_offsets` can have is refused with MESSAGE_TOO_LARGE, which clients do not retry; a group
has `fencepost.group.max.bytes` (GROUP_MAX_SIZE_REACHED); and all groups of a node share what
`memory` has (COORDINATOR_NOT_AVAILABLE: it is worth asking again). An assignment that is too large
to be written is answered as Kafka does, with UNKNOWN_SERVER_ERROR and another rebalance.

A request that takes the place of one that waits (the client gave up and retried) has the older one
answered with REBALANCE_IN_PROGRESS.

What a decision changes in memory alone is a draft of its group. If the log refuses its record, the
draft goes with it, and the group is what it was. Then, as in Kafka, members that waited for the
assignment are answered the error and the group rebalances once more (`_assignment_refused`); a
static member keeps the id it had; and a group whose members are all gone is tried again by its
timer.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from fencepost.machines.group.caller import Caller
from fencepost.machines.group.classic.answers import assigned, joined, roster_of
from fencepost.machines.group.classic.group import ClassicGroup
from fencepost.machines.group.classic.member import GroupState, Member, Protocols, protocols_of
from fencepost.machines.group.classic.rebalance import (
    assignments_of,
    complete_join,
    fits_in_record,
    join_time_is_over,
    maybe_complete_join,
    maybe_prepare_rebalance,
    prepare_rebalance,
    printable,
    refuse_syncs,
    remove_member,
    store,
    store_made,
    sync_time_is_over,
    synced,
    touch,
)
from fencepost.machines.group.classic.refusals import refuse_join, refuse_waiting
from fencepost.machines.group.classic.timers import session_timer
from fencepost.machines.group.config import MAX_PENDING_MEMBERS, NEW_MEMBER_JOIN_TIMEOUT_MS
from fencepost.machines.group.group import dissolve
from fencepost.machines.group.memory import member_bytes
from fencepost.machines.group.shard import Decision, Shard
from fencepost.wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from fencepost.wire.api.join_group import JoinGroupRequest
from fencepost.wire.api.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from fencepost.wire.api.sync_group import SyncGroupRequest, SyncGroupResponse
from fencepost.wire.errors import ErrorCode

REQUIRES_MEMBER_ID_FROM: Final = 4  # KIP-394
REQUIRES_PROTOCOL_FROM: Final = 5  # of SyncGroup, KIP-559
SKIPS_ASSIGNMENT_FROM: Final = 9  # KIP-814

STRING_BYTES_MAX: Final = 32_767
"""The longest string on the wire, and so the longest member id."""

RECORD_ALLOWANCE_BYTES: Final = 256
"""What a group's record has besides the metadata of a member, if its names are not long ones."""

_EMPTY: Final = GroupState.EMPTY
_PREPARING: Final = GroupState.PREPARING_REBALANCE
_COMPLETING: Final = GroupState.COMPLETING_REBALANCE
_STABLE: Final = GroupState.STABLE


class _Join(NamedTuple):
    """A JoinGroup being decided."""

    decision: Decision
    request: JoinGroupRequest
    caller: Caller
    group: ClassicGroup
    protocols: Protocols
    wall_ms: int

    def refuse(self, error: ErrorCode, member_id: str = "") -> None:
        """Answer with an error."""
        refuse_join(self.decision, self.caller.token, error, member_id)

    @property
    def rebalance_timeout_ms(self) -> int:
        """v0 had none and used the session timeout."""
        timeout_ms = self.request.rebalance_timeout_ms
        return self.request.session_timeout_ms if timeout_ms < 0 else timeout_ms

    @property
    def reason(self) -> str:
        """Why the client says that it joins."""
        return f"client reason: {printable(self.request.reason)}"


class Membership:
    """Decides about members; shares the shard's state with the rest of the coordinator."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._config = shard.config

    # JoinGroup

    def join(self, request: JoinGroupRequest, caller: Caller, wall_ms: int) -> Decision:
        """JoinGroup v0-9. The reply comes now, or when the rebalance's first half ends."""
        decision = Decision()
        config, member_id = self._config, request.member_id
        if not request.group_id:
            refuse_join(decision, caller.token, ErrorCode.INVALID_GROUP_ID, member_id)
            return decision
        timeout_ms = request.session_timeout_ms
        if not config.min_session_timeout_ms <= timeout_ms <= config.max_session_timeout_ms:
            refuse_join(decision, caller.token, ErrorCode.INVALID_SESSION_TIMEOUT, member_id)
            return decision
        present = self._shard.groups.get(request.group_id)
        if isinstance(present, ClassicGroup):
            group = present.draft()
        elif present is not None and not (present.is_empty and present.can_become_classic):
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            refuse_join(decision, caller.token, error, member_id)
            return decision
        elif member_id:
            refuse_join(decision, caller.token, ErrorCode.UNKNOWN_MEMBER_ID, member_id)
            return decision
        else:
            group = ClassicGroup(request.group_id)
        decision.changes.append(group)
        protocols = protocols_of(request.protocols)
        join = _Join(decision, request, caller, group, protocols, wall_ms)
        too_large = self._refuse_size(join)
        if too_large is not None:
            join.refuse(too_large, member_id)
        elif not self._has_room(group, member_id):
            self._turn_away(join)
        elif not group.supports(request.protocol_type, [name for name, _ in protocols]):
            join.refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
        elif member_id:
            self._join_known(join)
        else:
            self._join_new(join)
        if present is not None and not isinstance(present, ClassicGroup):
            if group.is_forgettable:  # refused: the other group stays
                decision.changes.clear()
            else:
                dissolve(decision, present)
        if not isinstance(present, ClassicGroup) and not group.is_forgettable:
            store_made(decision, group, wall_ms)
        return decision

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        """Whether the member may join a group of limited size.

        While members join, those count that wait already: if the limit was lowered, the last to
        come back are the ones to go.
        """
        if group.state is _EMPTY:
            return True
        member = group.members.get(member_id)
        if group.state is _PREPARING:
            waits = member is not None and member.awaits_join
            return waits or group.joined_count < self._config.max_size
        return member is not None or len(group.members) < self._config.max_size

    def _refuse_size(self, join: _Join) -> ErrorCode | None:
        """Why what the member says is too much, if it is; see the module."""
        group, request, caller = join.group, join.request, join.caller
        texts = (
            request.member_id or f"{caller.client_id}-{caller.uuid}",
            request.group_instance_id,
            caller.client_id,
            caller.client_host,
        )
        longest = max((len(data) for _, data in join.protocols), default=0)
        if longest + RECORD_ALLOWANCE_BYTES > self._shard.record_bytes_max:
            return ErrorCode.MESSAGE_TOO_LARGE
        static_id = group.static_members.get(request.group_instance_id or "", "")
        known = group.members.get(request.member_id or static_id)
        before_bytes = 0 if known is None else known.size_bytes
        more_bytes = member_bytes(join.protocols, b"", *texts) - before_bytes
        if more_bytes > 0 and group.size_bytes + more_bytes > self._config.max_bytes:
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        if not self._shard.memory.admits(more_bytes):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return None

    def _turn_away(self, join: _Join) -> None:
        member = join.group.members.get(join.request.member_id)
        if member is not None:
            remove_member(join.decision, join.group, member)
        else:
            join.group.remove(join.request.member_id)
        join.refuse(ErrorCode.GROUP_MAX_SIZE_REACHED)
        # It may have been the last that the others waited for.
        maybe_complete_join(join.decision, join.group, join.wall_ms)

    def _join_new(self, join: _Join) -> None:
        group, request, caller = join.group, join.request, join.caller
        instance_id = request.group_instance_id
        new_id = f"{caller.client_id if instance_id is None else instance_id}-{caller.uuid}"
        if len(new_id.encode()) > STRING_BYTES_MAX:
            join.refuse(ErrorCode.INVALID_REQUEST)
            return
        if instance_id is not None:
            old_id = group.static_members.get(instance_id)
            if old_id is None:
                self._add(join, new_id)
            else:
                self._replace_static(join, old_id, new_id)
            return
        if caller.api_version < REQUIRES_MEMBER_ID_FROM:
            self._add(join, new_id)
        elif len(group.pending_members) >= MAX_PENDING_MEMBERS:
            join.refuse(ErrorCode.GROUP_MAX_SIZE_REACHED)
        else:
            # A client that does not read this answer does not join again: no member is left behind.
            group.add_pending(new_id)
            timer = session_timer(group.group_id, new_id)
            join.decision.set_timer(timer, request.session_timeout_ms)
            join.refuse(ErrorCode.MEMBER_ID_REQUIRED, new_id)

    def _join_known(self, join: _Join) -> None:
        group, request = join.group, join.request
        member_id = request.member_id
        if member_id in group.pending_members:
            if request.group_instance_id is not None:
                join.refuse(ErrorCode.UNKNOWN_MEMBER_ID, member_id)  # ids of that kind are dynamic
            else:
                self._add(join, member_id)
            return
        error = group.validate_member(member_id, request.group_instance_id)
        if error is not None:
            join.refuse(error, member_id)
            return
        member = group.members[member_id]
        is_unchanged = member.protocols == join.protocols
        if group.state is _PREPARING:
            self._rejoin(join, member, "is joining")
        elif group.state is _COMPLETING and is_unchanged:
            # It may not have got the answer to its first JoinGroup.
            roster = roster_of(group) if group.is_leader(member_id) else []
            join.decision.reply(join.caller.token, joined(group, member, roster))
        elif group.state is _STABLE and is_unchanged and not group.is_leader(member_id):
            join.decision.reply(join.caller.token, joined(group, member, []))
        elif group.state is _STABLE and is_unchanged:
            # The leader asks for a rebalance when what there is to assign has changed.
            self._rejoin(join, member, "leads and is joining again")
        else:
            self._rejoin(join, member, "changed its metadata")

    def _add(self, join: _Join, member_id: str) -> None:
        group, request = join.group, join.request
        member = Member(
            member_id,
            request.group_instance_id,
            join.caller.client_id,
            join.caller.client_host,
            join.rebalance_timeout_ms,
            request.session_timeout_ms,
            join.protocols,
            join_token=join.caller.token,
            is_new=True,
        )
        if group.state is _PREPARING and group.is_initial_rebalance:
            group.new_member_added = True
        group.add(member, request.protocol_type)
        touch(join.decision, group, member, NEW_MEMBER_JOIN_TIMEOUT_MS)
        reason = f"{member_id} is new; {join.reason}"
        self._maybe_prepare(join.decision, group, reason, join.wall_ms)

    def _update(self, join: _Join, member: Member) -> Member:
        """A member joins again, perhaps with other protocols; an older request of it is void."""
        refuse_waiting(join.decision, member, ErrorCode.REBALANCE_IN_PROGRESS)
        return join.group.update(
            member.member_id,
            protocols=join.protocols,
            rebalance_timeout_ms=join.rebalance_timeout_ms,
            session_timeout_ms=join.request.session_timeout_ms,
            join_token=join.caller.token,
            sync_token=None,
        )

    def _rejoin(self, join: _Join, member: Member, what: str) -> None:
        self._update(join, member)
        reason = f"{member.member_id} {what}; {join.reason}"
        self._maybe_prepare(join.decision, join.group, reason, join.wall_ms)

    def _replace_static(self, join: _Join, old_id: str, new_id: str) -> None:
        """A static member came back and does not know its id: the id it had is fenced (KIP-345).

        In a stable group it takes over its assignment without a rebalance, if the group would
        choose the same protocol; it may not assign again then (KIP-814).
        """
        group, decision, wall_ms = join.group, join.decision, join.wall_ms
        leader_before = group.leader_id
        old = group.replace_static(old_id, new_id)
        refuse_waiting(decision, old, ErrorCode.FENCED_INSTANCE_ID)
        decision.set_timer(session_timer(group.group_id, old_id), None)
        group.pending_sync.pop(old_id, None)
        member = self._update(join, group.members[new_id])
        touch(decision, group, member)
        reason = f"static member {member.instance_id} is {new_id} now; {join.reason}"
        if group.state is _PREPARING:
            maybe_complete_join(decision, group, wall_ms)
        elif (
            group.state is _COMPLETING
            or group.select_protocol() != group.protocol
            or not fits_in_record(group, assignments_of(group), self._shard.record_bytes_max)
        ):
            prepare_rebalance(decision, group, self._config, reason, wall_ms)
        else:
            assert group.state is _STABLE
            member = group.update(new_id, join_token=None)
            store(decision, group, assignments_of(group), wall_ms)
            decision.notes.append(f"group {group.group_id}: {reason}")
            if join.caller.api_version >= SKIPS_ASSIGNMENT_FROM:
                leads = group.is_leader(new_id)
                roster = roster_of(group) if leads else []
                response = joined(group, member, roster, skip_assignment=leads)
            else:
                # It must not think that it leads: it would assign.
                response = joined(group, member, [], leader=leader_before)
            decision.reply(join.caller.token, response)

    # SyncGroup

    def sync(self, request: SyncGroupRequest, caller: Caller, wall_ms: int) -> Decision:
        """SyncGroup v0-5. The reply comes when the leader's assignment is stored."""
        decision = Decision()
        group = self._shard.group_of(request.group_id, ClassicGroup)
        error = self._refuse_sync(group, request, caller.api_version)
        if error is not None:
            decision.reply(caller.token, SyncGroupResponse(error_code=error))
            return decision
        assert group is not None
        group = group.draft()
        decision.changes.append(group)
        member = group.members[request.member_id]
        synced(decision, group, member.member_id)
        if group.state is _COMPLETING:
            refuse_waiting(decision, member, ErrorCode.REBALANCE_IN_PROGRESS)
            group.update(member.member_id, join_token=None, sync_token=caller.token)
            if group.is_leader(member.member_id):
                self._store_assignment(decision, group, request, wall_ms)
        else:
            assert group.state is _STABLE
            decision.reply(caller.token, assigned(group, member.assignment))
        return decision

    def _refuse_sync(
        self, group: ClassicGroup | None, request: SyncGroupRequest, api_version: int
    ) -> ErrorCode | None:
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        protocol = (request.protocol_type, request.protocol_name)
        if api_version >= REQUIRES_PROTOCOL_FROM and None in protocol:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = group.validate_member(request.member_id, request.group_instance_id)
        if error is not None:
            return error
        if not self._shard.rules.may_sync(request.generation_id, group.generation):
            return ErrorCode.ILLEGAL_GENERATION
        for said, known in zip(protocol, (group.protocol_type, group.protocol), strict=True):
            if said is not None and said != known:
                return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return ErrorCode.REBALANCE_IN_PROGRESS if group.state is _PREPARING else None

    def _store_assignment(
        self, decision: Decision, group: ClassicGroup, request: SyncGroupRequest, wall_ms: int
    ) -> None:
        """The leader has assigned: store the assignment and answer the members that wait.

        A member missing from the leader's assignment gets an empty one; entries for unknown members
        are ignored.
        """
        given = {one.member_id: bytes(one.assignment) for one in request.assignments}
        assignments = {member_id: given.get(member_id, b"") for member_id in group.members}
        if not fits_in_record(group, assignments, self._shard.record_bytes_max):
            self._refuse_assignment(decision, group, wall_ms)
            return
        store(decision, group, assignments, wall_ms)
        decision.on_refused = lambda error: self._assignment_refused(request, error, wall_ms)
        for member_id, member in list(group.members.items()):
            if member.sync_token is not None:
                decision.reply(member.sync_token, assigned(group, assignments[member_id]))
                group.update(member_id, sync_token=None)
                touch(decision, group, member)
        decision.notes.append(
            f"group {group.group_id}: {request.member_id} assigned generation {group.generation}"
        )

    def _assignment_refused(
        self, request: SyncGroupRequest, error: ErrorCode, wall_ms: int
    ) -> Decision:
        """The log has refused the assignment: members that wait are answered, and join again."""
        decision = Decision()
        group = self._shard.group_of(request.group_id, ClassicGroup)
        if group is None or (group.state, group.generation) != (_COMPLETING, request.generation_id):
            return decision
        group = group.draft()
        decision.changes.append(group)
        refuse_syncs(decision, group, error)
        reason = f"the assignment of {group.leader_id} could not be stored: {error.name}"
        prepare_rebalance(decision, group, self._config, reason, wall_ms)
        return decision

    def _refuse_assignment(self, decision: Decision, group: ClassicGroup, wall_ms: int) -> None:
        """The assignment cannot be written: members that wait are answered, and join again."""
        refuse_syncs(decision, group, ErrorCode.UNKNOWN_SERVER_ERROR)
        reason = (
            f"the assignment of {group.leader_id} is more than the "
            f"{self._shard.record_bytes_max} bytes that __consumer_offsets takes"
        )
        prepare_rebalance(decision, group, self._config, reason, wall_ms)

    # Heartbeat

    def heartbeat(self, request: HeartbeatRequest, caller: Caller) -> Decision:
        """Heartbeat v0-4: the member is alive; the answer says whether it is to join again."""
        decision = Decision()
        error = self._heartbeat(decision, request)
        decision.reply(caller.token, HeartbeatResponse(error_code=error))
        return decision

    def _heartbeat(self, decision: Decision, request: HeartbeatRequest) -> ErrorCode:
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        group = self._shard.group_of(request.group_id, ClassicGroup)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = group.validate_member(request.member_id, request.group_instance_id)
        if error is not None:
            return error
        if request.generation_id != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        touch(decision, group, group.members[request.member_id])
        if group.state is _PREPARING:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    # LeaveGroup

    def leave(self, request: LeaveGroupRequest, caller: Caller, wall_ms: int) -> Decision:
        """LeaveGroup v3-5, or v0-2 with its one member put into `members`."""
        decision = Decision()
        if not request.group_id:
            error = ErrorCode.INVALID_GROUP_ID
            decision.reply(caller.token, LeaveGroupResponse(error_code=error))
            return decision
        group = self._draft_of(decision, request.group_id)
        outcomes = [self._leave_one(decision, group, who) for who in request.members]
        if group is not None and any(o.error_code == ErrorCode.NONE for o in outcomes):
            if group.state in (_STABLE, _COMPLETING):
                names = ", ".join(who.member_id or "?" for who in request.members)
                prepare_rebalance(decision, group, self._config, f"{names} left", wall_ms)
            else:
                maybe_complete_join(decision, group, wall_ms)
        decision.reply(caller.token, LeaveGroupResponse(members=outcomes))
        return decision

    @staticmethod
    def _leave_one(
        decision: Decision, group: ClassicGroup | None, who: MemberIdentity
    ) -> MemberResponse:
        """Take one member out; an administrator names a static member by its instance alone."""
        outcome = MemberResponse(member_id=who.member_id, group_instance_id=who.group_instance_id)
        if group is None:
            outcome.error_code = ErrorCode.UNKNOWN_MEMBER_ID
            return outcome
        member_id = who.member_id
        if not member_id and who.group_instance_id is not None:
            member_id = group.static_members.get(who.group_instance_id, "")
        if member_id in group.pending_members:
            group.remove(member_id)
            decision.set_timer(session_timer(group.group_id, member_id), None)
            return outcome
        error = group.validate_member(member_id, who.group_instance_id)
        if error is not None:
            outcome.error_code = error
            return outcome
        remove_member(decision, group, group.members[member_id])
        decision.notes.append(
            f"group {group.group_id}: {member_id} left; client reason: {printable(who.reason)}"
        )
        return outcome

    # Timers

    def session_expired(self, group_id: str, member_id: str, wall_ms: int) -> Decision:
        """A session timer fired: of a member that is silent, that waits, or that is gone."""
        decision = Decision()
        group = self._draft_of(decision, group_id)
        if group is None:
            return decision
        member = group.members.get(member_id)
        if member_id in group.pending_members:
            group.remove(member_id)
            self._member_is_gone(decision, group, wall_ms)
        elif member is not None and (
            member.is_new or not (member.awaits_join or member.awaits_sync)
        ):
            decision.notes.append(f"group {group_id}: {member_id} sent no request in time")
            remove_member(decision, group, member)
            if group.state in (_STABLE, _COMPLETING):
                reason = f"{member_id} expired"
                prepare_rebalance(decision, group, self._config, reason, wall_ms)
            else:
                self._member_is_gone(decision, group, wall_ms)
        return decision

    def _draft_of(self, decision: Decision, group_id: str) -> ClassicGroup | None:
        """A draft of the group for the decision, if there is such a group."""
        group = self._shard.group_of(group_id, ClassicGroup)
        if group is None:
            return None
        draft = group.draft()
        decision.changes.append(draft)
        return draft

    @staticmethod
    def _member_is_gone(decision: Decision, group: ClassicGroup, wall_ms: int) -> None:
        if group.state is _PREPARING and group.has_all_joined:
            complete_join(decision, group, wall_ms)

    def join_expired(self, group_id: str, wall_ms: int) -> Decision:
        """A join timer fired."""
        decision = Decision()
        group = self._draft_of(decision, group_id)
        if group is not None:
            join_time_is_over(decision, group, self._config, wall_ms)
        return decision

    def sync_expired(self, group_id: str, wall_ms: int) -> Decision:
        """A sync timer fired."""
        decision = Decision()
        group = self._draft_of(decision, group_id)
        if group is not None:
            sync_time_is_over(decision, group, self._config, wall_ms)
        return decision

    def watch(self, decision: Decision, group: ClassicGroup, wall_ms: int) -> None:
        """The group was loaded: its members have a session timeout from now to be heard of."""
        for member in group.members.values():
            touch(decision, group, member)
        if len(group.members) > self._config.max_size:
            reason = f"it has {len(group.members)} members, more than {self._config.max_size}"
            draft = group.draft()
            decision.changes.append(draft)
            prepare_rebalance(decision, draft, self._config, reason, wall_ms)

    def _maybe_prepare(
        self, decision: Decision, group: ClassicGroup, reason: str, wall_ms: int
    ) -> None:
        maybe_prepare_rebalance(decision, group, self._config, reason, wall_ms)
