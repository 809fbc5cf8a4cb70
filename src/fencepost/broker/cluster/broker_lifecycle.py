"""This broker's registration and controlled shutdown, to wait for.

What is decided is in `machines/broker/lifecycle.py`; here its replies are waited for, and what it
has to be told of this process is collected: configuration, listeners, log directories.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.config.endpoints import Endpoint
from fencepost.broker.config.features import SUPPORTED_FEATURES
from fencepost.broker.storage.storage import Storage
from fencepost.machines.broker import (
    BeginControlledShutdown,
    BrokerLifecycle,
    CordonLogDirs,
    DirectoryAssignments,
    LifecycleConfig,
    LogDirFailed,
    Outcome,
    ReadyToUnfence,
    Registration,
    ReplicasPlaced,
    Start,
)
from fencepost.machines.driver import Driver
from fencepost.machines.image import ClusterImage, FeatureRange, ListenerImage
from fencepost.runtime.halted import HaltCause, HaltedReplica
from fencepost.runtime.registrations import ASSIGNMENTS_KEY, LIFECYCLE_KEY, Registrations
from fencepost.wire.errors import ErrorCode, error_name
from fencepost.wire.types import Uuid

HAND_OVER_MARGIN_MS = 1_000


class RegistrationError(Exception):
    """The controller refuses this broker, or there is none."""

    def __init__(self, outcome: Outcome) -> None:
        name = error_name(outcome.error)
        super().__init__(outcome.reason if name in outcome.reason else f"{outcome.reason}: {name}")
        self.code = outcome.error


class LifecycleHandle:
    """Steers the machine; see the module. `registrations` hosts it from now on."""

    def __init__(
        self, config: BrokerConfig, storage: Storage, driver: Driver, registrations: Registrations
    ) -> None:
        self._config = config
        self._storage = storage
        self._driver = driver
        get = config.get
        self.machine = BrokerLifecycle(
            LifecycleConfig(
                heartbeat_interval_ms=get("broker.heartbeat.interval.ms"),
                session_timeout_ms=get("broker.session.timeout.ms"),
                startup_timeout_ms=get("initial.broker.registration.timeout.ms"),
                log_dir_failure_timeout_ms=get("log.dir.failure.timeout.ms"),
                # Until a silent broker is fenced, the controller waits for it to hear of the
                # others' new leaders.
                hand_over_timeout_ms=get("broker.session.timeout.ms") + HAND_OVER_MARGIN_MS,
            )
        )
        self._assignments = DirectoryAssignments(config.node_id, lambda: self.broker_epoch)
        registrations.host_broker(self.machine, self._assignments)

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration, or -1 before there is one."""
        return self.machine.broker_epoch

    @property
    def can_hand_over(self) -> bool:
        """Whether there are brokers that could take over what this one leads."""
        return self.machine.can_hand_over

    async def register(self, advertised: Iterable[Endpoint]) -> None:
        """Register, and read the metadata as far as the registration. RegistrationError."""
        storage = self._storage
        registration = Registration(
            broker_id=self._config.node_id,
            cluster_id=storage.cluster_id,
            incarnation_id=Uuid.random(),
            listeners=tuple(registered_listeners(self._config, advertised)),
            features=supported_features(),
            rack=self._config.get("broker.rack"),
            log_dirs=tuple(storage.online_ids()),
            offline_log_dirs=tuple(storage.offline_ids()),
            previous_broker_epoch=storage.previous_broker_epoch(),
        )
        await self._outcome(lambda token: Start(registration, token))

    async def become_unfenced(self) -> None:
        """The partitions are open: be unfenced. RegistrationError."""
        await self._outcome(ReadyToUnfence)

    async def shut_down(self) -> None:
        """Hand over what is led and be fenced, for good. RegistrationError."""
        await self._outcome(BeginControlledShutdown)

    def log_dir_failed(self, directory_id: Uuid | None) -> None:
        """A log directory has failed: the next heartbeat says so, and is sent now (KIP-858)."""
        if directory_id is not None:
            self._driver.feed(LIFECYCLE_KEY, LogDirFailed(directory_id))

    def cordon(self, directory_ids: Iterable[Uuid]) -> None:
        """Say which directories take no new replicas, with the next heartbeat (KIP-1066)."""
        self._driver.feed(LIFECYCLE_KEY, CordonLogDirs(tuple(directory_ids)))

    def replicas_placed(self, placed: Sequence[tuple[Uuid, int, Uuid]]) -> None:
        """Say in which directories replicas are, now or as soon as the broker is registered."""
        self._driver.feed(ASSIGNMENTS_KEY, ReplicasPlaced(placed))

    def halted(self, image: ClusterImage) -> Iterator[HaltedReplica]:
        """The replicas whose directory the controller has not noted: they cannot lead."""
        for topic_id, index in self._assignments.unassigned:
            topic = image.topics_by_id.get(topic_id)
            if topic is not None:
                reason = self._assignments.last_error.reason or "it has not answered yet"
                yield HaltedReplica(
                    f"{topic.name}-{index}",
                    HaltCause.DIRECTORY_UNASSIGNED,
                    f"the controller does not note the log directory that it is in: {reason}",
                )

    async def _outcome(self, input_: Any) -> None:
        """Feed `input_(token)` and wait for the reply."""
        replied: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def on_outcome(outcome: Outcome) -> None:
            if not replied.done():
                replied.set_result(outcome)

        self._driver.feed(LIFECYCLE_KEY, input_(on_outcome))
        outcome = await replied
        if outcome.error != ErrorCode.NONE:
            raise RegistrationError(outcome)


def registered_listeners(
    config: BrokerConfig, endpoints: Iterable[Endpoint]
) -> list[ListenerImage]:
    """This node's listeners, as a registration has them."""
    return [
        ListenerImage(one.name, one.host, one.port, int(config.protocol_of(one.name)))
        for one in endpoints
    ]


def supported_features() -> tuple[FeatureRange, ...]:
    """What this software can run, as a registration has it."""
    return tuple(FeatureRange(f.name, f.min_level, f.max_level) for f in SUPPORTED_FEATURES)
