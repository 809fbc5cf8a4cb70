"""The partitions this node hosts: their logs and machines, kept as the cluster image says.

Theory of operation
-------------------
`apply` is given the difference between two images and does what it says of this broker, in an order
that lets a topic be deleted and created again under one name: first deletions, then what is to be
led or followed, then configurations. A partition's log is opened or created when it first appears
in the image; after that only its machine hears of changes. What concerns many partitions is done
in steps, among which others have their turns (`cooperative`); until a partition's comes, it is one
that another node may have (NOT_LEADER_OR_FOLLOWER), as it is while metadata travel between nodes.

The caller decides where logs are kept, how they are opened, and which configs are in force for a
topic: a broker process has directories, threads and a configuration, the simulator one disk. Both
run this class.

A coordinator that has to know which partitions this node leads registers a watcher.

A log that fails takes its whole directory with it: the partitions in it answer KAFKA_STORAGE_ERROR
from then on, and the broker reports the offline directory to the controller. Without the directory
of the metadata log, or without any other, the node stops. Nothing is retried: what is on the disk
is found out by recovery, at the next start.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, Final, Protocol

from msgspec import Struct, field

from fencepost.log.config import LogConfig
from fencepost.log.descriptors import is_shortage
from fencepost.log.errors import describe
from fencepost.log.partition_log import PartitionLog
from fencepost.machines.image import (
    ClusterImage,
    ImageDelta,
    LocalChanges,
    PartitionDelta,
    PartitionImage,
)
from fencepost.machines.partition import (
    BecomeFollower,
    BecomeLeader,
    BrokersChanged,
    ConfigChanged,
    FetchState,
    IsrChanges,
    Partition,
    PartitionConfig,
    RecoveryState,
    StopReplica,
)
from fencepost.machines.partition.rules import RULES, PartitionRules
from fencepost.runtime.cooperative import InOrder, Pieces
from fencepost.runtime.halted import HaltCause, HaltedReplica, ReplicaUnavailable
from fencepost.runtime.metadata.host import METADATA_KEY
from fencepost.runtime.ports import MachinePorts
from fencepost.runtime.replica_storage import (
    Directory,
    LogRecoveryPool,
    Opening,
    ReplicaPlacement,
    ReplicaStorage,
)
from fencepost.runtime.traffic import TopicTraffic, Traffic
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

log = logging.getLogger(__name__)

WITHOUT_LEADER: Final = (
    "no replica leads it: start the brokers of those that are in sync or eligible, or lose records"
    " by fencepost elect unclean"
)
OPENED_PER_STEP: Final = 50
"""How many logs are looked at in one step to see whether they need recovery."""


class TopicConfig(Struct, frozen=True):
    """What is in force for a topic, for the log and for the machine."""

    log: LogConfig
    machine: PartitionConfig


TopicConfigs = Callable[[str], TopicConfig]
"""The configs in force for each topic, under one image."""


class HostedPartition(Struct, eq=False):
    """One partition on this node."""

    topic: str
    index: int
    topic_id: Uuid
    key: str
    """What the driver knows its machine by."""
    log: PartitionLog
    machine: Partition
    data_dir: Any
    """The `Directory` that its log is in."""
    seen: FetchState | None = None
    """What fetches depend on, as of the last step of the machine, to notice when it moves."""
    log_end_offset: int = -1
    """The same for the log's end, on which replicas' fetches depend alone."""
    answers_told: int = 0
    """How many answers of leaders its machine was given; `Partition.answers_taken` follows."""
    on_high_watermark: Callable[[], None] | None = None
    """Called when the high watermark moves, for the coordinator of the partition's records."""
    traffic: TopicTraffic = field(default_factory=TopicTraffic)
    """What has been written to and read from its topic here."""
    on_log_replaced: Callable[[PartitionLog], None] | None = None
    """And when the log has moved to another directory, and is another object."""
    is_moving: bool = False
    """Whether its log is being copied to another directory: it is not compacted meanwhile."""


class ReplicaWatcher(Protocol):
    """Called when this node begins or ceases to lead a partition."""

    def became_leader(self, hosted: HostedPartition, leader_epoch: int) -> None:
        """This node leads the partition, from now on or in a new epoch."""
        ...

    def lost_leadership(self, hosted: HostedPartition, leader_epoch: int | None) -> None:
        """Another node leads the partition in that epoch; None if it is not here any more."""
        ...


