"""A schema of the registry, whatever its type: parsed, with an identity, and compared with others.

Equal schemas have one id. What makes them equal: for Avro the schema with full names, whatever its
white space and order of attributes; for JSON Schema the document without white space; for Protobuf
the compiled descriptor, without comments; for all of them the references. Normalised (`normalize`),
members of JSON and fields, imports and enum constants of Protobuf are put in order before.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fencepost.testing.registry import (
    avro_rules,
    avro_schemas,
    json_rules,
    json_schemas,
    protobuf_rules,
    protobuf_schemas,
)
from fencepost.testing.registry.budget import STEPS_MAX, TooCostlyError
from fencepost.testing.registry.documents import check_size, compact
from fencepost.testing.registry.errors import invalid_schema

KINDS: Final = ("JSON", "PROTOBUF", "AVRO")
REFERENCES_MAX: Final = 1000


@dataclass(frozen=True)
class Reference:
    """A schema that another names: by `name`, a version of `subject`."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, eq=False)
class Schema:
    """A schema as it was registered; `parsed` is None for one that was never looked at."""

    kind: str
    text: str
    references: tuple[Reference, ...] = ()
    parsed: Any = None
    canonical: str | bytes = b""

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for schemas that are the same."""
        return self.kind, self.canonical, self.references

    def document(self, format: str = "") -> dict[str, Any]:
        """What the API says of it; AVRO is left out as the type, as Confluent's registry does."""
        found: dict[str, Any] = {"schema": self.text}
        if format == "serialized" and self.kind == "PROTOBUF" and self.parsed is not None:
            found["schema"] = base64.b64encode(self.parsed.file.SerializeToString()).decode()
        if self.kind != "AVRO":
            found["schemaType"] = self.kind
        if self.references:
            found["references"] = [
                {"name": one.name, "subject": one.subject, "version": one.version}
                for one in self.references
            ]
        return found


Found = Callable[[Reference], Schema]
"""The schema that a reference is to; RegistryError."""


def parse(
    kind: str, text: str, references: Sequence[Reference], found: Found, *, normalize: bool
) -> Schema:
    """A schema, with everything that it names. RegistryError for one that makes no sense."""
    check_size(text)
    if not text.strip():
        raise invalid_schema("there is none")
    named = _all_named(references, found)
    if kind == "AVRO":
        return _avro(text, references, named)
    if kind == "PROTOBUF":
        return _protobuf(text, references, named, normalize)
    if kind == "JSON":
        return _json(text, references, named, normalize)
    raise invalid_schema(f"schemas of type {kind} are unknown; there are {', '.join(KINDS)}")


def unreadable(reader: Schema, writer: Schema) -> list[str]:
    """Why `reader` cannot read what was written by `writer`, a text for each reason."""
    if reader.kind != writer.kind:
        return [f"/: schemas of type {reader.kind} do not read {writer.kind}"]
    if reader.parsed is None or writer.parsed is None:
        return ["/: a schema that was put there unchecked cannot be compared"]
    rules: Mapping[str, Any] = {
        "AVRO": avro_rules.unreadable,
        "PROTOBUF": protobuf_rules.unreadable,
        "JSON": json_rules.unreadable,
    }
    try:
        found: list[str] = rules[reader.kind](reader.parsed, writer.parsed)
    except (TooCostlyError, RecursionError):
        return [f"/: the schemas cannot be compared in {STEPS_MAX} steps"]
    return found


def _all_named(references: Sequence[Reference], found: Found) -> list[tuple[str, Schema]]:
    """Schemas by the names by which they are referred to, the innermost first."""
    named: list[tuple[str, Schema]] = []
    seen: set[Reference] = set()

    def visit(several: Sequence[Reference]) -> None:
        for one in several:
            if one in seen:
                continue
            seen.add(one)
            if len(seen) > REFERENCES_MAX:
                raise invalid_schema(f"it names more than {REFERENCES_MAX} schemas")
            schema = found(one)
            visit(schema.references)
            named.append((one.name, schema))

    visit(references)
    return named


def _avro(text: str, references: Sequence[Reference], named: list[tuple[str, Schema]]) -> Schema:
    parsed, canonical = avro_schemas.parse(text, [schema.text for _, schema in named])
    return Schema("AVRO", text, tuple(references), parsed, canonical)


def _protobuf(
    text: str, references: Sequence[Reference], named: list[tuple[str, Schema]], normalize: bool
) -> Schema:
    descriptors = {
        name: schema.parsed.file.SerializeToString()
        for name, schema in named
        if isinstance(schema.parsed, protobuf_rules.ProtobufFile)
    }
    parsed, canonical = protobuf_schemas.parse(text, descriptors)
    if normalize:
        canonical = protobuf_schemas.normal_form(parsed)
    return Schema("PROTOBUF", text, tuple(references), parsed, canonical)


def _json(
    text: str, references: Sequence[Reference], named: list[tuple[str, Schema]], normalize: bool
) -> Schema:
    parsed, canonical = json_schemas.parse(text, {name: schema.text for name, schema in named})
    if normalize:
        text = canonical = compact(parsed.document, sort_keys=True)
    return Schema("JSON", text, tuple(references), parsed, canonical)
