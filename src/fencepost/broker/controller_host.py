"""The active controller of this node: decisions become records, records become committed, then the
reply leaves.

Theory of operation
-------------------
`submit` lets the controller decide at once. Its records are applied to the controller's own state
immediately, so that the next decision builds on them, and go to the metadata log as one batch. The
caller hears of it when the batch is committed and the node's image has it. A decision without
records is answered when everything decided before it is committed, because it may rest on that
("the topic exists" must not be said of a topic whose creation may still fail).

If a batch cannot be committed, the controller's state is ahead of the log. It is thrown away and
built again from the committed image, and every caller that was waiting is told the error: what they
asked for has not happened, or, after a lost leadership, may or may not happen.

A node decides only while its quorum machine leads with an epoch of which something is committed;
before, and after, callers hear NOT_CONTROLLER.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from fencepost.batch.records import build_batch
from fencepost.broker.metadata import METADATA_KEY, MetadataHost
from fencepost.broker.ports import AsyncPorts
from fencepost.machines.controller import Controller, Decision
from fencepost.machines.image import ClusterImage
from fencepost.machines.quorum import AppendOutcome, AppendRecords
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.metadata import encode_record

log = logging.getLogger(__name__)

MAX_WAITING = 10_000
"""Callers that may wait for their records to be committed; more hear THROTTLING_QUOTA_EXCEEDED."""

Decide = Callable[[Controller], Decision]
OnReply = Callable[[ErrorCode, Any], None]


class _Waiting:
    """A caller, and the offset behind which it may be answered."""

    __slots__ = ("end_offset", "on_reply", "reply")

    def __init__(self, end_offset: int, on_reply: OnReply, reply: Any) -> None:
        self.end_offset = end_offset
        self.on_reply = on_reply
        self.reply = reply


class ControllerHost:
    """Runs the controller while this node leads the metadata quorum."""

    def __init__(
        self,
        ports: AsyncPorts,
        metadata: MetadataHost,
        make_controller: Callable[[ClusterImage], Controller],
    ) -> None:
        self._ports = ports
        self._metadata = metadata
        self._make_controller = make_controller
        self._controller: Controller | None = None
        self._epoch = -1
        self._next_offset = -1  # where the next record will stand, appends on their way included
        self._waiting: deque[_Waiting] = deque()
        self._on_active: list[Callable[[], None]] = []
        metadata.on_step(self._stepped)

    @property
    def controller(self) -> Controller | None:
        """The controller, decisions that are still to be committed included; None if not active."""
        return self._controller

    def on_active(self, callback: Callable[[], None]) -> None:
        """Call back whenever this node has become the active controller."""
        self._on_active.append(callback)

    def submit(self, decide: Decide, on_reply: OnReply) -> None:
        """Decide now; answer once that is committed. See the module docstring."""
        controller = self._controller
        if controller is None:
            on_reply(ErrorCode.NOT_CONTROLLER, None)
            return
        if len(self._waiting) >= MAX_WAITING:
            on_reply(ErrorCode.THROTTLING_QUOTA_EXCEEDED, None)
            return
        decision = decide(controller)
        if decision.records:
            self._append(controller, decision, on_reply)
            return
        if self._waiting:
            self._waiting.append(_Waiting(self._waiting[-1].end_offset, on_reply, decision.reply))
            return
        on_reply(ErrorCode.NONE, decision.reply)

    def _append(self, controller: Controller, decision: Decision, on_reply: OnReply) -> None:
        """Apply the decision's records and have them committed."""
        base_offset = self._next_offset
        controller.apply_all(decision.records, base_offset)
        batch = build_batch(
            [(None, encode_record(record)) for record in decision.records],
            timestamp_ms=self._ports.now_ms(),
        )
        self._next_offset += len(decision.records)
        self._waiting.append(_Waiting(self._next_offset, on_reply, decision.reply))
        self._ports.driver.feed(
            METADATA_KEY, AppendRecords([batch], self._on_outcome, self._epoch, base_offset)
        )

    def _on_outcome(self, outcome: AppendOutcome) -> None:
        """A batch is committed, or will not be."""
        if outcome.error is not ErrorCode.NONE:
            self._revert(outcome.error)
            return
        self._metadata.catch_up()
        self._answer_committed()

    def _stepped(self) -> None:
        """After a step of the quorum machine: become active, or stop being so."""
        machine = self._metadata.machine
        active = machine.is_active_leader
        if active and (self._controller is None or machine.epoch != self._epoch):
            self._epoch = machine.epoch
            self._next_offset = machine.end_offset
            self._controller = self._make_controller(self._metadata.image)
            log.info("active controller of epoch %d", self._epoch)
            for callback in self._on_active:
                callback()
        elif not active and self._controller is not None:
            self._controller = None
            log.warning("no longer the active controller")
            self._fail_waiting(ErrorCode.NOT_CONTROLLER)
        self._answer_committed()

    def _answer_committed(self) -> None:
        high_watermark = self._metadata.machine.high_watermark
        while self._waiting and self._waiting[0].end_offset <= high_watermark:
            waiting = self._waiting.popleft()
            self._answer(waiting, ErrorCode.NONE, waiting.reply)

    def _revert(self, error: ErrorCode) -> None:
        """Throw away what was decided and not committed."""
        log.error("records could not be committed: %s", error.name)
        if self._controller is not None:
            self._controller = self._make_controller(self._metadata.image)
            self._next_offset = self._metadata.machine.end_offset
        self._fail_waiting(
            ErrorCode.NOT_CONTROLLER if error is ErrorCode.NOT_LEADER_OR_FOLLOWER else error
        )

    def _fail_waiting(self, error: ErrorCode) -> None:
        waiting, self._waiting = self._waiting, deque()
        for one in waiting:
            self._answer(one, error, None)

    def _answer(self, waiting: _Waiting, error: ErrorCode, reply: Any) -> None:
        try:
            waiting.on_reply(error, reply)
        except Exception:
            log.exception("answering a controller request failed")
