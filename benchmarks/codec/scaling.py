"""Whether the cost of an element stays what it is as arrays grow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.codec.contestants import OURS, Contestant
from benchmarks.codec.messages import Case
from benchmarks.codec.timing import measure
from benchmarks.peers import table
from fencepost.wire.layout import layout_of
from fencepost.wire.message import Message, Struct, field
from fencepost.wire.types import Int32, Int64, String

COUNTS = (10, 1_000, 100_000)


class Row(Struct):
    """Two numbers and a tagged section, as most structs of the protocol begin."""

    partition: Int32 = field()
    offset: Int64 = field()


class Structs(Message, kind="data", versions="0", flexible="0+"):
    """An array of structs."""

    items: list[Row] = field()


class Numbers(Message, kind="data", versions="0", flexible="0+"):
    """An array of numbers."""

    items: list[Int32] = field()


class Strings(Message, kind="data", versions="0", flexible="0+"):
    """An array of strings."""

    items: list[String] = field()


ELEMENTS: dict[str, tuple[Any, Callable[[int], Any]]] = {
    "struct (int32, int64)": (Structs, lambda n: Row(partition=n, offset=(1 << 33) + n)),
    "int32": (Numbers, lambda n: 1000 + n),
    "string": (Strings, lambda n: f"topic-{n}"),
}


def scaling_table(rounds: int) -> str:
    """Nanoseconds per element, decode / encode."""
    rows = []
    for title, (cls, make) in ELEMENTS.items():
        costs: dict[str, list[str]] = {name: [] for name in OURS}
        layout = layout_of(cls, 0, True)
        for count in COUNTS:
            message = cls(items=[make(n) for n in range(count)])
            machines = {name: codec(layout) for name, codec in OURS.items()}
            contestants = [
                Contestant(name, lambda: None, machine.decode, machine.encode)
                for name, machine in machines.items()
            ]
            medians = measure(Case(message, 0, title), message.encode(0), contestants, rounds)
            for name, (decode, encode) in medians.items():
                costs[name].append(f"{decode / count * 1e9:.0f} / {encode / count * 1e9:.0f}")
        rows += [[f"{title}, {name}", *cells] for name, cells in costs.items()]
    headings = ["ns per element, decode / encode", *(f"{count:,}" for count in COUNTS)]
    return table(headings, rows)
