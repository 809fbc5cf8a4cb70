"""The page of a live tail: what it follows, and the table that its events fill."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fencepost.console.about_topic import topic_of
from fencepost.console.asked import Asked, path_to
from fencepost.console.page import Field, Live, Page, Section, Sentence
from fencepost.console.records.decoders import Decoder
from fencepost.console.records.query import LookQuery
from fencepost.console.records.row_maker import filter_of
from fencepost.console.records.rows import RecordRow
from fencepost.console.records.tailing import BYTES_PER_S, EVENT_ROWS, EVENTS_PER_S
from fencepost.console.records.topic_decoders import decoders_of
from fencepost.console.session import Session, now_ms

PASSED_ON: Final = ("from", "partitions", "isolation", "key", "value", "filter")


def tail_query(asked: Asked) -> LookQuery:
    """What a tail follows: from the end of the log, unless `from` or `at` say otherwise. Raises
    BadQuery."""
    values = {key: one for key, one in asked.values.items() if key != "to"}
    return LookQuery.of(Asked({"from": "latest", **values, "order": "oldest"}))


async def tail(session: Session, asked: Asked) -> Page:
    """A topic's records as they come."""
    query = tail_query(asked)
    filter_of(asked)
    key_as, value_as = decoders_of(asked, query.topic, session.schemas)
    await topic_of(session, query.topic)
    passed = {key: asked.values.get(key) or None for key in PASSED_ON}
    events = path_to("topics", query.topic, "tail", "events", **passed)
    limits = (
        f"At most {EVENTS_PER_S} times a second {EVENT_ROWS} records are shown, and"
        f" {BYTES_PER_S // 1_000_000} MB are read; what is left out is counted."
    )
    return Page(
        f"Live tail of {query.topic}",
        [
            Section(
                "",
                [
                    Sentence(limits),
                    Sentence("Its records so far", link=path_to("topics", query.topic, "records")),
                ],
                [Live("records, the newest first", events, list(RecordRow.columns))],
            )
        ],
        now_ms(),
        refresh_s=None,
        fields=_fields(asked, key_as, value_as),
    )


def _fields(asked: Asked, key_as: Decoder, value_as: Decoder) -> Sequence[Field]:
    levels = ("read_uncommitted", "read_committed")
    return [
        Field("from", "from", asked.text("from") or "latest"),
        Field("partitions", "partitions", asked.text("partitions")),
        Field("filter", "filter", asked.text("filter")),
        Field("key", "key as", key_as.name, key_as.names),
        Field("value", "value as", value_as.name, value_as.names),
        Field("isolation", "isolation", asked.text("isolation") or levels[0], levels),
    ]
