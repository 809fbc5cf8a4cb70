"""Partitions of followers' sessions with which nothing is the matter: nobody looks at them.

Theory of operation
-------------------
A follower that has everything asks twice a second whether there is more, for all of its partitions.
What a partition would answer then depends on nothing but the partition: as long as it does not
move, it has no records for the follower, and the same high watermark as before. So a partition is
*quiet* in a session once it was answered with nothing, while the follower

* had asked for the log's end, and the leader had taken that down;
* was in sync, so there is nothing to ask the controller for;
* asked as the incarnation that the leader knows.

A round of fetches then costs what has moved, not what there is. A quiet partition is looked at
again (it *stirs*) when

| what happened                                                              | stirs            |
|----------------------------------------------------------------------------|------------------|
| its log's end or start, high watermark, leader epoch or role moved; the     | the partition    |
| metadata changed it; it is gone                                            |                  |
| the follower's request names it                                            | the partition    |
| brokers were registered, fenced or unfenced                                | all              |
| another incarnation, or another broker, asks in the session                | all of a session |
| it has been quiet for longest: up to `LOOKS_MAX` with each request         | the partition    |

The last is for nothing but safety: should anything else ever matter that is not in this table, a
follower goes without it for half a minute, or as long as it takes to get through thousands of
partitions, and not for good.

While a partition is quiet its leader does not hear of the follower. It need not: a follower at the
log's end is in sync for as long as the log does not grow. When the partition stirs, the leader is
told when the follower was there last (`Stirred`).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Generic, NamedTuple, TypeVar

from fencepost.machines.fetch.sessions import FetchSession

Key = TypeVar("Key", bound=Hashable)
Partition = TypeVar("Partition", bound=Hashable)

ROUNDS: Final = 60
"""After so many requests each of a session's quiet partitions was looked at once, if there are no
more than `ROUNDS * LOOKS_MAX`; a follower that has everything asks every
`replica.fetch.wait.max.ms`, half a second, so that is half a minute."""

LOOKS_MAX: Final = 4
"""Quiet partitions that one request looks at: what a round costs is not to grow with them."""


class Asker(NamedTuple):
    """Whose session it is: a broker in one of its incarnations."""

    replica_id: int
    broker_epoch: int


class Stirred(NamedTuple, Generic[Key]):
    """A partition is not quiet any more in a session whose `asker` had all of it at `seen_ms`."""

    session: FetchSession[Key]
    key: Key
    asker: Asker
    seen_ms: int


class QuietPartitions(Generic[Partition, Key]):
    """Which partitions are quiet in which sessions, by the partitions' keys at their hosts."""

    def __init__(self) -> None:
        self._watched: dict[Partition, dict[FetchSession[Key], Key]] = {}
        # In the order in which they became quiet.
        self._of_session: dict[FetchSession[Key], dict[Partition, None]] = {}
        self._askers: dict[FetchSession[Key], Asker] = {}

    def __len__(self) -> int:
        """How many partitions are quiet, over all sessions."""
        return sum(map(len, self._of_session.values()))

    def settle(
        self, session: FetchSession[Key], partition: Partition, key: Key, asker: Asker
    ) -> None:
        """The partition has nothing for the session's follower, which has all of it."""
        if key not in session.stirring:
            return
        del session.stirring[key]
        self._watched.setdefault(partition, {})[session] = key
        self._of_session.setdefault(session, {})[partition] = None
        self._askers[session] = asker

    def stir(self, partition: Partition) -> list[Stirred[Key]]:
        """The partition has moved, or is gone: for whom it was quiet."""
        watching = self._watched.pop(partition, None)
        if watching is None:
            return []
        return [self._stirred(session, key, partition) for session, key in watching.items()]

    def arrived(self, session: FetchSession[Key], asker: Asker) -> None:
        """A request in the session: let some stir, or all if somebody else asks than before."""
        quiet = self._of_session.get(session)
        if not quiet:
            return
        count = len(quiet)
        if self._askers[session] == asker:
            count = min(-(-count // ROUNDS), LOOKS_MAX)
        for partition in [one for one, _ in zip(quiet, range(count), strict=False)]:
            self._wake(session, partition)

    def stir_all(self) -> None:
        """Look at all partitions again with the next request."""
        for session, quiet in list(self._of_session.items()):
            for partition in list(quiet):
                self._wake(session, partition)

    def forget(self, session: FetchSession[Key]) -> None:
        """The session has ended."""
        for partition in list(self._of_session.get(session, ())):
            self._wake(session, partition)

    def _wake(self, session: FetchSession[Key], partition: Partition) -> None:
        watching = self._watched[partition]
        key = watching.pop(session)
        if not watching:
            del self._watched[partition]
        self._stirred(session, key, partition)

    def _stirred(self, session: FetchSession[Key], key: Key, partition: Partition) -> Stirred[Key]:
        asker = self._askers[session]
        quiet = self._of_session[session]
        del quiet[partition]
        if not quiet:
            del self._of_session[session], self._askers[session]
        session.stir(key)
        return Stirred(session, key, asker, session.last_used_ms)
