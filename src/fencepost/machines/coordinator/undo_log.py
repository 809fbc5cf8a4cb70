"""`UndoLog`: how a coordinator gets back to the state it had before a decision was applied.

Kafka keeps a coordinator's state in timeline collections, which remember what they were at each
offset that is not committed yet. Here the append of a decision is known to have succeeded or failed
before the next decision is made (`runtime.coordinator`), so one step back is enough: while the log
is open, every change of the state comes with a note how to undo it, and `revert` undoes them, the
latest first.

While nothing can fail (a partition is being loaded) the log is closed, and noting costs a test.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from functools import partial
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class UndoLog:
    """See the module docstring."""

    __slots__ = ("_undos",)

    def __init__(self) -> None:
        self._undos: list[Callable[[], object]] | None = None

    @property
    def is_open(self) -> bool:
        """Whether changes are being noted."""
        return self._undos is not None

    def begin(self) -> None:
        """Note what changes from now on."""
        assert self._undos is None, "the decision before is neither committed nor reverted"
        self._undos = []

    def commit(self) -> None:
        """What has changed since `begin` stays."""
        assert self._undos is not None, "nothing was begun"
        self._undos = None

    def revert(self) -> None:
        """Undo what has changed since `begin`."""
        undos, self._undos = self._undos, None
        assert undos is not None, "nothing was begun"
        while undos:
            undos.pop()()

    def note(self, undo: Callable[[], object]) -> None:
        """`undo` takes back what is being changed."""
        if self._undos is not None:
            self._undos.append(undo)

    def put(self, mapping: MutableMapping[K, V], key: K, value: V) -> None:
        """`mapping[key] = value`."""
        if self._undos is not None:
            if key in mapping:
                self._undos.append(partial(mapping.__setitem__, key, mapping[key]))
            else:
                self._undos.append(partial(mapping.__delitem__, key))
        mapping[key] = value

    def set_attribute(self, owner: object, name: str, value: object) -> None:
        """`owner.name = value`."""
        self.note(partial(setattr, owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    def add(self, sums: MutableMapping[K, int], key: K, change: int) -> None:
        """`sums[key] += change`; a sum of 0 is not kept."""
        total = sums.get(key, 0) + change
        if total:
            self.put(sums, key, total)
        else:
            self.pop(sums, key)

    def pop(self, mapping: MutableMapping[K, V], key: K) -> V | None:
        """Take `mapping[key]` out, if it is there.

        Reverting puts it back, not necessarily in the same place of the mapping's order.
        """
        if key not in mapping:
            return None
        value = mapping.pop(key)
        if self._undos is not None:
            self._undos.append(partial(mapping.__setitem__, key, value))
        return value