class ReplicaManager:
    """All partitions of this node."""

    def __init__(
        self,
        broker_id: int,
        ports: MachinePorts,
        storage: ReplicaStorage,
        recovery_pool: LogRecoveryPool,
        work: InOrder,
        configs_under: Callable[[ClusterImage], TopicConfigs],
    ) -> None:
        """`storage` and `recovery_pool` have `dir_failed` called when a directory fails."""
        self._broker_id = broker_id
        self._ports = ports
        self._storage = storage
        self._recovery_pool = recovery_pool
        self._work = work
        self._configs_under = configs_under
        self._hosted: dict[str, dict[int, HostedPartition]] = {}
        self._names: dict[Uuid, str] = {}
        self._known: ClusterImage = ClusterImage()
        self._unavailable: dict[str, dict[int, ReplicaUnavailable]] = {}
        self._has_newly_unavailable = False
        self._placed: list[tuple[Uuid, int, Uuid]] = []
        self.traffic = Traffic()
        """What was written and read here."""
        self.high_watermark_moves = 0
        """Grows whenever `high_watermarks` has changed, or where one of them is written down."""
        self.gone_isr_changes = IsrChanges()
        """Those of partitions that are hosted here no longer."""
        self.offline_reason: str | None = None
        """Why no log directory can be used any more; None while that is not so."""
        self.rules: PartitionRules = RULES
        """What the partitions go by that are hosted from now on."""
        self.watchers: list[ReplicaWatcher] = []
        self.on_moved: Callable[[HostedPartition, bool], None] = _ignore
        """Called when an offset or the role of a partition has changed, and with whether that is
        the end of its log alone."""
        self.on_step: Callable[[HostedPartition], None] = _ignore
        """Called after every step of a partition's machine."""
        self.on_brokers_changed: Callable[[], None] = _ignore
        """Called when all partitions have heard which brokers may be in sync from now on."""
        self.on_gone: Callable[[HostedPartition], None] = _ignore
        """Called when a partition is hosted here no longer."""
        self.on_offline: Callable[[str], None] = _ignore
        """Called once, with the reason, when the node cannot go on without what has failed."""
        self.on_broken: Callable[[str], None] = _ignore
        """Called with the reason when the node cannot go on for no fault of a directory's."""
        self.on_dir_offline: Callable[[Any], None] = _ignore
        """Called with each directory that has failed, when the node can go on without it."""
        self.on_halted: Callable[[], None] = _ignore
        """Called when a replica that the metadata place here has no log."""
        self.on_placed: Callable[[list[tuple[Uuid, int, Uuid]]], None] = _ignore
        """Called with (topic id, partition, directory id) of partitions that are in a directory
        which the cluster's metadata do not say they are in."""

    # -- looking up ------------------------------------------------------------------------

    def get(self, topic: str, index: int) -> HostedPartition | ErrorCode:
        """The partition, or why it cannot be had here: 56, 6 (known elsewhere) or 3 (unknown)."""
        partitions = self._hosted.get(topic)
        hosted = partitions.get(index) if partitions is not None else None
        if self.offline_reason is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if hosted is not None:
            return hosted if hosted.data_dir.is_online else ErrorCode.KAFKA_STORAGE_ERROR
        if self.is_unavailable(topic, index):
            return ErrorCode.KAFKA_STORAGE_ERROR
        known = self._known.topics_by_name.get(topic)
        if known is not None and 0 <= index < len(known.partitions):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def by_id(self, topic_id: Uuid, index: int) -> HostedPartition | ErrorCode:
        """Like `get` for a topic id; 100 for an id that no topic has."""
        name = self._names.get(topic_id) or self.topic_name(topic_id)
        return ErrorCode.UNKNOWN_TOPIC_ID if name is None else self.get(name, index)

    def topic_name(self, topic_id: Uuid) -> str | None:
        """The name of the topic with that id; None if there is none."""
        name = self._names.get(topic_id)
        if name is None:
            known = self._known.topics_by_id.get(topic_id)
            name = None if known is None else known.name
        return name

    def all(self) -> Iterator[HostedPartition]:
        """Every partition hosted here."""
        for partitions in list(self._hosted.values()):
            yield from list(partitions.values())

    def is_unavailable(self, topic: str, index: int) -> bool:
        """Whether this broker has a replica of the partition, and could open no log for it."""
        return index in self._unavailable.get(topic, ())

    def unavailable(self) -> Iterator[HaltedReplica]:
        """The replicas that have no log which works, and why."""
        for topic, missing in self._unavailable.items():
            for index, reason in missing.items():
                yield HaltedReplica(f"{topic}-{index}", reason.cause, reason.why)
        if all(one.is_online for one in self._storage.data_dirs):
            return
        for hosted in self.all():
            if not hosted.data_dir.is_online:
                why = hosted.data_dir.why_offline
                yield HaltedReplica(hosted.key, HaltCause.DIRECTORY_OFFLINE, why)

    def leaderless(self) -> Iterator[HaltedReplica]:
        """The replicas whose partition has no leader."""
        for hosted in self.all():
            if hosted.machine.leader_id < 0 and hosted.data_dir.is_online:
                yield HaltedReplica(hosted.key, HaltCause.NO_LEADER, WITHOUT_LEADER)

    def high_watermarks(self) -> dict[tuple[str, int], int]:
        """The high watermark of every partition hosted here, for the checkpoint."""
        return {(h.topic, h.index): h.machine.high_watermark for h in self.all()}

    # -- following the image ---------------------------------------------------------------

    def apply(self, image: ClusterImage, delta: ImageDelta) -> None:
        """Do what the change from one image to the next means for this broker, in a while."""
        self._known = image
        if self.offline_reason is None:
            self._work.add(self._guarded(self._changes(image, delta)))

    def close(self) -> None:
        """Leave what is still to be done undone; logs that are open stay so."""
        self._work.close()
        self._recovery_pool.close()

    def _guarded(self, work: Pieces[None]) -> Pieces[None]:
        """`work`; what it does not handle itself is the end, since the rest of it is not done."""
        try:
            yield from work
        except Exception as error:
            log.exception("following the cluster's metadata failed")
            self.on_broken(f"the cluster's metadata cannot be followed: {describe(error)}")

    def _changes(self, image: ClusterImage, delta: ImageDelta) -> Pieces[None]:
        """What `apply` has to do, in steps of one partition."""
        changes = delta.for_broker(self._broker_id)
        for change in changes.to_delete:
            self._delete(change)
            yield None
        configs = self._configs_under(image)
        yield from self._open_ahead(changes, configs)
        eligible = eligible_brokers(image)
        for is_led, some in ((True, changes.to_lead), (False, changes.to_follow)):
            for change in some:
                key = change.topic, change.index
                future = self._recovery_pool.waiting_for(key)
                if future is not None:
                    yield future
                hosted = self._ensure(change, configs)
                if hosted is not None and is_led:
                    self._lead(hosted, change, eligible)
                elif hosted is not None:
                    self._follow(hosted, change)
                yield None
        yield from self._reconfigure(image, delta, configs)
        if delta.brokers:
            for hosted in self.all():
                self._ports.driver.feed(hosted.key, BrokersChanged(eligible))
                yield None
            self.on_brokers_changed()
        placed, self._placed = self._placed, []
        if placed:
            self.on_placed(placed)
        if self._has_newly_unavailable:
            self._has_newly_unavailable = False
            self.on_halted()

    def _open_ahead(self, changes: LocalChanges, configs: TopicConfigs) -> Pieces[None]:
        """Have threads begin with what takes long to open."""
        if not self._storage.may_need_recovery:
            return
        for number, change in enumerate((*changes.to_lead, *changes.to_follow), 1):
            if change.index not in self._hosted.get(change.topic, ()):
                with contextlib.suppress(ReplicaUnavailable):  # `_ensure` reports it
                    self._begin_open(change, configs)
            if number % OPENED_PER_STEP == 0:
                yield None

    def _begin_open(self, change: PartitionDelta, configs: TopicConfigs) -> Opening:
        """Begin to open or make the log. ReplicaUnavailable."""
        new = change.new
        assert new is not None, "what is opened exists"
        return self._recovery_pool.begin(
            (change.topic, change.index),
            change.topic_id,
            configs(change.topic).log,
            ReplicaPlacement(
                new.directory_of(self._broker_id),
                is_new=is_new_here(change, self._broker_id),
                is_only_copy=is_only_copy(new, self._broker_id),
            ),
        )

    def _lead(
        self, hosted: HostedPartition, change: PartitionDelta, eligible: Mapping[int, int]
    ) -> None:
        new = change.new
        assert new is not None, "what is led exists"
        self._ports.driver.feed(
            hosted.key,
            BecomeLeader(
                leader_epoch=new.leader_epoch,
                partition_epoch=new.partition_epoch,
                replicas=new.replicas,
                isr=new.isr,
                eligible=eligible,
                recovery_state=RecoveryState(new.leader_recovery_state),
            ),
        )
        self.on_moved(hosted, False)  # who is in sync matters to who fetches, too
        if change.is_new_leader_epoch:
            for watcher in self.watchers:
                watcher.became_leader(hosted, new.leader_epoch)

    def _follow(self, hosted: HostedPartition, change: PartitionDelta) -> None:
        new = change.new
        assert new is not None, "what is followed exists"
        led = hosted.machine.is_leader
        self._ports.driver.feed(
            hosted.key,
            BecomeFollower(
                leader_id=new.leader,
                leader_epoch=new.leader_epoch,
                partition_epoch=new.partition_epoch,
                replicas=new.replicas,
                isr=new.isr,
            ),
        )
        if led:
            for watcher in self.watchers:
                watcher.lost_leadership(hosted, new.leader_epoch)

    def _ensure(self, change: PartitionDelta, configs: TopicConfigs) -> HostedPartition | None:
        """The hosted partition; its log is opened or created if it is not there yet.

        None if that cannot be, which `unavailable` reports.
        """
        topic, index = change.topic, change.index
        present = self._hosted.get(topic, {}).get(index)
        if present is not None:
            return present
        try:
            opening = self._begin_open(change, configs)
            partition_log = self._recovery_pool.finish((topic, index), opening)
        except ReplicaUnavailable as error:
            self._unavailable.setdefault(topic, {})[index] = error
            self._has_newly_unavailable = True
            return None
        self._unavailable.get(topic, {}).pop(index, None)
        return self._host(change, opening, partition_log, configs)

    def _host(
        self,
        change: PartitionDelta,
        opening: Opening,
        partition_log: PartitionLog,
        configs: TopicConfigs,
    ) -> HostedPartition:
        assert change.new is not None, "what is hosted exists"
        machine = Partition(
            self._broker_id,
            partition_log,
            high_watermark=self._storage.high_watermark_of(partition_log),
            durable_offset=partition_log.recovery_point,
            config=configs(change.topic).machine,
            rules=self.rules,
        )
        key = opening.name
        hosted = HostedPartition(
            change.topic,
            change.index,
            change.topic_id,
            key,
            partition_log,
            machine,
            opening.data_dir,
            traffic=self.traffic.of(change.topic),
        )
        self._hosted.setdefault(change.topic, {})[change.index] = hosted
        self._names[change.topic_id] = change.topic
        self.high_watermark_moves += 1
        if change.new.directory_of(self._broker_id) != opening.directory_id:
            self._placed.append((change.topic_id, change.index, opening.directory_id))
        self._ports.host(key, machine, partition_log, lambda _: self._stepped(hosted))
        if partition_log.recovery_point < partition_log.end_offset:
            # What a crash left in the page cache counts once it is known to be on the disk.
            self._ports.request_flush(key)
        return hosted

    def _delete(self, change: PartitionDelta) -> None:
        hosted = self._hosted.get(change.topic, {}).pop(change.index, None)
        self._unavailable.get(change.topic, {}).pop(change.index, None)
        if not self._hosted.get(change.topic):
            self._hosted.pop(change.topic, None)
            self.traffic.forget(change.topic)
            self._names.pop(change.topic_id, None)
        if hosted is None:
            return
        self.high_watermark_moves += 1
        self.gone_isr_changes.add(hosted.machine.isr_changes)
        # The machine gets it first, so that all requests that wait for it are answered.
        self._ports.driver.feed(hosted.key, StopReplica(is_deleted=change.new is None))
        self._ports.driver.drain(hosted.key)  # the metadata log's machine may be in a step
        for watcher in self.watchers:
            watcher.lost_leadership(hosted, None)
        self.on_gone(hosted)
        self._ports.unhost(hosted.key)
        try:
            self._storage.delete_partition(hosted.log)
        except OSError as error:
            self.dir_failed(hosted.data_dir, f"{hosted.key} could not be deleted: {error}")

    def replace_log(
        self, hosted: HostedPartition, partition_log: PartitionLog, data_dir: Directory
    ) -> None:
        """The partition's log has moved to `data_dir`; see `Partition.replace_log`."""
        hosted.log, hosted.data_dir = partition_log, data_dir
        self.high_watermark_moves += 1
        hosted.machine.replace_log(partition_log)
        self._ports.replace_log(hosted.key, partition_log)
        if hosted.on_log_replaced is not None:
            hosted.on_log_replaced(partition_log)
        self._ports.request_flush(hosted.key)  # for what waits for the old log's flush

    def _reconfigure(
        self, image: ClusterImage, delta: ImageDelta, configs: TopicConfigs
    ) -> Pieces[None]:
        topics = set(delta.changed_topic_configs)
        if delta.changed_broker_configs:
            topics.update(self._hosted)
        for topic in sorted(topics):
            for hosted in list(self._hosted.get(topic, {}).values()):
                config = configs(topic)
                hosted.log.config = config.log
                self._ports.driver.feed(hosted.key, ConfigChanged(config.machine))
                yield None

    # -- what machines and disks report ------------------------------------------------------

    def _stepped(self, hosted: HostedPartition) -> None:
        state, before = hosted.machine.fetch_state, hosted.seen
        log_end = hosted.machine.log_end_offset
        if state != before:
            hosted.seen, hosted.log_end_offset = state, log_end
            self.on_moved(hosted, False)
            if before is None or state.high_watermark != before.high_watermark:
                self.high_watermark_moves += 1
                if hosted.on_high_watermark is not None:
                    hosted.on_high_watermark()
        elif log_end != hosted.log_end_offset:
            hosted.log_end_offset = log_end
            self.on_moved(hosted, True)
        self.on_step(hosted)

    def disk_failed(self, key: Hashable, reason: str) -> None:
        """The log of the machine under `key` has failed."""
        topic, _, index = str(key).rpartition("-")
        hosted = self._hosted.get(topic, {}).get(int(index)) if index.isdecimal() else None
        if hosted is not None:
            self.dir_failed(hosted.data_dir, f"{hosted.key}: {reason}")
        elif key == METADATA_KEY:
            self.dir_failed(self._storage.metadata_dir, f"{key}: {reason}")

    def storage_failed(
        self, hosted: HostedPartition, reason: str, error: OSError | None = None
    ) -> None:
        """The disk has refused: its directory goes offline.

        That there was no file descriptor for `error` (EMFILE, ENFILE) only refuses the request.
        """
        if is_shortage(error):
            self._storage.note_shortage(reason)
        else:
            self.dir_failed(hosted.data_dir, reason)

    def dir_failed(self, data_dir: Directory, reason: str) -> None:
        """A directory has failed: its partitions answer KAFKA_STORAGE_ERROR from now on."""
        if not data_dir.is_online:
            return
        data_dir.fail(reason)
        is_last = not any(one.is_online for one in self._storage.data_dirs)
        if is_last or data_dir is self._storage.metadata_dir:
            self.offline_reason = reason
        for hosted in self.all():
            if hosted.data_dir is data_dir or self.offline_reason is not None:
                self._lose(hosted, reason)
        if self.offline_reason is not None:
            self.on_offline(reason)
        else:
            self.on_dir_offline(data_dir)

    def _lose(self, hosted: HostedPartition, reason: str) -> None:
        """The disk has taken a partition from us."""
        led = hosted.machine.is_leader
        self._ports.driver.disk_failed(hosted.key, reason)
        if led and self.offline_reason is None:
            for watcher in self.watchers:
                watcher.lost_leadership(hosted, None)


