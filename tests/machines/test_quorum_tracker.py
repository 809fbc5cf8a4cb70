"""What a majority holds, against a second implementation that counts heads."""

from __future__ import annotations

import random

from fencepost.machines.quorum.roles import Nominee, Role
from fencepost.machines.quorum.tracker import NEVER_MS, Progress, Tracker
from fencepost.machines.quorum.voters import ReplicaKey, Voter, VoterSet
from fencepost.wire.types import Uuid

LEADER = 0


def is_replica(voter: Voter, key: ReplicaKey) -> bool:
    return voter.is_replica(key)


def disk(number: int) -> Uuid:
    return Uuid(bytes(15) + bytes([number]))


def voters(*keys: ReplicaKey) -> VoterSet:
    return VoterSet(tuple(Voter(key) for key in keys))


def counted(held: dict[int, int], majority: int) -> int:
    """The largest offset that so many voters hold, found by asking about each offset there is."""
    reached = [
        offset
        for offset in range(-1, 12)
        if sum(end_offset >= offset for end_offset in held.values()) >= majority
    ]
    return reached[-1]


def test_a_majority_holds_what_heads_counted_say() -> None:
    for seed in range(300):
        dice = random.Random(seed)
        others = dice.randint(0, 6)
        is_counted = others == 0 or dice.random() < 0.8
        held = {id_: dice.randint(-1, 10) for id_ in range(1, others + 1)}
        tracker = Tracker({id_: Progress(ReplicaKey(id_), held[id_]) for id_ in held})
        own = dice.randint(-1, 10) if is_counted else None
        if own is not None:
            held[LEADER] = own
        majority = len(held) // 2 + 1
        assert tracker.held_by_majority(majority, own) == counted(held, majority), seed


def test_a_majority_was_heard_when_enough_of_the_others_were() -> None:
    for seed in range(100):
        dice = random.Random(seed)
        times = [dice.randint(-1, 100) for _ in range(dice.randint(1, 6))]
        tracker = Tracker(
            {n: Progress(ReplicaKey(n), last_fetch_ms=time) for n, time in enumerate(times, 1)}
        )
        since_ms, needed = dice.randint(0, 100), dice.randint(1, len(times))
        heard_ms = tracker.majority_heard_ms(needed, since_ms, now_ms=1_000)
        assert sum(max(time, since_ms) >= heard_ms for time in times) >= needed, seed
        assert sum(max(time, since_ms) > heard_ms for time in times) < needed, seed


def test_who_needs_nobody_has_just_heard_a_majority() -> None:
    assert Tracker({}).majority_heard_ms(0, since_ms=3, now_ms=77) == 77


def test_a_snapshot_that_is_loaded_keeps_a_voter_heard() -> None:
    progress = Progress(ReplicaKey(1), last_fetch_ms=5, last_snapshot_ms=9)
    assert progress.heard_ms == 9


def test_a_replica_has_caught_up_with_what_there_was_at_its_fetch_before() -> None:
    progress = Progress(ReplicaKey(1))
    progress.fetched(progress.key, 4, leader_end_offset=10, now_ms=100)
    assert progress.last_caught_up_ms == NEVER_MS
    progress.fetched(progress.key, 10, leader_end_offset=20, now_ms=200)
    assert progress.last_caught_up_ms == 100, "it has what there was then"
    progress.fetched(progress.key, 20, leader_end_offset=20, now_ms=300)
    assert progress.last_caught_up_ms == 300, "it has all there is"
    progress.fetched(progress.key, 3, leader_end_offset=20, now_ms=400)
    assert (progress.end_offset, progress.last_caught_up_ms) == (3, 300)


