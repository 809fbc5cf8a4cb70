"""What a node of a quorum does, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm
from typing import Any, NamedTuple

from fencepost.batch.records import build_batch
from fencepost.machines.quorum import (
    AppendRecords,
    MachineMaker,
    RequestFailed,
    Role,
    answered,
    received,
)
from fencepost.machines.quorum.endpoints import listeners
from fencepost.machines.quorum.roles import Follower, Unattached
from fencepost.sim.explore.flights import Messages
from fencepost.sim.explore.known import Event
from fencepost.sim.explore.logs import directory
from fencepost.sim.explore.quorum.bounds import Bounds
from fencepost.sim.explore.quorum.cell import (
    ANSWER,
    KEY,
    Cell,
    PowerCut,
    added_endpoint,
    history_of,
)
from fencepost.sim.explore.steps import NodeSteps
from fencepost.wire.api.add_raft_voter import AddRaftVoterRequest, Listener
from fencepost.wire.api.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    SupportedFeatureKey,
)
from fencepost.wire.api.remove_raft_voter import RemoveRaftVoterRequest
from fencepost.wire.api.vote import VoteRequest, VoteResponse
from fencepost.wire.message import Message


class View(NamedTuple):
    """What the laws look at of a node's state. `log` are numbers of entries."""

    node_id: int
    role: Role
    epoch: int
    voted_id: int
    leader_id: int
    high_watermark: int
    log: tuple[int, ...]
    durable: int
    voters: tuple[int, ...]
    failed: str | None


@dataclass(slots=True)
class Outcome:
    """What comes of an event: the node's next state, and what it lets out.

    `sent` are (peer, message, whether its answer is waited for), `given_up` the peers and requests
    whose answers it no longer waits for, `vote_told` a vote that was told: (epoch, candidate).
    `late_writes` are writes of its state on which power had better not fail: something has left
    before. `matters` says that the laws have something to look at, `violation` that one is broken.
    """

    cell: int
    sent: tuple[tuple[int, int, bool], ...] = ()
    answer: int = -1
    given_up: tuple[tuple[int, int], ...] = ()
    vote_told: tuple[int, int] | None = None
    late_writes: tuple[int, ...] = ()
    has_died: bool = False
    matters: bool = False
    violation: str | None = None
    number: int = -1


