"""A change before it is made: what the request would say, against what is there now."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fencepost.console.page import Sentence
from fencepost.console.session import Session


@dataclass(frozen=True, slots=True)
class Plan:
    """A change that can be made now.

    `target` is the name that has to be typed to make it. `diff` has a line for each thing that the
    request changes: "- " before what is there, "+ " before what will be. `audited` is what the
    audit line says of it, without what records hold; `carry_out` may add what only it finds out. It
    makes the change and returns what
    became of it, in a sentence; it raises ClientError.
    """

    target: str
    diff: Sequence[str]
    carry_out: Callable[[Session], Awaitable[str]]
    sentences: Sequence[Sentence] = ()
    audited: Mapping[str, Any] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """The same for two plans that show the same: what is carried out is what was shown."""
        shown = json.dumps([self.target, list(self.diff)]).encode()
        return hashlib.sha256(shown).hexdigest()


class CannotBe(ValueError):
    """A change that the cluster, as it is now, does not allow; the text says why."""
