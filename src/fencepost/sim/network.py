"""The network: requests and answers on their way, over directed links that may be bad.

Between two nodes there are two links, one each way; each has a delay, may lose, double and reorder
what travels over it, may be cut, and may be clogged: everything waits, and comes at once.

Requests travel as they do over TCP: what one node sends another arrives in order, unless a
connection was lost and made again, when something sent later may overtake what was sent before.
What is lost is lost with its connection. Its sender notices that soon (a reset) or not before the
request has timed out; a process that has ended differs from one that is silent, because its machine
refuses at once. The sender gets exactly one result per request: the answer, or a failure. A request
may arrive twice, because a shell may have sent it again over a new connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fencepost.machines.probes import probe
from fencepost.machines.quorum import RequestFailed
from fencepost.sim.calls import ANY_VERSION, Call, OnDone, Sender, Versions
from fencepost.sim.surroundings import Surroundings
from fencepost.sim.wire_mode import Travel
from fencepost.wire.api.vote import VoteRequest, VoteResponse
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

FIRST_SERVER_ID = -2
RESET_US = 1_000
TIMEOUT_SPREAD_US = 50_000


class Link:
    """One way between two nodes. Rates are per mille, times in microseconds."""

    __slots__ = (
        "clogged_until_us",
        "delay_us",
        "doubled",
        "is_cut",
        "jitter_us",
        "last_us",
        "lost",
        "overtaken",
    )

    def __init__(self, delay_us: int = 300, jitter_us: int = 700) -> None:
        self.delay_us = delay_us
        self.jitter_us = jitter_us
        self.is_cut = False
        self.lost = 0
        self.doubled = 0
        self.overtaken = 0
        self.clogged_until_us = 0
        self.last_us = 0


class Network:
    """All links, and what is on its way over them."""

    def __init__(self, world: Surroundings) -> None:
        self._world = world
        self._lane = world.tape.lane("network")
        self._travel = Travel(world.tape.lane("versions"), world.options.is_dynamic)
        options = world.options
        ids = (*options.node_ids, *options.broker_ids)
        self._open: dict[int, dict[Call, None]] = {id_: {} for id_ in ids}
        self.links = {
            (a, b): self._new_link()
            for a in (*ids, *options.client_ids)
            for b in (*ids, *options.client_ids)
            if a != b and (a in ids or b in ids)
        }
        self._inside = Link(0, 0)
        """From a node to itself, which is one of the bootstrap servers that it may ask."""
        self.sent: dict[str, int] = {}
        """How many messages of each class were sent."""

    def _new_link(self) -> Link:
        return Link(0, 0) if self._world.options.by_hand else Link()

    # -- the state of links ------------------------------------------------------------------

    def cut(self, source: int, target: int) -> None:
        """Nothing passes this way any more."""
        self.links[source, target].is_cut = True

    def reconnect(self, source: int, target: int) -> None:
        """What is sent from now on passes again."""
        self.links[source, target].is_cut = False

    def heal(self) -> None:
        """Every link is as in the beginning, and what waited on one arrives, in its order."""
        at_us = self._world.now_us
        for event in [e for e in self._world.queue.due() if e.kind in ("request", "response")]:
            at_us += 1
            if event.at_us > at_us:
                self._world.queue.move(event, at_us)
        for key in self.links:
            self.links[key] = fresh = Link()
            fresh.last_us = at_us

    def _link(self, source: int, target: int) -> Link:
        return self._inside if source == target else self.links[source, target]

    # -- requests ----------------------------------------------------------------------------

    def request(
        self,
        source: Sender,
        to: int,
        request: Message,
        on_done: OnDone | None = None,
        between: Versions = ANY_VERSION,
    ) -> None:
        """Send `request`; `on_done` hears of the answer or of the failure, or else the source's
        quorum machine does. Versions are only drawn from those that `between` names."""
        id_ = to
        if to <= FIRST_SERVER_ID:  # a bootstrap server, by its place in the configuration
            ids = self._world.options.node_ids
            id_ = ids[(FIRST_SERVER_ID - to) % len(ids)]
        target = self._world.nodes.get(id_)
        name = type(request).__name__
        self.sent[name] = self.sent.get(name, 0) + 1
        if target is None:
            self._world.schedule_in(RESET_US, "failure", lambda: self._unknown(source, to, request))
            return
        call = Call(source, target, to, request, on_done, between)
        self._open[target.id][call] = None
        if self._world.options.on_wire or source.is_old or target.is_old:
            travelled = self._travel.request(call)
            if travelled is None:
                self._world.schedule_in(0, "failure", lambda: self._unsupported(call), source)
                return
            call.message = travelled
        self._post(call, source.id, target.id, "request", self._arrive)

    def _unsupported(self, call: Call) -> None:
        """The other side cannot be asked this; the shell finds out without asking."""
        if not self._close(call):
            return
        if isinstance(call.request, VoteRequest):
            response = VoteResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
            call.done(response)
        else:
            call.done(None)

    def _unknown(self, source: Sender, to: int, request: Message) -> None:
        if source.is_up:
            source.feed(RequestFailed(to, request))

    def _post(
        self, call: Call, sender: int, receiver: int, kind: str, arrive: Callable[[Call], None]
    ) -> None:
        """Put a message on its way, or lose it."""
        link = self._link(sender, receiver)
        lane = self._lane
        if link.is_cut and not self._world.options.by_hand:
            self._fail_later(call, is_reset=False)
            return
        if lane.chance(link.lost):
            self._fail_later(call, is_reset=lane.pick(2) == 0)
            return
        world = self._world
        is_request = kind == "request"
        silent_until_us = (call.source if is_request else call.target).silent_until_us
        at_us = max(world.now_us, silent_until_us) + link.delay_us
        if link.jitter_us:
            at_us += lane.pick(link.jitter_us)
        at_us = max(at_us, link.clogged_until_us)
        if not lane.chance(link.overtaken):
            at_us = max(at_us, link.last_us)
            link.last_us = at_us
        node = call.target if is_request else call.source
        world.schedule(at_us, kind, lambda: arrive(call), node, about=call, any_incarnation=True)
        if is_request and lane.chance(link.doubled):
            at_us += lane.between(1, 200_000)
            world.schedule(
                at_us, kind, lambda: arrive(call), node, about=call, any_incarnation=True
            )

    def _arrive(self, call: Call) -> None:
        """A request is there."""
        target, source = call.target, call.source
        if call.is_forgotten:
            return  # its sender gets no answer until the request times out
        if self._link(source.id, target.id).is_cut:
            self._fail_later(call, is_reset=False)
            return
        if not target.is_up:
            # A machine without power says nothing; one without the process refuses at once.
            self._fail_later(call, is_reset=target.is_powered, is_refused=target.is_powered)
            return
        incarnation = target.incarnation

        def reply(value: Any) -> None:
            if target.incarnation == incarnation and target.is_up:
                self._answer(call, value)

        self._world.tell_message(call, "request")
        if not target.receive(call.message, reply, call.source.id, call.api_version):
            self._fail_later(call, is_reset=True, is_refused=True)

    def _answer(self, call: Call, value: Any) -> None:
        response = call.target.compose(value)
        if response is None or not call.is_open:
            return  # its disk refused, which ends the node; or it came twice
        call.target.note_answer(call, response)
        call.response = response
        self._post(call, call.target.id, call.source.id, "response", self._arrive_back)

    def _arrive_back(self, call: Call) -> None:
        """An answer is there."""
        if call.is_forgotten:
            return
        if self._link(call.target.id, call.source.id).is_cut:
            self._fail_later(call, is_reset=False)
            return
        if not self._close(call):
            return
        assert call.response is not None, "it was answered"
        response = call.response
        if call.version >= 0:
            response = self._travel.response(call)
        self._world.tell_message(call, "response")
        call.done(response)

    # -- failures ----------------------------------------------------------------------------

    def lose(self, call: Call) -> None:
        """A message of this call is gone with its connection."""
        self._fail_later(call, is_reset=True)

    def forget(self, source: int, target: int) -> None:
        """What `source` has asked of `target` is on a connection that `target` has forgotten: it
        and its answer arrive nowhere, and `source` waits until the request has timed out."""
        for call in list(self._open[target]):
            if call.source.id == source and not call.is_forgotten:
                call.is_forgotten = True
                self._fail_later(call, is_reset=False)

    def forget_all(self, node_id: int) -> None:
        """Nothing that is on its way to or from a node arrives any more."""
        for other in self._open:
            self.forget(node_id, other)
            self.forget(other, node_id)

    def _fail_later(self, call: Call, is_reset: bool, is_refused: bool = False) -> None:
        """The source is going to hear that there will be no answer; with `is_refused`, because
        nothing listens where it was to come from."""
        options, world = self._world.options, self._world
        delay_us = RESET_US
        if options.by_hand:
            delay_us = 0
        elif not is_reset:
            probe("sim.network.timeout")
            delay_us = options.request_timeout_ms * 1_000 + self._lane.pick(TIMEOUT_SPREAD_US)
        if is_refused:
            probe("sim.network.refused")
        world.schedule_in(
            delay_us,
            "failure",
            lambda: self._fail(call, is_refused),
            call.source,
            about=call,
            any_incarnation=True,
        )

    def _fail(self, call: Call, is_refused: bool) -> None:
        """Tell the source that there will be no answer, unless it has one."""
        if self._close(call):
            self._world.tell_message(call, "failure")
            call.done(None, is_refused)

    def _close(self, call: Call) -> bool:
        """The call is over; whether its source is still there to be told."""
        was_open, call.is_open = call.is_open, False
        self._open[call.target.id].pop(call, None)
        return was_open and call.source.is_up and call.source.incarnation == call.incarnation

    def connections_lost(self, node_id: int, is_told: bool) -> None:
        """A node is gone; with `is_told` its machine is not and resets its connections."""
        for call in list(self._open[node_id]):
            self._fail_later(call, is_reset=is_told)
