"""Partitions of sessions with which nothing is the matter: nobody looks at them.

Theory of operation
-------------------
Who has everything asks twice a second whether there is more, for all of its partitions. What a
partition would answer then depends on nothing but the partition and how it is asked (`Asker`): as
long as it does not move, it has no records, and the same high watermark as before. So a partition
is *quiet* in a session once it was answered with nothing,

* to a consumer that had asked for where its reading ends: the high watermark, or the last stable
  offset. Not if it might be sent to another replica (KIP-392), which depends on the others;
* to a follower that had asked for the log's end, which the leader had taken down; that was in
  sync, so there is nothing to ask the controller for; and that asked as the incarnation that the
  leader knows.

A round of fetches then costs what has moved, not what there is. A quiet partition is looked at
again (it *stirs*) when

| what happened                                                              | stirs            |
|----------------------------------------------------------------------------|------------------|
| its log's start, high watermark, leader epoch or role moved; the metadata  | the partition    |
| changed it; it is gone                                                     |                  |
| its log's end moved                                                        | for followers    |
| the session's request names it, or follows it no longer; the session ends  | the partition    |
| brokers were registered, fenced or unfenced; the ACLs changed              | all              |
| a request of the session is asked in another way, or by another broker     | all of a session |
| it has been quiet for longest: up to `LOOKS_MAX` with each request         | the partition    |

The last is for nothing but safety: should anything else ever matter that is not in this table, a
client goes without it for half a minute, or as long as it takes to get through thousands of
partitions, and not for good.

While a partition is quiet its leader does not hear of the follower. It need not: a follower at the
log's end is in sync for as long as the log does not grow. When the partition stirs, the leader is
told when the follower was there last (`Stirred`); a fetch of the session that waits does so for it,
too, from then on.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from itertools import islice
from typing import Final, Generic, NamedTuple, Self, TypeVar

from msgspec import Struct

from fencepost.machines.fetch.answering import FetchTerms
from fencepost.machines.fetch.sessions import FetchSession

Key = TypeVar("Key", bound=Hashable)
Partition = TypeVar("Partition", bound=Hashable)

ROUNDS: Final = 60
"""After so many requests each of a session's quiet partitions was looked at once, if there are no
more than `ROUNDS * LOOKS_MAX`; a follower that has everything asks every
`replica.fetch.wait.max.ms`, half a second, so that is half a minute."""

LOOKS_MAX: Final = 4
"""Quiet partitions that one request looks at: what a round costs is not to grow with them."""


class Asker(Struct, frozen=True):
    """How a session's request asks: what its answers depend on besides the partitions."""

    replica_id: int
    """A follower, in the incarnation with `broker_epoch`; negative: a consumer."""
    broker_epoch: int
    isolation: int = 0
    leader_only: bool = False
    may_be_sent_on: bool = False
    """Whether it may be told to read from another replica."""

    @classmethod
    def of(cls, terms: FetchTerms) -> Self:
        """Who fetches on these terms."""
        return cls(
            terms.replica_id,
            terms.broker_epoch,
            terms.isolation,
            terms.leader_only,
            terms.choose_replica is not None,
        )

    @property
    def is_replica(self) -> bool:
        """Whether a follower asks."""
        return self.replica_id >= 0


class Stirred(NamedTuple, Generic[Partition, Key]):
    """A partition is not quiet any more in a session whose `asker` had all of it at `seen_ms`."""

    partition: Partition
    session: FetchSession[Key]
    key: Key
    asker: Asker
    seen_ms: int


class QuietPartitions(Generic[Partition, Key]):
    """Which partitions are quiet in which sessions, by the partitions' keys at their hosts."""

    def __init__(self) -> None:
        self._watched: dict[Partition, dict[FetchSession[Key], Key]] = {}
        # In the order in which they became quiet.
        self._of_session: dict[FetchSession[Key], dict[Key, Partition]] = {}
        self._askers: dict[FetchSession[Key], Asker] = {}

    def __len__(self) -> int:
        """How many partitions are quiet, over all sessions."""
        return sum(map(len, self._of_session.values()))

    def settle(
        self, session: FetchSession[Key], partition: Partition, key: Key, asker: Asker
    ) -> None:
        """The partition has nothing for who asks in the session, and who has all of it."""
        if key not in session.stirring:
            return
        del session.stirring[key]
        self._watched.setdefault(partition, {})[session] = key
        self._of_session.setdefault(session, {})[key] = partition
        self._askers[session] = asker

    def stir(
        self, partition: Partition, *, log_end_alone: bool = False
    ) -> list[Stirred[Partition, Key]]:
        """The partition has moved, or is gone: for whom it was quiet.

        `log_end_alone`: nothing of it that consumers see.
        """
        watching = self._watched.get(partition)
        if not watching:
            return []
        return [
            self._wake(session, key)
            for session, key in list(watching.items())
            if not log_end_alone or self._askers[session].is_replica
        ]

    def arrived(self, session: FetchSession[Key], asker: Asker) -> None:
        """A request in the session: let some stir, or all if somebody else asks than before."""
        quiet = self._of_session.get(session)
        if not quiet:
            return
        for key in list(islice(quiet, self.due(session, asker))):
            self._wake(session, key)  # and it is looked at, so that nobody need be told

    def due(self, session: FetchSession[Key], asker: Asker) -> int:
        """How many partitions stir when a request in the session arrives."""
        count = len(self._of_session.get(session, ()))
        if count and self._askers[session] == asker:
            count = min(-(-count // ROUNDS), LOOKS_MAX)
        return count

    def stir_all(self) -> list[Stirred[Partition, Key]]:
        """Look at all partitions again with the next request."""
        return [one for session in list(self._of_session) for one in self.forget(session)]

    def forget(
        self, session: FetchSession[Key], keys: Collection[Key] | None = None
    ) -> list[Stirred[Partition, Key]]:
        """The session has ended, or is about to go on without these; one may be named twice."""
        quiet = self._of_session.get(session, {})
        some = quiet if keys is None else [key for key in dict.fromkeys(keys) if key in quiet]
        return [self._wake(session, key) for key in list(some)]

    def _wake(self, session: FetchSession[Key], key: Key) -> Stirred[Partition, Key]:
        quiet, asker = self._of_session[session], self._askers[session]
        partition = quiet.pop(key)
        if not quiet:
            del self._of_session[session], self._askers[session]
        watching = self._watched[partition]
        del watching[session]
        if not watching:
            del self._watched[partition]
        session.stir(key)
        return Stirred(partition, session, key, asker, session.last_used_ms)
