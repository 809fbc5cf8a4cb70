"""Whether data of one Avro schema can be read by another: Avro's rules of schema resolution.

A reader resolves a writer's schema (https://avro.apache.org/docs/1.12.0/specification, "Schema
Resolution") if

* both are of one type, with arrays' items, maps' values, and unions' branches that resolve;
* records, enums and fixed have the same name without its namespace, or the reader has the writer's
  full name as an alias; fixed have the same size, too;
* an enum of the reader has all symbols of the writer's, or a default;
* every field of the reader's record is in the writer's once, by name or alias, or has a default;
* or the writer's type is promoted: int to long, float, double; long to float, double; float to
  double; string to bytes and back;
* a writer's union resolves if each of its branches does; a reader's if one of its branches does.

Logical types play no part, as in Apache Avro's own check. A pair of types that is met again within
itself resolves, else recursive types never would.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fencepost.testing.registry.budget import Budget

PROMOTIONS: Final = {
    "long": {"int"},
    "float": {"int", "long"},
    "double": {"int", "long", "float"},
    "bytes": {"string"},
    "string": {"bytes"},
}
NAMED: Final = {"record", "enum", "fixed"}
_FLAT: Final = ("fields", "symbols")


@dataclass(frozen=True)
class AvroSchema:
    """Parsed: names are full, and what a name stands for is in `named`."""

    parsed: Any
    named: Mapping[str, Any]


def unreadable(reader: AvroSchema, writer: AvroSchema) -> list[str]:
    """Why `reader` cannot read what `writer` wrote, a text for each reason; none if it can."""
    return list(_Resolution(reader, writer).reasons(reader.parsed, writer.parsed, ""))


class _Resolution:
    def __init__(self, reader: AvroSchema, writer: AvroSchema) -> None:
        self._reader, self._writer = reader, writer
        self._budget = Budget()
        self._known: dict[tuple[int, int], list[str]] = {}

    def reasons(self, reader: Any, writer: Any, path: str) -> list[str]:
        """As `unreadable`, for parts; `path` leads to the reader's part."""
        self._budget.take()
        reader, writer = self._definition(reader, True), self._definition(writer, False)
        if isinstance(reader, dict) and isinstance(writer, dict):
            key = id(reader), id(writer)
            if key not in self._known:
                sizes = (len(one.get(part, ())) for one in (reader, writer) for part in _FLAT)
                self._budget.take_details(sum(sizes))
                self._known[key] = []  # as long as it is being found out
                self._known[key] = list(self._by_type(reader, writer, path))
            return self._known[key]
        return list(self._by_type(reader, writer, path))

    def _definition(self, part: Any, is_reader: bool) -> Any:
        """What a name stands for; types that are objects of nothing but a type, as that type."""
        named = (self._reader if is_reader else self._writer).named
        while True:
            if isinstance(part, str) and part in named:
                return named[part]
            if isinstance(part, dict) and not _is_complex(part):
                part = part["type"]
                continue
            return part

    def _by_type(self, reader: Any, writer: Any, path: str) -> Iterator[str]:
        if isinstance(writer, list):
            for branch in writer:
                yield from self.reasons(reader, branch, path)
            return
        if isinstance(reader, list):
            if not any(not self.reasons(branch, writer, path) for branch in reader):
                yield f"{path or '/'}: no branch of the union reads {_type(writer)}"
            return
        kind, written = _type(reader), _type(writer)
        if kind != written:
            if written not in PROMOTIONS.get(kind, ()):
                yield f"{path or '/'}: {kind} does not read {written}"
        elif kind == "array":
            yield from self.reasons(reader["items"], writer["items"], f"{path}/items")
        elif kind == "map":
            yield from self.reasons(reader["values"], writer["values"], f"{path}/values")
        elif kind in NAMED:
            yield from self._named(kind, reader, writer, path)

    def _named(
        self, kind: str, reader: dict[str, Any], writer: dict[str, Any], path: str
    ) -> Iterator[str]:
        if not _same_name(reader, writer):
            yield f"{path or '/'}: {kind} {reader['name']} does not read {writer['name']}"
        elif kind == "fixed" and reader["size"] != writer["size"]:
            sizes = f"{reader['size']} bytes do not read {writer['size']}"
            yield f"{path or '/'}: fixed {reader['name']} of {sizes}"
        elif kind == "enum" and reader.get("default") is None:
            known = set(reader["symbols"])
            missing = [one for one in writer["symbols"] if one not in known]
            if missing:
                names = ", ".join(missing)
                yield f"{path or '/'}: enum {reader['name']} has no default and lacks {names}"
        elif kind == "record":
            yield from self._fields(reader, writer, path)

    def _fields(self, reader: dict[str, Any], writer: dict[str, Any], path: str) -> Iterator[str]:
        written = {field["name"]: field for field in writer["fields"]}
        for field in reader["fields"]:
            name = field["name"]
            names = (name, *field.get("aliases", ()))
            found = [written[one] for one in dict.fromkeys(names) if one in written]
            if len(found) > 1:
                yield f"{path}/{name}: several fields that were written are the reader's field"
            elif found:
                yield from self.reasons(field["type"], found[0]["type"], f"{path}/{name}")
            elif "default" not in field:
                yield f"{path}/{name}: the reader's field has no default and was not written"


def _is_complex(part: dict[str, Any]) -> bool:
    return part["type"] in ("array", "map", "error", *NAMED)


def _type(part: Any) -> str:
    kind = part["type"] if isinstance(part, dict) else part
    return "union" if isinstance(kind, list) else "record" if kind == "error" else str(kind)


def _same_name(reader: dict[str, Any], writer: dict[str, Any]) -> bool:
    if _short(reader["name"]) == _short(writer["name"]):
        return True
    space = reader["name"].rpartition(".")[0]
    aliases = (
        one if "." in one or not space else f"{space}.{one}" for one in reader.get("aliases", ())
    )
    return writer["name"] in aliases


def _short(name: str) -> str:
    return name.rpartition(".")[2]
