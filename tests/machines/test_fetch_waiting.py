"""Long polls: whom a moving partition wakes, and whom it does not."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
from hypothesis import given, strategies as st

from fencepost.machines.fetch import PendingFetch, PendingFetches


class Share:
    """What a fetch wants of a partition."""


class Log:
    """Counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.end: dict[str, int | None] = {}

    def __call__(self, fetch: PendingFetch[str], share: Any) -> int | None:
        self.asked += 1
        key, offset = share
        end = self.end.get(key, 0)
        return None if end is None else max(end - offset, 0)


def wait(
    fetches: PendingFetches[str],
    token: str,
    *keys: str,
    min_bytes: int = 1,
    deadline_ms: int = 500,
) -> PendingFetch[str]:
    fetch = PendingFetch(token, {key: (key, 0) for key in keys}, min_bytes, deadline_ms)
    fetches.add(fetch)
    return fetch


def tokens(complete: list[PendingFetch[str]]) -> list[str]:
    return [fetch.token for fetch in complete]


def test_bytes_on_one_partition_complete_who_waits_there_in_order() -> None:
    fetches, log = PendingFetches[str](), Log()
    wait(fetches, "first", "a", "b")
    wait(fetches, "elsewhere", "c")
    wait(fetches, "second", "a")
    log.end["a"] = 10
    assert tokens(fetches.moved("a", log)) == ["first", "second"]
    assert len(fetches) == 1 and not fetches.waits_on("a") and not fetches.waits_on("b")
    assert fetches.moved("a", log) == []


def test_min_bytes_count_over_all_partitions() -> None:
    fetches, log = PendingFetches[str](), Log()
    wait(fetches, "t", "a", "b", min_bytes=100)
    log.end["a"] = 60
    assert fetches.moved("a", log) == []
    assert fetches.moved("a", log) == [], "the same bytes do not count twice"
    log.end["b"] = 40
    assert tokens(fetches.moved("b", log)) == ["t"]


def test_what_was_found_before_waiting_counts() -> None:
    fetches, log = PendingFetches[str](), Log()
    fetch = PendingFetch("t", {"a": ("a", 0), "b": ("b", 0)}, 100, 500)
    fetches.add(fetch, [("a", 60)])
    log.end["b"] = 39
    assert fetches.moved("b", log) == []
    log.end["b"] = 40
    assert tokens(fetches.moved("b", log)) == ["t"]


def test_a_partition_that_cannot_be_waited_for_completes_at_once() -> None:
    fetches, log = PendingFetches[str](), Log()
    wait(fetches, "t", "a", "b", min_bytes=1_000_000)
    log.end["a"] = None
    assert tokens(fetches.moved("a", log)) == ["t"]


def test_a_partition_that_is_gone_completes_all() -> None:
    fetches = PendingFetches[str]()
    wait(fetches, "t", "a", "b")
    wait(fetches, "u", "b")
    assert tokens(fetches.gone("a")) == ["t"]
    assert fetches.gone("a") == []
    assert len(fetches) == 1


@pytest.mark.parametrize("end", ["cancelled", "complete"])
def test_a_fetch_that_is_gone_is_kept_by_no_deadline(end: str) -> None:
    """A client may wait for days, for thousands of partitions, leave, and come again."""
    fetches = PendingFetches[str]()
    share = Share()
    kept = weakref.ref(share)
    fetch = PendingFetch("t", {"a": share, "b": share}, 1, 1 << 40)
    del share
    fetches.add(fetch)
    if end == "cancelled":
        assert fetches.cancel(fetch)
    else:
        assert fetches.gone("a") == [fetch]
    assert kept() is not None
    del fetch
    assert kept() is None
    assert fetches.next_deadline_ms() is None


def test_deadlines() -> None:
    fetches = PendingFetches[str]()
    wait(fetches, "late", "a", deadline_ms=900)
    early = wait(fetches, "early", "a", deadline_ms=300)
    wait(fetches, "middle", "b", deadline_ms=600)
    assert fetches.next_deadline_ms() == 300
    assert fetches.cancel(early) and not fetches.cancel(early)
    assert fetches.next_deadline_ms() == 600
    assert fetches.expired(599) == []
    assert tokens(fetches.expired(900)) == ["middle", "late"]
    assert fetches.next_deadline_ms() is None and len(fetches) == 0


def test_idle_waiters_of_other_partitions_cost_nothing() -> None:
    fetches, log = PendingFetches[str](), Log()
    for number in range(1_000):
        wait(fetches, f"idle{number}", f"p{number}")
    for _ in range(100):
        wait(fetches, "busy", "a")
        log.end["a"] = 1
        assert tokens(fetches.moved("a", log)) == ["busy"]
    assert log.asked == 100


def test_memory_follows_who_waits_not_who_waited() -> None:
    fetches, log = PendingFetches[str](), Log()
    log.end["a"] = 1
    for number in range(10_000):
        wait(fetches, "t", "a", deadline_ms=10**9 + number)
        fetches.moved("a", log)
    assert len(fetches._deadlines) < 200 and not fetches._by_partition


@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "move", "expire", "cancel", "gone"]), st.integers(0, 3)),
        max_size=60,
    )
)
def test_every_fetch_completes_exactly_once(script: list[tuple[str, int]]) -> None:
    fetches, log = PendingFetches[str](), Log()
    waiting: list[PendingFetch[str]] = []
    done: list[PendingFetch[str]] = []
    now = 0
    for action, number in script:
        now += number
        key = f"p{number}"
        if action == "add":
            keys = [key, "p0"][: 1 + number % 2]
            waiting.append(wait(fetches, "t", *dict.fromkeys(keys), deadline_ms=now + 10))
        elif action == "move":
            log.end[key] = 1
            done += fetches.moved(key, log)
        elif action == "expire":
            done += fetches.expired(now)
        elif action == "gone":
            done += fetches.gone(key)
        elif waiting and fetches.cancel(waiting[0]):
            done.append(waiting[0])
    done += fetches.expired(now + 100)
    assert sorted(map(id, done)) == sorted(map(id, waiting))
    assert len(fetches) == 0 and fetches.next_deadline_ms() is None


@pytest.mark.parametrize("by_ms", [3_600_000, -3_600_000])
def test_a_clock_that_is_set_ends_no_wait_and_makes_none_longer(by_ms: int) -> None:
    fetches = PendingFetches[str]()
    first = wait(fetches, "first", "a", deadline_ms=500)
    wait(fetches, "second", "a", deadline_ms=900)
    fetches.clock_set(by_ms)
    assert fetches.next_deadline_ms() == first.deadline_ms == 500 + by_ms
    assert tokens(fetches.expired(499 + by_ms)) == []
    assert tokens(fetches.expired(500 + by_ms)) == ["first"]
    assert tokens(fetches.expired(900 + by_ms)) == ["second"]
