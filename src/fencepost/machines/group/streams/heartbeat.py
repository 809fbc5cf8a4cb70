"""StreamsGroupHeartbeat (88): what a member's heartbeat does to its group.

One heartbeat, in the order of Kafka 4.4.0:

1. the group: made by a member that joins, in the place of an empty classic group if there is one;
2. the member: known, new, or a static one that comes back under another id and takes over the tasks
   of its predecessor; its epoch must be the one that it was told last, or the one before with owned
   tasks that it has (its answer was lost);
3. the topology: the first one is stored, any other is refused, an older one is told so;
4. the topics: configured again when one of them has changed, as the metadata hash shows;
5. the group epoch is raised, once at most, if the member's metadata, the hash, the validity of the
   topology or the configs for the assignor have changed;
6. the target assignment, if it is due (`target`), and a step of the member towards it
   (`reconciliation`).

All records of a heartbeat are one batch. Internal topics that are missing are in the reply, for the
handler to create: a heartbeat does not wait for them, and the next one finds them.

Kafka 4.4.0 forgets what it keeps in memory of a group in the heartbeat that makes it. Of that, only
the epoch of endpoints can be seen, and is 0 here, too.
"""

from __future__ import annotations

from typing import Final, NamedTuple, NoReturn

from fencepost.machines.group import member_epochs
from fencepost.machines.group.caller import Caller
from fencepost.machines.group.classic.group import ClassicGroup
from fencepost.machines.group.group import Group, dissolve
from fencepost.machines.group.metadata_hash import group_metadata_hash
from fencepost.machines.group.next_epoch import next_epoch
from fencepost.machines.group.shard import Decision, Shard
from fencepost.machines.group.streams import records, timers
from fencepost.machines.group.streams.answers import Answer, HeartbeatReply
from fencepost.machines.group.streams.configuring import (
    BrokenTopologyError,
    ConfiguredTopology,
    InvalidTopologyError,
    configure,
)
from fencepost.machines.group.streams.group import StreamsGroup, new_member
from fencepost.machines.group.streams.member import (
    LEFT_FOR_NOW,
    NO_REPORTED_OFFSETS,
    MemberMetadata,
    ReportedOffsets,
    StreamsMember,
)
from fencepost.machines.group.streams.reconciliation import (
    MemberState,
    reconcile,
)
from fencepost.machines.group.streams.refusals import JOINS, refuse
from fencepost.machines.group.streams.soft_changes import SoftChange
from fencepost.machines.group.streams.target import (
    DELAYED_INITIALLY,
    Replacement,
    Target,
    Targets,
    assignment_configs,
)
from fencepost.machines.group.streams.tasks import NO_TASKS, TaskId, Tasks, task_set
from fencepost.machines.group.streams.topology import MalformedTopologyError, Topology
from fencepost.wire.api.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    TaskIds,
    TaskOffset,
)
from fencepost.wire.errors import ErrorCode

_SAID_BEFORE: Final = -1


class _Found(NamedTuple):
    """The member of a heartbeat as the group has it."""

    member: StreamsMember
    old_id: str | None = None
    """The id of the static member that it takes over from."""


