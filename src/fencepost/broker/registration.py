"""This broker's life in the cluster: it registers, is unfenced, sends heartbeats, and leaves.

The controller is in this process, so the requests are decisions submitted to it; their contents and
rules are those of KIP-631. Two things follow from the two being one process, and from the lock on
the log directory: a former life of this broker that the metadata log still calls alive is over for
certain, so it is fenced at once instead of after its session; and a stopping broker leaves in one
step, since there is nobody to hand its partitions to.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial

from fencepost.broker.config import BrokerConfig
from fencepost.broker.controller_host import ControllerHost
from fencepost.broker.endpoints import Endpoint
from fencepost.broker.features import SUPPORTED_FEATURES
from fencepost.broker.storage import Storage
from fencepost.broker.timers import Timer, Timers
from fencepost.machines.controller import Controller
from fencepost.machines.image import ClusterImage
from fencepost.wire.api.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from fencepost.wire.api.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryDataRequest,
    PartitionDataRequest,
    TopicDataRequest,
)
from fencepost.wire.api.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from fencepost.wire.api.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)
from fencepost.wire.errors import ErrorCode, error_name
from fencepost.wire.types import Uuid

log = logging.getLogger(__name__)

PLAINTEXT = 0
"""Number of the security protocol in registrations."""


ASSIGNED_AT_ONCE = 2000
"""Partitions in one AssignReplicasToDirs request; Kafka's brokers stop at 2250."""


Placed = tuple[Uuid, int, Uuid]
"""Topic id and number of a partition, and the id of the directory it is in."""


class RegistrationError(Exception):
    """The controller refuses this broker."""


