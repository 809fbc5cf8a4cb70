"""What of a machine its future depends on, as one value that can be compared.

Two machines whose canonical values are equal must behave alike from then on: a search of all
histories (`fencepost.sim.explore`) takes them for one. So everything that a class gains in fields
counts, but for those that the class itself names in `NOT_STATE`: what never changes, what is only
counted or logged, and what a machine leaves out on purpose (its `canonical` method says so).

The order of dictionaries counts, because machines go through them, unless the machine says that it
never depends on it (`is_ordered` False). An object that is met again is named by the number of its
first meeting, so machines may be composed of objects that know each other.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Hashable
from enum import Enum
from types import FunctionType, MethodType
from typing import Any, Final

from msgspec import Struct

from fencepost.wire.message import Message

_ATOMS: Final = (int, bool, str, bytes, frozenset)
_NAMES: dict[tuple[type, int], tuple[str, ...]] = {}
_SLOTS: dict[type, tuple[str, ...]] = {}
_VALUES: dict[type, bool] = {}


def canonical(
    value: Any, *, but: frozenset[str] = frozenset(), is_ordered: bool = True
) -> Hashable:
    """The contents of `value` without the fields in `but`, and those in a class's `NOT_STATE`.

    TypeError for functions, which do not show what they depend on.
    """
    read: Hashable = _Reader(but, is_ordered).read(value)
    return read


def is_product_class(kind: type) -> bool:
    """Whether a class is ours, or derived from one of ours."""
    return any(base.__module__.startswith("fencepost.") for base in kind.__mro__)


def is_frozen(kind: type) -> bool:
    """Whether a class is a Struct or a dataclass whose fields never change."""
    declared = getattr(kind, "__struct_config__", getattr(kind, "__dataclass_params__", None))
    return declared is not None and declared.frozen is True


def slots_of(kind: type) -> tuple[str, ...]:
    """The slots of a class and of those that it is derived from."""
    names = _SLOTS.get(kind)
    if names is None:
        found: dict[str, None] = {}
        for base in kind.__mro__:
            slots = base.__dict__.get("__slots__", ())
            found.update(dict.fromkeys((slots,) if isinstance(slots, str) else slots))
        found.pop("__weakref__", None)
        found.pop("__dict__", None)
        names = _SLOTS[kind] = tuple(found)
    return names


def _is_value(kind: type) -> bool:
    """Whether equal instances of a class stay equal: what they hold never changes."""
    if is_frozen(kind):
        return True
    own: Any = kind.__hash__
    return own not in (None, object.__hash__) and not issubclass(kind, Struct)


class _Reader:
    """One reading; `seen` numbers the objects that were met."""

    def __init__(self, but: frozenset[str], is_ordered: bool) -> None:
        self.but = but
        self.is_ordered = is_ordered
        self.seen: dict[int, int] = {}

    def read(self, value: Any) -> Any:
        kind = type(value)
        if value is None or kind in _ATOMS or isinstance(value, Enum):
            return value
        if isinstance(value, Message):
            return kind.__name__, bytes(value.encode(kind.max_version))
        if isinstance(value, dict):
            items = tuple((self.read(key), self.read(each)) for key, each in value.items())
            return items if self.is_ordered else tuple(sorted(items, key=repr))
        if isinstance(value, list | tuple | deque | array):
            return tuple(map(self.read, value))
        if isinstance(value, set):
            return tuple(sorted(map(self.read, value), key=repr))
        if isinstance(value, MethodType | FunctionType):
            raise TypeError(f"{value} is neither state nor named in NOT_STATE")
        is_value = _VALUES.get(kind)
        if is_value is None:
            is_value = _VALUES[kind] = not is_product_class(kind) or _is_value(kind)
        if is_value:
            hash(value)
            return value
        return self._object(value, kind)

    def _object(self, value: Any, kind: type) -> Any:
        met = self.seen.get(id(value))
        if met is not None:
            return met
        self.seen[id(value)] = len(self.seen)
        own = getattr(value, "__dict__", None)
        names = _NAMES.get((kind, len(own or ()))) or _names(kind, own or {})
        read: list[Any] = [kind.__name__]
        for name in names:
            if name not in self.but:
                read.append((name, self.read(getattr(value, name, None))))
        return tuple(read)


def _names(kind: type, own: dict[str, Any]) -> tuple[str, ...]:
    """The fields of a class that are state, of instances with just these in `__dict__`."""
    out: set[str] = set()
    for base in kind.__mro__:
        out.update(base.__dict__.get("NOT_STATE", ()))
    names = tuple(sorted({*slots_of(kind), *own} - out))
    _NAMES[kind, len(own)] = names
    return names