class Steps(NodeSteps[Cell, View, Outcome]):
    """All states of nodes, and all outcomes."""

    def __init__(self, bounds: Bounds, make_machine: MachineMaker, doubts: int) -> None:
        super().__init__(doubts)
        self.bounds = bounds
        self.make_machine = make_machine

    def first(self, node_id: int) -> tuple[int, list[tuple[int, int]]]:
        """The state of a node that has just started, and what it sends: (peer, message)."""
        cell = Cell(node_id, self.bounds)
        cell.prepare()
        cell.boot(self.make_machine)
        sent = [(peer, self.messages.of(message)) for peer, message in cell.sent]
        return self._number(cell), sent

    def unflushed(self, number: int) -> int:
        """How many batches of a node a power cut may take."""
        log = self._cells[number].log
        return len(log.entries) - log.durable

    # -- a step of the machine -----------------------------------------------------------------

    def _step(self, before: Cell, event: Event) -> Outcome:
        cell = before.copy()
        self.taken += 1
        violation: str | None = None
        died = False
        try:
            if event[0] == "die":
                cell.dies_at = event[1]
                died = self._survives(cell, event[2:])
            else:
                self._happen(cell, event)
        except AssertionError as error:
            violation = f"machine: {error or type(error).__name__}"
        if violation is None:
            violation = self._violation(before, cell, died or event[0] == "crash")
        cell.forget_stale(self.bounds.late > 0)
        self._forget_counts(cell)
        return self._outcome_of(before, cell, event, violation, died)

    def _forget_counts(self, cell: Cell) -> None:
        """Counters of whom to ask next would grow for ever; only their remainders matter.

        Voters ask no other node in turn. One that is removed begins with its leader or, if it has
        none, with the first in its order.
        """
        machine, body = cell.machine, cell.machine.node.role_state
        around = lcm(*range(1, len(self.bounds.ids) + 1))
        if isinstance(body, Unattached):
            body.probed = 0 if machine.is_voter else body.probed % around
        elif isinstance(body, Follower):
            body.misses = 0 if machine.is_voter else body.misses % (2 * around)

    def _survives(self, cell: Cell, event: Event) -> bool:
        """Let power fail in the middle of a step; what had left the node by then has left it."""
        try:
            self._happen(cell, event)
        except PowerCut:
            sent, replies = cell.sent, cell.replies
            self._restart(cell, 0)
            cell.sent, cell.replies = sent + cell.sent, replies
            return True
        raise AssertionError("it writes its state")

    def _restart(self, cell: Cell, kept: int) -> None:
        cell.dies_at = 0
        cell.log.lose_power(kept)
        cell.sent, cell.failed = [], None
        cell.boot(self.make_machine)

    def _happen(self, cell: Cell, event: Event) -> None:
        word, driver = event[0], cell.driver
        if word == "request":
            self._take_request(cell, self.messages[event[1]])
        elif word == "answer":
            request = cell.machine.requests.in_flight[event[1]][0]
            driver.feed(KEY, answered(event[1], request, self.messages[event[2]]))
        elif word == "said":
            request = self.messages[event[2]]
            driver.feed(KEY, answered(event[1], request, self.messages[event[3]]))
        elif word == "lost":
            driver.feed(KEY, RequestFailed(event[1], cell.machine.requests.in_flight[event[1]][0]))
        elif word == "refused":
            request = cell.machine.requests.in_flight[event[1]][0]
            driver.feed(KEY, RequestFailed(event[1], request, is_refused=True))
        elif word == "flush":
            cell.log.durable = len(cell.log.entries)
            driver.persisted(KEY, cell.log.end_offset)
        elif word == "timer":
            driver.timer_fired(KEY, event[1])
        elif word == "crash":
            self._restart(cell, event[1])
        else:
            self._operate(cell, event)

    def _take_request(self, cell: Cell, request: Message) -> None:
        if isinstance(request, ApiVersionsRequest):
            feature = SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)
            cell.replies.append(ApiVersionsResponse(supported_features=[feature]))
        else:
            cell.driver.feed(KEY, received(ANSWER, request))

    def _operate(self, cell: Cell, event: Event) -> None:
        """A client or an operator asks for something."""
        word, number = event
        if word == "append":
            batch = build_batch([(None, b"%d" % number)], timestamp_ms=0)
            cell.driver.feed(KEY, AppendRecords([batch], f"append {number}", cell.machine.epoch))
            return
        asks: Message = RemoveRaftVoterRequest(
            voter_id=number, voter_directory_id=directory(number)
        )
        if word == "add":
            asks = AddRaftVoterRequest(
                voter_id=number,
                voter_directory_id=directory(number),
                listeners=listeners(Listener, (added_endpoint(number),)),
            )
        cell.driver.feed(KEY, received(word, asks))

    # -- what has become of the node -----------------------------------------------------------

    def _outcome_of(
        self, before: Cell, cell: Cell, event: Event, violation: str | None, died: bool
    ) -> Outcome:
        asked, asked_before = cell.asked, before.asked
        given_up = tuple(
            (peer, self.messages.of(message))
            for peer, message in sorted(asked_before.items())
            if asked.get(peer) is not message
        )
        sent = tuple(
            (to, self.messages.of(message), asked.get(to) is message) for to, message in cell.sent
        )
        answer = self.messages.of(cell.replies[0]) if cell.replies else -1
        vote_told = _vote_told(self.messages, event, cell.replies)
        late_writes = tuple(cell.late_writes)
        old, new = self._view(before), self._number(cell)
        view = self.views[new]
        return Outcome(
            new,
            sent,
            answer,
            given_up,
            vote_told,
            late_writes,
            has_died=died or event[0] == "crash",
            matters=vote_told is not None
            or (old.epoch, old.role, old.voted_id, old.high_watermark, old.log, old.durable)
            != (view.epoch, view.role, view.voted_id, view.high_watermark, view.log, view.durable),
            violation=violation,
        )

    def _number(self, cell: Cell) -> int:
        cell.sent, cell.replies, cell.late_writes = [], [], []
        cell.lowest_cut, cell.writes = None, 0
        return super()._number(cell)

    def _view(self, cell: Cell) -> View:
        machine = cell.machine
        return View(
            cell.id,
            machine.role,
            machine.epoch,
            machine.state.voted_id,
            machine.leader_id,
            machine.high_watermark,
            tuple(map(self.entries.of, cell.log.entries)),
            cell.log.durable,
            history_of(cell.log, self.bounds).latest.ids,
            cell.failed,
        )

    def _violation(self, before: Cell, cell: Cell, has_restarted: bool) -> str | None:
        """What is wrong with the step by itself."""
        machine = cell.machine
        if cell.failed is not None:
            return f"{cell.id} gives up: {cell.failed}"
        if cell.state != machine.state:
            return f"I23: {cell.id} has {machine.state} in mind and {cell.state} on disk"
        if cell.state.epoch < before.state.epoch:
            return f"I23: the epoch of {cell.id} falls"
        known = before.machine.high_watermark
        if cell.lowest_cut is not None and cell.lowest_cut < known:
            return f"I07: {cell.id} cuts its log to {cell.lowest_cut}, below {known}"
        if machine.high_watermark < known and not has_restarted:
            return f"I06: the high watermark of {cell.id} falls"
        return self._violation_of_voters(before, cell)

    def _violation_of_voters(self, before: Cell, cell: Cell) -> str | None:
        """I29: a leader changes the voters one at a time, behind a commit of its own epoch."""
        history = history_of(cell.log, self.bounds)
        old = history_of(before.log, self.bounds)
        offset = history.latest_offset
        is_its_own = (
            before.machine.role is Role.LEADER
            and cell.machine.role is Role.LEADER
            and before.machine.epoch == cell.machine.epoch
        )
        if not is_its_own or offset is None or offset == old.latest_offset:
            return None
        if not before.machine.is_active_leader:
            return f"I29: {cell.id} changes the voters before it has committed in its epoch"
        if old.latest_offset is not None and old.latest_offset >= before.machine.high_watermark:
            return f"I29: {cell.id} changes the voters before the last change is committed"
        return None


def _vote_told(messages: Messages, event: Event, replies: list[Any]) -> tuple[int, int] | None:
    """The vote that a reply grants."""
    if event[0] == "die":
        event = event[2:]
    if event[0] != "request" or not replies or not isinstance(replies[0], VoteResponse):
        return None
    request = messages[event[1]]
    assert isinstance(request, VoteRequest), "votes answer votes"
    asked = request.topics[0].partitions[0]
    if not replies[0].topics or not replies[0].topics[0].partitions[0].vote_granted:
        return None
    return None if asked.pre_vote else (asked.replica_epoch, asked.replica_id)
