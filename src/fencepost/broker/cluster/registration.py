"""This broker's life in the cluster: it registers, is unfenced, sends heartbeats, and leaves.

The rules are those of KIP-631; the requests go to the active controller, wherever it is.

Theory of operation
-------------------
`join` registers, waits until this node's metadata has the registration, and is unfenced by the
heartbeat that says so. From then on a heartbeat goes out in every interval, one at a time: the next
does not wait for a controller to be found for the one before, which is given up after an interval.
Leaders come and go meanwhile, that is the channel's affair. What a heartbeat may be answered with:

* this life is not registered (STALE_BROKER_EPOCH): the controller has forgotten the broker, or an
  administrator has unregistered it. It registers again, under the same incarnation.
* fenced: the controller has not heard of the broker for a session's time, or it has just
  registered. The heartbeats go on, and unfence it as soon as it has read its registration.

A registration that is refused because another incarnation of this broker is alive
(DUPLICATE_BROKER_REGISTRATION) is tried again until the other's session is over, or
`initial.broker.registration.timeout.ms`. If the other is a former life on these log directories,
whose lock this process holds, it is over for certain and is fenced at once.

`leave` gives up the leaderships before the end, if there are brokers that could take them
(controlled shutdown), and is fenced.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from fencepost.broker.cluster.controller_channel import ControllerChannel
from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.config.endpoints import Endpoint
from fencepost.broker.config.features import SUPPORTED_FEATURES
from fencepost.broker.loop.timers import Timer, Timers
from fencepost.broker.storage.storage import Storage
from fencepost.machines.image import BrokerImage, ClusterImage
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
from fencepost.wire.message import Message
from fencepost.wire.types import Uuid

log = logging.getLogger(__name__)

PLAINTEXT = 0
"""Number of the security protocol in registrations."""

ASSIGNED_AT_ONCE = 2000
"""Partitions in one AssignReplicasToDirs request; Kafka's brokers stop at 2250."""

LOOK_AGAIN_S: Final = 0.02
"""How often a broker looks whether it has read its registration, or may stop."""
DUPLICATE_RETRY_S: Final = 0.5
HANDOVER_S: Final = 10.0
"""How long a broker that leaves waits for others to take what it leads."""
FAREWELL_TIMEOUT_MS: Final = 3_000
"""How long a leaving broker looks for a controller to take its leave of."""

Placed = tuple[Uuid, int, Uuid]
"""Topic id and number of a partition, and the id of the directory it is in."""


class RegistrationError(Exception):
    """The controller refuses this broker, or there is none."""

    def __init__(self, what: str, code: int) -> None:
        super().__init__(f"{what}: {error_name(code)}")
        self.code = code


