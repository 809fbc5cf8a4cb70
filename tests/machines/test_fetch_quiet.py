"""Quiet partitions: what makes one stir, for whom, and that nothing is left behind."""

from __future__ import annotations

from fencepost.machines.effects import SetTimer
from fencepost.machines.fetch import (
    Asker,
    FetchSession,
    FetchWanted,
    QuietPartitions,
)
from fencepost.machines.fetch.quiet import LOOKS_MAX, ROUNDS
from fencepost.machines.partition import FollowerSeen

from .test_partition_isr import LAG_MS, proposals
from .test_partition_produce import Leader

BROKER = Asker(2, 20)


def session_of(*keys: str, session_id: int = 1) -> FetchSession[str]:
    session: FetchSession[str] = FetchSession(
        session_id, privileged=True, uses_topic_ids=True, now_ms=0
    )
    session.update([FetchWanted(key, 0, 1) for key in keys], (), len)
    return session


def settled(*keys: str) -> tuple[QuietPartitions[str, str], FetchSession[str]]:
    """A session whose partitions are all quiet; hosts know them by capital letters."""
    quiet, session = QuietPartitions[str, str](), session_of(*keys)
    for key in keys:
        quiet.settle(session, key.upper(), key, BROKER)
    assert list(session.stirring) == []
    return quiet, session


def test_what_moves_stirs_once_for_every_session_and_nothing_else_does() -> None:
    quiet, first = settled("a", "b")
    second = session_of("a", session_id=2)
    quiet.settle(second, "A", "a", Asker(3, 30))
    first.last_used_ms = 77
    stirred = quiet.stir("A")
    assert stirred == [("A", first, "a", BROKER, 77), ("A", second, "a", Asker(3, 30), 0)]
    assert (list(first.stirring), list(second.stirring)) == (["a"], ["a"])
    assert quiet.stir("A") == []
    assert len(quiet) == 1


def test_each_quiet_partition_is_looked_at_again_after_so_many_rounds() -> None:
    keys = [f"p{i}" for i in range(150)]
    quiet, session = settled(*keys)
    seen: list[str] = []
    for _ in range(ROUNDS):
        quiet.arrived(session, BROKER)
        assert len(session.stirring) <= 3
        for key in list(session.stirring):
            seen.append(key)
            quiet.settle(session, key.upper(), key, BROKER)
    assert seen[: len(keys)] == keys


def test_a_request_looks_at_no_more_quiet_partitions_than_it_may() -> None:
    keys = [f"p{i}" for i in range(10 * ROUNDS * LOOKS_MAX)]
    quiet, session = settled(*keys)
    seen: list[str] = []
    while len(seen) < len(keys):
        quiet.arrived(session, BROKER)
        assert len(session.stirring) == LOOKS_MAX
        for key in list(session.stirring):
            seen.append(key)
            quiet.settle(session, key.upper(), key, BROKER)
    assert seen == keys


def test_another_asker_finds_everything_stirring() -> None:
    for other in (Asker(2, 21), Asker(3, 20)):
        quiet, session = settled("a", "b")
        quiet.arrived(session, other)
        assert list(session.stirring) == ["a", "b"]
        assert len(quiet) == 0


def test_all_stir_when_brokers_change() -> None:
    quiet, session = settled("a", "b")
    session.last_used_ms = 7
    stirred = quiet.stir_all()
    assert [one[0] for one in stirred] == ["A", "B"]
    assert [one.seen_ms for one in stirred] == [7, 7]
    assert list(session.stirring) == ["a", "b"]
    assert quiet.stir("A") == []


def test_nothing_is_left_of_a_session_that_ends() -> None:
    quiet, session = settled("a", "b")
    assert [one.partition for one in quiet.forget(session)] == ["A", "B"]
    assert len(quiet) == 0
    assert not quiet._watched and not quiet._of_session and not quiet._askers
    quiet.forget(session)
    quiet.arrived(session, BROKER)


def test_what_the_request_names_or_forgets_stirs_or_is_gone() -> None:
    quiet, session = settled("a", "b")
    (forgotten,) = quiet.forget(session, ["b", "c"])
    assert forgotten == ("B", session, "b", BROKER, 0)
    session.update([FetchWanted("a", 5, 1)], ["b"], len)
    assert [(key, want.fetch_offset) for key, want in session.stirring.items()] == [("a", 5)]
    assert quiet.stir("B") == [], "it is no longer in the session"
    assert list(session.stirring) == ["a"]
    quiet.settle(session, "A", "a", BROKER)
    assert len(quiet.stir("A")) == 1


def test_what_is_forgotten_twice_is_forgotten() -> None:
    quiet, session = settled("a", "b")
    assert [one.key for one in quiet.forget(session, ["a", "a"])] == ["a"]
    assert len(quiet) == 1


def test_what_is_not_stirring_does_not_settle_twice() -> None:
    quiet, session = settled("a")
    quiet.settle(session, "A", "a", Asker(9, 9))
    quiet.settle(session, "Z", "z", BROKER)
    assert [one.asker for one in quiet.stir("A")] == [BROKER]
    assert len(quiet) == 0


# -- what the leader learns when a partition stirs ----------------------------------------------


def test_a_follower_that_nobody_looked_at_is_not_behind() -> None:
    leader = Leader((1, 2))
    leader.fetched(2, 0)
    leader.world.advance(100 * LAG_MS)
    leader.produce()
    leader.feed(FollowerSeen(2, 102, leader.world.now - 500))
    leader.world.advance(LAG_MS // 2)
    assert proposals(leader) == []
    leader.world.advance(LAG_MS)
    assert (1,) in proposals(leader), "it has not come since"


def test_who_was_seen_as_another_incarnation_or_with_less_proves_nothing() -> None:
    leader = Leader((1, 2))
    leader.produce(count=3)
    leader.fetched(2, 1)
    state = leader.machine.follower_state(2)
    assert state is not None
    before = state.last_caught_up_ms
    leader.machine.step(FollowerSeen(2, 102, leader.world.now + 5), leader.world.now, 0)
    assert state.last_caught_up_ms == before, "it is seen with less"
    for seen in (FollowerSeen(2, 101, 1 << 40), FollowerSeen(2, 102, 1 << 40)):
        assert leader.machine.step(seen, leader.world.now, 0) == []
        assert state.last_caught_up_ms == before
    leader.fetched(2, 3)
    before = state.last_caught_up_ms
    leader.machine.step(FollowerSeen(2, 101, 1 << 40), leader.world.now, 0)
    assert state.last_caught_up_ms == before
    effects = leader.machine.step(FollowerSeen(9, 102, 5), leader.world.now, 0)
    assert not any(isinstance(effect, SetTimer) for effect in effects)
