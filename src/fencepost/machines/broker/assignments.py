"""Tells the controller in which log directories this broker's replicas are (KIP-858).

Theory of operation
-------------------
What `ReplicasPlaced` says is kept, the latest of a replica only, until the controller has answered
for it, and sent in requests of at most 2,000 replicas, one at a time. Nothing is sent before the
broker is registered, and before the metadata know of directories: then it waits, in case they
are to be told one day. Driven like `lifecycle`; `broker_epoch` is that machine's.

| answered with                                        | then                                    |
|------------------------------------------------------|-----------------------------------------|
| an error for the whole, or nothing                   | again after a back-off                  |
| a row: NONE                                          | done                                    |
| a row: UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, | done: the replica was deleted or moved  |
| NOT_LEADER_OR_FOLLOWER                               | away meanwhile (KAFKA-17190)            |
| a row: any other error, or no row                    | again after a back-off                  |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, Final

from fencepost.machines.backoff import backoff_ms
from fencepost.machines.broker.inputs import (
    ControllerAnswered,
    ControllerChanged,
    ControllerRequest,
    MetadataApplied,
    Outcome,
    ReplicasPlaced,
)
from fencepost.machines.broker.lifecycle import FIRST_BACKOFF_MS
from fencepost.machines.broker.requests import assignment_request
from fencepost.machines.effects import CONTROLLER, Effect, Send, TimerFired
from fencepost.machines.outbox import StepOutbox
from fencepost.wire.api.assign_replicas_to_dirs import AssignReplicasToDirsResponse
from fencepost.wire.errors import ErrorCode, error_name
from fencepost.wire.types import Uuid

ASSIGN_TIMER: Final = "assign"
ASSIGNED_AT_ONCE: Final = 2_000
"""Replicas in one request; Kafka's brokers stop at 2,250."""
MAX_BACKOFF_MS: Final = 10_000
REQUEST_TIMEOUT_MS: Final = 30_000

_SETTLED: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
)

_Replica = tuple[Uuid, int]


class DirectoryAssignments:
    """The machine; see the module."""

    def __init__(self, broker_id: int, broker_epoch: Callable[[], int]) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._untold: dict[_Replica, Uuid] = {}
        self._told: dict[_Replica, Uuid] = {}
        self._has_directories = False
        self._number = 0
        self._is_backing_off = False
        self._failures = 0
        self._outbox = StepOutbox()
        self.last_error = Outcome(ErrorCode.NONE)
        """Of the last request that was answered."""

    @property
    def unassigned(self) -> Iterable[tuple[Uuid, int]]:
        """The replicas, by topic id, that the controller has not noted the directory of."""
        return self._untold if self._has_directories else ()

    def step(self, input_: Any, now_ms: int, wall_ms: int) -> list[Effect]:
        """Take one input; see the module. Nothing here has a timestamp."""
        _HANDLERS[type(input_)](self, input_, now_ms)
        return self._outbox.take()

    def _step_placed(self, placed: ReplicasPlaced, now_ms: int) -> None:
        for topic_id, index, directory_id in placed.placed:
            self._untold[topic_id, index] = directory_id
        self._report_if_due(now_ms)

    def _step_metadata(self, applied: MetadataApplied, now_ms: int) -> None:
        self._has_directories = applied.image.has_directories
        self._report_if_due(now_ms)

    def _step_controller_changed(self, changed: ControllerChanged, now_ms: int) -> None:
        self._is_backing_off &= changed.controller_id < 0  # that was for another controller
        self._report_if_due(now_ms)

    def _step_timer(self, fired: TimerFired, now_ms: int) -> None:
        self._is_backing_off = False
        if self._told:
            self._settle(ErrorCode.REQUEST_TIMED_OUT, None, now_ms)
        else:
            self._report_if_due(now_ms)

    def _step_answered(self, answered: ControllerAnswered, now_ms: int) -> None:
        if answered.number != self._number or not self._told:
            return  # it was given up
        response = answered.response
        error = answered.error if response is None else response.error_code
        self._settle(error, response, now_ms)

    def _report_if_due(self, now_ms: int) -> None:
        epoch = self._broker_epoch()
        is_due = self._untold and not self._told and not self._is_backing_off
        if not is_due or not self._has_directories or epoch < 0:
            return
        self._told = dict(islice(self._untold.items(), ASSIGNED_AT_ONCE))
        self._number += 1
        rows = [(topic_id, index, one) for (topic_id, index), one in self._told.items()]
        request = assignment_request(self._broker_id, epoch, rows)
        asked = ControllerRequest(self._number, request, REQUEST_TIMEOUT_MS)
        self._outbox.emit(Send(CONTROLLER, asked))
        self._outbox.set_timer(ASSIGN_TIMER, now_ms + REQUEST_TIMEOUT_MS)

    def _settle(
        self, error: int, response: AssignReplicasToDirsResponse | None, now_ms: int
    ) -> None:
        """Forget what the controller has answered for, unless it is elsewhere by now."""
        told, self._told = self._told, {}
        if error == ErrorCode.NONE and response is not None:
            for replica, row_error in _rows(response):
                if row_error in _SETTLED:
                    directory_id = told.pop(replica, None)
                    if directory_id is not None and self._untold[replica] == directory_id:
                        del self._untold[replica]
                else:
                    error = row_error
        self.last_error = Outcome(ErrorCode.NONE)
        if error == ErrorCode.NONE and not told:
            self._failures = 0
            self._outbox.set_timer(ASSIGN_TIMER, None)
            self._report_if_due(now_ms)
            return
        if error:
            reason = f"the controller does not note where replicas are: {error_name(error)}"
            self.last_error = Outcome(error, reason)
        delay_ms = int(backoff_ms(self._failures, FIRST_BACKOFF_MS, MAX_BACKOFF_MS))
        self._failures += 1
        self._is_backing_off = True
        self._outbox.set_timer(ASSIGN_TIMER, now_ms + delay_ms)


_HANDLERS: Final[dict[type[Any], Callable[[DirectoryAssignments, Any, int], None]]] = {
    ReplicasPlaced: DirectoryAssignments._step_placed,
    MetadataApplied: DirectoryAssignments._step_metadata,
    ControllerChanged: DirectoryAssignments._step_controller_changed,
    ControllerAnswered: DirectoryAssignments._step_answered,
    TimerFired: DirectoryAssignments._step_timer,
}
"""The method that takes each kind of input."""


def _rows(response: AssignReplicasToDirsResponse) -> list[tuple[_Replica, int]]:
    return [
        ((topic.topic_id, row.partition_index), row.error_code)
        for directory in response.directories
        for topic in directory.topics
        for row in topic.partitions
    ]
