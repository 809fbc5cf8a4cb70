"""What clients and brokers ask of the cluster while it is in trouble.

Brokers that exist only as requests register and send heartbeats; clients create and delete topics
and change configs. All goes to a controller, mostly to the one that leads, sometimes to one that
does not. What a controller has answered as done is looked up when the run is over.

Requests are lost with the node they were sent to, or not sent where clients are cut off from it;
nothing else is done to them, because the controller's answers do not depend on how they travel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from fencepost.machines.controller import Controller, Decision
from fencepost.machines.controller.features import FIRST_VERSION_WITH_TYPES, UPGRADE
from fencepost.machines.image import ClusterImage
from fencepost.runtime.internal_topics import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
)
from fencepost.sim.boot import CLUSTER_ID
from fencepost.sim.node import SimNode
from fencepost.sim.oracle import Violation
from fencepost.sim.surroundings import Surroundings
from fencepost.wire.api.broker_heartbeat import BrokerHeartbeatRequest
from fencepost.wire.api.broker_registration import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from fencepost.wire.api.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from fencepost.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from fencepost.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from fencepost.wire.api.unregister_broker import UnregisterBrokerRequest
from fencepost.wire.api.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

BROKERS = (11, 12, 13)
INTERNAL = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC)
DEAD_LETTERS: Final = "dlq.sharers"
"""It is not deleted: it would come back under its name, and producers count on by names."""
STREAMS_SOURCE: Final = "streams-source"
"""What a streams group reads, which stays."""
KEPT = (*INTERNAL, DEAD_LETTERS, STREAMS_SOURCE, "__store-changelog")
MOST_TOPICS = 40
NO_CONFIGS: Final[Mapping[str, str]] = {}
COMPACTED = {"cleanup.policy": "compact"}
COMPACTED_SOON = {
    "cleanup.policy": "compact,delete",
    "segment.ms": "2000",
    "delete.retention.ms": "4000",
}
"""Topics of drawn worlds: DeleteRecords is refused where the policy is `compact` alone. Within a
world there is something to be compacted so, and markers and tombstones may go."""
_SET = 0
_TOPIC = 2
_BROKER = 4


Then = Callable[["Asked"], None]


class Asked:
    """One request to a controller, and its answer. `error` is None while there is none."""

    __slots__ = ("at_us", "error", "incarnation", "name", "node", "reply")

    def __init__(self, name: str, node: SimNode, at_us: int) -> None:
        self.name = name
        self.node = node
        self.incarnation = node.incarnation
        self.at_us = at_us
        self.error: ErrorCode | None = None
        self.reply: Any = None

    def said(self) -> str:
        """What the answer was: the error, of the whole or of its one part."""
        assert self.error is not None, "there is an answer"
        if self.error is not ErrorCode.NONE:
            return self.error.name
        parts = getattr(self.reply, "topics", None) or getattr(self.reply, "responses", None)
        code = getattr(parts[0] if parts else self.reply, "error_code", 0)
        return ErrorCode(code).name


def _both(answered: Then, then: Then | None) -> Then:
    """`answered` is called if there is an answer and no error of all of it; and then `then`."""

    def told(asked: Asked) -> None:
        if asked.error is ErrorCode.NONE:
            answered(asked)
        if then is not None:
            then(asked)

    return told


class Workload:
    """Asks now and then, and keeps the promises it was given."""

    def __init__(self, world: Surroundings) -> None:
        self._world = world
        self._lane = world.tape.lane("workload")
        self._named = 0
        self._incarnations = dict.fromkeys(BROKERS, 0)
        self._epochs: dict[int, int] = {}
        self.waiting: dict[Asked, None] = {}
        """Requests that have no answer yet."""
        self.topics: dict[str, bool] = {}
        """By name, whether the topic was answered to exist, or else not to; unsure ones are out."""
        self.unreachable: dict[int, None] = {}
        """Nodes that clients do not reach, and do not hear from."""
        self.acked = 0
        self.refused = 0

    # -- asking --------------------------------------------------------------------------------

    def begin(self) -> None:
        """Ask now and then until the world ends; never with a `write_every_ms` of 0."""
        every_us = self._world.options.write_every_ms * 1_000
        if not every_us:
            return
        delay_us = every_us // 2 + self._lane.pick(every_us)
        self._world.schedule_in(delay_us, "client", self._turn)

    def _turn(self) -> None:
        self.begin()
        alive = self.reachable()
        if not alive:
            return
        leading = [node for node in alive if node.leads]
        node = alive[self._lane.pick(len(alive))]
        if leading and not self._lane.chance(100):
            node = leading[self._lane.pick(len(leading))]
        if node.is_paused:
            return
        kind = self._lane.pick(10)
        if kind < 4:
            self._create_or_delete(node)
        elif kind < 6 or (kind < 9 and self._world.brokers):
            self._alter_config(node)
        elif kind < 9:
            self._broker(node)
        else:
            self.submit(node, "expiry", lambda c: c.decide_session_expiry(node.clocks.now_ms()))

    def reachable(self) -> list[SimNode]:
        """The controllers that are up and that clients reach."""
        live = self._world.live_controllers()
        return [one for one in live if one.gave_up is None and one.id not in self.unreachable]

    def submit(
        self,
        node: SimNode,
        name: str,
        decide: Callable[[Controller], Decision],
        then: Callable[[Asked], None] | None = None,
    ) -> Asked:
        """Have the node's controller decide; `then` is called with the answer."""
        asked = Asked(name, node, self._world.now_us)
        self.waiting[asked] = None
        self._world.tell(lambda: f"ask {node.id}: {name}")

        def answered(error: ErrorCode, reply: Any) -> None:
            if asked not in self.waiting:
                raise Violation("answered-twice", f"{name} was answered twice by {node.id}")
            del self.waiting[asked]
            if node.id in self.unreachable:
                self._world.tell(lambda: f"the answer of {node.id} to {name} does not arrive")
                return
            asked.error, asked.reply = error, reply
            if error is ErrorCode.NONE:
                self.acked += 1
            else:
                self.refused += 1
            self._world.trace.note(f"answer {name} {int(error)}")
            self._world.tell(lambda: f"{node.id} answers {name}: {error.name}")
            if then is not None:
                then(asked)

        self._world.guard(lambda: node.controller.submit(decide, answered), node)
        return asked

    def node_died(self, node: SimNode) -> None:
        """Requests that wait for this controller get no answer: it may have done them or not."""
        for asked in [one for one in self.waiting if one.node is node]:
            del self.waiting[asked]

    def ask(self, node: SimNode, kind: str, name: str, then: Callable[[Asked], None]) -> None:
        """A request by its kind: topic, delete, config, broker, unfence or unregister. KeyError."""
        if kind == "topic":
            self.create_topic(node, name, then=then)
        elif kind == "delete":
            self.delete_topic(node, name, then=then)
        elif kind == "config":
            self.set_config(node, _BROKER, "", name, name, then=then)
        elif kind == "broker":
            self.register_broker(node, int(name), then=then)
        elif kind == "unfence":
            self.heartbeat(node, int(name), then=then)
        elif kind == "unregister":
            request = UnregisterBrokerRequest(broker_id=int(name))
            said = f"unregister {name}"
            self.submit(node, said, lambda one: one.decide_unregister(request), then)
        else:
            raise KeyError(kind)

    # -- what is asked -------------------------------------------------------------------------

    def _create_or_delete(self, node: SimNode) -> None:
        there = [name for name, exists in self.topics.items() if exists and name not in KEPT]
        options = self._world.options
        deletes = 30 if self._world.brokers else 250
        if there and (len(there) > MOST_TOPICS or self._lane.chance(deletes)):
            self.delete_topic(node, there[self._lane.pick(len(there))])
            return
        if self._world.brokers and max(len(there), self._topics_to_be()) >= options.topics:
            return
        self._named += 1
        partitions = 1 + self._lane.pick(3)
        if self._world.brokers:
            self.create_topic(
                node,
                f"t{self._named}",
                partitions,
                options.replicas,
                min_isr=options.min_isr,
                configs=COMPACTED_SOON if options.compacts else {},
            )
        else:
            self.create_topic(node, f"t{self._named}", partitions)

    def _topics_to_be(self) -> int:
        """How many topics there are, also unacknowledged ones, plus those that requests without an
        answer ask for: while there is no leader many such requests gather."""
        known = self._world.observer.committed_image.topics_by_name
        asked_for = sum(asked.name.startswith("create ") for asked in self.waiting)
        return sum(name not in KEPT for name in known) + asked_for

    def update_feature(
        self, node: SimNode, name: str, level: int, then: Then | None = None
    ) -> Asked:
        """Ask for a level of a feature."""
        key = FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=UPGRADE)
        request = UpdateFeaturesRequest(feature_updates=[key])

        def decide(controller: Controller) -> Decision:
            decision = controller.decide_update_features(request, FIRST_VERSION_WITH_TYPES)
            return Decision(decision.records, decision.reply[0])

        return self.submit(node, f"{name}={level}", decide, then)

    def create_topic(
        self,
        node: SimNode,
        name: str,
        partitions: int = 1,
        replicas: int = 1,
        then: Then | None = None,
        min_isr: int = 1,
        *,
        configs: Mapping[str, str] = NO_CONFIGS,
    ) -> Asked:
        """Ask for a topic; a topic name is asked for once."""
        self._named += 1
        if min_isr > 1:
            configs = {"min.insync.replicas": str(min_isr), **configs}
        topic_id = Uuid(b"topic" + self._named.to_bytes(11, "big"))
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=name,
                    num_partitions=partitions,
                    replication_factor=replicas,
                    configs=[
                        CreatableTopicConfig(name=key, value=value)
                        for key, value in configs.items()
                    ],
                )
            ]
        )

        def answered(asked: Asked) -> None:
            if not asked.reply.topics[0].error_code:
                self.topics[name] = True

        return self.submit(
            node,
            f"create {name}",
            lambda controller: controller.decide_create_topics(request, iter([topic_id] * 2)),
            _both(answered, then),
        )

    def create_internal_topic(
        self, name: str, partitions: int, configs: Mapping[str, str] | None = None
    ) -> None:
        """Ask for a topic of coordinators, as a broker does whom a client asks for one, or for one
        of dead letters."""
        options = self._world.options
        for node in self._world.live_controllers():
            if node.leads and node.id not in self.unreachable and not node.is_paused:
                self.create_topic(
                    node,
                    name,
                    partitions,
                    options.replicas,
                    min_isr=options.min_isr,
                    configs=configs or (COMPACTED_SOON if options.compacts else {}),
                )
                return

    def delete_topic(self, node: SimNode, name: str, then: Then | None = None) -> Asked:
        """Ask for a topic to go."""
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)])
        self.topics.pop(name, None)  # from now on anything may be true of it
        self._note_deleted(node, name)

        def answered(asked: Asked) -> None:
            if not asked.reply.responses[0].error_code:
                self.topics[name] = False

        return self.submit(
            node,
            f"delete {name}",
            lambda controller: controller.decide_delete_topics(request),
            _both(answered, then),
        )

    def _note_deleted(self, node: SimNode, name: str) -> None:
        """From now on nothing is known of its partitions."""
        for image in [one.metadata.image for one in self._world.live_controllers()]:
            topic = image.topics_by_name.get(name)
            if topic is not None:
                keys = ((topic.topic_id, index) for index in range(len(topic.partitions)))
                self._world.observer.oracle.partitions.deleted.update(keys)

    def _alter_config(self, node: SimNode) -> None:
        names = sorted(self.topics)
        if not names:
            return
        name = names[self._lane.pick(len(names))]
        value = str(1_000 + self._lane.pick(1_000_000))
        self.set_config(node, _TOPIC, name, "retention.ms", value)

    def set_config(
        self,
        node: SimNode,
        resource_type: int,
        resource: str,
        name: str,
        value: str,
        then: Then | None = None,
    ) -> Asked:
        """Ask for a dynamic config."""
        wanted = AlterConfigsResource(
            resource_type=resource_type,
            resource_name=resource,
            configs=[AlterableConfig(name=name, config_operation=_SET, value=value)],
        )
        request = IncrementalAlterConfigsRequest(resources=[wanted])
        return self.submit(
            node,
            f"config of {resource or 'brokers'}",
            lambda controller: controller.decide_incremental_alter_configs(request),
            then,
        )

    def _broker(self, node: SimNode) -> None:
        broker_id = BROKERS[self._lane.pick(len(BROKERS))]
        epoch = self._epochs.get(broker_id)
        if epoch is None or self._lane.chance(50):
            self.register_broker(node, broker_id)
            return
        self.heartbeat(node, broker_id)

    def heartbeat(self, node: SimNode, broker_id: int, then: Then | None = None) -> Asked:
        """A broker says that it is there and has read everything."""
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=self._epochs.get(broker_id, -1),
            current_metadata_offset=node.metadata.image.offset,
            want_fence=False,
        )

        def answered(asked: Asked) -> None:
            if asked.reply.error_code:
                self._epochs.pop(broker_id, None)

        return self.submit(
            node,
            f"heartbeat of {broker_id}",
            lambda controller: controller.decide_broker_heartbeat(request, node.clocks.now_ms()),
            _both(answered, then),
        )

    def register_broker(self, node: SimNode, broker_id: int, then: Then | None = None) -> Asked:
        """A new incarnation of a broker registers."""
        self._incarnations[broker_id] = self._incarnations.get(broker_id, 0) + 1
        number = self._incarnations[broker_id]
        request = BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=CLUSTER_ID,
            incarnation_id=Uuid(
                b"broker" + bytes(2) + broker_id.to_bytes(4, "big") + number.to_bytes(4, "big")
            ),
            listeners=[
                Listener(name="PLAINTEXT", host="localhost", port=9092, security_protocol=0)
            ],
            features=[
                Feature(name="metadata.version", min_supported_version=7, max_supported_version=33)
            ],
            log_dirs=[Uuid(b"dir" + bytes(9) + broker_id.to_bytes(4, "big"))],
        )

        def answered(asked: Asked) -> None:
            if not asked.reply.error_code:
                self._epochs[broker_id] = asked.reply.broker_epoch

        return self.submit(
            node,
            f"register {broker_id}",
            lambda controller: controller.decide_register_broker(
                request, node.clocks.now_ms(), controller.next_offset
            ),
            _both(answered, then),
        )

    # -- promises ------------------------------------------------------------------------------

    def check_promises(self, image: ClusterImage) -> None:
        """What was answered is true of `image`, the cluster when all is over. Raises Violation."""
        names = set(image.topics_by_name)
        for name, exists in sorted(self.topics.items()):
            if exists and name not in names:
                raise Violation("I13", f"topic {name} was created, and is gone")
            if not exists and name in names:
                raise Violation("I13", f"topic {name} was deleted, and is there")
