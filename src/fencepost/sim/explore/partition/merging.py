"""States that differ in nothing that can matter are taken for one.

Two things need not be tried in every order with all others, since no broker's state depends on when
they happen. Each is done at once where it can be, and every history in which it comes later is the
same, for the laws, as one in which it came then.

*A change of the metadata that is nothing to a broker.* A broker that does not lead reads of the
metadata who leads in which epoch, its own broker epoch, and, until it serves, whether it is
unfenced; of the in-sync set, of other brokers, of its being fenced it takes no notice. Where none
of that changes, the broker is in the same state before and after; it does the same on whatever
comes next, and the next change finds the same there, whichever image it is compared with. So it is
never behind with such a change alone. (Leaders do read who is in sync and who is fenced.)

*A fetch that is fenced, of a fetcher that has nothing to fetch.* When a leader changes, the fetch
that waits at the former one is on its way still. Where that broker knows a newer epoch it answers
FENCED_LEADER_EPOCH, now and for ever, since epochs only rise; that changes nothing there, and of
the asker it changes only that the fetcher waits no more. A fetcher without partitions asks for
nothing. Should it be given one again before that answer, it could wait for it, or abandon the
fetch, and ask then; but a fetch asked for later is the same as one that was asked for at once and
has been longer on its way, for the position of a log that is not fetched for does not move.

Nothing else is merged. The replicas are not interchangeable: the controller elects the first of
them that may lead, in the order of the assignment.
"""

from __future__ import annotations

from typing import NamedTuple

from fencepost.sim.explore.flights import Flight, Kind, Networks, Numbers
from fencepost.sim.explore.partition.cell import CONTROLLER_ID
from fencepost.sim.explore.partition.steps import Steps
from fencepost.wire.api import fetch
from fencepost.wire.errors import ErrorCode

Cells = tuple[int, ...]


class Metas(NamedTuple):
    """The images that some broker has yet to apply, and the newest; where each broker is."""

    images: tuple[int, ...]
    at: tuple[int, ...]

    def with_one_at(self, place: int, at: int) -> Metas:
        """The same with a broker at another of the images; those behind all brokers are dropped."""
        places = [*self.at]
        places[place] = at
        least = min(places)
        return Metas(self.images[least:], tuple(one - least for one in places))


class Merging:
    """See the module docstring. What was found out once is looked up afterwards."""

    def __init__(self, steps: Steps, nets: Networks, metas: Numbers) -> None:
        self._steps = steps
        self._nets = nets
        self._metas = metas
        self._rid: dict[tuple[int, int, int], int | None] = {}

    def caught_up(self, cells: Cells, number: int) -> tuple[Cells, int]:
        """Brokers, and metadata, when each has taken over what is nothing to it."""
        metas: Metas = self._metas.values[number]
        if len(metas.images) == 1:
            return cells, number
        for place in range(len(cells)):
            while metas.at[place] + 1 < len(metas.images):
                image = metas.images[metas.at[place] + 1]
                if not self._steps.is_nothing_to(cells[place], image):
                    break
                taken = self._steps.outcome(cells[place], ("metadata", image)).cell
                cells = (*cells[:place], taken, *cells[place + 1 :])
                metas = metas.with_one_at(place, metas.at[place] + 1)
        return cells, self._metas.of(metas)

    def rid_of_fenced(self, cells: Cells, net: int) -> tuple[Cells, int]:
        """Brokers, and the network, without fetches that the leader only fences.

        Their answer, too, changes nothing but the follower that gets it.
        """
        left = [*self._nets[net]]
        for number in self._nets[net]:
            flight = self._nets.flight(number)
            if flight.kind is not Kind.ASKED or flight.peer == CONTROLLER_ID:
                continue
            place = flight.asker - 1
            asks, answers = cells[place], cells[flight.peer - 1]
            key = number, asks, answers
            if key not in self._rid:
                self._rid[key] = self._without(flight, asks, answers)
            without = self._rid[key]
            if without is not None:
                cells = (*cells[:place], without, *cells[place + 1 :])
                left.remove(number)
        return cells, net if len(left) == len(self._nets[net]) else self._nets.of(set(left))

    def _without(self, flight: Flight, asks: int, answers: int) -> int | None:
        """The asker when it has heard that it is fenced; None if it is not, or cares."""
        steps = self._steps
        if not steps.views[answers].accepts or steps.fetches_from(asks, flight.peer):
            return None
        if not isinstance(steps.messages[flight.message], fetch.FetchRequest):
            return None
        refused = steps.outcome(answers, ("request", flight.message))
        answer = steps.messages[refused.answer]
        assert isinstance(answer, fetch.FetchResponse), "fetches are answered so"
        error = answer.responses[0].partitions[0].error_code
        if error != ErrorCode.FENCED_LEADER_EPOCH or refused.cell != answers or refused.sent:
            return None
        heard = steps.outcome(asks, ("answer", flight.peer, refused.answer))
        return None if heard.sent or heard.matters else heard.cell
