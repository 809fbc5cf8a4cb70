"""Records and offsets in transactions over a whole node that asks no coordinator.

With `transaction.partition.verification.enable=false` leaders take what producers say; what they do
when they ask is in `tests/broker/transactions/test_end_to_end.py`.
"""

import pytest

from fencepost.wire.api.find_coordinator import FindCoordinatorRequest
from fencepost.wire.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from fencepost.wire.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from fencepost.wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from fencepost.wire.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from fencepost.wire.errors import ErrorCode

from ...waiting import eventually
from ..conftest import RunningNode
from ..topic_requests import batch, fetch, make_topic, produce, values
from .test_write_txn_markers import mark, marker

PID = 7
OFFSETS = "__consumer_offsets"


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    off = {
        "transaction.partition.verification.enable": "false",
        "offsets.topic.num.partitions": "1",
    }
    running = RunningNode(tmp_path_factory.mktemp("node") / "data", off)
    yield running
    running.close()


def records(*data, sequence=0, epoch=0, pid=PID, transactional=True):
    return batch(
        *data,
        producer_id=pid,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )


def write(client, topic, *data, version=9, transactional_id="tx", **said):
    return produce(
        client, topic, records(*data, **said), version, transactional_id=transactional_id
    )


def stable_end(client, topic):
    wanted = ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=1,
        topics=[ListOffsetsTopic(name=topic.name, partitions=[wanted])],
    )
    return client.ask(request, 7).topics[0].partitions[0].offset


def committed(client, topic):
    """What a reader of committed data is shown, and the aborted transactions it is told of."""
    [part] = fetch(client, topic, 0, isolation_level=1)
    aborted = [(one.producer_id, one.first_offset) for one in part.aborted_transactions or ()]
    return part.last_stable_offset, aborted, part


@pytest.mark.parametrize("version", [3, 9, 11])
@pytest.mark.parametrize("is_committed", [True, False])
def test_readers_of_committed_data_wait_for_the_marker(client, topic, version, is_committed):
    assert produce(client, topic, batch(b"before")).base_offset == 0
    assert write(client, topic, b"a", version=version).error_code == 0
    assert write(client, topic, b"b", sequence=1, version=version).error_code == 0
    assert produce(client, topic, batch(b"behind")).base_offset == 3
    last_stable, aborted, part = committed(client, topic)
    assert (last_stable, aborted, values(part)) == (1, [], [b"before"])
    assert (part.high_watermark, stable_end(client, topic)) == (4, 1)
    assert mark(client, marker({topic.name: [0]}, committed=is_committed)) == {
        (PID, topic.name, 0): 0
    }
    last_stable, aborted, part = committed(client, topic)
    assert last_stable == stable_end(client, topic) == 5
    assert aborted == ([] if is_committed else [(PID, 1)])
    assert values(part)[:4] == [b"before", b"a", b"b", b"behind"], "clients leave out the aborted"


def test_transactions_end_one_by_one(client, topic):
    for pid in (1, 2, 3):
        assert write(client, topic, b"v", pid=pid).error_code == 0
    ends = []
    for pid in (2, 1, 3):
        mark(client, marker({topic.name: [0]}, pid=pid, committed=False))
        ends.append(stable_end(client, topic))
    assert ends == [0, 2, 6]
    assert sorted(committed(client, topic)[1]) == [(1, 0), (2, 1), (3, 2)]


def test_restarting_changes_nothing(node_factory):
    running = node_factory(transaction_partition_verification_enable="false")
    with running.connect() as client:
        topic = make_topic(client)
        assert write(client, topic, b"aborted", pid=1).error_code == 0
        assert write(client, topic, b"open", pid=2, epoch=4).error_code == 0
        mark(client, marker({topic.name: [0]}, pid=1, committed=False, coordinator_epoch=0))
    running.restart()
    with running.connect() as client:
        assert eventually(lambda: committed(client, topic)[:2] == (1, [(1, 0)]))
        late = marker({topic.name: [0]}, pid=1, coordinator_epoch=-1)
        assert mark(client, late) == {(1, topic.name, 0): 52}
        assert write(client, topic, b"more", pid=2, epoch=4, sequence=1).error_code == 0
        assert write(client, topic, b"older", pid=2, epoch=3).error_code == 47
        mark(client, marker({topic.name: [0]}, pid=2, epoch=4))
        assert stable_end(client, topic) == 5


