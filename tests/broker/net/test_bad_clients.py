"""Clients that are hostile, broken or only strange, against a served broker with others at work.

Whatever they do, the process stays, its memory stays within bounds, its log has a line and no
traceback, and librdkafka next to them notices nothing.
"""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import time
from datetime import datetime

import pytest

from fencepost.batch.compression import CODECS
from fencepost.batch.header import stamp_crc
from fencepost.batch.records import build_batch
from fencepost.broker.net.log_limit import BURST_LINES, LINES_PER_S
from fencepost.testing import Cluster
from fencepost.wire.api import (
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DescribeProducersRequest,
    FetchRequest,
    JoinGroupRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetForLeaderEpochRequest,
    ProduceRequest,
)
from fencepost.wire.api.create_topics import CreatableTopic, CreatableTopicConfig
from fencepost.wire.api.delete_records import DeleteRecordsPartition, DeleteRecordsTopic
from fencepost.wire.api.describe_producers import TopicRequest
from fencepost.wire.api.fetch import FetchPartition, FetchTopic
from fencepost.wire.api.join_group import JoinGroupRequestProtocol
from fencepost.wire.api.list_offsets import ListOffsetsPartition, ListOffsetsTopic
from fencepost.wire.api.metadata import MetadataRequestTopic
from fencepost.wire.api.offset_for_leader_epoch import (
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from fencepost.wire.api.produce import PartitionProduceData, TopicProduceData
from fencepost.wire.errors import ErrorCode
from fencepost.wire.frame import encode_request

from ...waiting import eventually
from ..groups.group_requests import coordinated, join, new_group
from ..hostile import ASK, assert_serves, besieged
from ..listener_fixtures import Client, connect

pytestmark = pytest.mark.slow

INT32_MAX = (1 << 31) - 1
INT64_MAX = (1 << 63) - 1


@pytest.fixture(scope="module")
def cluster():
    with Cluster(
        faults=False, offsets_topic_num_partitions=1, auto_create_topics_enable=False
    ) as started:
        with connect(started) as client:
            for name in ("sample", "full", "bystander"):
                assert create(client, name).error_code == 0
            for _ in range(30):
                assert produce(client, batch(b"x" * 900_000), "full").error_code == 0
        yield started


def create(client: Client, name: str, partitions: int = 1, **configs: str):
    asked = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=[CreatableTopicConfig(name=k, value=v) for k, v in configs.items()],
    )
    return client.ask(CreateTopicsRequest(topics=[asked], timeout_ms=60_000), 7).topics[0]


def batch(*values: bytes, **kinds) -> bytearray:
    kinds.setdefault("timestamp_ms", int(time.time() * 1000))
    return build_batch([(None, value) for value in values], **kinds)


def produce_request(records, topic="sample", acks=-1, **fields) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=records)
    named = TopicProduceData(name=topic, partition_data=[data])
    return ProduceRequest(acks=acks, timeout_ms=60_000, topic_data=[named], **fields)


def produce(client: Client, records, topic="sample", **fields):
    response = client.ask(produce_request(records, topic, **fields), 9)
    return response.responses[0].partition_responses[0]


def fetch_request(topic="full", offset=0, max_bytes=INT32_MAX, **fields) -> FetchRequest:
    partition = FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=fields.pop("partition_max", INT32_MAX)
    )
    fields.setdefault("max_wait_ms", 0)
    fields.setdefault("min_bytes", 1)
    return FetchRequest(
        max_bytes=max_bytes, topics=[FetchTopic(topic=topic, partitions=[partition])], **fields
    )


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


# -- bytes that are no requests --------------------------------------------------------------------


def test_garbage_of_all_kinds(cluster):
    dice = random.Random(7)
    known = [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
        b"SSH-2.0-x\r\n",
        struct.pack(">i", -1),
        struct.pack(">i", 0),
        struct.pack(">i", INT32_MAX) + b"x" * 100,
        frame(struct.pack(">hhih", 30_000, 0, 1, -1)),
        frame(struct.pack(">hhih", 0, 30_000, 1, -1)),
        frame(struct.pack(">hhih", 1, -1, 1, -1)),
        frame(struct.pack(">hhihb", 3, 12, 1, -1, 127) + b"\xff" * 50),
    ]
    with besieged(cluster, "bystander") as watch:
        for data in known + [dice.randbytes(dice.randrange(1, 4000)) for _ in range(300)]:
            with connect(cluster) as client, contextlib.suppress(OSError):
                client.send_raw(data)
    assert len(watch.log_text.splitlines()) < 320


