"""Copies of machines, and what of a machine its future depends on.

A machine's fields hold containers and the bodies of roles, which change, and everything else, which
does not: messages, voters, configurations. `clone` copies the former and shares the latter, so the
identity of a request that waits for its answer survives.

`freeze` makes a hashable value of what `clone` would copy. Two machines whose frozen values are
equal must behave alike, or the search would pass over states that it has not seen: whatever a
machine gains in fields is frozen with it, only what is named here is left out.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from fencepost.log.epochs import LeaderEpochCache
from fencepost.machines.quorum.voter_history import VoterHistory
from fencepost.wire.message import Message

_COPIERS: dict[type, Callable[[Any], Any]] = {}


def clone(value: Any) -> Any:
    """A copy of what may change, with everything else shared."""
    kind = type(value)
    copier = _COPIERS.get(kind)
    if copier is None:
        copier = _COPIERS[kind] = _copier_of(kind)
    return copier(value)


def _copier_of(kind: type) -> Callable[[Any], Any]:
    if issubclass(kind, dict):
        return lambda value: {key: clone(each) for key, each in value.items()}
    if issubclass(kind, list | set | deque):
        return lambda value: kind(map(clone, value))
    if kind is array:
        return lambda value: value[:]
    if kind is LeaderEpochCache:
        return lambda value: value.copy()
    if issubclass(kind, Message):
        return lambda value: value
    names = _changing_fields(kind)
    return _fields_copier(kind, names) if names else lambda value: value


def _changing_fields(kind: type) -> tuple[str, ...]:
    """The fields of a class whose instances change; empty for one whose instances do not."""
    if is_dataclass(kind):
        frozen = kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
        return () if frozen else tuple(each.name for each in fields(kind))
    if kind is VoterHistory:
        return ("_static", "_voters", "_kraft_versions")
    if kind.__module__ == VoterHistory.__module__ and "_offsets" in getattr(kind, "__slots__", ()):
        return ("_offsets", "_values")
    return ()


def _fields_copier(kind: type, names: tuple[str, ...]) -> Callable[[Any], Any]:
    def copy(value: Any) -> Any:
        made: Any = object.__new__(kind)
        for name in names:
            object.__setattr__(made, name, clone(getattr(value, name)))
        return made

    return copy


def freeze(value: Any, skip: frozenset[str] = frozenset()) -> Any:
    """A hashable value that is equal for equal contents; dataclass fields named in `skip` are out.

    TypeError for something whose contents it does not know how to read.
    """
    kind = type(value)
    if value is None or kind in (int, bool, str, bytes) or isinstance(value, Enum):
        return value
    if isinstance(value, Message):
        return kind.__name__, bytes(value.encode(kind.max_version))
    if isinstance(value, dict):
        frozen = [(freeze(key, skip), freeze(each, skip)) for key, each in value.items()]
        return tuple(sorted(frozen, key=repr))
    if isinstance(value, set | frozenset):
        return tuple(sorted((freeze(each, skip) for each in value), key=repr))
    if isinstance(value, list | tuple | deque | array):
        return tuple(freeze(each, skip) for each in value)
    names = _changing_fields(kind)
    if names:
        read = (freeze(getattr(value, name), skip) for name in names if name not in skip)
        return kind.__name__, getattr(value, "role", None), *read
    hash(value)
    return value
