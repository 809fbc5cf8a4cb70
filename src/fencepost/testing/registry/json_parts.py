"""What a part of a JSON Schema demands: one of a few kinds, or several of them at once.

JSON Schema lets every keyword stand beside every other. To compare two schemas, each is taken apart
into assertions of one kind: an object, array, text, number, boolean or null, an enumeration, a
constant, a negation, or a combination (all, any or one of several). More than one at once is a
combination, too. Anything and nothing are kinds of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from fencepost.testing.registry.budget import TooCostlyError
from fencepost.testing.registry.json_schemas import JsonSchema, within

REFERENCES_MAX: Final = 100
"""References that lead to references."""
CRITERIA: Final = {"allOf": "all", "anyOf": "any", "oneOf": "one"}
_KEYWORDS: Final = {
    "object": {
        "properties", "required", "additionalProperties", "minProperties", "maxProperties",
        "patternProperties", "dependencies", "propertyNames", "dependentRequired",
        "dependentSchemas", "unevaluatedProperties",
    },
    "array": {
        "items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems",
        "contains", "minContains", "maxContains", "unevaluatedItems",
    },
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
    "string": {"minLength", "maxLength", "pattern", "format"},
}  # fmt: skip
"""By which a schema without a `type` shows what it is about."""


@dataclass(frozen=True, eq=False)
class Part:
    """One kind of assertion, with the document it is from; parts of a combination."""

    kind: str
    document: Any
    resolver: Any
    criterion: str = ""
    parts: tuple[Any, ...] = ()
    """Documents, or Parts where one document makes several."""


class Parts:
    """Parts of one schema. The same document is the same Part each time."""

    def __init__(self, schema: JsonSchema) -> None:
        self._known: dict[int, Part] = {}
        self.root = self.of(schema.document, schema.resolver)

    def of(self, document: Any, resolver: Any) -> Part:
        """The part that a document is, references followed. TooCostlyError for those that lead
        nowhere but to themselves."""
        if isinstance(document, Part):
            return document
        for _ in range(REFERENCES_MAX):
            if not isinstance(document, dict):
                break
            resolver = within(document, resolver)
            if not isinstance(document.get("$ref"), str):
                break
            found = resolver.lookup(document["$ref"])
            document, resolver = found.contents, found.resolver
        else:
            raise TooCostlyError
        known = self._known.get(id(document))
        if known is None:
            known = self._known[id(document)] = _take_apart(document, resolver)
        return known


def _take_apart(document: Any, resolver: Any) -> Part:
    if document is False:
        return Part("nothing", document, resolver)
    pieces = list(_pieces(document, resolver)) if isinstance(document, dict) else []
    if not pieces:
        return Part("anything", document, resolver)
    if len(pieces) == 1:
        return pieces[0]
    return Part("combination", document, resolver, "all", tuple(pieces))


def _pieces(document: dict[str, Any], resolver: Any) -> Iterator[Part]:
    for keyword in ("enum", "const", "not"):
        if keyword in document:
            yield Part(keyword, document, resolver)
    for keyword, criterion in CRITERIA.items():
        if keyword in document:
            yield Part("combination", document, resolver, criterion, tuple(document[keyword]))
    kinds = document.get("type")
    if isinstance(kinds, str):
        yield _typed(kinds, document, resolver)
    elif isinstance(kinds, list):
        several = tuple(_typed(kind, document, resolver) for kind in kinds)
        if len(several) == 1:
            yield several[0]
        elif several:
            yield Part("combination", document, resolver, "any", several)
    else:
        for kind, keywords in _KEYWORDS.items():
            if keywords & set(document):
                yield _typed(kind, document, resolver)


def _typed(kind: str, document: Any, resolver: Any) -> Part:
    return Part("number" if kind == "integer" else kind, document, resolver, kind)
