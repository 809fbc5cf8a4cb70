"""A controller looks after its registration (KIP-919): every row, back-off, failover."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from fencepost.machines.broker import (
    ControllerChanged,
    ControllerRegistration,
    MetadataApplied,
    Registration,
)
from fencepost.machines.broker.controller_registration import MAX_BACKOFF_MS, REQUEST_TIMEOUT_MS
from fencepost.machines.image import (
    ClusterImage,
    ControllerImage,
    FeatureRange,
    ListenerImage,
)
from fencepost.wire.api.controller_registration import ControllerRegistrationResponse
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

from .broker_fixtures import MachineFixture

LISTENERS = (ListenerImage("CONTROLLER", "h", 9093, 0),)
FEATURES = (FeatureRange("metadata.version", 7, 30),)
OWN = Registration(3, "c", Uuid(b"this-incarnation"), LISTENERS, FEATURES)
PRESENT = ControllerImage(3, OWN.incarnation_id, LISTENERS, FEATURES)
REFUSED = ControllerRegistrationResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
TAKEN = ControllerRegistrationResponse()


def metadata(present: ControllerImage | None = None, level: int = 15) -> MetadataApplied:
    image = ClusterImage(offset=9, features={"metadata.version": level})
    if present is not None:
        image = replace(image, controllers={3: present})
    return MetadataApplied(image)


@pytest.fixture
def controller() -> MachineFixture:
    return MachineFixture(ControllerRegistration(OWN))


@pytest.mark.parametrize(
    "present",
    [
        None,
        replace(PRESENT, incarnation_id=Uuid(b"of-an-earlier-pr")),
        replace(PRESENT, listeners=()),
        replace(PRESENT, features=()),
    ],
)
def test_a_registration_that_is_missing_or_another_is_sent(
    controller: MachineFixture, present: ControllerImage | None
) -> None:
    (request,) = controller.step(metadata(present))
    assert (request.controller_id, request.incarnation_id) == (3, OWN.incarnation_id)
    assert [(one.name, one.host, one.port) for one in request.listeners] == [
        ("CONTROLLER", "h", 9093)
    ]
    assert [one.name for one in request.features] == ["metadata.version"]
    assert request.zk_migration_ready is False
    assert controller.step(metadata(present)) == [], "under way"


def test_one_that_stands_is_left_alone(controller: MachineFixture) -> None:
    assert controller.step(metadata(PRESENT)) == []


def test_a_metadata_version_without_such_registrations_is_waited_for(
    controller: MachineFixture,
) -> None:
    assert controller.step(metadata(level=14)) == []
    assert len(controller.step(metadata(level=15))) == 1


def test_a_node_without_a_listener_has_nothing_to_say() -> None:
    controller = MachineFixture(ControllerRegistration(replace(OWN, listeners=())))
    assert controller.step(metadata()) == []


def test_it_registers_again_when_it_was_removed(controller: MachineFixture) -> None:
    controller.step(metadata())
    controller.answer(TAKEN)
    assert controller.step(metadata(PRESENT)) == []
    assert len(controller.step(metadata())) == 1


@pytest.mark.parametrize("answer", [REFUSED, ErrorCode.REQUEST_TIMED_OUT])
def test_a_refusal_is_retried_with_a_backoff(controller: MachineFixture, answer: Any) -> None:
    controller.step(metadata())
    for backoff_ms in (100, 200, 400, 800, 1_600, 3_200, 6_400, MAX_BACKOFF_MS, MAX_BACKOFF_MS):
        assert controller.answer(answer) == []
        assert "refused" in controller.machine.last_error.reason
        assert controller.step(metadata()) == [], "the back-off is not over"
        assert controller.advance(backoff_ms - 1) == []
        assert len(controller.advance(1)) == 1
    controller.answer(TAKEN)
    assert controller.machine.last_error.error == ErrorCode.NONE


def test_the_image_is_given_time_to_follow_an_answer(controller: MachineFixture) -> None:
    controller.step(metadata())
    controller.answer(TAKEN)
    assert controller.step(metadata()) == [] == controller.advance(MAX_BACKOFF_MS - 1)
    assert len(controller.advance(1)) == 1


def test_another_active_controller_is_asked_at_once(controller: MachineFixture) -> None:
    controller.step(metadata())
    assert controller.step(ControllerChanged(1)) == [], "one is under way"
    controller.answer(REFUSED)
    assert controller.step(ControllerChanged(-1)) == [] == controller.step(ControllerChanged(-1))
    assert len(controller.step(ControllerChanged(2))) == 1


def test_a_request_without_an_answer_is_given_up_and_repeated(controller: MachineFixture) -> None:
    controller.step(metadata())
    first = controller.sent[-1]
    assert first.timeout_ms == REQUEST_TIMEOUT_MS
    assert len(controller.advance(REQUEST_TIMEOUT_MS + 100)) == 1
    assert controller.answer(TAKEN, first.number) == []
    assert controller.step(metadata()) == [], "the second is still under way"
    controller.answer(REFUSED)
    assert len(controller.advance(200)) == 1
