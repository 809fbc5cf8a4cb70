"""From a record that was read to what a list shows of it."""

from __future__ import annotations

from typing import Final

from fencepost.console.asked import Asked, BadQuery
from fencepost.console.records.cursors import Found
from fencepost.console.records.dead_letters import origin_of
from fencepost.console.records.decoders import AUTOMATIC, LIST_BYTES_MAX, Decoder, visible
from fencepost.console.records.filter_subject import Steps, Subject
from fencepost.console.records.filter_tokens import FilterError
from fencepost.console.records.filters import Filter
from fencepost.console.records.rows import HEADERS_MAX, HeaderView, RecordRow

HEADER_DECODER: Final = Decoder(AUTOMATIC)


class RowMaker:
    """Makes rows of the records that `wanted` lets through; `key` and `value` are how they are
    shown."""

    def __init__(
        self,
        key: Decoder,
        value: Decoder,
        wanted: Filter | None = None,
        bytes_max: int = LIST_BYTES_MAX,
    ) -> None:
        self._key = key
        self._value = value
        self._wanted = wanted
        self._bytes_max = bytes_max
        self._steps = Steps()

    def __call__(self, found: Found) -> RecordRow | None:
        """The row, None for a record that is not wanted. Raises LookEnded when filtering has taken
        all the steps that it may."""
        return self.row(found) if self.wants(found) else None

    def renew_steps(self) -> None:
        """Let filtering take as many steps again."""
        self._steps = Steps()

    def wants(self, found: Found) -> bool:
        """Whether the filter lets the record through. Raises LookEnded."""
        if self._wanted is None:
            return True
        return self._wanted.lets_through(Subject(found, self._key, self._value, self._steps))

    def row(self, found: Found) -> RecordRow:
        """What is shown of a record."""
        record = found.record
        return RecordRow(
            found.partition,
            record.offset,
            record.timestamp_ms,
            record.timestamp_type == 1,
            found.state,
            found.header.producer_id,
            self._key.show(record.key, self._bytes_max),
            self._value.show(record.value, self._bytes_max, record.key),
            headers_of(record.headers[:HEADERS_MAX], self._bytes_max),
            len(record.headers),
            origin_of(record.headers),
        )


def headers_of(headers: tuple[tuple[str, bytes | None], ...], bytes_max: int) -> list[HeaderView]:
    """The headers, names and values cut to `bytes_max`."""
    return [
        HeaderView(visible(name[:bytes_max]), HEADER_DECODER.show(value, bytes_max))
        for name, value in headers
    ]


def filter_of(asked: Asked) -> Filter | None:
    """The filter asked for. Raises BadQuery, which says at which character it makes no sense."""
    text = asked.text("filter").strip()
    if not text:
        return None
    try:
        return Filter(text)
    except FilterError as error:
        raise BadQuery("filter", text, str(error)) from None
