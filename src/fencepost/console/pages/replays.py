"""Recordings of simulated runs, and one of them step by step as swim lanes."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Final

from fencepost.console.asked import Asked, NotThere, path_to
from fencepost.console.drawing.lanes import lanes
from fencepost.console.page import Field, Page, Section, Sentence, Table
from fencepost.console.session import Session, now_ms
from fencepost.sim.oracle import Violation
from fencepost.sim.recording import Recording, read_recording, replay_recording
from fencepost.views.story import StoryStep, steps_of
from fencepost.views.view import View, count

STEPS: Final = 120
FILE_BYTES_MAX: Final = 16 * 1024 * 1024
WHOLE_MAX: Final = 5_000
"""Steps of a page that has all of them."""

KEPT: Final = 8
"""Replayed recordings that are kept in memory."""

FETCHES: Final = ("Fetch e", "FetchAnswer hw")
"""How a leader's and its followers' everyday messages begin."""


class RecordingRow(View, frozen=True):
    """A recording in a list; `kind` is the violation that it shows."""

    columns: ClassVar = {"recording": "name", "seed": "seed", "violation": "kind", "bug": "bug"}

    name: str
    seed: int | None
    kind: str | None
    bug: str | None


class Told(View, frozen=True):
    """A recording that was replayed: whether its violation came out again, and every step."""

    kind: str | None
    text: str | None
    steps: list[StoryStep]
    nodes: list[int]


async def replays(session: Session, asked: Asked) -> Page:
    """The recordings that the console was given."""
    rows = [_row(path) for path in _recordings(session)]
    links = [path_to("replays", row.name) for row in rows]
    words = count(len(rows), "recording")
    hint = "" if rows else "; name files or directories of them with --recordings"
    table = Table("recordings", RecordingRow, rows, {"recording": links})
    section = Section("", [Sentence(f"{words}{hint}.")], [table], rows)
    return Page("Replays of the simulator", [section], now_ms(), refresh_s=None)


def _recordings(session: Session) -> Iterator[Path]:
    for given in session.options.recordings:
        yield from sorted(given.glob("*.json")) if given.is_dir() else [given]


def _row(path: Path) -> RecordingRow:
    try:
        found = _read(path)
    except (ValueError, OSError) as error:
        return RecordingRow(path.name, None, f"cannot be read: {error}", None)
    return RecordingRow(path.name, found.seed, found.kind, found.ablation)


def _read(path: Path) -> Recording:
    if path.stat().st_size > FILE_BYTES_MAX:
        raise ValueError(f"larger than {FILE_BYTES_MAX} bytes")
    return read_recording(path.read_text(errors="replace"))


async def replay(session: Session, asked: Asked) -> Page:
    """A recording step by step, from `first` on; the run is made again for it."""
    name = asked.text("recording")
    path = next((one for one in _recordings(session) if one.name == name), None)
    if path is None:
        raise NotThere(f"no recording {name!r} among those that the console was given")
    messages = asked.choice("messages", ("what matters", "all"))
    try:
        told = await asyncio.to_thread(_told, path, path.stat().st_mtime_ns)
    except (ValueError, OSError) as error:
        raise NotThere(f"{path}: {error}") from None
    return page_of(name, told, asked, messages)


@functools.lru_cache(maxsize=KEPT)
def _told(path: Path, _: int) -> Told:
    return tell(_read(path))


def tell(recording: Recording) -> Told:
    """Replay a recording and keep what is told."""
    lines: list[str] = []
    outcome = replay_recording(recording, tell=lines.append)
    return told_of(outcome.violation, lines)


def told_of(violation: Violation | None, lines: list[str]) -> Told:
    """What a run has told, and the violation that it ended with, if it did."""
    steps = steps_of(lines)
    ends = {step.source for step in steps} | {step.target for step in steps}
    return Told(
        None if violation is None else violation.kind,
        None if violation is None else violation.text,
        steps,
        sorted(one for one in ends if one is not None),
    )


def whole_page(name: str, told: Told) -> Page:
    """All that matters of a run on one page, the last WHOLE_MAX steps of it."""
    matters = [one for one in told.steps if _matters(one)]
    shown = matters[-WHOLE_MAX:]
    sentences = [_verdict(told), Sentence(f"The last {len(shown)} of {len(matters)} steps.")]
    drawing = lanes(f"replay of {name}", shown, told.nodes)
    return Page(f"Replay of {name}", [Section("", sentences, [drawing])], now_ms(), refresh_s=None)


def page_of(name: str, told: Told, asked: Asked, messages: str) -> Page:
    """The page of a recording that was replayed."""
    steps = told.steps if messages == "all" else [one for one in told.steps if _matters(one)]
    first = asked.number("first", max(0, len(steps) - STEPS), 0, max(0, len(steps)))
    shown = steps[first : first + STEPS]
    where = f"Steps {first + 1} to {first + len(shown)} of {len(steps)}."
    more = {"messages": messages if messages == "all" else None}
    sentences = [_verdict(told), Sentence(where)]
    if first > 0:
        before = path_to("replays", name, first=max(0, first - STEPS), **more)
        sentences.append(Sentence("The steps before these.", link=before))
    end = first + len(shown)
    return Page(
        f"Replay of {name}",
        [Section("", sentences, [lanes(f"replay of {name}", shown, told.nodes)], shown)],
        now_ms(),
        refresh_s=None,
        fields=[Field("messages", "messages", messages, ("what matters", "all"))],
        more=path_to("replays", name, first=end, **more) if end < len(steps) else None,
    )


def _verdict(told: Told) -> Sentence:
    if told.kind is None:
        return Sentence("Nothing was violated in this run.")
    return Sentence(f"{told.kind}: {told.text}", "bad")


def _matters(step: StoryStep) -> bool:
    return not (step.kind == "message" and step.text.startswith(FETCHES))
