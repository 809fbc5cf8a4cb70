"""The controller of a large cluster, and what its decisions are in the metadata log.

The product's controller decides, its records are encoded into the batch that the log would have,
and applied; `Committed` is what that came to. Nothing is written to a disk.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from fencepost.batch.header import read_header
from fencepost.batch.records import build_batch
from fencepost.machines.controller import Controller, ControllerConfig, Decision
from fencepost.machines.image import ClusterImage, ImageDelta, apply_records, diff
from fencepost.machines.image.records import image_values, record_value
from fencepost.runtime.metadata.replay import batch_records, no_collections
from fencepost.wire.api.broker_heartbeat import BrokerHeartbeatRequest
from fencepost.wire.api.broker_registration import BrokerRegistrationRequest, Feature, Listener
from fencepost.wire.api.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from fencepost.wire.records.metadata import decode_record
from fencepost.wire.types import Uuid

CLUSTER_ID: Final = "benchmark"
FEATURES: Final = {"metadata.version": (7, 33), "kraft.version": (0, 1)}
REPLICAS: Final = 3
PER_TOPIC: Final = 100
PER_REQUEST: Final = 5_000
HEAVY_TOPIC: Final = "heavy"


def topic_ids() -> Iterator[Uuid]:
    """Ids without end."""
    number = 1_000
    while True:
        number += 1
        yield Uuid(number.to_bytes(16, "big"))


@dataclass(frozen=True)
class Committed:
    """A decision, when it is in the log: milliseconds of CPU by what they were spent on."""

    records: int
    size_bytes: int
    decide_ms: float
    encode_ms: float
    apply_ms: float
    follow_ms: float
    """What every other node needs for it: batch decoded, records applied, images compared."""
    delta: ImageDelta
    reply: Any

    @property
    def controller_ms(self) -> float:
        """What the active controller needs for it, besides the network and the disk."""
        return self.decide_ms + self.encode_ms + self.apply_ms


class Metadata:
    """The controller, and the image that everybody else has of its log."""

    def __init__(self, now_ms: Callable[[], float]) -> None:
        self._now_ms = now_ms
        self.controller = Controller(ClusterImage(), ControllerConfig(CLUSTER_ID), 0)
        self.image = ClusterImage()
        self._ids = topic_ids()
        self.commit(lambda c: c.decide_take_over())

    def commit(self, decide: Callable[[Controller], Decision]) -> Committed:
        """Decide, write and follow."""
        controller = self.controller
        began = time.process_time()
        decision = decide(controller)
        decided = time.process_time()
        batch = bytearray()
        if decision.records:
            image = controller.image
            values = [(None, record_value(record, image)) for record in decision.records]
            batch = build_batch(values, timestamp_ms=1)
        encoded = time.process_time()
        if decision.records:
            controller.apply_all(decision.records)
        applied = time.process_time()
        old = self.image
        if decision.records:
            with no_collections():
                read = batch_records(read_header(batch, 0), batch)
                self.image = apply_records(old, read, controller.image.offset)
        delta = diff(old, self.image)
        followed = time.process_time()
        return Committed(
            len(decision.records),
            len(batch),
            (decided - began) * 1000,
            (encoded - decided) * 1000,
            (applied - encoded) * 1000,
            (followed - applied) * 1000,
            delta,
            decision.reply,
        )

    # -- making the cluster --------------------------------------------------------------------

    def register(self, broker_id: int, rack: str) -> int:
        """A broker comes, and is unfenced; its epoch."""
        request = BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=CLUSTER_ID,
            incarnation_id=Uuid((broker_id << 40 | self.image.offset + 2).to_bytes(16, "big")),
            listeners=[
                Listener(name="PLAINTEXT", host="broker.example", port=9_092, security_protocol=0)
            ],
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in FEATURES.items()
            ],
            rack=rack,
            log_dirs=[Uuid((broker_id << 64).to_bytes(16, "big"))],
        )
        now_ms = int(self._now_ms())
        epoch = self.commit(lambda c: c.decide_register_broker(request, now_ms)).reply.broker_epoch
        return int(epoch)

    def heartbeat(self, broker_id: int) -> Decision:
        """What the controller decides on a broker's heartbeat."""
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=self.image.brokers[broker_id].epoch,
            current_metadata_offset=self.image.offset,
            want_fence=False,
            want_shut_down=False,
        )
        return self.controller.decide_broker_heartbeat(request, int(self._now_ms()))

    def create(self, partitions: int, heavy: int) -> list[Committed]:
        """Topics of PER_TOPIC partitions; of one more, broker 1 leads all `heavy` partitions."""
        done = []
        count = (partitions - heavy) // PER_TOPIC
        at_once = PER_REQUEST // PER_TOPIC
        for first in range(0, count, at_once):
            names = [f"topic-{at:05}" for at in range(first, min(first + at_once, count))]
            topics = [
                CreatableTopic(name=name, num_partitions=PER_TOPIC, replication_factor=REPLICAS)
                for name in names
            ]
            done.append(self._create(topics, first * PER_TOPIC))
        if heavy:
            others = sorted(set(self.image.brokers) - {1})
            assignments = [
                CreatableReplicaAssignment(
                    partition_index=at,
                    broker_ids=[1, others[at % len(others)], others[(at * 7 + 3) % len(others)]]
                    if others[at % len(others)] != others[(at * 7 + 3) % len(others)]
                    else [1, others[at % len(others)], others[(at + 1) % len(others)]],
                )
                for at in range(heavy)
            ]
            topic = CreatableTopic(
                name=HEAVY_TOPIC,
                num_partitions=-1,
                replication_factor=-1,
                assignments=assignments,
            )
            done.append(self._create([topic], 0))
        return done

    def _create(self, topics: list[CreatableTopic], start: int) -> Committed:
        request = CreateTopicsRequest(topics=topics, timeout_ms=1_000)
        made = self.commit(lambda c: c.decide_create_topics(request, self._ids, start))
        errors = {topic.error_message for topic in made.reply.topics if topic.error_code}
        assert not errors, errors
        return made

    # -- snapshots -----------------------------------------------------------------------------

    def snapshot(self) -> tuple[float, int, float]:
        """Milliseconds to write the image as records, their bytes, and milliseconds to load it."""
        began = time.process_time()
        values = list(image_values(self.image))
        written = time.process_time()
        with no_collections():
            apply_records(ClusterImage(), map(decode_record, values))
        loaded = time.process_time()
        return (written - began) * 1000, sum(map(len, values)), (loaded - written) * 1000
