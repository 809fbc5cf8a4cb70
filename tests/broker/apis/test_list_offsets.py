"""ListOffsets: every kind of question at every version, and the order in which askers are refused.

The offsets are those Apache Kafka 4.3 gave for the same records, but for the deleted maximum.
"""

import pytest

from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.wire.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

from .harness import ask, broker, register, served_versions
from .partitions import PartitionNode

register("offsets")

VERSIONS = served_versions(ListOffsetsRequest)
LATEST, EARLIEST, MAX, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = range(-1, -7, -1)
NOTHING = (0, -1, -1, -1)


@pytest.fixture
def node(tmp_path):
    return PartitionNode(BrokerConfig.load(None, {}), directory=tmp_path).learn(broker(1))


@pytest.fixture
def hosted(node):
    """Offsets 0-2, 3-4 and 5, in three batches, with timestamps out of order."""
    hosted = node.host("events")
    node.produce(hosted, [1000, 3000, 2000])
    node.produce(hosted, [2500, 500])
    node.produce(hosted, [3000])
    return hosted


def question(timestamp, *, partition=0, current=-1):
    return ListOffsetsPartition(
        partition_index=partition, timestamp=timestamp, current_leader_epoch=current
    )


def listed(node, *questions, topic="events", version=11, **options):
    request = ListOffsetsRequest(
        **{"replica_id": -1, **options},
        topics=[ListOffsetsTopic(name=topic, partitions=list(questions))],
    )
    (answered,) = ask(node, request, version).topics
    assert answered.name == topic
    return answered.partitions


def where(node, timestamp, *, partition=0, current=-1, **options):
    (answer,) = listed(node, question(timestamp, partition=partition, current=current), **options)
    assert answer.partition_index == partition
    return answer.error_code, answer.timestamp, answer.offset, answer.leader_epoch


def test_kafka_4_3_versions_are_served():
    assert range(1, 12) == VERSIONS


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("timestamp", "since", "found", "offset"),
    [
        (LATEST, 1, -1, 6),
        (EARLIEST, 1, -1, 0),
        (MAX, 7, 3000, 1),
        (EARLIEST_LOCAL, 8, -1, 0),
        (LATEST_TIERED, 9, -1, -1),
        (EARLIEST_PENDING, 11, -1, -1),
        (-7, 99, -1, -1),
        (-(2**63), 99, -1, -1),
    ],
)
def test_ends_of_the_log(node, hosted, timestamp, since, found, offset, version):
    if version < since:
        assert where(node, timestamp, version=version) == (35, -1, -1, -1)
        return
    epoch = 0 if offset >= 0 and version >= 4 else -1
    assert where(node, timestamp, version=version) == (0, found, offset, epoch)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("timestamp", "found", "offset"),
    [
        (0, 1000, 0),
        (500, 1000, 0),
        (1000, 1000, 0),
        (1001, 3000, 1),
        (2001, 3000, 1),
        (2600, 3000, 1),
        (3000, 3000, 1),
        (3001, -1, -1),
        (2**63 - 1, -1, -1),
    ],
)
def test_times(node, hosted, timestamp, found, offset, version):
    epoch = 0 if offset >= 0 and version >= 4 else -1
    assert where(node, timestamp, version=version) == (0, found, offset, epoch)


def test_an_empty_log(node):
    node.host("events")
    assert where(node, LATEST) == (0, -1, 0, 0)
    assert where(node, EARLIEST) == (0, -1, 0, 0)
    assert where(node, MAX) == NOTHING
    assert where(node, 0) == NOTHING


def test_offsets_come_with_the_epoch_of_their_record(node, hosted):
    node.lead(hosted, 4)
    node.produce(hosted, [9000])
    assert where(node, 9000) == (0, 9000, 6, 4)
    assert where(node, 3000) == (0, 3000, 1, 0)
    assert where(node, LATEST) == (0, -1, 7, 4)
    hosted.log.advance_start_offset(6)
    assert where(node, EARLIEST) == (0, -1, 6, 4)


def test_what_is_deleted_is_not_found(node, hosted):
    hosted.log.advance_start_offset(4)
    assert where(node, EARLIEST) == (0, -1, 4, 0)
    assert where(node, 0) == (0, 500, 4, 0)
    assert where(node, 600) == (0, 3000, 5, 0)
    hosted.log.advance_start_offset(6)
    assert where(node, EARLIEST) == (0, -1, 6, 0)
    assert where(node, LATEST) == (0, -1, 6, 0)
    assert where(node, 0) == NOTHING
    assert where(node, MAX) == NOTHING


# -- who may see what ----------------------------------------------------------------------------


@pytest.fixture
def half(node):
    """Two of four records are on the other replica."""
    hosted = node.host("events", replicas=(1, 2))
    node.produce(hosted, [10, 20])
    node.produce(hosted, [30, 40])
    node.follower_fetched(hosted, 2, 2)
    assert hosted.machine.high_watermark == 2
    return hosted


