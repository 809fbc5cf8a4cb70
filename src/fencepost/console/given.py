"""Names for the places that the console was given."""

from __future__ import annotations

from collections.abc import Iterable


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
