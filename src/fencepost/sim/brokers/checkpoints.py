"""What the checkpoint files on a simulated broker's disk say, shown to the observer."""

from __future__ import annotations

from fencepost.log.checkpoints import TopicPartition, decode_offsets
from fencepost.log.names import HIGH_WATERMARK_FILE, LOG_START_OFFSET_FILE, RECOVERY_POINT_FILE
from fencepost.runtime.replicas import HostedPartition
from fencepost.sim.brokers.process import BrokerProcess
from fencepost.sim.partition_oracle import Checkpoints, PartitionKey


def key_of(hosted: HostedPartition) -> PartitionKey:
    """What the observer knows a partition by."""
    return hosted.topic_id, hosted.index


def checkpoints_of(broker: BrokerProcess, key: TopicPartition) -> Checkpoints:
    """What the files say of a partition, as they are now; a disk that fails does not fail us."""
    found, disk = [], broker.disk
    fault, disk.fault = disk.fault, None
    try:
        for name in (RECOVERY_POINT_FILE, LOG_START_OFFSET_FILE, HIGH_WATERMARK_FILE):
            path = f"{broker.log_dir.path}/{name}"
            known = decode_offsets(path, disk.read(path)) if disk.exists(path) else {}
            found.append(known.get(key, 0))
    finally:
        disk.fault = fault
    return Checkpoints(*found)


def show_checkpoints(
    broker: BrokerProcess, hosted: HostedPartition, *, is_marked: bool = False
) -> None:
    """Show the observer; with `is_marked` the high watermark was written just now."""
    seen = checkpoints_of(broker, (hosted.topic, hosted.index))
    if not is_marked:
        seen = seen._replace(high_watermark=-1)
    broker.world.observer.checkpoints_seen(broker.id, key_of(hosted), seen)
