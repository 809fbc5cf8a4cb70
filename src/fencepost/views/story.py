"""The story of a simulated run, step by step: what each line of a replay in words says."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import ClassVar, Final, Literal

from fencepost.views.view import View

Kind = Literal["message", "node", "fault", "note"]
LINE: Final = re.compile(r"\s*(\d+\.\d+)  (.*)", re.DOTALL)
MESSAGE: Final = re.compile(r"(\d+)->(\d+) (.*)", re.DOTALL)
NODE: Final = re.compile(r"(\d+) (.*)", re.DOTALL)
FAULT: Final = "** "
"""Before what the simulator does to the world: crashes, cut links, damaged disks."""


class StoryStep(View, frozen=True):
    """A step at a simulated time: a message that arrives at `target`, something that node `source`
    does or has become, a fault, or a note about the whole world."""

    columns: ClassVar = {"ms": "at_ms", "from": "source", "to": "target", "what": "text"}

    at_ms: float
    kind: Kind
    source: int | None
    target: int | None
    text: str


def steps_of(lines: Iterable[str]) -> list[StoryStep]:
    """The steps that lines of `fencepost sim replay --words` tell; others are left out."""
    return [_step(float(found[1]), found[2]) for line in lines if (found := LINE.fullmatch(line))]


def _step(at_ms: float, text: str) -> StoryStep:
    if text.startswith(FAULT):
        return StoryStep(at_ms, "fault", None, None, text.removeprefix(FAULT))
    message = MESSAGE.fullmatch(text)
    if message is not None:
        return StoryStep(at_ms, "message", int(message[1]), int(message[2]), message[3])
    node = NODE.fullmatch(text)
    if node is not None:
        return StoryStep(at_ms, "node", int(node[1]), None, node[2])
    return StoryStep(at_ms, "note", None, None, text)
