"""A broker from its registration to the end of its controlled shutdown (KIP-631).

Theory of operation
-------------------
`step` takes an input and returns effects: `Send(CONTROLLER, ControllerRequest)`, `SetTimer`,
`Reply(token, Outcome)`, and `Fail` if a failed log directory cannot be reported. What is made of
the controller's answers is in the tables of `reactions`. How to drive it:

1. `MetadataApplied(image)` after every image this node applies, also before `Start`;
   `ControllerChanged` whenever another node is known to be the active controller.
2. `Start(registration, token)`. It registers, sends heartbeats that ask to stay fenced, and replies
   when this node has read the metadata log as far as its registration: from then on, the image may
   be trusted with files. Before, a topic in it may be an older one of the same name.
3. Load the logs, then `ReadyToUnfence(token)`. From now on heartbeats ask to be unfenced. It
   replies when the controller has done so: accept clients.
4. `BeginControlledShutdown(token)`. It replies when the process may stop.
5. Every `ControllerRequest` is answered with one `ControllerAnswered` of its number, at any time,
   or never: the machine has a timer of its own. Every `SetTimer` comes back as `TimerFired`.

`broker_epoch` is what other requests of this broker carry (AlterPartition, AllocateProducerIds).

One request is under way at a time, as in Kafka. A broker that is not registered sends a
registration, any other a heartbeat: after an interval, or at once after an update (the metadata
have reached the registration, the logs are loaded, a directory has failed, the broker is to stop).
Updates that come while a request is under way are sent when it is answered. After an error the next
request follows a back-off, from 100 ms doubled to the heartbeat interval; Kafka doubles to the
session timeout, which may be just too late for the session.

Which registration counts: the broker epoch of the last answer to a registration. Answers to earlier
requests are known by their number and change nothing. A registration that is repeated under the
same incarnation keeps its epoch, so it may be sent as often as need be. If the controller does not
know the registration any more, the broker registers again and gets a new epoch; it stays in its
state, and is unfenced by the next heartbeat.

An earlier incarnation that the metadata still have unfenced holds the registration up for a session
(DUPLICATE_BROKER_REGISTRATION). If it used log directories that this process has locked, or this
process is the active controller, it has ended for certain, and is fenced first, by a heartbeat with
its epoch. Kafka's brokers wait.

The registration says which log directories there are. A cluster whose `metadata.version` rises to
one that knows directories hears of them by a registration that is sent again (KAFKA-16757).

It must not know: sockets, files, clocks, randomness (the incarnation id is given), partitions.

Timers: "communication" (the next request), "request" (the one under way is given up), "startup",
"shutdown" (give up the hand-over, then the whole shutdown), "log-dirs".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from fencepost.machines.backoff import backoff_ms
from fencepost.machines.broker.inputs import (
    BeginControlledShutdown,
    ControllerAnswered,
    ControllerChanged,
    ControllerRequest,
    CordonLogDirs,
    LifecycleConfig,
    LogDirFailed,
    MetadataApplied,
    Outcome,
    ReadyToUnfence,
    Registration,
    Start,
)
from fencepost.machines.broker.reactions import (
    Ask,
    BrokerState,
    Next,
    Reaction,
    after_heartbeat,
    reaction_to,
)
from fencepost.machines.broker.refused_features import advice
from fencepost.machines.broker.requests import broker_registration_request
from fencepost.machines.broker.rules import RULES, LifecycleRules
from fencepost.machines.effects import CONTROLLER, Effect, Fail, Send, TimerFired
from fencepost.machines.image import BrokerImage, ClusterImage
from fencepost.machines.outbox import StepOutbox
from fencepost.machines.probes import probe
from fencepost.wire.api.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from fencepost.wire.errors import ErrorCode, error_name
from fencepost.wire.message import Message
from fencepost.wire.types import Uuid

COMMUNICATION_TIMER: Final = "communication"
REQUEST_TIMER: Final = "request"
STARTUP_TIMER: Final = "startup"
SHUTDOWN_TIMER: Final = "shutdown"
LOG_DIRS_TIMER: Final = "log-dirs"

FIRST_BACKOFF_MS: Final = 100
SOON_MS: Final = 50

_UNREGISTERED: Final = -1
_OK: Final = Outcome(ErrorCode.NONE)
_ENDING: Final = Outcome(ErrorCode.BROKER_NOT_AVAILABLE, "the broker is shutting down")


class _UnderWay(Struct, frozen=True):
    """The request that waits for an answer."""

    number: int
    ask: Ask
    broker_epoch: int
    reported: tuple[Uuid, ...]
    """The offline log directories in it."""


class BrokerLifecycle:
    """The machine; see the module."""

    def __init__(
        self, config: LifecycleConfig | None = None, rules: LifecycleRules = RULES
    ) -> None:
        self.config = config or LifecycleConfig()
        self._rules = rules
        self.state = BrokerState.NOT_RUNNING
        self.broker_epoch = _UNREGISTERED
        """The epoch of the registration, or -1 before there is one."""
        self.is_fenced = True
        """Whether the controller has this broker fenced, as of its last answer."""
        self.is_registered = False
        """Whether the registration stands, as far as this broker knows."""
        self.last_error = _OK
        """Of the last request that was answered."""
        self._registration: Registration | None = None
        self._image = ClusterImage()
        self._controller_id = -1
        self._is_ready = False
        self._start_token: list[Any] = []
        self._ready_token: list[Any] = []
        self._shutdown_token: list[Any] = []
        self._under_way: _UnderWay | None = None
        self._number = 0
        self._has_update = False
        self._failures = 0
        self._fenced_epoch = _UNREGISTERED  # of the earlier incarnation that was fenced
        self._says_directories = False
        self._gives_up_hand_over = False
        self._offline: dict[Uuid, int | None] = {}  # until when to report it; None: it is reported
        self._cordoned: tuple[Uuid, ...] = ()
        self._armed: set[str] = set()
        self._outbox = StepOutbox()

    def step(self, input_: Any, now_ms: int, wall_ms: int) -> list[Effect]:
        """Take one input; see the module. Nothing here has a timestamp."""
        _HANDLERS[type(input_)](self, input_, now_ms)
        return self._outbox.take()

    # What the broker itself says

    def _step_start(self, start: Start, now_ms: int) -> None:
        if self.state is BrokerState.SHUTTING_DOWN:
            self._outbox.reply(start.token, _ENDING)
            return
        assert self.state is BrokerState.NOT_RUNNING, "a broker starts once"
        self.state = BrokerState.STARTING
        self._registration = start.registration
        for directory_id in start.registration.offline_log_dirs:
            self._offline.setdefault(directory_id, None)
        self._start_token.append(start.token)
        self._arm(STARTUP_TIMER, now_ms + self.config.startup_timeout_ms)
        self._communicate(now_ms)

    def _step_ready(self, ready: ReadyToUnfence, now_ms: int) -> None:
        if self.state is BrokerState.SHUTTING_DOWN:
            self._outbox.reply(ready.token, _ENDING)
            return
        assert self.state is BrokerState.RECOVERY, "it has caught up, and is not unfenced"
        self._is_ready = True
        self._ready_token.append(ready.token)
        self._arm(STARTUP_TIMER, now_ms + self.config.startup_timeout_ms)
        self._communicate(now_ms)

    def _step_shutdown(self, shutdown: BeginControlledShutdown, now_ms: int) -> None:
        self._shutdown_token.append(shutdown.token)
        if self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            return
        if not (self.is_registered and self._may_be_unfenced()):
            self._end(_OK)
            return
        self.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
        self._disarm(STARTUP_TIMER)
        self._reply(self._ready_token, _ENDING)
        self._gives_up_hand_over = not self._others_are_active()
        self._arm(SHUTDOWN_TIMER, now_ms + self._shutdown_step_ms())
        self._communicate(now_ms)

    def _may_be_unfenced(self) -> bool:
        """Whether the controller may have unfenced this broker: it was asked to."""
        return self.state is BrokerState.RUNNING or self._is_ready

    def _shutdown_step_ms(self) -> int:
        config = self.config
        if self._gives_up_hand_over:
            return config.shutdown_request_timeout_ms
        return config.hand_over_timeout_ms

    @property
    def can_hand_over(self) -> bool:
        """Whether a controlled shutdown would ask other brokers to take over what this one leads.

        If so, clients are to be served until it is over.
        """
        return self.is_registered and self._may_be_unfenced() and self._others_are_active()

    def _others_are_active(self) -> bool:
        """Whether there are brokers that could take over what this one leads."""
        own_id = self._own.broker_id
        return any(b.is_active and b.broker_id != own_id for b in self._image.brokers.values())

    def _step_log_dir_failed(self, failed: LogDirFailed, now_ms: int) -> None:
        if failed.directory_id in self._offline or self.state is BrokerState.SHUTTING_DOWN:
            return
        self._offline[failed.directory_id] = now_ms + self.config.log_dir_failure_timeout_ms
        self._arm_log_dirs()
        if self.is_registered:
            self._communicate(now_ms)

    def _step_cordon(self, cordon: CordonLogDirs, now_ms: int) -> None:
        is_new = cordon.directory_ids != self._cordoned
        self._cordoned = cordon.directory_ids
        if is_new and self.is_registered and self.state is not BrokerState.SHUTTING_DOWN:
            self._communicate(now_ms)

    def _cordoned_to_tell(self) -> list[Uuid] | None:
        """Which directories are cordoned; None before the broker has caught up with the metadata,
        and while the cluster does not know of such."""
        if self.state is BrokerState.STARTING or not self._image.has_cordoned_directories:
            return None
        return list(self._cordoned)

    # What it hears of the cluster

    def _step_metadata(self, applied: MetadataApplied, now_ms: int) -> None:
        before, self._image = self._image.offset, applied.image
        if not self.is_registered or self.state is BrokerState.SHUTTING_DOWN:
            return
        if self._lacks_directories():
            probe("broker.registration.directories")
            self.is_registered = False
            self._communicate(now_ms)
        elif before < self.broker_epoch <= applied.image.offset:
            self._communicate(now_ms)

    def _lacks_directories(self) -> bool:
        """Whether the registration is of before an upgrade to a level with log directories."""
        own = self._image.brokers.get(self._own.broker_id)
        return (
            not self._says_directories
            and self._image.has_directories
            and own is not None
            and not own.log_dirs
        )

    def _step_controller_changed(self, changed: ControllerChanged, now_ms: int) -> None:
        """What failed with another controller, or with none, need not wait for its back-off."""
        is_new = changed.controller_id not in (-1, self._controller_id)
        self._controller_id = changed.controller_id
        if is_new and self._failures and self._is_at_work():
            probe("broker.controller.changed")
            self._communicate(now_ms)

    def _is_at_work(self) -> bool:
        return self.state not in (BrokerState.NOT_RUNNING, BrokerState.SHUTTING_DOWN)

    # Requests

    @property
    def _own(self) -> Registration:
        assert self._registration is not None, "started"
        return self._registration

    def _communicate(self, now_ms: int) -> None:
        """Send what is due, or have it sent when the request under way is answered."""
        if self._under_way is not None:
            self._has_update = True
            return
        self._has_update = False
        self._disarm(COMMUNICATION_TIMER)
        earlier = None if self.is_registered else self._earlier_incarnation()
        request: Message
        if earlier is not None:
            ask, epoch = Ask.FENCE_EARLIER_INCARNATION, earlier.epoch
            request = self._heartbeat(epoch, want_fence=True, want_shut_down=True)
        elif not self.is_registered:
            is_first = self.broker_epoch == _UNREGISTERED
            ask = Ask.FIRST_REGISTRATION if is_first else Ask.REGISTRATION_AGAIN
            epoch = self.broker_epoch
            request = broker_registration_request(self._own, self._offline)
            self._says_directories = self._image.has_directories
        else:
            is_stopping = self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
            wants_to_be_fenced = self._rules.wants_to_be_fenced(self._is_ready)
            ask = Ask.SHUTDOWN_HEARTBEAT if is_stopping else Ask.HEARTBEAT
            epoch = self.broker_epoch
            request = self._heartbeat(
                epoch,
                want_fence=self._gives_up_hand_over if is_stopping else wants_to_be_fenced,
                want_shut_down=is_stopping,
            )
        self._send(ask, epoch, request, now_ms)

    def _send(self, ask: Ask, epoch: int, request: Message, now_ms: int) -> None:
        is_last_word = ask is Ask.SHUTDOWN_HEARTBEAT
        config = self.config
        timeout_ms = (
            config.shutdown_request_timeout_ms if is_last_word else config.request_timeout_ms
        )
        self._number += 1
        self._under_way = _UnderWay(self._number, ask, epoch, tuple(self._offline))
        self._arm(REQUEST_TIMER, now_ms + timeout_ms)
        self._outbox.emit(Send(CONTROLLER, ControllerRequest(self._number, request, timeout_ms)))

    def _heartbeat(
        self, broker_epoch: int, *, want_fence: bool, want_shut_down: bool
    ) -> BrokerHeartbeatRequest:
        return BrokerHeartbeatRequest(
            broker_id=self._own.broker_id,
            broker_epoch=broker_epoch,
            current_metadata_offset=self._image.offset,
            want_fence=want_fence,
            want_shut_down=want_shut_down,
            offline_log_dirs=list(self._offline),
            cordoned_log_dirs=self._cordoned_to_tell(),
        )

    def _earlier_incarnation(self) -> BrokerImage | None:
        """An earlier incarnation that has ended for certain, if the metadata have it unfenced."""
        own = self._own
        earlier = self._image.brokers.get(own.broker_id)
        if (
            earlier is None
            or earlier.fenced
            or earlier.incarnation_id == own.incarnation_id
            or earlier.epoch == self._fenced_epoch
        ):
            return None
        was_here = bool(set(earlier.log_dirs) & set(own.log_dirs))
        return earlier if was_here or self._controller_id == own.broker_id else None

    # Answers

    def _step_answered(self, answered: ControllerAnswered, now_ms: int) -> None:
        under_way = self._under_way
        if under_way is None or answered.number != under_way.number:
            return  # it was given up
        response = answered.response
        error = answered.error if response is None else response.error_code
        self._settle(under_way, error, response, now_ms)

    def _settle(self, done: _UnderWay, error: int, response: Any, now_ms: int) -> None:
        """The request under way is answered, or given up."""
        self._under_way = None
        self._disarm(REQUEST_TIMER)
        reaction = reaction_to(done.ask, error)
        if reaction is not Reaction.ACCEPT:
            who = "no answer of a controller" if response is None else f"{done.ask.value} refused"
            why = f"{who}: {error_name(error)}"
            if error == ErrorCode.UNSUPPORTED_VERSION and done.ask is Ask.FIRST_REGISTRATION:
                if not self._image.features:
                    reaction = Reaction.RETRY  # until the metadata tell which feature it is
                elif told := advice(self._image.features, self._own.features):
                    why = f"{why}: {told}"
            self.last_error = Outcome(error, why)
            self._refused(reaction, now_ms)
            return
        self._failures = 0
        self.last_error = _OK
        if done.ask is Ask.FENCE_EARLIER_INCARNATION:
            probe("broker.earlier.fenced")
            self._fenced_epoch = done.broker_epoch
            self._communicate(now_ms)
        elif done.ask in (Ask.HEARTBEAT, Ask.SHUTDOWN_HEARTBEAT):
            self._heartbeat_answered(done, response, now_ms)
        else:
            self._registered(response.broker_epoch, now_ms)

    def _refused(self, reaction: Reaction, now_ms: int) -> None:
        is_stopping = self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
        if reaction is Reaction.STOP or (is_stopping and reaction is Reaction.REGISTER_AGAIN):
            self._end(self.last_error)
            return
        if reaction is Reaction.REGISTER_AGAIN:
            self._lose_registration()
        interval_ms = self.config.heartbeat_interval_ms
        delay_ms = int(backoff_ms(self._failures, FIRST_BACKOFF_MS, interval_ms))
        self._failures += 1
        self._arm(COMMUNICATION_TIMER, now_ms + delay_ms)

    def _lose_registration(self) -> None:
        """The controller does not know this broker any more: the next request registers it again.

        Kafka's brokers do not, and serve nothing until they are restarted.
        """
        probe("broker.registration.again")
        self.is_registered, self.is_fenced = False, True

    def _registered(self, broker_epoch: int, now_ms: int) -> None:
        self.broker_epoch, self.is_registered = broker_epoch, True
        self._communicate(now_ms)

    def _heartbeat_answered(
        self, done: _UnderWay, response: BrokerHeartbeatResponse, now_ms: int
    ) -> None:
        for directory_id in done.reported:
            self._offline[directory_id] = None
        self._arm_log_dirs()
        if (
            self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
            and done.ask is not Ask.SHUTDOWN_HEARTBEAT
        ):
            self._communicate(now_ms)  # it says nothing of the shutdown
            return
        # A broker that has not asked for it is not unfenced.
        was_fenced, self.is_fenced = self.is_fenced, response.is_fenced or not self._is_ready
        before = self.state
        self.state, following = after_heartbeat(
            before,
            is_caught_up=self._rules.has_caught_up(response.is_caught_up),
            is_fenced=self.is_fenced,
            should_shut_down=self._rules.may_stop(response.should_shut_down),
            was_fenced=was_fenced,
        )
        if following is Next.NEVER:
            self._end(_OK)
            return
        if self.state is not before:
            self._disarm(STARTUP_TIMER)
            self._reply(
                self._start_token if self.state is BrokerState.RECOVERY else self._ready_token, _OK
            )
        if self._has_update:
            self._communicate(now_ms)
        else:
            delay_ms = SOON_MS if following is Next.SOON else self.config.heartbeat_interval_ms
            self._arm(COMMUNICATION_TIMER, now_ms + delay_ms)

    # Timers and the end

    def _step_timer(self, fired: TimerFired, now_ms: int) -> None:
        if fired.name not in self._armed:
            return  # it was disarmed, and had fired already
        self._armed.discard(fired.name)
        if fired.name == COMMUNICATION_TIMER:
            self._communicate(now_ms)
        elif fired.name == REQUEST_TIMER:
            assert self._under_way is not None, "it is armed with a request"
            probe("broker.request.timed_out")
            self._settle(self._under_way, ErrorCode.REQUEST_TIMED_OUT, None, now_ms)
        elif fired.name == STARTUP_TIMER:
            self._startup_timed_out()
        elif fired.name == SHUTDOWN_TIMER:
            self._shutdown_timed_out(now_ms)
        else:
            self._log_dirs_timed_out(now_ms)

    def _startup_timed_out(self) -> None:
        outcome = self.last_error
        if outcome.error == ErrorCode.NONE:
            outcome = Outcome(ErrorCode.REQUEST_TIMED_OUT, "the broker stays fenced")
        probe("broker.startup.timed_out")
        self._end(outcome)

    def _shutdown_timed_out(self, now_ms: int) -> None:
        if self._gives_up_hand_over:
            reason = "the controller has not let the broker go"
            self._end(Outcome(ErrorCode.REQUEST_TIMED_OUT, reason))
            return
        probe("broker.shutdown.hand_over_given_up")
        self._gives_up_hand_over = True
        self._arm(SHUTDOWN_TIMER, now_ms + self._shutdown_step_ms())
        self._communicate(now_ms)

    def _arm_log_dirs(self) -> None:
        deadlines = [one for one in self._offline.values() if one is not None]
        if deadlines:
            self._arm(LOG_DIRS_TIMER, min(deadlines))
        else:
            self._disarm(LOG_DIRS_TIMER)

    def _log_dirs_timed_out(self, now_ms: int) -> None:
        late = [one for one, until in self._offline.items() if until is not None]
        reason = (
            f"the failure of log directory {late[0]} could not be reported to a controller within"
            f" {self.config.log_dir_failure_timeout_ms} ms"
        )
        self._outbox.emit(Fail(reason))
        self._end(Outcome(ErrorCode.KAFKA_STORAGE_ERROR, reason))

    def _end(self, outcome: Outcome) -> None:
        """Send no more requests, and answer all tokens that wait."""
        self.state = BrokerState.SHUTTING_DOWN
        self._under_way = None
        for name in sorted(self._armed):
            self._disarm(name)
        starting = _ENDING if outcome.error == ErrorCode.NONE else outcome
        self._reply(self._start_token, starting)
        self._reply(self._ready_token, starting)
        self._reply(self._shutdown_token, outcome)

    def _reply(self, tokens: list[Any], outcome: Outcome) -> None:
        for token in tokens:
            self._outbox.reply(token, outcome)
        tokens.clear()

    def _arm(self, name: str, deadline_ms: int) -> None:
        self._armed.add(name)
        self._outbox.set_timer(name, deadline_ms)

    def _disarm(self, name: str) -> None:
        if name in self._armed:
            self._armed.discard(name)
            self._outbox.set_timer(name, None)


_HANDLERS: Final[dict[type[Any], Callable[[BrokerLifecycle, Any, int], None]]] = {
    MetadataApplied: BrokerLifecycle._step_metadata,
    ControllerChanged: BrokerLifecycle._step_controller_changed,
    ControllerAnswered: BrokerLifecycle._step_answered,
    TimerFired: BrokerLifecycle._step_timer,
    Start: BrokerLifecycle._step_start,
    ReadyToUnfence: BrokerLifecycle._step_ready,
    LogDirFailed: BrokerLifecycle._step_log_dir_failed,
    CordonLogDirs: BrokerLifecycle._step_cordon,
    BeginControlledShutdown: BrokerLifecycle._step_shutdown,
}
"""The method that takes each kind of input."""
