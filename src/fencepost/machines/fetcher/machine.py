"""Fetches for the replicas that follow one leader: which are asked for, when, and what follows.

Theory of operation
-------------------
A broker has `num.replica.fetchers` of these for each other broker that leads what it follows. Each
has at most one request under way. A round is:

1. ask: for partitions whose epochs must be compared (OffsetForLeaderEpoch, with leaders that do not
   say in Fetch where logs diverge), else for those whose offset the leader refused (ListOffsets),
   else Fetch, as an incremental session (`session`);
2. tell the machines of the partitions that the answer is about, each once (`reactions` says what);
3. wait until they are done and what they appended is durable (`Progressed`).

Only then the next round begins. So the offset that a follower names is always durable here, which
is what the leader's high watermark counts, and one sync serves whatever an answer had for a log. A
partition whose disk takes longer than `SYNC_WAIT_MS` is left out of the session until it is done,
so that others need not wait for it. Until then no fetch waits at the leader for longer than
`STRAGGLER_WAIT_MS`: with the next one the leader hears how far the partition is, and who has
written there waits for that. Partitions that nothing happens to cost nothing.

What an answer says of a partition counts only if we would still ask the same: the same offset under
the same leader epoch, and no delay (KAFKA-18991: an answer of an older epoch was appended under the
next one).

A partition whose position did not change although its machine was told to move it (a batch that did
not fit, a cut at the place where the log ends) is delayed like one with an error: a leader that
says the same again and again does not get us to spin. So is one that is not in sync, while a
throttle holds it back.

A fetch waits at its leader for up to `replica.fetch.wait.max.ms`. Partitions that are followed from
now on would wait with it, and with them every producer whose leader was just elected. So an idle
fetch is given up for them, after `GATHER_MS`, in which the rest of a change of the metadata comes:
its connection is closed, and another full fetch leaves. That costs as much as there are partitions,
so it is done once in a second, or in as many milliseconds as there are partitions, at most. Where
there is one newcomer, more are on their way: the next `SHORT_ROUNDS` fetches wait for no longer
than `STRAGGLER_WAIT_MS`, and whoever comes meanwhile is in the next incremental one. So a thousand
partitions that are created beside ten thousand cost one full fetch, not one in every second.

It must not know: sockets, clocks, where brokers are, how a log is cut. Every broker epoch is asked
for when a request is made, since a broker may register again.

Effects: `Send(leader id, LeaderRequest)`, and `Tell(machine, input)` with the machine that a
partition's `Follow` named. One timer.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, ClassVar, Final

from msgspec.structs import replace

from fencepost.machines.effects import Effect, Send, Tell, TimerFired
from fencepost.machines.fetcher.answers import CorruptRecords, batches_of, look_ups_of
from fencepost.machines.fetcher.followed import (
    NOT_DELAYED_MS,
    UNKNOWN,
    Followed,
    FollowedPartitions,
    Stage,
)
from fencepost.machines.fetcher.inputs import (
    FetcherConfig,
    Follow,
    FollowedPartition,
    LeaderAnswered,
    LeaderFailed,
    LeaderRequest,
    Notice,
    NoticeKind,
    Progressed,
    Unfollow,
)
from fencepost.machines.fetcher.reactions import (
    SESSION_ERRORS,
    Reaction,
    error_name,
    is_worth_telling,
    reaction_to,
)
from fencepost.machines.fetcher.requests import (
    EPOCH_VERSIONS,
    LIST_VERSIONS,
    FetchForm,
    Form,
    VersionSpan,
    epochs_request,
    fetch_request,
    offsets_request,
)
from fencepost.machines.fetcher.rules import RULES, FetcherRules
from fencepost.machines.fetcher.session import AskingSession, Wanted
from fencepost.machines.outbox import StepOutbox
from fencepost.machines.partition import Diverged, Fetched, FetchedOutOfRange
from fencepost.machines.probes import probe
from fencepost.wire.api import fetch
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

TIMER: Final = "round"
SYNC_WAIT_MS: Final = 100
"""How long a round waits for the disk of any one partition."""

STRAGGLER_WAIT_MS: Final = 20
"""How long a fetch may wait for records while a partition's disk is behind."""

SHORT_ROUNDS: Final = 3
"""So many fetches after a partition was followed newly wait as shortly."""

