"""Copies of a whole broker, and what of a machine its future depends on.

`clone` copies an object with all that it reaches and that may change, each once: what knows each
other in the original does so in the copy, bound methods and functions with what they have closed
over among it. Values are shared, and so is what has no state.

`freeze` makes a hashable value of an object's contents. Two objects whose frozen values are equal
must behave alike, or a search would pass over states that it has not seen: so whatever a class
gains in fields is frozen with it, but for those that are named here.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict, deque
from collections.abc import Callable
from enum import Enum
from types import CellType, FunctionType, MethodType
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from fencepost.log.epochs import LeaderEpochCache
from fencepost.sim.explore.copying import is_frozen, new_like
from fencepost.wire.message import Message

Memo = dict[int, Any]

_NOT_STATE: Final = frozenset(
    # What never changes, what is only counted, and what `cell` freezes by itself.
    [
        "Partition._log",
        "Partition._rules",
        "Partition._steps",
        "Partition.config",
        "Partition.isr_changes",
        "LeaderState._rules",
        "Fetcher._broker_epoch",
        "Fetcher._is_held_back",
        "Fetcher.config",
        "Fetcher.notices",
        "Followed.machine",
    ]
)
_ATOMS: Final = (type(None), bool, int, float, str, bytes, type, Enum, Message)


def clone(value: Any, memo: Memo) -> Any:
    """A copy of `value`; `memo` has the copies that there are by now, by the originals' ids."""
    copier = _COPIERS.get(type(value))
    if copier is None:
        copier = _COPIERS[type(value)] = _copier_of(type(value))
    return value if copier is _shared else copier(value, memo)


def _shared(value: Any, memo: Memo) -> Any:
    return value


def _copier_of(kind: type) -> Callable[[Any, Memo], Any]:
    if issubclass(kind, _ATOMS) or kind is range:
        return _shared
    for base, copier in _BY_BASE.items():
        if issubclass(kind, base):
            return copier
    if kind.__module__.startswith("fencepost.") and not _is_value(kind):
        return _clone_object
    if issubclass(kind, Struct):
        return _clone_struct
    return _shared


def _is_value(kind: type) -> bool:
    return is_frozen(kind) or (not names_of(kind) and not _has_dict(kind))


def _has_dict(kind: type) -> bool:
    return kind.__dictoffset__ != 0


def _clone_tuple(value: Any, memo: Memo) -> Any:
    items = [clone(item, memo) for item in value]
    if all(a is b for a, b in zip(items, value)):
        return value
    return type(value)._make(items) if hasattr(value, "_make") else tuple(items)


def _clone_struct(value: Any, memo: Memo) -> Any:
    """Of one whose fields do not change, although what they hold may."""
    changed = {}
    for name in value.__struct_fields__:
        held = getattr(value, name)
        copied = clone(held, memo)
        if copied is not held:
            changed[name] = copied
    return replace(value, **changed) if changed else value


def _clone_dict(value: Any, memo: Memo) -> Any:
    made = memo.get(id(value))
    if made is None:
        made = memo[id(value)] = type(value)()
        made.update((clone(key, memo), clone(each, memo)) for key, each in value.items())
    return made


def _clone_items(value: Any, memo: Memo) -> Any:
    made = memo.get(id(value))
    if made is None:
        made = memo[id(value)] = type(value)(clone(item, memo) for item in value)
    return made


def _clone_method(value: Any, memo: Memo) -> Any:
    return MethodType(value.__func__, clone(value.__self__, memo))


def _clone_function(value: Any, memo: Memo) -> Any:
    if not value.__closure__:
        return value
    made = memo.get(id(value))
    if made is None:
        closed = tuple(CellType() for _ in value.__closure__)
        made = FunctionType(
            value.__code__, value.__globals__, value.__name__, value.__defaults__, closed
        )
        memo[id(value)] = made
        for new, old in zip(closed, value.__closure__):
            new.cell_contents = clone(old.cell_contents, memo)
    return made


def _clone_epochs(value: Any, memo: Memo) -> Any:
    made = memo.get(id(value))
    if made is None:
        made = memo[id(value)] = value.copy()
    return made


def _clone_object(value: Any, memo: Memo) -> Any:
    made = memo.get(id(value))
    if made is None:
        kind = type(value)
        made = memo[id(value)] = new_like(value)
        for name in names_of(kind):
            if hasattr(value, name):
                setattr(made, name, clone(getattr(value, name), memo))
        if _has_dict(kind):
            fields = made.__dict__
            for name, each in value.__dict__.items():
                fields[name] = clone(each, memo)
    return made


_BY_BASE: Final[dict[type, Callable[[Any, Memo], Any]]] = {
    dict: _clone_dict,
    OrderedDict: _clone_dict,
    tuple: _clone_tuple,
    list: _clone_items,
    set: _clone_items,
    frozenset: _shared,
    deque: _clone_items,
    array: lambda value, memo: value[:],
    MethodType: _clone_method,
    FunctionType: _clone_function,
    LeaderEpochCache: _clone_epochs,
}
_COPIERS: dict[type, Callable[[Any, Memo], Any]] = {}
_NAMES: dict[type, tuple[str, ...]] = {}


def names_of(kind: type) -> tuple[str, ...]:
    """The slots of a class and of those that it is made of."""
    names = _NAMES.get(kind)
    if names is None:
        found: dict[str, None] = {}
        for base in kind.__mro__:
            slots = base.__dict__.get("__slots__", ())
            found.update(dict.fromkeys((slots,) if isinstance(slots, str) else slots))
        found.pop("__weakref__", None)
        found.pop("__dict__", None)
        names = _NAMES[kind] = tuple(found)
    return names


def freeze(value: Any) -> Any:
    """A hashable value of the contents. TypeError for functions, which say nothing of them."""
    kind = type(value)
    if value is None or kind in (int, bool, str, bytes) or isinstance(value, Enum | frozenset):
        return value
    if isinstance(value, Message):
        return kind.__name__, bytes(value.encode(kind.max_version))
    if isinstance(value, dict):
        return tuple((freeze(key), freeze(each)) for key, each in value.items())
    if isinstance(value, list | tuple | deque | array):
        return tuple(map(freeze, value))
    if isinstance(value, MethodType | FunctionType):
        raise TypeError(f"{value} is neither state nor named as what is not")
    if not kind.__module__.startswith("fencepost.") or is_frozen(kind):
        hash(value)
        return value
    read: list[Any] = [kind.__name__]
    fields = dict(value.__dict__) if _has_dict(kind) else {}
    fields.update((name, getattr(value, name)) for name in names_of(kind) if hasattr(value, name))
    for name in sorted(fields):
        if f"{kind.__name__}.{name}" not in _NOT_STATE:
            read.append((name, freeze(fields[name])))
    return tuple(read)
