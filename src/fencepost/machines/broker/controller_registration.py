"""A controller registers with the active one, and looks after its registration (KIP-919).

Theory of operation
-------------------
A registration is a record of the metadata log, and no session goes with it. So the image says
whether there is anything to do: the registration is missing, or is that of an earlier process, or
says something else than is true now. Then it is sent, and again after a back-off if it was refused,
or if the image still lacks it. Clusters with an older `metadata.version` do not know of such
registrations. A node without a listener for controllers does not register: no node could reach it.

Driven like `lifecycle`: `MetadataApplied` after every image, `ControllerAnswered` for every
`ControllerRequest`, `TimerFired` for every `SetTimer`, `ControllerChanged` when another is active.

| what the image says                         | under way | then                            |
|---------------------------------------------|-----------|---------------------------------|
| metadata.version without such registrations | -         | nothing                         |
| the registration as it is to be             | -         | nothing; the back-off is over   |
| another one, or none                        | no        | register                        |
| another one, or none                        | yes       | wait for the answer             |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from fencepost.machines.backoff import backoff_ms
from fencepost.machines.broker.inputs import (
    ControllerAnswered,
    ControllerChanged,
    ControllerRequest,
    MetadataApplied,
    Outcome,
    Registration,
)
from fencepost.machines.broker.lifecycle import FIRST_BACKOFF_MS
from fencepost.machines.broker.requests import controller_registration_request
from fencepost.machines.controller.config import METADATA_VERSION_FEATURE
from fencepost.machines.controller.features import CONTROLLER_REGISTRATION_LEVEL
from fencepost.machines.effects import CONTROLLER, Effect, Send, TimerFired
from fencepost.machines.image import ClusterImage
from fencepost.machines.outbox import StepOutbox
from fencepost.wire.errors import ErrorCode, error_name

REGISTER_TIMER: Final = "register"
MAX_BACKOFF_MS: Final = 10_000
REQUEST_TIMEOUT_MS: Final = 5_000


class ControllerRegistration:
    """The machine; see the module."""

    def __init__(self, registration: Registration) -> None:
        self._registration = registration
        self._image = ClusterImage()
        self._controller_id = -1
        self._number = 0
        self._is_under_way = False
        self._failures = 0
        self._outbox = StepOutbox()
        self.last_error = Outcome(ErrorCode.NONE)
        """Of the last request that was answered."""

    def step(self, input_: Any, now_ms: int, wall_ms: int) -> list[Effect]:
        """Take one input; see the module. Nothing here has a timestamp."""
        _HANDLERS[type(input_)](self, input_, now_ms)
        return self._outbox.take()

    def _step_metadata(self, applied: MetadataApplied, now_ms: int) -> None:
        self._image = applied.image
        self._register_if_due(now_ms)

    def _step_controller_changed(self, changed: ControllerChanged, now_ms: int) -> None:
        is_new = changed.controller_id not in (-1, self._controller_id)
        self._controller_id = changed.controller_id
        if is_new:
            self._register_if_due(now_ms, at_once=True)

    def _step_timer(self, fired: TimerFired, now_ms: int) -> None:
        if self._is_under_way:
            self._settle(ErrorCode.REQUEST_TIMED_OUT, now_ms)
        else:
            self._register_if_due(now_ms, at_once=True)

    def _step_answered(self, answered: ControllerAnswered, now_ms: int) -> None:
        if answered.number != self._number or not self._is_under_way:
            return  # it was given up
        response = answered.response
        self._settle(int(answered.error) if response is None else response.error_code, now_ms)

    def is_registered(self) -> bool:
        """Whether the registration stands, or cannot be."""
        wanted, image = self._registration, self._image
        if not wanted.listeners:
            return True
        if image.features.get(METADATA_VERSION_FEATURE, 0) < CONTROLLER_REGISTRATION_LEVEL:
            return True
        present = image.controllers.get(wanted.broker_id)
        return (
            present is not None
            and present.incarnation_id == wanted.incarnation_id
            and present.listeners == wanted.listeners
            and present.features == wanted.features
        )

    def _register_if_due(self, now_ms: int, *, at_once: bool = False) -> None:
        """Register, if the image lacks it; `at_once`: without waiting for the back-off."""
        if self.is_registered():
            self._failures = 0
            return
        if self._is_under_way or (self._failures and not at_once):
            return
        self._number += 1
        self._is_under_way = True
        request = controller_registration_request(self._registration)
        asked = ControllerRequest(self._number, request, REQUEST_TIMEOUT_MS)
        self._outbox.emit(Send(CONTROLLER, asked))
        self._outbox.set_timer(REGISTER_TIMER, now_ms + REQUEST_TIMEOUT_MS)

    def _settle(self, code: int, now_ms: int) -> None:
        """An answer, with an error or without: what counts is the image, which follows soon."""
        self._is_under_way = False
        self.last_error = Outcome(ErrorCode.NONE)
        delay_ms = MAX_BACKOFF_MS
        if code:
            reason = f"this controller's registration was refused: {error_name(code)}"
            self.last_error = Outcome(code, reason)
            delay_ms = int(backoff_ms(self._failures, FIRST_BACKOFF_MS, MAX_BACKOFF_MS))
        self._failures += 1
        self._outbox.set_timer(REGISTER_TIMER, now_ms + delay_ms)


_HANDLERS: Final[dict[type[Any], Callable[[ControllerRegistration, Any, int], None]]] = {
    MetadataApplied: ControllerRegistration._step_metadata,
    ControllerChanged: ControllerRegistration._step_controller_changed,
    ControllerAnswered: ControllerRegistration._step_answered,
    TimerFired: ControllerRegistration._step_timer,
}
"""The method that takes each kind of input."""