def find_group(shard: Shard, request: StreamsGroupHeartbeatRequest) -> tuple[StreamsGroup, bool]:
    """The heartbeat's group, and whether the heartbeat makes it. RefusedError."""
    group_id = request.group_id
    present = shard.groups.get(group_id)
    if isinstance(present, StreamsGroup):
        return present, False
    if present is None and request.member_epoch != JOINS:
        refuse(ErrorCode.GROUP_ID_NOT_FOUND, f"Streams group {group_id} not found.")
    if present is not None and not _is_replaced(present, request):
        refuse(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")
    return StreamsGroup(group_id), True


def _is_replaced(present: Group, request: StreamsGroupHeartbeatRequest) -> bool:
    """Whether a streams group takes its place: an empty classic one makes room for a member."""
    return request.member_epoch == JOINS and isinstance(present, ClassicGroup) and present.is_empty


def find_member(
    group: StreamsGroup, request: StreamsGroupHeartbeatRequest, max_size: int
) -> _Found:
    """The member whose heartbeat it is. RefusedError."""
    member_id, instance_id = request.member_id, request.instance_id
    member = group.member(member_id)
    joins = request.member_epoch == JOINS
    is_known = member is not None or instance_id in group.static_members
    if joins and not is_known and group.member_count >= max_size:
        refuse(*member_epochs.full_group(timers.STREAMS, max_size))
    if instance_id is not None:
        return _find_static(group, request, instance_id)
    if member is None:
        if not joins:
            refuse_unknown(group, member_id)
        member = new_member(member_id)
    _check_epoch(member, request)
    return _Found(member)


def _find_static(
    group: StreamsGroup, request: StreamsGroupHeartbeatRequest, instance_id: str
) -> _Found:
    member_id = request.member_id
    known_id = group.static_members.get(instance_id)
    if request.member_epoch != JOINS:
        known = static_member(group, instance_id, member_id)
        _check_epoch(known, request)
        return _Found(known)
    if known_id is None:
        return _Found(group.member(member_id) or new_member(member_id))
    known = static_member(group, instance_id, known_id)
    if known.current.member_epoch != LEFT_FOR_NOW:
        refuse(*member_epochs.unreleased_instance(instance_id, member_id, known_id))
    current = known.current._replace(member_epoch=0, previous_member_epoch=0)
    return _Found(StreamsMember(member_id, known.metadata, current), known_id)


def static_member(group: StreamsGroup, instance_id: str, member_id: str) -> StreamsMember:
    """The static member with that instance id, if the member is it. RefusedError."""
    if refusal := member_epochs.other_instance(group.static_members, instance_id, member_id):
        refuse(*refusal)
    known = group.member(member_id)
    assert known is not None, f"{instance_id} is {member_id}, which is no member"
    return known


def refuse_unknown(group: StreamsGroup, member_id: str) -> NoReturn:
    """There is no such member. RefusedError."""
    refuse(*member_epochs.unknown_member(group.group_id, member_id))


def owned_tasks(request: StreamsGroupHeartbeatRequest) -> Tasks | None:
    """The tasks that the member says it owns; None if it does not say."""
    active, standby, warmup = request.active_tasks, request.standby_tasks, request.warmup_tasks
    if active is None or standby is None or warmup is None:
        return None
    return Tasks(task_set(active), task_set(standby), task_set(warmup))


def _check_epoch(member: StreamsMember, request: StreamsGroupHeartbeatRequest) -> None:
    """The member is in the epoch that it names; or it was, and its owned tasks show that it is the
    one that did not get the answer. RefusedError."""
    current = member.current

    def owns_what_it_has() -> bool:
        owned = owned_tasks(request)
        return owned is not None and current.assigned.contains(owned)

    known, previous = current.member_epoch, current.previous_member_epoch
    if refusal := member_epochs.other_epoch(
        timers.STREAMS, request.member_epoch, known, previous, owns_what_it_has
    ):
        refuse(*refusal)


class Heartbeat:
    """One heartbeat of a member that stays or joins, as it is decided."""

    def __init__(
        self,
        shard: Shard,
        request: StreamsGroupHeartbeatRequest,
        caller: Caller,
        wall_ms: int,
    ) -> None:
        """RefusedError."""
        self._shard = shard
        self._request = request
        self._caller = caller
        self._wall_ms = wall_ms
        self._joins = request.member_epoch == JOINS
        self._settings = shard.streams_settings(request.group_id)
        self.decision = Decision()
        self._group, self._is_new_group = find_group(shard, request)
        self._found = find_member(self._group, request, shard.config.streams_max_size)
        self._before = self._found.member
        self._soft = self._group.soft

    def decide(self) -> Decision:
        """What the heartbeat does. RefusedError, UnknownStateError."""
        group, decision, request = self._group, self.decision, self._request
        present = self._shard.groups.get(request.group_id)
        if present is not None and present is not group:
            dissolve(decision, present)
        said = self._said()
        needs_target = self._record_member(said)
        topology = self._topology()
        configured, metadata_hash = self._configured(topology)
        self._check_owned(configured)
        reported = self._reported()
        self._check_memory(said, topology, reported)
        needs_target |= metadata_hash != group.metadata_hash
        epoch = self._raise_epoch(needs_target, topology, configured, metadata_hash)
        is_delayed = self._delay()
        member = StreamsMember(request.member_id, said, self._before.current)
        target = Target(group.target_epoch, NO_TASKS, DELAYED_INITIALLY)
        if not is_delayed:
            beat = Replacement(member, self._found.old_id)
            target = Targets(self._shard).next(
                decision, group, epoch, configured, beat, self._wall_ms
            )
        member = self._reconcile(member, target)
        timeout_ms = self._settings.session_timeout_ms
        decision.set_timer(timers.session_timer(group.group_id, request.member_id), timeout_ms)
        self._answer(member, topology, configured, target)
        self._keep(configured, is_delayed, reported)
        return decision

    # The member

    def _said(self) -> MemberMetadata:
        """What the member says, with what it said before where it says nothing."""
        request, before = self._request, self._before.metadata
        endpoint = request.user_endpoint
        said_endpoint = None if endpoint is None else (endpoint.host, endpoint.port)
        tags = request.client_tags
        if tags is not None and len({one.key for one in tags}) < len(tags):
            refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
        timeout_ms = request.rebalance_timeout_ms
        return MemberMetadata(
            instance_id=before.instance_id if request.instance_id is None else request.instance_id,
            rack_id=before.rack_id if request.rack_id is None else request.rack_id,
            client_id=self._caller.client_id,
            client_host=self._caller.client_host,
            rebalance_timeout_ms=(
                before.rebalance_timeout_ms if timeout_ms == _SAID_BEFORE else timeout_ms
            ),
            topology_epoch=(
                before.topology_epoch if request.topology is None else request.topology.epoch
            ),
            process_id=before.process_id if request.process_id is None else request.process_id,
            user_endpoint=(
                said_endpoint if self._joins or said_endpoint is not None else before.user_endpoint
            ),
            client_tags=(
                before.client_tags
                if tags is None
                else tuple(sorted((one.key, one.value) for one in tags))
            ),
        )

    def _record_member(self, said: MemberMetadata) -> bool:
        """Write what is new about the member; whether that calls for a new target."""
        group_id, old = self._group.group_id, self._found.old_id
        if old is not None:
            target = self._group.targets.get(old, NO_TASKS)
            self.decision.records += records.replacement_records(
                group_id, old, self._before, target
            )
            for timer in (timers.session_timer, timers.rebalance_timer):
                self.decision.set_timer(timer(group_id, old), None)
        if said == self._before.metadata:
            return False
        self.decision.records.append(records.member_record(group_id, self._request.member_id, said))
        return self._request.instance_id is None or self._before.metadata.needs_new_target(said)

    def _reconcile(self, member: StreamsMember, target: Target) -> StreamsMember:
        """A step of the member towards its target. UnknownStateError."""
        group, current = self._group, member.current
        if current.is_reconciled_to(target.epoch):
            return member
        process_id = member.metadata.process_id
        owned = owned_tasks(self._request)
        after = reconcile(current, process_id, target.epoch, target.tasks, group, owned)
        if after == current:
            return member
        group_id, member_id = group.group_id, member.member_id
        self.decision.records.append(records.current_record(group_id, member_id, after))
        revokes = after.state is MemberState.UNREVOKED_TASKS
        timeout_ms = max(0, member.metadata.rebalance_timeout_ms) if revokes else None
        self.decision.set_timer(timers.rebalance_timer(group_id, member_id), timeout_ms)
        return member._replace(current=after)

    # The topology and its topics

    def _topology(self) -> Topology:
        """The group's topology: that of the request, if it is the first. RefusedError."""
        group, sent = self._group, self._request.topology
        if sent is None:
            if group.topology is None:  # compaction left the group without it
                refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
            return group.topology
        try:
            topology = Topology.of_request(sent)
        except MalformedTopologyError:
            refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
        if group.topology is None:
            self.decision.records.append(records.topology_record(group.group_id, topology))
            return topology
        if topology.epoch >= group.topology.epoch and topology != group.topology:
            refuse(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
        return group.topology

    def _configured(self, topology: Topology) -> tuple[ConfiguredTopology, int]:
        """The topology held against the topics of now, and their hash. RefusedError."""
        group, soft, image = self._group, self._soft, self._shard.image
        known = soft.configured
        if known is not None and group.topology is not None and not soft.is_refresh_due:
            return known, group.metadata_hash
        metadata_hash = group_metadata_hash(image, topology.required_topics)
        is_same = group.topology is not None and metadata_hash == group.metadata_hash
        if known is not None and is_same:
            return known, metadata_hash
        try:
            return configure(topology, image), metadata_hash
        except InvalidTopologyError as error:
            refuse(ErrorCode.STREAMS_INVALID_TOPOLOGY, str(error))
        except BrokenTopologyError:
            refuse(ErrorCode.UNKNOWN_SERVER_ERROR)

    def _check_owned(self, configured: ConfiguredTopology) -> None:
        """Tasks that the member says it owns exist. RefusedError."""
        if not configured.is_ready or configured.subtopologies is None:
            return
        request = self._request
        for listed in (request.active_tasks, request.standby_tasks, request.warmup_tasks):
            for one in listed or ():
                subtopology = configured.subtopologies.get(one.subtopology_id)
                if subtopology is None:
                    refuse(
                        ErrorCode.INVALID_REQUEST,
                        f"Subtopology {one.subtopology_id} does not exist in the topology.",
                    )
                _check_partitions(one, subtopology.task_count)

    def _reported(self) -> ReportedOffsets | None:
        """What the member reports of its state, if it does. RefusedError."""
        offsets, end_offsets = self._request.task_offsets, self._request.task_end_offsets
        if offsets is None and end_offsets is None:
            return None
        before = self._group.offsets.get(self._request.member_id, NO_REPORTED_OFFSETS)
        return ReportedOffsets(
            before.offsets if offsets is None else _offsets_by_task(offsets),
            before.end_offsets if end_offsets is None else _offsets_by_task(end_offsets),
        )

    def _check_memory(
        self, said: MemberMetadata, topology: Topology, reported: ReportedOffsets | None
    ) -> None:
        """What clients say of themselves and the topology has room. RefusedError."""
        group, member_id = self._group, self._request.member_id
        more_bytes = said.counted_bytes
        known_id = self._found.old_id or member_id
        if known_id in group.metadata:
            more_bytes -= group.metadata[known_id].counted_bytes
        if group.topology is None:
            more_bytes += topology.counted_bytes
        if reported is not None:
            before = group.offsets.get(member_id, NO_REPORTED_OFFSETS)
            more_bytes += reported.counted_bytes - before.counted_bytes
        if more_bytes > 0 and group.counted_bytes + more_bytes > self._shard.config.max_bytes:
            refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, "The streams group needs too much memory.")
        if not self._shard.memory.admits(more_bytes):
            refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    # The group

    def _raise_epoch(
        self,
        needs_target: bool,
        topology: Topology,
        configured: ConfiguredTopology,
        metadata_hash: int,
    ) -> int:
        """The group epoch, raised if a new target is needed."""
        group = self._group
        validated = topology.epoch if configured.is_ready else -1
        configs = assignment_configs(self._settings)
        if (
            not needs_target
            and validated == group.validated_topology_epoch
            and configs == group.assignment_configs
        ):
            return group.epoch
        epoch = next_epoch(group.epoch)
        self.decision.records.append(
            records.group_record(
                group.group_id, epoch, metadata_hash, validated, configs, group.descriptions
            )
        )
        return epoch

    def _delay(self) -> bool:
        """Whether the first assignment waits; a group that is empty begins to."""
        group, delay_ms = self._group, self._settings.initial_rebalance_delay_ms
        if self._soft.is_delayed:
            return True
        if not group.is_empty or delay_ms <= 0:
            return False
        self.decision.set_timer(timers.initial_delay_timer(group.group_id), delay_ms)
        return True

    def _answer(
        self,
        member: StreamsMember,
        topology: Topology,
        configured: ConfiguredTopology,
        target: Target,
    ) -> None:
        request = self._request
        answer = Answer(self._shard.image, self._group, self._settings, self._before, member)
        self._endpoint_epoch = answer.endpoint_epoch
        shutdown_id = self._soft.shutdown_member_id
        if shutdown_id is None and request.shutdown_application:
            shutdown_id = request.member_id
        self._shutdown_id = shutdown_id
        answer.add_tasks(always=self._joins)
        answer.add_endpoints(
            configured, request.endpoint_information_epoch, self._found.old_id, self._is_new_group
        )
        answer.add_statuses(
            self._group.topology, configured, target, shutdown_id, self._caller.api_version
        )
        reply = HeartbeatReply(answer.response, configured.to_create)
        self.decision.reply(self._caller.token, reply)

    def _keep(
        self, configured: ConfiguredTopology, is_delayed: bool, reported: ReportedOffsets | None
    ) -> None:
        """Keep in memory what has changed there."""
        after = {
            "configured": configured,
            "is_refresh_due": False,
            "shutdown_member_id": self._shutdown_id,
            "endpoint_epoch": 0 if self._is_new_group else self._endpoint_epoch,
            "is_delayed": is_delayed,
        }
        changed = {name: one for name, one in after.items() if getattr(self._soft, name) != one}
        if changed or reported is not None:
            by_member = None if reported is None else (self._request.member_id, reported)
            self.decision.changes.append(SoftChange(self._group.group_id, by_member, **changed))


def _check_partitions(tasks: TaskIds, task_count: int) -> None:
    for index in tasks.partitions:
        if not 0 <= index < task_count:
            refuse(
                ErrorCode.INVALID_REQUEST,
                f"Task {index} for subtopology {tasks.subtopology_id} is invalid. Number of tasks"
                f" for this subtopology: {task_count}",
            )


def _offsets_by_task(listed: list[TaskOffset]) -> dict[TaskId, int]:
    offsets: dict[TaskId, int] = {}
    for one in listed:
        task = TaskId(one.subtopology_id, one.partition)
        if task in offsets:
            refuse(
                ErrorCode.INVALID_REQUEST,
                f"Task offsets contain a duplicate entry for subtopology {one.subtopology_id} and"
                f" partition {one.partition}.",
            )
        offsets[task] = one.offset
    return offsets
