"""One renderer for every view: JSON, its schema, and tables of text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from fencepost.views.view import View


def document_of(views: Any) -> Any:
    """A view, or a list of them, as JSON has it: dictionaries, lists, strings, numbers."""
    return msgspec.to_builtins(views)


def json_text(views: Any) -> str:
    """One JSON document, for people and for jq."""
    return json.dumps(document_of(views), indent=2)


def schema_of(kind: Any) -> dict[str, Any]:
    """The JSON schema of a view's documents; of a list of them with `list[kind]`."""
    return msgspec.json.schema(kind)


def table_of(kind: type[View], views: Iterable[View]) -> list[str]:
    """The lines of a table with the columns of `kind`, a row per view."""
    names = list(kind.columns.values())
    rows = [[getattr(one, name) for name in names] for one in views]
    return draw_table(list(kind.columns), rows)


def draw_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Columns as wide as they need to be, two blanks apart; numbers, and what is not known among
    them, to the right. No line at all without rows. What a terminal would act on is escaped: ids of
    groups, transactions and clients are whatever their owners like."""
    lines = [tuple(map(_cell, row)) for row in rows]
    if not lines:
        return []
    widths = [max(map(len, column)) for column in zip(header, *lines, strict=True)]
    columns = [{line[i] for line in lines} - {"-"} for i in range(len(header))]
    numeric = [
        bool(cells) and all(cell.removeprefix("-").isdecimal() for cell in cells)
        for cells in columns
    ]
    drawn = []
    for line in (tuple(header), *lines):
        cells = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        )
        drawn.append("  ".join(cells).rstrip())
    return drawn


def escaped(text: str) -> str:
    """`text` without what a terminal would act on."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, list | tuple | set | frozenset):
        return escaped(",".join(map(str, value))) or "-"
    return escaped(str(value))
