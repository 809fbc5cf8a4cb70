"""KIP-227, rule by rule."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable, Sequence

import pytest
from msgspec.structs import replace

from fencepost.machines.fetch import (
    FetchContext,
    FetchOutcome,
    FetchSessions,
    FetchWanted,
    Finished,
)
from fencepost.machines.fetch.sessions import EPOCH_MAX, PARTITION_BYTES, next_epoch
from fencepost.wire.errors import ErrorCode

Sessions = FetchSessions[str]


def want(key: str, offset: int = 0) -> FetchWanted[str]:
    return FetchWanted(key, offset, 1_000)


class Client:
    """Sends fetches and keeps its idea of the session, as a client does."""

    def __init__(self, sessions: Sessions, *, is_follower: bool = False, ids: bool = True) -> None:
        self.sessions = sessions
        self.is_follower = is_follower
        self.ids = ids
        self.session_id = 0
        self.epoch = 0
        self.now_ms = 0

    def begin(
        self, wanted: Iterable[str | FetchWanted[str]] = (), forgotten: Sequence[str] = ()
    ) -> FetchContext[str] | ErrorCode:
        return self.sessions.begin(
            self.session_id,
            self.epoch,
            [want(w) if isinstance(w, str) else w for w in wanted],
            forgotten,
            is_follower=self.is_follower,
            uses_topic_ids=self.ids,
            now_ms=self.now_ms,
        )

    def fetch(
        self,
        wanted: Iterable[str | FetchWanted[str]] = (),
        forgotten: Sequence[str] = (),
        **outcomes: FetchOutcome,
    ) -> list[str]:
        """One exchange; the keys in the answer."""
        context = self.begin(wanted, forgotten)
        assert isinstance(context, FetchContext)
        results = [(p.key, outcomes.get(p.key, FetchOutcome())) for p in context.partitions]
        finished = context.finish(results, self.now_ms)
        assert finished.error_code is ErrorCode.NONE
        self.session_id = finished.session_id
        self.epoch = next_epoch(self.epoch) if finished.session_id else 0
        return [results[index][0] for index in finished.included]


def make(**settings: int) -> Sessions:
    ids = iter(range(101, 10_000))
    return FetchSessions(lambda: next(ids), **settings)


def test_a_full_fetch_makes_a_session_and_answers_everything() -> None:
    client = Client(make())
    assert client.fetch(["a", "b"]) == ["a", "b"]
    assert (client.session_id, client.epoch) == (101, 1)


def test_a_fetch_without_a_session_leaves_none() -> None:
    sessions = make()
    client = Client(sessions)
    client.epoch = -1
    context = client.begin(["a"])
    assert isinstance(context, FetchContext)
    finished = context.finish([("a", FetchOutcome())], 0)
    assert finished == Finished(ErrorCode.NONE, 0, range(1))
    assert len(sessions) == 0


def test_a_fetch_of_nothing_makes_a_session_that_takes_partitions_later() -> None:
    sessions = make()
    client = Client(sessions)
    assert client.fetch([]) == []
    assert (client.session_id, len(sessions)) == (101, 1)
    assert client.fetch(["a"], a=FetchOutcome(5, 10, 0)) == ["a"]
    assert client.session_id == 101
    client = Client(sessions)
    client.fetch([])
    assert client.fetch([]) == []
    assert client.session_id == 0 and len(sessions) == 1, "still empty at the next request: gone"


QUIET = FetchOutcome(0, 10, 0)


@pytest.mark.parametrize(
    ("outcome", "included"),
    [
        (QUIET, False),
        (FetchOutcome(1, 10, 0), True),
        (FetchOutcome(0, 11, 0), True),
        (FetchOutcome(0, 10, 3), True),
        (FetchOutcome(0, 10, 0, error_code=6), True),
        (FetchOutcome(0, 10, 0, has_diverging_epoch=True), True),
        (FetchOutcome(0, 10, 0, has_preferred_replica=True), True),
    ],
)
def test_an_incremental_answer_has_only_what_changed(outcome: FetchOutcome, included: bool) -> None:
    client = Client(make())
    client.fetch(["a", "b"], a=QUIET, b=QUIET)
    assert client.fetch(a=outcome, b=QUIET) == (["a"] if included else [])
    assert client.epoch == 2


@pytest.mark.parametrize(
    "outcome",
    [replace(QUIET, error_code=6), replace(QUIET, has_diverging_epoch=True)],
    ids=["error", "diverging"],
)
def test_what_comes_behind_an_error_or_a_divergence_is_answered(outcome: FetchOutcome) -> None:
    client = Client(make())
    client.fetch(["a"], a=QUIET)
    assert client.fetch(a=outcome) == ["a"]
    assert client.fetch(a=QUIET) == ["a"]
    assert client.fetch(a=QUIET) == []


def test_partitions_are_added_changed_and_forgotten() -> None:
    client = Client(make())
    client.fetch(["a", "b"], a=QUIET, b=QUIET)
    context = client.begin([want("c", 5), want("a", 7)], ["b"])
    assert isinstance(context, FetchContext)
    assert [(p.key, p.fetch_offset) for p in context.partitions] == [("a", 7), ("c", 5)]


def test_a_partition_asked_for_at_another_offset_is_not_changed_by_that() -> None:
    client = Client(make())
    client.fetch(["a"], a=QUIET)
    assert client.fetch([want("a", 5)], a=QUIET) == []
    assert client.fetch([want("a", 6)], a=FetchOutcome(0, 11, 0)) == ["a"]


def test_a_partition_that_one_request_names_and_forgets_is_dropped() -> None:
    sessions = make()
    client = Client(sessions)
    client.fetch(["a", "b"])
    context = client.begin([want("a", 9), want("c", 1), want("b", 5)], ["a", "c"])
    assert isinstance(context, FetchContext)
    assert [(p.key, p.fetch_offset) for p in context.partitions] == [("b", 5)]
    only_b = Client(other := make())
    only_b.fetch(["b"])
    assert sessions.used_bytes == other.used_bytes


def test_partitions_with_records_go_to_the_end() -> None:
    client = Client(make())
    client.fetch(["a", "b", "c"], a=QUIET, b=QUIET, c=QUIET)
    assert client.fetch(a=FetchOutcome(5, 10, 0), b=QUIET, c=QUIET) == ["a"]
    context = client.begin()
    assert isinstance(context, FetchContext)
    assert [p.key for p in context.partitions] == ["b", "c", "a"]


def test_an_emptied_session_is_gone() -> None:
    sessions = make()
    client = Client(sessions)
    client.fetch(["a"])
    assert client.fetch([], ["a"]) == []
    assert client.session_id == 0 and len(sessions) == 0


def test_what_the_request_names_that_empties_a_session_is_answered_without_one() -> None:
    sessions = make()
    client = Client(sessions)
    client.fetch(["a"])
    assert client.fetch(["a", "b"], ["a", "b"]) == ["a", "b"]
    assert client.session_id == 0 and len(sessions) == 0


def test_an_unknown_session() -> None:
    client = Client(make())
    client.session_id, client.epoch = 55, 1
    assert client.begin() is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("epoch", [2, 3, EPOCH_MAX])
def test_a_wrong_epoch(epoch: int) -> None:
    client = Client(make())
    client.fetch(["a"])
    client.epoch = epoch
    assert client.begin() is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_a_repeated_request_is_refused() -> None:
    client = Client(make())
    client.fetch(["a"])
    client.fetch()
    client.epoch = 1
    assert client.begin() is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_names_and_ids_do_not_mix() -> None:
    client = Client(make(), ids=False)
    client.fetch(["a"])
    client.ids = True
    assert client.begin() is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    client.ids = False
    assert isinstance(client.begin(), FetchContext)


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_full_request_closes_the_session_it_names(epoch: int) -> None:
    sessions = make()
    client = Client(sessions)
    client.fetch(["a"])
    client.epoch = epoch
    client.begin(["a"])
    assert len(sessions) == 0


def test_an_overtaken_request_is_answered_with_an_error() -> None:
    client = Client(make())
    client.fetch(["a"])
    first = client.begin()
    client.epoch = 2
    second = client.begin()
    assert isinstance(first, FetchContext) and isinstance(second, FetchContext)
    late = first.finish([("a", QUIET)], 0)
    assert (late.error_code, late.included) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, ())
    assert second.finish([("a", QUIET)], 0).error_code is ErrorCode.NONE


def test_a_session_closed_meanwhile_is_an_error() -> None:
    sessions = make()
    client = Client(sessions)
    client.fetch(["a"])
    context = client.begin()
    assert isinstance(context, FetchContext)
    client.epoch = 0
    client.begin(["a"])
    assert context.finish([("a", QUIET)], 0).error_code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_epochs_wrap_to_one() -> None:
    assert [next_epoch(e) for e in (0, 1, EPOCH_MAX - 1, EPOCH_MAX, -1)] == [
        1, 2, EPOCH_MAX, 1, -1,
    ]  # fmt: skip


def test_ids_in_use_are_drawn_again() -> None:
    ids = iter([7, 7, 0, 8])
    sessions: Sessions = FetchSessions(lambda: next(ids))
    first, second = Client(sessions), Client(sessions)
    first.fetch(["a"])
    second.fetch(["a"])
    assert (first.session_id, second.session_id) == (7, 8)


# A full cache


def fill(sessions: Sessions, *sizes: int, is_follower: bool = False) -> list[Client]:
    clients = [Client(sessions, is_follower=is_follower) for _ in sizes]
    for client, size in zip(clients, sizes, strict=True):
        client.fetch([f"p{i}" for i in range(size)])
    return clients


def test_a_newcomer_gets_no_session_while_all_are_fresh() -> None:
    sessions = make(max_slots=2)
    fill(sessions, 1, 1)
    newcomer = Client(sessions)
    assert newcomer.fetch(["a", "b", "c"]) == ["a", "b", "c"]
    assert newcomer.session_id == 0 and len(sessions) == 2


def test_no_slots_no_sessions() -> None:
    (client,) = fill(make(max_slots=0), 3)
    assert client.session_id == 0


def test_a_session_nobody_uses_is_evicted() -> None:
    sessions = make(max_slots=2)
    idle, busy = fill(sessions, 5, 5)
    busy.now_ms = 119_000
    busy.fetch()
    newcomer = Client(sessions)
    newcomer.now_ms = 120_001
    newcomer.fetch(["a"])
    assert newcomer.session_id != 0
    assert idle.begin() is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert isinstance(busy.begin(), FetchContext)


def test_an_old_smaller_session_is_evicted_for_a_bigger_one() -> None:
    sessions = make(max_slots=2)
    small, large = fill(sessions, 2, 4)
    for client in (small, large):
        client.now_ms = 121_000
        client.fetch()
    newcomer = Client(sessions)
    newcomer.now_ms = 121_001
    newcomer.fetch(["a"])
    assert newcomer.session_id == 0, "it is no bigger than the smallest"
    newcomer.fetch(["a", "b", "c"])
    assert newcomer.session_id != 0
    assert small.begin() is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert isinstance(large.begin(), FetchContext)


def test_an_old_session_that_has_grown_is_not_evicted_for_a_smaller_one() -> None:
    sessions = make(max_slots=1)
    (grown,) = fill(sessions, 1)
    for now_ms, named in ((121_000, ()), (121_001, ("a", "b", "c"))):
        grown.now_ms = now_ms
        grown.fetch(named)
    newcomer = Client(sessions)
    newcomer.now_ms = 121_002
    newcomer.fetch(["a", "b"])
    assert newcomer.session_id == 0
    assert isinstance(grown.begin(), FetchContext)


def test_a_follower_displaces_a_consumer_however_young_and_never_another_follower() -> None:
    sessions = make(max_slots=1)
    (consumer,) = fill(sessions, 9)
    (follower,) = fill(sessions, 1, is_follower=True)
    assert follower.session_id != 0
    assert consumer.begin() is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    (second,) = fill(sessions, 50, is_follower=True)
    assert second.session_id == 0
    (again,) = fill(sessions, 50)
    assert again.session_id == 0


def test_an_old_smaller_follower_is_evicted_for_a_bigger_one() -> None:
    sessions = make(max_slots=1)
    (small,) = fill(sessions, 2, is_follower=True)
    for now_ms in (60_000, 121_000):
        small.now_ms = now_ms
        small.fetch()
    newcomer = Client(sessions, is_follower=True)
    newcomer.now_ms = 121_001
    newcomer.fetch(["a", "b", "c"])
    assert newcomer.session_id != 0
    assert small.begin() is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_cached_partitions_are_counted() -> None:
    sessions = make()
    fill(sessions, 2, 3)
    assert (len(sessions), sessions.cached_partitions) == (2, 5)


# Memory


def names(count: int, of: str = "p") -> list[str]:
    return [f"{of}{i}" for i in range(count)]


def test_what_partitions_take_is_counted_until_they_are_forgotten() -> None:
    sessions = make()
    client, other = fill(sessions, 3, 2)
    assert sessions.used_bytes == 5 * PARTITION_BYTES
    client.fetch(["p0", "new"], ["p1"])
    assert sessions.used_bytes == 5 * PARTITION_BYTES, "one named again, one new, one less"
    client.fetch((), ["unheard-of", "p0"])
    assert sessions.used_bytes == 4 * PARTITION_BYTES
    client.epoch = -1
    client.fetch(["p0"])
    assert sessions.used_bytes == 2 * PARTITION_BYTES
    other.fetch((), names(2))
    assert sessions.used_bytes == 0


def test_sessions_take_no_more_than_they_may_however_many_slots_are_left() -> None:
    sessions = make(max_bytes=10 * PARTITION_BYTES)
    first, second, third = fill(sessions, 6, 5, 4)
    assert (first.session_id > 0, second.session_id, third.session_id > 0) == (True, 0, True)
    assert sessions.used_bytes == 10 * PARTITION_BYTES
    (alone,) = fill(make(max_bytes=10 * PARTITION_BYTES), 11)
    assert alone.session_id == 0
    assert alone.fetch(names(11)) == names(11), "who has no session is served all the same"


def test_names_count_with_their_length() -> None:
    sessions: Sessions = FetchSessions(lambda: 1, max_bytes=10_000, size_of=len)
    client = Client(sessions)
    client.fetch(["a" * 10_001])
    assert client.session_id == 0
    client.fetch(["a" * 10_000])
    assert (client.session_id, sessions.used_bytes) == (1, 10_000)


def test_as_many_idle_sessions_are_evicted_as_it_takes_the_longest_idle_first() -> None:
    sessions = make(max_bytes=10 * PARTITION_BYTES)
    clients = fill(sessions, 3, 3, 3)
    for at_ms, client in enumerate(clients):
        client.now_ms = 100 - at_ms
        client.fetch()
    newcomer = Client(sessions)
    newcomer.now_ms = 200_000
    newcomer.fetch(names(5))
    assert newcomer.session_id != 0
    gone = [client.begin() is ErrorCode.FETCH_SESSION_ID_NOT_FOUND for client in clients]
    assert gone == [True, True, False], "in the order in which they were last used"
    assert sessions.used_bytes == 8 * PARTITION_BYTES


def test_nobody_is_evicted_for_a_newcomer_that_has_no_room_even_so() -> None:
    sessions = make(max_bytes=10 * PARTITION_BYTES)
    consumer, other = fill(sessions, 4, 4)
    other.is_follower = True
    (follower,) = fill(sessions, 2, is_follower=True)
    (too_large,) = fill(sessions, 9, is_follower=True)
    assert too_large.session_id == 0
    assert isinstance(consumer.begin(), FetchContext)
    assert isinstance(follower.begin(), FetchContext)
    (fits,) = fill(sessions, 8, is_follower=True)
    assert fits.session_id != 0, "two consumers make room for it"


def test_room_is_counted_once_for_each_session_that_goes() -> None:
    """An idle consumer's session may go for two reasons."""
    sessions = make(max_bytes=10 * PARTITION_BYTES)
    _, busy = fill(sessions, 3, 6)
    busy.now_ms = 200_000
    busy.fetch()
    follower = Client(sessions, is_follower=True)
    follower.now_ms = 200_000
    follower.fetch(names(6))
    assert sessions.used_bytes <= 10 * PARTITION_BYTES
    assert follower.session_id != 0, "both make room for it"


