"""From a broker to the active controller, wherever that is.

Theory of operation
-------------------
`ask` hands a request to the controller: directly if it is active in this process, without detour or
delay, otherwise over the network to the leader that the quorum machine knows of. A request is tried
again, until its time is up, when no controller leads, when the connection breaks, when the answer
is NOT_CONTROLLER, and at once when another node takes the lead while the old one is still to
answer.

A request may so be carried out twice (the answer was lost, or the leader was deposed after it had
written). That is for the callers to bear, and they can: a registration names its incarnation, a
heartbeat and AlterPartition say what should be, a block of producer ids may go to waste, and a
caller that wants a topic to exist does not mind that it exists already.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol

from fencepost.broker.cluster.controller_service import NEWEST, ControllerService
from fencepost.machines.probes import probe
from fencepost.machines.quorum.voters import Endpoint
from fencepost.runtime.asks_controller import OnReply
from fencepost.runtime.ports import ArmedTimer, TimerQueue
from fencepost.runtime.requests.context import RequestContext
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

log = logging.getLogger(__name__)

RETRY_BACKOFF_MS = 50
"""How long to wait before a request that failed is tried again."""
REQUEST_TIMEOUT_MS = 30_000
"""How long a request is tried, unless its caller says otherwise."""
ATTEMPT_TIMEOUT_MS = 5_000
"""How long one controller may take to answer before the request is tried again."""
MAX_ASKED = 10_000
"""Requests without an answer; one more is answered THROTTLING_QUOTA_EXCEEDED."""
NO_LEADER = -1


class PeerSender(Protocol):
    """Connections to other nodes, as `broker.peers.Peers` keeps them."""

    def send(
        self,
        address: tuple[str, int],
        request: Message,
        on_response: Callable[[Any], None],
        on_failure: Callable[[str], None],
        timeout_ms: int,
        *,
        purpose: str = "",
    ) -> object:
        """Send `request` to `address`; exactly one of the two is called, later."""
        ...


class LeaderView(Protocol):
    """What is needed of the quorum machine."""

    @property
    def node_id(self) -> int:
        """The id of this node."""
        ...

    @property
    def leader_id(self) -> int:
        """The leader as far as known, or -1."""
        ...

    def address_of(self, node_id: int) -> Endpoint | None:
        """Where a controller is reached, or None if that is not known."""
        ...


class Wrapping(Protocol):
    """How a client's request travels, which does not go over the network as it is."""

    @property
    def client(self) -> RequestContext:
        """The client that it is decided for."""
        ...

    def pack(self) -> Message:
        """What to send instead of the request."""
        ...

    def unpack(self, response: Message) -> tuple[ErrorCode, Message | None]:
        """(NONE, the response to the request) from what came back, or (an error, None)."""
        ...


class _Asked:
    """One request, from `ask` to its answer."""

    __slots__ = (
        "api_version",
        "attempt",
        "deadline_ms",
        "on_reply",
        "purpose",
        "request",
        "sent_to",
        "timer",
        "wrapping",
    )

    def __init__(
        self,
        request: Message,
        on_reply: OnReply,
        deadline_ms: int,
        purpose: str,
        api_version: int,
        wrapping: Wrapping | None,
    ) -> None:
        self.request = request
        self.on_reply = on_reply
        self.deadline_ms = deadline_ms
        self.purpose = purpose
        self.api_version = api_version
        self.wrapping = wrapping
        self.attempt = 0
        self.sent_to = NO_LEADER
        self.timer: ArmedTimer | None = None


