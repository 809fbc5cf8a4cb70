"""Real partitions for handlers to ask: logs on a disk, machines in the driver, no event loop.

`PartitionNode` is a `StillNode` with `replicas`. Appends and flushes happen at once, so a partition
with one replica commits what it is given before `produce` returns. Nothing is sent to other nodes:
with more replicas the high watermark stays where it was until `follower_fetched`.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fencepost.batch.control import build_end_txn_marker
from fencepost.batch.record_batch import RecordBatch
from fencepost.batch.records import BatchBuilder
from fencepost.broker.replicas.fetch_policy import BrokerFetchPolicy
from fencepost.broker.replicas.throttles import LeaderThrottle
from fencepost.broker.storage.cold_reads import ColdReads
from fencepost.broker.storage.data_dirs import DataDir
from fencepost.broker.storage.decompression import Decompression
from fencepost.broker.storage.log_reads import BackgroundLogReads
from fencepost.broker.storage.storage import Storage
from fencepost.log.config import LogConfig
from fencepost.log.descriptors import Descriptors
from fencepost.log.disk import OsDisk
from fencepost.log.load_params import LoadLogParams
from fencepost.log.page_cache import PageCache
from fencepost.log.partition_log import PartitionLog
from fencepost.machines.driver import Driver
from fencepost.machines.effects import (
    Append,
    DropPrefix,
    InstallSnapshot,
    Machine,
    StoreSnapshot,
    Truncate,
)
from fencepost.machines.partition import (
    TICKET_NOT_NEEDED,
    BecomeFollower,
    BecomeLeader,
    FollowerFetched,
    Partition,
    PartitionConfig,
    Produce,
    ProduceResult,
    WriteMarker,
)
from fencepost.runtime.clock import Clocks, SystemWorkClock, WorkClock
from fencepost.runtime.delayed_fetches import FetchHost
from fencepost.runtime.log_dir_moves import LogDirMoves
from fencepost.runtime.replicas import HostedPartition, ReplicaManager
from fencepost.runtime.requests.access import PartitionAccess
from fencepost.runtime.requests.fetch_parts import CachedReads, FetchPolicy
from fencepost.runtime.requests.parts import BatchDecompression, LogReads
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

from .harness import StillNode, StillTimers, topic, topic_id

NOW_MS = 1_700_000_000_000
BROKER_ID = 1
TRANSACTIONAL = 9
"""The id of a producer of transactions."""
_nodes: list[PartitionNode] = []


@contextlib.contextmanager
def closed_at_the_end() -> Iterator[None]:
    """Every node that is made within the block is closed at its end: logs keep files open."""
    before = len(_nodes)
    yield
    while len(_nodes) > before:
        _nodes.pop().close()


class PromptPorts:
    """`machines.driver.Ports` with a disk that takes no time; messages and timers go nowhere."""

    def __init__(self, timers: StillTimers) -> None:
        self.driver = Driver(self)
        self.timers = timers
        self.logs: dict[Hashable, PartitionLog] = {}
        self.sent: list[Any] = []
        self.on_failed: Callable[[Hashable, str], None] = lambda key, reason: None
        self.on_stepped: Callable[[Hashable], None] = lambda key: None

    def now_ms(self) -> int:
        return self.timers.now_ms

    def wall_ms(self) -> int:
        return NOW_MS

    def append(self, key: Hashable, work: Append, wall_ms: int) -> int:
        self.logs[key].append_all_as_leader(work.batches, work.leader_epoch, wall_ms)
        return self.logs[key].end_offset

    def request_flush(self, key: Hashable) -> None:
        job = self.logs[key].begin_flush()
        job.run()
        self.logs[key].finish_flush(job)
        self.driver.persisted(key, job.end_offset)

    def truncate(self, key: Hashable, work: Truncate) -> int:
        self.logs[key].truncate_to(work.end_offset)
        return self.logs[key].end_offset

    def write_state(self, key: Hashable, state: Any) -> None:
        raise AssertionError("partitions have no state of their own")

    def store_snapshot(self, key: Hashable, work: StoreSnapshot) -> None:
        raise AssertionError("partitions have no snapshots")

    def install_snapshot(self, key: Hashable, work: InstallSnapshot) -> None:
        raise AssertionError("partitions have no snapshots")

    def drop_prefix(self, key: Hashable, work: DropPrefix) -> None:
        self.logs[key].advance_start_offset(work.start_offset)

    def send(self, key: Hashable, to: Any, message: Any) -> None:
        self.sent.append(message)

    def reply(self, token: Any, value: Any) -> None:
        token(value)

    def tell(self, machine: Any, input_: Any) -> None:
        raise AssertionError("nothing fetches here")

    def set_timer(self, key: Hashable, name: str, deadline_ms: int | None) -> None:
        pass

    def stepped(self, key: Hashable, machine: Machine) -> None:
        self.on_stepped(key)

    def failed(self, key: Hashable, reason: str) -> None:
        self.on_failed(key, reason)


class Replicas:
    """`ReplicaManager`'s questions over the partitions a test has made."""

    def __init__(self, node: PartitionNode) -> None:
        self._node = node
        self.hosted: dict[tuple[str, int], HostedPartition] = {}
        self.offline_reason: str | None = None

    def get(self, name: str, index: int) -> HostedPartition | ErrorCode:
        if self.offline_reason is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if (name, index) in self.hosted:
            hosted = self.hosted[name, index]
            return hosted if hosted.data_dir.is_online else ErrorCode.KAFKA_STORAGE_ERROR
        known = self._node.image.topics_by_name.get(name)
        if known is not None and 0 <= index < len(known.partitions):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def by_id(self, id_: Uuid, index: int) -> HostedPartition | ErrorCode:
        known = self._node.image.topics_by_id.get(id_)
        return ErrorCode.UNKNOWN_TOPIC_ID if known is None else self.get(known.name, index)

    def topic_name(self, id_: Uuid) -> str | None:
        known = self._node.image.topics_by_id.get(id_)
        return None if known is None else known.name

    def all(self) -> Iterable[HostedPartition]:
        return list(self.hosted.values())

    def storage_failed(
        self, hosted: HostedPartition, reason: str, error: OSError | None = None
    ) -> None:
        hosted.data_dir.fail(reason)