def test_what_is_not_as_it_should_be_is_refused(client, topic):
    other = make_topic(client)
    assert write(client, topic, b"a", transactional_id=None).error_code == 53
    assert write(client, topic, b"a", epoch=1).error_code == 0
    assert write(client, topic, b"b", epoch=0).error_code == 47
    assert write(client, topic, b"b", epoch=1, sequence=3).error_code == 45
    plain = records(b"b", epoch=1, sequence=1, transactional=False)
    assert produce(client, topic, plain).error_code == 48
    both = ProduceRequest(
        transactional_id="tx",
        acks=-1,
        timeout_ms=60_000,
        topic_data=[
            TopicProduceData(
                name=one.name,
                partition_data=[PartitionProduceData(index=0, records=records(b"c", pid=pid))],
            )
            for one, pid in ((topic, 21), (other, 22))
        ],
    )
    answers = [t.partition_responses[0].error_code for t in client.ask(both, 9).responses]
    assert answers == [49, 49]
    assert stable_end(client, other) == 0


def test_the_transactional_id_alone_makes_no_transaction(client, topic):
    assert produce(client, topic, batch(b"a"), transactional_id="tx").base_offset == 0
    assert stable_end(client, topic) == 1


# Offsets


def commit(
    client,
    topic,
    offset,
    *,
    version=3,
    indexes=(0,),
    epoch=0,
    group="g",
    pid=PID,
    transactional_id="tx",
    **said,
):
    """{partition: error}"""
    partitions = [
        TxnOffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_metadata=None
        )
        for index in indexes
    ]
    request = TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group,
        producer_id=pid,
        producer_epoch=epoch,
        topics=[TxnOffsetCommitRequestTopic(name=topic.name, partitions=partitions)],
        **said,
    )
    response = client.ask(request, version)
    return {p.partition_index: p.error_code for p in response.topics[0].partitions}


def offset_of(client, topic, *, stable=True, group="g"):
    wanted = OffsetFetchRequestTopics(name=topic.name, partition_indexes=[0])
    asked = OffsetFetchRequestGroup(group_id=group, topics=[wanted])
    request = OffsetFetchRequest(groups=[asked], require_stable=stable)
    part = client.ask(request, 8).groups[0].topics[0].partitions[0]
    return part.error_code or part.committed_offset


@pytest.fixture
def coordinated(client):
    """The coordinator of all groups is there."""
    client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)


def ended(client, **said):
    return set(mark(client, marker({OFFSETS: [0]}, **said)).values())


@pytest.mark.parametrize("version", range(5))
def test_offsets_count_when_the_marker_is_written(client, topic, coordinated, version):
    assert eventually(lambda: commit(client, topic, 5, version=version) == {0: 0})
    assert offset_of(client, topic) == ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert offset_of(client, topic, stable=False) == -1
    assert ended(client) == {0}
    assert offset_of(client, topic) == 5
    assert commit(client, topic, 9, version=version) == {0: 0}
    assert ended(client, committed=False) == {0}
    assert offset_of(client, topic) == 5


def test_partitions_and_groups_that_are_not_there(client, topic, coordinated):
    assert eventually(lambda: commit(client, topic, 1, indexes=(0, 9, -1)) == {0: 0, 9: 3, -1: 3})
    ended(client, committed=False)
    assert commit(client, topic, 1, group="") == {0: ErrorCode.INVALID_GROUP_ID}
    stale = {"generation_id_or_member_epoch": 4, "member_id": "nobody"}
    assert commit(client, topic, 1, group="new", **stale) == {0: ErrorCode.ILLEGAL_GENERATION}
    assert ended(client, epoch=2) == {0}
    assert commit(client, topic, 1, epoch=1) == {0: ErrorCode.INVALID_PRODUCER_EPOCH}


def test_without_a_coordinator_of_transactions_producers_are_to_try_again(
    client, topic, coordinated
):
    """Those that have their partitions added ask one, whatever the configuration says."""
    answer = write(client, topic, b"a", version=12, epoch=100)
    assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert eventually(lambda: commit(client, topic, 1, version=5, epoch=100) == {0: 15})
