"""The states of a whole quorum, and what leads from one to the next.

A state is made of small numbers: the state of each node, the network, the past as far as the laws
need it, and what is left of the budget. Packed into one integer it is its own name, so no two
states are ever taken for one another.

What may happen in a state: any message arrives, or is lost and its sender told, or its connection
is refused; any node flushes, any of its timers fires, power fails on it and comes back; a client or
an operator asks a leader for something. Events at different nodes are not ordered in any way: every
order is taken.

One thing is not taken apart: a fetch whose answer tells its receiver nothing. If the answer would,
arriving at once, leave its receiver as it is and have it ask the very same again (it has all that
its leader has, or has asked a node that does not lead), then the fetch just stays on its way.
Whatever can happen while that answer travels can happen while the fetch does. And only the answer
to its fetch, or giving up on it, changes what a follower asks next, so the answer would tell it
nothing later either. So every state of a node that is reached with the answer on its way is reached
without.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

from fencepost.machines.quorum import MachineMaker, QuorumMachine, Role
from fencepost.sim.explore.flights import Flight, Kind, Networks
from fencepost.sim.explore.laws import Violation
from fencepost.sim.explore.packing import Packing, budget_of
from fencepost.sim.explore.quorum.bounds import Bounds
from fencepost.sim.explore.quorum.laws import Laws, Past
from fencepost.sim.explore.quorum.steps import Event, Outcome, Steps
from fencepost.wire.api.fetch import FetchRequest

_REFUSALS, _TIMEOUTS, _CRASHES, _CHANGES, _APPENDS, _LOSSES, _LATE = 24, 20, 16, 12, 8, 4, 0
_FAILURES = frozenset(("lost", "refused"))
"""Events that end a request without an answer."""


class State(NamedTuple):
    """Numbers of the nodes' states, of the network and of the past, and the budget that is left."""

    cells: tuple[int, ...]
    net: int
    past: int
    budget: int


class Action(NamedTuple):
    """Something that happens: to which node, by which flight (-1 for none), what comes of it.

    `kept` are flights that stay although their sender has given up on the answer.
    """

    place: int
    event: Event
    flight: int
    outcome: Outcome
    kept: tuple[int, ...] = ()


