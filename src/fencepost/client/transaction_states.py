"""What became of the transaction that each batch of a fetch belongs to, without decoding records.

A Fetch under read_committed ends at the last stable offset and lists the aborted transactions that
overlap it; a batch of a transaction that is not listed is committed (KIP-98). Beyond the last
stable offset nothing is listed: there the marker that follows in the same bytes decides, and a
batch without one is undecided. It may be open, or its marker may be farther on; which of the two,
DescribeProducers tells (KIP-664).
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from fencepost.batch.control import read_control
from fencepost.batch.header import BatchHeader, iter_headers
from fencepost.client.fetch_core import Fetched
from fencepost.wire.records.control import ControlType

State = Literal["committed", "aborted", "open", "ended", "undecided", "outside", "control"]
"""`outside` a transaction; `ended`: committed or aborted by a marker farther on; `control`: a
record of Kafka's own, such as a marker."""

STATES: Final[tuple[State, ...]] = (
    "committed", "aborted", "open", "ended", "undecided", "outside", "control"
)  # fmt: skip


class StatedBatch(NamedTuple):
    """A whole batch at `position` of the fetched bytes, and what became of its transaction."""

    position: int
    header: BatchHeader
    state: State


def batch_states(fetched: Fetched, *, lists_aborted: bool) -> list[StatedBatch]:
    """The batches of a fetch in their order. `lists_aborted`: it was one under read_committed.
    Raises BatchError for a batch that is not sound."""
    upcoming = sorted(fetched.aborted, key=lambda entry: entry[1], reverse=True)
    aborting: set[int] = set()
    undecided: dict[int, list[int]] = {}
    found: list[StatedBatch] = []
    for position, header in iter_headers(fetched.records):
        while upcoming and upcoming[-1][1] <= header.last_offset:
            aborting.add(upcoming.pop()[0])
        state: State = "outside"
        if header.is_control:
            state = "control"
            outcome = _marked(fetched.records[position : position + header.size_bytes])
            if outcome is not None:
                aborting.discard(header.producer_id)
                for place in undecided.pop(header.producer_id, ()):
                    found[place] = found[place]._replace(state=outcome)
        elif header.is_transactional and lists_aborted:
            state = "aborted" if header.producer_id in aborting else "committed"
        elif header.is_transactional:
            state = "undecided"
            undecided.setdefault(header.producer_id, []).append(len(found))
        found.append(StatedBatch(position, header, state))
    return found


def _marked(batch: memoryview) -> State | None:
    """How a control batch ends its producer's transaction; None where it ends none."""
    for one in read_control(batch, check=False):
        if one.type == ControlType.ABORT:
            return "aborted"
        if one.type == ControlType.COMMIT:
            return "committed"
    return None
