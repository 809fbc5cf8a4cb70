"""Lines of source being written: indentation, names, constants. Shared by both generators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from struct import Struct as Packer
from typing import Any

SMALL_COUNT = 32
"""Arrays of fewer numbers than this have a `struct` prepared; 32 covers any replica list."""


@cache
def array_methods(prefix: str, code: str, method: str) -> list[Callable[..., Any]]:
    """By count: one method of the `struct.Struct` for `prefix` and so many numbers of one type."""
    return [getattr(Packer(f">{prefix}{n}{code}"), method) for n in range(SMALL_COUNT)]


class Emitter:
    """Collects the body of one function and the objects its names refer to."""

    def __init__(self, environment: dict[str, Any]) -> None:
        self.lines: list[str] = []
        self.environment = environment
        self._indent = "    "
        self._names = 0

    def emit(self, line: str) -> None:
        """Append one line at the current depth."""
        self.lines.append(self._indent + line)

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """Everything emitted inside is indented under `header`."""
        self.emit(header)
        self._indent += "    "
        yield
        self._indent = self._indent[:-4]

    def new_name(self, stem: str) -> str:
        """A local variable nobody else uses."""
        self._names += 1
        return f"{stem}{self._names}"

    def constant(self, stem: str, value: Any) -> str:
        """A global name for `value`; the same name for the same object."""
        name = stem
        while name in self.environment and self.environment[name] is not value:
            name += "_"
        self.environment[name] = value
        return name

    def packer(self, prefix: str, codes: str, method: str) -> str:
        """A name for one method of the big-endian `struct.Struct` of `codes`."""
        name = f"{prefix}_{codes.replace('?', 'z')}"
        if name not in self.environment:
            self.environment[name] = getattr(Packer(">" + codes), method)
        return name
