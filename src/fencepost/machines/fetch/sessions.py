"""Incremental fetch sessions (KIP-227): what requests and answers may leave out.

Theory of operation
-------------------
A client that fetches many partitions names them once. The broker keeps them in a *session*; later
requests name only what changed, later answers only partitions with something new. Sessions are
bounded in number; a client that gets none goes on naming everything (session id 0).

What a request wants is in its (session id, epoch):

| session id | epoch | request                                                          |
|------------|-------|------------------------------------------------------------------|
| 0          | -1    | full, without a session                                          |
| any        | 0     | full, and make a session; the one named, if any, is closed first |
| not 0      | -1    | full, without a session; the one named is closed                 |
| any        | 1...  | incremental                                                      |

An incremental request must name a session we have (else FETCH_SESSION_ID_NOT_FOUND), with the epoch
behind that of its last answer (else INVALID_FETCH_SESSION_EPOCH: a request was lost, repeated or
overtaken, and what we would leave out is not what the client knows), and speak of topics by ids or
names as the session does (else FETCH_SESSION_TOPIC_ID_ERROR). These are errors of the whole answer,
which then has no partitions. Epochs run from 1 to 2**31 - 1 and begin again at 1.

`begin` gives a `FetchContext` with the partitions to read, in order. When the data is there,
`FetchContext.finish` says which of them belong in the answer and under which session id. In between
other requests may have moved or closed the session; `finish` then answers with an error rather than
leaving out what the client was never sent.

An incremental answer has a partition iff it has records, an error, a diverging epoch, a preferred
replica, or another high watermark or log start than in the last answer. Partitions that had
records go to the end of the session, so that a busy one cannot starve those behind it.

The cache is full when it has `max_slots` sessions, as in Kafka, or when their partitions take
`max_bytes`: how many partitions a session has is up to the client, and they need not exist. A full
cache evicts, in this order: sessions that nobody used for `eviction_ms`; for a follower's fetch, a
consumer's session; a smaller session that is older than `eviction_ms`. If that is not enough nobody
is evicted, and there is no session for the newcomer. A session that grows counts as a newcomer
does; where nothing can be evicted it is closed, and its client is sent
FETCH_SESSION_ID_NOT_FOUND and asks for another with a full request, as if it had been evicted.

Session ids are drawn by the shell (they should not be guessable); partitions are known by keys of
its choosing.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Final, Generic, TypeVar

from msgspec import Struct

from fencepost.machines.fetch.rules import RULES
from fencepost.machines.fetch_limits import DEFAULT_MAX_BYTES
from fencepost.wire.errors import ErrorCode

Key = TypeVar("Key", bound=Hashable)

NO_SESSION_ID: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EPOCH_MAX: Final = (1 << 31) - 1

DEFAULT_MAX_SLOTS: Final = 1_000
"""Kafka's default of `max.incremental.fetch.session.cache.slots`."""

PARTITION_BYTES: Final = 400
"""What a partition of a session takes at most, also when it is quiet, besides its topic's name."""

DEFAULT_EVICTION_MS: Final = 120_000
"""Kafka's `min.incremental.fetch.session.eviction.ms`."""

_NEVER_ANSWERED: Final = -1


def next_epoch(epoch: int) -> int:
    """The epoch of the request behind one with `epoch`; never 0 again."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == EPOCH_MAX else epoch + 1


class FetchWanted(Struct, Generic[Key]):
    """A partition as a client asks for it: the fields of the wire's FetchPartition.

    In a session it also keeps what was last answered of the partition: sessions may have very
    many, so they are one object each.
    """

    key: Key
    fetch_offset: int
    partition_max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    answered_high_watermark: int = _NEVER_ANSWERED
    answered_log_start_offset: int = _NEVER_ANSWERED

    def note(self, outcome: FetchOutcome) -> bool:
        """Whether `outcome` belongs in the answer; it then counts as answered."""
        if outcome.error_code != ErrorCode.NONE or outcome.has_diverging_epoch:
            # Whatever comes behind the error is answered again: of such an answer, a follower takes
            # no high watermark.
            self.answered_high_watermark = _NEVER_ANSWERED
            return True
        is_changed = (
            outcome.records_size_bytes > 0
            or outcome.high_watermark != self.answered_high_watermark
            or outcome.log_start_offset != self.answered_log_start_offset
            or outcome.has_preferred_replica
        )
        self.answered_high_watermark = outcome.high_watermark
        self.answered_log_start_offset = outcome.log_start_offset
        return is_changed

    def was_told(self, high_watermark: int, log_start_offset: int) -> bool:
        """Whether the client was last answered with these."""
        return (
            self.answered_high_watermark == high_watermark
            and self.answered_log_start_offset == log_start_offset
        )


class FetchOutcome(Struct, frozen=True):
    """What matters of one partition's part of an answer."""

    records_size_bytes: int = 0
    high_watermark: int = -1
    log_start_offset: int = -1
    error_code: int = 0
    has_diverging_epoch: bool = False
    has_preferred_replica: bool = False


