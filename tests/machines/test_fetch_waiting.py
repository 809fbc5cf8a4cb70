"""Long polls: whom a moving partition wakes, and whom it does not."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
from hypothesis import given, strategies as st

from fencepost.machines.fetch import FetchTerms, FetchWanted, PendingFetch, PendingFetches
from fencepost.machines.partition import FetchBounds
from fencepost.wire.errors import ErrorCode


class Client:
    """Whoever waits."""


class Shelf:
    """A partition that has so many bytes for whoever fetches from it; counts how often it is asked.

    Its machine says so with an upper bound, and its log measures up to there.
    """

    high_watermark = leader_epoch = log_start_offset = 0
    has_ended = False
    compression_type = "producer"

    def __init__(self, size_bytes: int | ErrorCode = 0) -> None:
        self.size_bytes = size_bytes
        self.asked = 0

    @property
    def machine(self) -> Shelf:
        return self

    log = config = machine

    def check_fetch(self, *, fetch_offset: int, **_: Any) -> FetchBounds | ErrorCode:
        self.asked += 1
        if isinstance(self.size_bytes, ErrorCode):
            return self.size_bytes
        return FetchBounds(self.size_bytes, 0, 0, 0, 0)

    def measure(self, offset: int, max_bytes: int, upper_bound_offset: int) -> int:
        return upper_bound_offset - offset


def share(key: str) -> FetchWanted[str]:
    return FetchWanted(key, 0, 1 << 20)


def wait(
    fetches: PendingFetches[str],
    token: Any,
    *keys: str,
    min_bytes: int = 1,
    deadline_ms: int = 500,
    replica_id: int = -1,
) -> PendingFetch[str]:
    terms = FetchTerms(min_bytes, 1 << 20, deadline_ms, replica_id)
    fetch = PendingFetch(token, {key: share(key) for key in keys}, terms)
    fetches.add(fetch)
    return fetch


def tokens(complete: list[PendingFetch[str]]) -> list[str]:
    return [fetch.token for fetch in complete]


def test_bytes_on_one_partition_complete_who_waits_there_in_order() -> None:
    fetches = PendingFetches[str]()
    wait(fetches, "first", "a", "b")
    wait(fetches, "elsewhere", "c")
    wait(fetches, "second", "a")
    assert tokens(fetches.moved("a", Shelf(10))) == ["first", "second"]
    assert len(fetches) == 1
    for key in ("a", "b"):
        assert fetches.moved(key, Shelf(10)) == []


def test_min_bytes_count_over_all_partitions() -> None:
    fetches = PendingFetches[str]()
    wait(fetches, "t", "a", "b", min_bytes=100)
    assert fetches.moved("a", Shelf(60)) == []
    assert fetches.moved("a", Shelf(60)) == [], "the same bytes do not count twice"
    assert tokens(fetches.moved("b", Shelf(40))) == ["t"]


def test_what_was_found_before_waiting_counts() -> None:
    fetches = PendingFetches[str]()
    terms = FetchTerms(100, 1 << 20, 500)
    fetches.add(PendingFetch("t", {"a": share("a"), "b": share("b")}, terms), [("a", 60)])
    assert fetches.moved("b", Shelf(39)) == []
    assert tokens(fetches.moved("b", Shelf(40))) == ["t"]


def test_a_partition_that_cannot_be_waited_for_completes_at_once() -> None:
    fetches = PendingFetches[str]()
    wait(fetches, "t", "a", "b", min_bytes=1_000_000)
    assert tokens(fetches.moved("a", Shelf(ErrorCode.FENCED_LEADER_EPOCH))) == ["t"]


def test_the_end_of_the_log_wakes_replicas_alone() -> None:
    fetches = PendingFetches[str]()
    wait(fetches, "consumer", "a")
    wait(fetches, "replica", "a", replica_id=2)
    shelf = Shelf(10)
    assert tokens(fetches.moved("a", shelf, log_end_alone=True)) == ["replica"]
    assert shelf.asked == 1, "nobody asks for the consumer"
    assert tokens(fetches.moved("a", shelf)) == ["consumer"]


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
    client = Client()
    fetch = wait(fetches, client, "a", "b", deadline_ms=1 << 40)
    kept = weakref.ref(client)
    del client
    if end == "cancelled":
        assert fetches.cancel(fetch)
    else:
        assert fetches.gone("a") == [fetch]
    assert kept() is not None
    del fetch
    assert kept() is None
    assert fetches.next_deadline_ms() is None


def test_fetches_expire_in_the_order_of_their_deadlines() -> None:
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
    fetches = PendingFetches[str]()
    for number in range(1_000):
        wait(fetches, f"idle{number}", f"p{number}")
    shelf = Shelf(1)
    for _ in range(100):
        wait(fetches, "busy", "a")
        assert tokens(fetches.moved("a", shelf)) == ["busy"]
    assert shelf.asked == 100


def test_memory_follows_who_waits_not_who_waited() -> None:
    fetches = PendingFetches[str]()
    for number in range(10_000):
        wait(fetches, "t", "a", deadline_ms=10**9 + number)
        fetches.moved("a", Shelf(1))
    assert len(fetches._deadlines) < 200 and not fetches._by_partition


@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "move", "expire", "cancel", "gone"]), st.integers(0, 3)),
        max_size=60,
    )
)
def test_every_fetch_completes_exactly_once(script: list[tuple[str, int]]) -> None:
    fetches = PendingFetches[str]()
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
            done += fetches.moved(key, Shelf(1))
        elif action == "expire":
            done += fetches.expired(now)
        elif action == "gone":
            done += fetches.gone(key)
        elif waiting and fetches.cancel(waiting[0]):
            done.append(waiting[0])
    done += fetches.expired(now + 100)
    assert sorted(map(id, done)) == sorted(map(id, waiting))
    assert len(fetches) == 0 and fetches.next_deadline_ms() is None
