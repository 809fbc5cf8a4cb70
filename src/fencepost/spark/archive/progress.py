"""How much there is to archive."""

from __future__ import annotations

from fencepost.arrow.archive.layout import Layout
from fencepost.arrow.archive.state import read_state
from fencepost.arrow.options import SourceOptions
from fencepost.arrow.survey import Survey


def offsets_to_read(layout: Layout, options: SourceOptions) -> int:
    """Offsets between what is archived, or where a new archive begins, and the ends of the logs
    now. ClientError, BoundsError."""
    survey = Survey(options)
    look = survey.look(new_query=True)
    starts = survey.resolve(options.start, look, "starting")
    state = read_state(layout)
    for one in state.incarnations:
        if look.topic_ids.get(one.topic, "") == one.topic_id:
            for where in look.latest:
                ranges = one.partitions.get(where.partition)
                if where.topic == one.topic and ranges:
                    starts[where] = ranges[-1][1]
    return sum(max(0, end.offset - starts[where]) for where, end in look.latest.items())
