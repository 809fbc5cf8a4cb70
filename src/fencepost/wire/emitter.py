"""Lines of source being written: indentation, names, constants. Shared by both generators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache
from struct import Struct as Packer
from typing import Any

from fencepost.wire.layout import Layout

SMALL_COUNT = 32
"""Arrays of fewer numbers than this have a `struct` prepared; 32 covers any replica list."""


@cache
def array_methods(prefix: str, code: str, method: str) -> list[Callable[..., Any]]:
    """By count: one method of the `struct.Struct` for `prefix` and so many numbers of one type."""
    return [getattr(Packer(f">{prefix}{n}{code}"), method) for n in range(SMALL_COUNT)]


def repeated_layouts(layout: Layout) -> set[int]:
    """The layouts (by `id`) of structs that a message has in several places.

    They get functions of their own: written in place each time, the source of a few messages
    (descriptions of streams groups) would take longer to compile than it is ever in use.
    """
    places: Counter[int] = Counter()
    _count_places(layout, places)
    return {key for key, count in places.items() if count > 1}


def _count_places(layout: Layout, places: Counter[int]) -> None:
    for slot in layout.plain + layout.tagged:
        if slot.layout is not None:
            places[id(slot.layout)] += 1
            _count_places(slot.layout, places)


class Emitter:
    """Collects the body of one function and the objects its names refer to."""

    def __init__(self, environment: dict[str, Any], repeated: set[int]) -> None:
        self.lines: list[str] = []
        self.environment = environment
        self.repeated = repeated
        self._functions: dict[int, tuple[str, list[str]]] = {}
        self._indent = "    "
        self._names = 0

    def function(self, layout: Layout, header: str, write: Callable[[], None]) -> str:
        """The name of the function for structs of `layout`, which `write` writes if new.

        `header` has the parameters; the body is written like anything else.
        """
        if id(layout) not in self._functions:
            name = self.new_name("elements")
            outer, self.lines, indent, self._indent = self.lines, [], self._indent, "    "
            self._functions[id(layout)] = name, self.lines
            write()
            self.lines.insert(0, f"def {name}({header}):")
            self.lines, self._indent = outer, indent
        return self._functions[id(layout)][0]

    def source(self, header: str) -> str:
        """The whole source: functions of repeated structs, and the one that uses them."""
        functions = [lines for _, lines in self._functions.values()]
        lines = [line for lines in [*functions, [header, *self.lines]] for line in lines]
        return "\n".join(lines) + "\n"

    def emit(self, line: str) -> None:
        """Append one line at the current depth."""
        self.lines.append(self._indent + line)

    @contextmanager
    def block(self, header: str) -> Generator[None]:
        """Everything emitted inside is indented under `header`."""
        self.emit(header)
        self._indent += "    "
        yield
        self._indent = self._indent[:-4]

    def new_name(self, stem: str) -> str:
        """The name of a local variable that is not used yet."""
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
