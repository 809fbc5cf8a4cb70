"""`transaction.version` goes up and down under producers: no transaction notices.

A client speaks the protocol of the level that it saw last (TV2 from 2 on), so coordinators and
leaders have clients of both at any level, with transactional ids that the other one left behind.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.errors import AbortableTransactionError, ProducerFenced
from fencepost.client.features import FeatureAdmin
from fencepost.client.fetcher import Fetcher
from fencepost.client.metadata import TopicPartition
from fencepost.client.producer import Producer

from ...ended_transactions import stable_ends
from ..conftest import RunningNode
from .transaction_requests import new_id

Connect = Callable[..., Cluster]
LEVELS = (2, 1, 2, 0, 1, 0, 2)


@pytest.fixture
def connect(node: RunningNode) -> Iterator[Connect]:
    with ExitStack() as opened:
        yield lambda **settings: opened.enter_context(Cluster(node.bootstrap_servers, **settings))


def set_level(connect: Connect, level: int) -> None:
    cluster = connect()
    found = cluster.any_connection().api_versions.features.level("transaction.version")
    if found != level:
        FeatureAdmin(cluster).update({"transaction.version": level}, downgrade=level < found)


def test_the_levels_below_are_every_change_that_there_is() -> None:
    assert set(itertools.pairwise(LEVELS)) == set(itertools.permutations(range(3), 2))


def test_a_transactional_id_goes_on_through_every_change(connect: Connect) -> None:
    txn, expected, before = new_id(), [], None
    part = TopicPartition(f"t-{txn}", 0)
    Admin(connect()).create_topic(part.topic, 1)
    Admin(connect()).wait_for_topic(part.topic)
    for number, level in enumerate(LEVELS):
        set_level(connect, level)
        if before is not None:  # it saw the level before, and is on the way
            before.send(part.topic, b"%d late" % number)
            before.commit_transaction()
            expected.append(b"%d late" % number)
            before.begin_transaction()
            before.send(part.topic, b"%d left open" % number)
            before.flush()
        producer = Producer(connect(transactional_id=txn))
        producer.init_transactions()
        if before is not None:
            with pytest.raises((ProducerFenced, AbortableTransactionError)):
                before.commit_transaction()
        with producer.transaction():
            producer.send(part.topic, b"%d" % number)
            producer.send_offsets_to_transaction({part: number}, f"g-{txn}")
        expected.append(b"%d" % number)
        producer.begin_transaction()
        producer.send(part.topic, b"%d aborted" % number)
        producer.send_offsets_to_transaction({part: 99}, f"g-{txn}")
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send(part.topic, b"%d in it" % number)
        expected.append(b"%d in it" % number)
        before = producer
    assert before is not None
    before.commit_transaction()
    cluster = connect(isolation_level="read_committed")
    end = stable_ends(cluster, [part])[part]
    found = [
        record.value
        for fetched in Fetcher(cluster).read_range(part, 0, end)
        for record in fetched.read_records(end)
    ]
    assert found == expected
    offsets = Admin(connect()).group_offsets(f"g-{txn}", [part], require_stable=True)
    assert offsets[part].offset == len(LEVELS) - 1
