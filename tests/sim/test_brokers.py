"""Worlds with brokers do what they are there for, and what is drawn of them leaves the rest."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from fencepost.machines import probes
from fencepost.machines.partition.queries import PartitionQueries
from fencepost.machines.share import acknowledging
from fencepost.runtime.replicas import ReplicaManager
from fencepost.runtime.share_partitions import HostedSharePartition
from fencepost.sim import options as options_of_seeds
from fencepost.sim.boot import directory_of
from fencepost.sim.brokers.checkpoints import checkpoints_of
from fencepost.sim.by_hand import ByHand
from fencepost.sim.clients.committer import Asked
from fencepost.sim.options import Options, draw_options, with_brokers
from fencepost.sim.oracle import Violation
from fencepost.sim.partition_oracle import Checkpoints
from fencepost.sim.rules import Rules
from fencepost.sim.run import Outcome, Plan, Run, run_seed
from fencepost.sim.tape import Tape
from fencepost.sim.world import World
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

SMALL = Options(
    voters=1,
    brokers=2,
    replicas=2,
    warm_up_ms=4_000,
    safety_ms=4_000,
    faults=(),
    session_timeout_ms=3_000,
)
FINGERPRINT = """
from dataclasses import replace
from fencepost.sim.run import Plan, run_seed
from tests.sim.test_brokers import SMALL
base = replace(SMALL, faults=("kill", "power-loss", "flaky-links"), transactors=3)
print(run_seed(3, Plan(base=base, draws_options=False)).fingerprint)
"""


def run_small(seed: int = 1, rules: Rules | None = None, **options: Any) -> Outcome:
    plan = Plan(base=replace(SMALL, **options), rules=rules or Rules(), draws_options=False)
    return run_seed(seed, plan)


def test_what_is_produced_is_acknowledged_and_consumed() -> None:
    run = Run(Tape(1), Plan(base=SMALL, draws_options=False))
    run.go()
    clients = run.world.clients
    assert all(producer.acked > 3 for producer in clients.producers)
    assert {producer.is_idempotent for producer in clients.producers} == {True, False}
    assert all(consumer.consumed > 10 for consumer in clients.consumers)
    partitions = run.world.observer.oracle.partitions
    assert sum(map(len, partitions.acknowledged.values())) > 10
    assert {view.broker_id for view in partitions.views.values() if view.is_leader} == {101, 102}


def test_static_members_speak_to_old_brokers_in_versions_that_have_their_instance_id() -> None:
    run = Run(Tape(1), Plan(base=replace(SMALL, members=2, epoch_members=2), draws_options=False))
    clients = run.world.clients
    for broker in run.world.brokers.values():
        broker.is_old = True
    statics = clients.members[0], clients.epoch_members[0]
    for static, dynamic in zip(
        statics, (clients.members[1], clients.epoch_members[1]), strict=True
    ):
        static.instance_id, dynamic.instance_id = f"i{static.id}", None
    run.go()
    assert all(member.joined and member.committed for member in clients.members)


def test_a_world_does_not_get_more_topics_than_it_is_to_have() -> None:
    """No request is answered while the leader is cut off; all may be done when it is not."""
    hand = ByHand(Options(voters=3, brokers=2, replicas=2, topics=3))
    hand.start()
    hand.wait(4_000)
    leader = hand.world.leader()
    assert leader is not None
    hand.cut(*((leader.id, other) for other in hand.world.options.voter_ids if other != leader.id))
    workload = hand.world.workload
    for _ in range(20):
        workload._create_or_delete(leader)
    assert sum(asked.name.startswith("create ") for asked in workload.waiting) == 3


def test_offsets_of_groups_are_committed_and_told() -> None:
    run = Run(Tape(1), Plan(base=replace(SMALL, committers=2), draws_options=False))
    run.go()
    committers = run.world.clients.committers
    assert all(one.committed > 5 and one.fetched > 5 for one in committers)
    coordinators = [
        coordinator
        for broker in run.world.brokers.values()
        for coordinator in broker.groups.coordinators()
    ]
    known = {group for coordinator in coordinators for group in coordinator.machine.groups}
    assert known == {one.group_id for one in committers}


@pytest.mark.parametrize(
    ("version", "error"),
    [(9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (10, ErrorCode.UNKNOWN_TOPIC_ID)],
)
def test_a_client_commits_again_what_the_coordinator_does_not_know_yet(
    version: int, error: ErrorCode
) -> None:
    """Its coordinator's metadata may be behind those of the broker that it has the topic from."""
    hand = ByHand(Options(voters=1, brokers=1, committers=1))
    hand.start()
    hand.wait(6_000)
    (committer,) = hand.world.clients.committers
    broker, key = hand.world.brokers[101], (Uuid(b"not known so far"), 0)
    assert broker.accepts
    answers: list[Any] = []
    broker.receive(committer.commit_request(key, "t", 7), answers.append, committer.id, version)
    (answer,) = answers
    assert answer.topics[0].partitions[0].error_code == error
    committer.unfinished = asked = Asked(key, "t", 7)
    outcomes: list[str] = []
    committer.on_outcome = outcomes.append
    committer._answered(asked, key, answer)
    assert outcomes == [error.name]
    assert committer.unfinished is asked