class Registration:
    """Registers the broker and keeps it alive."""

    def __init__(
        self,
        config: BrokerConfig,
        channel: ControllerChannel,
        timers: Timers,
        now_ms: Callable[[], int],
        image: Callable[[], ClusterImage],
        storage: Storage,
    ) -> None:
        self._config = config
        self._channel = channel
        self._timers = timers
        self._now_ms = now_ms
        self._image = image
        self._storage = storage
        self._incarnation_id = Uuid.random()
        self._advertised: list[Endpoint] = []
        self._timer: Timer | None = None
        self._stopping = False
        self._is_beating = False
        self._is_registering = False
        self._beat_again = False
        self._is_fenced = True
        self._last_failure = 0  # of a heartbeat; what goes on is not logged again
        self._untold: list[Placed] = []
        self.broker_epoch = -1

    async def join(self, advertised: list[Endpoint]) -> None:
        """Register and be unfenced. RegistrationError."""
        self._advertised = advertised
        await self._register_for_the_first_time()
        await self._become_unfenced()
        self._is_fenced = False
        self._tell_untold()
        self._arm()

    async def leave(self) -> None:
        """Hand over what is led and be fenced, for good. RegistrationError."""
        self._stopping = True
        if self._timer is not None:
            self._timer.cancel()
        if self.broker_epoch < 0:
            return
        deadline = asyncio.get_running_loop().time() + HANDOVER_S
        while self._others_are_alive() and asyncio.get_running_loop().time() < deadline:
            reply = await self._heartbeat(FAREWELL_TIMEOUT_MS, want_shut_down=True)
            if reply.should_shut_down:
                return
            await asyncio.sleep(LOOK_AGAIN_S)
        await self._heartbeat(FAREWELL_TIMEOUT_MS, want_fence=True, want_shut_down=True)

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

        self._channel.ask(request, on_reply)

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
        if not self._image().has_directories:
            return  # in case they are to be told one day
        untold, self._untold = self._untold, []
        for start in range(0, len(untold), ASSIGNED_AT_ONCE):
            some = untold[start : start + ASSIGNED_AT_ONCE]
            request = assignment_request(self._config.node_id, self.broker_epoch, some)
            self._channel.ask(request, partial(self._note_told, some))

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

    # -- registering -----------------------------------------------------------------------

    async def _register_for_the_first_time(self) -> None:
        loop = asyncio.get_running_loop()
        timeout_ms: int = self._config.get("initial.broker.registration.timeout.ms")
        deadline = loop.time() + timeout_ms / 1000
        await self._fence_former_life(timeout_ms)
        while True:
            reply = await self._answer_to(self._registration_request(), timeout_ms)
            if reply.error_code == ErrorCode.NONE:
                self.broker_epoch = reply.broker_epoch
                return
            is_duplicate = reply.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
            if not is_duplicate or loop.time() > deadline:
                raise RegistrationError("registration was refused", reply.error_code)
            log.info("another broker %d is alive, or was just now", self._config.node_id)
            await asyncio.sleep(DUPLICATE_RETRY_S)
            await self._fence_former_life(timeout_ms)

    async def _become_unfenced(self) -> None:
        """Read the metadata up to the registration, and say so."""
        loop = asyncio.get_running_loop()
        timeout_ms: int = self._config.get("initial.broker.registration.timeout.ms")
        deadline = loop.time() + timeout_ms / 1000
        while loop.time() < deadline:
            if self._image().offset >= self.broker_epoch:
                heartbeat = await self._heartbeat(timeout_ms)
                if not heartbeat.is_fenced:
                    return
            await asyncio.sleep(LOOK_AGAIN_S)
        raise RegistrationError("the broker stays fenced", ErrorCode.REQUEST_TIMED_OUT)

    async def _fence_former_life(self, timeout_ms: int) -> None:
        """Fence an earlier process on these directories, if the metadata still has it alive."""
        former = self._image().brokers.get(self._config.node_id)
        if former is None or former.fenced or not self._was_here(former):
            return
        log.info("broker %d was not stopped in order: fencing its former life", former.broker_id)
        request = self._heartbeat_request(former.epoch, want_fence=True, want_shut_down=True)
        reply = await self._answer_to(request, timeout_ms)
        if reply.error_code not in (ErrorCode.NONE, ErrorCode.STALE_BROKER_EPOCH):
            raise RegistrationError("the former life cannot be fenced", reply.error_code)

    def _was_here(self, former: BrokerImage) -> bool:
        """Whether that life of the broker used directories that are locked by this process.

        With the controller in this process the metadata log is such a directory.
        """
        return self._channel.is_local or bool(
            set(former.log_dirs) & set(self._storage.online_ids())
        )

    def _register_again(self) -> None:
        """Tell the controller of this life of the broker once more."""
        if self._is_registering:
            return
        self._is_registering = True

        def on_reply(error: ErrorCode, reply: BrokerRegistrationResponse | None) -> None:
            self._is_registering = False
            code = int(error) if reply is None else reply.error_code
            if code or reply is None:
                log.error("registering again was refused: %s", error_name(code))
                return
            self.broker_epoch = reply.broker_epoch
            self._beat()

        self._channel.ask(self._registration_request(), on_reply)

    def _registration_request(self) -> BrokerRegistrationRequest:
        return BrokerRegistrationRequest(
            broker_id=self._config.node_id,
            cluster_id=self._storage.cluster_id,
            incarnation_id=self._incarnation_id,
            listeners=[
                Listener(name=e.name, host=e.host, port=e.port, security_protocol=PLAINTEXT)
                for e in self._advertised
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

    # -- heartbeats ------------------------------------------------------------------------

    def _heartbeat_request(
        self, broker_epoch: int, *, want_fence: bool = False, want_shut_down: bool = False
    ) -> BrokerHeartbeatRequest:
        return BrokerHeartbeatRequest(
            broker_id=self._config.node_id,
            broker_epoch=broker_epoch,
            current_metadata_offset=self._image().offset,
            want_fence=want_fence,
            want_shut_down=want_shut_down,
            offline_log_dirs=self._storage.offline_ids(),
        )

    async def _heartbeat(
        self, timeout_ms: int, *, want_fence: bool = False, want_shut_down: bool = False
    ) -> BrokerHeartbeatResponse:
        request = self._heartbeat_request(
            self.broker_epoch, want_fence=want_fence, want_shut_down=want_shut_down
        )
        reply: BrokerHeartbeatResponse = await self._answer_to(request, timeout_ms)
        if reply.error_code:
            raise RegistrationError("a heartbeat was refused", reply.error_code)
        return reply

    async def _answer_to(self, request: Message, timeout_ms: int) -> Any:
        """The controller's response. RegistrationError if there is none."""
        answer: asyncio.Future[tuple[ErrorCode, Any]] = asyncio.get_running_loop().create_future()

        def on_reply(error: ErrorCode, reply: Any) -> None:
            if not answer.done():
                answer.set_result((error, reply))

        self._channel.ask(request, on_reply, timeout_ms=timeout_ms)
        error, reply = await answer
        if reply is None:
            raise RegistrationError("no answer of a controller", error)
        return reply

    def _others_are_alive(self) -> bool:
        """Whether there are brokers that could take over what this one leads."""
        own_id = self._config.node_id
        return any(b.is_active and b.broker_id != own_id for b in self._image().brokers.values())

    def _arm(self) -> None:
        if not self._stopping:
            interval_ms = self._config.get("broker.heartbeat.interval.ms")
            self._timer = self._timers.after(interval_ms, self._beat_and_arm)

    def _beat_and_arm(self) -> None:
        """The next heartbeat follows, whatever comes of this one."""
        self._beat()
        if self._lacks_directories():
            log.info("the cluster knows of log directories now: registering with them")
            self._register_again()
        self._tell_untold()
        self._arm()

    def _beat(self) -> None:
        """A heartbeat between `join` and `leave`; if one is under way, another follows it."""
        if self._stopping:
            return
        if self._is_beating:
            self._beat_again = True
            return
        self._is_beating, self._beat_again = True, False
        request = self._heartbeat_request(self.broker_epoch)
        interval_ms: int = self._config.get("broker.heartbeat.interval.ms")
        self._channel.ask(request, self._note_beat, timeout_ms=interval_ms)

    def _note_beat(self, error: ErrorCode, reply: BrokerHeartbeatResponse | None) -> None:
        self._is_beating = False
        code = int(error) if reply is None else reply.error_code
        if code == ErrorCode.STALE_BROKER_EPOCH:
            log.warning("the controller has forgotten this broker: registering again")
            self._register_again()
        elif code or reply is None:
            if code != self._last_failure:
                log.warning("heartbeats fail: %s", error_name(code))
        else:
            self._note_fenced(reply.is_fenced)
        self._last_failure = code
        if self._beat_again:
            self._beat()

    def _lacks_directories(self) -> bool:
        """Whether the registration is of before an upgrade to a level with log directories."""
        image = self._image()
        own = image.brokers.get(self._config.node_id)
        return (
            own is not None
            and own.epoch == self.broker_epoch
            and not own.log_dirs
            and image.has_directories
        )

    def _note_fenced(self, is_fenced: bool) -> None:
        if is_fenced is self._is_fenced:
            return
        self._is_fenced = is_fenced
        if is_fenced:
            log.warning("the controller has fenced this broker")
            self._timers.after(int(LOOK_AGAIN_S * 1000), self._beat)
        else:
            log.info("the controller has unfenced this broker")


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
