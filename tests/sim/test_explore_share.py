"""All histories of one share partition, two members and a crash; and what the search must see."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from fencepost.machines.share import acknowledging, part
from fencepost.machines.share.in_flight import InFlight
from fencepost.machines.share.inputs import Acquire, OffsetRange
from fencepost.machines.share.partition import SharePartition
from fencepost.machines.share.pieces import PieceOf, Pieces
from fencepost.sim.explore import Search
from fencepost.sim.explore.search import Report

from .share_space import Bounds, Space

ONE_RECORD = (OffsetRange(0, 0),)
SPACES = {
    "a crash, a lost write and a lock that runs out": Bounds(ONE_RECORD),
    "sessions that end": Bounds(ONE_RECORD, losses=0, session_ends=1),
    "a lock that is renewed": Bounds(ONE_RECORD, losses=0, renewals=1),
    "what is aborted": Bounds(limit=1, aborted=ONE_RECORD),
    "dead letters and a crash": Bounds(ONE_RECORD, losses=0, has_letters=True),
}
LARGE_SPACES = {
    "two records and a crash": Bounds(losses=0, expiries=0),
    "two records that are delivered once, a crash and a lost write": Bounds(limit=1, expiries=0),
    "two crashes": Bounds(ONE_RECORD, crashes=2, losses=2),
}


def explore(bounds: Bounds) -> Report[Any, Any]:
    return Search(Space(bounds)).run()


def assert_sound(bounds: Bounds) -> None:
    report = explore(bounds)
    assert report.violation is None, "\n".join(str(action) for action, _ in report.path)
    assert report.covered
    assert report.states > 100, "a space in which nothing happens would be sound, too"


@pytest.mark.parametrize("name", SPACES)
def test_no_history_breaks_a_law(name: str) -> None:
    assert_sound(SPACES[name])


@pytest.mark.long
@pytest.mark.parametrize("name", LARGE_SPACES)
def test_no_longer_history_breaks_a_law(name: str) -> None:
    assert_sound(LARGE_SPACES[name])


def _told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members are answered before their acknowledgement is written."""
    write = part.ShareState.write

    def write_and_tell(self: Any, changes: Any, under_way: Any) -> Pieces:
        self.reply(under_way.token, 0)
        under_way.token = None
        return write(self, changes, under_way)

    monkeypatch.setattr(part.ShareState, "write", write_and_tell)


def _no_transition(monkeypatch: pytest.MonkeyPatch) -> None:
    """The start passes what is acknowledged and may yet return to its member."""

    def after(self: InFlight, changed: object) -> PieceOf[tuple[int, int]]:
        yield from ()
        return self.end_offset + 1, 0

    monkeypatch.setattr(InFlight, "after", after)


def _free_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a lock forgets how often the record was delivered."""
    expire_locks = acknowledging.expire_locks

    def expire_and_forget(state: Any, now_ms: int) -> Pieces:
        yield from expire_locks(state, now_ms)
        for run in state.in_flight.runs:
            run.delivery_count = 0

    monkeypatch.setattr(acknowledging, "expire_locks", expire_and_forget)


def _renewals_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is told to be locked for longer is free when the first lock is over."""
    expire_locks = acknowledging.expire_locks
    monkeypatch.setattr(
        acknowledging, "expire_locks", lambda state, now_ms: expire_locks(state, now_ms + 1)
    )


BROKEN = {"I48": _told_at_once, "I47": _no_transition, "I46": _free_when_asked}


@pytest.mark.parametrize("law", BROKEN)
def test_a_machine_that_is_broken_breaks_a_law(law: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BROKEN[law](monkeypatch)
    report = explore(Bounds(losses=0))
    assert report.violation is not None
    assert report.violation.startswith(law)
    assert report.path, "and the shortest way to it is told"


def test_a_renewal_that_is_forgotten_breaks_a_law(monkeypatch: pytest.MonkeyPatch) -> None:
    _renewals_are_forgotten(monkeypatch)
    report = explore(SPACES["a lock that is renewed"])
    assert report.violation is not None
    assert report.violation.startswith("I46")


def test_what_is_aborted_and_delivered_breaks_a_law(monkeypatch: pytest.MonkeyPatch) -> None:
    acquire = SharePartition.step
    monkeypatch.setattr(
        SharePartition,
        "step",
        lambda self, input_, now_ms: acquire(
            self,
            replace(input_, aborted=()) if isinstance(input_, Acquire) else input_,
            now_ms,
        ),
    )
    report = explore(SPACES["what is aborted"])
    assert report.violation is not None
    assert report.violation.startswith("I33")
