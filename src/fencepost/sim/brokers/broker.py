"""A simulated broker: the product's lifecycle, replicas and partition machines, in one world.

It is a node that observes the quorum: it has a metadata log, an image of the cluster, a disk, a
clock and incarnations. What a broker process does besides it does here with the same classes: it
registers, is unfenced and sends heartbeats (`machines/broker`), makes partitions of what the
metadata say once it has read them as far as its own registration (`runtime/replicas`), asks for
other in-sync sets, and writes down high watermarks and recovery points. All logs are in the one
directory of its disk.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import count
from typing import Any, Final

from fencepost.log.config import LogConfig
from fencepost.log.errors import LogError
from fencepost.machines.broker import (
    BeginControlledShutdown,
    BrokerLifecycle,
    DirectoryAssignments,
    LifecycleConfig,
    ReadyToUnfence,
    Registration,
    ReplicasPlaced,
    Start,
)
from fencepost.machines.controller.config import SUPPORTED_FEATURES
from fencepost.machines.image import ClusterImage, FeatureRange, ImageDelta, ListenerImage, diff
from fencepost.machines.partition import PartitionConfig
from fencepost.runtime.alter_partition import AlterPartitions
from fencepost.runtime.authorizer import NodeAuthorizer
from fencepost.runtime.cooperative import InOrder
from fencepost.runtime.delayed_fetches import FetchHost
from fencepost.runtime.fetchers import FetcherKey, FollowerFetchers
from fencepost.runtime.groups import GroupCoordinators
from fencepost.runtime.metadata.host import METADATA_KEY
from fencepost.runtime.producer_ids import ProducerIds, block_source
from fencepost.runtime.registrations import ASSIGNMENTS_KEY, LIFECYCLE_KEY, Registrations
from fencepost.runtime.replicas import HostedPartition, ReplicaManager, TopicConfig, TopicConfigs
from fencepost.runtime.transactions import TRANSACTION_VERSION
from fencepost.sim.boot import CLUSTER_ID
from fencepost.sim.brokers.arrived_request import Reply
from fencepost.sim.brokers.checkpoints import key_of, show_checkpoints
from fencepost.sim.brokers.controller_link import ControllerLink
from fencepost.sim.brokers.follower_fetches import followers_of
from fencepost.sim.brokers.groups import groups_of
from fencepost.sim.brokers.guests import authorizer_of
from fencepost.sim.brokers.ports import BrokerPorts
from fencepost.sim.brokers.requests import BrokerRequests, ReadsAtOnce
from fencepost.sim.brokers.shares import BrokerShares
from fencepost.sim.brokers.storage import BrokerStorage
from fencepost.sim.brokers.transactions import BrokerTransactions
from fencepost.sim.node import SimNode
from fencepost.sim.options import Options
from fencepost.sim.partition_oracle import BrokerBegun, ReplicaView, Stage
from fencepost.sim.surroundings import Surroundings
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.types import Uuid

CHECKPOINT_MS: Final = 5_000
RESTART_US: Final = 1_000_000
SESSIONS: Final = 4
"""Fetch sessions that a broker keeps: fewer than there may be who want one."""
SESSIONS_PER_INCARNATION: Final = 1_000_000
ANY_TIMESTAMP: Final = {"message.timestamp.after.max.ms": str((1 << 63) - 1)}
"""A broker whose clock was set by an hour takes what producers send all the same."""
FEATURES: Final = tuple(
    FeatureRange(name, low, high)
    for name, (low, high) in SUPPORTED_FEATURES.items()
    if name != TRANSACTION_VERSION
)

OF_TRANSACTIONS: Final = FeatureRange(TRANSACTION_VERSION, 0, 2)


class SimBroker(SimNode):
    """See the module docstring."""

    can_become_voter = False
    ports_class = BrokerPorts
    ports: BrokerPorts
    following: InOrder
    link: ControllerLink
    replicas: ReplicaManager
    alter_partitions: AlterPartitions
    followers: FollowerFetchers
    producer_ids: ProducerIds
    lifecycle: BrokerLifecycle
    registrations: Registrations
    groups: GroupCoordinators
    transactions: BrokerTransactions
    fetches: FetchHost
    requests: BrokerRequests
    shares: BrokerShares
    authorizer: NodeAuthorizer | None

    def __init__(self, world: Surroundings, node_id: int) -> None:
        super().__init__(world, node_id)
        self.accepts = False
        """Whether it has been unfenced in this incarnation, and takes requests."""
        self.is_stopping = False
        self._follows = False
        self._by_key: dict[Hashable, HostedPartition] = {}
        self._members = 0

    # -- start and stop -------------------------------------------------------------------------

    def begin_parts(self) -> None:
        """Make the parts of a broker, and register."""
        self.accepts = self.is_stopping = self._follows = False
        self._by_key = {}
        self.link = ControllerLink(self)
        self.followers = followers_of(self)
        storage = BrokerStorage(self)
        self.following = InOrder(self.ports.scheduler.lane())
        self._begin_replicas(storage)
        self.alter_partitions = AlterPartitions(
            self.ports.driver,
            self.link,
            self.timers,
            self.replicas,
            self.id,
            lambda: self.broker_epoch,
        )
        self.shares = BrokerShares(self, ReadsAtOnce())
        self.replicas.on_moved = self.shares.moved
        self.groups = groups_of(self)
        self.groups.new_member_suffix = self._new_member_suffix
        self.replicas.watchers.append(self.groups)
        self.producer_ids = ProducerIds(block_source(self.link, self.id, lambda: self.broker_epoch))
        self.transactions = BrokerTransactions(self)
        self._begin_authorizer()
        self.requests = BrokerRequests(self)
        self._begin_lifecycle()
        self.timers.after(CHECKPOINT_MS, self._checkpoint)

    def _begin_lifecycle(self) -> None:
        """Register with the controller, and follow the metadata."""
        self.lifecycle = BrokerLifecycle(
            LifecycleConfig(
                heartbeat_interval_ms=self.world.options.heartbeat_ms,
                session_timeout_ms=self.world.options.session_timeout_ms,
                startup_timeout_ms=1 << 40,
            ),
            self.world.rules.lifecycle,
        )
        self.registrations = Registrations(self.ports, self.link)
        self.registrations.host_broker(
            self.lifecycle, DirectoryAssignments(self.id, lambda: self.broker_epoch)
        )
        self.replicas.on_placed = lambda placed: self.ports.driver.feed(
            ASSIGNMENTS_KEY, ReplicasPlaced(placed)
        )
        self.metadata.on_image(self._image_moved)
        self.metadata.on_step(lambda: self.registrations.note_leader(self.machine.leader_id))
        registration = Registration(
            self.id,
            CLUSTER_ID,
            incarnation_of(self),
            (ListenerImage("PLAINTEXT", "simulated", 9_092, 0),),
            _features_of(self.world.options),
            log_dirs=(self.directory_id,),
            previous_broker_epoch=self.log_dir.previous_broker_epoch,
        )
        self._note_stage(Stage.STARTS)
        self.tell_lifecycle(Start(registration, self._caught_up))

    def _begin_authorizer(self) -> None:
        """Have the authorizer follow the ACLs, and fetches that wait go by them."""
        self.authorizer = authorizer_of(self)
        if self.authorizer is not None:
            learn = self.authorizer.learn
            self.authorizer.on_changed = self.fetches.look_again
            self.metadata.on_image(lambda image, delta: learn(image))

    def _begin_replicas(self, storage: BrokerStorage) -> None:
        """Make what hosts the replicas, and what fetches of them wait at."""
        self.replicas = ReplicaManager(
            self.id, self.ports, storage, storage, self.following, self._configs
        )
        self.replicas.rules = self.world.rules.partition
        self.replicas.on_offline = self._give_up
        self.replicas.on_gone = self._gone
        sessions = count(self.incarnation * SESSIONS_PER_INCARNATION)
        self.fetches = FetchHost(
            self.timers, self.clocks.now_ms, lambda below: next(sessions) % below, SESSIONS
        )
        self.fetches.sessions.rules = self.world.rules.fetch
        self.replicas.on_brokers_changed = self.fetches.look_again
        self.fetches.on_seen = self.ports.driver.feed
        self.replicas.on_step = self.followers.looked_at

    def tell_lifecycle(self, input_: Any) -> None:
        """Step the lifecycle."""
        self.ports.driver.feed(LIFECYCLE_KEY, input_)

    @property
    def image(self) -> ClusterImage:
        """The cluster as the broker knows it."""
        return self.metadata.image

    @property
    def broker_epoch(self) -> int:
        """The epoch of its registration."""
        return self.lifecycle.broker_epoch

    def _image_moved(self, image: ClusterImage, delta: ImageDelta) -> None:
        self.registrations.image_applied(image)
        if self._follows:
            self.replicas.apply(image, delta)

    def _caught_up(self, outcome: Any) -> None:
        """The image is as new as the registration: all of it is applied."""
        if outcome.error is not ErrorCode.NONE:
            return
        self._follows = True
        self._note_stage(Stage.LOADS)
        image = self.metadata.image
        self.replicas.apply(image, diff(ClusterImage(), image))
        self.following.when_idle(self._loaded)

    def _loaded(self) -> None:
        self._note_stage(Stage.IS_READY)
        self.tell_lifecycle(ReadyToUnfence(self._unfenced))

    def _unfenced(self, outcome: Any) -> None:
        self.accepts = outcome.error is ErrorCode.NONE
        if self.accepts:
            if self.authorizer is not None:
                self.authorizer.loaded()
            self._note_stage(Stage.SERVES)

    def _note_stage(self, stage: Stage) -> None:
        begun = BrokerBegun(stage, self.id, incarnation_of(self), self.broker_epoch)
        self.world.observer.broker_begun(begun, self.metadata.image.offset)

    def _configs(self, image: ClusterImage) -> TopicConfigs:
        def of(topic: str) -> TopicConfig:
            log = LogConfig.from_props({**ANY_TIMESTAMP, **image.topic_configs(topic)})
            machine = PartitionConfig(
                min_insync_replicas=log.min_insync_replicas,
                replica_lag_time_max_ms=self.world.options.replica_lag_ms,
            )
            return TopicConfig(log, machine)

        return of

    def _checkpoint(self) -> None:
        """Write down what the broker's housekeeping does."""
        self.timers.after(CHECKPOINT_MS, self._checkpoint)
        try:
            self.log_dir.checkpoint_recovery_points()
            self.log_dir.checkpoint_start_offsets()
            self.log_dir.checkpoint_high_watermarks(self.replicas.high_watermarks())
        except OSError as error:
            self._give_up(str(error))
            return
        for hosted in self.replicas.all():
            show_checkpoints(self, hosted, is_marked=True)

    def machine_failed(self, key: Hashable, reason: str) -> None:
        """The log of a partition, or of the metadata, has failed: the process ends."""
        if isinstance(key, FetcherKey):
            self.followers.broken(key, reason)
        elif self.hosted(key) is not None and self.gave_up is None:
            self.replicas.disk_failed(key, reason)
        else:
            super().machine_failed(key, reason)

    def stop(self) -> None:
        """Leave the cluster in order, hand over what is led, and end."""
        if self.is_stopping:
            return
        self.is_stopping = True
        self.tell_lifecycle(
            BeginControlledShutdown(lambda outcome: self._after_this_step(self._end))
        )

    def cannot_load(self) -> None:
        """A log cannot be opened: the process is to end, in order as far as it can."""
        self._after_this_step(self._close)

    def _after_this_step(self, act: Callable[[], None]) -> None:
        """Do this once the step that asks for it is over, if the process is still there."""
        incarnation = self.incarnation
        self.world.schedule_in(
            0, "exit", lambda: act() if self.incarnation == incarnation else None, self
        )

    def _end(self) -> None:
        if self.gave_up is None:
            self._close()
        self.kill()
        if not self.world.options.by_hand:
            # The fault that stopped it may have tried to start it while it was still stopping.
            self.world.schedule_in(RESTART_US, "start", self._restart)

    def _close(self) -> None:
        """Close all logs, in order."""
        try:
            end_offset = self.metadata.log.end_offset
            self.metadata.close()
            self.log_dir.close(
                broker_epoch=self.broker_epoch, high_watermarks=self.replicas.high_watermarks()
            )
            self.world.observer.oracle.partitions.closed_in_order.add(self.id)
            self.world.observer.oracle.flushed(self.id, end_offset)
            for hosted in self.replicas.all():
                log = self.world.observer.oracle.partitions.log(self.id, key_of(hosted))
                log.flushed(log.end_offset)
                show_checkpoints(self, hosted, is_marked=True)
        except (LogError, OSError) as error:
            self.disk_refused(str(error))

    def _restart(self) -> None:
        if not self.is_up:
            self.start()

    def new_disk(self) -> None:
        """Put in an empty disk: no replica is left."""
        super().new_disk()
        self.world.observer.oracle.partitions.disk_is_gone(self.id)

    # -- requests ------------------------------------------------------------------------------

    def receive(self, request: Message, reply: Reply, source_id: int, api_version: int) -> bool:
        """Serve a client or a follower; refused as long as the broker is not unfenced."""
        if self.accepts:
            self.requests.serve(request, reply, api_version, source_id)
        return self.accepts

    def produced(self, hosted: HostedPartition, base_offset: int, acks: int) -> None:
        """A producer is about to be answered."""
        self.look_at_replica(hosted)  # the step that answers is not over
        self.world.observer.produced(self.id, key_of(hosted), base_offset, acks)

    def _new_member_suffix(self) -> str:
        """What makes the id of a new member of a group unique."""
        self._members += 1
        return f"{self.id}-{self.incarnation}-{self._members}"

    # -- partitions ----------------------------------------------------------------------------

    def hosted(self, key: Hashable) -> HostedPartition | None:
        """The partition that the driver knows by `key`; None if that is something else."""
        known = self._by_key.get(key)
        if isinstance(key, FetcherKey):
            return None
        if known is None and key not in (METADATA_KEY, LIFECYCLE_KEY, ASSIGNMENTS_KEY):
            topic, _, index = str(key).rpartition("-")
            found = self.replicas.get(topic, int(index))
            if isinstance(found, HostedPartition):
                known = self._by_key[key] = found
        return known

    def hosts(self, hosted: HostedPartition) -> bool:
        """Whether this very partition is still here."""
        return self._by_key.get(hosted.key) is hosted

    def _gone(self, hosted: HostedPartition) -> None:
        self.followers.gone(hosted)
        self.fetches.gone(hosted)
        self.shares.partitions.gone(hosted)
        self._by_key.pop(hosted.key, None)
        self.world.observer.oracle.partitions.gone(self.id, key_of(hosted))

    def look_at_replica(self, hosted: HostedPartition) -> None:
        """Show the observer what has changed of a replica."""
        machine = hosted.machine
        key = key_of(hosted)
        before = self.world.observer.oracle.partitions.views.get((self.id, key))
        view = ReplicaView(
            self.id,
            self.incarnation,
            key,
            machine.is_leader,
            machine.leader_epoch,
            machine.high_watermark,
            machine.log_start_offset,
            machine.durable_offset,
            machine.log_end_offset,
            machine.isr,
            min(machine.config.min_insync_replicas, machine.replica_count),
            machine.maximal_isr,
        )
        if view == before:
            return
        self.world.observer.replica_stepped(view)
        if before is None or before.leader_epoch != view.leader_epoch:
            self.look_at_epochs(hosted)
        self.world.tell(lambda: self.describe_replica(hosted))

    def look_at_epochs(self, hosted: HostedPartition) -> None:
        """Show the observer a replica's epoch cache."""
        epochs = [(entry.epoch, entry.start_offset) for entry in hosted.log.epochs]
        self.world.observer.epochs_seen(self.id, key_of(hosted), epochs)

    def describe_parts(self) -> str:
        """The broker in one line."""
        if not self.is_up or not hasattr(self, "metadata"):
            return self.describe()
        paused = "   paused" if self.is_paused else ""
        fenced = "fenced" if self.lifecycle.is_fenced else "unfenced"
        return f"{self.id} broker, {self.lifecycle.state.name.lower()}, {fenced}{paused}"

    def describe_replica(self, hosted: HostedPartition) -> str:
        """A replica in one line."""
        machine = hosted.machine
        role = "leads" if machine.is_leader else f"follows {machine.leader_id}"
        isr = f", isr {sorted(machine.isr)}" if machine.is_leader else ""
        return (
            f"{self.id} {role} {hosted.key} e{machine.leader_epoch}   hw {machine.high_watermark},"
            f" durable {machine.durable_offset}, end {machine.log_end_offset}{isr}"
        )


def _features_of(options: Options) -> tuple[FeatureRange, ...]:
    """The features that brokers of a world can run; no more than it needs, so that others stay."""
    features: tuple[FeatureRange, ...] = FEATURES
    if options.transactors:
        features = (*features, OF_TRANSACTIONS)
    return features


def incarnation_of(broker: SimBroker) -> Uuid:
    """The id of one incarnation of a broker."""
    numbers = broker.id.to_bytes(4, "big") + broker.incarnation.to_bytes(4, "big")
    return Uuid(b"broker" + bytes(2) + numbers)
