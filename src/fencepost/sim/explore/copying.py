"""Copies of a whole node, each of its objects once.

`clone` copies an object with all that it reaches and that may change: what knows each other in the
original does so in the copy, bound methods and functions with what they have closed over among it.
Values are shared, and so is what has no state; so the identity of a request that waits for its
answer survives.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict, deque
from collections.abc import Callable
from copy import copy
from enum import Enum
from types import CellType, FunctionType, MethodType
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from fencepost.log.epochs import LeaderEpochCache
from fencepost.machines.canonical import is_frozen, is_product_class, slots_of
from fencepost.wire.message import Message

Memo = dict[int, Any]

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
    if is_product_class(kind) and not _is_value(kind):
        return _clone_object
    if issubclass(kind, Struct):
        return _clone_struct
    return _shared


def _is_value(kind: type) -> bool:
    return is_frozen(kind) or (not slots_of(kind) and not _has_dict(kind))


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
        # A Struct cannot be made without its fields.
        made = copy(value) if isinstance(value, Struct) else object.__new__(kind)
        memo[id(value)] = made
        for name in slots_of(kind):
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