def test_a_partition_that_is_named_twice_is_counted_once() -> None:
    sessions = make()
    client = Client(sessions)
    client.fetch(["a", "a"])
    assert sessions.used_bytes == PARTITION_BYTES
    client.fetch((), ["a"])
    assert sessions.used_bytes == 0


def test_a_session_that_grows_takes_no_further_slot() -> None:
    sessions = make(max_slots=2)
    growing, other = fill(sessions, 2, 2)
    growing.fetch(["new"])
    assert growing.session_id != 0
    assert isinstance(other.begin(), FetchContext)


def test_a_session_that_grows_beyond_the_bound_is_closed_and_asked_for_anew() -> None:
    sessions = make(max_bytes=10 * PARTITION_BYTES)
    growing, other = fill(sessions, 4, 4)
    growing.fetch(["new-1", "new-2"])
    assert sessions.used_bytes == 10 * PARTITION_BYTES
    assert growing.begin(["new-3"]) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.used_bytes == 4 * PARTITION_BYTES
    assert isinstance(other.begin(), FetchContext), "it has done nothing"


def test_a_session_that_grows_evicts_an_idle_one_but_never_itself() -> None:
    sessions = make(max_slots=2, max_bytes=10 * PARTITION_BYTES)
    growing, idle = fill(sessions, 5, 4)
    growing.now_ms = 120_001
    growing.fetch(["new-1", "new-2"])
    assert growing.session_id != 0
    assert idle.begin() is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.used_bytes == 7 * PARTITION_BYTES
    growing.now_ms = 300_000
    assert growing.begin(names(9, of="q")) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(sessions), sessions.used_bytes) == (0, 0)


def test_a_partition_of_a_session_takes_no_more_than_it_is_counted_with() -> None:
    """Keys as the broker has them: a name that is shared, a number that is not."""
    count, topic = 20_000, "nosuch"
    sessions: FetchSessions[tuple[str, int]] = FetchSessions(lambda: 1)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        wanted = [FetchWanted((topic, 1000 + i), 10_000 + i, 1 << 20) for i in range(count)]
        context = sessions.begin(
            0, 0, wanted, (), is_follower=False, uses_topic_ids=False, now_ms=0
        )
        assert isinstance(context, FetchContext)
        context.finish([(one.key, FetchOutcome(error_code=3)) for one in wanted], 0)
        del wanted, context
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sessions.cached_partitions == count
    assert (after - before) / count <= PARTITION_BYTES
