"""One controller's metadata log on a simulated disk, without a broker, sockets or threads."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from fencepost.batch.records import build_batch
from fencepost.log.config import LogConfig
from fencepost.log.log_dir import LogDir
from fencepost.log.meta import format_log_dir
from fencepost.machines.image import ClusterImage, ImageDelta
from fencepost.machines.quorum import AppendRecords, QuorumConfig
from fencepost.machines.quorum.voters import VoterSet
from fencepost.runtime.cooperative import Scheduler
from fencepost.runtime.metadata.host import METADATA_KEY, MetadataHost
from fencepost.runtime.metadata.log import MetadataLogSettings, open_metadata
from fencepost.runtime.metadata.snapshot_generation import SnapshotRules
from fencepost.runtime.ports import MachinePorts
from fencepost.sim.disk import SimDisk
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.records.metadata import PartitionRecord, TopicRecord, encode_record
from fencepost.wire.types import Uuid

from ...timers import ManualTimers

DIRECTORY_ID = Uuid(bytes(15) + b"\x63")
LOG = "/data/__cluster_metadata-0"


class WorldClocks:
    """The clocks of these timers."""

    def __init__(self, timers: ManualTimers) -> None:
        self._timers = timers

    def now_ms(self) -> int:
        return self._timers.now_ms

    def wall_ms(self) -> int:
        return self._timers.wall_ms


class WorldTurns:
    """The turns of an event loop: timers that are due at once."""

    def __init__(self, timers: ManualTimers) -> None:
        self._timers = timers

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._timers.after(0, callback)

    call_soon_threadsafe = call_soon


class WorldPorts(MachinePorts):
    """Flushes are done at once; `sent` keeps what is sent, `in_background` the work to be done."""

    def __init__(self, timers: ManualTimers) -> None:
        super().__init__(WorldClocks(timers), self._failed)
        self.scheduler = Scheduler(WorldTurns(timers), lambda: 0.0, turn_s=0.0, first_turn_s=0.0)
        self.timers: ManualTimers = timers
        self.sent: list[tuple[Any, Any]] = []
        self.failures: list[str] = []
        self.waits_in_background = False
        self.in_background: list[Callable[[], None]] = []

    def _failed(self, key: Hashable, reason: str) -> None:
        self.failures.append(reason)

    def request_flush(self, key: Hashable) -> None:
        log = self._hosts[key].log
        log.flush()
        self.driver.persisted(key, log.end_offset)

    def forget_flush(self, key: Hashable) -> None:
        pass

    def send(self, key: Hashable, to: Any, message: Any) -> None:
        self.sent.append((to, message))

    def run_in_background(self, work, done):
        if self.waits_in_background:
            self.in_background.append(lambda: super(WorldPorts, self).run_in_background(work, done))
        else:
            super().run_in_background(work, done)


def topic_records(number: int) -> list[Message]:
    """The topic of this number, with one partition."""
    topic_id = Uuid((number + 1000).to_bytes(16, "big"))
    partition = PartitionRecord(
        partition_id=0,
        topic_id=topic_id,
        replicas=[1],
        isr=[1],
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        directories=[DIRECTORY_ID],
    )
    return [TopicRecord(name=f"t{number}", topic_id=topic_id), partition]


class MetadataWorld:
    """A lone voter's life on a disk, over restarts and crashes."""

    def __init__(
        self,
        *,
        rules: SnapshotRules | None = None,
        retention_bytes: int = -1,
        segment_bytes: int = 1 << 20,
        disk_seed: int = 0,
        voters: VoterSet | None = None,
        disk: Any = None,
        path: str = "/data",
    ) -> None:
        self.disk = SimDisk(disk_seed) if disk is None else disk
        self.path = path
        format_log_dir(
            self.disk,
            path,
            cluster_id="c",
            node_id=1,
            directory_id=DIRECTORY_ID,
            ignore_formatted=True,
        )
        self.settings = MetadataLogSettings(
            LogConfig.from_props(
                {
                    "retention.ms": "-1",
                    "retention.bytes": "-1",
                    "internal.segment.bytes": segment_bytes,
                }
            ),
            rules or SnapshotRules(max_bytes=1 << 30, interval_ms=0),
        )
        self.config = QuorumConfig(
            cluster_id="c",
            directory_id=DIRECTORY_ID,
            retention_bytes=retention_bytes,
            retention_ms=-1,
        )
        self.voters = VoterSet.of_ids((1,)) if voters is None else voters
        self.timers = ManualTimers()
        self.topics = 0
        self.acked = 0
        self.images: list[ClusterImage] = []
        self.deltas: list[ImageDelta] = []
        self.log_dir: LogDir
        self.ports: WorldPorts
        self.host: MetadataHost

    def start(self, *, accept_loss: bool = False) -> None:
        """Open everything and let the voter elect itself."""
        self.ports = WorldPorts(self.timers)
        self.log_dir = LogDir.open(self.disk, self.path)
        self.host = open_metadata(
            self.ports,
            self.log_dir,
            1,
            self.voters,
            self.config,
            self.settings,
            wall_ms=self.timers.wall_ms,
            draw=lambda below: below // 2,
            accept_loss=accept_loss,
        )
        self.images, self.deltas = [], []
        self.host.on_image(lambda image, delta: self.images.append(image))
        self.host.on_image(lambda image, delta: self.deltas.append(delta))
        self.host.start()

    def stop(self) -> None:
        """Close in order."""
        self.host.close()
        self.log_dir.close()

    def restart(self) -> None:
        """Close in order, and start again."""
        self.stop()
        self.start()

    def crash(self, *, power: bool = True) -> None:
        """What the disk has lost is lost; nothing is running any more."""
        self.disk.crash_at = None
        if power:
            self.disk.power_loss()
        else:
            self.disk.process_death()

    def write(self, records: list[Message]) -> None:
        """Have the controller's log take these as one batch; they are committed at once."""
        batch = build_batch(
            [(None, encode_record(record)) for record in records], timestamp_ms=self.timers.wall_ms
        )
        machine = self.host.machine
        outcomes: list[Any] = []
        self.ports.driver.feed(
            METADATA_KEY,
            AppendRecords([batch], outcomes.append, machine.epoch, machine.end_offset),
        )
        assert [outcome.error for outcome in outcomes] == [ErrorCode.NONE]

    def create_topic(self) -> None:
        """One more topic, named by its number."""
        self.topics += 1
        self.write(topic_records(self.topics - 1))
        self.acked = self.topics

    def create_topics(self, count: int) -> None:
        """As many more."""
        for _ in range(count):
            self.create_topic()

    @property
    def broken(self) -> list[str]:
        """Why the quorum machine has given up since the last start."""
        return self.ports.failures

    @property
    def topics_in_image(self) -> int:
        """How many there are; they must be the first ones, without a gap."""
        names = set(self.host.image.topics_by_name)
        assert names == {f"t{number}" for number in range(len(names))}
        return len(names)

    def checkpoints(self) -> list[str]:
        """Names of all snapshot files, of whatever kind."""
        return [
            name for name in self.disk.list(LOG) if "checkpoint" in name and "epoch" not in name
        ]
