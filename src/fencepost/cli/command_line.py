"""Words of a command line before a parser sees them, and names that no parser knows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

_SHORT: Final = ("-b", "-X")
_LONG: Final = (
    "--bootstrap-server",
    "--bootstrap-controller",
    "--client-config",
    "--timeout",
)


def cluster_options_last(words: Sequence[str]) -> list[str]:
    """The same command line with the options that name a cluster (`-b`, `-X` and so on) behind
    the action, if they are before it: `-b HOST:PORT topics list` is `topics list -b HOST:PORT`.

    Other words stay where they are. A command without actions takes them behind its first word.
    """
    names: list[str] = []
    moved: list[str] = []
    place = 0
    while place < len(words) and len(names) < 2:
        width = _width(words[place])
        if width == 0 and words[place].startswith("-"):
            break
        if width:
            moved += words[place : place + width]
        else:
            names.append(words[place])
        place += max(width, 1)
    return [*names, *moved, *words[place:]]


def _width(word: str) -> int:
    """How many words an option that names a cluster takes, with its value; 0 for another word."""
    if word in _SHORT or word in _LONG:
        return 2
    is_joined = word.startswith(_SHORT) or word.partition("=")[0] in _LONG
    return 1 if is_joined else 0


_IN_KAFKA: Final = {"reset-offsets": "offsets"}
"""Actions by the names that options of Kafka's own tools have for them."""


def unknown_name(kind: str, name: str, known: Iterable[str], otherwise: str) -> str:
    """What to say about a command or action that does not exist: the one of that purpose or the
    nearest one that does, or `otherwise`."""
    from fencepost.log.configdef import closest  # for mistakes only

    known = list(known)
    meant = _IN_KAFKA.get(name)
    near = meant if meant in known else closest(name, known)
    rest = f"; {otherwise}" if near is None else f": did you mean {near}?"
    return f"there is no {kind} {name!r}{rest}"


def unknown_option(name: str, known: Iterable[str]) -> str:
    """The same about an option; without one that is near, where to look."""
    from fencepost.log.configdef import closest  # for mistakes only

    near = closest(name, known)
    return "see --help" if near is None else f"did you mean {near}?"
