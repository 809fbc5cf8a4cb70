"""DeleteRecords on a served node: what an orderly stop, a kill and a deleted topic make of it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fencepost.testing import Cluster
from fencepost.wire.api import DeleteRecordsRequest, DeleteTopicsRequest, ListOffsetsRequest
from fencepost.wire.api.delete_records import DeleteRecordsPartition, DeleteRecordsTopic
from fencepost.wire.api.list_offsets import ListOffsetsPartition, ListOffsetsTopic

from ...waiting import eventually
from ..listener_fixtures import Client, connect
from ..storage.test_bad_disks import TOPIC, batch, create, produce

pytestmark = pytest.mark.slow

EARLIEST, LATEST = -2, -1


def delete_records(client: Client, offset: int) -> int:
    """The low watermark that is answered."""
    part = DeleteRecordsPartition(partition_index=0, offset=offset)
    topic = DeleteRecordsTopic(name=TOPIC, partitions=[part])
    answer = client.ask(DeleteRecordsRequest(topics=[topic], timeout_ms=60_000), 2)
    (result,) = answer.topics[0].partitions
    assert result.error_code == 0
    return result.low_watermark


def delete_topic(client: Client) -> None:
    answer = client.ask(DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=60_000), 5)
    assert answer.responses[0].error_code == 0


def bounds(cluster: Cluster) -> tuple[int, int]:
    """The log's first offset and its end."""
    found = []
    with connect(cluster) as client:
        for timestamp in (EARLIEST, LATEST):
            part = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
            request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=TOPIC, partitions=[part])])
            found.append(client.ask(request, 5).topics[0].partitions[0].offset)
    return found[0], found[1]


def verify(cluster: Cluster) -> str:
    """What `fencepost log verify` prints; nothing but its count if all is sound."""
    command = [sys.executable, "-m", "fencepost.cli.main", "log", "verify", str(cluster.data_dir)]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def write(client: Client, count: int = 100) -> None:
    create(client)
    values = [b"%d" % number for number in range(count)]
    assert produce(client, batch(*values)).error_code == 0


def written_starts(cluster: Cluster) -> str:
    path = cluster.data_dir / "log-start-offset-checkpoint"
    return path.read_text() if path.exists() else ""


def test_a_log_emptied_by_delete_records_is_sound():
    with Cluster() as cluster:
        with connect(cluster) as client:
            write(client)
            assert delete_records(client, -1) == 100
            verify(cluster)
        epochs = cluster.data_dir / f"{TOPIC}-0" / "leader-epoch-checkpoint"
        for _ in range(2):
            cluster.stop()
            verify(cluster)
            assert epochs.read_text().splitlines()[2].endswith(" 100")
            cluster.start()
            assert bounds(cluster) == (100, 100)


def test_deleted_records_stay_deleted_over_a_kill_once_the_start_is_written_down():
    with Cluster(log_flush_start_offset_checkpoint_interval_ms=1) as cluster:
        with connect(cluster) as client:
            write(client)
            assert delete_records(client, 40) == 40
        eventually(lambda: f"{TOPIC} 0 40" in written_starts(cluster))
        cluster.kill()
        verify(cluster)
        cluster.start()
        assert bounds(cluster) == (40, 100)


def test_deleted_records_come_back_with_a_kill_before_the_start_is_written_down():
    """As in Kafka, whose UnifiedLog.maybeIncrementLogStartOffset says so; nothing is damaged."""
    with Cluster(log_flush_start_offset_checkpoint_interval_ms=10_000_000) as cluster:
        with connect(cluster) as client:
            write(client)
            assert delete_records(client, 40) == 40
            assert produce(client, batch(b"behind it")).error_code == 0
        cluster.kill()
        verify(cluster)
        cluster.start()
        assert bounds(cluster) == (0, 101)
        with connect(cluster) as client:
            assert delete_records(client, 40) == 40
        cluster.stop()
        verify(cluster)
        cluster.start()
        assert bounds(cluster) == (40, 101)


@pytest.mark.parametrize("killed", [False, True])
def test_a_topic_that_is_deleted_and_created_again_raises_no_alarm(tmp_path, killed):
    data_dir = tmp_path / "data"
    points = data_dir / "recovery-point-offset-checkpoint"
    with Cluster(data_dir=data_dir) as cluster, connect(cluster) as client:
        write(client)
    with Cluster(data_dir=data_dir, log_flush_offset_checkpoint_interval_ms=10_000_000) as cluster:
        with connect(cluster) as client:
            delete_topic(client)
        assert f"{TOPIC} 0 100" in points.read_text()
        if killed:
            cluster.kill()
            cluster.start()
        with connect(cluster) as client:
            create(client)
        eventually(lambda: bounds(cluster) == (0, 0))
        assert "creating an empty log" not in cluster.log_text