class FetchSession(Generic[Key]):
    """One client's session."""

    __slots__ = (
        "created_ms",
        "entries",
        "epoch",
        "evictable",
        "is_old",
        "last_used_ms",
        "privileged",
        "session_id",
        "size_bytes",
        "stirring",
        "uses_topic_ids",
        "waiting",
    )

    def __init__(
        self, session_id: int, *, privileged: bool, uses_topic_ids: bool, now_ms: int
    ) -> None:
        self.session_id = session_id
        self.privileged = privileged
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.size_bytes = 0
        self.entries: dict[Key, FetchWanted[Key]] = {}
        self.stirring: dict[Key, FetchWanted[Key]] = {}
        """The entries that a request has to look at; the others are quiet (see `quiet`)."""
        self.waiting: object = None
        """The fetch of this session that waits, if one does; its host's own."""
        self.evictable: tuple[bool, int, int] | None = None
        self.is_old = False
        """Whether it may go for a bigger one, as of its latest request."""

    def update(
        self,
        wanted: Iterable[FetchWanted[Key]],
        forgotten: Iterable[Key],
        size_of: Callable[[Key], int],
    ) -> None:
        """Take over what an incremental request says; new partitions go to the end.

        One that it both names and forgets is forgotten, as in Kafka.
        """
        for want in wanted:
            before = self.entries.get(want.key)
            if before is None:
                self.size_bytes += size_of(want.key)
            else:
                # What was answered still counts.
                want.answered_high_watermark = before.answered_high_watermark
                want.answered_log_start_offset = before.answered_log_start_offset
            self.entries[want.key] = self.stirring[want.key] = want
        for key in forgotten:
            if self.entries.pop(key, None) is not None:
                self.size_bytes -= size_of(key)
                self.stirring.pop(key, None)

    def stir(self, key: Key) -> None:
        """The partition is to be looked at again, if it still belongs to the session."""
        entry = self.entries.get(key)
        if entry is not None:
            self.stirring[key] = entry

    def to_the_end(self, key: Key) -> None:
        """The partition had records: others are in front of it from now on."""
        self.entries[key] = self.entries.pop(key)
        if key in self.stirring:
            self.stirring[key] = self.stirring.pop(key)


class Finished(Struct, frozen=True):
    """How to answer: `included` are indices of the outcomes given to `finish`, in their order."""

    error_code: ErrorCode
    session_id: int
    included: Sequence[int]


class FetchContext(Struct, Generic[Key]):
    """One fetch request: what to read, and afterwards what to say.

    `session` is that of an incremental request.
    """

    _partitions: Sequence[FetchWanted[Key]]
    _finish: Callable[[Sequence[tuple[Key, FetchOutcome]], int], Finished]
    session: FetchSession[Key] | None = None

    @property
    def partitions(self) -> Sequence[FetchWanted[Key]]:
        """What to look at now: of a session, what is not quiet."""
        if self.session is None:
            return self._partitions
        return list(self.session.stirring.values())

    @property
    def has_quiet(self) -> bool:
        """Whether there are partitions that need not be looked at."""
        session = self.session
        return session is not None and len(session.stirring) < len(session.entries)

    def finish(self, outcomes: Sequence[tuple[Key, FetchOutcome]], now_ms: int) -> Finished:
        """Choose what belongs in the answer. To be called once, with every partition read.

        What is quiet does not belong in it.
        """
        return self._finish(outcomes, now_ms)

    def finish_throttled(self) -> Finished:
        """The same for an answer that has nothing in it, because its client is throttled: the
        session stays as it is, and a new one is not made."""
        if self.session is None:
            return Finished(ErrorCode.NONE, NO_SESSION_ID, ())
        return self._finish((), 0)


