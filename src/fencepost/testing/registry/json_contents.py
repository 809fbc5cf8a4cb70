"""What may be in an object or array of a JSON Schema: described, or anything else.

A content model is open where anything may be beside what is described, closed where nothing may be,
and partially open where a schema says what.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Contents:
    """Of `additional` and `unevaluated`, True is anything and False is nothing; else a schema."""

    additional_name: str
    unevaluated_name: str
    additional: Any = True
    unevaluated: Any = True
    described: Mapping[str, Any] = field(default_factory=dict)
    patterns: Mapping[str, Any] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    items: Sequence[Any] = ()
    every: Any = None
    """The schema of every item; None where there is none."""

    @property
    def is_open(self) -> bool:
        """Whether anything may be beside what is described."""
        return self.additional is True and self.unevaluated is True and not self.patterns

    def others_for(self, name: str) -> Any:
        """The schema for what is not described by itself; None where there is none."""
        for pattern, schema in self.patterns.items():
            if _finds(pattern, name):
                return schema
        if isinstance(self.additional, dict):
            return self.additional
        if self.additional is True and isinstance(self.unevaluated, dict):
            return self.unevaluated
        return None


def object_contents(document: dict[str, Any]) -> Contents:
    """Of the keywords for objects."""
    return Contents(
        "additionalProperties",
        "unevaluatedProperties",
        _said(document, "additionalProperties"),
        _said(document, "unevaluatedProperties"),
        described=document.get("properties", {}),
        patterns=document.get("patternProperties", {}),
        required=frozenset(document.get("required", ())),
    )


def array_contents(document: dict[str, Any]) -> Contents:
    """Of the keywords for arrays; since draft 2020-12 those of tuples have other names."""
    items, prefix = document.get("items"), document.get("prefixItems")
    additional = "additionalItems"
    if prefix is not None:
        every, items, additional = None, prefix, "items"
    elif isinstance(items, list):
        every = None
    else:
        every, items = items, ()
    return Contents(
        additional,
        "unevaluatedItems",
        _said(document, additional) if items or additional in document else True,
        _said(document, "unevaluatedItems"),
        items=items or (),
        every=every,
    )


def _said(document: dict[str, Any], name: str) -> Any:
    value = document.get(name, True)
    return True if value == {} and not isinstance(value, bool) else value


def _finds(pattern: str, name: str) -> bool:
    """By RE2, in linear time; a pattern that it does not know finds nothing."""
    import re2

    try:
        return re2.search(pattern, name) is not None
    except re2.error:
        return False
