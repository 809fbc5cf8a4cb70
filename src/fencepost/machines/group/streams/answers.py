"""The answer to a heartbeat of a streams group: what its member is to know and to do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from fencepost.machines.group.settings import StreamsSettings
from fencepost.machines.group.streams.configuring import ConfiguredTopology, InternalTopic
from fencepost.machines.group.streams.endpoints import partitions_by_endpoint
from fencepost.machines.group.streams.group import StreamsGroup
from fencepost.machines.group.streams.member import StreamsMember
from fencepost.machines.group.streams.target import Target
from fencepost.machines.group.streams.tasks import TaskId, by_subtopology
from fencepost.machines.group.streams.topology import Topology
from fencepost.machines.image import ClusterImage
from fencepost.wire.api.streams_group_heartbeat import (
    Status,
    StreamsGroupHeartbeatResponse,
    TaskIds,
)

STALE_TOPOLOGY: Final = 0
SHUTDOWN_APPLICATION: Final = 4
ASSIGNMENT_DELAYED: Final = 5
MISSING_CLIENT_TAGS: Final = 6
CLIENT_TAGS_FROM: Final = 1
"""Version of the API from which a client knows the status MISSING_CLIENT_TAGS."""


class HeartbeatReply(NamedTuple):
    """What the coordinator replies to the request's handler."""

    response: StreamsGroupHeartbeatResponse
    to_create: tuple[InternalTopic, ...] = ()
    """Internal topics that the topology needs and that do not exist."""


class Answer:
    """An answer as it is put together; `before` and `after` are the member's states."""

    def __init__(
        self,
        image: ClusterImage,
        group: StreamsGroup,
        settings: StreamsSettings,
        before: StreamsMember,
        after: StreamsMember,
    ) -> None:
        self._image = image
        self._group = group
        self._settings = settings
        self._after = after
        self._are_tasks_new = before.current.assigned != after.current.assigned
        is_moved = before.metadata.user_endpoint != after.metadata.user_endpoint
        has_endpoint = after.metadata.user_endpoint is not None
        is_new = is_moved or (self._are_tasks_new and has_endpoint)
        self.endpoint_epoch = group.soft.endpoint_epoch + (1 if is_new else 0)
        self.response = StreamsGroupHeartbeatResponse(
            member_id=after.member_id,
            member_epoch=after.current.member_epoch,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            task_offset_interval_ms=settings.task_offset_interval_ms,
            acceptable_recovery_lag=settings.acceptable_recovery_lag,
        )

    def add_tasks(self, *, always: bool) -> None:
        """The member's tasks, if they are others than before."""
        if always or self._are_tasks_new:
            assigned = self._after.current.assigned
            self.response.active_tasks = _task_ids(assigned.active)
            self.response.standby_tasks = _task_ids(assigned.standby)
            self.response.warmup_tasks = _task_ids(assigned.warmup)

    def add_endpoints(
        self,
        configured: ConfiguredTopology,
        known_epoch: int,
        replaced_id: str | None,
        is_new_group: bool,
    ) -> None:
        """Where data can be queried, if the member does not know it."""
        if not is_new_group:
            self.response.endpoint_information_epoch = self.endpoint_epoch
        if known_epoch == self.endpoint_epoch:
            return
        group, own_id = self._group, self._after.member_id
        others = (group.member(one) for one in sorted(group.metadata))
        members = [
            *(one for one in others if one and one.member_id not in (own_id, replaced_id)),
            self._after,
        ]
        self.response.partitions_by_user_endpoint = partitions_by_endpoint(
            members, configured, self._image
        )

    def add_statuses(
        self,
        stored: Topology | None,
        configured: ConfiguredTopology,
        target: Target,
        shutdown_id: str | None,
        api_version: int,
    ) -> None:
        """What the member should know of the group, in Kafka's order."""
        said = self._after.metadata
        statuses: list[tuple[int, str]] = []
        if stored is not None and said.topology_epoch < stored.epoch:
            statuses.append(
                (
                    STALE_TOPOLOGY,
                    f"The member's topology epoch {said.topology_epoch} is behind the group's"
                    f" topology epoch {stored.epoch}.",
                )
            )
        if target.delay is not None:
            statuses.append((ASSIGNMENT_DELAYED, target.delay))
        if configured.status is not None:
            statuses.append(configured.status)
        if shutdown_id is not None:
            statuses.append(
                (
                    SHUTDOWN_APPLICATION,
                    f"Streams group member {shutdown_id} encountered a fatal error and requested a"
                    " shutdown for the entire application.",
                )
            )
        if api_version >= CLIENT_TAGS_FROM:
            statuses += self._missing_tags()
        self.response.status = [
            Status(status_code=code, status_detail=detail) for code, detail in statuses
        ]

    def _missing_tags(self) -> list[tuple[int, str]]:
        has = {key for key, _ in self._after.metadata.client_tags}
        missing = [tag for tag in self._settings.rack_aware_assignment_tags if tag not in has]
        if not missing:
            return []
        detail = (
            "Missing required client tags for rack-aware standby assignment:"
            f" [{', '.join(missing)}]. Configure them via 'client.tag.<tagKey>' in your Streams"
            " config."
        )
        return [(MISSING_CLIENT_TAGS, detail)]


def _task_ids(tasks: Iterable[TaskId]) -> list[TaskIds]:
    return [TaskIds(subtopology_id=id_, partitions=ps) for id_, ps in by_subtopology(tasks)]
