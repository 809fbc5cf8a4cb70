"""The error for a name that does not exist, with names that look like it."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches


def unknown(what: str, name: str, known: Collection[str]) -> str:
    """There is no such fault, ablation or command; which ones look like it, or where they are."""
    near = get_close_matches(name.lower(), known, n=3, cutoff=0.5)
    near += [one for one in known if name and name.lower() in one and one not in near][:3]
    hint = f"did you mean {' or '.join(near)}?" if near else "see `fencepost sim list`"
    return f"no {what} {name[:60]!r}; {hint}"
