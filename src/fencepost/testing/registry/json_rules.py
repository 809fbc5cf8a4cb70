"""Whether data of one JSON Schema is valid by another: rules of Confluent's registry, its strict
policy.

What the new schema demands beyond the old one makes it incompatible: a type that is another, a
limit that is tighter or new, a property that became required without a default, a property that was
described where anything could be before (an open content model), one that is gone where nothing
beyond what is described may be (a closed one), values of an enumeration that are gone, parts of a
combination that no part of the other covers. What demands less is compatible.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Final

from fencepost.testing.registry.budget import DETAILS, Budget
from fencepost.testing.registry.documents import same_key
from fencepost.testing.registry.json_contents import (
    Contents,
    array_contents,
    object_contents,
)
from fencepost.testing.registry.json_matching import matched
from fencepost.testing.registry.json_parts import CRITERIA, Part, Parts
from fencepost.testing.registry.json_schemas import JsonSchema

LEAST: Final = {"string": ("minLength",), "array": ("minItems", "minContains"),
                "object": ("minProperties",)}  # fmt: skip
MOST: Final = {"string": ("maxLength",), "array": ("maxItems", "maxContains"),
               "object": ("maxProperties",)}  # fmt: skip

_FLAT: Final = (
    "properties", "required", "patternProperties", "dependencies", "dependentRequired",
    "dependentSchemas", "items", "prefixItems", "enum", *CRITERIA,
)  # fmt: skip


def unreadable(reader: JsonSchema, writer: JsonSchema) -> list[str]:
    """Why not all that is valid by `writer` is so by `reader`, a text for each reason."""
    comparison = _Comparison(Parts(reader), Parts(writer))
    return comparison.reasons(comparison.new.root, comparison.old.root, "")


class _Comparison:
    """`old` is what wrote, `new` what reads."""

    def __init__(self, new: Parts, old: Parts) -> None:
        self.new, self.old = new, old
        self._budget = Budget()
        self._known: dict[tuple[int, int], list[str]] = {}
        self._choices: dict[int, list[Any]] = {}
        self._values: dict[int, set[str]] = {}

    def documents(self, new: Any, new_in: Part, old: Any, old_in: Part, path: str) -> list[str]:
        """As `reasons`, for what is in the parts; None is where there is no schema."""
        if new is None:
            return []
        if old is None:
            return [f"{path}: there is a schema now"]
        found = self.new.of(new, new_in.resolver), self.old.of(old, old_in.resolver)
        return self.reasons(*found, path)

    def reasons(self, new: Part, old: Part, path: str) -> list[str]:
        """Why `new` refuses something that `old` allows. A pair that is met again within itself
        does not, else schemas that contain themselves never would."""
        self._budget.take()
        key = id(new), id(old)
        if key not in self._known:
            self._budget.take_details(_size(new) + _size(old))
            self._known[key] = []
            self._known[key] = list(self._by_kind(new, old, path))
        return self._known[key]

    def _by_kind(self, new: Part, old: Part, path: str) -> Iterator[str]:
        if self._is_covered(new, old, path):
            return
        place = path or "/"
        if new.kind != old.kind:
            of_bytes = [
                isinstance(one.document, dict) and one.document.get("connect.type") == "bytes"
                for one in (new, old)
            ]
            if old.kind != "nothing" and new.kind != "anything" and not all(of_bytes):
                yield f"{place}: it is {_word(new)} now, and was {_word(old)}"
            return
        checks = {
            "combination": self._combination,
            "not": self._negation,
            "number": self._number,
            "string": self._string,
            "object": self._object,
            "array": self._array,
        }
        if new.kind in checks:
            yield from checks[new.kind](new, old, path)
        elif new.kind == "const" and same_key(new.document["const"]) != same_key(
            old.document["const"]
        ):
            yield f"{place}: another constant"
        elif new.kind == "enum" and not self._enumerated(old) <= self._enumerated(new):
            yield f"{place}: values of the enumeration are gone"

    def _enumerated(self, part: Part) -> set[str]:
        """The values of an enumeration."""
        if id(part) not in self._values:
            self._values[id(part)] = set(map(same_key, part.document["enum"]))
        return self._values[id(part)]

    # -- combinations ----------------------------------------------------------------------------

    def _is_covered(self, new: Part, old: Part, path: str) -> bool:
        """Whether one side is a combination, and a part of it alone makes them compatible."""
        if (new.kind == "combination") == (old.kind == "combination"):
            return False
        if new.kind == "combination" and (len(new.parts) == 1 or new.criterion != "all"):
            return any(not self.documents(one, new, old, old, path) for one in new.parts)
        if old.kind == "combination" and (len(old.parts) == 1 or old.criterion == "all"):
            return any(not self.documents(new, new, one, old, path) for one in old.parts)
        return False

    def _combination(self, new: Part, old: Part, path: str) -> Iterator[str]:
        one_each = len(new.parts) == 1 == len(old.parts)
        if new.criterion != old.criterion and not (
            new.criterion == "any"
            or one_each
            or (len(old.parts) == 1 and new.criterion == "one")
            or (len(new.parts) == 1 and old.criterion == "all")
        ):
            yield f"{path or '/'}: {new.criterion} of its parts, and was {old.criterion} of them"
            return
        now, before = self._different(new), self._different(old)
        if len(now) > len(before) and new.criterion == "all":
            yield f"{path or '/'}: it demands more parts at once"
        elif len(now) < len(before) and old.criterion in ("any", "one"):
            yield f"{path or '/'}: it has fewer parts to choose from"
        edges = [
            [
                number
                for number, one in enumerate(now)
                if not self.documents(one, new, part, old, f"{path}/{old.criterion}/{place}")
            ]
            for place, part in enumerate(before)
        ]
        if matched(edges, len(now)) < min(len(now), len(before)):
            yield f"{path or '/'}: parts of the combination are not compatible"

    def _different(self, part: Part) -> list[Any]:
        """The parts of a combination, each once."""
        if id(part) not in self._choices:
            found = {
                id(one) if isinstance(one, Part) else same_key(one): one
                for one in reversed(part.parts)
            }
            self._choices[id(part)] = list(reversed(found.values()))
        return self._choices[id(part)]

    def _negation(self, new: Part, old: Part, path: str) -> Iterator[str]:
        place = f"{path}/not"
        inner = self.new.of(new.document["not"], new.resolver)
        other = self.old.of(old.document["not"], old.resolver)
        # The other way round: what the old one refused is all that the new one may refuse.
        if self.reasons(other, inner, place):
            yield f"{place}: it refuses more"

    # -- texts and numbers -----------------------------------------------------------------------

    def _limits(self, new: Part, old: Part, path: str) -> Iterator[str]:
        for names, sign in ((LEAST, 1), (MOST, -1)):
            for name in names[new.kind]:
                limit, before = new.document.get(name), old.document.get(name)
                if limit is not None and (before is None or sign * limit > sign * before):
                    yield f"{path}/{name}: {limit}, and was {before or 'not there'}"

    def _string(self, new: Part, old: Part, path: str) -> Iterator[str]:
        yield from self._limits(new, old, path)
        pattern = new.document.get("pattern")
        if pattern is not None and pattern != old.document.get("pattern"):
            yield f"{path}/pattern: another pattern"

    def _number(self, new: Part, old: Part, path: str) -> Iterator[str]:
        for name, sign in (
            ("minimum", 1), ("exclusiveMinimum", 1), ("maximum", -1), ("exclusiveMaximum", -1),
        ):  # fmt: skip
            limit, before = _limit(new.document, name), _limit(old.document, name)
            if limit is not None and (before is None or sign * limit > sign * before):
                yield f"{path}/{name}: {limit}, and was {'not there' if before is None else before}"
        step, before = new.document.get("multipleOf"), old.document.get("multipleOf")
        if step is not None and (before is None or _fraction(before) % _fraction(step)):
            yield f"{path}/multipleOf: {step}, and was {before or 'not there'}"
        if new.criterion == "integer" and old.criterion != "integer":
            yield f"{path or '/'}: integer now, and was number"

    # -- objects ---------------------------------------------------------------------------------

    def _object(self, new: Part, old: Part, path: str) -> Iterator[str]:
        now, before = object_contents(new.document), object_contents(old.document)
        for name in dict.fromkeys((*before.described, *now.described)):
            place = f"{path}/properties/{name}"
            if name not in now.described:
                yield from self._gone(before.described[name], old, now, new, name, place)
            elif name not in before.described:
                yield from self._added(name, now, new, before, old, place)
            else:
                schemas = now.described[name], before.described[name]
                yield from self.documents(schemas[0], new, schemas[1], old, place)
                if name in now.required - before.required and not _has_default(schemas[0]):
                    yield f"{place}: it is required now, without a default"
        yield from self._dependencies(new, old, path)
        yield from self._others(now, new, before, old, path)
        yield from self._limits(new, old, path)

    def _gone(
        self, schema: Any, old: Part, now: Contents, new: Part, name: str, path: str
    ) -> Iterator[str]:
        """Something that was described, and is not."""
        if now.is_open:
            return
        others = self._others_for(now, name)
        if others is not None:
            yield from self.documents(others, new, schema, old, path)
        elif self.old.of(schema, old.resolver).kind != "nothing":
            yield f"{path}: it is gone, and nothing else may be there"

    def _added(
        self, name: str, now: Contents, new: Part, before: Contents, old: Part, path: str
    ) -> Iterator[str]:
        """A property that was not described, and is."""
        schema = now.described[name]
        if before.is_open:
            if self.new.of(schema, new.resolver).kind != "anything":
                yield f"{path}: it is described now, and could be anything before"
            return
        others = self._others_for(before, name)
        if others is not None:
            yield from self.documents(schema, new, others, old, path)
        if name in now.required and not _has_default(schema):
            yield f"{path}: it is new and required, without a default"

    def _others_for(self, contents: Contents, name: str) -> Any:
        length = sum(map(len, contents.patterns)) + len(contents.patterns) * len(name)
        self._budget.take_details(50 * len(contents.patterns) + length // DETAILS)
        return contents.others_for(name)

    def _others(
        self, now: Contents, new: Part, before: Contents, old: Part, path: str
    ) -> Iterator[str]:
        """What is said of all that is not described by itself."""
        for name, schema, was in (
            (now.additional_name, now.additional, before.additional),
            (now.unevaluated_name, now.unevaluated, before.unevaluated),
        ):
            if was is False or schema is True:
                continue
            if schema is False:
                yield f"{path}/{name}: nothing else may be there now"
            elif was is True:
                yield f"{path}/{name}: there is a schema now"
            else:
                yield from self.documents(schema, new, was, old, f"{path}/{name}")

    def _dependencies(self, new: Part, old: Part, path: str) -> Iterator[str]:
        now, before = _dependencies(new.document), _dependencies(old.document)
        for name, needs in now.items():
            place, was = f"{path}/dependencies/{name}", before.get(name)
            if isinstance(needs, list):
                if not isinstance(was, list) or not set(needs) <= set(was):
                    yield f"{place}: it needs more"
            elif was is None or isinstance(was, list):
                yield f"{place}: there is a schema now"
            else:
                yield from self.documents(needs, new, was, old, place)

    # -- arrays ----------------------------------------------------------------------------------

    def _array(self, new: Part, old: Part, path: str) -> Iterator[str]:
        now, before = array_contents(new.document), array_contents(old.document)
        place = f"{path}/items"
        yield from self.documents(now.every, new, before.every, old, place)
        pairs = list(zip(now.items, before.items, strict=False))
        for number, (schema, was) in enumerate(pairs):
            yield from self.documents(schema, new, was, old, f"{place}/{number}")
        for number in range(len(pairs), len(before.items)):
            name = str(number)
            yield from self._gone(before.items[number], old, now, new, name, f"{place}/{number}")
        for number in range(len(pairs), len(now.items)):
            schema, others = now.items[number], self._others_for(before, str(number))
            if before.is_open:
                if self.new.of(schema, new.resolver).kind != "anything":
                    yield f"{place}/{number}: it is described now, and could be anything before"
            elif others is not None:
                yield from self.documents(schema, new, others, old, f"{place}/{number}")
        yield from self._others(now, new, before, old, path)
        yield from self._limits(new, old, path)
        if new.document.get("uniqueItems") and not old.document.get("uniqueItems"):
            yield f"{path}/uniqueItems: items must differ now"


def _word(part: Part) -> str:
    return f"{part.criterion} of several" if part.kind == "combination" else part.kind


def _size(part: Part) -> int:
    """How much lies flat in a part."""
    if not isinstance(part.document, dict):
        return 0
    several = (part.document.get(name) for name in _FLAT)
    return sum(len(one) for one in several if isinstance(one, dict | list))


def _has_default(schema: Any) -> bool:
    return isinstance(schema, dict) and "default" in schema


def _limit(document: dict[str, Any], name: str) -> Any:
    """A limit; those of draft 4 make `minimum` and `maximum` exclusive by a boolean."""
    value = document.get(name)
    exclusive = "exclusive" + name[0].upper() + name[1:]
    if document.get(exclusive) is True:
        return None
    if isinstance(value, bool):
        inclusive = re.sub("^exclusive(.)", lambda found: found[1].lower(), name)
        return document.get(inclusive) if value else None
    return value


def _fraction(number: float) -> Fraction:
    return Fraction(str(number))


def _dependencies(document: dict[str, Any]) -> dict[str, Any]:
    return {
        **document.get("dependencies", {}),
        **document.get("dependentRequired", {}),
        **document.get("dependentSchemas", {}),
    }
