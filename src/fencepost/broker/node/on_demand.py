"""`OnDemand`: a part of a node that is made when it is first asked for.

What makes it loads its modules, too, so that a start does without whatever not every node needs.
Handlers ask for parts by their classes (`PartsOnDemand`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from fencepost.runtime.requests.parts import MissingPartError


class Closable(Protocol):
    """A part that has to be closed."""

    def close(self) -> None:
        """End what it does."""
        ...


T = TypeVar("T")
C = TypeVar("C", bound=Closable)


class OnDemand(Generic[T]):
    """See the module."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self.made: T | None = None
        """The part, if anybody has asked for it."""

    def get(self) -> T:
        """The part, made now if that has not been yet."""
        if self.made is None:
            self.made = self._make()
        return self.made


class ClosableOnDemand(OnDemand[C]):
    """A part that is closed with the node, also if it is made only then."""

    def __init__(self, make: Callable[[], C]) -> None:
        super().__init__(make)
        self._is_closed = False

    def get(self) -> C:
        """The part, made now if that has not been yet, and closed if it came too late."""
        is_new = self.made is None
        made = super().get()
        if is_new and self._is_closed:
            made.close()
        return made

    def close(self) -> None:
        """Close it, or what will be made in its place."""
        self._is_closed = True
        if self.made is not None:
            self.made.close()


class PartsOnDemand:
    """The `Parts` that handlers may ask for, some of them made when the first handler does.

    `makers` go by the name of the class of what they make: a start that had the class itself would
    have loaded its module.
    """

    def __init__(
        self, parts: Mapping[Any, object], makers: Mapping[str, Callable[[], object]]
    ) -> None:
        self._parts = dict(parts)
        self._makers = makers

    def __contains__(self, kind: Any) -> bool:
        """Whether there is a part of that class, or something that makes one."""
        return kind in self._parts or kind.__name__ in self._makers

    def __getitem__(self, kind: Any) -> object:
        """The part, made now if that has not been yet. MissingPartError for another one."""
        if kind not in self._parts:
            made = self._makers[kind.__name__]()
            if not isinstance(made, kind):
                raise MissingPartError(f"what is to make {kind!r} makes {type(made)!r}")
            self._parts[kind] = made
        return self._parts[kind]
