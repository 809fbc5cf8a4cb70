"""Levels of `metadata.version` and the names that releases have for them.

A level is a number; its name is `<release>-IV<n>`, and a release alone stands for its newest.
Upgrades of a cluster go by these, as KIP-584 and KIP-778 have it.
"""

from __future__ import annotations

from typing import Final

_NAMES: Final = (
    (7, "3.3-IV3"),
    (8, "3.4-IV0"),
    (9, "3.5-IV0"),
    (10, "3.5-IV1"),
    (11, "3.5-IV2"),
    (12, "3.6-IV0"),
    (13, "3.6-IV1"),
    (14, "3.6-IV2"),
    (15, "3.7-IV0"),
    (16, "3.7-IV1"),
    (17, "3.7-IV2"),
    (18, "3.7-IV3"),
    (19, "3.7-IV4"),
    (20, "3.8-IV0"),
    (21, "3.9-IV0"),
    (22, "4.0-IV0"),
    (23, "4.0-IV1"),
    (24, "4.0-IV2"),
    (25, "4.0-IV3"),
    (26, "4.1-IV0"),
    (27, "4.1-IV1"),
    (28, "4.2-IV0"),
    (29, "4.2-IV1"),
    (30, "4.3-IV0"),
    (31, "4.4-IV0"),
    (32, "4.4-IV1"),
    (33, "4.4-IV2"),
)
_BY_LEVEL: Final = dict(_NAMES)
# Later ones of a release overwrite earlier ones.
_BY_NAME: Final = {
    **{name.partition("-")[0]: level for level, name in _NAMES},
    **{name: level for level, name in _NAMES},
}


def level_of(release: str) -> int:
    """The level that a release, or one of its steps, stands for. ValueError if there is none."""
    try:
        return _BY_NAME[release.strip()]
    except KeyError:
        oldest, newest = _NAMES[0][1], _NAMES[-1][1]
        raise ValueError(
            f"there is no release {release!r} with metadata of its own; they go from {oldest}"
            f" to {newest}"
        ) from None


def name_of(level: int) -> str:
    """What the level is called; the number alone where it has no name here."""
    return _BY_LEVEL.get(level, str(level))
