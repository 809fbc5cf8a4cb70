"""The metadata quorum."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from fencepost.client.quorum import QuorumDescription, QuorumReplica
from fencepost.views.view import View
from fencepost.wire.types import Uuid


class ListenerView(View, frozen=True):
    """Where a controller is reached."""

    name: str
    host: str
    port: int


class QuorumReplicaView(View, frozen=True):
    """A node with the metadata log. Timestamps are ms since 1970, -1 when unknown; the log's end
    and its lag (in records) are None if the leader does not know them."""

    node_id: int
    directory_id: str | None
    role: str
    log_end_offset: int | None
    lag: int | None
    last_fetch_timestamp: int
    last_caught_up_timestamp: int
    listeners: list[ListenerView]


class QuorumView(View, frozen=True):
    """The quorum as its leader sees it."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    replicas: list[QuorumReplicaView]

    @property
    def heading(self) -> str:
        return (
            f"leader {self.leader_id}  epoch {self.leader_epoch}  "
            f"high watermark {self.high_watermark}"
        )


class QuorumReplicaRow(View, frozen=True):
    """A node of the quorum as a table shows it at some moment: times are ages."""

    columns: ClassVar = {
        "node": "node_id",
        "directory": "directory_id",
        "role": "role",
        "end offset": "log_end_offset",
        "lag": "lag",
        "fetched": "fetched",
        "caught up": "caught_up",
        "listeners": "listeners",
    }

    node_id: int
    directory_id: str | None
    role: str
    log_end_offset: int | None
    lag: int | None
    fetched: str | None
    caught_up: str | None
    listeners: list[str]


class QuorumVoter(View, frozen=True):
    """A voter that was added or removed."""

    node_id: int
    directory_id: str | None


def quorum_view(found: QuorumDescription) -> QuorumView:
    """The view of a description."""
    roles = list(_roles(found))
    ends = {replica.node_id: replica.log_end_offset for replica, _ in roles}
    end_offset = ends.get(found.leader_id, found.high_watermark)
    return QuorumView(
        found.leader_id,
        found.leader_epoch,
        found.high_watermark,
        [
            QuorumReplicaView(
                one.node_id,
                directory_text(one.directory_id),
                role,
                one.log_end_offset if one.log_end_offset >= 0 else None,
                max(0, end_offset - one.log_end_offset) if one.log_end_offset >= 0 else None,
                one.last_fetch_timestamp,
                one.last_caught_up_timestamp,
                [ListenerView(*listener) for listener in found.listeners.get(one.node_id, ())],
            )
            for one, role in roles
        ],
    )


def quorum_rows(view: QuorumView, now_ms: float) -> list[QuorumReplicaRow]:
    """The rows of its table at `now_ms` (since 1970)."""
    return [
        QuorumReplicaRow(
            one.node_id,
            one.directory_id,
            one.role,
            one.log_end_offset,
            one.lag,
            _ago(one.last_fetch_timestamp, now_ms),
            _ago(one.last_caught_up_timestamp, now_ms),
            [f"{at.name}://{at.host}:{at.port}" for at in one.listeners],
        )
        for one in view.replicas
    ]


def directory_text(directory_id: Uuid) -> str | None:
    """The id of a directory; None for the zero of a quorum that does not tell them apart."""
    return None if directory_id == Uuid.ZERO else str(directory_id)


def _roles(found: QuorumDescription) -> Iterator[tuple[QuorumReplica, str]]:
    for voter in found.voters:
        yield voter, "leader" if voter.node_id == found.leader_id else "follower"
    for observer in found.observers:
        yield observer, "observer"


def _ago(timestamp_ms: int, now_ms: float) -> str | None:
    if timestamp_ms < 0:
        return None
    return f"{max(0.0, now_ms - timestamp_ms) / 1000:.1f} s ago"