def test_log_lines_are_bounded_in_number(cluster):
    with besieged(cluster, "bystander") as watch:
        for _ in range(2000):
            with connect(cluster) as client, contextlib.suppress(OSError):
                client.send_raw(b"\xff\xff\xff\xff")
                assert client.is_disconnected()
    lines = [line for line in watch.log_text.splitlines() if "closing" in line]
    first, last = (datetime.fromisoformat(line[:23]) for line in (lines[0], lines[-1]))
    # Not more than so many a second, by the log's own times, and the first and the last second.
    assert len(lines) <= BURST_LINES + LINES_PER_S * ((last - first).total_seconds() + 2)


def test_names_in_the_log_stay_on_their_line(cluster):
    name = "a\n2026-01-01 00:00:00.000 INFO fencepost: all is well\x1b[2J" + "x" * 5000

    def is_logged() -> bool:
        # Asked again until there is a line: the log may still be short of lines after a flood.
        with connect(cluster) as client:
            client.send(produce_request(b"", name, acks=0), 9)
            assert client.is_disconnected()
        return "acks=0" in watch.log_text

    with besieged(cluster, "bystander") as watch:
        eventually(is_logged, "it is logged")
    line = next(line for line in watch.log_text.splitlines() if "acks=0" in line)
    assert "all is well" in line
    assert "\x1b" not in line
    assert len(line) < 2200


def test_three_hundred_slow_clients_byte_by_byte(cluster):
    request = encode_request(ASK, 3, 1, "slow")
    with besieged(cluster, "bystander"):
        clients = [connect(cluster) for _ in range(300)]
        for byte in request:
            for client in clients:
                client.send_raw(bytes([byte]))
        for client in clients:
            assert client.receive(18, 3)[1].error_code == 0
            client.close()


# -- memory ----------------------------------------------------------------------------------------


def test_half_frames_of_many_clients_are_bounded_together():
    limit = 16 << 20
    with (
        Cluster(
            faults=False, offsets_topic_num_partitions=1, socket_request_max_bytes=limit
        ) as cluster,
        besieged(cluster, "bystander", growth_mib=140) as watch,
    ):
        clients = []
        for _ in range(40):
            clients.append(connect(cluster))
            with contextlib.suppress(OSError):
                clients[-1].send_raw(struct.pack(">i", limit - 4) + bytes(6 << 20))
        eventually(lambda: "unfinished requests" in watch.log_text, "the slowest are evicted")
        for client in clients:
            client.close()


def test_what_large_frames_took_is_handed_back(cluster):
    """Nothing of it is in use: the C library alone would keep up to 64 MiB, and what is pinned."""
    size = 90 << 20
    with besieged(cluster, "bystander", growth_mib=300) as watch:
        for _ in range(4):
            with connect(cluster) as client:
                client.send_raw(struct.pack(">i", size) + bytes(size - (1 << 20)))
        slow = [connect(cluster) for _ in range(60)]
        for client in slow:
            client.send_raw(struct.pack(">i", size) + bytes(1 << 20))
        for client in slow:
            client.close()
        eventually(lambda: watch.rss_mib() < watch.before_mib + 30, "it is handed back")


def test_readers_that_never_read(cluster):
    with besieged(cluster, "bystander", growth_mib=450):
        clients = [connect(cluster) for _ in range(40)]
        for client in clients:
            for _ in range(5):
                client.send(fetch_request(), 12)
        time.sleep(0.5)  # not to synchronise: time in which memory could wrongly grow
        for client in clients:
            client.close()


def test_requests_that_list_millions_are_refused_at_once(cluster):
    count = 60 << 20 >> 4
    head = struct.pack(">hhih", 1, 4, 1, -1) + struct.pack(">iiiib", -1, 0, 0, INT32_MAX, 0)
    head += struct.pack(">ih6s", 1, 6, b"sample") + struct.pack(">i", count)
    request = frame(head + bytes(16 * count))

    def is_logged() -> bool:
        with connect(cluster) as client:
            with contextlib.suppress(OSError):
                client.send_raw(request)
            assert client.is_disconnected()
        return "more than" in watch.log_text

    with besieged(cluster, "bystander", growth_mib=200) as watch:
        eventually(is_logged, "it is logged")