class FetchSessions(Generic[Key]):
    """All sessions of a broker."""

    def __init__(
        self,
        draw_session_id: Callable[[], int],
        *,
        max_slots: int = DEFAULT_MAX_SLOTS,
        max_bytes: int = DEFAULT_MAX_BYTES,
        eviction_ms: int = DEFAULT_EVICTION_MS,
        size_of: Callable[[Key], int] = lambda _: PARTITION_BYTES,
    ) -> None:
        """`draw_session_id` gives numbers from 1 to 2**31 - 1; taken ones are drawn again.

        `size_of` says how many bytes a session takes for a partition.
        """
        self._draw_session_id = draw_session_id
        self._max_slots = max_slots
        self._max_bytes = max_bytes
        self._eviction_ms = eviction_ms
        self._size_of = size_of
        self.rules = RULES
        self.used_bytes = 0
        """What the partitions of all sessions take."""
        self.on_removed: Callable[[FetchSession[Key]], None] = lambda session: None
        """Called when a session has ended."""
        self.on_forgetting: Callable[[FetchSession[Key], Sequence[Key]], None] = lambda *_: None
        """Called with what a request is about to take out of a session."""
        # Least recently used first.
        self._sessions: OrderedDict[int, FetchSession[Key]] = OrderedDict()
        # (privileged, partitions, id): the least valuable first, of sessions old enough to go
        # for a bigger one, and of those that a follower may displace.
        self._evictable_by_all: list[tuple[bool, int, int]] = []
        self._evictable_by_follower: list[tuple[bool, int, int]] = []

    def __len__(self) -> int:
        return len(self._sessions)

    def has(self, session: FetchSession[Key]) -> bool:
        """Whether the session goes on."""
        return self._sessions.get(session.session_id) is session

    @property
    def cached_partitions(self) -> int:
        """How many partitions all sessions name."""
        return sum(len(session.entries) for session in self._sessions.values())

    def begin(
        self,
        session_id: int,
        epoch: int,
        wanted: Sequence[FetchWanted[Key]],
        forgotten: Sequence[Key],
        *,
        is_follower: bool,
        uses_topic_ids: bool,
        now_ms: int,
    ) -> FetchContext[Key] | ErrorCode:
        """Judge a request's session fields and say which partitions to read."""
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if session_id != NO_SESSION_ID:
                self._remove(session_id)
            if epoch == FINAL_EPOCH:
                return without_session(wanted)

            def finish(outcomes: Sequence[tuple[Key, FetchOutcome]], at_ms: int) -> Finished:
                return self._create(wanted, outcomes, is_follower, uses_topic_ids, at_ms)

            return FetchContext(wanted, finish)
        session = self.next_of(session_id, epoch, uses_topic_ids)
        if isinstance(session, ErrorCode):
            return session
        return self.go_on(session, wanted, forgotten, now_ms)

    def next_of(
        self, session_id: int, epoch: int, uses_topic_ids: bool
    ) -> FetchSession[Key] | ErrorCode:
        """The session of which an incremental request is the next one; changes nothing."""
        session = self._sessions.get(session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if not self.rules.is_next(epoch, session.epoch):
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if uses_topic_ids != session.uses_topic_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        return session

    def go_on(
        self,
        session: FetchSession[Key],
        wanted: Sequence[FetchWanted[Key]],
        forgotten: Sequence[Key],
        now_ms: int,
    ) -> FetchContext[Key] | ErrorCode:
        """Take the next request of a session, as `next_of` has given it. One that names nothing new
        and forgets nothing is never refused."""
        before_bytes = session.size_bytes
        if forgotten:
            self.on_forgetting(session, forgotten)
        session.update(wanted, forgotten, self._size_of)
        self.used_bytes += session.size_bytes - before_bytes
        if not session.entries:
            self._remove(session.session_id)
            return without_session(wanted)
        if session.size_bytes > before_bytes and not self._evict_for(
            session.privileged, len(session.entries), 0, now_ms, session
        ):
            self._remove(session.session_id)
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        self._touch(session, now_ms)
        session.epoch = expected_epoch = next_epoch(session.epoch)

        def finish_increment(outcomes: Sequence[tuple[Key, FetchOutcome]], _: int) -> Finished:
            return self._answer_increment(session, expected_epoch, outcomes)

        return FetchContext((), finish_increment, session)

    def _answer_increment(
        self,
        session: FetchSession[Key],
        expected_epoch: int,
        outcomes: Sequence[tuple[Key, FetchOutcome]],
    ) -> Finished:
        session_id = session.session_id
        if session.epoch != expected_epoch:
            return Finished(ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id, ())
        if self._sessions.get(session_id) is not session:
            return Finished(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, NO_SESSION_ID, ())
        included = []
        entries = session.entries
        for index, (key, outcome) in enumerate(outcomes):
            if entries[key].note(outcome):
                included.append(index)
                if outcome.records_size_bytes > 0:
                    session.to_the_end(key)
        return Finished(ErrorCode.NONE, session_id, included)

    def _create(
        self,
        wanted: Sequence[FetchWanted[Key]],
        outcomes: Sequence[tuple[Key, FetchOutcome]],
        is_follower: bool,
        uses_topic_ids: bool,
        now_ms: int,
    ) -> Finished:
        """Answer a full request; its partitions become a session if the cache can take one."""
        size = len(outcomes)
        everything = range(size)
        size_bytes = sum(self._size_of(want.key) for want in wanted)
        if not self._evict_for(is_follower, size, size_bytes, now_ms):
            return Finished(ErrorCode.NONE, NO_SESSION_ID, everything)
        session_id = self._draw_session_id()
        while session_id in self._sessions or session_id == NO_SESSION_ID:
            session_id = self._draw_session_id()
        session: FetchSession[Key] = FetchSession(
            session_id, privileged=is_follower, uses_topic_ids=uses_topic_ids, now_ms=now_ms
        )
        session.update(wanted, (), self._size_of)
        self.used_bytes += session.size_bytes
        for key, outcome in outcomes:
            session.entries[key].note(outcome)
        self._sessions[session_id] = session
        self._touch(session, now_ms)
        return Finished(ErrorCode.NONE, session_id, everything)

    def _evict_for(
        self,
        privileged: bool,
        size: int,
        size_bytes: int,
        now_ms: int,
        grown: FetchSession[Key] | None = None,
    ) -> bool:
        """Evict for a newcomer of `size_bytes`, or for what `grown` has by now; False: in vain."""
        slots = len(self._sessions) + (grown is None) - self._max_slots
        over_bytes = self.used_bytes + size_bytes - self._max_bytes
        evicted = []
        for session in self._evictable(privileged, size, now_ms):
            if slots <= 0 and over_bytes <= 0:
                break
            if session is not grown:
                evicted.append(session)
                slots -= 1
                over_bytes -= session.size_bytes
        if slots > 0 or over_bytes > 0:
            return False
        for session in evicted:
            self._remove(session.session_id)
        return True

    def _evictable(self, privileged: bool, size: int, now_ms: int) -> Iterator[FetchSession[Key]]:
        """The sessions that one of `size` partitions may displace, those that go first first."""
        for session in self._sessions.values():
            if now_ms - session.last_used_ms <= self._eviction_ms:
                break
            yield session
        for value in self._evictable_by_follower if privileged else self._evictable_by_all:
            if (privileged, size, 0) < value:
                break
            session = self._sessions[value[2]]
            if now_ms - session.last_used_ms <= self._eviction_ms:
                yield session

    def _touch(self, session: FetchSession[Key], now_ms: int) -> None:
        """The session was used: it is the youngest, and may be worth more or less than before."""
        session.last_used_ms = now_ms
        self._sessions.move_to_end(session.session_id)
        size, before = len(session.entries), session.evictable
        is_old = now_ms - session.created_ms > self._eviction_ms
        if before is not None:
            if before[1] == size and session.is_old == is_old:
                return
            self._forget_value(before)
        value = session.privileged, size, session.session_id
        session.evictable, session.is_old = value, is_old
        if is_old:
            insort(self._evictable_by_all, value)
        if is_old or not session.privileged:
            insort(self._evictable_by_follower, value)

    def _remove(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.used_bytes -= session.size_bytes
            self.on_removed(session)
        if session is not None and session.evictable is not None:
            self._forget_value(session.evictable)
            session.evictable = None

    def _forget_value(self, value: tuple[bool, int, int]) -> None:
        for values in (self._evictable_by_all, self._evictable_by_follower):
            index = bisect_left(values, value)
            if index < len(values) and values[index] == value:
                del values[index]


def without_session(wanted: Sequence[FetchWanted[Key]]) -> FetchContext[Key]:
    """A full request of a client that wants no session, or has ended its own."""
    return FetchContext(wanted, _finish_without_session)


def _finish_without_session(outcomes: Sequence[tuple[Hashable, FetchOutcome]], _: int) -> Finished:
    return Finished(ErrorCode.NONE, NO_SESSION_ID, range(len(outcomes)))
