"""What changed in a cluster between two samples of it, as sentences with their times."""

from __future__ import annotations

from typing import ClassVar, Final

from fencepost.console.changes import Change, changes_between
from fencepost.console.page import Level
from fencepost.console.sample import Sample
from fencepost.views.times import iso_time
from fencepost.views.view import View, count

NAMED_MAX: Final = 3
"""Changes of one kind that are told one by one; of more, their number and the first."""

WITHOUT_EVENTS: Final = ("group",)
"""What changes as a matter of course: the pages about it show how."""


class Event(View, frozen=True):
    """Something seen to have changed by a time (ms since 1970): between that look and the last.
    `kind` is of what, `name` its name, None where the event stands for several."""

    columns: ClassVar = {"seen": "seen", "what": "text"}

    seen_at_ms: int
    text: str
    level: Level
    kind: str = ""
    name: str | None = None

    @property
    def seen(self) -> str:
        return iso_time(self.seen_at_ms)


def events_between(before: Sample, after: Sample) -> list[Event]:
    """What changed: brokers, controller, topics, leaders and replicas in sync."""
    alike: dict[tuple[str, str, Level], list[Change]] = {}
    for change in changes_between(before, after):
        if change.kind not in WITHOUT_EVENTS:
            alike.setdefault((change.kind, change.what, change.level), []).append(change)
    return [event for changes in alike.values() for event in _told(changes, after.taken_at_ms)]


def _told(changes: list[Change], seen_at_ms: int) -> list[Event]:
    first = changes[0]
    if len(changes) <= NAMED_MAX:
        return [Event(seen_at_ms, one.text, one.level, one.kind, one.name) for one in changes]
    text = f"{first.text}; and {count(len(changes) - 1, 'more change')} of this kind"
    return [Event(seen_at_ms, text, first.level, first.kind)]
