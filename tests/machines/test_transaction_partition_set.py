"""A transaction's partitions with the form that its records have of them."""

from __future__ import annotations

from random import Random

import pytest

from fencepost.machines.transaction import partition_set
from fencepost.machines.transaction.epochs import Identity
from fencepost.machines.transaction.model import TopicPartition, Transaction, TransactionState
from fencepost.machines.transaction.partition_set import PartitionSet, by_topic, grouped, joined
from fencepost.machines.transaction.records import TransactionCodec, TransactionRecord
from fencepost.machines.transaction.requests import AddPartitions
from fencepost.wire.records.transaction import PartitionsSchema

from .transaction_world import ID, TransactionWorld


def some(random: Random, count: int) -> frozenset[TopicPartition]:
    """Partitions of few topics, with a form or without one."""
    plain = frozenset((random.choice("abcd"), random.randrange(6)) for _ in range(count))
    return PartitionSet.of(plain, grouped(plain)) if random.random() < 0.5 else plain


def is_consistent(partitions: frozenset[TopicPartition]) -> bool:
    """Whether the form has every partition, once, and under its topic."""
    topics = grouped(partitions)
    listed = [(one.topic, index) for one in topics.values() for index in one.partition_ids]
    return (
        sorted(listed) == sorted(partitions)
        and all(name == one.topic for name, one in topics.items())
        and list(topics) == list(dict.fromkeys(topic for topic, _ in listed))
    )


@pytest.mark.parametrize("seed", range(20))
def test_a_union_has_the_form_of_all(seed: int) -> None:
    random = Random(seed)
    present, expected = some(random, 0), frozenset[TopicPartition]()
    for _ in range(8):
        more = some(random, random.randrange(6))
        before = present, [(t, list(one.partition_ids)) for t, one in grouped(present).items()]
        present, expected = joined(present, more), expected | more
        assert present == expected and is_consistent(present)
        old, form = before
        assert form == [(t, one.partition_ids) for t, one in grouped(old).items()], "unchanged"
    version = random.choice((0, 1))
    state = TransactionState.ONGOING
    record = TransactionRecord(ID, Transaction(ID, Identity(1, 2), 3, state, present), version)
    read = TransactionCodec.decode(*TransactionCodec().encode(record))
    assert read is not None and read.transaction is not None
    assert read.transaction.partitions == expected and is_consistent(read.transaction.partitions)


def test_what_a_record_names_twice_counts_once() -> None:
    """Kafka makes a set of what it reads, too."""
    topics = [
        PartitionsSchema(topic="a", partition_ids=[2, 0]),
        PartitionsSchema(topic="b", partition_ids=[1, 1]),
        PartitionsSchema(topic="a", partition_ids=[2, 3]),
    ]
    for first in (0, 1, 2):
        read = PartitionSet.from_record(topics[first:])
        assert is_consistent(read), first
    assert by_topic(read) == [("a", [2, 3])]


def test_records_of_many_partitions_are_not_grouped_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take many times what the record itself takes, of the event loop, in one go."""
    world = TransactionWorld()
    granted = world.init()
    plain = frozenset((f"t{number}", 0) for number in range(500))
    request = PartitionSet.of(plain, grouped(plain))
    seen: list[int] = []
    whole = partition_set._grouped

    def noted(partitions: frozenset[TopicPartition]) -> dict[str, PartitionsSchema]:
        seen.append(len(partitions))
        return whole(partitions)

    monkeypatch.setattr(partition_set, "_grouped", noted)
    for partitions in (request, frozenset({("more", 1)}), frozenset({("t7", 1)})):
        asked = AddPartitions(ID, granted.producer_id, granted.epoch, partitions, 2)
        world.carry_out(world.coordinator.decide_add(asked, object(), world.wall_ms))
    assert seen == [1, 1]
    world.restart()
    world.end((granted.producer_id, granted.epoch), committed=True)
    assert seen == [1, 1], "nor those of a record that was loaded"
    assert len(world.sent[0].partitions) == 502