class NoMoves:
    """`LogDirMoves` of a node where nothing moves between directories."""

    def futures(self) -> Iterable[Any]:
        return ()


@dataclass
class Directories:
    """As much of a node's `Storage` as handlers ask about."""

    data_dirs: list[DataDir]
    descriptors: Descriptors = field(default_factory=Descriptors)
    cordoned: frozenset[str] = frozenset()


@dataclass
class PartitionNode(StillNode):
    """A node with partitions."""

    directory: Path = field(default_factory=Path)
    cold_reads: ColdReads = field(default_factory=lambda: ColdReads(PageCache(), Descriptors()))
    decompression: Decompression = field(default_factory=Decompression)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.others: dict[Any, object] = {}
        """More parts, of a test."""
        self.ports = PromptPorts(self.timers)
        self.ports.on_failed = self._disk_failed
        self.ports.on_stepped = self._stepped
        self.fetches = FetchHost(self.timers, self.ports.now_ms, secrets.randbelow, 10)
        self.fetches.on_seen = self.driver.feed
        self.throttle = LeaderThrottle(self.settings, self.ports.now_ms)
        self.policy = BrokerFetchPolicy(
            self.config, lambda: self.image, self.throttle, self.ports.now_ms
        )
        self.replicas = Replicas(self)
        self.partitions = PartitionAccess(self.access, self.replicas)
        self.storage = Directories([DataDir(str(self.directory))])
        _nodes.append(self)

    def close(self) -> None:
        """Close the files of all logs, and let the threads end; the data is not needed again."""
        for log in self.ports.logs.values():
            log.close(clean=False)
        self.cold_reads.close()
        self.decompression.close()

    @property
    def driver(self) -> Driver:
        return self.ports.driver

    @property
    def parts(self) -> dict[Any, object]:
        return {
            **super().parts,
            BatchDecompression: self.decompression,
            CachedReads: self.cold_reads,
            Clocks: self.ports,
            WorkClock: SystemWorkClock(),
            Driver: self.driver,
            ColdReads: self.cold_reads,
            Decompression: self.decompression,
            FetchHost: self.fetches,
            FetchPolicy: self.policy,
            LogDirMoves: NoMoves(),
            PartitionAccess: self.partitions,
            LogReads: BackgroundLogReads(
                self.cold_reads, self.decompression, self.storage.descriptors
            ),
            ReplicaManager: self.replicas,
            Storage: self.storage,
            **self.others,
        }

    def _stepped(self, key: Hashable) -> None:
        name, _, index = str(key).rpartition("-")
        hosted = self.replicas.hosted.get((name, int(index)))
        if hosted is None:
            return
        state = hosted.machine.fetch_state, hosted.machine.log_end_offset
        before = hosted.seen, hosted.log_end_offset
        if state != before:
            hosted.seen, hosted.log_end_offset = state
            self.fetches.moved(hosted, log_end_alone=state[0] == before[0])

    def _disk_failed(self, key: Hashable, reason: str) -> None:
        for hosted in self.replicas.all():
            if hosted.key == key:
                self.replicas.storage_failed(hosted, reason)

    def host(
        self,
        name: str,
        index: int = 0,
        replicas: Iterable[int] = (BROKER_ID,),
        data_dir: DataDir | None = None,
        **configs: str,
    ) -> HostedPartition:
        """Partition `index` of a topic, led in epoch 0; the topic is made with its first one."""
        data_dir = data_dir or self.storage.data_dirs[0]
        if name not in self.image.topics_by_name:
            self.learn(*topic(name, *[{"replicas": list(replicas)} for _ in range(index + 1)]))
        props = {key.replace("_", "."): value for key, value in configs.items()}
        log = PartitionLog.open(
            OsDisk(),
            f"{data_dir.path}/{name}-{index}",
            name,
            index,
            LogConfig.from_props(props),
            LoadLogParams(wall_ms=NOW_MS, topic_id=topic_id(name)),
        )
        machine = Partition(BROKER_ID, log, config=PartitionConfig())
        key = f"{name}-{index}"
        hosted = HostedPartition(name, index, topic_id(name), key, log, machine, data_dir)
        self.ports.logs[key] = log
        self.driver.add(key, machine)
        self.replicas.hosted[name, index] = hosted
        self.lead(hosted, 0, replicas)
        return hosted

    def lead(
        self,
        hosted: HostedPartition,
        epoch: int,
        replicas: Iterable[int] = (BROKER_ID,),
        isr: Iterable[int] | None = None,
    ) -> None:
        """The partition is led here, in this epoch; all replicas are in sync unless said."""
        ids = tuple(replicas)
        in_sync = ids if isr is None else tuple(isr)
        order = BecomeLeader(epoch, epoch, ids, in_sync, {id_: id_ * 10 for id_ in ids})
        self.driver.feed(hosted.key, order)

    def follow(self, hosted: HostedPartition, epoch: int, leader_id: int = 2) -> None:
        """The partition is led elsewhere, in this epoch."""
        ids = (BROKER_ID, leader_id)
        self.driver.feed(hosted.key, BecomeFollower(leader_id, epoch, epoch, ids, ids))

    def follower_fetched(
        self, hosted: HostedPartition, replica_id: int, offset: int, log_start_offset: int = -1
    ) -> None:
        """A follower has everything below `offset`, from `log_start_offset` on."""
        fetch = FollowerFetched(replica_id, offset, log_start_offset=log_start_offset)
        self.driver.feed(hosted.key, fetch)

    def produce(
        self, hosted: HostedPartition, timestamps_ms: Iterable[int], **batch: Any
    ) -> ProduceResult:
        """Append one batch with acks=1."""
        (answer,) = self.begin_produce(hosted, timestamps_ms, **batch)
        return answer

    def begin_produce(
        self, hosted: HostedPartition, timestamps_ms: Iterable[int], **batch: Any
    ) -> list[ProduceResult]:
        """The same, perhaps while a machine is in a step: the answer is in the list when it is."""
        builder = BatchBuilder()
        for timestamp_ms in timestamps_ms:
            builder.append(b"key", b"value", timestamp_ms=timestamp_ms)
        built = builder.build(**batch)
        answers: list[ProduceResult] = []
        parsed = RecordBatch.parse(built)
        request = Produce(parsed, 1, answers.append, NOW_MS, TICKET_NOT_NEEDED)
        self.driver.feed(hosted.key, request)
        return answers

    def produce_transactional(self, hosted: HostedPartition, count: int, sequence: int) -> None:
        """Append so many records of the transaction of `TRANSACTIONAL`, which it opens."""
        ids = {"producer_id": TRANSACTIONAL, "producer_epoch": 0, "base_sequence": sequence}
        self.produce(hosted, [NOW_MS] * count, transactional=True, **ids)

    def end_transaction(self, hosted: HostedPartition, committed: bool) -> None:
        """The marker of that transaction, if one is open."""
        data = build_end_txn_marker(
            committed=committed,
            coordinator_epoch=0,
            producer_id=TRANSACTIONAL,
            producer_epoch=0,
            timestamp_ms=NOW_MS,
        )
        batch = RecordBatch.parse(bytearray(data))
        marker = WriteMarker(batch, 0, 0, lambda result: None, NOW_MS)
        self.driver.feed(hosted.key, marker)
