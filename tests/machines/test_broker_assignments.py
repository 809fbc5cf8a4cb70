"""Telling the controller in which directories replicas are: batches, rows, back-off."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.machines.broker import (
    ControllerAnswered,
    ControllerChanged,
    DirectoryAssignments,
    MetadataApplied,
    ReplicasPlaced,
)
from fencepost.machines.broker.assignments import ASSIGNED_AT_ONCE, REQUEST_TIMEOUT_MS
from fencepost.wire.api.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryDataResponse,
    PartitionDataResponse,
    TopicDataResponse,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

from .broker_fixtures import DIRECTORY, OTHER_DIRECTORY, MachineFixture, image

TOPIC = Uuid(b"topic-of-it-all!")


def rows(request: AssignReplicasToDirsRequest) -> list[tuple[Uuid, int, Uuid]]:
    return [
        (topic.topic_id, row.partition_index, directory.id)
        for directory in request.directories
        for topic in directory.topics
        for row in topic.partitions
    ]


def response(
    request: AssignReplicasToDirsRequest, errors: dict[int, ErrorCode] | None = None
) -> AssignReplicasToDirsResponse:
    return AssignReplicasToDirsResponse(
        directories=[
            DirectoryDataResponse(
                id=directory.id,
                topics=[
                    TopicDataResponse(
                        topic_id=topic.topic_id,
                        partitions=[
                            PartitionDataResponse(
                                partition_index=row.partition_index,
                                error_code=(errors or {}).get(row.partition_index, ErrorCode.NONE),
                            )
                            for row in topic.partitions
                        ],
                    )
                    for topic in directory.topics
                ],
            )
            for directory in request.directories
        ]
    )


class Fixture(MachineFixture):
    def __init__(self) -> None:
        self.broker_epoch = 50
        super().__init__(DirectoryAssignments(1, lambda: self.broker_epoch))

    def place(self, *indexes: int, directory: Uuid = DIRECTORY) -> list[Any]:
        return self.step(ReplicasPlaced([(TOPIC, index, directory) for index in indexes]))


@pytest.fixture
def machine() -> Fixture:
    fixture = Fixture()
    fixture.step(MetadataApplied(image(1)))
    return fixture


def test_replicas_are_told_of_with_the_broker_epoch(machine: Fixture) -> None:
    (request,) = machine.place(0, 1)
    assert (request.broker_id, request.broker_epoch) == (1, 50)
    assert rows(request) == [(TOPIC, 0, DIRECTORY), (TOPIC, 1, DIRECTORY)]
    assert machine.answer(response(request)) == []
    assert machine.advance(10 * REQUEST_TIMEOUT_MS) == []


def test_before_the_metadata_know_directories_it_waits() -> None:
    machine = Fixture()
    assert machine.place(0) == []
    assert machine.step(MetadataApplied(image(1, level=16))) == []
    (request,) = machine.step(MetadataApplied(image(2, level=17)))
    assert rows(request) == [(TOPIC, 0, DIRECTORY)]


def test_before_the_broker_is_registered_it_waits(machine: Fixture) -> None:
    machine.broker_epoch = -1
    assert machine.place(0) == []
    machine.broker_epoch = 51
    (request,) = machine.step(MetadataApplied(image(2)))
    assert request.broker_epoch == 51


def test_many_are_told_of_in_several_requests_one_at_a_time(machine: Fixture) -> None:
    (first,) = machine.place(*range(ASSIGNED_AT_ONCE + 5))
    assert len(rows(first)) == ASSIGNED_AT_ONCE
    assert machine.place(ASSIGNED_AT_ONCE + 5) == []
    (second,) = machine.answer(response(first))
    assert [index for _, index, _ in rows(second)] == list(
        range(ASSIGNED_AT_ONCE, ASSIGNED_AT_ONCE + 6)
    )


def test_what_moves_meanwhile_is_told_of_again(machine: Fixture) -> None:
    (first,) = machine.place(0)
    assert machine.place(0, directory=OTHER_DIRECTORY) == []
    (second,) = machine.answer(response(first))
    assert rows(second) == [(TOPIC, 0, OTHER_DIRECTORY)]
    machine.answer(response(second))
    assert machine.advance(10 * REQUEST_TIMEOUT_MS) == []


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ],
)
def test_replicas_that_are_gone_are_told_of_no_more(machine: Fixture, error: ErrorCode) -> None:
    (request,) = machine.place(0, 1)
    machine.answer(response(request, {0: error}))
    assert machine.advance(10 * REQUEST_TIMEOUT_MS) == []
    assert machine.machine.last_error.error == ErrorCode.NONE


def test_another_error_of_a_row_is_retried_for_that_row(machine: Fixture) -> None:
    (request,) = machine.place(0, 1)
    assert machine.answer(response(request, {1: ErrorCode.UNKNOWN_SERVER_ERROR})) == []
    assert machine.machine.last_error.error == ErrorCode.UNKNOWN_SERVER_ERROR
    (again,) = machine.advance(100)
    assert rows(again) == [(TOPIC, 1, DIRECTORY)]


def test_a_row_that_is_not_answered_is_retried(machine: Fixture) -> None:
    machine.place(0)
    assert machine.answer(AssignReplicasToDirsResponse()) == []
    (again,) = machine.advance(100)
    assert rows(again) == [(TOPIC, 0, DIRECTORY)]


@pytest.mark.parametrize(
    "answer",
    [
        ErrorCode.REQUEST_TIMED_OUT,
        AssignReplicasToDirsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH),
    ],
)
def test_a_refused_request_is_retried_with_the_epoch_of_then(machine: Fixture, answer: Any) -> None:
    machine.place(0)
    for backoff_ms in (100, 200, 400):
        assert machine.answer(answer) == []
        machine.broker_epoch += 1
        assert machine.place(0) == [] == machine.advance(backoff_ms - 1)
        (again,) = machine.advance(1)
        assert again.broker_epoch == machine.broker_epoch
    machine.answer(response(again))
    machine.place(1)
    machine.answer(answer)
    assert len(machine.advance(100)) == 1, "the back-off begins again"


def test_another_controller_is_asked_without_waiting_for_the_backoff(machine: Fixture) -> None:
    machine.place(0)
    assert machine.step(ControllerChanged(1)) == [], "one is under way"
    machine.answer(ErrorCode.NOT_CONTROLLER)
    assert machine.step(ControllerChanged(-1)) == []
    assert len(machine.step(ControllerChanged(2))) == 1


def test_a_request_without_an_answer_is_given_up_and_repeated(machine: Fixture) -> None:
    machine.place(0)
    first = machine.sent[-1]
    assert first.timeout_ms == REQUEST_TIMEOUT_MS
    (again,) = machine.advance(REQUEST_TIMEOUT_MS + 100)
    late = ControllerAnswered(first.number, ErrorCode.NONE, response(again))
    assert machine.step(late) == []
    assert len(machine.advance(REQUEST_TIMEOUT_MS + 200)) == 1, "the second still waits"


def test_replicas_are_unassigned_until_the_controller_has_noted_them(machine: Fixture) -> None:
    assert list(machine.machine.unassigned) == []
    (request,) = machine.place(0, 1)
    assert list(machine.machine.unassigned) == [(TOPIC, 0), (TOPIC, 1)]
    machine.answer(response(request, {1: ErrorCode.UNKNOWN_SERVER_ERROR}))
    assert list(machine.machine.unassigned) == [(TOPIC, 1)]
    assert "UNKNOWN_SERVER_ERROR" in machine.machine.last_error.reason
