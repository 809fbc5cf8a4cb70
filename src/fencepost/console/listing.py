"""Long lists in parts: a filter by a piece of the name, an order, so many rows at a time."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Generic, NamedTuple, TypeVar

from fencepost.console.asked import Asked, path_to
from fencepost.console.page import Field

Row = TypeVar("Row")
ROWS: Final = 100
ROWS_MAX: Final = 1_000
FIRST_MAX: Final = 10_000_000


class Part(NamedTuple, Generic[Row]):
    """Rows `first` and those after it of `total` that the filter lets through; `more` is the path
    of what follows."""

    rows: list[Row]
    total: int
    more: str | None


def part_of(
    rows: Iterable[Row],
    asked: Asked,
    path: tuple[str, ...],
    name_of: Callable[[Row], str],
    orders: dict[str, Callable[[Row], Any]],
    also: Mapping[str, str | None] = {},
) -> tuple[Part[Row], list[Field]]:
    """The part of `rows` that is asked for by `filter`, `order`, `first` and `rows`, and the fields
    that set them. The first of `orders` is taken where none is asked for; `also` are further values
    that the path of the next part has. Raises BadQuery."""
    wanted = asked.text("filter")
    order = asked.choice("order", tuple(orders))
    first = asked.number("first", 0, 0, FIRST_MAX)
    limit = asked.number("rows", ROWS, 1, ROWS_MAX)
    chosen = [row for row in rows if wanted in name_of(row)]
    end = first + limit
    shown = heapq.nsmallest(end, chosen, key=lambda row: (orders[order](row), name_of(row)))
    more = None
    if end < len(chosen):
        more = path_to(
            *path,
            filter=wanted or None,
            order=order if order != next(iter(orders)) else None,
            first=end,
            rows=limit if limit != ROWS else None,
            **also,
        )
    fields = [
        Field("filter", "name contains", wanted),
        Field("order", "order", order, list(orders)),
    ]
    return Part(shown[first:], len(chosen), more), fields
