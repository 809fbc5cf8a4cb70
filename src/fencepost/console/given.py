"""What the console was given beside a cluster: places by name, and what reads them."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

from fencepost.console.asked import NotThere


def by_name(places: Iterable[str]) -> dict[str, str]:
    """Directories and files by the last parts of their paths; of equal ones the later have a
    number."""
    found: dict[str, str] = {}
    for place in places:
        last = place.rstrip("/").rpartition("/")[2] or place
        name, number = last, 1
        while name in found:
            number += 1
            name = f"{last}~{number}"
        found[name] = place
    return found


def place_of(kind: str, name: str, places: Iterable[str]) -> str:
    """The place of the `kind` ("audit") that has this name. Raises NotThere."""
    place = by_name(places).get(name)
    if place is None:
        raise NotThere(f"no {kind} {name!r} among those that the console was given")
    return place


def reader_of(kind: str, module: str) -> Any:
    """A module of this package that reads places of the `kind`, which needs pyarrow: only consoles
    that were given some load it. Raises NotThere where that is not installed."""
    try:
        return importlib.import_module(f"fencepost.console.{module}")
    except ImportError as error:
        raise NotThere(f"{error.name} is missing: {kind}s need the extra `arrow`") from None
