"""The controller of a search: one that never fails, with the decisions of the product.

What it is asked and what it finds out by itself become records, and these another image, by
`machines.controller` and `machines.image`. The quorum under it has a search of its own; here each
decision is in the log at once, and brokers take over one after the other when they like.

Offsets of the metadata log are left out of the images: a broker's epoch is one more than that of
the broker that registered last.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from fencepost.machines.controller import brokers
from fencepost.machines.controller.alter_partition import decide_alter_partition
from fencepost.machines.controller.config import ControllerConfig
from fencepost.machines.controller.decision import Refused
from fencepost.machines.controller.partition_change import ELR_FEATURE
from fencepost.machines.controller.topic_policies import PoliciesInForce
from fencepost.machines.image import ClusterImage, PartitionImage, apply_records
from fencepost.sim.explore.flights import Messages, Numbers
from fencepost.sim.explore.logs import directory
from fencepost.sim.explore.partition.bounds import Bounds
from fencepost.sim.rules import Rules
from fencepost.wire.api.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from fencepost.wire.api.broker_registration import BrokerRegistrationRequest
from fencepost.wire.message import Message
from fencepost.wire.records import metadata as records
from fencepost.wire.types import Uuid

TOPIC: Final = "t"
TOPIC_ID: Final = Uuid(bytes(15) + b"\xff")
INDEX: Final = 0
_TOPIC_RESOURCE: Final = 2


class Decided(NamedTuple):
    """The image after a decision, and the answer to the request for it, -1 if there was none."""

    image: int
    answer: int = -1


def first_image(bounds: Bounds) -> ClusterImage:
    """All brokers are registered and unfenced, 1 leads."""
    messages: list[Message] = [
        records.RegisterBrokerRecord(
            broker_id=id_,
            broker_epoch=id_,
            incarnation_id=Uuid(bytes(15) + bytes([id_])),
            fenced=False,
            log_dirs=[directory(id_)],
        )
        for id_ in bounds.ids
    ]
    if bounds.elr:
        messages.append(records.FeatureLevelRecord(name=ELR_FEATURE, feature_level=1))
    messages += [
        records.TopicRecord(name=TOPIC, topic_id=TOPIC_ID),
        records.ConfigRecord(
            resource_type=_TOPIC_RESOURCE,
            resource_name=TOPIC,
            name="min.insync.replicas",
            value=str(bounds.min_isr),
        ),
        records.PartitionRecord(
            partition_id=INDEX,
            topic_id=TOPIC_ID,
            replicas=list(bounds.ids),
            isr=list(bounds.isr),
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
            directories=[directory(id_) for id_ in bounds.ids],
        ),
    ]
    return apply_records(ClusterImage(), messages)


class Metadata:
    """All images there have been, by number, and what was decided on each."""

    def __init__(self, bounds: Bounds, rules: Rules, messages: Messages) -> None:
        self._rules = rules
        self._messages = messages
        self._config = ControllerConfig("explored")
        self.images: list[ClusterImage] = []
        self._numbers = Numbers()
        self._decided: dict[tuple[Any, ...], Decided] = {}
        self.first = self._number(first_image(bounds))

    def __getitem__(self, number: int) -> ClusterImage:
        return self.images[number]

    def partition(self, number: int) -> PartitionImage:
        """The partition by an image."""
        found = self.images[number].partition(TOPIC_ID, INDEX)
        assert found is not None, "no event deletes it"
        return found

    def _number(self, image: ClusterImage) -> int:
        partition = image.partition(TOPIC_ID, INDEX)
        number = self._numbers.of((tuple(sorted(image.brokers.items())), partition))
        if number == len(self.images):
            self.images.append(image)
        return number

    def decide(self, number: int, event: tuple[Any, ...]) -> Decided:
        """What comes of ("fence", ID), ("unfence", ID), ("register", ID) or ("asked", MESSAGE)."""
        key = number, event
        decided = self._decided.get(key)
        if decided is None:
            decided = self._decided[key] = self._decide(self.images[number], *event)
        return decided

    def _decide(self, image: ClusterImage, word: str, what: int) -> Decided:
        policies = PoliciesInForce(image, self._config)
        if word == "asked":
            return self._alter_partition(image, self._messages[what], policies)
        broker = image.brokers[what]
        if word == "fence":
            made = brokers.fence_records(image, broker, policies)
        elif word == "unfence":
            made = brokers.unfence_records(image, broker, policies)
        else:
            made = self._register(image, what, policies)
        return Decided(self._number(apply_records(image, made)))

    def _register(
        self, image: ClusterImage, broker_id: int, policies: PoliciesInForce
    ) -> list[Message]:
        """A broker that has lost its power registers again."""
        newest = max(broker.epoch for broker in image.brokers.values())
        request = BrokerRegistrationRequest(
            broker_id=broker_id,
            incarnation_id=Uuid(bytes(15) + bytes([newest + 1])),
            log_dirs=[directory(broker_id)],
            previous_broker_epoch=-1,
        )
        made, epoch = brokers.registration_records(
            image, request, newest + 1, policies, self._rules.controller
        )
        assert epoch > newest, "broker epochs rise"
        return made

    def _alter_partition(
        self, image: ClusterImage, request: Message, policies: PoliciesInForce
    ) -> Decided:
        assert isinstance(request, AlterPartitionRequest), "nothing else is asked here"
        try:
            brokers.check_broker_epoch(image, request.broker_id, request.broker_epoch)
        except Refused as refused:
            answer = AlterPartitionResponse(error_code=refused.error)
            return Decided(self._number(image), self._messages.of(answer))
        answer, made = decide_alter_partition(image, request, policies)
        return Decided(self._number(apply_records(image, made)), self._messages.of(answer))
