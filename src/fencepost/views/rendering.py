"""One renderer for every view: JSON, its schema, and its table of text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from fencepost.views.tables import draw_table
from fencepost.views.view import View


def document_of(views: Any) -> Any:
    """A view, or a list of them, as JSON has it: dictionaries, lists, strings, numbers."""
    return msgspec.to_builtins(views)


def schema_of(kind: Any) -> dict[str, Any]:
    """The JSON schema of a view's documents; of a list of them with `list[kind]`."""
    return msgspec.json.schema(kind)


def table_of(kind: type[View], views: Iterable[View]) -> list[str]:
    """The lines of a table with the columns of `kind`, a row per view."""
    names = list(kind.columns.values())
    rows = [[getattr(one, name) for name in names] for one in views]
    return draw_table(list(kind.columns), rows)
