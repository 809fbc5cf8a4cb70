"""Copies of machines, and what of a machine its future depends on.

A machine is composed of components that know each other. Their fields hold, besides, containers and
the states of roles, which change, and everything else, which does not: messages, voters,
configurations. `clone` copies the former and shares the latter, so the identity of a request that
waits for its answer survives.

`freeze` makes a hashable value of what `clone` would copy. Two machines whose frozen values are
equal must behave alike, or the search would pass over states that it has not seen: whatever a
machine gains in fields is frozen with it, only what is named here is left out.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable
from copy import copy
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from msgspec import Struct

from fencepost.log.epochs import LeaderEpochCache
from fencepost.machines.quorum import QuorumConfig, QuorumMachine
from fencepost.machines.quorum.component import Component
from fencepost.machines.quorum.rules import QuorumRules
from fencepost.machines.quorum.voter_history import VoterHistory
from fencepost.wire.message import Message

_COPIERS: dict[type, Callable[[Any], Any]] = {}
_NEVER_CHANGING = (QuorumConfig, QuorumRules)
_PLANS: dict[type, tuple[tuple[str, ...], tuple[str, ...]]] = {}
_FREEZE_PLANS: dict[tuple[type, int, frozenset[str]], tuple[list[str], list[str]]] = {}


def clone(value: Any) -> Any:
    """A copy of what may change, with everything else shared."""
    return _copier_for(type(value))(value)


def _shared(value: Any) -> Any:
    return value


def _copier_for(kind: type) -> Callable[[Any], Any]:
    copier = _COPIERS.get(kind)
    if copier is None:
        copier = _COPIERS[kind] = _copier_of(kind)
    return copier


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
        return _shared
    names = _changing_fields(kind)
    return _fields_copier(kind, names) if names else _shared


def is_frozen(kind: type) -> bool:
    """Whether a class is a Struct or a dataclass whose fields never change."""
    declared = getattr(kind, "__struct_config__", getattr(kind, "__dataclass_params__", None))
    return declared is not None and declared.frozen is True


def _changing_fields(kind: type) -> tuple[str, ...]:
    """The fields of a class whose instances change; empty for one whose instances do not."""
    if is_frozen(kind):
        return ()
    if issubclass(kind, Struct):
        return kind.__struct_fields__
    if is_dataclass(kind):
        return tuple(each.name for each in fields(kind))
    if kind is VoterHistory:
        return ("_static", "_voters", "_kraft_versions")
    if kind.__module__ == VoterHistory.__module__ and "_offsets" in getattr(kind, "__slots__", ()):
        return ("_offsets", "_values")
    return ()


def new_like(value: Any) -> Any:
    """Another object of the class of `value`, whose fields are still to be set."""
    if isinstance(value, Struct):  # which cannot be made without them
        return copy(value)
    return object.__new__(type(value))


def _fields_copier(kind: type, names: tuple[str, ...]) -> Callable[[Any], Any]:
    def copied(value: Any) -> Any:
        made = new_like(value)
        for name in names:
            setattr(made, name, clone(getattr(value, name)))
        return made

    return copied


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


# -- whole machines ----------------------------------------------------------------------------


def clone_machine(machine: QuorumMachine) -> QuorumMachine:
    """A copy of a machine: each of its components once, and what may change of the rest."""
    made: dict[int, Component] = {}
    _clone_component(machine, made)
    copy: Any = made[id(machine)]
    return copy


def _clone_component(component: Component, made: dict[int, Component]) -> Component:
    kind = type(component)
    copy: Component = object.__new__(kind)
    made[id(component)] = copy
    components, others = _PLANS.get(kind) or _plan(component)
    old, new = component.__dict__, copy.__dict__
    new.update(old)
    for name in components:
        part = old[name]
        known = made.get(id(part))
        new[name] = known if known is not None else _clone_component(part, made)
    for name in others:
        value = old[name]
        copier = _COPIERS.get(type(value)) or _copier_for(type(value))
        if copier is not _shared:
            new[name] = copier(value)
    return copy


def _plan(component: Component) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The fields that hold components, which are the same in all of a kind, and the others."""
    fields_ = component.__dict__
    components = tuple(name for name, value in fields_.items() if isinstance(value, Component))
    others = tuple(
        name
        for name, value in fields_.items()
        if name not in components and not isinstance(value, _NEVER_CHANGING)
    )
    _PLANS[type(component)] = components, others
    return components, others


def freeze_machine(machine: QuorumMachine, but: frozenset[str], skip: frozenset[str]) -> Any:
    """A hashable value of all that a machine's components hold, but for the fields in `but`.

    These are named with the class that has them, as in "Timers.now_ms"; `skip` is as of `freeze`.
    """
    frozen: list[Any] = []
    seen: set[int] = set()
    waiting: list[Component] = [machine]
    while waiting:
        component = waiting.pop()
        if id(component) in seen:
            continue
        seen.add(id(component))
        fields_ = component.__dict__
        key = type(component), len(fields_), but
        plan = _FREEZE_PLANS.get(key)
        if plan is None:
            plan = _FREEZE_PLANS[key] = _freeze_plan(component, but)
        waiting.extend(fields_[name] for name in plan[0])
        frozen.extend((name, freeze(fields_[name], skip)) for name in plan[1])
    return tuple(frozen)


def _freeze_plan(component: Component, but: frozenset[str]) -> tuple[list[str], list[str]]:
    """The fields with components, and those to freeze, of components with just these fields."""
    owner = _owner(type(component))
    components = [n for n, value in component.__dict__.items() if isinstance(value, Component)]
    others = [
        name
        for name, value in component.__dict__.items()
        if name not in components
        and f"{owner}.{name}" not in but
        and not isinstance(value, _NEVER_CHANGING)
    ]
    return components, others


def _owner(kind: type) -> str:
    """The name of the product's class that an instance of `kind` is."""
    return next(c.__name__ for c in kind.__mro__ if c.__module__.startswith("fencepost.machines."))
