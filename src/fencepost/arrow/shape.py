"""The columns that a caller gets: chosen, as bytes or text, of the rows that pass the filters."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from fencepost.arrow.errors import ArgumentError, TextError
from fencepost.arrow.filtering import Filters, parse_filters
from fencepost.batch.columns import SCHEMA
from fencepost.client.metadata import TopicPartition

TEXT_COLUMNS: Final = ("key", "value")


class Shape:
    """What is decoded, and what is made of it. Plain data; ArgumentError for wrong choices.

    `decoded` are the columns to decode; offsets are among them where something has to be said
    about single records.
    """

    def __init__(
        self,
        columns: Sequence[str] | None,
        text: bool | str | Sequence[str],
        filters: Filters,
        *,
        with_offsets: bool = False,
    ) -> None:
        names = _chosen(columns)
        self._text = _text_columns(text)
        whole = pa.schema(
            field.with_type(pa.string()) if field.name in self._text else field for field in SCHEMA
        )
        self.schema = pa.schema([whole.field(name) for name in names])
        self.filter = parse_filters(filters, whole)
        needed = {*names, *self.filter.columns}
        if with_offsets or needed & self._text:
            needed.add("offset")
        self.decoded = tuple(name for name in SCHEMA.names if name in needed)

    def apply(self, where: TopicPartition, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows of a decoded batch that pass, as none or one batch. TextError."""
        for name in sorted(self._text & set(batch.schema.names)):
            place = batch.schema.get_field_index(name)
            text = _as_text(where, batch, name)
            batch = batch.set_column(place, pa.field(name, pa.string()), text)
        if self.filter.expression is not None:
            passed = pa.Table.from_batches([batch]).filter(self.filter.expression)
            if not passed.num_rows:
                return
            (batch,) = passed.combine_chunks().to_batches()
        if batch.num_rows:
            yield batch.select(self.schema.names)


def _chosen(columns: Any) -> list[str]:
    if columns is None:
        return [name for name in SCHEMA.names if name != "headers"]
    if isinstance(columns, str) or not isinstance(columns, Sequence) or not columns:
        raise ArgumentError("columns", columns, f"must be names of {', '.join(SCHEMA.names)}")
    for name in columns:
        if name not in SCHEMA.names:
            close = difflib.get_close_matches(str(name), SCHEMA.names, 1, cutoff=0.5)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise ArgumentError(
                "columns", columns, f"there is no {name!r}, only {', '.join(SCHEMA.names)}{hint}"
            )
    if len(set(columns)) < len(columns):
        raise ArgumentError("columns", columns, "names a column twice")
    return list(columns)


def _text_columns(text: object) -> frozenset[str]:
    if isinstance(text, bool):
        return frozenset(TEXT_COLUMNS if text else ())
    names = [text] if isinstance(text, str) else text
    if not isinstance(names, Sequence) or any(name not in TEXT_COLUMNS for name in names):
        raise ArgumentError("text", text, 'must be True, False or names of "key" and "value"')
    return frozenset(names)


def _as_text(where: TopicPartition, batch: pa.RecordBatch, name: str) -> pa.Array:
    column = batch.column(name)
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid as error:
        for value, offset in zip(column, batch.column("offset"), strict=True):
            try:
                (value.as_py() or b"").decode()
            except UnicodeDecodeError:
                raise TextError(where, offset.as_py(), name) from error
        raise
