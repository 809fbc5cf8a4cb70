"""WriteTxnMarkers over a whole node: partitions, the groups' topic, what is refused."""

import pytest

from fencepost.batch.control import read_control
from fencepost.wire.api.find_coordinator import FindCoordinatorRequest
from fencepost.wire.api.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from fencepost.wire.errors import ErrorCode

from ...waiting import eventually
from ..topic_requests import batch, make_topic, produce

OFFSETS = "__consumer_offsets"
NONE, UNKNOWN, INVALID, FENCED = 0, 3, 42, 47


def log_of(node, topic):
    """The log of partition 0, and its high watermark."""
    hosted = node.node.broker.replicas.get(topic.name, 0)
    return hosted.log, hosted.machine.high_watermark


def marker(topics, *, pid=7, epoch=0, committed=True, coordinator_epoch=0, version=0):
    return WritableTxnMarker(
        producer_id=pid,
        producer_epoch=epoch,
        transaction_result=committed,
        topics=[
            WritableTxnMarkerTopic(name=name, partition_indexes=indexes)
            for name, indexes in topics.items()
        ],
        coordinator_epoch=coordinator_epoch,
        transaction_version=version,
    )


def mark(client, *markers, version=2):
    """{(producer id, topic, partition): error} in the order of the answer."""
    response = client.ask(WriteTxnMarkersRequest(markers=list(markers)), version)
    return {
        (one.producer_id, topic.name, partition.partition_index): partition.error_code
        for one in response.markers
        for topic in one.topics
        for partition in topic.partitions
    }


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_is_in_the_log_when_it_is_answered(node, client, topic, version, committed):
    marked = marker({topic.name: [0]}, epoch=5, committed=committed, coordinator_epoch=0)
    assert mark(client, marked, version=version) == {(7, topic.name, 0): NONE}
    log, high_watermark = log_of(node, topic)
    [(header, data)] = log.read_all_batches(0, 1)
    [record] = read_control(data)
    assert (header.producer_id, header.producer_epoch, header.is_transactional) == (7, 5, True)
    assert (record.type, record.value.coordinator_epoch) == (committed, 0)
    assert high_watermark == 1


def test_partitions_are_answered_one_by_one_and_each_once(node, client, topic):
    other = make_topic(client)
    answers = mark(
        client,
        marker({"nothing": [0], topic.name: [0, 0, 99, -1]}),
        marker({other.name: [0], topic.name: [0]}, epoch=3),
        marker({topic.name: [0]}, epoch=2),
        marker({topic.name: [0]}, pid=-5),
        marker({topic.name: [0]}, pid=8, epoch=-1),
    )
    assert answers == {
        (7, "nothing", 0): UNKNOWN,
        (7, topic.name, 0): FENCED,
        (7, topic.name, 99): UNKNOWN,
        (7, topic.name, -1): UNKNOWN,
        (7, other.name, 0): NONE,
        (-5, topic.name, 0): INVALID,
        (8, topic.name, 0): INVALID,
    }
    assert log_of(node, topic)[0].end_offset == 2
    assert mark(client) == {} == mark(client, marker({}))


def test_thousands_of_markers_are_answered_and_leave_room_for_others(client, topic):
    markers = [marker({topic.name: [0]}, pid=pid) for pid in range(3_000)]
    assert set(mark(client, *markers).values()) == {NONE}
    assert produce(client, topic, batch(b"a")).base_offset == 3_000


def test_markers_for_groups_go_through_their_coordinator(node, client):
    assert mark(client, marker({OFFSETS: [0]})) == {(7, OFFSETS, 0): UNKNOWN}
    client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
    runtime = node.node.broker.coordinators.groups.runtime
    index = eventually(lambda: [one for one in range(3) if runtime.get(one)])[0]
    where = {OFFSETS: [index]}
    eventually(lambda: mark(client, marker(where, epoch=5)) == {(7, OFFSETS, index): NONE})
    assert mark(client, marker(where, epoch=4)) == {(7, OFFSETS, index): FENCED}
    stale = marker(where, epoch=5, coordinator_epoch=-2)
    assert mark(client, stale) == {(7, OFFSETS, index): ErrorCode.TRANSACTION_COORDINATOR_FENCED}
    node.call(runtime.unload, index, None)
    assert mark(client, marker(where, epoch=5)) == {
        (7, OFFSETS, index): ErrorCode.NOT_LEADER_OR_FOLLOWER
    }


def test_a_later_coordinator_than_there_is_is_refused(node, client, topic):
    """Whoever writes with such an epoch would fence the producer's coordinator for good."""
    where = {topic.name: [0]}
    refused = {(7, topic.name, 0): ErrorCode.UNKNOWN_LEADER_EPOCH}
    for epoch in (1, (1 << 31) - 1):
        assert mark(client, marker(where, coordinator_epoch=epoch)) == refused
    assert log_of(node, topic)[0].end_offset == 0
    assert mark(client, marker(where)) == {(7, topic.name, 0): NONE}
