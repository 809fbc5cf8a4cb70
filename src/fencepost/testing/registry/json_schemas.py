"""JSON Schemas of the registry: checked by jsonschema, references resolved by referencing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fencepost.testing.registry.documents import compact, read_json
from fencepost.testing.registry.errors import invalid_schema

ROOT: Final = "fencepost:schema"
"""What the schema is called where it has no `$id`."""


@dataclass(frozen=True)
class JsonSchema:
    """A document, and a resolver of the references in it."""

    document: Any
    resolver: Any


def parse(text: str, references: Mapping[str, str]) -> tuple[JsonSchema, str]:
    """The schema and its canonical form; `references` are the texts of the schemas that it names,
    by the names that it uses. RegistryError for what is no JSON Schema, and for a `$ref` to what is
    not there."""
    from jsonschema import Draft7Validator
    from jsonschema.exceptions import SchemaError, UnknownType
    from jsonschema.validators import validator_for
    from referencing import Registry, Resource
    from referencing.exceptions import NoInternalID, Unresolvable
    from referencing.jsonschema import DRAFT7

    document = read_json(text)
    try:
        validator_for(document, default=Draft7Validator).check_schema(document)
        resources = {
            name: Resource.from_contents(read_json(one), default_specification=DRAFT7)
            for name, one in references.items()
        }
        root = Resource.from_contents(document, default_specification=DRAFT7)
        registry: Any = Registry().with_resources([*resources.items(), (ROOT, root)]).crawl()
        resolver = registry.resolver(root.id() or ROOT)
        _check_references(document, resolver)
    except (
        AttributeError, LookupError, NoInternalID, RecursionError, SchemaError, TypeError,
        UnknownType, Unresolvable, ValueError,
    ) as error:  # fmt: skip
        reason = error.message if isinstance(error, SchemaError) else str(error)
        raise invalid_schema(f"{type(error).__name__}: {reason}") from error
    return JsonSchema(document, resolver), compact(document)


def _check_references(part: Any, resolver: Any) -> None:
    """Look every `$ref` up. Unresolvable."""
    if isinstance(part, dict):
        resolver = within(part, resolver)
        reference = part.get("$ref")
        if isinstance(reference, str):
            resolver.lookup(reference)
        for one in part.values():
            _check_references(one, resolver)
    elif isinstance(part, list):
        for one in part:
            _check_references(one, resolver)


def within(part: dict[str, Any], resolver: Any) -> Any:
    """The resolver for what is in a part, which may have a name of its own."""
    from referencing import Resource
    from referencing.jsonschema import DRAFT7

    if not isinstance(part.get("$id"), str):
        return resolver
    return resolver.in_subresource(Resource.from_contents(part, default_specification=DRAFT7))
