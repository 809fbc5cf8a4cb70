"""Share sessions: which partitions a member of a share group reads here (KIP-932).

Theory of operation
-------------------
A member has one session with each broker that leads partitions it is assigned. The first fetch
names partitions, later ones what changes. Every request of a session carries its epoch, so that
none is taken twice or missed: 0 opens, -1 closes, otherwise it is one more than the last time, and
1 follows the largest. A session belongs to the connection that opened it, and ends with it.

| epoch | session | answer |
|--|--|--|
| 0, a fetch | | an old one is replaced; with acknowledgements INVALID_REQUEST |
| 0, a fetch | as many as there may be | SHARE_SESSION_LIMIT_REACHED |
| 0, acknowledgements alone | | INVALID_SHARE_SESSION_EPOCH |
| -1, n | none | SHARE_SESSION_NOT_FOUND |
| n | another epoch is expected | INVALID_SHARE_SESSION_EPOCH |

Besides the number of sessions (`group.share.max.share.sessions`), what all of them name is bounded:
a session that would have too many partitions is refused like one too many.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

OPENING_EPOCH: Final = 0
CLOSING_EPOCH: Final = -1
EPOCH_MAX: Final = (1 << 31) - 1
PARTITIONS_MAX: Final = 200_000
"""How many partitions all sessions of a broker may name together."""

TopicPartition = tuple[Uuid, int]


class ShareSessionKey(NamedTuple):
    """Whose session it is."""

    group_id: str
    member_id: str


class ShareSession:
    """One member's session."""

    __slots__ = ("connection", "epoch", "key", "partitions")

    def __init__(
        self, key: ShareSessionKey, connection: object, partitions: Iterable[TopicPartition]
    ) -> None:
        self.key = key
        self.connection = connection
        self.partitions: dict[TopicPartition, None] = dict.fromkeys(partitions)
        self.epoch = 1
        """The epoch that the next request must carry."""

    def advance(self) -> None:
        """A request of the session was taken."""
        self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1


class ShareSessions:
    """All sessions of a broker."""

    def __init__(self, max_sessions: int, max_partitions: int = PARTITIONS_MAX) -> None:
        self.max_sessions = max_sessions
        self._max_partitions = max_partitions
        self._partitions = 0
        self._sessions: dict[ShareSessionKey, ShareSession] = {}
        self._by_connection: dict[object, dict[ShareSessionKey, None]] = {}
        self._members: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def has_group(self, group_id: str) -> bool:
        """Whether any member of the group has a session."""
        return group_id in self._members

    def is_open(self, session: ShareSession) -> bool:
        """Whether the session has neither ended nor been replaced."""
        return self._sessions.get(session.key) is session

    def open_session(
        self,
        key: ShareSessionKey,
        partitions: Iterable[TopicPartition],
        connection: object,
        *,
        has_acknowledgements: bool,
    ) -> ShareSession | ErrorCode:
        """Begin a session, in place of the member's earlier one."""
        if has_acknowledgements:
            return ErrorCode.INVALID_REQUEST
        self.remove(key)
        session = ShareSession(key, connection, partitions)
        size = len(session.partitions)
        if len(self) >= self.max_sessions or self._partitions + size > self._max_partitions:
            return ErrorCode.SHARE_SESSION_LIMIT_REACHED
        self._sessions[key] = session
        self._partitions += size
        self._by_connection.setdefault(connection, {})[key] = None
        self._members[key.group_id] = self._members.get(key.group_id, 0) + 1
        return session

    def continue_session(self, key: ShareSessionKey, epoch: int) -> ShareSession | ErrorCode:
        """Take a request of a session: one that closes it, or the next one."""
        session = self._sessions.get(key)
        if session is None:
            return ErrorCode.SHARE_SESSION_NOT_FOUND
        if epoch == CLOSING_EPOCH:
            return session
        if epoch != session.epoch:
            return ErrorCode.INVALID_SHARE_SESSION_EPOCH
        session.advance()
        return session

    def change(
        self,
        session: ShareSession,
        added: Iterable[TopicPartition],
        forgotten: Iterable[TopicPartition],
    ) -> ErrorCode:
        """Let the session name more partitions, or fewer. What is forgotten counts last."""
        before = len(session.partitions)
        left = self._max_partitions - self._partitions
        for one in added:
            if one not in session.partitions and len(session.partitions) - before >= left:
                self._partitions += len(session.partitions) - before
                return ErrorCode.SHARE_SESSION_LIMIT_REACHED
            session.partitions[one] = None
        for one in forgotten:
            session.partitions.pop(one, None)
        self._partitions += len(session.partitions) - before
        return ErrorCode.NONE

    def remove(self, key: ShareSessionKey) -> ShareSession | None:
        """End the member's session, if it has one."""
        session = self._sessions.pop(key, None)
        if session is None:
            return None
        self._partitions -= len(session.partitions)
        left = self._members[key.group_id] - 1
        if left:
            self._members[key.group_id] = left
        else:
            del self._members[key.group_id]
        of_connection = self._by_connection[session.connection]
        del of_connection[key]
        if not of_connection:
            del self._by_connection[session.connection]
        return session

    def remove_of(self, connection: object) -> list[ShareSession]:
        """End the sessions of a connection that is gone."""
        keys = list(self._by_connection.get(connection, ()))
        return [session for key in keys if (session := self.remove(key)) is not None]
