"""`Node`: one broker with its controller, wired together, started and stopped in order.

Order of the start: bind the sockets (a taken port is found out before any data is touched), open
and lock the log directory, let the quorum elect and replay the metadata log, become the active
controller, register with it, open the partitions the image names, be unfenced, accept clients. The
stop goes the other way, and leaves the clean-shutdown marker only if nothing failed.

A disk that refuses takes its directory offline; the others serve on. Without the directory of the
metadata log, without any directory, or with a metadata log that makes no sense, the node ends:
everything is taken offline, whoever waits hears of it, and the stop is asked for with exit code 1.
What is true of the disk then is found out by recovery, at the next start.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Hashable
from typing import Final, TypeVar

from fencepost.broker import apis
from fencepost.broker.alter_partition import AlterPartitions
from fencepost.broker.compaction import Compactor
from fencepost.broker.config import BrokerConfig
from fencepost.broker.controller_channel import ControllerChannel
from fencepost.broker.controller_host import ControllerHost
from fencepost.broker.controller_service import ControllerService
from fencepost.broker.endpoints import Endpoint
from fencepost.broker.features import METADATA_VERSION
from fencepost.broker.fetching import FetchHost
from fencepost.broker.forwarding import Forwarder
from fencepost.broker.group_host import GroupHost
from fencepost.broker.housekeeping import Housekeeping
from fencepost.broker.listener import Listener
from fencepost.broker.metadata import MetadataHost
from fencepost.broker.ports import AsyncPorts
from fencepost.broker.producer_ids import ProducerIds
from fencepost.broker.registration import Registration, RegistrationError
from fencepost.broker.replicas import HostedPartition, ReplicaManager
from fencepost.broker.storage import Storage, open_storage
from fencepost.broker.topic_creation import fill_in_configs
from fencepost.machines.controller import Controller, ControllerConfig
from fencepost.machines.driver import Driver
from fencepost.machines.image import ClusterImage

log = logging.getLogger(__name__)

T = TypeVar("T")

START_TIMEOUT_S: Final = 60.0
FAREWELL_S: Final = 0.5
"""How long clients have to read that the storage failed, before the node stops."""


class StartError(Exception):
    """The node cannot start; the message says why."""


class Node:
    """One broker and controller; see the module docstring. Everything runs in one event loop."""

    ports: AsyncPorts
    listener: Listener
    storage: Storage
    metadata: MetadataHost
    controller: ControllerHost
    service: ControllerService
    channel: ControllerChannel
    forwarder: Forwarder
    replicas: ReplicaManager
    fetches: FetchHost
    producer_ids: ProducerIds
    groups: GroupHost
    registration: Registration
    housekeeping: Housekeeping
    compactor: Compactor

    def __init__(self, config: BrokerConfig, loop: asyncio.AbstractEventLoop) -> None:
        self.config = config
        self.loop = loop
        self.bound: list[Endpoint] = []
        """Where the listeners listen, once bound."""
        self.failure: str | None = None
        """Why the node cannot go on; None as long as it can."""
        self._stop_reason: asyncio.Future[tuple[str, int]] = loop.create_future()
        self._storage: Storage | None = None
        self._wired = False
        self._joined = False
        self.ports = AsyncPorts(
            loop, flush_before_ack=config.flush_before_ack, on_disk_failed=self._disk_failed
        )
        self.listener = Listener(self, loop, config.connection_limits)

    # -- for handlers ----------------------------------------------------------------------

    @property
    def image(self) -> ClusterImage:
        """The cluster as far as it is committed."""
        return self.metadata.image

    @property
    def driver(self) -> Driver:
        """Steps the machines."""
        return self.ports.driver

    @property
    def cluster_id(self) -> str:
        """The cluster this node belongs to."""
        return self.storage.cluster_id

    @property
    def advertised(self) -> list[Endpoint]:
        """Where clients are told to connect to, once bound."""
        return self.config.advertised_endpoints(self.bound)

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        return self.ports.clock.now_ms()

    def storage_failed(self, hosted: HostedPartition, reason: str) -> None:
        """The disk has refused: its directory goes offline."""
        self.replicas.dir_failed(hosted.data_dir, reason)

    def fail(self, reason: str) -> None:
        """The node cannot go on."""
        if self.failure is None:
            self.failure = reason
            log.critical("%s", reason)
            self.loop.call_later(FAREWELL_S if self._joined else 0, self._end, reason, 1)

    # -- life ------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start everything; StartError, BindError, LogError or OSError if that cannot be."""
        apis.load_all()
        self.bound = self.listener.bind(self.config.listeners)
        self.storage = self._storage = open_storage(self.config, self.now_ms())
        for one in self.storage.data_dirs:
            if one.is_online:
                log.info("data in %s (cluster %s)", one.path, self.cluster_id)
        self._wire()
        await self._lead()
        try:
            await self._unless_stopped(self.registration.join(self.advertised))
        except RegistrationError as error:
            raise StartError(str(error)) from error
        self._joined = True
        await self._unless_stopped(self.replicas.settled())
        self.storage.set_strays_aside()
        self.groups.start()
        self.housekeeping.start()
        self.compactor.start()
        await self.listener.start()
        self._say_where()

    async def stop(self) -> None:
        """Stop in order. Safe after a start that failed half-way."""
        await self.listener.close()
        if self._storage is None:
            self.ports.close()
            return
        if not self._wired:
            self.ports.close()
            self._storage.close(clean=False, broker_epoch=-1, high_watermarks={})
            return
        self.housekeeping.stop()
        self.compactor.close()
        self.replicas.close()
        self.groups.close()
        if self._joined and self.failure is None:
            try:
                await asyncio.wait_for(self.registration.leave(), START_TIMEOUT_S)
            except (RegistrationError, TimeoutError) as error:
                log.warning("could not leave the cluster in order: %s", error)
        self.metadata.close()
        self.ports.close()
        self.storage.close(
            clean=self.failure is None and self._joined,
            broker_epoch=self.registration.broker_epoch,
            high_watermarks=self.replicas.high_watermarks(),
        )

    def request_stop(self, reason: str) -> None:
        """Ask for an orderly stop."""
        self._end(reason, 0)

    async def stop_requested(self) -> tuple[str, int]:
        """Wait until somebody wants the node to stop; the reason and the exit code."""
        return await self._stop_reason

    # -- inside ----------------------------------------------------------------------------

    def _wire(self) -> None:
        """Make the parts and tell them of each other."""
        ports, config, storage = self.ports, self.config, self.storage
        self.replicas = ReplicaManager(config, ports, storage)
        self.fetches = FetchHost(
            ports.timers, self.now_ms, config.get("max.incremental.fetch.session.cache.slots")
        )
        self.replicas.on_moved = self.fetches.moved
        self.replicas.on_gone = self.fetches.gone
        self.replicas.on_offline = lambda reason: self.fail(f"the log directory failed: {reason}")
        self.replicas.on_broken = self.fail
        self.replicas.on_dir_offline = lambda _: self.registration.tell_offline()
        self.replicas.on_placed = lambda placed: self.registration.tell_placed(placed)
        self.metadata = storage.metadata_host(ports, config, self.fail)
        self.metadata.on_image(self.replicas.apply)
        self.controller = ControllerHost(ports, self.metadata, self._make_controller)
        self.service = ControllerService(
            self.controller,
            self.now_ms,
            lambda request, reply: fill_in_configs(config, self.image, request, reply),
        )
        self.channel = ControllerChannel(
            self.service, self.metadata.machine, ports.timers, self.now_ms
        )
        self.metadata.on_step(self.channel.note_leader)
        self.forwarder = Forwarder(self.channel)
        self.registration = Registration(
            config,
            self.channel,
            ports.timers,
            self.now_ms,
            lambda: self.image,
            storage,
        )
        self.ports.to_controller = AlterPartitions(
            ports.driver,
            self.channel,
            self.replicas,
            config.node_id,
            lambda: self.registration.broker_epoch,
        ).submit
        self.producer_ids = ProducerIds(self.registration.fetch_producer_ids)
        self.groups = GroupHost(self)
        self.replicas.watchers.append(self.groups)
        self.housekeeping = Housekeeping(self)
        self.compactor = Compactor(self)
        self._wired = True

    async def _lead(self) -> None:
        """Let the quorum elect this node, and write a new cluster's first records."""
        active: asyncio.Future[None] = self.loop.create_future()
        self.controller.on_active(lambda: None if active.done() else active.set_result(None))
        self.metadata.start()
        await asyncio.wait(
            (active, self._stop_reason),
            timeout=START_TIMEOUT_S,
            return_when=asyncio.FIRST_COMPLETED,
        )
        if self.failure is not None:
            raise StartError(self.failure)
        if self._stop_reason.done():
            raise StartError(self._stop_reason.result()[0])
        if not active.done():
            raise StartError(f"no leader of the metadata quorum in {START_TIMEOUT_S:.0f} s")
        written: asyncio.Future[object] = self.loop.create_future()
        self.controller.submit(
            lambda c: c.decide_bootstrap({METADATA_VERSION.name: METADATA_VERSION.max_level}),
            lambda error, _: written.set_result(error),
        )
        error = await self._unless_stopped(written)
        if error:
            raise StartError(f"the first metadata records could not be written: {error}")

    async def _unless_stopped(self, waiting: Awaitable[T]) -> T:
        """Wait for something that may take long. StartError if the node is to stop meanwhile."""
        task = asyncio.ensure_future(waiting)
        await asyncio.wait((task, self._stop_reason), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
        if self.failure is not None:
            raise StartError(self.failure)
        if self._stop_reason.done():
            raise StartError(self._stop_reason.result()[0])
        return await task

    def _make_controller(self, image: ClusterImage) -> Controller:
        config = self.config
        return Controller.from_image(
            image,
            ControllerConfig(
                cluster_id=self.cluster_id,
                num_partitions=config.get("num.partitions"),
                default_replication_factor=config.get("default.replication.factor"),
                broker_session_timeout_ms=config.get("broker.session.timeout.ms"),
                topic_defaults=config.topic_defaults,
            ),
            self.now_ms(),
        )

    def _disk_failed(self, key: Hashable, reason: str) -> None:
        self.driver.disk_failed(key, reason)
        self.replicas.disk_failed(key, reason)

    def _end(self, reason: str, code: int) -> None:
        if not self._stop_reason.done():
            self._stop_reason.set_result((reason, code))

    def _say_where(self) -> None:
        told = {endpoint.name: endpoint for endpoint in self.advertised}
        for endpoint in self.bound:
            log.info("listening on %s (%s)", endpoint, endpoint.name)
            if str(told[endpoint.name]) != str(endpoint):
                log.info("clients of %s are told %s", endpoint.name, told[endpoint.name])
        for endpoint in self.config.exposed_listeners():
            log.warning(
                "!!! listener %s at %s is open to other machines, WITHOUT encryption or"
                " authentication: everybody who reaches it can read, write and delete everything",
                endpoint.name,
                endpoint,
            )
        if os.geteuid() == 0:
            log.info("running as root; a user of its own would do")
