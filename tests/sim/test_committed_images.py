"""Checks of brokers see every committed batch, also of those that a node has applied together."""

from __future__ import annotations

import pytest

from fencepost.batch.control import build_leader_change
from fencepost.batch.records import build_batch
from fencepost.machines.image import BrokerImage, ClusterImage, apply_records
from fencepost.sim.checks import Check
from fencepost.sim.observer import Observer
from fencepost.sim.oracle import Oracle, Violation
from fencepost.sim.partition_oracle import BrokerBegun, Stage
from fencepost.sim.trace import Trace
from fencepost.wire.message import Message
from fencepost.wire.records.metadata import encode_record
from fencepost.wire.records.metadata_nodes import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)
from fencepost.wire.types import Uuid

from .histories import disk_of

INCARNATION = Uuid(bytes(15) + b"\1")
REGISTERED = RegisterBrokerRecord(broker_id=101, incarnation_id=INCARNATION, broker_epoch=1)
FENCED = BrokerRegistrationChangeRecord(broker_id=101, broker_epoch=1, fenced=1)
UNFENCED = BrokerRegistrationChangeRecord(broker_id=101, broker_epoch=1, fenced=-1)


class Seen(Check):
    """Whether broker 101 is fenced, each time that it has changed."""

    def __init__(self) -> None:
        self.fenced: list[bool] = []

    def broker_changed(self, oracle: Oracle, broker_id: int, broker: BrokerImage | None) -> None:
        assert broker is not None
        self.fenced.append(broker.fenced)


class Quorum:
    """Nodes 1 and 2, whose logs begin with a leader change; batches are of one record each."""

    def __init__(self) -> None:
        self.observer = Observer(Trace(), has_brokers=True)
        self.seen = Seen()
        self.observer.checks.append(self.seen)
        for node_id in (1, 2):
            self.observer.oracle.new_disk(node_id, disk_of(node_id))
            batch = build_leader_change(1, [1], [1], timestamp_ms=0, leader_epoch=1)
            self.observer.metadata_appended(node_id, batch)
        self.image = ClusterImage()

    def commit(self, *records: Message, appended_by: int = 1, known_by: int = 1) -> None:
        """A node appends a batch of each record; a node makes one image of them all."""
        first = self.image.offset + 1 if self.image.offset >= 0 else 1
        for offset, record in enumerate(records, first):
            batch = build_batch([(None, encode_record(record))], base_offset=offset, leader_epoch=1)
            self.observer.metadata_appended(appended_by, batch)
        self.image = apply_records(self.image, records, first + len(records) - 1, 1)
        self.observer.image_moved(known_by, self.image)

    def begin(self, stage: Stage) -> None:
        """Broker 101 has come that far."""
        self.observer.broker_begun(BrokerBegun(stage, 101, INCARNATION, 1), self.image.offset)


def test_a_broker_that_is_fenced_in_the_same_image_was_unfenced_before() -> None:
    quorum = Quorum()
    quorum.begin(Stage.STARTS)
    quorum.commit(REGISTERED)
    quorum.begin(Stage.LOADS)
    quorum.begin(Stage.IS_READY)
    quorum.commit(UNFENCED, FENCED)
    quorum.begin(Stage.SERVES)
    assert quorum.seen.fenced == [True, False, True]
    assert quorum.observer.committed_image is quorum.image


def test_a_broker_that_is_unfenced_too_early_is_found_though_it_is_fenced_at_once() -> None:
    quorum = Quorum()
    quorum.begin(Stage.STARTS)
    quorum.commit(REGISTERED)
    with pytest.raises(Violation, match="I16: 101 is unfenced before it has loaded"):
        quorum.commit(UNFENCED, FENCED)


def test_an_image_that_two_nodes_have_counts_once() -> None:
    quorum = Quorum()
    quorum.commit(REGISTERED, UNFENCED, FENCED)
    quorum.observer.image_moved(2, quorum.image)
    assert quorum.seen.fenced == [True, False, True]


def test_what_a_node_has_from_a_snapshot_is_one_change() -> None:
    """Its log lacks the batches that the snapshot stands for."""
    quorum = Quorum()
    quorum.observer.oracle.started_over(2, 4)
    quorum.commit(REGISTERED, UNFENCED, FENCED, known_by=2)
    assert quorum.seen.fenced == [True]
    quorum.commit(UNFENCED, FENCED, appended_by=2, known_by=2)
    assert quorum.seen.fenced == [True, False, True]