class ControllerChannel:
    """`runtime.asks_controller.AsksController`. Without `peers` it is asked only here.

    The node calls `note_leader` after every step of the quorum machine.
    """

    def __init__(
        self,
        service: ControllerService | None,
        quorum: LeaderView,
        timers: TimerQueue,
        now_ms: Callable[[], int],
        peers: PeerSender | None = None,
    ) -> None:
        self._service = service
        self._quorum = quorum
        self._timers = timers
        self._now_ms = now_ms
        self._peers = peers
        self._asked: dict[_Asked, object] = {}
        self._seen: tuple[int, bool] = (NO_LEADER, False)
        self._closed = False

    @property
    def is_local(self) -> bool:
        """Whether the active controller is in this process."""
        return self._service is not None and self._service.is_active

    def ask(
        self,
        request: Message,
        on_reply: OnReply,
        *,
        timeout_ms: int = REQUEST_TIMEOUT_MS,
        purpose: str = "controller",
        api_version: int = NEWEST,
        wrapping: Wrapping | None = None,
    ) -> None:
        """Ask; `on_reply(NONE, response)`, or `on_reply(error, None)` if there is no answer.

        Perhaps at once. The response may hold errors of its own, but not NOT_CONTROLLER, which is
        tried again. The error is REQUEST_TIMED_OUT after `timeout_ms` milliseconds,
        THROTTLING_QUOTA_EXCEEDED if too many wait, NOT_CONTROLLER when there is no other node to
        ask, or what `wrapping` makes of a response. Requests of one `purpose` share a connection.
        `api_version` is that of the response which is wanted, for what is left out of old ones.
        """
        if self._closed:
            on_reply(ErrorCode.NOT_CONTROLLER, None)
        elif len(self._asked) >= MAX_ASKED:
            on_reply(ErrorCode.THROTTLING_QUOTA_EXCEEDED, None)
        else:
            deadline_ms = self._now_ms() + timeout_ms
            asked = _Asked(request, on_reply, deadline_ms, purpose, api_version, wrapping)
            self._asked[asked] = None
            self._try(asked)

    def note_leader(self) -> None:
        """Send a new leader at once all requests that were sent to another, or to none."""
        leader_id, is_local = seen = self._quorum.leader_id, self.is_local
        if seen == self._seen:
            return
        self._seen = seen
        if leader_id == NO_LEADER or (leader_id == self._quorum.node_id and not is_local):
            return
        for asked in [one for one in self._asked if one.sent_to != leader_id]:
            if asked in self._asked:
                probe("channel.leader.changed")
                self._try(asked)

    def close(self) -> None:
        """Send no more requests; answer those that wait with NOT_CONTROLLER."""
        self._closed = True
        for asked in list(self._asked):
            self._finish(asked, ErrorCode.NOT_CONTROLLER, None)

    # -- inside ----------------------------------------------------------------------------

    def _try(self, asked: _Asked) -> None:
        """Ask the controller that is active now, or wait until there is one."""
        self._disarm(asked)
        asked.attempt += 1
        left_ms = asked.deadline_ms - self._now_ms()
        if left_ms <= 0:
            self._time_is_up(asked)
        elif self._service is not None and self._service.is_active:
            self._ask_here(asked, self._service, left_ms)
        elif self._peers is None:
            self._finish(asked, ErrorCode.NOT_CONTROLLER, None)
        else:
            self._send(asked, self._peers, left_ms)

    def _ask_here(self, asked: _Asked, service: ControllerService, left_ms: int) -> None:
        """The controller answers when its decision is committed, which may take too long."""
        attempt = asked.attempt
        asked.sent_to = self._quorum.node_id

        def on_served(error: ErrorCode, response: Message | None) -> None:
            self._answered(asked, attempt, error, response)

        client = None if asked.wrapping is None else asked.wrapping.client
        service.serve(asked.request, on_served, asked.api_version, client)
        if asked in self._asked and attempt == asked.attempt and asked.timer is None:
            asked.timer = self._timers.after(left_ms, lambda: self._time_is_up(asked))

    def _time_is_up(self, asked: _Asked) -> None:
        probe("channel.timed.out")
        self._finish(asked, ErrorCode.REQUEST_TIMED_OUT, None)

    def _send(self, asked: _Asked, peers: PeerSender, left_ms: int) -> None:
        """Over the network, if it is known where to."""
        attempt = asked.attempt
        leader_id = self._quorum.leader_id
        address = None
        if leader_id not in (NO_LEADER, self._quorum.node_id):
            address = self._quorum.address_of(leader_id)
        if address is None:
            self._try_later(asked)
            return
        asked.sent_to = leader_id
        wrapping = asked.wrapping

        def on_response(response: Message) -> None:
            if wrapping is None:
                self._answered(asked, attempt, ErrorCode.NONE, response)
            else:
                self._answered(asked, attempt, *wrapping.unpack(response))

        def on_failure(reason: str) -> None:
            log.debug("%s to controller %d: %s", type(asked.request).__name__, leader_id, reason)
            self._failed(asked, attempt)

        peers.send(
            (address.host, address.port),
            asked.request if wrapping is None else wrapping.pack(),
            on_response,
            on_failure,
            min(left_ms, ATTEMPT_TIMEOUT_MS),
            purpose=asked.purpose,
        )

    def _answered(
        self, asked: _Asked, attempt: int, error: ErrorCode, response: Message | None
    ) -> None:
        """An answer, perhaps to an attempt that is given up; only a refusal is then of no use."""
        if asked not in self._asked:
            return
        if error is ErrorCode.NOT_CONTROLLER or says_not_controller(response):
            self._failed(asked, attempt)
        else:
            self._finish(asked, error, response)

    def _failed(self, asked: _Asked, attempt: int) -> None:
        if asked in self._asked and attempt == asked.attempt:
            asked.sent_to = NO_LEADER
            if self._peers is None:
                self._finish(asked, ErrorCode.NOT_CONTROLLER, None)
            else:
                self._try_later(asked)

    def _try_later(self, asked: _Asked) -> None:
        left_ms = max(0, asked.deadline_ms - self._now_ms())
        asked.timer = self._timers.after(
            min(RETRY_BACKOFF_MS, left_ms), lambda: self._try_again(asked)
        )

    def _try_again(self, asked: _Asked) -> None:
        asked.timer = None
        if asked in self._asked:
            self._try(asked)

    def _disarm(self, asked: _Asked) -> None:
        if asked.timer is not None:
            asked.timer.cancel()
            asked.timer = None

    def _finish(self, asked: _Asked, error: ErrorCode, response: Message | None) -> None:
        self._disarm(asked)
        if self._asked.pop(asked, _GONE) is not _GONE:
            asked.on_reply(error, response)


_GONE = object()


def says_not_controller(response: Message | None) -> bool:
    """Whether a response says, at the top or of some item, that its sender is not active."""
    if response is None:
        return False
    if getattr(response, "error_code", 0) == ErrorCode.NOT_CONTROLLER:
        return True
    for name in ("topics", "responses", "results"):
        for item in getattr(response, name, None) or ():
            if getattr(item, "error_code", 0) == ErrorCode.NOT_CONTROLLER:
                return True
    for topic in getattr(response, "replica_election_results", None) or ():  # ElectLeaders v0
        if any(one.error_code == ErrorCode.NOT_CONTROLLER for one in topic.partition_result):
            return True
    return False
