"""What a broker's requests leave out for controllers of older versions."""

from __future__ import annotations

import pytest

from fencepost.machines.broker.requests import for_version
from fencepost.wire.api import alter_partition
from fencepost.wire.api.broker_heartbeat import BrokerHeartbeatRequest
from fencepost.wire.types import Uuid


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_heartbeat_names_cordoned_directories_where_that_can_be_said(version: int) -> None:
    cordoned = [Uuid(bytes(15) + b"\x77")]
    request = BrokerHeartbeatRequest(broker_id=1, cordoned_log_dirs=cordoned)
    fitted = for_version(request, version)
    read = BrokerHeartbeatRequest.decode(bytes(fitted.encode(version)), version)
    assert read.cordoned_log_dirs == (cordoned if version >= 2 else None)
    assert request.cordoned_log_dirs == cordoned, "for the next controller"


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_in_sync_set_is_asked_for_as_the_controller_understands_it(version: int) -> None:
    """KIP-903: controllers before v3 are told members without their broker epochs."""
    part = alter_partition.PartitionDataRequest(
        partition_index=4,
        leader_epoch=5,
        new_isr_with_epochs=[alter_partition.BrokerState(broker_id=2, broker_epoch=99)],
        leader_recovery_state=1,
        partition_epoch=6,
    )
    topic = alter_partition.TopicDataRequest(
        topic_name="t", topic_id=Uuid(bytes(15) + b"\x01"), partitions=[part]
    )
    request = alter_partition.AlterPartitionRequest(broker_id=1, broker_epoch=7, topics=[topic])
    data = bytes(for_version(request, version).encode(version))
    (read,) = alter_partition.AlterPartitionRequest.decode(data, version).topics
    assert (read.topic_name, read.topic_id) == (
        ("t", Uuid.ZERO) if version < 2 else ("", topic.topic_id)
    )
    (found,) = read.partitions
    if version < 3:
        assert (found.new_isr, found.new_isr_with_epochs) == ([2], [])
    else:
        assert (found.new_isr, found.new_isr_with_epochs) == ([], part.new_isr_with_epochs)
    assert (found.partition_index, found.leader_epoch, found.partition_epoch) == (4, 5, 6)
    assert found.leader_recovery_state == 1
    assert request.topics[0].partitions[0].new_isr_with_epochs, "for the next controller"
