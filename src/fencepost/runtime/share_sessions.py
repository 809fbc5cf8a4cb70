"""The share sessions of a node, and what their ends do to share partitions.

When a session ends, because its member closes it or its connection is gone, what the member has
acquired becomes available for others; when it was the last of its group here, the group's share
partitions go.
"""

from __future__ import annotations

from collections.abc import Callable

from fencepost.machines.share.inputs import AcknowledgeResult
from fencepost.machines.share.sessions import ShareSession, ShareSessions
from fencepost.machines.share.state_batch import SharePartitionKey
from fencepost.runtime.share_partitions import SharePartitions


class ShareSessionHost:
    """See the module docstring."""

    def __init__(self, partitions: SharePartitions, max_sessions: Callable[[], int]) -> None:
        self.partitions = partitions
        self._max_sessions = max_sessions
        self._sessions = ShareSessions(max_sessions())

    @property
    def sessions(self) -> ShareSessions:
        """The sessions, with the limit that is in force now."""
        self._sessions.max_sessions = self._max_sessions()
        return self._sessions

    def end_session(self, session: ShareSession, done: Callable[[], None] | None = None) -> None:
        """End the session; `done` is called when what the member held is available."""
        self._sessions.remove(session.key)
        self._release(session, done)

    def disconnected(self, connection: object) -> None:
        """A client's connection is gone, and its sessions with it."""
        for session in self._sessions.remove_of(connection):
            self._release(session, None)

    def _release(self, session: ShareSession, done: Callable[[], None] | None) -> None:
        group_id, member_id = session.key
        left = len(session.partitions)

        def released(result: AcknowledgeResult) -> None:
            nonlocal left
            left -= 1
            if not left and done is not None:
                done()

        if not left and done is not None:
            done()
        for topic_id, index in list(session.partitions):
            key = SharePartitionKey(group_id, topic_id, index)
            self.partitions.release(key, member_id, released)
        if not self._sessions.has_group(group_id):
            self.partitions.leave_group(group_id)
