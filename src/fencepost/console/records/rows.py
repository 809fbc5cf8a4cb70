"""What lists show of records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from fencepost.client.transaction_states import State
from fencepost.console.records.dead_letters import Origin
from fencepost.console.records.decoders import Shown
from fencepost.views.times import iso_time
from fencepost.views.view import View

HEADERS_MAX: Final = 50
"""Headers of a record in a list; of each LIST_BYTES_MAX bytes at most, name and value."""

STATE_TEXTS: Final[dict[State, str]] = {
    "outside": "no transaction",
    "undecided": "not known",
    "ended": "ended farther on",
}


class HeaderView(View, frozen=True):
    """A header of a record."""

    columns: ClassVar = {"header": "name", "bytes": "size_bytes", "value": "text"}

    name: str
    value: Shown

    @property
    def text(self) -> str | None:
        return self.value.cell

    @property
    def size_bytes(self) -> int | None:
        return self.value.size_bytes


class RecordRow(View, frozen=True):
    """A record. `state` is what became of its transaction (`fencepost.client.transaction_states`);
    `headers_count` counts those that are left out, too. `origin` is where a dead letter says that
    its record was."""

    columns: ClassVar = {
        "partition": "partition",
        "offset": "offset",
        "time": "time",
        "transaction": "state_text",
        "bytes": "size_bytes",
        "key": "key_text",
        "headers": "headers_text",
        "value": "value_text",
    }

    partition: int
    offset: int
    timestamp_ms: int
    is_append_time: bool
    state: State
    producer_id: int
    key: Shown
    value: Shown
    headers: Sequence[HeaderView]
    headers_count: int
    origin: Origin | None = None

    @property
    def time(self) -> str | None:
        return None if self.timestamp_ms < 0 else iso_time(self.timestamp_ms)

    @property
    def origin_text(self) -> str | None:
        return None if self.origin is None else self.origin.text

    @property
    def state_text(self) -> str:
        return STATE_TEXTS.get(self.state, self.state)

    @property
    def size_bytes(self) -> int:
        """Bytes of key and value."""
        return (self.key.size_bytes or 0) + (self.value.size_bytes or 0)

    @property
    def key_text(self) -> str | None:
        return self.key.cell

    @property
    def value_text(self) -> str | None:
        return self.value.cell

    @property
    def headers_text(self) -> str | None:
        if not self.headers_count:
            return None
        parts = [f"{one.name}={_short(one.text)}" for one in self.headers]
        left = self.headers_count - len(self.headers)
        return ", ".join(parts) + (f", and {left} more" if left else "")


class LetterRow(RecordRow, frozen=True):
    """The same as a row of a table in which there are dead letters."""

    columns: ClassVar = {
        **{heading: name for heading, name in RecordRow.columns.items() if heading != "value"},
        "dead letter of": "origin_text",
        "value": "value_text",
    }


def _short(text: str | None) -> str:
    if text is None:
        return "null"
    return text if len(text) <= 100 else text[:100] + "…"


class ScannedRange(View, frozen=True):
    """The offsets of a partition that a look went over: from `start_offset` up to `end_offset`,
    which is not among them. `log_end_offset` is where the log ended then."""

    columns: ClassVar = {
        "partition": "partition",
        "from": "start_offset",
        "up to": "end_offset",
        "records": "records",
        "markers": "control_records",
        "bytes": "size_bytes",
        "log start": "log_start_offset",
        "stable": "last_stable_offset",
        "log end": "log_end_offset",
    }

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    records: int
    control_records: int
    size_bytes: int
    log_start_offset: int
    log_end_offset: int
    last_stable_offset: int | None

    @property
    def text(self) -> str:
        """ "orders-0 120 to 339"; nothing scanned is "orders-0 nothing"."""
        name = f"{self.topic}-{self.partition}"
        if self.end_offset <= self.start_offset:
            return f"{name} nothing"
        return f"{name} {self.start_offset} to {self.end_offset - 1}"
