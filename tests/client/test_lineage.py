"""What every replica's log is made of, asked of fake replicas that differ on purpose."""

from __future__ import annotations

import pytest

from fencepost.client.cluster import Cluster
from fencepost.client.errors import UnknownTopic
from fencepost.client.lineage import Divergence, ReplicaLineage, find_divergence, replica_lineages
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import EpochSpan

from .fake_cluster import VERSIONS, FakeCluster, FakePartition
from .records import batch

T0 = TopicPartition("t", 0)


def spans(*ends: tuple[int, int, int]) -> tuple[EpochSpan, ...]:
    return tuple(EpochSpan(*one) for one in ends)


def log(*entries: tuple[int, int], end: int, start: int = 0, leader: int = 9) -> FakePartition:
    """A log whose epochs begin where `entries` say."""
    made = FakePartition(leader, entries[-1][0] if entries else 0, epochs=list(entries) or [(0, 0)])
    while made.end_offset < end:
        made.append(batch(b"x"))
    made.start_offset = start
    return made


def asked(copy: FakePartition, leader_epoch: int) -> ReplicaLineage:
    """What is found out of this follower when the leader is at that epoch."""
    with FakeCluster(brokers=2) as fake:
        fake.create_topic("t")
        leader = fake.partition("t")
        leader.epoch, leader.epochs = leader_epoch, [(leader_epoch, 0)]
        leader.followers[2] = copy
        with Cluster(fake.bootstrap_servers) as cluster:
            return replica_lineages(cluster, T0)[1]


@pytest.mark.parametrize("leader_epoch", [0, 3, 5, 6, 7, 40, (1 << 31) - 1])
def test_all_epochs_of_a_follower_are_found_whatever_epoch_its_leader_is_at(leader_epoch: int):
    found = asked(log((0, 0), (3, 4), (4, 5), (6, 9), end=12), leader_epoch)
    assert found.spans == spans((0, 0, 4), (3, 4, 5), (4, 5, 9), (6, 9, 12))
    assert (found.start_offset, found.end_offset, found.error) == (0, 12, None)


def test_epochs_begin_where_the_log_begins():
    assert asked(log((2, 0), (3, 4), end=9, start=6), 3).spans == spans((3, 6, 9))
    assert asked(log((2, 0), (3, 4), end=9, start=2), 3).spans == spans((2, 2, 4), (3, 4, 9))
    assert asked(log((2, 0), (3, 4), end=9, start=4), 3).spans == spans((3, 4, 9))


def test_a_log_without_records_has_an_empty_epoch():
    assert asked(log((5, 0), end=0), 5).spans == spans((5, 0, 0))
    assert asked(log((4, 0), (5, 3), end=3), 5).spans == spans((4, 0, 3), (5, 3, 3))


def test_a_replica_that_does_not_tell_says_why_and_others_are_told_of():
    with FakeCluster(brokers=2) as fake:
        fake.create_topic("t")
        fake.partition("t").append(batch(b"a"))
        with Cluster(fake.bootstrap_servers) as cluster:
            leader, other = replica_lineages(cluster, T0)
            assert leader.spans == spans((0, 0, 1)) and leader.high_watermark == 1
            assert other.spans == () and "NOT_LEADER_OR_FOLLOWER" in (other.error or "")
            fake.brokers[2].close()
            cluster.close()
            leader, other = replica_lineages(cluster, T0)
            assert leader.spans and other.error is not None
            with pytest.raises(UnknownTopic):
                replica_lineages(cluster, TopicPartition("t", 7))


LEADER = spans((0, 0, 10), (2, 10, 20), (5, 20, 30))


@pytest.mark.parametrize(
    ("own", "found"),
    [
        (LEADER, None),
        (spans((0, 0, 10), (2, 10, 15)), None),
        (spans((0, 4, 10)), None),
        ((), None),
        (spans((5, 20, 20)), None),
        (spans((0, 0, 10), (1, 10, 15)), Divergence(10, 1, 2)),
        (spans((0, 0, 12)), Divergence(10, 0, 2)),
        (spans((0, 0, 10), (2, 10, 25)), Divergence(20, 2, 5)),
        (spans((0, 0, 10), (2, 10, 20), (5, 20, 31)), Divergence(30, 5, -1)),
        (spans((0, 0, 5), (1, 5, 6), (2, 6, 20)), Divergence(5, 1, 0)),
        (spans((7, 30, 33)), Divergence(30, 7, -1)),
        (spans((3, 0, 30)), Divergence(0, 3, 0)),
    ],
)
def test_two_logs_diverge_at_the_first_offset_of_another_epoch(own, found: Divergence | None):
    assert find_divergence(LEADER, own) == found


def test_what_the_leader_has_deleted_already_is_not_compared():
    leader = spans((2, 12, 20))
    assert find_divergence(leader, spans((0, 0, 10), (1, 10, 12), (2, 12, 18))) is None
    assert find_divergence(leader, spans((0, 0, 10), (1, 10, 14))) == Divergence(12, 1, 2)
    assert find_divergence((), spans((0, 3, 5))) == Divergence(3, 0, -1)


class Moving(FakePartition):
    """A follower that gets a record, as does its leader, whenever it is asked."""

    lead: FakePartition

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        for one in (self.lead, self):
            one.append(batch(b"x"))
        return super().end_of_epoch(epoch)


def test_a_follower_is_asked_before_its_leader():
    with FakeCluster(brokers=2) as fake:
        fake.create_topic("t")
        leader = fake.partition("t")
        leader.followers[2] = copy = Moving(1)
        copy.lead = leader
        with Cluster(fake.bootstrap_servers) as cluster:
            first, second = replica_lineages(cluster, T0)
    assert 0 < second.end_offset <= first.end_offset
    assert find_divergence(first.spans, second.spans) is None


class Lying(FakePartition):
    """A replica that answers every question alike."""

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        return 9, 100


def test_answers_that_make_no_sense_are_an_error_of_that_replica():
    assert "answered for 9" in (asked(Lying(1), 3).error or "")


def test_another_leaders_answer_is_not_taken_for_that_of_the_one_asked():
    with FakeCluster(brokers=2) as fake:
        fake.create_topic("t")
        for broker in fake.brokers.values():
            broker.versions = {**VERSIONS, 18: (0, 4), 1: (4, 11)}
        with Cluster(fake.bootstrap_servers) as cluster:
            cluster.topic("t")
            fake.partition("t").elect(2)
            found, _ = replica_lineages(cluster, T0)
    assert found.spans == () and "broker 2 leads now" in (found.error or "")
