"""What fetches of all connections share: sessions, and the long polls that wait.

The rules are the machines' (`machines.fetch`); here they meet the clock, randomness and the
partitions that move. One timer serves the earliest deadline of all waiting fetches. A broker and a
simulated broker run this class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from sys import getsizeof

from fencepost.machines.fetch import (
    Asker,
    FetchSession,
    FetchSessions,
    FetchTerms,
    FetchWanted,
    PendingFetch,
    PendingFetches,
    QuietPartitions,
    Stirred,
)
from fencepost.machines.fetch.sessions import PARTITION_BYTES
from fencepost.machines.fetch_limits import DEFAULT_MAX_BYTES
from fencepost.machines.partition import FollowerSeen
from fencepost.runtime.ports import ArmedTimer, TimerQueue
from fencepost.runtime.replicas import HostedPartition
from fencepost.wire.types import Uuid

SESSION_ID_MAX = (1 << 31) - 1

SessionKey = tuple[str | Uuid, int]
"""A partition as sessions know it: (topic id or name, index), as the client said it."""


def _size_of(key: SessionKey) -> int:
    """What a session takes for a partition, in bytes: a name may be a long one of no topic."""
    name = key[0]
    return PARTITION_BYTES + (getsizeof(name) if isinstance(name, str) else 0)


Complete = Callable[[], None]
"""Answers a fetch that has waited, with what there is."""


class FetchHost:
    """Sessions and waiting fetches of one node."""

    def __init__(
        self,
        timers: TimerQueue,
        now_ms: Callable[[], int],
        draw: Callable[[int], int],
        max_sessions: int,
        max_session_bytes: int = DEFAULT_MAX_BYTES,
    ) -> None:
        """`draw(n)` is a number in [0, n): session ids, which should not be guessable."""
        self.sessions: FetchSessions[SessionKey] = FetchSessions(
            lambda: 1 + draw(SESSION_ID_MAX),
            max_slots=max_sessions,
            max_bytes=max_session_bytes,
            size_of=_size_of,
        )
        self._pending: PendingFetches[str] = PendingFetches()
        self._quiet: QuietPartitions[str, SessionKey] = QuietPartitions()
        self.arrived = self._quiet.arrived
        """To be called with a session, and how it asks, when a request in it has come."""
        self.due = self._quiet.due
        """How many partitions `arrived` would have looked at besides those that stir already."""
        self.sessions.on_removed = lambda session: self._stirred(self._quiet.forget(session))
        self.sessions.on_forgetting = lambda *some: self._stirred(self._quiet.forget(*some))
        self.on_seen: Callable[[str, FollowerSeen], None] = lambda key, seen: None
        """Takes to a partition when a follower was last there that nobody looked at."""
        self._timers = timers
        self._now_ms = now_ms
        self._timer: ArmedTimer | None = None
        self._armed_ms = 0

    def __len__(self) -> int:
        return len(self._pending)

    def park(
        self,
        complete: Complete,
        partitions: dict[str, FetchWanted[SessionKey]],
        terms: FetchTerms,
        found: Iterable[tuple[str, int]],
        session: FetchSession[SessionKey] | None = None,
    ) -> Callable[[], None]:
        """Let a fetch wait for its partitions (by their hosts' keys) until its deadline.

        One of a `session` waits for its quiet partitions, too. What is returned is to be called if
        the client leaves. The session refers to the fetch for as long as that waits.
        """
        pending: PendingFetch[str] = PendingFetch((complete, session), partitions, terms)
        self._pending.add(pending, found)
        if session is not None:
            session.waiting = pending
        self._arm()
        return partial(self._abandon, pending)

    def _complete(self, pending: PendingFetch[str]) -> None:
        """The wait is over."""
        complete, session = pending.token
        _unpark(pending, session)
        complete()

    def _abandon(self, pending: PendingFetch[str]) -> None:
        """The client is gone."""
        _unpark(pending, pending.token[1])
        self._pending.cancel(pending)

    def moved(self, hosted: HostedPartition, log_end_alone: bool = False) -> None:
        """A partition's offsets or role have changed: look who can be answered.

        `log_end_alone`: nothing of it that consumers see.
        """
        self._stirred(self._quiet.stir(hosted.key, log_end_alone=log_end_alone))
        for pending in self._pending.moved(hosted.key, hosted, log_end_alone=log_end_alone):
            self._complete(pending)

    def gone(self, hosted: HostedPartition) -> None:
        """The partition is deleted: fetches that wait for it are answered."""
        self._stirred(self._quiet.stir(hosted.key))
        for pending in self._pending.gone(hosted.key):
            self._complete(pending)

    # -- quiet partitions ------------------------------------------------------------------

    def settle(
        self,
        session: FetchSession[SessionKey],
        hosted: HostedPartition,
        key: SessionKey,
        asker: Asker,
    ) -> bool:
        """Who asks has all of the partition: no need to look at it until it moves, if True."""
        if asker.may_be_sent_on or not self.sessions.has(session):
            return False
        if asker.is_replica and not _is_known_to_have_all(hosted, asker):
            return False
        self._quiet.settle(session, hosted.key, key, asker)
        return True

    def untold(self, session: FetchSession[SessionKey], keys: Sequence[SessionKey]) -> None:
        """The request that has looked at these is not sent what they answered: the session's next
        looks at them again, in this order."""
        self._stirred(self._quiet.forget(session, keys))
        for key in keys:
            if key in session.stirring:
                session.stirring[key] = session.stirring.pop(key)

    def look_again(self) -> None:
        """What any partition answers may have changed: which brokers are alive, and in which
        incarnation, or what clients may read."""
        self._stirred(self._quiet.stir_all())

    def _stirred(self, some: Iterable[Stirred[str, SessionKey]]) -> None:
        for partition, session, key, asker, seen_ms in some:
            if asker.is_replica:
                seen = FollowerSeen(asker.replica_id, asker.broker_epoch, seen_ms)
                self.on_seen(partition, seen)
            pending, wanted = session.waiting, session.entries.get(key)
            if isinstance(pending, PendingFetch) and wanted is not None:
                self._pending.join(pending, partition, wanted)

    def _arm(self) -> None:
        deadline_ms = self._pending.next_deadline_ms()
        if deadline_ms is None:
            return
        if self._timer is not None:
            if self._armed_ms <= deadline_ms:
                return
            self._timer.cancel()
        self._timer, self._armed_ms = self._timers.at(deadline_ms, self._expire), deadline_ms

    def _expire(self) -> None:
        self._timer = None
        for pending in self._pending.expired(self._now_ms()):
            self._complete(pending)
        self._arm()


def _unpark(pending: PendingFetch[str], session: FetchSession[SessionKey] | None) -> None:
    if session is not None and session.waiting is pending:
        session.waiting = None


def _is_known_to_have_all(hosted: HostedPartition, asker: Asker) -> bool:
    """Whether the leader knows of a follower that it has all of the log, and is in sync."""
    machine = hosted.machine
    follower = machine.follower_state(asker.replica_id)
    return (
        follower is not None
        and follower.offset == machine.log_end_offset
        and follower.broker_epoch == asker.broker_epoch
        and asker.replica_id in machine.isr
    )
