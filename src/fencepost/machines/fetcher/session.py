"""The asking side of an incremental fetch session (KIP-227): what a request may leave out.

Theory of operation
-------------------
`wanted` is what is to be fetched, `sent` what the leader knows of it, and `_changed` names the
partitions where the two may differ, so that an idle round costs nothing, however many partitions
there are.

| what happened                                           | the next request                       |
|---------------------------------------------------------|----------------------------------------|
| nothing yet, or the leader has no session for us (id 0) | full, asking for a session             |
| an answer with the session's id                         | incremental: what changed, what is     |
|                                                         | wanted no longer                       |
| the leader does not know the session                    | full, asking for a session             |
| no answer, another error, an answer about partitions    | full, closing the session that was     |
| that were not asked for, a full one that lacks some     | (its epoch is unknown), for a new one  |
| topics have ids all of a sudden, or no longer           | the same                               |

`mistakes` counts answers in a row that made us begin again: the fetcher is to take a breath then.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct

from fencepost.machines.fetch.sessions import INITIAL_EPOCH, NO_SESSION_ID, next_epoch
from fencepost.machines.fetcher.inputs import FetchPosition, FollowedPartition


class Wanted(Struct, frozen=True):
    """What is asked of one partition."""

    leader_epoch: int
    position: FetchPosition


class SessionRequest(Struct, frozen=True):
    """The session's part of a request."""

    session_id: int
    epoch: int
    partitions: list[tuple[FollowedPartition, Wanted]]
    forgotten: list[FollowedPartition]


class AskingSession:
    """See the module docstring."""

    def __init__(self) -> None:
        self.wanted: dict[FollowedPartition, Wanted] = {}
        self.sent: dict[FollowedPartition, Wanted] = {}
        """What the last request, or those before it, asked of each partition."""
        self.mistakes = 0
        self._changed: dict[FollowedPartition, None] = {}
        self._session_id = NO_SESSION_ID
        self._epoch = INITIAL_EPOCH
        self._uses_ids = True

    @property
    def is_full(self) -> bool:
        """Whether the next request names everything, or the last one did that is not answered."""
        return self._epoch == INITIAL_EPOCH

    @property
    def has_newcomers(self) -> bool:
        """Whether something is wanted that the leader was not asked for yet."""
        wanted, sent = self.wanted, self.sent
        return any(one in wanted and one not in sent for one in self._changed)

    def offer(self, partition: FollowedPartition, wanted: Wanted) -> None:
        """Ask for this from now on."""
        self.wanted[partition] = wanted
        self._changed[partition] = None

    def withdraw(self, partition: FollowedPartition) -> None:
        """Do not ask for it any more."""
        if self.wanted.pop(partition, None) is not None:
            self._changed[partition] = None

    def next_request(self, *, uses_ids: bool = True) -> SessionRequest | None:
        """What to ask for now; None if there is nothing to ask for.

        `uses_ids`: all topics have ids.
        """
        if uses_ids != self._uses_ids:
            self._uses_ids = uses_ids
            self.begin_anew()
        if self._epoch == INITIAL_EPOCH:
            self._changed.clear()
            self.sent = dict(self.wanted)
            if not self.sent:
                return None
            return SessionRequest(self._session_id, INITIAL_EPOCH, list(self.sent.items()), [])
        request = SessionRequest(self._session_id, self._epoch, [], [])
        sent, wanted = self.sent, self.wanted
        for partition in self._changed:
            now, before = wanted.get(partition), sent.get(partition)
            if now is None:
                if before is not None:
                    del sent[partition]
                    request.forgotten.append(partition)
            elif now != before:
                sent[partition] = now
                request.partitions.append((partition, now))
        self._changed.clear()
        return request if sent or request.forgotten else None

    def answered(
        self, session_id: int, named: Collection[FollowedPartition], *, strangers: int
    ) -> bool:
        """The request was answered with these partitions; whether the answer may be used.

        `strangers` is how many it names besides that are not known: those that are followed no
        longer since it was asked for may be among them, others not.
        """
        sent, wanted = self.sent, self.wanted
        gone = sum(one in sent and one not in wanted for one in self._changed)
        is_sound = strangers <= gone and all(one in sent for one in named)
        if self.is_full and len(named) + strangers != len(sent):
            is_sound = False
        if not is_sound:
            self.mistakes += 1
            self.begin_anew()
            return False
        self.mistakes = 0
        if session_id == NO_SESSION_ID:
            self._session_id, self._epoch = NO_SESSION_ID, INITIAL_EPOCH
        else:
            self._session_id, self._epoch = session_id, next_epoch(self._epoch)
        return True

    def refused(self, *, is_unknown: bool) -> None:
        """The whole answer is an error of the session; `is_unknown`: the leader has it not."""
        self.mistakes += 1
        if is_unknown:
            self._session_id = NO_SESSION_ID
        self.begin_anew()

    def begin_anew(self) -> None:
        """What the leader knows is unknown: name everything, in another session."""
        self._epoch = INITIAL_EPOCH

    def restore_order(self, partition: FollowedPartition) -> None:
        """It had its turn: full requests name it last, so that others have theirs."""
        wanted = self.wanted.pop(partition, None)
        if wanted is not None:
            self.wanted[partition] = wanted