class Registration:
    """Registers the broker and keeps it alive."""

    def __init__(
        self,
        config: BrokerConfig,
        controller: ControllerHost,
        timers: Timers,
        now_ms: Callable[[], int],
        image: Callable[[], ClusterImage],
        storage: Storage,
    ) -> None:
        self._config = config
        self._controller = controller
        self._timers = timers
        self._now_ms = now_ms
        self._image = image
        self._storage = storage
        self._incarnation_id = Uuid.random()
        self._timer: Timer | None = None
        self._stopping = False
        self._untold: list[Placed] = []
        self.broker_epoch = -1

    async def join(self, advertised: list[Endpoint]) -> None:
        """Register and be unfenced. RegistrationError."""
        former = self._image().brokers.get(self._config.node_id)
        if former is not None and not former.fenced:
            log.info(
                "broker %d was not stopped in order: fencing its former life", former.broker_id
            )
            await self._heartbeat(former.epoch, want_fence=True, want_shut_down=True)
        response = await self._register(advertised)
        self.broker_epoch = response.broker_epoch
        heartbeat = await self._heartbeat(self.broker_epoch)
        if heartbeat.is_fenced:
            raise RegistrationError("the controller keeps this broker fenced")
        self._tell_untold()
        self._arm()

    async def leave(self) -> None:
        """Be fenced, for good: no client is to be sent here any more. RegistrationError."""
        self._stopping = True
        if self._timer is not None:
            self._timer.cancel()
        if self.broker_epoch >= 0:
            await self._heartbeat(self.broker_epoch, want_fence=True, want_shut_down=True)

    def fetch_producer_ids(self, on_block: Callable[[ErrorCode, int, int], None]) -> None:
        """Ask the controller for a block of producer ids."""
        request = AllocateProducerIdsRequest(
            broker_id=self._config.node_id, broker_epoch=self.broker_epoch
        )

        def on_reply(error: ErrorCode, reply: AllocateProducerIdsResponse | None) -> None:
            if reply is None:
                on_block(error, -1, 0)
            else:
                error = ErrorCode(reply.error_code)
                on_block(error, reply.producer_id_start, reply.producer_id_len)

        self._controller.submit(lambda c: c.decide_allocate_producer_ids(request), on_reply)

    def tell_offline(self) -> None:
        """A log directory has failed: the next heartbeat says so, and is sent now (KIP-858)."""
        if self._timer is not None and not self._stopping:
            self._beat()

    def tell_placed(self, placed: list[Placed]) -> None:
        """Say in which directories partitions are, now or as soon as the broker is registered."""
        self._untold += placed
        if self.broker_epoch >= 0:
            self._tell_untold()

    def _tell_untold(self) -> None:
        untold, self._untold = self._untold, []
        for start in range(0, len(untold), ASSIGNED_AT_ONCE):
            some = untold[start : start + ASSIGNED_AT_ONCE]
            request = assignment_request(self._config.node_id, self.broker_epoch, some)
            self._controller.submit(
                partial(Controller.decide_assign_replicas_to_dirs, request=request),
                partial(self._note_told, some),
            )

    def _note_told(
        self, told: list[Placed], error: ErrorCode, reply: AssignReplicasToDirsResponse | None
    ) -> None:
        """What a controller does not take is told again with the next heartbeat.

        A partition that it does not know was deleted meanwhile.
        """
        code = int(error) if reply is None else reply.error_code
        if code:
            log.warning("the controller does not note where partitions are: %s", error_name(code))
            self._untold += told

    # -- inside ----------------------------------------------------------------------------

    async def _register(self, advertised: list[Endpoint]) -> BrokerRegistrationResponse:
        request = BrokerRegistrationRequest(
            broker_id=self._config.node_id,
            cluster_id=self._storage.cluster_id,
            incarnation_id=self._incarnation_id,
            listeners=[
                Listener(name=e.name, host=e.host, port=e.port, security_protocol=PLAINTEXT)
                for e in advertised
            ],
            features=[
                Feature(
                    name=feature.name,
                    min_supported_version=feature.min_level,
                    max_supported_version=feature.max_level,
                )
                for feature in SUPPORTED_FEATURES
            ],
            rack=self._config.get("broker.rack"),
            log_dirs=self._storage.online_ids(),
        )
        answer: asyncio.Future[tuple[ErrorCode, BrokerRegistrationResponse | None]]
        answer = asyncio.get_running_loop().create_future()
        self._controller.submit(
            lambda c: c.decide_register_broker(request, self._now_ms()),
            lambda error, reply: answer.set_result((error, reply)),
        )
        error, reply = await answer
        if reply is None or reply.error_code:
            code = int(error) if reply is None else reply.error_code
            raise RegistrationError(f"registration was refused: {error_name(code)}")
        return reply

    async def _heartbeat(
        self, broker_epoch: int, *, want_fence: bool = False, want_shut_down: bool = False
    ) -> BrokerHeartbeatResponse:
        answer: asyncio.Future[tuple[ErrorCode, BrokerHeartbeatResponse | None]]
        answer = asyncio.get_running_loop().create_future()
        self._submit_heartbeat(
            BrokerHeartbeatRequest(
                broker_id=self._config.node_id,
                broker_epoch=broker_epoch,
                current_metadata_offset=self._image().offset,
                want_fence=want_fence,
                want_shut_down=want_shut_down,
            ),
            lambda error, reply: answer.set_result((error, reply)),
        )
        error, reply = await answer
        if reply is None or reply.error_code:
            code = int(error) if reply is None else reply.error_code
            raise RegistrationError(f"a heartbeat was refused: {error_name(code)}")
        return reply

    def _submit_heartbeat(
        self,
        request: BrokerHeartbeatRequest,
        on_reply: Callable[[ErrorCode, BrokerHeartbeatResponse | None], None],
    ) -> None:
        self._controller.submit(
            lambda c: c.decide_broker_heartbeat(request, self._now_ms()), on_reply
        )

    def _arm(self) -> None:
        if not self._stopping:
            interval_ms = self._config.get("broker.heartbeat.interval.ms")
            self._timer = self._timers.after(interval_ms, self._beat_and_arm)

    def _beat_and_arm(self) -> None:
        """The next heartbeat follows, whatever comes of this one."""
        self._beat()
        self._tell_untold()
        self._arm()

    def _beat(self) -> None:
        """A heartbeat between `join` and `leave`."""

        def on_reply(error: ErrorCode, reply: BrokerHeartbeatResponse | None) -> None:
            code = int(error) if reply is None else reply.error_code
            if code:
                log.warning("a heartbeat was refused: %s", error_name(code))

        self._submit_heartbeat(
            BrokerHeartbeatRequest(
                broker_id=self._config.node_id,
                broker_epoch=self.broker_epoch,
                current_metadata_offset=self._image().offset,
                offline_log_dirs=self._storage.offline_ids(),
            ),
            on_reply,
        )


def assignment_request(
    broker_id: int, broker_epoch: int, placed: Iterable[Placed]
) -> AssignReplicasToDirsRequest:
    """The request that tells the controller of (topic id, partition, directory id)."""
    directories: dict[Uuid, dict[Uuid, list[int]]] = {}
    for topic_id, index, directory_id in placed:
        directories.setdefault(directory_id, {}).setdefault(topic_id, []).append(index)
    return AssignReplicasToDirsRequest(
        broker_id=broker_id,
        broker_epoch=broker_epoch,
        directories=[
            DirectoryDataRequest(
                id=directory_id,
                topics=[
                    TopicDataRequest(
                        topic_id=topic_id,
                        partitions=[PartitionDataRequest(partition_index=one) for one in indexes],
                    )
                    for topic_id, indexes in topics.items()
                ],
            )
            for directory_id, topics in directories.items()
        ],
    )
