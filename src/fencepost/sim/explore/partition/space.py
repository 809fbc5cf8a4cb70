"""The states of a whole partition with its brokers, and what leads from one to the next.

A state is made of small numbers: the state of each broker, the metadata that some broker has yet to
apply, the network, the past as far as the laws need it, and what is left of the budget.

What may happen in a state: any message arrives, or is lost and its sender told; any broker takes
over the next metadata, flushes, one of its timers fires, its power fails, it starts again and
registers; the controller takes a session for lost, or gets a heartbeat of a broker that was fenced;
a client produces at a broker that takes itself for the leader. Events at different brokers are not
ordered in any way: every order is taken.

As in the search of the quorum, a fetch whose answer would tell its receiver nothing (it would stay
as it is and ask the very same again) just stays on its way, as one that waits at its leader does.
Requests to a broker that is down, or not unfenced yet, stay on their way, too: they are refused,
and sent again.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

from fencepost.machines.partition.in_sync import ISR_TIMER
from fencepost.sim.explore.flights import Flight, Kind, Networks, Numbers
from fencepost.sim.explore.laws import Violation
from fencepost.sim.explore.packing import Packing, budget_of
from fencepost.sim.explore.partition.bounds import Bounds
from fencepost.sim.explore.partition.cell import CONTROLLER_ID
from fencepost.sim.explore.partition.laws import Laws, Past
from fencepost.sim.explore.partition.merging import Merging, Metas
from fencepost.sim.explore.partition.steps import Event, Outcome, Steps
from fencepost.sim.rules import Rules

_FENCES, _CRASHES, _CHANGES, _LAGS, _APPENDS, _LOSSES, _LATE = 24, 20, 16, 12, 8, 4, 0
_LAG: Event = ("timer", ISR_TIMER)


class State(NamedTuple):
    """Numbers of the brokers' states, the metadata, the network, the past, and the budget."""

    cells: tuple[int, ...]
    metas: int
    net: int
    past: int
    budget: int


class Action(NamedTuple):
    """Something that happens: at which broker (-1: the controller), by which flight (-1: none).

    `then` is what happens in the same moment.
    """

    place: int
    event: Event
    flight: int
    outcome: Outcome | None
    then: Action | None = None


Transition = tuple[Action, State]
"""What happens, and what it leads to."""


def _followed(action: Action, last: Action) -> Action:
    """The action with another one at its end."""
    then = last if action.then is None else _followed(action.then, last)
    return action._replace(then=then)