def test_members_of_a_group_share_partitions_and_commit() -> None:
    run = Run(Tape(1), Plan(base=replace(SMALL, members=3), draws_options=False))
    run.go()
    members = run.world.clients.members
    assert all(one.joined > 1 and one.committed > 3 for one in members)
    owned = [partition for one in members for partition in one.owned]
    assert len(owned) == len(set(owned))
    assert owned, "all topics were there before the last generation"


def test_members_of_a_consumer_group_share_partitions_and_commit() -> None:
    run = Run(Tape(1), Plan(base=replace(SMALL, epoch_members=3), draws_options=False))
    run.go()
    members = run.world.clients.epoch_members
    assert all(one.joined and one.committed and one.fetched for one in members)
    assert sum(one.lives for one in members) > 1, "some have left and come back"
    assert len({one.epoch for one in members}) == 1
    owned = [key for one in members for key in one.owned]
    assert sorted(owned) == sorted(run.world.clients.partitions())


def test_members_of_a_streams_group_share_tasks_active_and_standby() -> None:
    run = Run(Tape(1), Plan(base=replace(SMALL, streams_members=3), draws_options=False))
    run.go()
    members = run.world.clients.streams_members
    assert all(one.joined for one in members)
    assert sum(one.lives for one in members) > 1, "some have left and come back"
    assert all(one.standby.isdisjoint(index for _, index in one.owned) for one in members)


def test_static_members_are_drawn_in_groups_of_all_kinds() -> None:
    options = replace(SMALL, members=3, epoch_members=3, streams_members=3)
    clients = [World(Tape(seed), options).clients for seed in range(5)]
    for kind in ("members", "epoch_members", "streams_members"):
        static = {one.instance_id is None for all_ in clients for one in getattr(all_, kind)}
        assert static == {True, False}


def test_static_members_come_back_to_what_they_had() -> None:
    base = replace(SMALL, members=2, epoch_members=2, safety_ms=12_000)
    run = Run(Tape(1), Plan(base=base, draws_options=False))
    clients = run.world.clients
    for one in (*clients.members, *clients.epoch_members):
        one.instance_id = f"i{one.id}"
    run.go()
    assert sum(one.joined for one in clients.members) > 2
    assert sum(one.lives for one in clients.epoch_members)


def test_classic_members_share_a_consumer_group_that_migrates_both_ways() -> None:
    base = replace(SMALL, epoch_members=1, mixed_members=2, safety_ms=20_000)
    run = Run(Tape(2), Plan(base=base, draws_options=False))
    run.go()
    clients, groups = run.world.clients, run.world.observer.oracle.groups
    members = [*clients.epoch_members, *clients.mixed_members]
    assert all(one.joined and one.committed for one in members)
    assert groups.upgrades > 1, "and not only the first member's"
    assert groups.downgrades
    assert any(one.owned for one in clients.mixed_members)


def test_a_member_that_is_given_what_another_has_to_give_up_is_told_too_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever a member has to give up is free, before it has said that it does not own it."""
    monkeypatch.setattr("fencepost.machines.group.consumer.apply._count_holders", lambda *_: None)
    monkeypatch.setattr("fencepost.sim.checks.i44_one_holder.OneHolder._holds", lambda *_: None)
    run = Run(Tape(2), Plan(base=replace(SMALL, epoch_members=3), draws_options=False))
    with pytest.raises(Violation, match="I45"):
        run.go()


def test_a_partition_that_is_given_away_too_early_has_two_holders(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The coordinator forgets who holds what, so all partitions seem to be free."""
    monkeypatch.setattr("fencepost.machines.group.consumer.apply._count_holders", lambda *_: None)
    run = Run(Tape(2), Plan(base=replace(SMALL, epoch_members=3), draws_options=False))
    with pytest.raises(Violation, match="I44"):
        run.go()


def test_share_consumers_share_records_and_settle_all_of_them() -> None:
    run = Run(Tape(1), Plan(base=replace(SMALL, share_consumers=2), draws_options=False))
    run.go()
    consumers = run.world.clients.share_consumers
    assert all(one.acquired and one.acknowledged for one in consumers)
    assert sum(one.acquired for one in consumers) > sum(one.acknowledged for one in consumers)