class Space:
    """All states within the bounds; `unwatched` are laws that are not looked at."""

    def __init__(
        self,
        bounds: Bounds,
        make_machine: MachineMaker = QuorumMachine,
        unwatched: frozenset[str] = frozenset(),
        doubts: int = 0,
    ) -> None:
        self.bounds = bounds
        self.steps = Steps(bounds, make_machine, doubts)
        self.nets = Networks()
        self.laws = Laws(self.steps, unwatched)
        self.beyond = 0
        packing = Packing(State, len(bounds.ids))
        self.pack, self.unpack = packing.pack, packing.unpack
        self._first: State | None = None
        self._nets_by_event: dict[
            tuple[int, int, int, str, int], list[tuple[int, int, tuple[int, ...]]]
        ]
        self._nets_by_event = {}

    def first(self) -> State:
        """All nodes have just started, on empty disks or on what the bounds say."""
        nets = self.nets
        started = [self.steps.first(id_) for id_ in self.bounds.ids]
        flights = {
            nets.flights.of(Flight(Kind.ASKED, id_, peer, message, message))
            for id_, (_, sent) in zip(self.bounds.ids, started)
            for peer, message in sent
        }
        leaders = {epoch: self.bounds.led(epoch) for log in self.bounds.logs for epoch in log}
        past = self.laws.pasts.of(Past(leaders=tuple(sorted(leaders.items()))))
        cells = tuple(cell for cell, _ in started)
        self._first = State(cells, nets.of(flights), past, budget_of(self.bounds.budget))
        return self._first

    def after(self, state: State) -> Iterator[tuple[Action, State]]:
        """Everything that may happen, and what it leads to. Violation, with its `action`."""
        sleepers = self.bounds.first if state == self._first else 0
        for place, event, flight, cost in self._events(state):
            if sleepers and place != sleepers - 1:
                continue
            outcome = self.steps.outcome(state.cells[place], event)
            if self._is_beyond(outcome):
                self.beyond += 1
                continue
            if event[0] in ("append", "remove", "add") and outcome.cell == state.cells[place]:
                continue  # it was refused
            yield from self._led_to(state, place, event, flight, outcome, cost)
            if state.budget >> _CRASHES & 15:
                for write in outcome.late_writes:
                    dying = ("die", write, *event)
                    died = self.steps.outcome(state.cells[place], dying)
                    cost_of_it = cost + (1 << _CRASHES)
                    yield from self._led_to(state, place, dying, flight, died, cost_of_it)

    def _is_beyond(self, outcome: Outcome) -> bool:
        """Whether a step leads out of the bounds."""
        return self.steps.views[outcome.cell].epoch > self.bounds.epochs

    # -- what may happen -----------------------------------------------------------------------

    def _events(self, state: State) -> Iterator[tuple[int, Event, int, int]]:
        """(place of the node, event, flight that is used up or -1, cost)."""
        steps, nets = self.steps, self.nets
        may_lose = state.budget >> _LOSSES & 15
        may_refuse = state.budget >> _REFUSALS & 15
        down = self.laws.pasts.values[state.past].down
        for number in nets[state.net]:
            flight = nets.flight(number)
            if flight.kind is Kind.ANSWER:
                yield flight.asker - 1, ("answer", flight.peer, flight.message), number, 0
            elif flight.kind is Kind.SAID:
                event = ("said", flight.peer, flight.request, flight.message)
                yield flight.asker - 1, event, number, 0
            else:
                yield flight.peer - 1, ("request", flight.message), number, 0
            if may_lose and flight.kind <= Kind.ANSWER:
                yield flight.asker - 1, ("lost", flight.peer), number, 1 << _LOSSES
            if flight.kind is Kind.ASKED and (may_refuse or flight.peer in down):
                cost = 0 if flight.peer in down else 1 << _REFUSALS
                yield flight.asker - 1, ("refused", flight.peer), number, cost
        may_crash = state.budget >> _CRASHES & 15
        for place, cell in enumerate(state.cells):
            for event in steps.own_events(cell):
                if event[0] != "timer" or not self.bounds.timeouts:
                    yield place, event, -1, 0
                elif state.budget >> _TIMEOUTS & 15:
                    yield place, event, -1, 1 << _TIMEOUTS
            if may_crash:
                for kept in range(steps.unflushed(cell) + 1):
                    yield place, ("crash", kept), -1, 1 << _CRASHES
            if steps.views[cell].role is Role.LEADER:
                yield from self._wishes(state, place)

    def _wishes(self, state: State, place: int) -> Iterator[tuple[int, Event, int, int]]:
        """What clients and operators may ask of a leader."""
        left = state.budget >> _APPENDS & 15
        if left:
            yield place, ("append", self.bounds.appends - left + 1), -1, 1 << _APPENDS
        if state.budget >> _CHANGES & 15:
            voters = self.steps.views[state.cells[place]].voters
            for id_ in self.bounds.ids:
                if id_ in voters:
                    yield place, ("remove", id_), -1, 1 << _CHANGES
                elif id_ > self.bounds.voters:
                    yield place, ("add", id_), -1, 1 << _CHANGES

    # -- what it leads to ----------------------------------------------------------------------

    def _led_to(
        self, state: State, place: int, event: Event, flight: int, outcome: Outcome, cost: int
    ) -> Iterator[tuple[Action, State]]:
        before = state.cells[place]
        cells = (*state.cells[:place], outcome.cell, *state.cells[place + 1 :])
        past = state.past
        if outcome.matters or outcome.violation:
            try:
                past = self.laws.judge(past, before, cells, outcome)
            except Violation as violation:
                violation.action = Action(place, event, flight, outcome)
                raise
        if self.bounds.stays_down:
            past = self._downs_after(past, place + 1, flight, outcome.has_died)
        late = state.budget >> _LATE & 15
        used = flight
        if event[0] == "request" and self._tells_nothing(cells, flight, outcome):
            used = -1
        key = state.net, used, outcome.number, event[0] if event[0] in _FAILURES else "", late
        nets = self._nets_by_event.get(key)
        if nets is None:
            nets = self._nets_by_event[key] = list(
                self._nets_after(state.net, place + 1, *key[1:], outcome)
            )
        for net, kept_cost, kept in nets:
            action = Action(place, event, flight, outcome, kept)
            yield action, State(cells, net, past, state.budget - cost - kept_cost)

    def _downs_after(self, past: int, node: int, flight: int, has_died: bool) -> int:
        """The past after something has happened to `node`: who lost power and may still be down.

        The node that acts is up, and so is a node that has sent a request since it booted.
        """
        then: Past = self.laws.pasts.values[past]
        up = {node}
        if flight >= 0 and self.nets.flight(flight).kind is Kind.ASKED:
            up.add(self.nets.flight(flight).asker)
        down = {one for one in then.down if one not in up} | ({node} if has_died else set())
        if len(down) == len(then.down) and down.issubset(then.down):
            return past
        return self.laws.pasts.of(then._replace(down=tuple(sorted(down))))

    def _tells_nothing(self, cells: tuple[int, ...], flight: int, outcome: Outcome) -> bool:
        """Whether the answer to a fetch would only have it asked again."""
        asked = self.nets.flight(flight)
        is_fetch = isinstance(self.steps.messages[asked.message], FetchRequest)
        if not is_fetch or asked.kind is not Kind.ASKED or outcome.answer < 0:
            return False
        asker = cells[asked.asker - 1]
        event = ("answer", asked.peer, outcome.answer)
        heard = self.steps.outcome(asker, event)
        return (
            heard.cell == asker
            and heard.sent == ((asked.peer, asked.message, True),)
            and heard.violation is None
        )

    def _nets_after(
        self,
        net: int,
        node: int,
        used: int,
        number: int,
        failure: str,
        late: int,
        outcome: Outcome,
    ) -> Iterator[tuple[int, int, tuple[int, ...]]]:
        """The networks after a step: one for each choice of late messages, with its cost.

        `failure` says how the flight that is used up came to nothing, if it did: a lost message may
        be there all the same, one whose connection was refused was never sent.
        """
        nets = self.nets
        flights = set(nets[net])
        may_stay: set[int] = set()
        if used >= 0:
            flights.discard(used)
            flight = nets.flight(used)
            if failure == "lost" and flight.kind is Kind.ASKED:
                may_stay.add(nets.flights.of(flight._replace(kind=Kind.ORPHAN)))
            elif not failure:
                self._add_answer(flights, flight, outcome)
        for peer, request in outcome.given_up:
            number = nets.awaited(net, node, peer)
            if number < 0 or number == used:
                continue
            flights.discard(number)
            given_up = self._given_up(nets.flight(number), request, outcome.has_died)
            if given_up is not None:
                may_stay.add(nets.flights.of(given_up))
        if outcome.has_died:
            self._orphan(flights, node)
        for peer, message, is_awaited in outcome.sent:
            kind = Kind.ASKED if is_awaited else Kind.ORPHAN if outcome.has_died else Kind.LATE
            made = nets.flights.of(Flight(kind, node, peer, message, message))
            (flights if is_awaited else may_stay).add(made)
        may_stay -= flights
        for count in range(min(late, len(may_stay)) + 1):
            for kept in combinations(sorted(may_stay), count):
                yield nets.of(flights | set(kept)), count << _LATE, kept

    def _add_answer(self, flights: set[int], flight: Flight, outcome: Outcome) -> None:
        if outcome.answer < 0 or flight.kind not in (Kind.ASKED, Kind.LATE):
            return
        kind = Kind.ANSWER if flight.kind is Kind.ASKED else Kind.SAID
        answer = flight._replace(kind=kind, message=outcome.answer)
        if kind is Kind.ANSWER:
            answer = answer._replace(request=-1)  # its receiver knows what it has asked
        flights.add(self.nets.flights.of(answer))

    def _given_up(self, flight: Flight, request: int, has_died: bool) -> Flight | None:
        """What may still arrive of a request whose sender no longer waits for the answer."""
        if flight.kind is Kind.ASKED:
            return flight._replace(kind=Kind.ORPHAN if has_died else Kind.LATE)
        return None if has_died else flight._replace(kind=Kind.SAID, request=request)

    def _orphan(self, flights: set[int], node: int) -> None:
        """Answers to a node that has restarted go nowhere."""
        nets = self.nets
        for number in [n for n in flights if nets.flight(n).asker == node]:
            flight = nets.flight(number)
            if flight.kind in (Kind.LATE, Kind.SAID):
                flights.discard(number)
            if flight.kind is Kind.LATE:
                flights.add(nets.flights.of(flight._replace(kind=Kind.ORPHAN)))
