"""What filters read of a record, how its values compare, and what that may cost."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final

from fencepost.console.records.cursors import Found, LookEnded
from fencepost.console.records.decoders import Decoder

STEPS_MAX: Final = 20_000_000
"""Of one look: a step is a part that is evaluated, or 256 characters that are gone through."""
STEP_CHARACTERS: Final = 256
JSON_CHARACTERS_MAX: Final = 1 << 20
"""A text beyond this is not read as JSON: a path in it leads nowhere."""


class TooManySteps(LookEnded):
    """A look has evaluated as much as it may."""


class Steps:
    """Counts what evaluation costs. `take` raises TooManySteps."""

    def __init__(self, most: int = STEPS_MAX) -> None:
        self.left = most

    def take(self, characters: int = 0) -> None:
        """One step, and one for each STEP_CHARACTERS."""
        self.left -= 1 + characters // STEP_CHARACTERS
        if self.left < 0:
            raise TooManySteps


@dataclass(slots=True)
class Subject:
    """A record as filters see it; what is made of it once is kept."""

    found: Found
    key_as: Decoder
    value_as: Decoder
    steps: Steps
    _texts: dict[str, str | None] = field(default_factory=dict)
    _documents: dict[str, Any] = field(default_factory=dict)

    def text(self, root: str) -> str | None:
        """The key or the value as text."""
        if root not in self._texts:
            record = self.found.record
            data = record.key if root == "key" else record.value
            decoder = self.key_as if root == "key" else self.value_as
            text = None
            if data is not None:
                self.steps.take(len(data))
                text = decoder.text_of(data, record.key if root == "value" else None)
            self._texts[root] = text
        return self._texts[root]

    def at_path(self, root: str, path: tuple[str, ...]) -> Any:
        """What the JSON of the key or the value has there; None for nothing."""
        if root not in self._documents:
            text = self.text(root)
            document = None
            if text is not None and len(text) <= JSON_CHARACTERS_MAX:
                self.steps.take(4 * len(text))
                try:
                    document = json.loads(text)
                except (ValueError, RecursionError):
                    document = None
            self._documents[root] = document
        one = self._documents[root]
        for name in path:
            self.steps.take()
            if isinstance(one, dict):
                one = one.get(name)
            elif isinstance(one, list) and name.isdecimal() and len(name) < 10:
                one = one[int(name)] if int(name) < len(one) else None
            else:
                return None
        return one

    def header(self, name: str) -> str | None:
        """The first header of that name, as text."""
        for key, value in self.found.record.headers:
            self.steps.take()
            if key == name:
                return None if value is None else value.decode(errors="replace")
        return None


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _as_number(text: str) -> int | float | None:
    """A text that is a number of a sane length."""
    if len(text) > 40:
        return None
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return None


def compare(operator: str, left: Any, right: Any) -> bool:
    """Whether a value of a record is to a literal as the operator says."""
    if isinstance(left, str) and is_number(right):
        left = _as_number(left)
    if left is None or right is None:
        same = left is right
        return same if operator == "=" else not same if operator == "!=" else False
    comparable = (is_number(left) and is_number(right)) or (
        isinstance(left, str) and isinstance(right, str)
    )
    if operator in ("=", "!="):
        same = left == right if comparable or type(left) is type(right) else False
        return same == (operator == "=")
    if not comparable:
        return False
    if operator == "<":
        return bool(left < right)
    if operator == "<=":
        return bool(left <= right)
    return bool(left > right) if operator == ">" else bool(left >= right)


def text_of(value: Any) -> str | None:
    """A value of a record as text for `contains` and `matches`."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)