def test_members_with_much_metadata_are_refused_or_bounded_together(cluster):
    """JoinGroup of 60 MiB, and as much as is allowed from many members that disconnect and wait."""
    with besieged(cluster, "bystander", growth_mib=400) as watch:
        with connect(cluster) as client:
            coordinated(client)
            for number in range(4):
                request = large_join(f"huge-{number}", 60 << 20)
                assert client.ask(request, 3).error_code == ErrorCode.MESSAGE_TOO_LARGE
        clients = []

        def refuses_more() -> bool:
            """After a burst of members; on a slow machine those of the last one may be gone."""
            clients.extend(connect(cluster) for _ in range(150))
            for client in clients[-150:]:
                client.send(large_join(new_group(), 1_000_000), 3)
            return not admits(cluster)

        eventually(refuses_more, "there is no more memory for large members")
        with connect(cluster) as client:
            small = join(client, "small", version=3)
            assert small.error_code == 0, "who needs little is let in"
        for client in clients:
            client.close()
        eventually(lambda: admits(cluster), "the members are gone, and their memory is free")
        eventually(lambda: watch.rss_mib() < watch.before_mib + 100, "and handed back")


def large_join(group: str, size: int) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=6000,
        rebalance_timeout_ms=6000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=bytes(size))],
    )


