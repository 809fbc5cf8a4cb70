"""All histories of one share partition with two members, on the real machines.

The leader's machine and the share coordinator's are the product's. What may happen: a member
acquires what there is, of an aborted transaction nothing; it accepts, gives back or rejects a range
that it holds, renews its lock, or ends its session; all locks run out but those that were renewed;
dead letters are written; a write reaches the coordinator, in any order, or is lost on its way there
or back; the leader crashes, and the next one reads what is stored, before or after writes of the
last one arrive. How often is bounded (`Bounds`), and so is the space.

Laws: a record is acquired by one member at a time, with a count that rises up to the limit (I46);
no start offset, in memory or stored, passes a record whose delivery is not complete, and the stored
one never falls (I47); what a member has heard to be settled is stored as complete, and is not
delivered again (I48), nor has what a member has heard to be accepted a dead letter.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from msgspec import structs

from fencepost.machines.effects import Reply, TimerFired
from fencepost.machines.share.inputs import (
    LOCKS_TIMER,
    Acknowledge,
    AcknowledgedBatch,
    Acquire,
    Acquired,
    DeadLettersDone,
    LetterRange,
    OffsetRange,
    Release,
    SendDeadLetters,
    ShareLimits,
    StateWritten,
    WriteShareState,
)
from fencepost.machines.share.partition import SharePartition
from fencepost.machines.share.records import TERMINAL, AcknowledgeType, RecordState
from fencepost.machines.share.state_batch import SharePartitionKey, batches_to
from fencepost.machines.share_state.config import ShareStateConfig
from fencepost.machines.share_state.coordinator import ShareStateCoordinator
from fencepost.machines.share_state.records import ShareState, initial_state
from fencepost.sim.explore.laws import Violation
from fencepost.wire.api import write_share_group_state as writing
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

MEMBERS: Final = ("a", "b")
KEY: Final = SharePartitionKey("g", Uuid(b"one share topic."), 0)
_TYPES: Final = (AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT)
_ENDS: Final = (AcknowledgeType.ACCEPT, AcknowledgeType.REJECT)
_ENDED: Final = (*TERMINAL, RecordState.ARCHIVING)
"""The last is given up, and has yet to have its dead letter."""
_LATER_MS: Final = 1 << 40
_LOCK_MS: Final = 30_000
"""Of those that are not renewed; those that are last a moment longer."""
_CONFIG: Final = ShareStateConfig(updates_per_snapshot=2)


@dataclass(frozen=True)
class Bounds:
    """How much happens: `batches` are the record batches that the log has from the beginning."""

    batches: tuple[OffsetRange, ...] = (OffsetRange(0, 0), OffsetRange(1, 1))
    limit: int = 2
    crashes: int = 1
    losses: int = 1
    expiries: int = 1
    session_ends: int = 0
    renewals: int = 0
    aborted: tuple[OffsetRange, ...] = ()
    has_letters: bool = False


class Write(NamedTuple):
    """A write on its way to the coordinator."""

    leader_epoch: int
    ticket: int
    asked: WriteShareState


class Past(NamedTuple):
    """What the laws remember."""

    held: frozenset[tuple[int, str]] = frozenset()
    complete: frozenset[int] = frozenset()
    settled: frozenset[int] = frozenset()
    counts: tuple[int, ...] = ()
    renewed: frozenset[int] = frozenset()
    accepted: frozenset[int] = frozenset()


class Told(NamedTuple):
    """What a member hears with the answer to an acknowledgement: these are settled, and of them
    these are accepted."""

    settled: frozenset[int] = frozenset()
    accepted: frozenset[int] = frozenset()


_NOTHING: Final = Told()


class State(NamedTuple):
    """Everything that the future depends on. Without a `leader` the state is to be read."""

    leader: SharePartition | None
    epoch: int
    stored: ShareState
    writes: tuple[Write, ...]
    past: Past
    left: Bounds
    letters: tuple[LetterRange, ...] = ()
    """Those that are being written."""


Action = tuple[Any, ...]


class _Coordinator(ShareStateCoordinator):
    """Of a cluster whose topics all exist."""

    def _exists(self, key: SharePartitionKey) -> bool:
        return True


class Space:
    """See the module docstring; a `Space` of `explore.search`."""

    def __init__(self, bounds: Bounds | None = None) -> None:
        self.bounds = bounds or Bounds()
        self.beyond = 0
        self.taken = 0
        self._numbers: dict[Any, int] = {}
        self._states: list[State] = []
        self._end = self.bounds.batches[-1].last + 1
        self._member = ""

    @property
    def steps(self) -> Space:
        """What was done, for reports."""
        return self

    def __len__(self) -> int:
        return len(self._states)

    def first(self) -> State:
        """Nothing was delivered yet, and no leader has read that."""
        stored = initial_state(1, 0, 0, 0)
        aborted = (range(first, last + 1) for first, last in self.bounds.aborted)
        complete = frozenset(offset for some in aborted for offset in some)
        past = Past(counts=(0,) * self._end, complete=complete)
        return State(None, 1, stored, (), past, self.bounds)

    def pack(self, state: State) -> int:
        """The number of a state; those that cannot be told apart have one."""
        name = _canonical(state)
        number = self._numbers.setdefault(name, len(self._states))
        if number == len(self._states):
            self._states.append(state)
        return number

    def unpack(self, packed: int) -> State:
        """The state of that number."""
        return self._states[packed]

    # -- what may happen ---------------------------------------------------------------------

    def after(self, state: State) -> Iterator[tuple[Action, State]]:
        """Everything that may happen, and what it leads to. Violation, with its `action`."""
        for action in self._actions(state):
            self.taken += 1
            try:
                yield action, self._do(state, action)
            except Violation as violation:
                violation.action = action
                raise

    def _actions(self, state: State) -> Iterator[Action]:
        left, leader = state.left, state.leader
        for place in range(len(state.writes)):
            yield "arrives", place
            if left.losses:
                yield "lost", place
                yield "answer lost", place
        if leader is None:
            yield ("read",)
            return
        for place in range(len(state.letters)):
            yield "letters", place
        if left.crashes:
            yield ("crash",)
        if leader.can_acquire and leader.next_fetch_offset < self._end:
            for member in MEMBERS:
                yield "acquire", member, 1
                yield "acquire", member, self._end
        held = [one for one in leader.runs if one.state is RecordState.ACQUIRED]
        for run in held:
            if run.before is None:
                for type_ in _TYPES:
                    yield "acknowledge", run.member_id, run.first, run.last, type_
                if left.renewals and run.first not in state.past.renewed:
                    yield "renew", run.member_id, run.first, run.last
        if held and left.expiries:
            yield ("expire",)
        if left.session_ends:
            for member in sorted({run.member_id for run in held}):
                yield "end", member

    def _do(self, state: State, action: Action) -> State:
        match action:
            case ("read",):
                return self._read(state)
            case ("crash",):
                left = _less(state.left, "crashes")
                past = state.past._replace(
                    held=frozenset(), counts=(0,) * self._end, renewed=frozenset()
                )
                return State(None, state.epoch + 1, state.stored, state.writes, past, left)
            case ("acquire", member, most):
                return self._acquire(state, member, most)
            case ("acknowledge", member, first, last, type_):
                return self._acknowledge(state, member, first, last, type_)
            case ("expire",):
                renewed = state.past.renewed
                held = frozenset(one for one in state.past.held if one[0] in renewed)
                past = state.past._replace(held=held, renewed=frozenset())
                state = state._replace(past=past, left=_less(state.left, "expiries"))
                now_ms = _LOCK_MS if renewed else _LATER_MS
                return self._feed(state, TimerFired(LOCKS_TIMER), now_ms)
            case ("renew", member, first, last):
                renewed = state.past.renewed.union(range(first, last + 1))
                past = state.past._replace(renewed=renewed)
                state = state._replace(past=past, left=_less(state.left, "renewals"))
                said = [AcknowledgedBatch(first, last, [AcknowledgeType.RENEW])]
                return self._feed(state, Acknowledge(member, said, _NOTHING), 1)
            case ("letters", place):
                letters = state.letters
                left_over = (*letters[:place], *letters[place + 1 :])
                state = state._replace(letters=left_over)
                return self._feed(state, DeadLettersDone(letters[place]))
            case ("end", member):
                held = frozenset(one for one in state.past.held if one[1] != member)
                state = state._replace(
                    past=state.past._replace(held=held), left=_less(state.left, "session_ends")
                )
                return self._feed(state, Release(member, None))
            case (fate, place):
                return self._written(state, fate, place)
        raise AssertionError(action)

    # -- the leader --------------------------------------------------------------------------

    def _read(self, state: State) -> State:
        stored = state.stored
        if state.epoch > stored.highest_leader_epoch:
            stored = _led(stored, state.epoch)
        limits = ShareLimits(
            record_lock_duration_ms=_LOCK_MS,
            delivery_count_limit=self.bounds.limit,
            has_dead_letters=self.bounds.has_letters,
        )
        leader = SharePartition.restore(stored.start_offset, stored.batches, limits)
        effects = leader.begin()
        return self._took(state._replace(stored=stored, leader=leader), effects)

    def _feed(self, state: State, input_: Any, now_ms: int = 0) -> State:
        leader = deepcopy(state.leader)
        assert leader is not None, "there is a leader"
        return self._took(state._replace(leader=leader), leader.step(input_, now_ms))

    def _took(self, state: State, effects: list[Any]) -> State:
        for effect in effects:
            if isinstance(effect, WriteShareState):
                write = Write(state.epoch, effect.ticket, effect)
                state = state._replace(writes=(*state.writes, write))
            elif isinstance(effect, SendDeadLetters):
                self._look_at_letters(state, effect)
                state = state._replace(letters=(*state.letters, *effect.letters))
            elif isinstance(effect, Reply) and not effect.value.error:
                told: Told = effect.token
                self._look_at_settled(state, told.settled)
                past = state.past._replace(
                    settled=state.past.settled | told.settled,
                    accepted=state.past.accepted | told.accepted,
                )
                state = state._replace(past=past)
            elif isinstance(effect, Acquired):
                state = self._acquired(state, effect)
        if state.leader is not None:
            self._look_at_start(state, state.leader.start_offset, "in memory")
        return state

    def _acquire(self, state: State, member: str, most: int) -> State:
        assert state.leader is not None, "there is a leader"
        first = state.leader.next_fetch_offset
        batches = [one for one in self.bounds.batches if one.last >= first]
        self._member = member
        asked = Acquire(member, batches, most, 1, is_record_limit=True, aborted=self.bounds.aborted)
        return self._feed(state, asked)

    def _acquired(self, state: State, acquired: Acquired) -> State:
        past, counts = state.past, list(state.past.counts)
        held, complete = set(past.held), set(past.complete)
        for first, last, count in acquired.records:
            for offset in range(first, last + 1):
                if any(one[0] == offset for one in held):
                    raise Violation(f"I46: {offset} is acquired by two members")
                if not counts[offset] < count <= self.bounds.limit:
                    raise Violation(f"I46: {offset} is delivered {counts[offset]}, then {count}")
                if any(begin <= offset <= end for begin, end in self.bounds.aborted):
                    raise Violation(f"I33: {offset} is delivered, and is aborted")
                if offset in past.settled:
                    raise Violation(f"I48: {offset} is delivered, though it was settled")
                held.add((offset, self._member))
                counts[offset] = count
                if count == self.bounds.limit:
                    complete.add(offset)
        new = past._replace(
            held=frozenset(held), complete=frozenset(complete), counts=tuple(counts)
        )
        return state._replace(past=new)

    def _acknowledge(
        self, state: State, member: str, first: int, last: int, type_: AcknowledgeType
    ) -> State:
        offsets = frozenset(range(first, last + 1)) if type_ in _ENDS else frozenset()
        past = state.past
        held = frozenset(one for one in past.held if not first <= one[0] <= last)
        renewed = past.renewed.difference(range(first, last + 1))
        past = past._replace(held=held, complete=past.complete | offsets, renewed=renewed)
        accepted = offsets if type_ is AcknowledgeType.ACCEPT else frozenset()
        told = Told(offsets, accepted)
        said = Acknowledge(member, [AcknowledgedBatch(first, last, [type_])], told)
        return self._feed(state._replace(past=past), said)

    # -- the coordinator ---------------------------------------------------------------------

    def _written(self, state: State, fate: str, place: int) -> State:
        write = state.writes[place]
        writes = (*state.writes[:place], *state.writes[place + 1 :])
        left = state.left if fate == "arrives" else _less(state.left, "losses")
        error = ErrorCode.NONE if fate == "arrives" else ErrorCode.NETWORK_EXCEPTION
        state = state._replace(writes=writes, left=left)
        if fate != "lost":
            stored, answer = self._store(state.stored, write)
            error = error or answer
            if stored.start_offset < state.stored.start_offset:
                raise Violation(f"I47: the stored start falls to {stored.start_offset}")
            state = state._replace(stored=stored)
            self._look_at_start(state, stored.start_offset, "as it is stored")
        if state.leader is None or write.leader_epoch != state.epoch:
            return state
        return self._feed(state, StateWritten(write.ticket, error))

    def _store(self, stored: ShareState, write: Write) -> tuple[ShareState, ErrorCode]:
        coordinator = _Coordinator(_CONFIG)
        coordinator.states[KEY] = stored
        asked = writing.PartitionData(
            partition=KEY.partition,
            state_epoch=1,
            leader_epoch=write.leader_epoch,
            start_offset=write.asked.start_offset,
            delivery_complete_count=write.asked.delivery_complete_count,
            state_batches=batches_to(writing.StateBatch, write.asked.batches),
        )
        decision = coordinator.decide_write(KEY, asked, "token", 0)
        for record in decision.records:
            coordinator.apply(record, 0)
        ((_, answer),) = decision.replies
        return coordinator.states[KEY], ErrorCode(answer.error_code)

    # -- laws --------------------------------------------------------------------------------

    def _look_at_start(self, state: State, start_offset: int, where: str) -> None:
        for offset in range(start_offset):
            if offset not in state.past.complete:
                raise Violation(f"I47: the start {where} passes {offset} to {start_offset}")

    def _look_at_letters(self, state: State, sent: SendDeadLetters) -> None:
        for one in sent.letters:
            for offset in range(one.first, one.last + 1):
                if offset in state.past.accepted:
                    raise Violation(f"I48: {offset} has a dead letter, though it was accepted")

    def _look_at_settled(self, state: State, offsets: frozenset[int]) -> None:
        stored = state.stored
        ends = {
            offset
            for one in stored.batches
            if one.delivery_state in _ENDED
            for offset in range(one.first_offset, one.last_offset + 1)
        }
        for offset in offsets:
            if offset >= stored.start_offset and offset not in ends:
                raise Violation(f"I48: {offset} is told to be settled, and is not stored so")


def _less(left: Bounds, name: str) -> Bounds:
    return replace(left, **{name: getattr(left, name) - 1})


def _led(stored: ShareState, epoch: int) -> ShareState:
    """The state once a leader of that epoch has read it."""
    return structs.replace(stored, leader_epoch=epoch, highest_leader_epoch=epoch)


def _canonical(state: State) -> tuple[Any, ...]:
    """What the future depends on; tickets count by their order, and snapshots are no matter."""
    leader, stored = state.leader, state.stored
    runs = None
    if leader is not None:
        own = [one.ticket for one in state.writes if one.leader_epoch == state.epoch]
        runs = (
            leader.start_offset,
            leader.end_offset,
            len(own),
            tuple(
                (one.first, one.last, one.state, one.delivery_count, one.member_id, one.before)
                for one in leader.runs
            ),
        )
    writes = tuple(
        (one.leader_epoch, one.asked.start_offset, one.asked.batches) for one in state.writes
    )
    kept = stored.start_offset, stored.highest_leader_epoch, stored.batches, stored.update_count
    return runs, state.epoch, kept, writes, state.past, state.left, state.letters
