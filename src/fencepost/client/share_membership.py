"""One consumer's membership in a share group (KIP-932), without I/O.

Members of a share group read the same partitions side by side, record by record, so a member may
read at once what a heartbeat's answer brings, and gives nothing up before others may. A member that
was put out (FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID) joins again with epoch 0 and the id it made
itself; what it has acquired stays locked for it meanwhile, because locks belong to share sessions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fencepost.client.consumer_membership import JOIN_EPOCH, LEAVE_EPOCH, IdPartition
from fencepost.client.errors import BrokerError, refusal
from fencepost.wire.api.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

LOWEST_VERSION: Final = 1
"""Of the three requests of share consumers: the first that is stable."""

_PUT_OUT: Final = {ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID}


def _refusal(code: int) -> str:
    """Why a heartbeat failed whose answer has no text."""
    if code == ErrorCode.UNSUPPORTED_VERSION:
        return "the cluster has no share groups (KIP-932), which take share.version 1 or higher"
    return f"the heartbeat was refused: {refusal(code)}"


@dataclass(slots=True)
class ShareMembership:
    """The state of one member. Times are milliseconds of any clock that only goes forward."""

    group_id: str
    member_id: str
    retry_backoff_ms: float = 100
    topics: tuple[str, ...] = ()
    member_epoch: int = JOIN_EPOCH
    assignment: frozenset[IdPartition] = frozenset()
    """The partitions that the member may fetch from."""
    _told: tuple[str, ...] | None = None
    _asks: bool = False
    _next_ms: float = 0.0

    @property
    def is_member(self) -> bool:
        """Whether the coordinator has this member."""
        return self.member_epoch != JOIN_EPOCH

    def wait_ms(self, now_ms: float) -> float:
        """Milliseconds until a heartbeat is due."""
        return max(0.0, self._next_ms - now_ms)

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Read these topics from now on, which the next heartbeat says at once."""
        if topics != self.topics:
            self.topics, self._next_ms = topics, 0.0

    def heartbeat(self) -> ShareGroupHeartbeatRequest:
        """A heartbeat with what the coordinator does not know yet; with everything after one whose
        answer did not come."""
        is_full = self._asks or not self.is_member or self._told != self.topics
        self._asks = True
        return ShareGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.member_epoch,
            subscribed_topic_names=list(self.topics) if is_full else None,
        )

    def on_response(
        self,
        request: ShareGroupHeartbeatRequest,
        response: ShareGroupHeartbeatResponse,
        now_ms: float,
    ) -> None:
        """Take in the answer to `request`. BrokerError for one that joining again cannot help; the
        member tries again after `retry_backoff_ms`."""
        if request.member_epoch != self.member_epoch:
            return  # the member has left meanwhile
        self._asks = False
        code = response.error_code
        if code != ErrorCode.NONE:
            self._next_ms = now_ms + self.retry_backoff_ms
            # A group that is gone is made again by joining; one of another type is not.
            is_gone = code == ErrorCode.GROUP_ID_NOT_FOUND and self.is_member
            if code in _PUT_OUT or is_gone:
                self.forget()
                return
            text = response.error_message or _refusal(code)
            raise BrokerError.of(code, f"group {self.group_id}: {text}")
        if request.subscribed_topic_names is not None:
            self._told = tuple(request.subscribed_topic_names)
        self.member_epoch = response.member_epoch
        changed = self._told != self.topics
        self._next_ms = now_ms if changed else now_ms + response.heartbeat_interval_ms
        if response.assignment is not None:
            self.assignment = frozenset(
                IdPartition(Uuid(topic.topic_id), number)
                for topic in response.assignment.topic_partitions
                for number in topic.partitions
            )

    def leave_request(self) -> ShareGroupHeartbeatRequest:
        """How to leave."""
        return ShareGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=LEAVE_EPOCH
        )

    def forget(self) -> None:
        """Be as new: the member has left, or was put out."""
        self.member_epoch, self.assignment = JOIN_EPOCH, frozenset()
        self._told, self._asks = None, False
