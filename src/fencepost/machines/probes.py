"""Coverage probes: which rare paths were taken, counted by name.

A path that only an unlucky order of events reaches says `probe("quorum.vote.refused.log")` when it
is taken. The simulator adds up what its seeds have hit; a probe that a long run never hits names a
rule that was never put to the test. A name is a literal, written at exactly one place, dotted from
the general to the particular.

The counts are of the process and decide nothing: no machine ever reads them.
"""

from __future__ import annotations

_counts: dict[str, int] = {}


def probe(name: str) -> None:
    """Count one passage through the path `name`."""
    _counts[name] = _counts.get(name, 0) + 1


def counts() -> dict[str, int]:
    """How often each path was taken since the last `reset`, by name; a copy."""
    return dict(sorted(_counts.items()))


def reset() -> None:
    """Count from nothing again."""
    _counts.clear()
