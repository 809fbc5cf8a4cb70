"""From a record that was read to what a list shows of it."""

from __future__ import annotations

from typing import Final

from fencepost.console.asked import Asked
from fencepost.console.records.cursors import Found
from fencepost.console.records.decoders import LIST_BYTES_MAX, NAMES, Decoder, visible
from fencepost.console.records.rows import HEADERS_MAX, HeaderView, RecordRow

HEADER_DECODER: Final = Decoder(NAMES[0])


class RowMaker:
    """Makes rows of records; `key` and `value` are how they are shown."""

    def __init__(self, key: Decoder, value: Decoder) -> None:
        self._key = key
        self._value = value

    def __call__(self, found: Found) -> RecordRow | None:
        """The row, None for a record that is not wanted."""
        record = found.record
        return RecordRow(
            found.partition,
            record.offset,
            record.timestamp_ms,
            record.timestamp_type == 1,
            found.state,
            found.header.producer_id,
            self._key.show(record.key, LIST_BYTES_MAX),
            self._value.show(record.value, LIST_BYTES_MAX),
            headers_of(record.headers[:HEADERS_MAX], LIST_BYTES_MAX),
            len(record.headers),
        )


def headers_of(headers: tuple[tuple[str, bytes | None], ...], bytes_max: int) -> list[HeaderView]:
    """The headers, names and values cut to `bytes_max`."""
    return [
        HeaderView(visible(name[:bytes_max]), HEADER_DECODER.show(value, bytes_max))
        for name, value in headers
    ]


def decoders_of(asked: Asked) -> tuple[Decoder, Decoder]:
    """How keys and values are to be shown. Raises BadQuery."""
    return (
        Decoder(asked.text("key") or NAMES[0], "key"),
        Decoder(asked.text("value") or NAMES[0], "value"),
    )
