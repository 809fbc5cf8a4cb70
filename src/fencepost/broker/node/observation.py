"""What a node tells over HTTP: which collectors its parts have, and whether it is well and ready.

Made only where `fencepost.metrics.listener` is set, so that a node without does not load
`prometheus_client`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from socket import gethostname
from typing import Final

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from fencepost import __version__
from fencepost.broker.config.endpoints import Endpoint, is_loopback
from fencepost.broker.metrics.cluster import QuorumMetrics, collect_controller, collect_metadata
from fencepost.broker.metrics.endpoint import Collect, MetricsEndpoint
from fencepost.broker.metrics.groups import collect_groups
from fencepost.broker.metrics.health import Report
from fencepost.broker.metrics.loop_delay import LoopDelay
from fencepost.broker.metrics.partitions import PartitionMetrics
from fencepost.broker.metrics.quotas import collect_quotas
from fencepost.broker.metrics.requests import collect_requests, tell_budget
from fencepost.broker.metrics.sheet import Sheet
from fencepost.broker.metrics.transactions import collect_transactions
from fencepost.broker.net.listener import Listener
from fencepost.broker.node.broker_part import BrokerPart
from fencepost.broker.node.controller_part import ControllerPart
from fencepost.broker.node.core import NodeCore
from fencepost.broker.storage.storage import WAY_BACK
from fencepost.machines.broker import BrokerState
from fencepost.machines.quorum import Role
from fencepost.runtime.authorizer import NodeAuthorizer
from fencepost.runtime.cooperative import Pieces
from fencepost.runtime.halted import HaltCause, in_lines

log = logging.getLogger(__name__)

NO_LEADER: Final = "no leader of the quorum is heard from"
_KAFKAS_STATES: Final = {
    BrokerState.NOT_RUNNING: 0,
    BrokerState.STARTING: 1,
    BrokerState.RECOVERY: 2,
    BrokerState.RUNNING: 3,
    BrokerState.PENDING_CONTROLLED_SHUTDOWN: 6,
    BrokerState.SHUTTING_DOWN: 7,
}


class Observation:
    """See the module."""

    def __init__(
        self, core: NodeCore, broker: BrokerPart | None, controller: ControllerPart | None
    ) -> None:
        self._core = core
        self._broker = broker
        self._controller = controller
        self._is_wired = False
        self.bound: Endpoint | None = None
        """Where it is served; None before the start."""
        self._listeners: dict[str, Listener] = {}
        for role, part in (("broker", broker), ("controller", controller)):
            if part is not None:
                self._listeners[role] = part.listener
                part.listener.watch()
        self._delay = LoopDelay(core.loop)
        self._endpoint = MetricsEndpoint(
            core.loop, core.ports.scheduler.lane(), self.health, self.readiness
        )
        self._partitions: PartitionMetrics | None = None
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)
        PlatformCollector(registry=self._process)
        GCCollector(registry=self._process)

    async def start(self, endpoint: Endpoint) -> None:
        """Listen. BindError. Until the node's parts are there, it is not ready."""
        told = (*self._core.config.listeners, *self._core.config.advertised)
        names = [gethostname(), *(one.host for one in told)]
        self.bound = bound = await self._endpoint.start(endpoint, names)
        log.info("metrics on http://%s/metrics", bound)
        if not is_loopback(bound.host):
            log.warning(
                "!!! metrics at %s are open to other machines: any client that can connect"
                " can read topic names and request rates",
                bound,
            )

    def wire(self) -> None:
        """The node's parts are there: collect what they have."""
        core, broker, collectors = self._core, self._broker, self._endpoint.collectors
        if broker is not None:
            self._partitions = PartitionMetrics(
                broker.replicas, broker.late.fetchers.of_partitions, core.storage, core.settings
            )
            partitions = self._partitions
            collectors.append(lambda sheet: partitions.collect(sheet, core.image, core.wall_ms()))
            collectors.append(lambda sheet: collect_groups(sheet, broker.coordinators.groups))
            collectors.append(
                lambda sheet: collect_transactions(
                    sheet, broker.coordinators.transactions, broker.verifications
                )
            )
            collectors.append(_in_one(lambda sheet: self._tell_broker(sheet, broker)))
        collectors.append(lambda sheet: collect_requests(sheet, self._listeners))
        collectors.append(_in_one(self._tell_quotas))
        if self._controller is not None:
            host = self._controller.host
            collectors.append(
                lambda sheet: collect_controller(sheet, core.metadata, host.controller is not None)
            )
        quorum = QuorumMetrics(core.metadata)
        collectors.append(_in_one(quorum.collect))
        collectors.append(_in_one(self._tell_node))
        self._delay.start()
        self._is_wired = True

    def close(self) -> None:
        """Stop the endpoint, and measuring the loop's delay."""
        self._delay.close()
        self._endpoint.close()

    # -- metrics -----------------------------------------------------------------------------

    def _tell_quotas(self, sheet: Sheet) -> None:
        broker, controller, now_ms = self._broker, self._controller, self._core.now_ms()
        if broker is not None and (quotas := broker.quotas.quotas) is not None:
            collect_quotas(sheet, (quotas.produced, quotas.fetched, quotas.requests), now_ms)
        if controller is not None and (mutations := controller.quotas.mutations) is not None:
            collect_quotas(sheet, (mutations,), now_ms)

    def _tell_broker(self, sheet: Sheet, broker: BrokerPart) -> None:
        machine = broker.lifecycle.machine
        sheet.add("kafka_server_kafkaserver_brokerstate", _KAFKAS_STATES[machine.state])
        sheet.add("fencepost_broker_fenced", int(machine.is_fenced))
        waiting = {
            "Fetch": len(broker.fetches),
            "Produce": self._partitions.waiting_produces if self._partitions is not None else 0,
        }
        name = "kafka_server_delayedoperationpurgatory_purgatorysize"
        for operation, count in waiting.items():
            sheet.add(name, count, delayedOperation=operation)
        halted = Counter(one.cause for one in broker.halted.now())
        for cause in HaltCause:
            sheet.add("fencepost_replicas_halted", halted[cause], cause=cause.value)
        sessions, prefix = broker.fetches.sessions, "kafka_server_fetchsessioncache_"
        sheet.add(f"{prefix}numincrementalfetchsessions", len(sessions))
        sheet.add(f"{prefix}numincrementalfetchpartitionscached", sessions.cached_partitions)
        work = broker.decompression
        tell_budget(sheet, "broker", "decompression", work.used_bytes, work.used_bytes_max)

    def _tell_node(self, sheet: Sheet) -> None:
        core = self._core
        if core.authorizer is not None:
            tell_authorizer(sheet, core.authorizer)
        collect_metadata(sheet, core.image, core.metadata.machine.leader_id)
        sheet.add_summary(
            "kafka_log_logflushstats_logflushrateandtimems", core.ports.flusher.flush_ms
        )
        sheet.add_summary("fencepost_event_loop_delay_seconds", self._delay.seconds)
        sheet.add("fencepost_ready", int(not self.readiness().problems))
        sheet.add("fencepost_build_info", 1, version=__version__)
        sheet.add_metrics(self._process.collect())

    # -- health ------------------------------------------------------------------------------

    def health(self) -> Report:
        """Whether the node is well."""
        failure = self._core.failure
        return Report(() if failure is None else (failure,), tuple(self._warnings()))

    def readiness(self) -> Report:
        """Whether the node can do what its roles are for."""
        return Report(tuple(self._reasons_not_to_be_ready()), tuple(self._warnings()))

    def _reasons_not_to_be_ready(self) -> Iterator[str]:
        core = self._core
        if core.failure is not None:
            yield core.failure
        elif core.is_stopping:
            yield "the node stops"
        if not self._is_wired:
            yield "the node opens its log directories"
            return
        if self._broker is None and not self._has_leader():
            yield NO_LEADER
        for host, port in sorted(core.quorum.of_other_clusters):
            yield f"the controller at {host}:{port} belongs to another cluster"
        controller = None if self._controller is None else self._controller.listener
        if controller is not None and controller.names and not controller.is_open:
            yield "other nodes are not accepted"
        if self._broker is not None:
            yield from _reasons_of(self._broker)

    def _has_leader(self) -> bool:
        """Whether this node leads the quorum, or follows a leader that it hears from."""
        return self._core.metadata.machine.role in (Role.LEADER, Role.FOLLOWER)

    def _warnings(self) -> Iterator[str]:
        if self._is_wired:
            if self._broker is not None and not self._has_leader():
                yield NO_LEADER
            for one in self._core.storage.data_dirs:
                if not one.is_online:
                    yield f"{one.why_offline}; {WAY_BACK}"
            if self._broker is not None:
                yield from in_lines(self._broker.halted.now())


def _reasons_of(broker: BrokerPart) -> Iterator[str]:
    """Why a broker is not ready."""
    machine = broker.lifecycle.machine
    if broker.replicas.offline_reason is not None:
        yield f"no log directory works: {broker.replicas.offline_reason}"
    if machine.state is not BrokerState.RUNNING:
        yield f"the broker's state: {machine.state.value}"
        if machine.last_error.reason:
            yield machine.last_error.reason
    elif machine.is_fenced:
        yield "the controller has fenced this broker"
    if not broker.listener.is_open:
        yield "clients are not accepted"


def tell_authorizer(sheet: Sheet, authorizer: NodeAuthorizer) -> None:
    """How many ACLs there are, and how the authorizer has answered."""
    sheet.add("fencepost_authorizer_acls", authorizer.machine.acl_count)
    for answer, count in (("allowed", authorizer.allowed), ("denied", authorizer.denied)):
        sheet.add("fencepost_authorizer_decisions_total", count, answer=answer)


def _in_one(tell: Callable[[Sheet], None]) -> Collect:
    """A collector that does all in one piece."""

    def collect(sheet: Sheet) -> Pieces[None]:
        tell(sheet)
        yield None

    return collect
