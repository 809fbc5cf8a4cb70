"""The active controller of this node: decisions become records, records become committed, then the
reply leaves.

Theory of operation
-------------------
`submit` lets the controller decide at once. Its records are applied to the controller's own state
immediately, so that the next decision builds on them, and go to the metadata log as one batch. The
caller gets the reply when the batch is committed and the node's image has it. A decision without
records is answered when everything decided before it is committed, because it may rest on that
("the topic exists" must not be said of a topic whose creation may still fail).

Batches are handed to the quorum machine at the offset that their decisions counted on; what is
decided while some are on their way follows when those are committed, all at once. If batches are
refused, or lost with the leadership, the controller's state is ahead of the log. Then they are void
and so is all that was decided behind them, for it was built on them and has not been handed over.
Callers get the error: what they asked for has not happened or, after a lost leadership, may or may
not happen. The controller is thrown away and built again from the committed image, once all that is
in the log is committed; until then callers get NOT_CONTROLLER (KAFKA-13100).

A node decides only while its quorum machine leads with an epoch of which something is committed;
before, and after, callers get NOT_CONTROLLER.

The first decision of a new controller is its own: a metadata transaction that its predecessor has
left unfinished is aborted, and a cluster without features gets its first records (KIP-868). What is
to be done without being asked, it decides by one timer: brokers that were silent for too long are
fenced, unclean elections looked for, expired delegation tokens removed, and an idle log gets a
NoOpRecord now and then, by which followers show how far behind they are (KIP-835). All of that
works without a broker in the process.

A controller that does not know the level of a finalized feature would decide what is wrong there.
It hands the lead on at once, as often as it gets it.

No asyncio here, and no clock: the ports have both.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from fencepost.batch.records import build_batch
from fencepost.machines.controller import Controller, Decision
from fencepost.machines.controller.config import TOKENS_PER_SWEEP
from fencepost.machines.controller.elections import ELECTIONS_PER_ROUND
from fencepost.machines.image import ClusterImage
from fencepost.machines.image.records import record_value
from fencepost.machines.probes import probe
from fencepost.machines.quorum import AppendOutcome, AppendRecords, Role
from fencepost.machines.quorum.inputs import Resign, UpgradeKRaftVersion
from fencepost.runtime.asks_controller import OnReply
from fencepost.runtime.metadata.host import METADATA_KEY, MetadataHost
from fencepost.runtime.ports import ArmedTimer, MachinePorts
from fencepost.wire.errors import ErrorCode

log = logging.getLogger(__name__)

MAX_WAITING = 10_000
"""Callers that may wait for their records to be committed; more get THROTTLING_QUOTA_EXCEEDED."""

Decide = Callable[[Controller], Decision]


class Periods(Struct, frozen=True):
    """How often an active controller acts by itself, in milliseconds; 0 is never.

    `unclean_election_ms` is Kafka's `unclean.leader.election.interval.ms`, `preferred_election_ms`
    its `leader.imbalance.check.interval.seconds`, or 0 without `auto.leader.rebalance.enable`,
    `token_sweep_ms` its `delegation.token.expiry.check.interval.ms`, or 0 without tokens,
    `max_idle_ms` its `metadata.max.idle.interval.ms`; a lone voter has no followers to show
    anything, and writes no NoOpRecords.
    """

    unclean_election_ms: int = 300_000
    preferred_election_ms: int = 300_000
    token_sweep_ms: int = 0
    max_idle_ms: int = 500


class _Waiting:
    """A decision, from `submit` to its answer."""

    __slots__ = ("batch", "is_committed", "on_reply", "reply")

    def __init__(self, on_reply: OnReply, reply: Any, batch: bytearray | None) -> None:
        self.on_reply = on_reply
        self.reply = reply
        self.batch = batch
        self.is_committed = batch is None  # as far as it alone is concerned


class ControllerHost:
    """Runs the controller while this node leads the metadata quorum."""

    def __init__(
        self,
        ports: MachinePorts,
        metadata: MetadataHost,
        make_controller: Callable[[ClusterImage], Controller],
        *,
        periods: Periods | None = None,
    ) -> None:
        self._ports = ports
        self._metadata = metadata
        self._make_controller = make_controller
        self._periods = Periods() if periods is None else periods
        self._controller: Controller | None = None
        self._epoch = -1
        self._next_offset = -1  # where the next record will stand, batches on their way included
        self._waiting: deque[_Waiting] = deque()  # in the order of decisions
        self._in_flight: list[_Waiting] = []  # those of them that the machine was given
        self._unwritten: list[_Waiting] = []  # those that it will be given next
        self._unwritten_offset = -1  # where the first of these is to stand
        self._rebuild_at: int | None = None
        self._timer: ArmedTimer | None = None
        self._written_ms = 0
        self._next_unclean_ms = 0
        self._next_preferred_ms = 0
        self._next_sweep_ms = 0
        self.on_unfit: Callable[[str], None] = lambda reason: None
        """Told why this node leads the quorum and cannot be the active controller."""
        metadata.on_step(self._stepped)

    @property
    def controller(self) -> Controller | None:
        """The controller, decisions that are still to be committed included; None if not active."""
        return self._controller

    def submit(self, decide: Decide, on_reply: OnReply, max_batch_bytes: int | None = None) -> None:
        """Decide now; answer once that is committed. See the module docstring.

        A decision that comes to a larger batch than `max_batch_bytes` is dropped, and answered with
        POLICY_VIOLATION.
        """
        controller = self._controller
        if controller is None:
            on_reply(ErrorCode.NOT_CONTROLLER, None)
            return
        if len(self._waiting) >= MAX_WAITING:
            probe("controller.host.full")
            on_reply(ErrorCode.THROTTLING_QUOTA_EXCEEDED, None)
            return
        self._follow_log(controller)
        decision = decide(controller)
        if decision.records:
            self._write(controller, decision, on_reply, max_batch_bytes)
        elif self._waiting:
            self._waiting.append(_Waiting(on_reply, decision.reply, None))
        else:
            on_reply(ErrorCode.NONE, decision.reply)

    def upgrade_kraft_version(
        self, level: int, is_dry_run: bool, on_outcome: Callable[[AppendOutcome], None]
    ) -> None:
        """Have the quorum itself run at another level of `kraft.version` (KIP-853)."""
        if self._controller is None:
            on_outcome(AppendOutcome(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            return
        self._ports.driver.feed(
            METADATA_KEY, UpgradeKRaftVersion(on_outcome, level, self._epoch, is_dry_run)
        )

    # -- writing ---------------------------------------------------------------------------

    def _follow_log(self, controller: Controller) -> None:
        """Records that are the quorum's own also take offsets."""
        if not self._unwritten and not self._in_flight:
            self._next_offset = self._metadata.machine.end_offset
        if controller.next_offset != self._next_offset:
            controller.skip_to(self._next_offset)

    def _write(
        self,
        controller: Controller,
        decision: Decision,
        on_reply: OnReply,
        max_batch_bytes: int | None,
    ) -> None:
        """Apply the decision's records and have them committed."""
        base_offset = self._next_offset
        image = controller.image
        batch = build_batch(
            [(None, record_value(record, image)) for record in decision.records],
            timestamp_ms=self._ports.wall_ms(),
        )
        if max_batch_bytes is not None and len(batch) > max_batch_bytes:
            probe("controller.host.too.large")
            on_reply(ErrorCode.POLICY_VIOLATION, None)
            return
        controller.apply_all(decision.records, base_offset)
        self._written_ms = self._ports.now_ms()
        self._next_offset += len(decision.records)
        waiting = _Waiting(on_reply, decision.reply, batch)
        self._waiting.append(waiting)
        if not self._unwritten:
            self._unwritten_offset = base_offset
        self._unwritten.append(waiting)
        self._hand_over()

    def _hand_over(self) -> None:
        """Give the machine all that is to be written, unless it is still at what it was given."""
        if self._in_flight or not self._unwritten:
            return
        flight, self._unwritten = self._unwritten, []
        self._in_flight = flight
        batches = [waiting.batch for waiting in flight if waiting.batch is not None]

        def on_outcome(outcome: AppendOutcome) -> None:
            if self._in_flight is flight:
                self._landed(outcome.error)

        self._ports.driver.feed(
            METADATA_KEY, AppendRecords(batches, on_outcome, self._epoch, self._unwritten_offset)
        )

    def _landed(self, error: ErrorCode) -> None:
        """What was handed over is committed, or will not be."""
        if error is not ErrorCode.NONE:
            self._void(error)
            return
        for waiting in self._in_flight:
            waiting.is_committed = True
            waiting.batch = None
        self._in_flight = []
        self._metadata.catch_up()
        self._answer_committed()
        self._hand_over()

    def _answer_committed(self) -> None:
        while self._waiting and self._waiting[0].is_committed:
            waiting = self._waiting.popleft()
            self._answer(waiting, ErrorCode.NONE, waiting.reply)

    # -- failing ---------------------------------------------------------------------------

    def _void(self, error: ErrorCode) -> None:
        """Drop the records being written, and all decisions after them."""
        is_movable = error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.INVALID_UPDATE_VERSION)
        probe("controller.host.write.failed")
        first = self._in_flight[0]
        void: list[_Waiting] = []
        while not void or void[-1] is not first:
            void.append(self._waiting.pop())
        if is_movable:
            log.info(
                "dropping %d uncommitted decision(s); the next controller decides: %s",
                len(void),
                error.name,
            )
        else:
            log.error("cannot commit %d decision(s): %s", len(void), error.name)
        self._in_flight, self._unwritten = [], []
        self._revert_state()
        for one in reversed(void):
            self._answer(one, ErrorCode.NOT_CONTROLLER if is_movable else error, None)

    def _revert_state(self) -> None:
        """Forget what was decided and not committed: back to the last committed state.

        What is in the log stays there and will be committed, so the new controller waits for it.
        """
        self._retire_controller()
        self._rebuild_at = self._metadata.machine.end_offset

    def _maybe_rebuild(self) -> None:
        """Go on from the committed state, once that is all there is."""
        machine = self._metadata.machine
        if self._rebuild_at is not None and machine.high_watermark >= self._rebuild_at:
            probe("controller.host.rebuilt")
            self._metadata.catch_up()
            self._begin()

    # -- taking over and giving up ---------------------------------------------------------

    def _stepped(self) -> None:
        """After a step of the quorum machine: become active, or stop being so; go on writing."""
        machine = self._metadata.machine
        if not machine.is_active_leader:
            self._give_up()
        elif machine.epoch != self._epoch:
            self._give_up()
            self._epoch = machine.epoch
            self._begin()
        else:
            self._maybe_rebuild()

    def _begin(self) -> None:
        """Decide from now on, from the committed image."""
        self._rebuild_at = None
        controller = self._make_controller(self._first_image())
        reason = controller.unsupported_feature()
        if reason is not None:
            self._refuse_the_lead(reason)
            return
        self._controller = controller
        log.info("active controller of epoch %d", self._epoch)
        self._written_ms = self._ports.now_ms()
        self._next_unclean_ms = self._written_ms + self._periods.unclean_election_ms
        self._next_preferred_ms = self._written_ms + self._periods.preferred_election_ms
        self._next_sweep_ms = self._written_ms + self._periods.token_sweep_ms
        first = self._metadata.bootstrap_records
        self.submit(lambda c: c.decide_take_over(first), _ignore)
        self._arm()

    def _first_image(self) -> ClusterImage:
        """What a controller begins with: the committed image.

        Some of what the controller before it had decided may never be committed (KAFKA-13100).
        """
        return self._metadata.image

    def _refuse_the_lead(self, reason: str) -> None:
        """The cluster runs at a level that this controller does not know: let another decide."""
        probe("controller.host.unfit")
        log.error("this node cannot be the active controller: %s", reason)
        self.on_unfit(reason)
        if len(self._metadata.machine.voters) > 1:
            self._ports.driver.feed(METADATA_KEY, Resign())

    def _retire_controller(self) -> None:
        """It decides no more; the next one begins from what is committed."""
        self._controller = None

    def _give_up(self) -> None:
        """Another controller decides: requests that wait are answered with NOT_CONTROLLER."""
        if self._epoch < 0:
            return
        is_in_order = self._metadata.machine.role is Role.RESIGNED
        log.log(logging.INFO if is_in_order else logging.WARNING, "no longer the active controller")
        self._epoch = -1
        self._retire_controller()
        self._rebuild_at = None
        self._disarm()
        self._in_flight, self._unwritten = [], []
        waiting, self._waiting = self._waiting, deque()
        for one in waiting:
            self._answer(one, ErrorCode.NOT_CONTROLLER, None)

    # -- acting without being asked --------------------------------------------------------

    def _arm(self) -> None:
        """Set the timer for whatever is due first.

        A broker that is unfenced after this has a whole session from then on, so it is in time to
        look again after as long.
        """
        self._disarm()
        controller = self._controller
        if controller is None:
            return
        deadlines = [controller.next_session_look_ms(self._ports.now_ms())]
        if self._periods.unclean_election_ms > 0:
            deadlines.append(self._next_unclean_ms)
        if self._periods.preferred_election_ms > 0:
            deadlines.append(self._next_preferred_ms)
        if self._periods.token_sweep_ms > 0:
            deadlines.append(self._next_sweep_ms)
        if self._writes_when_idle:
            deadlines.append(self._written_ms + self._periods.max_idle_ms)
        self._timer = self._ports.timers.at(min(deadlines), self._act)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def _writes_when_idle(self) -> bool:
        return self._periods.max_idle_ms > 0 and len(self._metadata.machine.voters) > 1

    def _act(self) -> None:
        """Do what is due."""
        self._timer = None
        if self._controller is None:
            return
        now_ms = self._ports.now_ms()
        self.submit(lambda c: c.decide_session_expiry(now_ms), _note_fenced)
        if self._periods.unclean_election_ms > 0 and now_ms >= self._next_unclean_ms:
            self._next_unclean_ms = now_ms + self._periods.unclean_election_ms
            self._decide_in_rounds(lambda c: c.decide_unclean_elections(), ELECTIONS_PER_ROUND)
        if self._periods.preferred_election_ms > 0 and now_ms >= self._next_preferred_ms:
            self._next_preferred_ms = now_ms + self._periods.preferred_election_ms
            self._decide_in_rounds(lambda c: c.decide_preferred_elections(), ELECTIONS_PER_ROUND)
        if self._periods.token_sweep_ms > 0 and now_ms >= self._next_sweep_ms:
            self._next_sweep_ms = now_ms + self._periods.token_sweep_ms
            self._decide_in_rounds(
                lambda c: c.security.decide_token_sweep(self._ports.wall_ms()), TOKENS_PER_SWEEP
            )
        if self._writes_when_idle and now_ms - self._written_ms >= self._periods.max_idle_ms:
            self.submit(lambda c: c.decide_no_op(), _ignore)
        self._arm()

    def _decide_in_rounds(self, decide: Decide, round_size: int) -> None:
        """Decide on as much as fits into one round, and when that is committed, on the rest."""

        def on_reply(error: ErrorCode, done: int | None) -> None:
            if error is ErrorCode.NONE and done and done >= round_size:
                self.submit(decide, on_reply)

        self.submit(decide, on_reply)

    def _answer(self, waiting: _Waiting, error: ErrorCode, reply: Any) -> None:
        try:
            waiting.on_reply(error, reply)
        except Exception:
            log.exception("answering a controller request failed")


def _ignore(error: ErrorCode, reply: Any) -> None:
    """No request waits for it; what was not committed is decided again when it is due."""


def _note_fenced(error: ErrorCode, fenced: int | None) -> None:
    if fenced is not None:
        log.warning("fencing broker %d: it sent no heartbeat within its session timeout", fenced)
