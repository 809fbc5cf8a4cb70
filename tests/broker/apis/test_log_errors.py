"""A log raises an error: every handler answers it with the same code, and the node goes on."""

from __future__ import annotations

import errno

import pytest

from fencepost.batch.errors import BatchError
from fencepost.log.errors import (
    CorruptFileError,
    InconsistentTopicIdError,
    LogError,
    LogFailedError,
    OffsetOutOfRange,
)
from fencepost.wire.api import (
    DeleteRecordsRequest,
    DescribeLogDirsRequest,
    DescribeProducersRequest,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
)
from fencepost.wire.api.delete_records import DeleteRecordsPartition, DeleteRecordsTopic
from fencepost.wire.api.describe_producers import TopicRequest
from fencepost.wire.api.list_offsets import ListOffsetsPartition, ListOffsetsTopic
from fencepost.wire.api.offset_for_leader_epoch import (
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from fencepost.wire.errors import ErrorCode

from ..topic_requests import batch, fetch, make_topic, produce


def ask_fetch(client, topic, version=12):
    (part,) = fetch(client, topic, 0, version=version)
    return part.error_code


def ask_committed(client, topic):
    (part,) = fetch(client, topic, 0, isolation_level=1)
    return part.error_code


def ask_list_offsets(client, topic, timestamp=1):
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic.name, partitions=[asked])])
    return client.ask(request, 8).topics[0].partitions[0].error_code


def ask_max_timestamp(client, topic):
    return ask_list_offsets(client, topic, timestamp=-3)


def ask_delete_records(client, topic):
    asked = DeleteRecordsPartition(partition_index=0, offset=1)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic.name, partitions=[asked])])
    return client.ask(request, 2).topics[0].partitions[0].error_code


def ask_produce(client, topic):
    return produce(client, topic, batch(b"b")).error_code


def ask_offset_for_leader_epoch(client, topic):
    asked = OffsetForLeaderPartition(partition=0, leader_epoch=0)
    topics = [OffsetForLeaderTopic(topic=topic.name, partitions=[asked])]
    return (
        client.ask(OffsetForLeaderEpochRequest(topics=topics), 4).topics[0].partitions[0].error_code
    )


def ask_describe_producers(client, topic):
    request = DescribeProducersRequest(
        topics=[TopicRequest(name=topic.name, partition_indexes=[0])]
    )
    return client.ask(request, 0).topics[0].partitions[0].error_code


def ask_describe_log_dirs(client, topic):
    """The worst of both directories': the partition is in one of them."""
    results = client.ask(DescribeLogDirsRequest(topics=None), 4).results
    return max(result.error_code for result in results)


READERS = [
    pytest.param(ask_fetch, "read", id="Fetch"),
    pytest.param(ask_committed, "has_aborted_transactions", id="Fetch-committed"),
    pytest.param(ask_list_offsets, "batch_by_timestamp", id="ListOffsets"),
    pytest.param(ask_max_timestamp, "batch_by_max_timestamp", id="ListOffsets-max"),
]
WRITERS = [
    pytest.param(ask_produce, "append_all_as_leader", id="Produce"),
    pytest.param(ask_delete_records, "advance_start_offset", id="DeleteRecords"),
]
OTHERS = [
    pytest.param(ask_offset_for_leader_epoch, id="OffsetForLeaderEpoch"),
    pytest.param(ask_describe_producers, id="DescribeProducers"),
    pytest.param(ask_describe_log_dirs, id="DescribeLogDirs"),
]
DISK_ERRORS = [OSError(errno.EIO, "the disk refuses"), LogFailedError("it has refused")]


def spoil(running, topic, name, error, monkeypatch):
    """From now on the log of the topic raises `error` where it is asked for `name`."""
    hosted = running.call(running.node.broker.replicas.get, topic.name, 0)

    def refuse(*_args, **_kinds):
        raise error

    monkeypatch.setattr(hosted.log, name, refuse)
    return hosted


@pytest.mark.parametrize(("ask", "name"), READERS)
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OffsetOutOfRange(0, 1, 2), ErrorCode.OFFSET_OUT_OF_RANGE),
        (CorruptFileError("a.log", "garbage", 7), ErrorCode.CORRUPT_MESSAGE),
        (BatchError(ErrorCode.INVALID_RECORD, "damaged"), ErrorCode.CORRUPT_MESSAGE),
        (InconsistentTopicIdError("another topic's"), ErrorCode.INCONSISTENT_TOPIC_ID),
        (LogError("anything else"), ErrorCode.UNKNOWN_SERVER_ERROR),
        (OSError(errno.EMFILE, "no descriptor"), ErrorCode.KAFKA_STORAGE_ERROR),
    ],
    ids=lambda it: type(it).__name__,
)
def test_what_cannot_be_read_is_told_and_the_rest_goes_on(
    node, client, topic, monkeypatch, ask, name, error, code
):
    produce(client, topic, batch(b"a"))
    hosted = spoil(node, topic, name, error, monkeypatch)
    assert ask(client, topic) == code
    assert hosted.data_dir.is_online
    monkeypatch.undo()
    assert ask(client, topic) == 0


@pytest.mark.parametrize(("ask", "name"), [*READERS, *WRITERS])
@pytest.mark.parametrize("error", DISK_ERRORS, ids=lambda it: type(it).__name__)
def test_a_disk_that_refuses_is_a_storage_error_to_every_handler(
    node_factory, monkeypatch, tmp_path, ask, name, error
):
    """To the one that finds out, and from then on to all: the directory is offline."""
    dirs = {"log_dirs": f"{tmp_path}/a,{tmp_path}/b", "metadata_log_dir": f"{tmp_path}/c"}
    running = node_factory(**dirs)
    with running.connect() as client:
        topic = make_topic(client)
        produce(client, topic, batch(b"a"))
        hosted = spoil(running, topic, name, error, monkeypatch)
        assert ask(client, topic) == ErrorCode.KAFKA_STORAGE_ERROR
        assert not hosted.data_dir.is_online
        monkeypatch.undo()
        for ask_again, *_ in (row.values for row in (*READERS, *WRITERS, *OTHERS)):
            assert ask_again(client, topic) == ErrorCode.KAFKA_STORAGE_ERROR


def test_before_storage_errors_existed_they_were_told_as_another_leader(
    node, client, topic, monkeypatch
):
    produce(client, topic, batch(b"a"))
    spoil(node, topic, "read", OSError(errno.EMFILE, "no descriptor"), monkeypatch)
    assert ask_fetch(client, topic, version=5) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert ask_fetch(client, topic, version=6) == ErrorCode.KAFKA_STORAGE_ERROR
