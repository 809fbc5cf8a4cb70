"""What a broker does when the metadata give it a replica."""

from __future__ import annotations

from collections.abc import Hashable
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from fencepost.batch.record_batch import RecordBatch
from fencepost.batch.records import build_batch
from fencepost.log.config import LogConfig
from fencepost.log.load_params import LoadLogParams
from fencepost.log.partition_log import PartitionLog
from fencepost.machines.image import ClusterImage, PartitionDelta, PartitionImage, TopicImage, diff
from fencepost.machines.partition import PartitionConfig
from fencepost.runtime.cooperative import InOrder, Scheduler
from fencepost.runtime.replicas import (
    HostedPartition,
    ReplicaManager,
    TopicConfig,
    is_new_here,
    is_only_copy,
)
from fencepost.sim.disk import SimDisk
from fencepost.wire.types import Uuid

from .coordinator.coordinator_world import WALL_MS, WorldPorts

TOPIC_ID = Uuid(b"a topic's own id")
CONFIG = LogConfig.from_props({})
CONFIGS = TopicConfig(CONFIG, PartitionConfig())


def partition(replicas: tuple[int, ...], epoch: int) -> PartitionImage:
    return PartitionImage(replicas, replicas, replicas[0], 0, epoch)


@pytest.mark.parametrize(
    ("old", "new", "is_new"),
    [
        (None, partition((1, 2), 0), True),
        (None, partition((1, 2), 3), False),  # as when the broker starts
        (partition((2, 3), 4), partition((1, 2, 3), 5), True),  # a reassignment
        (partition((1, 2), 4), partition((1, 2), 5), False),
    ],
)
def test_whether_a_broker_can_have_had_a_replica(
    old: PartitionImage | None, new: PartitionImage, is_new: bool
) -> None:
    """Only a replica that cannot be in an offline directory may be created in another one."""
    change = PartitionDelta("t", Uuid(bytes(16)), 0, old, new)
    assert is_new_here(change, 1) is is_new


@pytest.mark.parametrize(
    ("isr", "eligible", "last_known", "is_only"),
    [
        ((1,), (), (), True),
        ((1, 2), (), (), False),
        ((2,), (), (), False),
        ((), (1,), (), True),
        ((), (1, 2), (), False),
        ((), (2,), (1,), False),
        ((), (), (1,), True),
        ((), (), (2,), False),
        ((), (), (), True),
    ],
)
def test_whether_another_replica_has_all_of_the_records(isr, eligible, last_known, is_only):
    image = replace(
        partition((1, 2), 3),
        isr=isr,
        eligible_leader_replicas=eligible,
        last_known_elr=last_known,
    )
    assert is_only_copy(image, 1) is is_only


class FlushedByHand(WorldPorts):
    """Keeps which logs are to be flushed."""

    def __init__(self) -> None:
        super().__init__()
        self.to_flush: list[Hashable] = []

    def request_flush(self, key: Hashable) -> None:
        self.to_flush.append(key)


class OneLog:
    """A directory with the log of t-0, which is open: `ReplicaStorage` and `LogRecoveryPool`."""

    is_online = True
    may_need_recovery = False
    name = "t-0"
    directory_id = Uuid(b"the directory id")

    def __init__(self) -> None:
        self.log = PartitionLog.open(
            SimDisk(), "d/t-0", "t", 0, CONFIG, LoadLogParams(wall_ms=WALL_MS)
        )
        self.data_dirs = (self,)
        self.metadata_dir = self.data_dir = self

    def append(self) -> None:
        batch = RecordBatch.parse(build_batch([(None, b"v")], timestamp_ms=WALL_MS))
        self.log.append_as_leader(batch, 0, WALL_MS)

    def high_watermark_of(self, partition_log: PartitionLog) -> int:
        return 0

    def begin(self, *_: Any, **__: Any) -> OneLog:
        return self

    def waiting_for(self, key: Any) -> None:
        pass

    def finish(self, key: Any, opening: OneLog) -> PartitionLog:
        return self.log


@pytest.mark.parametrize("flushed", [0, 1, 2])
def test_a_log_with_records_that_may_not_be_on_the_disk_is_flushed_when_it_is_hosted(
    flushed: int,
) -> None:
    """A follower fetches, and a leader counts itself, from what is durable; nothing else would ask
    for that flush after a crash of the process."""
    storage, ports = OneLog(), FlushedByHand()
    for number in range(2):
        storage.append()
        if number < flushed:
            storage.log.flush()
    turns: list[Any] = []
    loop: Any = SimpleNamespace(call_soon=turns.append, call_soon_threadsafe=turns.append)
    work = InOrder(Scheduler(loop, lambda: 0.0, 0.0, 0.0).lane())
    disk: Any = storage
    manager = ReplicaManager(1, ports, disk, disk, work, lambda image: lambda topic: CONFIGS)
    followed = replace(partition((2, 1), 3), directories=(Uuid.ZERO, OneLog.directory_id))
    topic = TopicImage("t", TOPIC_ID, (followed,))
    image = ClusterImage()
    after = replace(
        image,
        topics_by_name=image.topics_by_name.set("t", topic),
        topics_by_id=image.topics_by_id.set(TOPIC_ID, topic),
    )
    manager.apply(after, diff(image, after))
    while turns:
        turns.pop(0)()
    hosted = manager.get("t", 0)
    assert isinstance(hosted, HostedPartition)
    assert hosted.machine.durable_offset == flushed
    assert ports.to_flush == ([] if flushed == 2 else [hosted.key])
