"""A path through the space of a partition, told for people."""

from __future__ import annotations

from collections.abc import Iterator

from fencepost.machines.image import PartitionImage
from fencepost.sim.explore.flights import Flight, Kind
from fencepost.sim.explore.partition.cell import CONTROLLER_ID
from fencepost.sim.explore.partition.space import Action, Space, State
from fencepost.sim.explore.partition.steps import View
from fencepost.sim.explore.search import Report
from fencepost.sim.render import details_of


def tell(space: Space, report: Report[Action, State]) -> Iterator[str]:
    """The lines of a report's path: what happens, and what becomes of whom it happens to."""
    before = space.first()
    for number, (action, after) in enumerate(report.path, 1):
        yield f"{number:3}. {_happening(space, action)}"
        yield from _consequences(space, before, action)
        then = action.then
        while then is not None:
            yield f"     {_happening(space, then)}"
            yield from _consequences(space, before, then)
            then = then.then
        if after is not None:
            if space.image(before) != space.image(after):
                image = space.image(after)
                yield f"       controller: {_image_words(space.steps.metadata.partition(image))}"
            before = after
    if report.violation is not None:
        yield f"VIOLATION {report.violation}"


def _consequences(space: Space, before: State, action: Action) -> Iterator[str]:
    if action.outcome is None:
        return
    old = space.steps.views[before.cells[action.place]]
    new = space.steps.views[action.outcome.cell]
    if old != new:
        yield f"       {new.node_id} {_words_of(space, new)}"
    yield from (f"       it acknowledges batch {batch}" for batch in action.outcome.acked)


def _words_of(space: Space, view: View) -> str:
    log = space.steps.log_words(view.log, view.durable)
    if not view.is_up:
        return f"is down, log [{log}]"
    role = f"follows {view.leader_id}"
    isr = ""
    if view.is_leader:
        role = "leads"
        isr = f", in sync {sorted(view.isr)}"
        if view.has_asked:
            isr += f" or {sorted(view.maximal_isr)}"
    return f"{role} in epoch {view.epoch}, log [{log}], high watermark {view.high_watermark}{isr}"


def _image_words(partition: PartitionImage) -> str:
    return (
        f"leader {partition.leader} of epoch {partition.leader_epoch},"
        f" in sync {sorted(partition.isr)}, eligible {sorted(partition.eligible_leader_replicas)},"
        f" partition epoch {partition.partition_epoch}"
    )


def _happening(space: Space, action: Action) -> str:
    word, *what = action.event
    if action.flight >= 0 and word != "lost":
        return _flight_words(space, space.nets.flight(action.flight))
    broker = action.place + 1
    words = {
        "fence": "the controller takes the session of {0} for lost",
        "unfence": "the controller hears from {0}, and unfences it",
        "register": "{0} registers",
        "start": "{broker} starts again and registers",
        "metadata": "{broker} takes over newer metadata",
        "flush": "{broker} flushes its log",
        "timer": "{broker}: the {0} timer fires",
        "go on": "{broker} may ask the controller again",
        "abandon": "{broker} gives up its fetch at {0}, for another one",
        "produce": "a client produces batch {0} at {broker}",
        "lost": "{broker} is told that its request to {peer}, or the answer, is lost",
        "crash": "{broker} loses power; {0} unflushed batches had reached the disk",
    }[word]
    peer = "the controller" if what and what[0] == CONTROLLER_ID else what[0] if what else ""
    told = words.format(*what, broker=broker, peer=peer)
    if word == "crash":
        told += ", its high watermark too" if what[1] else ", its high watermark not"
    return told


def _flight_words(space: Space, flight: Flight) -> str:
    message = space.steps.messages[flight.message]
    name = type(message).__name__.removesuffix("Request").replace("Response", "Answer")
    ends = [
        "controller" if id_ == CONTROLLER_ID else str(id_) for id_ in (flight.source, flight.target)
    ]
    late = " (its answer is dropped)" if flight.kind is Kind.ORPHAN else ""
    return f"{ends[0]}->{ends[1]} {name}{details_of(message)}{late}"
