"""`Node`: one process of a cluster, as broker, controller or both, started and stopped in order.

Order of the start: bind the sockets (a taken port is found out before any data is touched), open
and lock the log directories, let the quorum machine begin, accept the quorum's connections if this
is a controller; then, if it is a broker, register with the active controller, open the partitions
the image names, and accept clients. A controller alone is started when it accepts connections,
whether the quorum has a leader or not.

Order of the stop: the broker's controlled shutdown, in which it serves clients until other brokers
lead what it led; the clients' connections; the partitions; then a controller that leads hands over.
Where no other broker could take over, clients go first, and the controlled shutdown follows. The
clean-shutdown marker is left last, and only if nothing failed.

A disk that refuses takes its directory offline; the others serve on. Without the directory of the
metadata log, without any directory, or with a metadata log that makes no sense, the node ends:
everything is taken offline, requests that wait get an error, and the node stops with exit code 1.
What is true of the disk then is found out by recovery, at the next start.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Hashable, Iterator
from typing import TYPE_CHECKING, Final, TypeVar

from fencepost.broker.cluster.broker_lifecycle import RegistrationError
from fencepost.broker.cluster.controller_channel import ControllerChannel
from fencepost.broker.cluster.draft_route import FOLLOW_KEY, KEY as DRAFT_KEY, draft_to_follow
from fencepost.broker.cluster.quorum_channel import QuorumChannel
from fencepost.broker.config.broker_config import ALLOW_ANONYMOUS_KEY, BrokerConfig, ConfigError
from fencepost.broker.config.endpoints import BindError, Endpoint
from fencepost.broker.config.features import KRAFT_VERSION
from fencepost.broker.config.file_limit import FileShares
from fencepost.broker.config.keys.authorization import AUTHORIZER_KEY
from fencepost.broker.node.broker_part import BrokerPart
from fencepost.broker.node.cluster_log import ClusterLog, finalized_line
from fencepost.broker.node.controller_part import ControllerPart
from fencepost.broker.node.core import NodeCore
from fencepost.broker.node.housekeeping import Housekeeping
from fencepost.broker.storage.storage import Storage, open_storage
from fencepost.runtime.metadata.host import METADATA_KEY
from fencepost.runtime.registrations import REGISTRATION_KEYS, Registrations

if TYPE_CHECKING:
    from fencepost.broker.node.observation import Observation
    from fencepost.broker.node.tls_reload import TlsReload
    from fencepost.broker.security.audit_log import AuditLog

log = logging.getLogger(__name__)

T = TypeVar("T")

STOP_PATIENCE_S: Final = 10.0
"""How long a stop waits for a file descriptor, before it leaves something undone."""


class StartError(Exception):
    """The node cannot start; the message says why."""


class Node(NodeCore):
    """One node; see the module docstring. Everything runs in one event loop.

    What belongs to one role is in `broker` or `controller`, which are None without the role.
    """

    def __init__(
        self,
        config: BrokerConfig,
        loop: asyncio.AbstractEventLoop,
        files: FileShares | None = None,
    ) -> None:
        super().__init__(
            config,
            loop,
            files,
            on_disk_failed=self._disk_failed,
            on_machine_failed=self._machine_failed,
        )
        self._thread_id = threading.get_ident()
        self._storage: Storage | None = None
        self._wired = False
        self.audit_log: AuditLog | None = None
        """What clients did, and were refused; None where that is not wanted."""
        self.broker = BrokerPart(self) if config.is_broker else None
        self.controller = ControllerPart(self) if config.is_controller else None
        self._tls_reload = self._make_tls_reload()
        self.housekeeping = Housekeeping(self, self.broker)
        self.observation = self._make_observation()
        """What tells of the node over HTTP; None where that is not wanted."""

    @property
    def bound(self) -> list[Endpoint]:
        """Where clients are listened for; on a node that is only a controller, the quorum."""
        part = self.broker or self.controller
        assert part is not None, "a node has a role"
        return part.bound

    # -- life ------------------------------------------------------------------------------

    async def start(self, on_locked: Callable[[], None] = lambda: None) -> None:
        """Start everything; StartError, BindError, LogError or OSError if that cannot be.

        `on_locked` is called when the log directories are locked and no client is served yet.
        """
        self._audit()
        self._bind()
        if self.observation is not None and self.config.metrics_listener is not None:
            await self.observation.start(self.config.metrics_listener)
        self.storage = self._storage = open_storage(self.config, self.files, self.wall_ms)
        on_locked()
        self.storage.descriptors.on_shortage = self._close_idle_files
        for one in self.storage.data_dirs:
            if one.is_online:
                log.info("data in %s (cluster %s)", one.path, self.cluster_id)
        if self._tls_reload is not None:
            self._tls_reload.warn_of_expired()
        self._warn_of_quorum_login()
        self._wire()
        self.metadata.start()
        self.registrations.image_applied(self.image)
        if self.controller is not None:
            await self.controller.start()
        if self.broker is not None:
            try:
                await self._unless_stopped(self.broker.join())
            except RegistrationError as error:
                raise StartError(str(error)) from error
        self._check_going_on()
        self.is_started = True
        self.housekeeping.start()
        if self.broker is not None:
            await self.broker.start()
        self._say_where()

    async def stop(self) -> bool:
        """Stop in order; whether that worked out. Safe after a start that failed half-way."""
        try:
            return await self._stop()
        finally:
            if self.observation is not None:
                self.observation.close()
            if self.audit_log is not None:
                self.audit_log.close()

    async def _stop(self) -> bool:
        hands_over = self._wired and self.broker is not None and self.broker.can_hand_over
        if self.broker is not None:
            if hands_over:
                await self.broker.leave()
            await self.broker.listener.close()
        if self._storage is not None:
            self._storage.descriptors.patience_s = STOP_PATIENCE_S
        if self._storage is None or not self._wired:
            await self._give_up()
            return False
        self.housekeeping.stop()
        if self.broker is not None:
            self.broker.close()
            if not hands_over:
                await self.broker.leave()
        self.registrations.close()
        self.channel.close()
        if self.controller is not None:
            if self.failure is None:
                await self.controller.hand_over()
            await self.controller.close()
        if self.observation is not None:
            self.observation.close()
        self.metadata.close()
        self.close_peers()
        self.ports.close()
        return self.storage.close(
            clean=self.failure is None and self.is_started,
            broker_epoch=-1 if self.broker is None else self.broker.lifecycle.broker_epoch,
            high_watermarks={} if self.broker is None else self.broker.replicas.high_watermarks(),
        )

    # -- inside ----------------------------------------------------------------------------

    def _make_observation(self) -> Observation | None:
        """What tells of the node over HTTP, where that is wanted."""
        if self.config.metrics_listener is None:
            return None
        from fencepost.broker.node.observation import Observation

        return Observation(self, self.broker, self.controller)

    def _audit(self) -> None:
        """Open the audit log, if one is wanted. StartError: a node that is to be audited does not
        run without."""
        if self.config.get("fencepost.audit.log.path") is None:
            return
        from fencepost.broker.security.audit_log import open_audit_log

        try:
            audit_log = self.audit_log = open_audit_log(self.config.get, self.wall_ms)
        except OSError as error:
            raise StartError(f"the audit log cannot be opened: {error}") from error
        if self.authorizer is None:
            log.warning("the audit log gets logins alone: other events need %s", AUTHORIZER_KEY)
        else:
            self.authorizer.sink = audit_log
        for part in (self.broker, self.controller):
            if part is not None:
                part.listener.logins.sink = audit_log

    def _bind(self) -> None:
        """Bind all sockets, or none. BindError; StartError where a listener's configuration cannot
        be: files that it names, and users that it lacks."""
        self._check_exposed()
        try:
            for part in (self.broker, self.controller):
                if part is not None:
                    part.bind()
        except (BindError, ConfigError) as error:
            for part in (self.broker, self.controller):
                if part is not None:
                    part.listener.close_sockets()
            if isinstance(error, ConfigError):
                raise StartError(str(error)) from None
            raise

    def _check_exposed(self) -> None:
        """Refuse a listener that clients can reach without a login, unless allowed. StartError."""
        exposed = [] if self.config.get(ALLOW_ANONYMOUS_KEY) else self.config.exposed_listeners()
        for endpoint in exposed:
            raise StartError(
                f"listener {endpoint.name} at {endpoint} can be reached from other machines and"
                " asks for no login: any client that can connect could read, write and delete"
                " everything. Give it SASL or ssl.client.auth=required (docs/SECURING.md), or an"
                f" address of this machine alone; if it is meant to be open, set"
                f" {ALLOW_ANONYMOUS_KEY}=true"
            )

    def reload_keys(self) -> None:
        """Read the key files of TLS listeners again; new connections get what is in them."""
        if self._tls_reload is not None:
            self._tls_reload.reload()

    @property
    def has_tls(self) -> bool:
        """Whether a listener of this node has TLS."""
        listeners = [*self.config.listeners, *self.config.controller_listeners]
        return any(self.config.protocol_of(one.name).has_tls for one in listeners)

    def _make_tls_reload(self) -> TlsReload | None:
        """What reads key files again, where there are some."""
        if not self.has_tls:
            return None
        from fencepost.broker.node.tls_reload import TlsReload

        parts = (self.broker, self.controller)
        return TlsReload(self, [part.listener for part in parts if part is not None])

    def _warn_of_quorum_login(self) -> None:
        names = self.config.quorum.listener_names
        if not names or not self.config.protocol_of(names[0]).has_sasl:
            return
        # What a node without SASL never needs, its start can do without.
        from fencepost.broker.security.peer_login import unsafe_quorum_login

        if text := unsafe_quorum_login(self.settings):
            log.warning("%s", text)

    def _wire(self) -> None:
        """Make the parts and tell them of each other."""
        ports, config = self.ports, self.config
        part = self.controller
        bound = part.bound if part is not None else []
        self.metadata = self.storage.metadata_host(ports, config, bound)
        # In front of the callbacks that act on the image with the configs that are in force then.
        self.metadata.on_image(lambda image, delta: self.settings.apply(image))
        self._wire_authorizer()
        if self._tls_reload is not None:
            self.metadata.on_image(self._tls_reload.image_changed)
        quorum = self.quorum = QuorumChannel(
            self.controllers,
            ports.driver,
            self.metadata.machine,
            config.quorum.servers,
            config.get("controller.quorum.request.timeout.ms"),
            draft_to_follow(config.get(DRAFT_KEY), config.get(FOLLOW_KEY)),
        )
        ports.to_node = quorum.send
        if not config.quorum.is_lone:
            self.metadata.on_step(quorum.note_leader)
        if self.controller is not None:
            self.controller.wire()
        self.channel = ControllerChannel(
            None if self.controller is None else self.controller.service,
            self.metadata.machine,
            ports.timers,
            self.now_ms,
            self.controllers,
        )
        # Behind the controller's own: what waits for a leader must find it active.
        self.metadata.on_step(self.channel.note_leader)
        registrations = self.registrations = Registrations(ports, self.channel)
        ports.ask_controller = registrations.submit
        machine = self.metadata.machine
        self.metadata.on_step(lambda: registrations.note_leader(machine.leader_id))
        if self.controller is not None:
            self.controller.wire_registration()
        if self.broker is not None:
            self.broker.wire()
        # Behind the callbacks that act on the image: what is reported as applied has been.
        self.metadata.on_image(lambda image, delta: registrations.image_applied(image))
        history = ClusterLog(config.node_id, lambda: self.is_started, self._is_active_controller)
        self.metadata.on_image(lambda image, delta: history.image_changed(delta))
        if self.observation is not None:
            self.observation.wire()
        self._wired = True

    def _wire_authorizer(self) -> None:
        """Have the authorizer follow the ACLs, and decide about all clients once it has them."""
        authorizer, metadata = self.authorizer, self.metadata
        if authorizer is None:
            return

        def note_loaded() -> None:
            if 0 < metadata.machine.high_watermark <= metadata.image.offset + 1:
                authorizer.loaded()

        metadata.on_image(lambda image, delta: authorizer.learn(image))
        metadata.on_step(note_loaded)

    def _is_active_controller(self) -> bool:
        return self.controller is not None and self.controller.host.controller is not None

    async def _give_up(self) -> None:
        """Stop what there is after a start that did not come far."""
        if self.controller is not None:
            await self.controller.close()
        self.close_peers()
        self.ports.close()
        if self._storage is not None:
            self._storage.close(clean=False, broker_epoch=-1, high_watermarks={})

    async def _unless_stopped(self, waiting: Awaitable[T]) -> T:
        """Wait for something that may take long. StartError if the node is to stop meanwhile."""
        task = asyncio.ensure_future(waiting)
        await asyncio.wait((task, self._stop_reason), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
        try:
            return await task
        finally:
            self._check_going_on()  # why the node ends comes before what failed because of it

    def _check_going_on(self) -> None:
        if self.failure is not None:
            raise StartError(self.failure)
        if self._stop_reason.done():
            raise StartError(self._stop_reason.result()[0])

    def _machine_failed(self, key: Hashable, reason: str) -> None:
        """A machine gave up: for its disk, or the quorum's because others broke the protocol."""
        if key == METADATA_KEY and not self.driver.disk_has_failed(key):
            self.fail(f"the quorum machine stopped: {reason}")
        elif key in REGISTRATION_KEYS:
            self.fail(reason)
        elif self.broker is None or not self.broker.late.broken(key, reason):
            self._disk_failed(key, reason)

    def _disk_failed(self, key: Hashable, reason: str) -> None:
        self.driver.disk_failed(key, reason)
        if self.broker is not None:
            self.broker.replicas.disk_failed(key, reason)
        elif key == METADATA_KEY:
            self.storage.metadata_dir.fail(reason)
            self.fail(f"the log directory failed: {key}: {reason}")

    def _all_bound(self) -> Iterator[Endpoint]:
        for part in (self.broker, self.controller):
            if part is not None:
                yield from part.bound

    def _close_idle_files(self) -> None:
        """A thread has found no file descriptor; segments belong to the loop's thread."""
        if threading.get_ident() == self._thread_id:
            self.storage.close_idle_files()
        else:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self.loop.call_soon_threadsafe(self.storage.close_idle_files)

    def _say_where(self) -> None:
        levels = {KRAFT_VERSION.name: self.metadata.machine.kraft_version}
        if features := self.metadata.image.features:  # a controller may have no leader yet
            log.info("%s", finalized_line({**features, **levels}))
        told = {} if self.broker is None else {one.name: one for one in self.broker.advertised}
        for endpoint in self._all_bound():
            log.info("listening on %s (%s)", endpoint, endpoint.name)
            advertised = told.get(endpoint.name, endpoint)
            if str(advertised) != str(endpoint):
                log.info("listener %s advertises %s", endpoint.name, advertised)
        for endpoint in self.config.exposed_listeners():
            log.warning(
                "!!! listener %s at %s is open to other machines WITHOUT a login: any client that"
                " can connect can read, write and delete everything",
                endpoint.name,
                endpoint,
            )
        if os.geteuid() == 0:
            log.info("running as root, which is not needed; run it as a user of its own")