def admits(cluster) -> bool:
    """Whether one more may join who has much to say."""
    with connect(cluster) as client:
        error = client.ask(large_join(new_group(), 1_000_000), 3).error_code
    assert error in (ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return error == ErrorCode.NONE


def test_ninety_thousand_names_are_answered(cluster):
    names = [MetadataRequestTopic(name=f"n{number}") for number in range(90_000)]
    with besieged(cluster, "bystander"), connect(cluster) as client:
        answer = client.ask(MetadataRequest(topics=names, allow_auto_topic_creation=False), 9)
        assert {topic.error_code for topic in answer.topics} == {3}
        assert len(answer.topics) == 90_000


@pytest.mark.parametrize("codec", [name for name in CODECS if name != "none"])
def test_a_bomb_is_refused_without_going_off(cluster, codec):
    bomb = batch(bytes(100 << 20), compression=codec)
    with besieged(cluster, "bystander", growth_mib=250), connect(cluster) as client:
        answer = produce(client, bomb)
        assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE


# -- too much of everything ------------------------------------------------------------------------


def test_a_flood_of_requests_whose_answers_nobody_reads(cluster):
    request = encode_request(MetadataRequest(topics=None), 9, 1, "flood") * 500
    with (
        besieged(cluster, "bystander"),
        connect(cluster, timeout_s=1) as client,
        pytest.raises(TimeoutError),
    ):
        client.send_raw(request * 4000)


def test_storms_of_long_polls_that_disconnect(cluster):
    waiting = fetch_request("bystander", max_wait_ms=INT32_MAX, min_bytes=INT32_MAX)
    with besieged(cluster, "bystander"):
        for _ in range(3):
            clients = [connect(cluster) for _ in range(100)]
            for client in clients:
                for _ in range(20):
                    client.send(waiting, 12)
            for client in clients:
                client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                client.close()


def test_waiting_for_much_costs_little_at_every_append(cluster):
    waiting = fetch_request("full", max_wait_ms=60_000, min_bytes=INT32_MAX, offset=1)
    with besieged(cluster, "bystander"):
        clients = [connect(cluster) for _ in range(10)]
        for client in clients:
            for _ in range(10):
                client.send(waiting, 12)
        with connect(cluster) as writer:
            for _ in range(10):
                assert produce(writer, batch(b"x"), "full").error_code == 0
        for client in clients:
            client.close()


def test_connections_beyond_the_limit():
    with (
        Cluster(faults=False, offsets_topic_num_partitions=1, max_connections=300) as cluster,
        besieged(cluster, "bystander") as watch,
    ):
        sockets = [connect(cluster) for _ in range(600)]
        refused = sum(client.is_disconnected() for client in sockets[300:])
        assert refused == 300
        for client in sockets:
            client.close()
        eventually(lambda: "max.connections" in watch.log_text, "it is logged")
        eventually(lambda: _accepts(cluster), "places are free again")


def _accepts(cluster) -> bool:
    with contextlib.suppress(EOFError, OSError):
        assert_serves(cluster)
        return True
    return False


# -- produce ---------------------------------------------------------------------------------------


def edited(position: int, form: str, value: int, **kinds) -> bytearray:
    """A batch with another number at this place of its header, and a CRC that fits."""
    made = batch(b"one", b"two", **kinds)
    struct.pack_into(form, made, position, value)
    if position > 21:
        stamp_crc(made)
    return made


def with_attributes(bits: int) -> bytearray:
    made = batch(b"one")
    struct.pack_into(">h", made, 21, bits)
    stamp_crc(made)
    return made


BAD_BATCHES = [
    ("nothing", b"", ErrorCode.INVALID_RECORD),
    ("null", None, ErrorCode.INVALID_RECORD),
    ("short", b"x" * 10, ErrorCode.INVALID_RECORD),
    ("magic 1", edited(16, ">b", 1), ErrorCode.INVALID_RECORD),
    ("magic 9", edited(16, ">b", 9), ErrorCode.CORRUPT_MESSAGE),
    ("crc", edited(17, ">I", 12345), ErrorCode.CORRUPT_MESSAGE),
    ("length -1", edited(8, ">i", -1), ErrorCode.CORRUPT_MESSAGE),
    ("length max", edited(8, ">i", INT32_MAX), ErrorCode.INVALID_RECORD),
    ("codec 5", with_attributes(5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    ("codec 7", with_attributes(7), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    ("not zstd", with_attributes(4), ErrorCode.INVALID_RECORD),
    ("control", with_attributes(0x20), ErrorCode.INVALID_RECORD),
    ("transactional", with_attributes(0x10), ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    ("broker's time", with_attributes(0x08), ErrorCode.INVALID_TIMESTAMP),
    ("count 0", edited(57, ">i", 0), ErrorCode.INVALID_RECORD),
    ("count -1", edited(57, ">i", -1), ErrorCode.INVALID_RECORD),
    ("count max", edited(57, ">i", INT32_MAX), ErrorCode.INVALID_RECORD),
    ("delta -1", edited(23, ">i", -1), ErrorCode.INVALID_RECORD),
    ("delta max", edited(23, ">i", INT32_MAX), ErrorCode.INVALID_RECORD),
    ("year 300 million", edited(27, ">q", INT64_MAX - 5), ErrorCode.INVALID_TIMESTAMP),
    ("producer -5", edited(43, ">q", -5), ErrorCode.INVALID_RECORD),
    ("two batches", batch(b"one") + batch(b"two"), ErrorCode.INVALID_RECORD),
    ("too large", batch(b"x" * 2_000_000), ErrorCode.MESSAGE_TOO_LARGE),
]


def test_batches_that_are_not_sound_are_refused_with_kafkas_codes(cluster):
    with besieged(cluster, "bystander"), connect(cluster) as client:
        found = {name: produce(client, records).error_code for name, records, _ in BAD_BATCHES}
        assert found == {name: int(code) for name, _, code in BAD_BATCHES}


def test_acks_that_are_not_offered_and_transactions_that_nobody_began(cluster):
    with besieged(cluster, "bystander"), connect(cluster) as client:
        for acks in (7, -2, 32767, -32768):
            assert produce(client, batch(b"x"), acks=acks).error_code == 21
        ids = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
        assert produce(client, batch(b"x", **ids)).error_code == 53
        answer = produce(client, batch(b"x", **ids), transactional_id="t")
        assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS, "there is nobody to ask"


def test_producers_nobody_gave_an_id_to(cluster):
    ids = {"producer_id": INT64_MAX, "producer_epoch": 32767}
    with besieged(cluster, "bystander"), connect(cluster) as client:
        first = batch(b"a", base_sequence=INT32_MAX, **ids)
        assert produce(client, bytes(first)).error_code == 0
        again = produce(client, bytes(first))
        assert again.error_code == 0, "a duplicate is acknowledged"
        assert produce(client, batch(b"b", base_sequence=0, **ids)).error_code == 0
        gap = produce(client, batch(b"c", base_sequence=77, **ids)).error_code
        assert gap == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        old = batch(b"d", producer_id=INT64_MAX, producer_epoch=1, base_sequence=1)
        assert produce(client, old).error_code == ErrorCode.INVALID_PRODUCER_EPOCH


# -- names, numbers and epochs ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../../x", "a\0b", "x" * 250, "é", "a b"])
def test_names_that_could_be_paths_are_no_topics(cluster, name):
    before = sorted(path.name for path in cluster.data_dir.parent.iterdir())
    with connect(cluster) as client:
        assert create(client, name).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
        assert client.ask(asked, 9).topics[0].error_code == 17
        assert produce(client, batch(b"x"), name).error_code == 3
    assert sorted(path.name for path in cluster.data_dir.parent.iterdir()) == before


def test_invalid_topics_are_refused(cluster):
    with besieged(cluster, "bystander"), connect(cluster) as client:
        assert create(client, "wide", 1_000_000).error_code != 0
        assert create(client, "wide", INT32_MAX).error_code != 0
        assert create(client, "wide", -7).error_code == ErrorCode.INVALID_PARTITIONS
        assert create(client, "wide", nosuch="1").error_code == 40
        assert create(client, "wide", **{"retention.ms": "9" * 30_000}).error_code == 40
        assert create(client, "wide", **{"segment.bytes": "-1"}).error_code == 40


def test_offsets_and_epochs_at_their_extremes(cluster):
    extremes = [-(1 << 63), -2, INT64_MAX, INT64_MAX - 1]
    with besieged(cluster, "bystander"), connect(cluster) as client:
        for offset in extremes:
            part = client.ask(fetch_request(offset=offset), 12).responses[0].partitions[0]
            assert part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            partition = DeleteRecordsPartition(partition_index=0, offset=offset)
            asked = DeleteRecordsRequest(
                topics=[DeleteRecordsTopic(name="sample", partitions=[partition])]
            )
            (answer,) = client.ask(asked, 2).topics[0].partitions
            assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        for limit in (-1, -(1 << 31), 0):
            found = client.ask(fetch_request(max_bytes=limit, partition_max=limit), 12)
            assert found.responses[0].partitions[0].error_code == 0
        for epoch in (-(1 << 31), -1, INT32_MAX):
            partition = OffsetForLeaderPartition(
                partition=0, current_leader_epoch=-1, leader_epoch=epoch
            )
            asked = OffsetForLeaderEpochRequest(
                topics=[OffsetForLeaderTopic(topic="sample", partitions=[partition])]
            )
            (answer,) = client.ask(asked, 4).topics[0].partitions
            assert (answer.error_code, answer.end_offset >= -1) == (0, True)


def test_fetch_sessions_nobody_opened(cluster):
    with besieged(cluster, "bystander"), connect(cluster) as client:
        for session_id, epoch, code in [
            (12345, 7, 70),
            (0, 5, 70),
            (-1, INT32_MAX, 70),
            (INT32_MAX, -(1 << 31), 70),
        ]:
            asked = FetchRequest(
                max_wait_ms=0, session_id=session_id, session_epoch=epoch, topics=[]
            )
            assert client.ask(asked, 12).error_code == code


def test_the_same_partition_a_thousand_times(cluster):
    with besieged(cluster, "bystander"), connect(cluster) as client:
        partitions = [FetchPartition(partition=0, partition_max_bytes=1000) for _ in range(1000)]
        asked = FetchRequest(
            max_wait_ms=0,
            max_bytes=INT32_MAX,
            topics=[FetchTopic(topic="full", partitions=partitions)],
        )
        (topic,) = client.ask(asked, 12).responses
        assert len(topic.partitions) == 1
        question = ListOffsetsPartition(partition_index=0, timestamp=5)
        topics = [ListOffsetsTopic(name="full", partitions=[question]) for _ in range(1000)]
        listed = client.ask(ListOffsetsRequest(topics=topics), 6).topics
        assert {p.error_code for t in listed for p in t.partitions} == {42}
        asked = DescribeProducersRequest(
            topics=[TopicRequest(name="full", partition_indexes=[0] * 1000)] * 10
        )
        (topic,) = client.ask(asked, 0).topics
        assert len(topic.partitions) == 1