def test_only_the_disk_that_was_counted_is_a_voter() -> None:
    tracker = Tracker.of(voters(ReplicaKey(0, disk(1)), ReplicaKey(1, disk(2))), LEADER)
    voter_set = voters(ReplicaKey(1, disk(2)))
    assert tracker.voter(voter_set, ReplicaKey(1, disk(2)), is_replica) is tracker.voters[1]
    assert tracker.voter(voter_set, ReplicaKey(1, disk(9)), is_replica) is None
    assert tracker.voter(voter_set, ReplicaKey(2, disk(2)), is_replica) is None


def test_observers_that_are_silent_make_room() -> None:
    tracker = Tracker({})
    for id_ in (1, 2):
        progress = tracker.observer(ReplicaKey(id_), most=2, oldest_ms=0)
        assert progress is not None
        progress.last_fetch_ms = 10 * id_
    assert tracker.observer(ReplicaKey(3), most=2, oldest_ms=10) is None
    assert tracker.observer(ReplicaKey(2), most=2, oldest_ms=10) is not None, "it is known"
    assert tracker.observer(ReplicaKey(3), most=2, oldest_ms=11) is not None
    assert set(tracker.observers) == {ReplicaKey(2), ReplicaKey(3)}


def test_progress_is_kept_when_the_voters_change() -> None:
    one, two, three = (ReplicaKey(id_, disk(id_)) for id_ in (1, 2, 3))
    tracker = Tracker.of(voters(ReplicaKey(0, disk(7)), one, two), LEADER)
    tracker.unacknowledged.clear()
    tracker.voters[2].fetched(two, 5, 9, now_ms=1)
    newcomer = tracker.observer(three, most=9, oldest_ms=0)
    tracker.voters_changed(voters(ReplicaKey(0, disk(7)), two, three), LEADER, is_replica)
    assert tracker.voters[2].end_offset == 5
    assert tracker.voters[3] is newcomer
    assert tracker.observers == {}, "voter 1 has never fetched, and is not remembered"
    assert tracker.unacknowledged == set(), "who fetches knows its leader"
    tracker.unacknowledged.add(2)
    tracker.voters_changed(voters(ReplicaKey(0, disk(7)), three), LEADER, is_replica)
    assert tracker.unacknowledged == set(), "who is no voter is told nothing"
    assert tracker.observers[two].end_offset == 5, "it observes from now on"
    lost = ReplicaKey(3, disk(8))
    tracker.voters_changed(voters(ReplicaKey(0, disk(7)), lost), LEADER, is_replica)
    assert tracker.voters[3].end_offset == -1, "another disk has promised nothing"
    assert tracker.unacknowledged == {3}


def test_the_most_advanced_come_first_and_then_the_lowest_ids() -> None:
    ends = {1: 5, 2: 9, 3: 5, 4: -1}
    tracker = Tracker({id_: Progress(ReplicaKey(id_), end) for id_, end in ends.items()})
    assert tracker.most_advanced() == [2, 1, 3, 4]


def test_silent_voters_are_reminded() -> None:
    tracker = Tracker({n: Progress(ReplicaKey(n), last_fetch_ms=10 * n) for n in (1, 2, 3)})
    tracker.remind_silent(20)
    assert tracker.unacknowledged == {1, 2}


def test_an_election_is_won_or_lost_as_heads_counted_say() -> None:
    for seed in range(100):
        dice = random.Random(seed)
        ids = list(range(dice.randint(1, 7)))
        majority = len(ids) // 2 + 1
        nominee = Nominee(Role.CANDIDATE, granted=set())
        answers = {
            id_: dice.choice([True, False]) for id_ in dice.sample(ids, dice.randint(0, len(ids)))
        }
        for id_, is_granted in answers.items():
            assert nominee.count(id_, is_granted)
            assert not nominee.count(id_, not is_granted), "the first word counts"
        assert nominee.has_won(majority) is (sum(answers.values()) >= majority), seed
        open_or_yes = len(ids) - sum(not granted for granted in answers.values())
        assert nominee.has_lost(len(ids), majority) is (open_or_yes < majority), seed