def test_share_groups_read_committed_data_renew_locks_and_have_dead_letters() -> None:
    base = replace(SMALL, share_consumers=2, transactors=2, safety_ms=8_000)
    base = replace(base, shares_read_committed=True, has_dead_letters=True)
    run = Run(Tape(1), Plan(base=base, draws_options=False))
    run.go()
    consumers = run.world.clients.share_consumers
    assert sum(one.renewed for one in consumers)
    assert sum(one.lives for one in consumers)
    assert sum(one.aborted for one in run.world.clients.transactors)
    oracle, image = run.world.observer.oracle, run.world.observer.committed_image
    letters = image.topics_by_name["dlq.sharers"].topic_id
    written = [
        view.end_offset for key, view in oracle.partitions.views.items() if key[1][0] == letters
    ]
    assert any(written)


def test_a_share_group_is_given_what_is_aborted_by_a_leader_that_does_not_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(HostedSharePartition, "reads_committed", False)
    base = replace(SMALL, share_consumers=2, transactors=2, safety_ms=8_000)
    base = replace(base, shares_read_committed=True)
    run = Run(Tape(1), Plan(base=base, draws_options=False))
    with pytest.raises(Violation, match="I33"):
        run.go()


def test_a_record_that_is_free_too_early_is_acquired_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """When a lock runs out, so do others that have been set since."""
    expire_locks = acknowledging.expire_locks
    monkeypatch.setattr(
        acknowledging, "expire_locks", lambda state, now_ms: expire_locks(state, now_ms + 2_000)
    )
    run = Run(Tape(1), Plan(base=replace(SMALL, share_consumers=2), draws_options=False))
    with pytest.raises(Violation, match="I46"):
        run.go()


def test_share_consumers_are_drawn_in_some_worlds_with_brokers() -> None:
    drawn = [draw_options(Tape(seed)) for seed in range(300)]
    having = [options for options in drawn if options.share_consumers]
    assert all(options.brokers and not options.compacts for options in having)
    assert 8 < len(having) < 45, "about every fourth world of those that do not compact"
    assert {options.share_consumers for options in having} == {2, 3}


def test_members_of_consumer_groups_are_drawn_in_some_worlds_with_brokers() -> None:
    drawn = [draw_options(Tape(seed)) for seed in range(300)]
    having = [options for options in drawn if options.epoch_members]
    assert all(options.brokers for options in having)
    assert 10 < len(having) < 45, "about every fourth world of those with brokers"
    assert {options.epoch_members for options in having} == {2, 3}


def test_members_of_streams_groups_are_drawn_in_some_worlds_with_brokers() -> None:
    drawn = [draw_options(Tape(seed)) for seed in range(300)]
    having = [options for options in drawn if options.streams_members]
    assert all(options.brokers for options in having)
    assert 10 < len(having) < 45, "about every fourth world of those with brokers"


def test_members_are_drawn_in_some_worlds_with_brokers() -> None:
    drawn = [draw_options(Tape(seed)) for seed in range(300)]
    assert {options.members for options in drawn if not options.brokers} == {0}
    having = [options for options in drawn if options.members]
    assert 20 < len(having) < 50, "about every third world of those with brokers"
    assert {options.members for options in having} == {2, 3}


def test_logs_begin_later_when_records_are_deleted() -> None:
    run = Run(Tape(2), Plan(base=replace(SMALL, deleters=1, safety_ms=8_000), draws_options=False))
    run.go()
    views = run.world.observer.oracle.partitions.views.values()
    assert any(view.start_offset > 0 for view in views)
    followers = {view.start_offset for view in views if not view.is_leader}
    assert followers == {view.start_offset for view in views if view.is_leader}


def test_fetches_wait_at_brokers_and_have_sessions() -> None:
    run = Run(Tape(1), Plan(base=SMALL, draws_options=False))
    run.go()
    assert probes.counts()["sim.fetch.waits"] > 100
    brokers = run.world.brokers.values()
    assert all(len(broker.fetches.sessions) for broker in brokers)


def test_groups_are_drawn_in_some_worlds_with_brokers_and_leave_the_others_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn = [draw_options(Tape(seed)) for seed in range(300)]
    assert {options.committers for options in drawn if not options.brokers} == {0}
    having = [options for options in drawn if options.committers]
    assert 30 < len(having) < 70, "about every other world of those with brokers"
    assert {options.committers for options in having} == {1, 2, 3}
    monkeypatch.setattr(options_of_seeds, "_draw_groups", lambda tape, base: base)
    defaults = Options()
    without = replace(having[0], committers=0, commit_every_ms=defaults.commit_every_ms)
    assert draw_options(Tape(drawn.index(having[0]))) == without, "a lane of their own"


