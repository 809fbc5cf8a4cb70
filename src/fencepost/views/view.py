"""What every view is."""

from __future__ import annotations

from typing import ClassVar

import msgspec


class View(msgspec.Struct, frozen=True):
    """A frozen value to show. Its fields, in order, are the keys of its JSON.

    `columns` are those of a table of such views: by heading, the name of a field or of a property.
    """

    columns: ClassVar[dict[str, str]] = {}


def count(number: int, noun: str) -> str:
    """ "1 replica", "2 replicas"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def known(number: int) -> int | None:
    """None for the negative numbers by which brokers say that they do not know."""
    return number if number >= 0 else None
