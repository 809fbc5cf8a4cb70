"""What coordinators on a whole node do for a client that may not do everything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.runtime.internal_topics import OFFSETS_TOPIC
from fencepost.runtime.requests.access import Client
from fencepost.runtime.requests.permissions import (
    ALTER_CLUSTER,
    CLUSTER_ACTION,
    DELETE_GROUP,
    DESCRIBE_CLUSTER,
    DESCRIBE_GROUP,
    DESCRIBE_TOPIC,
    DESCRIBE_TRANSACTIONAL_ID,
    IDEMPOTENT_WRITE,
    READ_GROUP,
    READ_TOPIC,
    TWO_PHASE_COMMIT,
    WRITE_TOPIC,
    WRITE_TRANSACTIONAL_ID,
    Permission,
)
from fencepost.wire.api import (
    AddPartitionsToTxnRequest,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    DescribeTransactionsRequest,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    ListGroupsRequest,
    ListTransactionsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    TxnOffsetCommitRequest,
    WriteTxnMarkersRequest,
)
from fencepost.wire.api.add_partitions_to_txn import AddPartitionsToTxnTopic
from fencepost.wire.api.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from fencepost.wire.api.offset_delete import (
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from fencepost.wire.api.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from fencepost.wire.api.txn_offset_commit import (
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from fencepost.wire.api.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic
from fencepost.wire.types import Uuid

from ..conftest import RunningNode
from ..groups import group_requests
from ..topic_requests import make_topic
from ..transactions import transaction_requests
from .authorizers import Rules, errors_in

Refuse = Callable[..., None]
NOWHERE = SimpleNamespace(name="nowhere", topic_id=Uuid(b"7" * 16))
"""A topic that does not exist."""


class Refusals(Rules):
    """Refuses a permission for the resources of some names, or (a permission alone) for all."""

    def __init__(self, *refused: Permission | tuple[Permission, str]) -> None:
        super().__init__(*(one for one in refused if isinstance(one, Permission)))
        self._named = {one for one in refused if not isinstance(one, Permission)}

    def allows(self, client: Client, permission: Permission, name: str, *, quiet: bool) -> bool:
        if (permission, name) in self._named:
            return False
        return super().allows(client, permission, name, quiet=quiet)


@pytest.fixture
def refuse(node: RunningNode) -> Iterator[Refuse]:
    """Has the node refuse this and nothing else, until the test ends."""
    access = node.node.access

    def replace(*refused: Any) -> None:
        access.authorizer = Refusals(*refused)

    yield replace
    access.authorizer = None


# -- offsets ---------------------------------------------------------------------------------------


def committed(client: Any, group: str, *topics: Any, version: int) -> list[int]:
    """The errors of committing offset 5 to partition 0 of each topic."""
    entries = [
        OffsetCommitRequestTopic(
            partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=5)],
            **({"topic_id": topic.topic_id} if version >= 10 else {"name": topic.name}),
        )
        for topic in topics
    ]
    answer = client.ask(OffsetCommitRequest(group_id=group, topics=entries), version)
    return [one.error_code for topic in answer.topics for one in topic.partitions]


def found(client: Any, group: str, *topics: Any, version: int) -> list[tuple[int, int]]:
    """Offset and error of partition 0 of each topic, or of all topics that the group has."""
    wanted = [
        OffsetFetchRequestTopics(
            partition_indexes=[0],
            **({"topic_id": topic.topic_id} if version >= 10 else {"name": topic.name}),
        )
        for topic in topics
    ]
    groups = [OffsetFetchRequestGroup(group_id=group, topics=wanted or None)]
    (answer,) = client.ask(OffsetFetchRequest(groups=groups), version).groups
    assert answer.error_code == 0
    return [(one.committed_offset, one.error_code) for t in answer.topics for one in t.partitions]


@pytest.mark.parametrize("version", [9, 10])
def test_offsets_are_kept_and_shown_by_topic(client: Any, refuse: Refuse, version: int) -> None:
    group = group_requests.new_group()
    group_requests.coordinated(client, group)
    seen, hidden = make_topic(client), make_topic(client)
    missing = 100 if version >= 10 else 3
    refuse((READ_TOPIC, hidden.name))
    topics = (seen, hidden, NOWHERE)
    assert committed(client, group, *topics, version=version) == [0, 29, missing]
    refuse((READ_TOPIC, NOWHERE.name))
    hides_name = 100 if version >= 10 else 29
    assert committed(client, group, *topics, version=version) == [0, 0, hides_name]
    refuse((DESCRIBE_TOPIC, hidden.name))
    assert found(client, group, hidden, seen, version=version) == [(5, 0), (-1, 29)]
    assert found(client, group, version=version) == [(5, 0)]
    refuse((READ_GROUP, group))
    assert committed(client, group, *topics, version=version) == [30] * 3
    refuse()
    assert sorted(found(client, group, version=version)) == [(5, 0), (5, 0)]


def test_a_group_that_may_not_be_described_is_refused_alone(client: Any, refuse: Refuse) -> None:
    group_requests.coordinated(client)
    topic = make_topic(client)
    refuse((DESCRIBE_GROUP, "hidden"))
    topics = [OffsetFetchRequestTopics(name=topic.name, partition_indexes=[0, 1])]
    asked = [OffsetFetchRequestGroup(group_id=one, topics=topics) for one in ("hidden", "seen")]
    first, second = client.ask(OffsetFetchRequest(groups=asked), 8).groups
    assert (first.error_code, first.topics) == (30, [])
    assert second.error_code == 0 and len(second.topics[0].partitions) == 2


def test_offsets_are_deleted_by_topic(client: Any, refuse: Refuse) -> None:
    group = group_requests.new_group()
    group_requests.coordinated(client, group)
    seen, hidden = make_topic(client), make_topic(client)
    assert committed(client, group, seen, hidden, version=9) == [0, 0]
    request = OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(
                name=topic.name, partitions=[OffsetDeleteRequestPartition(partition_index=0)]
            )
            for topic in (seen, hidden, NOWHERE)
        ],
    )
    refuse((DELETE_GROUP, group))
    assert client.ask(request, 0).error_code == 30
    refuse((READ_TOPIC, hidden.name))
    told = {t.name: t.partitions[0].error_code for t in client.ask(request, 0).topics}
    assert told == {seen.name: 0, hidden.name: 29, NOWHERE.name: 3}
    refuse()
    assert list(group_requests.fetched(client, group)) == [(hidden.name, 0)]


# -- groups and coordinators -----------------------------------------------------------------------


def test_groups_are_listed_described_and_deleted_one_by_one(client: Any, refuse: Refuse) -> None:
    group_requests.coordinated(client)
    topic, ids = make_topic(client), sorted(group_requests.new_group() for _ in range(2))
    for one in ids:
        assert group_requests.commit(client, one, topic, 5) == 0

    def listed() -> list[str]:
        groups = client.ask(ListGroupsRequest(), 5).groups
        return sorted(one.group_id for one in groups if one.group_id in ids)

    refuse((DESCRIBE_GROUP, ids[0]))
    assert listed() == ids, "it may describe the cluster"
    described = client.ask(DescribeGroupsRequest(groups=ids), 5).groups
    assert [(one.group_id, one.error_code) for one in described] == [(ids[0], 30), (ids[1], 0)]
    refuse((DESCRIBE_GROUP, ids[0]), DESCRIBE_CLUSTER)
    assert listed() == ids[1:]
    refuse((DELETE_GROUP, ids[0]))
    deleted = client.ask(DeleteGroupsRequest(groups_names=ids), 2).results
    assert [(one.group_id, one.error_code) for one in deleted] == [(ids[0], 30), (ids[1], 0)]
    assert listed() == ids[:1]


def test_coordinators_are_told_of_what_may_be_described(client: Any, refuse: Refuse) -> None:
    group_requests.coordinated(client)
    transaction_requests.coordinated(client)

    def told(key_type: int, version: int) -> list[int]:
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["hidden", "seen"])
        return [one.error_code for one in client.ask(request, version).coordinators]

    refuse((DESCRIBE_GROUP, "hidden"))
    assert (told(0, 4), told(1, 4)) == ([30, 0], [0, 0])
    refuse((DESCRIBE_TRANSACTIONAL_ID, "hidden"))
    assert (told(0, 4), told(1, 4)) == ([0, 0], [53, 0])
    refuse(CLUSTER_ACTION)
    assert (told(2, 5), told(2, 6)) == ([42, 42], [31, 31])
    refuse()
    assert told(2, 6) == [42, 42]


def test_a_refused_client_has_no_topic_created(node_factory: Any) -> None:
    running = node_factory()
    running.node.access.authorizer = Refusals(DESCRIBE_GROUP)
    with running.connect() as client:
        request = FindCoordinatorRequest(coordinator_keys=["a", "b"])
        assert list(errors_in(client.ask(request, 4))) == [30, 30]
        assert OFFSETS_TOPIC not in running.node.image.topics_by_name
        running.node.access.authorizer = Refusals((DESCRIBE_GROUP, "a"))
        group_requests.coordinated(client, "b")


# -- transactions ----------------------------------------------------------------------------------


def test_a_producer_id_is_given_for_either_permission(client: Any, refuse: Refuse) -> None:
    transaction_requests.coordinated(client)

    def error() -> int:
        return client.ask(InitProducerIdRequest(transactional_id=None), 5).error_code

    for refused, expected in (
        ((IDEMPOTENT_WRITE,), 0),
        ((WRITE_TOPIC,), 0),
        ((IDEMPOTENT_WRITE, WRITE_TOPIC), 31),
    ):
        refuse(*refused)
        assert error() == expected, refused
    mine = transaction_requests.new_id()
    refuse((WRITE_TRANSACTIONAL_ID, mine))
    assert transaction_requests.init(client, mine).error_code == 53
    refuse(IDEMPOTENT_WRITE, WRITE_TOPIC)
    assert transaction_requests.init(client, mine).error_code == 0


def test_two_phase_commit_is_a_permission_of_its_own(node_factory: Any) -> None:
    running = node_factory(
        unstable_api_versions_enable="true", transaction_two_phase_commit_enable="true"
    )
    with running.connect() as client:
        transaction_requests.coordinated(client)
        running.node.access.authorizer = Refusals(TWO_PHASE_COMMIT)
        request = InitProducerIdRequest(transactional_id="mine", transaction_timeout_ms=60_000)
        assert client.ask(request, 6).error_code == 0
        request.enable_2pc = True
        assert client.ask(request, 6).error_code == 53


def test_partitions_join_a_transaction_together_or_not_at_all(client: Any, refuse: Refuse) -> None:
    mine = transaction_requests.new_id()
    transaction_requests.coordinated(client, mine)
    producer = transaction_requests.initialized(client, mine)
    seen, hidden = make_topic(client), make_topic(client)

    def added(*names: str) -> list[int]:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=mine,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=one, partitions=[0]) for one in names
            ],
        )
        results = client.ask(request, 3).results_by_topic_v3_and_below
        return [one.results_by_partition[0].partition_error_code for one in results]

    refuse((WRITE_TOPIC, hidden.name))
    assert added(seen.name, hidden.name, "nowhere") == [55, 29, 3]
    assert added(seen.name, OFFSETS_TOPIC) == [55, 29]
    refuse((WRITE_TOPIC, "nowhere"))
    assert added("nowhere") == [29]
    refuse((WRITE_TRANSACTIONAL_ID, mine))
    assert added(seen.name, "nowhere") == [53, 53]
    assert transaction_requests.state_of(client, mine) == "Empty"
    refuse(CLUSTER_ACTION)
    assert added(seen.name) == [0]
    answer = client.ask(AddPartitionsToTxnRequest(), 5)
    assert (answer.error_code, answer.results_by_transaction) == (31, [])
    refuse(WRITE_TOPIC, WRITE_TRANSACTIONAL_ID)  # which a leader need not have
    by_leader = transaction_requests.asked_by_leader(client, (mine, producer, hidden.name, [0]))
    assert by_leader[mine] == {(hidden.name, 0): 0}


def test_offsets_in_a_transaction_are_refused_by_topic(client: Any, refuse: Refuse) -> None:
    mine, group = transaction_requests.new_id(), group_requests.new_group()
    transaction_requests.coordinated(client, mine)
    group_requests.coordinated(client, group)
    producer = transaction_requests.initialized(client, mine)
    seen, hidden = make_topic(client), make_topic(client)
    request = TxnOffsetCommitRequest(
        transactional_id=mine,
        group_id=group,
        producer_id=producer[0],
        producer_epoch=producer[1],
        topics=[
            TxnOffsetCommitRequestTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[TxnOffsetCommitRequestPartition(committed_offset=5)],
            )
            for topic in (seen, hidden, NOWHERE)
        ],
    )

    def told(version: int = 5) -> list[int]:
        return [one.partitions[0].error_code for one in client.ask(request, version).topics]

    refuse((WRITE_TRANSACTIONAL_ID, mine), READ_GROUP)
    assert told() == [53] * 3
    refuse((READ_GROUP, group), READ_TOPIC)
    assert told() == [30] * 3
    refuse(READ_TOPIC)
    assert told() == [29] * 3
    assert told(6) == [29, 29, 100]
    refuse((READ_TOPIC, hidden.name))
    assert told() == [0, 29, 3]
    assert told(6) == [0, 29, 100]


def test_markers_are_written_for_either_permission(client: Any, refuse: Refuse) -> None:
    topic = make_topic(client)
    marker = WritableTxnMarker(
        producer_id=7,
        transaction_result=True,
        topics=[WritableTxnMarkerTopic(name=topic.name, partition_indexes=[0])],
    )
    request = WriteTxnMarkersRequest(markers=[marker])
    for refused, expected in (
        ((ALTER_CLUSTER, CLUSTER_ACTION), [31]),
        ((ALTER_CLUSTER,), []),
        ((CLUSTER_ACTION,), []),
    ):
        refuse(*refused)
        assert list(errors_in(client.ask(request, 1))) == expected, refused


def test_transactions_are_shown_without_what_may_not_be_described(
    client: Any, refuse: Refuse
) -> None:
    ids = sorted(transaction_requests.new_id() for _ in range(2))
    seen, hidden = make_topic(client), make_topic(client)
    for one in ids:
        transaction_requests.coordinated(client, one)
        producer = transaction_requests.initialized(client, one)
        for topic in (seen, hidden):
            assert transaction_requests.add(client, one, producer, topic.name, 0) == {0: 0}
    refuse((DESCRIBE_TRANSACTIONAL_ID, ids[0]), (DESCRIBE_TOPIC, hidden.name))
    request = DescribeTransactionsRequest(transactional_ids=ids)
    first, second = client.ask(request, 0).transaction_states
    assert (first.error_code, first.transaction_state) == (53, "")
    assert (second.error_code, [one.topic for one in second.topics]) == (0, [seen.name])
    listed = client.ask(ListTransactionsRequest(), 1).transaction_states
    assert [one.transactional_id for one in listed if one.transactional_id in ids] == ids[1:]
