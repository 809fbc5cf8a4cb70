"""A path through a space, told for people."""

from __future__ import annotations

from collections.abc import Iterator

from fencepost.sim.explore.flights import Flight, Kind
from fencepost.sim.explore.quorum.space import Action, Space, State
from fencepost.sim.explore.quorum.steps import Event, View
from fencepost.sim.explore.search import Report
from fencepost.sim.render import details_of
from fencepost.wire.api.vote import VoteRequest
from fencepost.wire.message import Message


def tell(space: Space, report: Report[Action, State]) -> Iterator[str]:
    """The lines of a report's path: what happens, and what becomes of the node it happens to."""
    state = space.first()
    cells = list(state.cells)
    for number, (action, _) in enumerate(report.path, 1):
        before = space.steps.views[cells[action.place]]
        cells[action.place] = action.outcome.cell
        after = space.steps.views[action.outcome.cell]
        yield f"{number:3}. {_happening(space, action)}"
        if before != after:
            yield f"       {after.node_id} is {_words_of(space, after)}"
        for kept in action.kept:
            yield f"       still on its way: {_flight_words(space, space.nets.flight(kept))}"
    if report.violation is not None:
        yield f"VIOLATION {report.violation}"


def _words_of(space: Space, view: View) -> str:
    log = space.steps.log_words(view.log, view.durable)
    leader = f" of {view.leader_id}" if view.role.value == "follower" else ""
    vote = f", voted for {view.voted_id}" if view.voted_id >= 0 else ""
    return (
        f"{view.role.value}{leader} in epoch {view.epoch}{vote}, log [{log}],"
        f" high watermark {view.high_watermark}, voters {list(view.voters)}"
    )


def _happening(space: Space, action: Action) -> str:
    node = action.place + 1
    event = action.event
    if event[0] == "die":
        return (
            f"{_event_words(space, node, event[2:], action)}; power fails as {node} writes it down"
        )
    return _event_words(space, node, event, action)


def _event_words(space: Space, node: int, event: Event, action: Action) -> str:
    word = event[0]
    if word in ("request", "answer", "said"):
        return _flight_words(space, space.nets.flight(action.flight))
    if word == "lost":
        return f"{node} is told that its request to {event[1]}, or the answer, is lost"
    if word == "refused":
        return f"{event[1]} refuses the connection of {node}: its process has ended"
    if word == "flush":
        return f"{node} flushes its log"
    if word == "timer":
        return f"{node}: the {event[1]} timer fires"
    if word == "crash":
        kept = f"; {event[1]} unflushed batches had reached the disk" if event[1] else ""
        return f"{node} loses power and starts again{kept}"
    if word == "append":
        return f"a client appends record {event[1]} at {node}"
    return f"an operator asks {node} to {word} voter {event[1]}"


def _flight_words(space: Space, flight: Flight) -> str:
    message = space.steps.messages[flight.message]
    orphan = " (its answer is dropped)"
    late = {Kind.LATE: " (given up)", Kind.SAID: " (late)", Kind.ORPHAN: orphan}
    words = _message_words(message)
    return f"{flight.source}->{flight.target} {words}{late.get(flight.kind, '')}"


def _message_words(message: Message) -> str:
    name = type(message).__name__.removesuffix("Request").replace("Response", "Answer")
    if isinstance(message, VoteRequest) and message.topics[0].partitions[0].pre_vote:
        name = "PreVote"
    return f"{name}{details_of(message)}"