def is_new_here(change: PartitionDelta, broker_id: int) -> bool:
    """Whether the broker cannot have had a replica: the topic is new, or it was just added."""
    if change.old is not None:
        return broker_id not in change.old.replicas
    return change.new is not None and change.new.partition_epoch == 0


def is_only_copy(partition: PartitionImage, broker_id: int) -> bool:
    """Whether no replica but the broker's is in sync, or eligible to lead, or led last (KIP-966).

    A broker that registers again, and lacks what it had, is in sync no more, unless it was the only
    one.
    """
    holders = partition.isr or partition.eligible_leader_replicas or partition.last_known_elr
    return set(holders) <= {broker_id}


def eligible_brokers(image: ClusterImage) -> dict[int, int]:
    """Brokers that may enter an in-sync set, with their epochs (KIP-841)."""
    return {
        broker_id: broker.epoch
        for broker_id, broker in image.brokers.items()
        if not broker.fenced and not broker.in_controlled_shutdown
    }


def partition_config(config: LogConfig, replica_lag_time_max_ms: int) -> PartitionConfig:
    """What a partition machine has to know of its topic's and its broker's configs."""
    return PartitionConfig(
        replica_lag_time_max_ms=replica_lag_time_max_ms,
        min_insync_replicas=config.min_insync_replicas,
        log_append_time=config.is_log_append_time,
    )


def _ignore(*_: object) -> None:
    """The callback of an event that the node does nothing about."""
