"""The broker's part of a node: partitions, groups, the registration, and the clients' listener.

Order of the start: register with the active controller, wherever it is, and read the metadata log
as far as the registration; make partitions of what the metadata say; be unfenced, which is when the
broker may lead; accept clients. Before the registration is read the image is not to be trusted with
files: a broker that starts reads the metadata log in pieces, and halfway through, a topic may be an
older one of the same name, whose directory would be put in the place of today's.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from fencepost.broker.cluster.broker_lifecycle import LifecycleHandle, RegistrationError
from fencepost.broker.cluster.forwarding import Forwarder
from fencepost.broker.cluster.metadata_cache import MetadataCache
from fencepost.broker.cluster.topic_creation import AutoTopicCreation
from fencepost.broker.config.broker_config import CONNECTION_KEYS, BrokerConfig, connection_limits
from fencepost.broker.config.endpoints import ConnectionLimits, Endpoint
from fencepost.broker.config.settings import Settings
from fencepost.broker.net.listener import Listener
from fencepost.broker.net.log_limit import ClientWarnings
from fencepost.broker.net.registry import BROKER, served_routes
from fencepost.broker.node.core import NodeCore
from fencepost.broker.node.late_parts import HandlerParts, LateParts
from fencepost.broker.node.quotas import NodeQuotas
from fencepost.broker.replicas.compaction import CLEANER_KEYS, Compactor
from fencepost.broker.replicas.topic_configs import topic_configs_under
from fencepost.broker.storage.decompression import Decompression
from fencepost.broker.storage.log_recovery_pool import RecoveryPool
from fencepost.broker.storage.storage import Storage
from fencepost.log.errors import describe
from fencepost.machines.driver import Driver
from fencepost.machines.image import ClusterImage, ImageDelta, diff
from fencepost.runtime.alter_partition import AlterPartitions
from fencepost.runtime.clock import Clocks, SystemWorkClock, WorkClock
from fencepost.runtime.combined_appends import CombinedAppends
from fencepost.runtime.cooperative import InOrder
from fencepost.runtime.halted import HaltedReplicas
from fencepost.runtime.producer_ids import ProducerIds, block_source
from fencepost.runtime.registrations import NOBODY_LEADS
from fencepost.runtime.replicas import ReplicaManager
from fencepost.runtime.requests.access import Access, PartitionAccess
from fencepost.runtime.requests.parts import (
    BatchDecompression,
    ClusterMetadata,
    InternalTopicCreation,
    Parts,
)
from fencepost.runtime.transactional_writes import TransactionalWrites

if TYPE_CHECKING:
    from fencepost.broker.metrics.verifications import Verifications
    from fencepost.broker.node.coordinators import Coordinators
    from fencepost.runtime.delayed_fetches import FetchHost
    from fencepost.runtime.log_dir_moves import LogDirMoves

log = logging.getLogger(__name__)

CORDONED_KEY: Final = "cordoned.log.dirs"
SHUTDOWN_TIMEOUT_S: Final = 300.0
"""For the whole controlled shutdown, as in Kafka; after that the broker stops all the same."""
VERIFICATION_KEY: Final = "transaction.partition.verification.enable"


class BrokerPart:
    """See the module; what is behind `bound` is there once `wire` was called."""

    following: InOrder
    replicas: ReplicaManager
    partitions: PartitionAccess
    forwarder: Forwarder
    topic_creation: AutoTopicCreation
    lifecycle: LifecycleHandle
    alter_partitions: AlterPartitions
    producer_ids: ProducerIds
    writes: TransactionalWrites
    appends: CombinedAppends
    compactor: Compactor
    halted: HaltedReplicas

    def __init__(self, core: NodeCore) -> None:
        self._core = core
        self.bound: list[Endpoint] = []
        """Where clients are listened for."""
        get = core.settings.get
        self.listener = Listener(
            core.loop,
            self._limits(),
            core.ports.scheduler.lane(),
            count=core.connection_count,
            left_free=core.connection_count.most // 8 if core.config.is_controller else 0,
        )
        self.quotas = NodeQuotas(get, core.ports.clocks.now_ms, self.listener, core.access)
        """What clients are held to."""
        if len(core.config.listeners) > 1:
            self.listener.gate.protected = core.config.inter_broker_listener
        core.settings.watch(CONNECTION_KEYS, self._set_limits)
        self.decompression = Decompression()
        self._has_caught_up = False
        self.late = LateParts(core, self)

    @property
    def fetches(self) -> FetchHost:
        """Fetches that wait, and fetch sessions; asked for the first time, they are made."""
        return self.late.fetch_host

    @property
    def verifications(self) -> Verifications:
        """What is counted of what coordinators of transactions were asked."""
        return self.late.verification.counts

    @property
    def moves(self) -> LogDirMoves:
        """What moves replicas between directories; asked for the first time, it is made."""
        return self.late.moves

    @property
    def coordinators(self) -> Coordinators:
        """The coordinators of groups and transactions; asked for the first time, they are made."""
        return self.late.coordinators

    @property
    def broker_epoch(self) -> int:
        """The epoch of the registration; -1 before there is one."""
        return self.lifecycle.broker_epoch

    @property
    def advertised(self) -> list[Endpoint]:
        """The addresses that clients get to connect to, once bound."""
        return self._core.config.advertised_endpoints(self.bound)

    def bind(self) -> None:
        """Bind the sockets. BindError."""
        self.bound = self.listener.bind(self._core.config.listeners, self._core.security_of)

    def _set_limits(self) -> None:
        self.listener.limits = self._limits()

    def _limits(self) -> ConnectionLimits:
        core = self._core
        names = [endpoint.name for endpoint in core.config.listeners]
        return connection_limits(core.settings.get, map(core.settings.for_listener, names))

    def wire(self) -> None:
        """Make the parts and tell them of each other."""
        core = self._core
        ports, config = core.ports, core.config
        self._wire_replicas()
        core.metadata.on_image(self._image_changed)
        core.metadata.on_image(lambda image, delta: self.quotas.image_changed(image))
        self.forwarder = Forwarder(core.channel)
        self.topic_creation = AutoTopicCreation(config, core.channel, core.now_ms)
        self.lifecycle = LifecycleHandle(config, core.storage, ports.driver, core.registrations)
        self.alter_partitions = AlterPartitions(
            ports.driver,
            core.channel,
            ports.timers,
            self.replicas,
            config.node_id,
            lambda: self.broker_epoch,
        )
        ports.to_controller = self.alter_partitions.submit
        self._wire_appends()
        self.replicas.on_step = self.late.looked_at
        self.producer_ids = ProducerIds(
            block_source(core.channel, config.node_id, lambda: self.broker_epoch)
        )
        self._wire_transactions()
        self.halted = HaltedReplicas(
            self.replicas.unavailable,
            (
                self.replicas.leaderless,
                self.late.halted,
                lambda: self.lifecycle.halted(core.image),
            ),
            core.now_ms,
        )
        self.replicas.on_halted = self.halted.look
        self.compactor = Compactor(self.replicas, core.settings, ports, core)
        core.settings.watch(CLEANER_KEYS, self.compactor.reconfigure)
        self._cordon()
        core.settings.watch([CORDONED_KEY], self._cordon)

    def _wire_replicas(self) -> None:
        """What hosts the replicas, and what becomes of their directories and failures."""
        core = self._core
        ports, config = core.ports, core.config
        self.following = InOrder(ports.scheduler.lane())
        self.replicas = ReplicaManager(
            config.node_id,
            ports,
            core.storage,
            RecoveryPool(
                core.storage, lambda: core.settings.get("num.recovery.threads.per.data.dir")
            ),
            self.following,
            lambda image: topic_configs_under(config, image),
        )
        self.partitions = PartitionAccess(core.access, self.replicas)
        core.storage.on_failed = self.replicas.dir_failed
        self.replicas.on_gone = self.late.gone
        self.replicas.on_offline = lambda reason: core.fail(f"the log directory failed: {reason}")
        self.replicas.on_broken = core.fail
        self.replicas.on_dir_offline = lambda one: self.lifecycle.log_dir_failed(one.directory_id)
        self.replicas.on_placed = lambda placed: self.lifecycle.replicas_placed(placed)

    def _wire_appends(self) -> None:
        """What collects producers' batches, until the turn ends or another request comes."""
        core = self._core
        self.appends = CombinedAppends(
            core.driver, core.ports, core.loop.call_soon, core.storage.open_for_append
        )
        self.listener.before_others = self.appends.settle
        self.listener.after_read = self.appends.read_done

    def _wire_transactions(self) -> None:
        """What asks coordinators before something is written in a transaction; coordinators."""
        core = self._core
        self.writes = TransactionalWrites(
            core.driver,
            self.late,
            lambda: bool(core.settings.get(VERIFICATION_KEY)),
        )
        self.replicas.watchers.append(self.late)

    def _cordon(self) -> None:
        storage = self._core.storage
        self.lifecycle.cordon(storage.cordon(self._core.settings.get(CORDONED_KEY)))

    async def join(self) -> None:
        """Register, open the partitions, and be unfenced. RegistrationError."""
        await self.lifecycle.register(self.advertised)
        self._has_caught_up = True
        self._begin_to_follow(self._core.image)
        await self.followed()
        await self.lifecycle.become_unfenced()
        await self.followed()
        if self._core.authorizer is not None:
            self._core.authorizer.loaded()

    async def followed(self) -> None:
        """Wait until the partitions are as the metadata says that has been applied."""
        done: asyncio.Future[None] = self._core.loop.create_future()

        def tell() -> None:
            if not done.done():  # `followed` may have been cancelled
                done.set_result(None)

        self.following.when_idle(tell)
        await done

    async def start(self) -> None:
        """Accept clients; `join` has loaded the ACLs, so no listener has to wait for them."""
        self._core.storage.rename_strays(self.replicas.is_unavailable)
        if self._core.storage.has_copies():
            self.moves.resume()
        self.compactor.start()
        self.quotas.image_changed(self._core.image)
        self.listener.routes = served_routes(
            BROKER,
            self._parts(),
            unstable=bool(self._core.config.get("unstable.api.versions.enable")),
        )
        await self.listener.start()

    def _parts(self) -> Parts:
        """What handlers of clients' requests may ask for."""
        core = self._core
        metadata = MetadataCache(core.metadata, core.cluster_id)
        parts: dict[Any, object] = {
            Access: core.access,
            AutoTopicCreation: self.topic_creation,
            BrokerConfig: core.config,
            ClientWarnings: core.client_warnings,
            BatchDecompression: self.decompression,
            Clocks: core.ports,
            WorkClock: SystemWorkClock(),
            ClusterMetadata: metadata,
            CombinedAppends: self.appends,
            Decompression: self.decompression,
            Driver: core.driver,
            Forwarder: self.forwarder,
            InternalTopicCreation: self.topic_creation,
            MetadataCache: metadata,
            PartitionAccess: self.partitions,
            ProducerIds: self.producer_ids,
            ReplicaManager: self.replicas,
            Settings: core.settings,
            Storage: core.storage,
            TransactionalWrites: self.writes,
        }
        return HandlerParts(parts, self.late)

    def close(self) -> None:
        """Begin no more work on partitions, and serve no more groups."""
        self.late.close("fetchers")
        self.compactor.close()
        self.late.close("moves")
        self.replicas.close()
        self.late.close("share_serving")
        self.late.close("coordinators")
        self.decompression.close()
        self.late.close("cold_reads")

    @property
    def can_hand_over(self) -> bool:
        """Whether a controlled shutdown has other brokers lead what this one leads."""
        return self._core.failure is None and self.lifecycle.can_hand_over

    async def leave(self) -> None:
        """Shut down with the controller's consent; a broken broker just stops."""
        if self._core.failure is not None:
            return
        try:
            await asyncio.wait_for(self.lifecycle.shut_down(), SHUTDOWN_TIMEOUT_S)
        except (RegistrationError, TimeoutError) as error:
            if isinstance(error, RegistrationError) and error.code in NOBODY_LEADS:
                # As when a whole cluster stops: the last brokers find no majority to ask.
                log.info(
                    "skipping the controlled shutdown: there is no active controller,"
                    " or it did not answer"
                )
            else:
                log.warning("the controlled shutdown failed: %s", error)

    def _begin_to_follow(self, image: ClusterImage) -> None:
        """Everything that is in the image is new to this broker."""
        try:
            self.replicas.apply(image, diff(ClusterImage(), image))
        except Exception as error:
            log.exception("following the metadata log failed")
            self._core.fail(f"the metadata log cannot be followed: {describe(error)}")

    def _image_changed(self, image: ClusterImage, delta: ImageDelta) -> None:
        if self._has_caught_up:
            self.replicas.apply(image, delta)