@pytest.mark.long
def test_consumers_of_small_fetches_keep_up_with_producers() -> None:
    backlog = {"topics": 1, "produce_every_ms": 5, "consume_every_ms": 500}
    run = Run(Tape(1), Plan(base=replace(SMALL, **backlog), draws_options=False))
    for consumer in run.world.clients.consumers:
        consumer.fetch_bytes = 200  # two batches at most
    run.go()
    turns = run.world.now_us // 500_000
    assert all(consumer.consumed > 10 * turns for consumer in run.world.clients.consumers)


def test_brokers_are_drawn_in_some_worlds_and_leave_the_others_as_they_are() -> None:
    drawn = {seed: draw_options(Tape(seed)) for seed in range(300)}
    having = [options for options in drawn.values() if options.brokers]
    assert 60 < len(having) < 140, "about one in three"
    assert {options.brokers for options in having} == {1, 2, 3, 4}
    assert {options.min_isr for options in having} == {1, 2}
    assert all(options.min_isr <= options.replicas <= options.brokers for options in having)
    forced = [draw_options(Tape(seed), with_brokers(Options(), 3)) for seed in range(20)]
    for seed, options in enumerate(forced):
        assert options.brokers == 3
        assert options.voters == drawn[seed].voters, "a lane of their own"


@pytest.mark.long
def test_a_world_with_brokers_is_what_its_seed_says_whatever_the_hash_seed() -> None:
    printed = {
        subprocess.run(
            [sys.executable, "-c", FINGERPRINT],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "77")
    }
    assert len(printed) == 1


def test_messages_of_brokers_and_clients_travel_at_drawn_versions() -> None:
    assert run_small(on_wire=True, committers=2, members=2).violation is None


@pytest.mark.parametrize("seed", [1, 2])
def test_brokers_survive_what_kills_them(seed: int) -> None:
    outcome = run_small(seed, faults=("kill", "power-loss", "shutdown"), safety_ms=8_000)
    assert outcome.violation is None
    assert outcome.faults


def test_a_broker_comes_back_with_an_empty_disk() -> None:
    base = {"brokers": 3, "replicas": 3, "faults": ("lost-disk",), "safety_ms": 10_000}
    run = Run(Tape(2), Plan(base=replace(SMALL, **base), draws_options=False))
    run.go()
    brokers = run.world.brokers.values()
    assert any(broker.directory_id != directory_of(broker.id, 1) for broker in brokers)


def test_a_broker_that_makes_nothing_of_the_metadata_is_noticed() -> None:
    rules = Rules(patches=((ReplicaManager, "apply", lambda self, image, delta: None),))
    outcome = run_small(rules=rules, liveness_ms=5_000)
    assert outcome.violation is not None
    assert outcome.violation.kind == "liveness-brokers"
    assert "waits for" in outcome.violation.text


def test_a_consumer_that_is_refused_what_it_may_read_is_noticed() -> None:
    def out_of_range(self: PartitionQueries, **asked: Any) -> Any:
        found = check_fetch(self, **asked)
        is_consumer = asked["replica_id"] < 0 and asked["fetch_offset"] > 2
        return ErrorCode.OFFSET_OUT_OF_RANGE if is_consumer else found

    check_fetch = PartitionQueries.check_fetch
    rules = Rules(patches=((PartitionQueries, "check_fetch", out_of_range),))
    outcome = run_small(rules=rules)
    assert outcome.violation is not None
    assert outcome.violation.kind == "I20"


def test_a_number_of_brokers_that_is_asked_for_is_bounded() -> None:
    assert with_brokers(Options(), 1).min_isr == 1
    assert with_brokers(Options(), 4).replicas == 3
    with pytest.raises(ValueError, match="1 to 50 brokers, not 51"):
        with_brokers(Options(), 51)


def test_a_cluster_may_begin_with_eligible_replicas() -> None:
    """Every other world with brokers does."""
    faults = ("power-loss", "kill")
    run = Run(Tape(1), Plan(base=replace(SMALL, has_elr=True, faults=faults), draws_options=False))
    run.go()
    image = run.world.observer.committed_image
    assert image.features["eligible.leader.replicas.version"] == 1
    assert image.broker_configs() == {"min.insync.replicas": "1"}
    drawn = [draw_options(Tape(seed), with_brokers(Options(), 3)).has_elr for seed in range(20)]
    assert {True, False} == set(drawn)


def test_who_looks_on_reads_checkpoints_of_a_disk_that_refuses_to_be_read() -> None:
    """The product would not have read them, so that nothing may come of it."""
    hand = ByHand(Options(voters=1, brokers=1))
    hand.start()
    hand.wait(6_000)
    broker = hand.world.brokers[101]
    broker.disk.fault = lambda operation, path, count: OSError(f"{operation} of {path}")
    assert checkpoints_of(broker, ("t", 0)) == Checkpoints(0, 0, 0)
    assert broker.disk.fault is not None
