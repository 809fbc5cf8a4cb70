"""Call a handler as the listener does: bytes in, bytes out, at any version.

`ask` is for handlers that answer from what the node knows. The node is a `StillNode`: it has a
configuration, an image of the cluster, and a controller whose decisions are committed at once (or,
held back, when the test says so). Partitions have no logs there; see `test_served` for
those.
"""

from __future__ import annotations

import importlib
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fencepost.broker.cluster.controller_channel import ControllerChannel
from fencepost.broker.cluster.controller_service import ControllerService
from fencepost.broker.cluster.encoded_topics import EncodedTopics
from fencepost.broker.cluster.forwarding import Forwarder
from fencepost.broker.cluster.metadata_cache import MetadataCache
from fencepost.broker.cluster.topic_creation import AutoTopicCreation, fill_in_configs
from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.config.keys import BROKER_CONFIGS
from fencepost.broker.config.settings import Settings
from fencepost.broker.net.client_quotas import NO_QUOTAS
from fencepost.broker.net.log_limit import ClientWarnings
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.broker.net.registry import CONTROLLER_ROUTES, ROUTES, Route, bind_route
from fencepost.machines.controller import Controller, ControllerConfig, Decision
from fencepost.machines.controller.config import TokenSettings
from fencepost.machines.group.settings import GroupSettings
from fencepost.machines.image import RESOURCE_GROUP, ClusterImage, apply_records
from fencepost.machines.session import ANONYMOUS, SecurityProtocol
from fencepost.runtime.broker_probes import BrokerProbes
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.parts import ClusterMetadata, Parts
from fencepost.wire.api import response_class
from fencepost.wire.errors import ErrorCode
from fencepost.wire.frame import decode_response
from fencepost.wire.message import Message
from fencepost.wire.records.metadata import (
    BrokerEndpoint,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from fencepost.wire.types import Uuid

WALL_MS = 1_700_000_000_000
CLUSTER_ID = "fencepost-under-test-A"


@dataclass
class StillNode:
    """What handlers need of a node, with nothing going on behind them."""

    config: BrokerConfig = field(default_factory=lambda: BrokerConfig.load(None, {}))
    image: ClusterImage = field(default_factory=ClusterImage)
    cluster_id: str = CLUSTER_ID
    quorum_leader_id: int = 1

    def __post_init__(self) -> None:
        self.settings = Settings(self.config)
        self.access = Access()
        self.client_warnings = ClientWarnings()
        self.controller = PromptController(self)
        self.timers = StillTimers()
        self.service = ControllerService(
            self.controller,
            lambda: 0,
            lambda request, reply: fill_in_configs(self.config, self.image, request, reply),
            lambda request, on_response: None,
            NoOtherNode(),
            self.access,
            lambda: WALL_MS,
        )
        self.channel = ControllerChannel(
            self.service, NoOtherNode(), self.timers, lambda: self.timers.now_ms
        )
        self.forwarder = Forwarder(self.channel)
        self.topic_creation = AutoTopicCreation(
            self.config, self.channel, lambda: self.timers.now_ms
        )

        self.encoded_topics = EncodedTopics()
        self.probes = BrokerProbes(
            self, self.controller, _never, own_id=1, interval_ms=0, session_ms=0
        )

    def now_ms(self) -> int:
        """Of the clock that stands still."""
        return self.timers.now_ms

    @property
    def parts(self) -> dict[Any, object]:
        """What handlers may ask for."""
        return {
            Access: self.access,
            AutoTopicCreation: self.topic_creation,
            BrokerProbes: self.probes,
            BrokerConfig: self.config,
            ClientWarnings: self.client_warnings,
            ClusterMetadata: self,
            ControllerService: self.service,
            EncodedTopics: self.encoded_topics,
            Forwarder: self.forwarder,
            MetadataCache: self,
            Settings: self.settings,
        }

    def learn(self, *records: Message) -> StillNode:
        """Apply metadata records as if they had been committed."""
        self.image = apply_records(self.image, records, self.image.offset + len(records))
        self.settings.apply(self.image)
        return self


def _never(addresses: object, on_result: object) -> None:
    """Nobody is probed whose interval is 0."""
    raise AssertionError(addresses)


class NoOtherNode:
    """A quorum of one node, to `ControllerChannel`."""

    node_id = leader_id = 1
    voters = (1,)
    kraft_version = 0

    def address_of(self, node_id: int) -> None:
        return None


class StillTimers:
    """Timers on a clock that stands still but for `advance`."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._armed: list[tuple[int, StillTimer]] = []

    def after(self, delay_ms: int, callback: Callable[[], None]) -> StillTimer:
        return self.at(self.now_ms + delay_ms, callback)

    def at(self, deadline_ms: int, callback: Callable[[], None]) -> StillTimer:
        timer = StillTimer(callback, deadline_ms)
        self._armed.append((deadline_ms, timer))
        return timer

    def advance(self, by_ms: int) -> None:
        """Let time pass, and what is due happen."""
        self.now_ms += by_ms
        due = [timer for at_ms, timer in self._armed if at_ms <= self.now_ms]
        self._armed = [entry for entry in self._armed if entry[0] > self.now_ms]
        for timer in due:
            callback, timer.callback = timer.callback, None
            if callback is not None:
                callback()


@dataclass(eq=False)
class StillTimer:
    """A timer of `StillTimers`."""

    callback: Callable[[], None] | None
    deadline_ms: int = 0

    @property
    def armed(self) -> bool:
        return self.callback is not None

    def cancel(self) -> None:
        self.callback = None


class PromptController:
    """`ControllerHost.submit` over the real controller, whose log takes no time and never fails.

    With `error` set there is no active controller. With `held` True commits wait for `release`.
    """

    def __init__(self, node: StillNode) -> None:
        self._node = node
        self._ahead: Controller | None = None
        self._waiting: deque[Callable[[], None]] = deque()
        self.error = ErrorCode.NONE
        self.held = False

    @property
    def controller(self) -> Any:
        """Something with an image, as long as it is active."""
        return self if self.error is ErrorCode.NONE else None

    @property
    def image(self) -> ClusterImage:
        """What it decides upon."""
        return self._node.image

    def submit(
        self,
        decide: Callable[[Controller], Decision],
        on_reply: Callable[[ErrorCode, Any], None],
        max_batch_bytes: int | None = None,
    ) -> None:
        del max_batch_bytes  # nothing is put into batches here
        if self.error is not ErrorCode.NONE:
            on_reply(self.error, None)
            return
        controller = self._ahead
        if controller is None:
            config = self._node.config
            settings = ControllerConfig(
                cluster_id=self._node.cluster_id,
                node_id=NoOtherNode.node_id,
                num_partitions=config.get("num.partitions"),
                default_replication_factor=config.get("default.replication.factor"),
                topic_defaults=config.topic_defaults,
                broker_configs=BROKER_CONFIGS,
                resource_checks={RESOURCE_GROUP: GroupSettings(config.get).check},
                tokens=TokenSettings(config.token_secret),
            )
            controller = Controller.from_image(self._node.image, settings, 0)
        decision = decide(controller)
        controller.apply_all(decision.records)
        self._ahead = controller
        committed = controller.image

        def commit() -> None:
            self._node.image = committed
            on_reply(ErrorCode.NONE, decision.reply)

        self._waiting.append(commit)
        if not self.held:
            self.release()

    def release(self) -> None:
        """Commit what was decided, in order."""
        while self._waiting:
            self._waiting.popleft()()
        self._ahead = None


def routes_of(listener_name: str) -> dict[int, Route]:
    """What is served on the listener: `CONTROLLER` is the controllers'."""
    return CONTROLLER_ROUTES if listener_name == "CONTROLLER" else ROUTES


class BoundRoutes(Mapping[int, Route]):
    """Routes whose handlers get what they need when they are asked for: tests add routes."""

    def __init__(self, routes: Mapping[int, Route], parts: Parts) -> None:
        self._routes = routes
        self._parts = parts

    def __getitem__(self, api_key: int) -> Route:
        return bind_route(self._routes[api_key], self._parts)

    def __iter__(self) -> Iterator[int]:
        return iter(self._routes)

    def __len__(self) -> int:
        return len(self._routes)

    @property
    def advertised(self) -> dict[int, tuple[int, int]]:
        """What ApiVersions says."""
        return {key: route.advertised for key, route in self._routes.items()}


class Caller:
    """The connection a request came in by."""

    client_host = "127.0.0.1"
    principal = ANONYMOUS
    security_protocol = SecurityProtocol.PLAINTEXT
    closed = False
    available_bytes = 1 << 26
    at_once_bytes = 1 << 20
    is_broker = False
    api_name = "Sample"
    quotas = NO_QUOTAS

    def __init__(self, listener_name: str = "PLAINTEXT", parts: Parts | None = None) -> None:
        self.listener_name = listener_name
        self.routes = BoundRoutes(routes_of(listener_name), parts or {})
        self.answers: list[PendingRequest] = []
        self.closed_because: str | None = None
        self.buffered_bytes = 0
        self.outgoing_bytes = 0

    def is_next(self, context: PendingRequest) -> bool:
        return False

    def add_buffered(self, size_bytes: int) -> None:
        self.buffered_bytes += size_bytes

    def have_read(self, size_bytes: int) -> None:
        pass

    def add_outgoing(self, size_bytes: int) -> None:
        self.outgoing_bytes += size_bytes

    def settled(self, context: PendingRequest) -> None:
        self.answers.append(context)

    def close(self, reason: str) -> None:
        self.closed_because = reason


def register(*modules: str) -> None:
    """Have the handlers of these modules registered, and no others."""
    for module in modules:
        importlib.import_module(f"fencepost.broker.apis.{module}")


def served_versions(request_class: type[Message], listener: str = "PLAINTEXT") -> range:
    """The versions of a request that are served."""
    route = routes_of(listener)[_key(request_class)]
    return range(route.min_version, route.max_version + 1)


def begin(node: Any, request: Message, version: int, listener: str = "PLAINTEXT") -> Any:
    """What the handler returns for the request, given to it by way of its bytes."""
    return handled(node, request, version, listener)[1]


def handled(
    node: Any, request: Message, version: int, listener: str = "PLAINTEXT"
) -> tuple[PendingRequest, Any]:
    """The same, with the context that the answer goes to."""
    caller = Caller(listener, node.parts)
    route = caller.routes[_key(type(request))]
    assert route.min_version <= version <= route.max_version
    received = bytearray(request.encode(version))  # as what sockets are read into
    arrived = type(request).decode(received, version)
    context = PendingRequest(caller, route, version, 7, "harness")
    return context, route.handler(context, arrived)


def send(node: Any, request: Message, version: int, listener: str = "PLAINTEXT") -> PendingRequest:
    """Hand the request to its handler, by way of its bytes; the answer may come later."""
    context, returned = handled(node, request, version, listener)
    answer = to_its_end(returned)
    if answer is not None:
        context.reply(answer)
    return context


def to_its_end(answer: Any) -> Any:
    """The response of a handler, also of one that works in pieces."""
    if not isinstance(answer, Generator):
        return answer
    while True:
        try:
            next(answer)
        except StopIteration as done:
            return done.value


def answer_of(context: PendingRequest) -> Any:
    """The response, by way of its bytes."""
    assert context.answered, "the handler has not answered"
    frame = b"".join(bytes(part) for part in context.take_parts())
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header, response = decode_response(
        response_class(context.route.api_key), context.api_version, frame[4:]
    )
    assert header.correlation_id == 7
    return response


def ask(
    node: Any, request: Message, version: int | None = None, listener: str = "PLAINTEXT"
) -> Any:
    """The answer of a handler that answers at once; the newest served version by default."""
    chosen = served_versions(type(request), listener)[-1] if version is None else version
    return answer_of(send(node, request, chosen, listener))


def _key(request_class: type[Message]) -> int:
    assert request_class.api_key is not None
    return request_class.api_key


# -- clusters to ask about -----------------------------------------------------------------------


def broker(
    broker_id: int,
    *,
    fenced: bool = False,
    rack: str | None = None,
    listeners: Iterable[str] = ("PLAINTEXT",),
    log_dirs: Iterable[Uuid] = (),
) -> RegisterBrokerRecord:
    """A broker at `broker-<id>`, with ports 9000 + id and up."""
    return RegisterBrokerRecord(
        broker_id=broker_id,
        broker_epoch=broker_id * 10,
        incarnation_id=Uuid(bytes(12) + broker_id.to_bytes(4, "big")),
        end_points=[
            BrokerEndpoint(name=name, host=f"broker-{broker_id}", port=9000 + broker_id + offset)
            for offset, name in enumerate(listeners)
        ],
        rack=rack,
        fenced=fenced,
        log_dirs=list(log_dirs),
    )


def topic_id(name: str) -> Uuid:
    """An id that goes with the name."""
    return Uuid(name.encode().ljust(16, b"\0")[:16])


def topic(name: str, *partitions: dict[str, Any]) -> list[Message]:
    """A topic with these partitions; keywords of `PartitionRecord`."""
    records: list[Message] = [TopicRecord(name=name, topic_id=topic_id(name))]
    for index, keywords in enumerate(partitions):
        replicas = keywords.get("replicas", [1])
        settings = {
            "replicas": replicas,
            "isr": replicas,
            "leader": replicas[0],
            "leader_epoch": 0,
            "partition_epoch": 0,
            **keywords,
        }
        records.append(PartitionRecord(partition_id=index, topic_id=topic_id(name), **settings))
    return records
