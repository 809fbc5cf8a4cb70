"""The controller's part of a node: decisions while it leads the quorum, and a handover at its end.

The part is there on every node with the controller role; it is active on the one that leads. What
the nodes of the cluster replicate, and who leads, is the quorum machine's business
(`node.metadata`); here is what the leader does with it, and the listener of the quorum.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from types import MappingProxyType

from fencepost.broker.cluster.broker_lifecycle import registered_listeners, supported_features
from fencepost.broker.cluster.controller_service import ControllerService
from fencepost.broker.cluster.draft_route import KEY as DRAFT_KEY, draft_routes
from fencepost.broker.cluster.listener_probe import ListenerProbe
from fencepost.broker.cluster.metadata_cache import MetadataCache
from fencepost.broker.cluster.topic_creation import fill_in_configs
from fencepost.broker.config.broker_config import CONNECTION_KEYS, BrokerConfig, connection_limits
from fencepost.broker.config.endpoints import ConnectionLimits, Endpoint
from fencepost.broker.config.features import (
    KRAFT_VERSION,
    NEW_CLUSTER_LEVELS,
    SUPPORTED_FEATURES,
)
from fencepost.broker.config.keys import BROKER_CONFIGS
from fencepost.broker.loop.fault_handler import FaultHandler
from fencepost.broker.net.listener import Listener
from fencepost.broker.net.registry import CONTROLLER, bind_route, served_routes
from fencepost.broker.node.core import NodeCore
from fencepost.broker.node.quotas import NodeQuotas
from fencepost.machines.broker import ControllerRegistration, Registration
from fencepost.machines.controller import BOOTSTRAP_FEATURES, Controller, ControllerConfig
from fencepost.machines.controller.config import TokenSettings
from fencepost.machines.driver import Driver
from fencepost.machines.group.settings import GroupSettings
from fencepost.machines.image import RESOURCE_GROUP, ClusterImage
from fencepost.machines.quorum import Resign, Role, received
from fencepost.runtime.broker_probes import BrokerProbes
from fencepost.runtime.controller_host import ControllerHost, Periods
from fencepost.runtime.metadata.host import METADATA_KEY, MetadataHost
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.parts import Parts
from fencepost.wire.types import Uuid

log = logging.getLogger(__name__)

_FIRST_LEVELS: Mapping[str, int] = MappingProxyType(
    {
        name: level
        for name, level in NEW_CLUSTER_LEVELS.items()
        if name != KRAFT_VERSION.name  # which the quorum keeps
    }
)
"""The features of a cluster of one node, which nothing but the node itself has formatted."""


class ControllerPart:
    """See the module; `host` and `service` are there once `wire` was called."""

    host: ControllerHost
    service: ControllerService
    probes: BrokerProbes

    def __init__(self, core: NodeCore) -> None:
        self._core = core
        self.bound: list[Endpoint] = []
        """Where the quorum is listened for."""
        self._is_voter = False
        self._late_start: asyncio.Task[None] | None = None
        self._probe: ListenerProbe | None = None
        get = core.settings.get
        self.listener = Listener(
            core.loop,
            self._limits(),
            core.ports.scheduler.lane(),
            count=core.connection_count,
        )
        self.quotas = NodeQuotas(get, core.ports.clocks.now_ms, self.listener, core.access)
        """What clients are held to that change partitions."""
        core.settings.watch(CONNECTION_KEYS, self._set_limits)

    def bind(self) -> None:
        """Bind the sockets. BindError."""
        self.bound = self.listener.bind(
            self._core.config.controller_listeners, self._core.security_of
        )

    def _set_limits(self) -> None:
        self.listener.limits = self._limits()

    def _limits(self) -> ConnectionLimits:
        core = self._core
        names = [endpoint.name for endpoint in core.config.controller_listeners]
        return connection_limits(core.settings.get, map(core.settings.for_listener, names))

    def wire(self) -> None:
        """Make the controller behind the node's metadata log."""
        core = self._core
        get = core.config.get
        self.host = ControllerHost(
            core.ports,
            core.metadata,
            self._make_controller,
            periods=Periods(
                unclean_election_ms=get("unclean.leader.election.interval.ms"),
                preferred_election_ms=get("leader.imbalance.check.interval.seconds") * 1_000
                if get("auto.leader.rebalance.enable")
                else 0,
                token_sweep_ms=get("delegation.token.expiry.check.interval.ms")
                if core.config.token_secret is not None
                else 0,
                max_idle_ms=get("metadata.max.idle.interval.ms"),
            ),
        )
        self.host.on_unfit = self._unfit
        self._is_voter = core.metadata.machine.is_voter
        core.metadata.on_step(self._note_vote)
        self.service = ControllerService(
            self.host,
            core.now_ms,
            lambda request, reply: fill_in_configs(core.config, core.image, request, reply),
            lambda request, on_response: core.driver.feed(
                METADATA_KEY, received(on_response, request)
            ),
            core.metadata.machine,
            core.access,
            core.wall_ms,
            lambda: self.quotas.mutations,
        )
        core.metadata.on_image(lambda image, delta: self.quotas.image_changed(image))
        self._probe = ListenerProbe(core.loop)
        self.probes = BrokerProbes(
            core.ports,
            self.host,
            self._probe,
            own_id=core.config.node_id,
            interval_ms=get("fencepost.broker.probe.interval.ms"),
            session_ms=get("broker.session.timeout.ms"),
        )
        self.listener.on_disconnected = self.probes.disconnected
        core.metadata.on_step(self.probes.look)

    def wire_registration(self) -> None:
        """Have this controller register, over the node's channel to the active one."""
        core = self._core
        told = core.config.advertised_controllers(self.bound)
        registration = Registration(
            broker_id=core.config.node_id,
            cluster_id=core.cluster_id,
            incarnation_id=Uuid.random(),
            listeners=tuple(registered_listeners(core.config, told)),
            features=supported_features(),
        )
        core.registrations.host_controller(ControllerRegistration(registration))

    async def start(self) -> None:
        """Accept the quorum's connections."""
        parts = self._parts()
        self.listener.routes = routes = served_routes(CONTROLLER, parts)
        for key, draft in draft_routes(self._core.config.get(DRAFT_KEY)).items():
            routes[key] = bind_route(draft, parts)
        ready = self._core.access_ready
        early = self._core.config.early_start_listeners
        late = sorted(set(self.listener.names) - early)
        started = self.listener.start(early, ready)
        if not late or ready is None:
            await started
            return
        # The rest of the start goes on: without it the ACLs would never be loaded.
        log.warning(
            "listener(s) %s are not in early.start.listeners and accept connections once the ACLs"
            " are loaded; until then other nodes cannot reach this controller there",
            ", ".join(late),
        )
        self._late_start = self._core.loop.create_task(started)
        self._late_start.add_done_callback(self._late_started)

    def _late_started(self, done: asyncio.Task[None]) -> None:
        if not done.cancelled() and (error := done.exception()) is not None:
            self._core.fail(f"the controller's listeners cannot accept connections: {error}")

    def _parts(self) -> Parts:
        """What handlers of the quorum's and forwarded requests may ask for."""
        core = self._core
        return {
            Access: core.access,
            BrokerConfig: core.config,
            BrokerProbes: self.probes,
            ControllerService: self.service,
            Driver: core.driver,
            FaultHandler: core,
            MetadataCache: MetadataCache(core.metadata, core.cluster_id),
            MetadataHost: core.metadata,
        }

    async def hand_over(self) -> None:
        """Have another controller lead, if this one does and there is another.

        Waits until one is known, at most for an election timeout: then the others have to find out
        by themselves.
        """
        core = self._core
        machine = core.metadata.machine
        if machine.role is not Role.LEADER or machine.voters == (core.config.node_id,):
            return
        log.info("resigning, so that another controller is elected")
        done = asyncio.Event()
        core.metadata.on_step(lambda: None if machine.role is Role.RESIGNED else done.set())
        core.driver.feed(METADATA_KEY, Resign())
        wait_s = core.config.get("controller.quorum.election.timeout.ms") / 1000
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(done.wait(), wait_s)

    async def close(self) -> None:
        """Close the connections of the quorum."""
        if self._late_start is not None:
            self._late_start.cancel()
        if self._probe is not None:
            self.probes.close()
            self._probe.close()
        await self.listener.close()

    # -- inside ----------------------------------------------------------------------------

    def _note_vote(self) -> None:
        """Say when this controller becomes a voter, or ceases to be one."""
        is_voter = self._core.metadata.machine.is_voter
        if is_voter == self._is_voter:
            return
        self._is_voter = is_voter
        if is_voter:
            log.info("this controller is now a voter of the quorum")
        else:
            log.warning(
                "this controller is no longer a voter of the quorum; it continues as an observer"
            )

    def _unfit(self, reason: str) -> None:
        """End the node if it is the only voter: no other controller could become active."""
        if self._core.metadata.machine.voters == (self._core.config.node_id,):
            self._core.fail(f"this node cannot be the active controller: {reason}")

    def _make_controller(self, image: ClusterImage) -> Controller:
        core = self._core
        get = core.config.get
        return Controller.from_image(
            image,
            ControllerConfig(
                cluster_id=core.cluster_id,
                node_id=core.config.node_id,
                num_partitions=get("num.partitions"),
                default_replication_factor=get("default.replication.factor"),
                broker_session_timeout_ms=get("broker.session.timeout.ms"),
                topic_defaults=core.config.topic_defaults,
                broker_configs=BROKER_CONFIGS,
                resource_checks={RESOURCE_GROUP: GroupSettings(get).check},
                supported_features={
                    feature.name: (feature.min_level, feature.max_level)
                    for feature in SUPPORTED_FEATURES
                },
                tokens=TokenSettings(
                    core.config.token_secret,
                    get("delegation.token.max.lifetime.ms"),
                    get("delegation.token.expiry.time.ms"),
                ),
                first_levels=_FIRST_LEVELS if core.config.formats_itself else BOOTSTRAP_FEATURES,
            ),
            core.now_ms(),
        )