class Space:
    """All states within the bounds; `unwatched` are laws that are not looked at.

    `merges` says whether states are taken for one that differ in nothing that can matter; see
    `merging`. `doubts` as in `known.KnownOutcomes`.
    """

    def __init__(
        self,
        bounds: Bounds,
        rules: Rules | None = None,
        unwatched: frozenset[str] = frozenset(),
        doubts: int = 0,
        *,
        merges: bool = True,
    ) -> None:
        self.bounds = bounds
        self.steps = Steps(bounds, rules or Rules(), doubts)
        self.nets = Networks()
        self.metas = Numbers()
        self.laws = Laws(self.steps, unwatched)
        self.beyond = 0
        packing = Packing(State, len(bounds.ids))
        self.pack, self.unpack = packing.pack, packing.unpack
        self._merging = Merging(self.steps, self.nets, self.metas) if merges else None

    def first(self) -> State:
        """All brokers are up, have the first metadata, and have fetched."""
        steps, flights = self.steps, self.nets.flights
        started = [steps.first(id_) for id_ in self.bounds.ids]
        net = {
            flights.of(Flight(Kind.ASKED, id_, peer, message, message))
            for id_, outcome in zip(self.bounds.ids, started)
            for peer, message in outcome.sent
        }
        cells = tuple(outcome.cell for outcome in started)
        metas = self.metas.of(Metas((steps.metadata.first,), (0,) * len(cells)))
        past = self.laws.pasts.of(Past(leaders=((0, 1),)))
        return self._in_touch(
            State(cells, metas, self.nets.of(net), past, budget_of(self.bounds.budget))
        )

    def _in_touch(self, state: State) -> State:
        """All followers have fetched for the first time."""
        for number in self.nets[state.net]:
            flight = self.nets.flight(number)
            for _, following in self._stepped(
                state, flight.peer - 1, ("request", flight.message), number
            ):
                state = following
        for number in self.nets[state.net]:
            flight = self.nets.flight(number)
            if flight.kind is Kind.ANSWER:
                event = ("answer", flight.peer, flight.message)
                for _, following in self._stepped(state, flight.asker - 1, event, number):
                    state = following
        return state

    def image(self, state: State) -> int:
        """The controller's image."""
        metas: Metas = self.metas.values[state.metas]
        return metas.images[-1]

    def after(self, state: State) -> Iterator[Transition]:
        """Everything that may happen, and what it leads to. Violation, with its `action`."""
        for happening in (self._arrivals, self._own_steps, self._decisions):
            for action, following in happening(state):
                yield action, self._merged(following)

    def _merged(self, state: State) -> State:
        if self._merging is None:
            return state
        cells, metas = self._merging.caught_up(state.cells, state.metas)
        cells, net = self._merging.rid_of_fenced(cells, state.net)
        return State(cells, metas, net, state.past, state.budget)

    # -- at brokers ----------------------------------------------------------------------------

    def _arrivals(self, state: State) -> Iterator[Transition]:
        views, losses = self.steps.views, state.budget >> _LOSSES & 15
        for number in self.nets[state.net]:
            flight = self.nets.flight(number)
            if flight.kind is Kind.ANSWER:
                event = ("answer", flight.peer, flight.message)
                yield from self._stepped(state, flight.asker - 1, event, number)
            elif flight.peer == CONTROLLER_ID:
                yield from self._asked(state, number, flight)
            elif views[state.cells[flight.peer - 1]].accepts:
                yield from self._requested(state, number, flight)
            if losses and flight.kind <= Kind.ANSWER:
                event = ("lost", flight.peer, -1)
                yield from self._stepped(state, flight.asker - 1, event, number, 1 << _LOSSES)

    def _requested(self, state: State, number: int, flight: Flight) -> Iterator[Transition]:
        """A fetch arrives, and without `slow_answers` its answer, too, or it is lost."""
        event = ("request", flight.message)
        for action, following in self._stepped(state, flight.peer - 1, event, number):
            if (
                self.bounds.slow_answers
                or flight.kind is not Kind.ASKED
                or following.net == state.net
            ):
                yield action, following
                continue
            answer = self.nets.awaited(following.net, flight.asker, flight.peer)
            message = self.nets.flight(answer).message
            heard = ("answer", flight.peer, message)
            try:
                for then, after in self._stepped(following, flight.asker - 1, heard, answer):
                    yield action._replace(then=then), after
            except Violation as violation:
                violation.action = action._replace(then=violation.action)
                raise
            if state.budget >> _LOSSES & 15:
                lost = ("lost", flight.peer, -1)
                for then, after in self._stepped(
                    following, flight.asker - 1, lost, answer, 1 << _LOSSES
                ):
                    yield action._replace(then=then), after

    def _own_steps(self, state: State) -> Iterator[Transition]:
        steps, metas = self.steps, self.metas.values[state.metas]
        may_crash = state.budget >> _CRASHES & 15
        appends = state.budget >> _APPENDS & 15
        for place, cell in enumerate(state.cells):
            view = steps.views[cell]
            for event in steps.own_events(cell):
                if event != _LAG:
                    yield from self._stepped(state, place, event)
                elif state.budget >> _LAGS & 15:
                    yield from self._stepped(state, place, event, cost=1 << _LAGS)
            if view.is_up:
                last = len(metas.images) if self.bounds.skips else metas.at[place] + 2
                for at in range(metas.at[place] + 1, min(last, len(metas.images))):
                    moved = self._metas_at(metas, place, at)
                    event = ("metadata", metas.images[at])
                    yield from self._stepped(state._replace(metas=moved), place, event)
            if may_crash:
                for event in steps.deaths(cell):
                    yield from self._stepped(state, place, event, cost=1 << _CRASHES)
            if appends and view.is_leader and view.accepts:
                event = ("produce", self.bounds.appends - appends + 1)
                yield from self._stepped(state, place, event, cost=1 << _APPENDS)

    def _metas_at(self, metas: Metas, place: int, at: int) -> int:
        return self.metas.of(metas.with_one_at(place, at))

    def _stepped(
        self, state: State, place: int, event: Event, flight: int = -1, cost: int = 0
    ) -> Iterator[Transition]:
        before = state.cells[place]
        outcome = self.steps.outcome(before, event)
        action = Action(place, event, flight, outcome)
        cells = (*state.cells[:place], outcome.cell, *state.cells[place + 1 :])
        past = state.past
        if outcome.matters:
            try:
                past = self.laws.judge(past, before, cells, outcome, self.image(state))
            except Violation as violation:
                violation.action = action
                raise
        metas, budget = state.metas, state.budget - cost
        if outcome.has_died:
            known: Metas = self.metas.values[metas]
            metas = self._metas_at(known, place, len(known.images) - 1)
        for net, late in self._nets_after(state, place, event, flight, outcome):
            yield action, State(cells, metas, net, past, budget - late)

    def _nets_after(
        self, state: State, place: int, event: Event, flight: int, outcome: Outcome
    ) -> Iterator[tuple[int, int]]:
        """The networks that a step may leave, and what of the budget each costs."""
        nets, flights = self.nets, self.nets.flights
        net = set(nets[state.net])
        left: set[int] = set()  # requests whose answer their sender no longer waits for
        if event[0] == "request" and self._tells_nothing(state, place, flight, outcome):
            yield state.net, 0
            return
        net.discard(flight)
        if event[0] == "request":
            known = nets.flight(flight)
            if known.kind is Kind.ASKED:
                answer = Flight(Kind.ANSWER, known.asker, known.peer, outcome.answer, known.message)
                net.add(flights.of(answer))
        elif event[0] == "lost" and nets.flight(flight).kind is Kind.ASKED:
            left.add(flight)
        asker = place + 1
        given_up = [number for number in net if self._is_given_up(number, asker, outcome)]
        for number in given_up:
            net.discard(number)
            if nets.flight(number).kind is Kind.ASKED:
                left.add(number)
        for peer, message in outcome.sent:
            net.add(flights.of(Flight(Kind.ASKED, asker, peer, message, message)))
        yield nets.of(net), 0
        if left and state.budget >> _LATE & 15:
            for number in sorted(left):
                known = nets.flight(number)
                orphan = flights.of(known._replace(kind=Kind.ORPHAN))
                if orphan not in net:
                    yield nets.of(net | {orphan}), 1 << _LATE

    def _is_given_up(self, number: int, asker: int, outcome: Outcome) -> bool:
        known = self.nets.flight(number)
        if known.asker != asker or known.kind is Kind.ORPHAN:
            return False
        return outcome.has_died or any(peer == known.peer for peer, _ in outcome.sent)

    def _tells_nothing(self, state: State, place: int, flight: int, outcome: Outcome) -> bool:
        """Whether the answer would leave its receiver as it is, which would ask the same again."""
        known = self.nets.flight(flight)
        if known.kind is not Kind.ASKED:
            return False
        asker = state.cells[known.asker - 1]
        heard = self.steps.outcome(asker, ("answer", known.peer, outcome.answer))
        return heard.cell == asker and heard.sent == ((known.peer, known.message),)

    # -- at the controller ---------------------------------------------------------------------

    def _asked(self, state: State, number: int, flight: Flight) -> Iterator[Transition]:
        image = self.image(state)
        decided = self.steps.metadata.decide(image, ("asked", flight.message))
        changes = decided.image != image
        if changes and not state.budget >> _CHANGES & 15:
            return
        net = set(self.nets[state.net]) - {number}
        if flight.kind is Kind.ASKED:
            answer = Flight(
                Kind.ANSWER, flight.asker, CONTROLLER_ID, decided.answer, flight.message
            )
            net.add(self.nets.flights.of(answer))
        following = state._replace(
            net=self.nets.of(net), budget=state.budget - (1 << _CHANGES if changes else 0)
        )
        action = Action(-1, ("asked", flight.message), number, None)
        yield from self._decided(following, action, decided.image)

    def _decisions(self, state: State) -> Iterator[Transition]:
        """Sessions end, brokers come back."""
        steps, metas = self.steps, self.metas.values[state.metas]
        image = metas.images[-1]
        for place, (cell, id_) in enumerate(zip(state.cells, self.bounds.ids)):
            broker = steps.metadata[image].brokers[id_]
            view = steps.views[cell]
            if not broker.fenced and state.budget >> _FENCES & 15:
                cheaper = state._replace(budget=state.budget - (1 << _FENCES))
                yield from self._by_itself(cheaper, ("fence", id_))
            if broker.fenced and view.is_up:
                yield from self._by_itself(state, ("unfence", id_))
            if not view.is_up:
                yield from self._started(state, place)

    def _started(self, state: State, place: int) -> Iterator[Transition]:
        """A broker that was down registers, and loads what it finds, with the metadata of then."""
        for action, registered in self._by_itself(state, ("register", place + 1)):
            event = ("start", self.image(registered))
            try:
                for then, following in self._stepped(registered, place, event):
                    yield _followed(action, then), following
            except Violation as violation:
                violation.action = _followed(action, violation.action)
                raise

    def _by_itself(self, state: State, event: Event) -> Iterator[Transition]:
        image = self.image(state)
        decided = self.steps.metadata.decide(image, event)
        yield from self._decided(state, Action(-1, event, -1, None), decided.image)

    def _decided(self, state: State, action: Action, image: int) -> Iterator[Transition]:
        metas: Metas = self.metas.values[state.metas]
        if image == metas.images[-1]:
            yield action, state
            return
        if self.steps.metadata.partition(image).leader_epoch > self.bounds.epochs:
            self.beyond += 1
            return
        try:
            self.laws.judge_image(state.past, state.cells, image)
        except Violation as violation:
            violation.action = action
            raise
        newest = len(metas.images)
        is_up = [self.steps.views[cell].is_up for cell in state.cells]
        at = tuple(one if up else newest for one, up in zip(metas.at, is_up))
        least = min(at)
        images = (*metas.images, image)[least:]
        known = Metas(images, tuple(one - least for one in at))
        following = state._replace(metas=self.metas.of(known))
        behind = [place for place, one in enumerate(at) if one < newest - 1]
        current = [place for place, one in enumerate(at) if one == newest - 1]
        for more in range(max(0, min(self.bounds.stragglers - len(behind), len(current))) + 1):
            for staying in combinations(current, more):
                told = [place for place in current if place not in staying]
                yield from self._all_told(following, action, told)

    def _all_told(self, state: State, action: Action, told: list[int]) -> Iterator[Transition]:
        """These brokers take over the newest metadata, all in one moment."""
        if not told:
            yield action, state
            return
        place, *others = told
        metas: Metas = self.metas.values[state.metas]
        event = ("metadata", metas.images[-1])
        moved = state._replace(metas=self._metas_at(metas, place, len(metas.images) - 1))
        try:
            for then, following in self._stepped(moved, place, event):
                for rest, last in self._all_told(following, then, others):
                    yield _followed(action, rest), last
        except Violation as violation:
            violation.action = action._replace(then=violation.action)
            raise