GATHER_MS: Final = 20
ABANDON_EVERY_MS: Final = 1_000
DOES_NOT_MOVE: Final = "what the leader answers changes nothing in the log"
NO_ANSWER: Final = "the leader says nothing of it"
NOTICES_MAX: Final = 100
"""Of one step; the rest is left out."""

_FORMS: Final = tuple(Form)


class Fetcher:
    """The machine; see the module."""

    NOT_STATE: ClassVar = frozenset(
        ("_broker_epoch", "_is_held_back", "_rules", "config", "notices")
    )

    def __init__(
        self,
        broker_id: int,
        leader_id: int,
        config: FetcherConfig,
        broker_epoch: Callable[[], int],
        is_held_back: Callable[[FollowedPartition], bool] = lambda _: False,
        rules: FetcherRules = RULES,
    ) -> None:
        """`is_held_back` says of a partition that is not in sync whether a throttle is to make it
        wait (KIP-73)."""
        self.config = config
        self.partitions = FollowedPartitions()
        self.notices: list[Notice] = []
        """What there is to say since whoever runs this has taken the last of them away."""
        self._broker_id = broker_id
        self._leader_id = leader_id
        self._broker_epoch = broker_epoch
        self._is_held_back = is_held_back
        self._rules = rules
        self._session = AskingSession()
        self._form = Form.WITH_EPOCH
        self._number = 0
        self._waits_for: int | None = None
        self._asked: tuple[Followed, ...] = ()
        """What the look-up is about that is under way."""
        self._busy: dict[Followed, None] = {}
        self._stragglers: dict[Followed, None] = {}
        self._busy_until_ms = 0
        self._delayed: dict[Followed, None] = {}
        self._looking: dict[Followed, None] = {}
        """What is not to be fetched yet, but to be looked up at the leader."""
        self._not_before_ms = NOT_DELAYED_MS
        self._was_idle = True
        """Whether the last answer had no records: the next one is waited for, then."""
        self._short_rounds = 0
        """How many of the next fetches wait shortly, for those who come behind newcomers."""
        self._waits_shortly = False
        """Whether the fetch under way does."""
        self._abandons = False
        self._abandon_at_ms: int | None = None
        self._abandon_from_ms = NOT_DELAYED_MS
        self._is_unreachable = False
        self._trouble = ""
        """Why no request is answered; empty if that is not so."""
        self._timer_ms: int | None = None
        self._outbox = StepOutbox()

    def step(self, input_: Any, now_ms: int, wall_ms: int) -> list[Effect]:
        """Take one input."""
        _HANDLERS[type(input_)](self, input_, now_ms)
        self._maybe_ask(now_ms)
        return self._outbox.take()

    def canonical(self) -> Hashable:
        """What this fetcher's future depends on; see `machines.canonical`."""
        from fencepost.machines.canonical import canonical  # searches alone need it

        return canonical(self)

    def forget_time(self, inputs_told: int) -> None:
        """Take all that has been for long ago, as a search does that leaves time out.

        Requests are numbered from 1 again, and the first `inputs_told` inputs of every partition's
        machine are not counted. Whether a fetch waits shortly is time, too.
        """
        self.notices.clear()
        self._number = 0
        if self._waits_for is not None:
            self._number = self._waits_for = 1
        self._not_before_ms = self._abandon_from_ms = NOT_DELAYED_MS
        self._busy_until_ms = SYNC_WAIT_MS if self._busy else 0
        self._timer_ms = None
        if self._abandon_at_ms is not None:
            self._abandon_at_ms = GATHER_MS
        self._short_rounds, self._waits_shortly = 0, False
        for followed in self.partitions.values():
            followed.told_count -= inputs_told
            followed.delayed_until_ms = NOT_DELAYED_MS

    @property
    def has_newcomers(self) -> bool:
        """Whether partitions wait for a fetch under way, which may be given up for them."""
        return self._abandon_at_ms is not None and self._waits_for is not None

    @property
    def max_lag(self) -> int:
        """How many records the partition lacks that is furthest behind, as far as is known."""
        return max((one.lag or 0 for one in self.partitions.values()), default=0)

    @property
    def stopped(self) -> int:
        """For how many partitions nothing is fetched before there is another leader epoch."""
        return sum(one.stage is Stage.STOPPED for one in self.partitions.values())

    def halted(self) -> Iterator[tuple[FollowedPartition, bool, str]]:
        """The partitions that nothing has come of since a while, whether they stay so in this
        leader epoch, and why."""
        for one in self.partitions.values():
            why = one.trouble or self._trouble
            if why:
                yield one.partition, one.stage is Stage.STOPPED, why

    # -- whom to follow --------------------------------------------------------------------------

    def _step_follow(self, follow: Follow, now_ms: int) -> None:
        known = self.partitions.get(follow.partition)
        if known is not None:
            if known.leader_epoch >= follow.leader_epoch:
                return
            self._forget(known)
        followed = Followed(follow)
        self.partitions.put(followed)
        self._begin(followed, now_ms)
        self._short_rounds = SHORT_ROUNDS
        if self._abandon_at_ms is None:
            self._abandon_at_ms = max(now_ms + GATHER_MS, self._abandon_from_ms)

    def _begin(self, followed: Followed, now_ms: int) -> None:
        """The first thing to ask, or to do, for a partition in this leader epoch.

        A log without epochs cannot be compared. Below its high watermark it agrees with every
        leader's; the rest of it is cut, as in Kafka.
        """
        position = followed.position
        if position.last_epoch < 0 and position.offset > position.log_start_offset:
            followed.has_agreed = True
            order = Diverged(followed.leader_epoch, -1, -1)
            self._tell(followed, order, now_ms, is_to_move=False)
        else:
            self._resume(followed, now_ms)

    def _step_unfollow(self, unfollow: Unfollow, now_ms: int) -> None:
        followed = self.partitions.remove(unfollow.partition)
        if followed is not None:
            self._forget(followed)

    def _forget(self, followed: Followed) -> None:
        for group in (self._busy, self._stragglers, self._delayed, self._looking):
            group.pop(followed, None)
        self._session.withdraw(followed.partition)

    # -- what partitions report ------------------------------------------------------------------

    def _step_progressed(self, done: Progressed, now_ms: int) -> None:
        followed = self.partitions.get(done.partition)
        if followed is None or done.taken != followed.told_count:
            return  # the report crossed an order
        has_moved = done.position != followed.position
        cut_from, followed.position = followed.position.offset, done.position
        if not followed.is_busy:
            if has_moved and followed.partition in self._session.wanted:
                self._session.offer(followed.partition, followed.wanted)
            return
        followed.is_busy = False
        self._busy.pop(followed, None)
        self._stragglers.pop(followed, None)
        if followed.stage is Stage.TRUNCATING and followed.agrees:
            followed.stage, followed.has_agreed = Stage.FETCHING, True
        self._note_cut(followed, cut_from)
        if followed.is_to_move and not has_moved:
            followed.trouble = DOES_NOT_MOVE
            self._delay(followed, now_ms)
        else:
            followed.trouble = ""
            self._resume(followed, now_ms)

    def _note_cut(self, followed: Followed, cut_from: int) -> None:
        """Tell of a divergence when the log was cut for it. An epoch that ours began without a
        record, and the leader does not know, is forgotten without a cut: nothing diverged."""
        epoch, end_offset = followed.compared
        followed.compared = UNKNOWN, UNKNOWN
        if (epoch, end_offset) == (UNKNOWN, UNKNOWN) or followed.position.offset >= cut_from:
            return
        end = f"leader epoch {epoch} ends at {end_offset} there"
        where = f"{end}, ours is cut from {cut_from} to {followed.position.offset}"
        self._note(NoticeKind.DIVERGED, followed.partition, where)

    def _resume(self, followed: Followed, now_ms: int) -> None:
        """Ask for it again, or for the first time."""
        if followed.stage is Stage.FETCHING and not followed.has_agreed and self._form is Form.OLD:
            followed.stage = Stage.TRUNCATING
        is_fetching = followed.stage is Stage.FETCHING
        if is_fetching and followed.lag != 0 and self._is_held_back(followed.partition):
            probe("fetcher.held_back")
            self._delay(followed, now_ms)
        elif is_fetching:
            self._looking.pop(followed, None)
            self._session.offer(followed.partition, followed.wanted)
        elif followed.stage is not Stage.STOPPED:
            self._session.withdraw(followed.partition)
            self._looking[followed] = None

    def _delay(self, followed: Followed, now_ms: int) -> None:
        followed.delayed_until_ms = now_ms + self.config.backoff_ms
        self._delayed[followed] = None
        self._looking.pop(followed, None)
        self._session.withdraw(followed.partition)

    def _stop(self, followed: Followed, why: str) -> None:
        followed.stage, followed.trouble = Stage.STOPPED, why
        self._looking.pop(followed, None)
        self._session.withdraw(followed.partition)
        self._note(NoticeKind.STOPPED, followed.partition, why)

    def _tell(
        self,
        followed: Followed,
        input_: Fetched | Diverged | FetchedOutOfRange,
        now_ms: int,
        *,
        is_to_move: bool = True,
    ) -> None:
        """Give a partition's machine something to do, and wait for it."""
        if not self._busy:
            self._busy_until_ms = now_ms + SYNC_WAIT_MS
        if type(input_) is not Fetched:
            followed.told = (-1, -1)  # a cut may take the high watermark with it
        followed.is_busy, followed.is_to_move = True, is_to_move
        followed.told_count += 1
        self._busy[followed] = None
        self._looking.pop(followed, None)
        self._outbox.emit(Tell(followed.machine, input_))

    # -- what to ask -----------------------------------------------------------------------------

    def _step_timer(self, fired: TimerFired, now_ms: int) -> None:
        self._timer_ms = None

    def _maybe_ask(self, now_ms: int) -> None:
        """Begin the next round if it is time, or see to it that it will be."""
        if self._waits_for is not None and not self._may_abandon(now_ms):
            return
        for followed in list(self._delayed):
            if followed.delayed_until_ms > now_ms:
                break  # all delays are of one length
            del self._delayed[followed]
            self._resume(followed, now_ms)
        if now_ms < self._not_before_ms:
            self._wake_at(self._not_before_ms)
        elif self._busy and now_ms < self._busy_until_ms:
            self._wake_at(self._busy_until_ms)
        else:
            for followed in self._busy:
                probe("fetcher.straggler")
                self._session.withdraw(followed.partition)
            self._stragglers.update(self._busy)
            self._busy.clear()
            self._ask()
        if self._delayed and self._waits_for is None:
            first = next(iter(self._delayed))
            self._wake_at(first.delayed_until_ms)

    def _may_abandon(self, now_ms: int) -> bool:
        """Whether the fetch under way is given up, for partitions that it does not name."""
        if self._abandon_at_ms is None or self._asked or not self._was_idle:
            return False
        if self._waits_shortly:
            return False  # they are in the next one
        if now_ms < self._abandon_at_ms:
            self._wake_at(self._abandon_at_ms)
            return False
        self._abandon_at_ms = None
        if not self._session.has_newcomers:
            return False
        probe("fetcher.abandons")
        self._abandon_from_ms = now_ms + max(ABANDON_EVERY_MS, len(self.partitions))
        self._waits_for, self._abandons = None, True
        self._session.begin_anew()
        return True

    def _wake_at(self, deadline_ms: int) -> None:
        if self._timer_ms is None or deadline_ms < self._timer_ms:
            self._timer_ms = deadline_ms
            self._outbox.set_timer(TIMER, deadline_ms)

    def _ask(self) -> None:
        comparing = [one for one in self._looking if one.stage is Stage.TRUNCATING]
        looking = [one for one in self._looking if one.stage is Stage.LOOKING_UP]
        self._asked = ()
        if comparing:
            self._asked = tuple(comparing)
            self._send(epochs_request(self._broker_id, comparing), EPOCH_VERSIONS)
        elif looking:
            self._asked = tuple(looking)
            self._send(offsets_request(self._broker_id, looking), LIST_VERSIONS)
        else:
            self._ask_for_records()

    def _ask_for_records(self) -> None:
        uses_ids = not self.partitions.without_id
        form = self._form
        if not uses_ids and form is Form.WITH_EPOCH:
            form = Form.BY_ID
        asked = self._session.next_request(uses_ids=uses_ids)
        if asked is not None:
            who = FetchForm(self._broker_id, self._broker_epoch(), form)
            versions = form.versions(uses_ids=uses_ids)
            config = self.config
            self._waits_shortly = bool(self._stragglers or self._short_rounds)
            self._short_rounds = max(0, self._short_rounds - 1)
            if self._waits_shortly:
                wait_max_ms = min(config.wait_max_ms, STRAGGLER_WAIT_MS)
                config = replace(config, wait_max_ms=wait_max_ms)
            self._send(fetch_request(who, config, asked, self._rules), versions)

    def _send(self, request: Message, versions: VersionSpan) -> None:
        self._number += 1
        self._waits_for = self._number
        abandons, self._abandons, self._abandon_at_ms = self._abandons, False, None
        asked = LeaderRequest(
            self._number, request, *versions, self.config.timeout_ms, abandons=abandons
        )
        self._outbox.emit(Send(self._leader_id, asked))

    # -- what leaders answer ---------------------------------------------------------------------

    def _step_failed(self, failed: LeaderFailed, now_ms: int) -> None:
        if failed.number != self._waits_for:
            return
        self._waits_for = None
        is_fetch = not self._asked
        if is_fetch:
            self._session.begin_anew()
        if failed.is_unsupported and is_fetch and self._form is not _FORMS[-1]:
            self._form = _FORMS[_FORMS.index(self._form) + 1]
            if self._form is Form.OLD:
                self._compare_all(now_ms)
            return
        self._form = Form.WITH_EPOCH  # who answers next may be newer
        self._not_before_ms = now_ms + self.config.backoff_ms
        self._trouble = failed.reason
        if not self._is_unreachable:
            self._is_unreachable = True
            self._note(NoticeKind.UNREACHABLE, None, failed.reason)

    def _compare_all(self, now_ms: int) -> None:
        """The leader will not say where logs diverge: ask, where it has not been found out."""
        for followed in self.partitions.values():
            if followed.partition in self._session.wanted:
                self._resume(followed, now_ms)

    def _step_answered(self, answered: LeaderAnswered, now_ms: int) -> None:
        if answered.number != self._waits_for:
            return
        self._waits_for = None
        if self._is_unreachable:
            self._is_unreachable, self._trouble = False, ""
            self._note(NoticeKind.RECOVERED, None, "")
        response = answered.response
        if isinstance(response, fetch.FetchResponse):
            self._take_records(response, now_ms)
        else:
            self._take_look_ups(response, now_ms)

    def _take_records(self, response: fetch.FetchResponse, now_ms: int) -> None:
        session = self._session
        if response.error_code:
            if response.error_code in SESSION_ERRORS:
                probe("fetcher.session.lost")
                session.refused(
                    is_unknown=response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
                )
                if session.mistakes > 1:
                    self._not_before_ms = now_ms + self.config.backoff_ms
            else:
                session.begin_anew()
                self._not_before_ms = now_ms + self.config.backoff_ms
                self._trouble = error_name(response.error_code)
                self._note(NoticeKind.REFUSED, None, error_name(response.error_code))
            return
        parts: dict[FollowedPartition, tuple[Followed, fetch.PartitionData]] = {}
        unknown = 0
        for topic in response.responses:
            for part in topic.partitions:
                followed = self.partitions.find(topic.topic, topic.topic_id, part.partition_index)
                if followed is None:
                    unknown += 1  # not followed any more, or never
                else:
                    parts[followed.partition] = followed, part
        if not session.answered(response.session_id, parts, strangers=unknown):
            probe("fetcher.session.strange")
            if session.mistakes > 1:
                self._not_before_ms = now_ms + self.config.backoff_ms
            return
        self._trouble = ""
        self._was_idle = not any(part.records for _, part in parts.values())
        for followed, part in parts.values():
            if self._is_current(followed, session.sent[followed.partition]):
                self._take_part(followed, part, now_ms)
            else:
                probe("fetcher.late_answer")

    def _is_current(self, followed: Followed, asked: Wanted) -> bool:
        """Whether an answer to `asked` is still one for us (KAFKA-18991)."""
        return (
            followed.stage is Stage.FETCHING
            and not followed.is_busy
            and followed not in self._delayed
            and self._rules.is_of_this_epoch(asked.leader_epoch, followed.leader_epoch)
            and asked.position.offset == followed.position.offset
        )

    def _take_part(self, followed: Followed, part: fetch.PartitionData, now_ms: int) -> None:
        diverging = part.diverging_epoch
        diverges = diverging.end_offset >= 0 or diverging.epoch >= 0
        reaction = reaction_to(part.error_code, diverges=diverges)
        if reaction is Reaction.APPEND:
            self._append(followed, part, now_ms)
        elif reaction is Reaction.TRUNCATE:
            probe("fetcher.diverges")
            followed.compared = diverging.epoch, diverging.end_offset
            order = Diverged(followed.leader_epoch, diverging.epoch, diverging.end_offset)
            self._tell(followed, order, now_ms)
        elif reaction is Reaction.LOOK_UP:
            probe("fetcher.out_of_range")
            followed.stage = Stage.LOOKING_UP
            followed.leader_end = UNKNOWN
            self._resume(followed, now_ms)
        else:
            self._refuse(followed, part.error_code, reaction, now_ms)

    def _append(self, followed: Followed, part: fetch.PartitionData, now_ms: int) -> None:
        epoch, offset = followed.leader_epoch, followed.position.offset
        followed.has_agreed, followed.was_refused = True, False
        try:
            batches = batches_of(part.records)
        except CorruptRecords as error:
            probe("fetcher.corrupt")
            followed.trouble = str(error)
            self._note(NoticeKind.CORRUPT, followed.partition, str(error))
            self._delay(followed, now_ms)
            return
        end = batches[-1].header.next_offset if batches else offset
        followed.lag = max(0, part.high_watermark - end)
        told = part.high_watermark, part.log_start_offset
        if not batches and told == followed.told:
            followed.trouble = ""
            return
        followed.told = told
        if batches:
            self._session.restore_order(followed.partition)
        self._tell(
            followed,
            Fetched(epoch, offset, batches, *told),
            now_ms,
            is_to_move=bool(batches),
        )

    def _refuse(self, followed: Followed, error_code: int, reaction: Reaction, now_ms: int) -> None:
        """The leader does not answer about this partition."""
        if reaction is Reaction.STOP:
            self._stop(followed, error_name(error_code))
            return
        if is_worth_telling(error_code) and not followed.was_refused:
            followed.was_refused = True
            self._note(NoticeKind.REFUSED, followed.partition, error_name(error_code))
        followed.trouble = error_name(error_code)
        self._delay(followed, now_ms)

    # -- looking up: epochs, and offsets out of range ----------------------------------------------

    def _take_look_ups(self, response: Any, now_ms: int) -> None:
        asked = {(one.partition.topic, one.partition.partition): one for one in self._asked}
        self._asked = ()
        for part in look_ups_of(response):
            followed = asked.pop((part.topic, part.partition), None)
            if followed is None or followed not in self._looking:
                continue  # it was not asked for, or is not looked up any more
            reaction = reaction_to(part.error_code)
            if reaction is Reaction.LOOK_UP:
                reaction = Reaction.DELAY
            if reaction is not Reaction.APPEND:
                self._refuse(followed, part.error_code, reaction, now_ms)
            elif followed.stage is Stage.TRUNCATING:
                self._compare(followed, part.epoch, part.offset, now_ms)
            else:
                self._find_range(followed, part.offset, now_ms)
        for followed in asked.values():
            if followed in self._looking:
                followed.trouble = NO_ANSWER
                self._delay(followed, now_ms)

    def _compare(self, followed: Followed, epoch: int, end_offset: int, now_ms: int) -> None:
        """The leader's epoch ends there: cut what is behind, and see whether that was all."""
        followed.compared = epoch, end_offset
        order = Diverged(followed.leader_epoch, epoch, end_offset)
        self._tell(followed, order, now_ms, is_to_move=False)

    def _find_range(self, followed: Followed, offset: int, now_ms: int) -> None:
        """Where the leader's log ends, or then where it starts: what to do about our own."""
        own, leader_end, leader_start = followed.position.offset, followed.leader_end, offset
        if offset < 0:
            followed.trouble = NO_ANSWER
            self._delay(followed, now_ms)
            return
        if leader_end < 0:
            followed.leader_end = leader_end = offset
            if leader_end >= own:
                return  # it starts behind our end, then: asked next
            self._note(NoticeKind.UNCLEAN, followed.partition, f"at {leader_end}, ours at {own}")
            leader_start = UNKNOWN
        elif leader_start > own:
            where = f"at {leader_start}, ours ends at {own}"
            self._note(NoticeKind.STARTS_OVER, followed.partition, where)
        followed.stage = Stage.FETCHING
        order = FetchedOutOfRange(followed.leader_epoch, leader_start, leader_end)
        self._tell(followed, order, now_ms)

    def _note(self, kind: NoticeKind, partition: FollowedPartition | None, text: str) -> None:
        if len(self.notices) < NOTICES_MAX:
            self.notices.append(Notice(kind, partition, text))


_HANDLERS: Final[dict[type[Any], Callable[[Fetcher, Any, int], None]]] = {
    Follow: Fetcher._step_follow,
    Unfollow: Fetcher._step_unfollow,
    Progressed: Fetcher._step_progressed,
    LeaderAnswered: Fetcher._step_answered,
    LeaderFailed: Fetcher._step_failed,
    TimerFired: Fetcher._step_timer,
}
"""The method that takes each kind of input."""
