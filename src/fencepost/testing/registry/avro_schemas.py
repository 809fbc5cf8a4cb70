"""Avro schemas of the registry, parsed by fastavro."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from fencepost.testing.registry.avro_rules import AvroSchema
from fencepost.testing.registry.documents import compact, read_json
from fencepost.testing.registry.errors import invalid_schema

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*", re.ASCII)
_MARKS: Final = ("__fastavro_parsed__", "__named_schemas__")


def parse(text: str, references: Iterable[str]) -> tuple[AvroSchema, str]:
    """The schema and its canonical form; `references` are the texts of the schemas that it names,
    the innermost first. RegistryError for what is no Avro schema."""
    import fastavro
    from fastavro.schema import SchemaParseException, UnknownType

    named: dict[str, Any] = {}
    try:
        for one in dict.fromkeys(references):
            fastavro.parse_schema(read_json(one), named_schemas=named)
        parsed = fastavro.parse_schema(read_json(text), named_schemas=named)
    except (
        ArithmeticError, AttributeError, LookupError, RecursionError, SchemaParseException,
        TypeError, UnknownType, ValueError,
    ) as error:  # fmt: skip
        raise invalid_schema(f"{type(error).__name__}: {error}") from error
    _check_names(parsed)
    return AvroSchema(parsed, named), compact(_plain(parsed), sort_keys=True)


def _check_names(part: Any) -> None:
    """Names as Avro wants them, which fastavro does not ask for. RegistryError."""
    if isinstance(part, dict):
        name = part.get("name", "_")
        if not _NAME.fullmatch(str(name)):
            raise invalid_schema(f"{str(name)[:100]!r} is no name")
        aliases = part.get("aliases", []) if "name" in part else []
        if not isinstance(aliases, list) or not all(isinstance(one, str) for one in aliases):
            raise invalid_schema(f"aliases of {str(name)[:100]} are no array of names")
        parts = (part.get(one) for one in ("type", "items", "values", "fields"))
        for inner in parts:
            _check_names(inner)
    elif isinstance(part, list):
        for inner in part:
            _check_names(inner)


def _plain(part: Any) -> Any:
    """Full names and no marks; a type alone is the same as an object with nothing but it."""
    if isinstance(part, list):
        return [_plain(one) for one in part]
    if not isinstance(part, dict):
        return part
    kept = {name: _plain(one) for name, one in part.items() if name not in _MARKS}
    return kept["type"] if set(kept) == {"type"} else kept