def test_consumers_see_up_to_the_high_watermark(node, half):
    assert where(node, LATEST) == (0, -1, 2, 0)
    assert where(node, 20) == (0, 20, 1, 0)
    assert where(node, 30) == NOTHING
    assert where(node, MAX) == NOTHING


@pytest.mark.parametrize("replica_id", [0, 1, 2, 9])
def test_followers_see_to_the_end(node, half, replica_id):
    assert where(node, LATEST, replica_id=replica_id) == (0, -1, 4, 0)
    assert where(node, 30, replica_id=replica_id) == (0, 30, 2, 0)
    assert where(node, MAX, replica_id=replica_id) == (0, 40, 3, 0)


def test_committed_readers_see_up_to_the_first_open_transaction(node, hosted):
    node.produce(hosted, [1], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    node.produce(hosted, [2])
    assert where(node, LATEST) == (0, -1, 8, 0)
    assert where(node, LATEST, isolation_level=1) == (0, -1, 6, 0)
    assert where(node, LATEST, isolation_level=1, replica_id=2) == (0, -1, 8, 0)


@pytest.mark.parametrize("level", [-1, 2, 9])
def test_levels_of_isolation_that_do_not_exist(node, hosted, level):
    assert where(node, LATEST, isolation_level=level) == (42, -1, -1, -1)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_new_leader_that_lags_asks_for_patience(node, half, version):
    node.lead(half, 1, (1, 2))  # epoch 1 begins at 4, and 2 to 4 are not yet known to be safe
    code = 78 if version >= 5 else 5
    assert where(node, LATEST, version=version)[0] == code
    assert where(node, 30, version=version)[0] == code
    assert where(node, 20, version=version)[2] == 1
    assert where(node, EARLIEST, version=version)[2] == 0
    node.follower_fetched(half, 2, 4)
    assert where(node, LATEST, version=version)[2] == 4


# -- who is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS[3:])
def test_the_askers_epoch_is_checked(node, hosted, version):
    node.lead(hosted, 3)
    for timestamp in (LATEST, EARLIEST, 1000):
        assert where(node, timestamp, current=3, version=version)[0] == 0
        assert where(node, timestamp, current=2, version=version) == (74, -1, -1, -1)
        assert where(node, timestamp, current=4, version=version) == (75, -1, -1, -1)


@pytest.mark.parametrize("version", VERSIONS)
def test_only_leaders_answer_but_to_debuggers(node, hosted, version):
    node.follow(hosted, 1)
    assert where(node, LATEST, version=version) == (6, -1, -1, -1)
    assert where(node, EARLIEST, version=version, replica_id=2) == (6, -1, -1, -1)
    assert where(node, EARLIEST, version=version, replica_id=-2)[:3] == (0, -1, 0)


def test_the_epoch_is_checked_before_the_leadership(node, hosted):
    node.follow(hosted, 1)
    assert where(node, LATEST, current=0)[0] == 74
    assert where(node, LATEST, current=2)[0] == 75
    assert where(node, LATEST, current=1)[0] == 6


@pytest.mark.parametrize("version", VERSIONS)
def test_partitions_that_are_not_here(node, hosted, version):
    node.host("wide", index=1)
    assert where(node, LATEST, topic="wide", version=version)[0] == 6
    assert where(node, LATEST, partition=9, version=version)[0] == 3
    assert where(node, LATEST, partition=-1, version=version)[0] == 3
    assert where(node, LATEST, topic="absent", version=version)[0] == 3
    assert where(node, LATEST, topic="a b", version=version)[0] == 3


def test_an_offline_directory(node, hosted):
    node.replicas.storage_failed(hosted, "gone")
    assert where(node, LATEST)[0] == 56


def test_an_unknown_timestamp_is_refused_before_anything_else(node):
    assert where(node, -7, topic="absent")[0] == 35


def test_a_partition_named_twice_is_refused_once(node, hosted):
    answers = listed(node, question(LATEST), question(EARLIEST, partition=1), question(EARLIEST))
    assert [(a.partition_index, a.error_code) for a in answers] == [(0, 42), (1, 3)]


def test_a_log_that_cannot_be_read_goes_offline(node, hosted):
    hosted.log.fail("the disk refuses")
    assert where(node, 1000)[0] == 56
    assert not hosted.data_dir.is_online
    assert where(node, LATEST)[0] == 56


def test_damage_found_on_the_way_is_told(node, hosted):
    path = next((node.directory / "events-0").glob("*.log"))
    data = bytearray(path.read_bytes())
    data[61:66] = b"\xff" * 5  # the length of the first record
    path.write_bytes(data)
    assert where(node, 1000)[0] == 2
    assert where(node, LATEST)[0] == 0


def test_the_greatest_timestamp_of_records_without_any(node):
    hosted = node.host("timeless")
    node.produce(hosted, [-1, -1])
    node.produce(hosted, [-1])
    for version in range(7, 12):
        assert where(node, MAX, topic="timeless", version=version) == (0, -1, 0, 0)
    assert where(node, 0, topic="timeless") == NOTHING
    node.produce(hosted, [7])
    assert where(node, MAX, topic="timeless") == (0, 7, 3, 0)
