"""A broker from registration to shutdown: what it asks, when, and what it makes of the answers."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from fencepost.machines.broker import (
    BeginControlledShutdown,
    BrokerState,
    ControllerChanged,
    LifecycleConfig,
    LogDirFailed,
    MetadataApplied,
    Outcome,
    ReadyToUnfence,
    Start,
)
from fencepost.machines.effects import TimerFired
from fencepost.machines.image import BrokerImage
from fencepost.wire.api.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from fencepost.wire.api.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

from .broker_fixtures import (
    CONFIG,
    DIRECTORY,
    EPOCH,
    INCARNATION,
    OK,
    OTHER_DIRECTORY,
    OWN,
    LifecycleFixture,
    alive,
    broker_image,
    image,
)

INTERVAL_MS = CONFIG.heartbeat_interval_ms
DUPLICATE = BrokerRegistrationResponse(error_code=ErrorCode.DUPLICATE_BROKER_REGISTRATION)
STALE = BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)


@pytest.fixture
def broker() -> LifecycleFixture:
    return LifecycleFixture()


# -- registration --------------------------------------------------------------------------------


def test_a_registration_says_everything_of_the_broker(broker: LifecycleFixture) -> None:
    request = broker.start()
    assert (request.broker_id, request.cluster_id, request.rack) == (1, "c", "r")
    assert request.incarnation_id == INCARNATION and request.is_migrating_zk_broker is False
    assert [(one.name, one.host, one.port) for one in request.listeners] == [
        ("PLAINTEXT", "h", 9092)
    ]
    (feature,) = request.features
    assert (feature.min_supported_version, feature.max_supported_version) == (7, 33)
    assert request.log_dirs == [DIRECTORY, OTHER_DIRECTORY], "sorted"
    assert request.previous_broker_epoch == 33
    assert broker.machine.state is BrokerState.STARTING


def test_a_heartbeat_follows_the_registration_at_once_and_asks_to_stay_fenced(
    broker: LifecycleFixture,
) -> None:
    beat = broker.registered()
    assert (beat.broker_id, beat.broker_epoch, beat.current_metadata_offset) == (1, EPOCH, -1)
    assert (beat.want_fence, beat.want_shut_down) == (True, False)
    assert broker.machine.broker_epoch == EPOCH


@pytest.mark.parametrize("error", ["DUPLICATE_BROKER_REGISTRATION", "UNKNOWN_SERVER_ERROR"])
def test_a_refused_registration_is_retried_with_a_backoff_until_the_startup_timeout(
    broker: LifecycleFixture, error: str
) -> None:
    broker.start()
    refused = BrokerRegistrationResponse(error_code=ErrorCode[error])
    for backoff_ms in (100, 200, 400, 800, 1_600, INTERVAL_MS, INTERVAL_MS):
        assert broker.answer(refused) == []
        assert broker.advance(backoff_ms - 1) == []
        (again,) = broker.advance(1)
        assert isinstance(again, BrokerRegistrationRequest)
    while not broker.replies:
        assert broker.now_ms <= 1_000 + CONFIG.startup_timeout_ms
        broker.answer(refused)
        broker.advance(INTERVAL_MS)
    assert broker.replies == [
        ("start", Outcome(ErrorCode[error], f"registration refused: {error}"))
    ]
    assert broker.machine.state is BrokerState.SHUTTING_DOWN and not broker.timers


def test_a_registration_that_can_never_succeed_is_the_end(broker: LifecycleFixture) -> None:
    broker.start()
    error = ErrorCode.INCONSISTENT_CLUSTER_ID
    assert broker.answer(BrokerRegistrationResponse(error_code=error)) == []
    reason = "registration refused: INCONSISTENT_CLUSTER_ID"
    assert broker.replies == [("start", Outcome(error, reason))]
    assert broker.advance(10 * INTERVAL_MS) == []


def test_without_a_controller_the_startup_times_out(broker: LifecycleFixture) -> None:
    broker.start()
    sent = broker.advance(CONFIG.startup_timeout_ms)
    assert len(sent) > 5, "it is tried again and again"
    ((token, outcome),) = broker.replies
    assert (token, outcome.error) == ("start", ErrorCode.REQUEST_TIMED_OUT)
    assert outcome.reason == "no answer of a controller: REQUEST_TIMED_OUT"


def test_one_request_at_a_time_and_none_that_waits_longer_than_its_timeout(
    broker: LifecycleFixture,
) -> None:
    broker.start()
    assert broker.sent[0].timeout_ms == INTERVAL_MS
    assert broker.advance(INTERVAL_MS - 1) == [], "under way"
    assert broker.advance(1) == [], "given up"
    assert len(broker.advance(100)) == 1
    (first, second) = broker.sent
    assert broker.answer(BrokerRegistrationResponse(broker_epoch=40), first.number) == []
    assert broker.machine.broker_epoch == -1, "the answer to the first is ignored"
    broker.answer(BrokerRegistrationResponse(broker_epoch=41), second.number)
    assert broker.machine.broker_epoch == 41


def test_two_more_heartbeats_fit_into_a_session_after_one_without_an_answer() -> None:
    config = LifecycleConfig(heartbeat_interval_ms=8_000, session_timeout_ms=9_000)
    broker = LifecycleFixture(config)
    broker.start()
    assert broker.sent[0].timeout_ms == 4_500


# -- an earlier incarnation ----------------------------------------------------------------------


def test_an_earlier_incarnation_on_the_same_directories_is_fenced_first(
    broker: LifecycleFixture,
) -> None:
    broker.step(MetadataApplied(image(40, broker_image(1, 33))))
    (fence,) = broker.step(Start(OWN, "start"))
    assert isinstance(fence, BrokerHeartbeatRequest)
    assert (fence.broker_epoch, fence.want_fence, fence.want_shut_down) == (33, True, True)
    (register,) = broker.answer(alive(is_fenced=True, should_shut_down=True))
    assert isinstance(register, BrokerRegistrationRequest), "although the image has it unfenced"


@pytest.mark.parametrize("error", ["STALE_BROKER_EPOCH", "BROKER_ID_NOT_REGISTERED"])
def test_an_earlier_incarnation_that_is_gone_is_fenced_enough(
    broker: LifecycleFixture, error: str
) -> None:
    broker.step(MetadataApplied(image(40, broker_image(1, 33))))
    broker.step(Start(OWN, "start"))
    (register,) = broker.answer(BrokerHeartbeatResponse(error_code=ErrorCode[error]))
    assert isinstance(register, BrokerRegistrationRequest)


def test_fencing_an_earlier_incarnation_is_retried(broker: LifecycleFixture) -> None:
    broker.step(MetadataApplied(image(40, broker_image(1, 33))))
    broker.step(Start(OWN, "start"))
    assert broker.answer(ErrorCode.NOT_CONTROLLER) == []
    (again,) = broker.advance(100)
    assert isinstance(again, BrokerHeartbeatRequest) and again.broker_epoch == 33


@pytest.mark.parametrize(
    ("changes", "controller_id", "is_fenced_first"),
    [
        ({}, -1, True),
        ({"log_dirs": (Uuid(b"directory-theirs"),)}, 2, False),
        ({"log_dirs": (Uuid(b"directory-theirs"),)}, 1, True),  # this process is the controller
        ({"fenced": True}, 1, False),
        ({"incarnation_id": INCARNATION}, 1, False),
    ],
)
def test_only_an_incarnation_that_has_ended_for_certain_is_fenced(
    broker: LifecycleFixture, changes: dict[str, object], controller_id: int, is_fenced_first: bool
) -> None:
    broker.step(ControllerChanged(controller_id))
    broker.step(MetadataApplied(image(40, broker_image(1, 33, **changes))))
    (request,) = broker.step(Start(OWN, "start"))
    assert isinstance(request, BrokerHeartbeatRequest) is is_fenced_first


def test_an_earlier_incarnation_that_is_read_of_later_is_fenced_before_the_next_try(
    broker: LifecycleFixture,
) -> None:
    broker.start()
    broker.answer(DUPLICATE)
    assert broker.step(MetadataApplied(image(40, broker_image(1, 33)))) == []
    (fence,) = broker.advance(100)
    assert isinstance(fence, BrokerHeartbeatRequest) and fence.broker_epoch == 33


# -- catching up, and being unfenced -------------------------------------------------------------


def test_it_says_at_once_when_the_metadata_reach_its_registration(
    broker: LifecycleFixture,
) -> None:
    broker.registered()
    broker.answer(BrokerHeartbeatResponse(is_caught_up=False))
    assert broker.step(MetadataApplied(image(EPOCH - 1))) == []
    (beat,) = broker.step(MetadataApplied(image(EPOCH)))
    assert (beat.current_metadata_offset, beat.want_fence) == (EPOCH, True)
    assert broker.machine.state is BrokerState.STARTING and not broker.replies
    broker.answer(alive(is_fenced=True))
    assert broker.machine.state is BrokerState.RECOVERY and broker.replies == [("start", OK)]
    assert broker.step(MetadataApplied(image(EPOCH + 1))) == [], "only once"


def test_updates_while_a_heartbeat_is_under_way_go_out_when_it_is_answered(
    broker: LifecycleFixture,
) -> None:
    broker.registered()
    assert broker.step(MetadataApplied(image(EPOCH))) == []
    (beat,) = broker.answer(BrokerHeartbeatResponse(is_caught_up=False))
    assert beat.current_metadata_offset == EPOCH


def test_after_an_error_even_updates_wait_for_the_backoff(broker: LifecycleFixture) -> None:
    broker.registered()
    assert broker.step(MetadataApplied(image(EPOCH))) == []
    assert broker.answer(ErrorCode.REQUEST_TIMED_OUT) == []
    (beat,) = broker.advance(100)
    assert beat.current_metadata_offset == EPOCH


def test_it_stays_fenced_until_its_logs_are_loaded(broker: LifecycleFixture) -> None:
    broker.recovering()
    for _ in range(3):
        (beat,) = broker.advance(INTERVAL_MS)
        assert beat.want_fence is True
        broker.answer(alive(is_fenced=True))
    (beat,) = broker.step(ReadyToUnfence("ready"))
    assert beat.want_fence is False
    assert broker.answer(alive(is_fenced=True)) == [] and len(broker.replies) == 1
    (beat,) = broker.advance(INTERVAL_MS)
    broker.answer(alive())
    assert broker.replies[1:] == [("ready", OK)]
    assert broker.machine.state is BrokerState.RUNNING and not broker.machine.is_fenced


def test_who_has_not_asked_to_be_unfenced_is_not(broker: LifecycleFixture) -> None:
    broker.recovering()
    broker.advance(INTERVAL_MS)
    broker.answer(alive(is_fenced=False))
    assert broker.machine.state is BrokerState.RECOVERY and broker.machine.is_fenced


def test_loading_logs_may_take_longer_than_the_startup_timeout(broker: LifecycleFixture) -> None:
    broker.recovering()
    for _ in range(2 * CONFIG.startup_timeout_ms // INTERVAL_MS):
        broker.advance(INTERVAL_MS)
        broker.answer(alive(is_fenced=True))
    assert broker.machine.state is BrokerState.RECOVERY


def test_a_broker_that_stays_fenced_does_not_start(broker: LifecycleFixture) -> None:
    broker.ready()
    for _ in range(CONFIG.startup_timeout_ms // INTERVAL_MS + 1):
        if len(broker.replies) == 1:
            broker.answer(alive(is_fenced=True))
            broker.advance(INTERVAL_MS)
    stays = Outcome(ErrorCode.REQUEST_TIMED_OUT, "the broker stays fenced")
    assert broker.replies[1:] == [("ready", stays)]


# -- running -------------------------------------------------------------------------------------


def test_a_heartbeat_follows_an_interval_after_each_answer(broker: LifecycleFixture) -> None:
    broker.running()
    assert "startup" not in broker.timers
    for _ in range(3):
        assert broker.advance(INTERVAL_MS - 1) == []
        (beat,) = broker.advance(1)
        assert (beat.want_fence, beat.want_shut_down) == (False, False)
        broker.answer(alive())


def test_heartbeats_go_on_whatever_comes_of_them(broker: LifecycleFixture) -> None:
    broker.running()
    broker.advance(INTERVAL_MS)
    for backoff_ms in (100, 200, 400):
        assert broker.answer(ErrorCode.UNKNOWN_SERVER_ERROR) == []
        assert broker.machine.last_error.error == ErrorCode.UNKNOWN_SERVER_ERROR
        assert len(broker.advance(backoff_ms)) == 1
    broker.answer(alive())
    assert broker.machine.last_error == OK
    broker.advance(INTERVAL_MS)
    broker.answer(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert len(broker.advance(100)) == 1, "the back-off begins again"


def test_another_controller_is_asked_without_waiting_for_the_backoff(
    broker: LifecycleFixture,
) -> None:
    broker.running()
    assert broker.step(ControllerChanged(7)) == [], "nothing has failed"
    broker.advance(INTERVAL_MS)
    assert broker.step(ControllerChanged(8)) == [], "one is under way"
    broker.answer(ErrorCode.NOT_CONTROLLER)
    assert broker.step(ControllerChanged(-1)) == [] == broker.step(ControllerChanged(-1))
    (beat,) = broker.step(ControllerChanged(7))
    assert isinstance(beat, BrokerHeartbeatRequest)


def test_who_was_fenced_says_soon_that_it_is_there(broker: LifecycleFixture) -> None:
    broker.running()
    broker.advance(INTERVAL_MS)
    assert broker.answer(alive(is_fenced=True)) == [] and broker.machine.is_fenced
    (beat,) = broker.advance(50)
    assert beat.want_fence is False
    broker.answer(alive(is_fenced=True))
    assert broker.advance(INTERVAL_MS - 1) == [], "once"


@pytest.mark.parametrize("error", ["STALE_BROKER_EPOCH", "BROKER_ID_NOT_REGISTERED"])
def test_who_is_forgotten_registers_again_under_the_same_incarnation(
    broker: LifecycleFixture, error: str
) -> None:
    broker.running()
    broker.advance(INTERVAL_MS)
    broker.answer(BrokerHeartbeatResponse(error_code=ErrorCode[error]))
    assert broker.machine.is_fenced and not broker.machine.is_registered
    (register,) = broker.advance(100)
    assert isinstance(register, BrokerRegistrationRequest)
    assert register.incarnation_id == INCARNATION
    (beat,) = broker.answer(BrokerRegistrationResponse(broker_epoch=70))
    assert (beat.broker_epoch, beat.want_fence) == (70, False)
    broker.answer(alive(is_fenced=True, is_caught_up=False))
    (beat,) = broker.step(MetadataApplied(image(70)))
    broker.answer(alive())
    assert broker.machine.state is BrokerState.RUNNING and not broker.machine.is_fenced
    assert len(broker.replies) == 2, "each request is answered once"


@pytest.mark.parametrize("error", [ErrorCode.INVALID_REGISTRATION, ErrorCode.NOT_CONTROLLER])
def test_registering_again_never_ends_a_broker(broker: LifecycleFixture, error: ErrorCode) -> None:
    broker.running()
    broker.advance(INTERVAL_MS)
    broker.answer(STALE)
    for _ in range(10):
        (register,) = broker.advance(INTERVAL_MS)
        assert isinstance(register, BrokerRegistrationRequest)
        broker.answer(BrokerRegistrationResponse(error_code=error))
    assert broker.machine.state is BrokerState.RUNNING


def test_who_registers_again_with_the_same_epoch_is_as_fenced_as_before(
    broker: LifecycleFixture,
) -> None:
    broker.step(MetadataApplied(image(1, level=16)))
    broker.running()
    broker.step(MetadataApplied(image(60, broker_image(1, EPOCH, log_dirs=()))))
    broker.answer(BrokerRegistrationResponse(broker_epoch=EPOCH))
    assert not broker.machine.is_fenced


def test_an_upgrade_to_directories_makes_it_register_once_more(broker: LifecycleFixture) -> None:
    old = broker_image(1, EPOCH, fenced=True, log_dirs=())
    broker.step(MetadataApplied(image(EPOCH, old, level=16)))
    broker.registered()
    broker.answer(alive(is_fenced=True))
    (register,) = broker.step(MetadataApplied(image(60, old, level=17)))
    assert isinstance(register, BrokerRegistrationRequest) and register.log_dirs
    broker.answer(BrokerRegistrationResponse(broker_epoch=EPOCH))
    broker.answer(alive(is_fenced=True))
    assert broker.step(MetadataApplied(image(61, old, level=17))) == [], "not read of yet"
    new = broker_image(1, EPOCH, fenced=True)
    assert broker.step(MetadataApplied(image(62, new, level=17))) == []


# -- log directories (KIP-858) -------------------------------------------------------------------


def test_a_failed_directory_is_reported_at_once_and_from_then_on(broker: LifecycleFixture) -> None:
    broker.running()
    (beat,) = broker.step(LogDirFailed(DIRECTORY))
    assert beat.offline_log_dirs == [DIRECTORY]
    assert "communication" not in broker.timers, "the next follows the answer"
    assert broker.step(LogDirFailed(DIRECTORY)) == [], "known"
    broker.answer(alive())
    (beat,) = broker.advance(INTERVAL_MS)
    assert beat.offline_log_dirs == [DIRECTORY]
    broker.answer(alive())
    assert "log-dirs" not in broker.timers
    broker.advance(INTERVAL_MS)
    broker.answer(STALE)
    (register,) = broker.advance(100)
    assert register.log_dirs == [OTHER_DIRECTORY]


def test_a_failed_directory_that_no_controller_hears_of_ends_the_broker(
    broker: LifecycleFixture,
) -> None:
    broker.running()
    broker.step(LogDirFailed(DIRECTORY))
    broker.answer(alive())
    broker.advance(1_000)
    broker.step(LogDirFailed(OTHER_DIRECTORY))
    broker.advance(CONFIG.log_dir_failure_timeout_ms - 1)
    assert not broker.failures
    broker.advance(1)
    (reason,) = broker.failures
    assert str(OTHER_DIRECTORY) in reason and "30000 ms" in reason
    assert broker.machine.state is BrokerState.SHUTTING_DOWN and not broker.timers


def test_a_directory_that_fails_while_another_is_reported_has_a_deadline_of_its_own(
    broker: LifecycleFixture,
) -> None:
    broker.running()
    broker.step(LogDirFailed(DIRECTORY))
    broker.step(LogDirFailed(OTHER_DIRECTORY))
    (beat,) = broker.answer(alive())
    assert set(beat.offline_log_dirs) == {DIRECTORY, OTHER_DIRECTORY}
    broker.advance(CONFIG.log_dir_failure_timeout_ms)
    (reason,) = broker.failures
    assert str(OTHER_DIRECTORY) in reason


def test_a_failed_directory_waits_for_the_registration(broker: LifecycleFixture) -> None:
    broker.step(LogDirFailed(DIRECTORY))
    request = broker.start(replace(OWN, offline_log_dirs=(Uuid(b"directory-old-00"),)))
    assert request.log_dirs == [OTHER_DIRECTORY]
    (beat,) = broker.answer(BrokerRegistrationResponse(broker_epoch=EPOCH))
    assert set(beat.offline_log_dirs) == {DIRECTORY, Uuid(b"directory-old-00")}


# -- controlled shutdown -------------------------------------------------------------------------


def test_it_hands_over_before_it_stops(broker: LifecycleFixture) -> None:
    broker.running()
    broker.step(MetadataApplied(image(60, broker_image(1, EPOCH), broker_image(2, 55))))
    (beat,) = broker.step(BeginControlledShutdown("stop"))
    assert (beat.want_shut_down, beat.want_fence) == (True, False)
    for _ in range(3):
        assert broker.answer(alive()) == []
        (beat,) = broker.advance(50)
        assert (beat.want_shut_down, beat.want_fence) == (True, False)
    broker.answer(alive(is_fenced=True, should_shut_down=True))
    assert broker.replies[2:] == [("stop", OK)]
    assert broker.machine.state is BrokerState.SHUTTING_DOWN and not broker.timers


@pytest.mark.parametrize("others", [(), (broker_image(2, 55, fenced=True),)])
def test_without_another_broker_it_asks_to_be_fenced_at_once(
    broker: LifecycleFixture, others: tuple[BrokerImage, ...]
) -> None:
    broker.running()
    broker.step(MetadataApplied(image(60, broker_image(1, EPOCH), *others)))
    (beat,) = broker.step(BeginControlledShutdown("stop"))
    assert (beat.want_shut_down, beat.want_fence) == (True, True)


def test_a_hand_over_that_takes_too_long_is_given_up(broker: LifecycleFixture) -> None:
    broker.running()
    broker.step(MetadataApplied(image(60, broker_image(1, EPOCH), broker_image(2, 55))))
    broker.step(BeginControlledShutdown("stop"))
    given_up = broker.now_ms + CONFIG.hand_over_timeout_ms
    while broker.now_ms < given_up:
        assert broker.sent[-1].request.want_fence is False  # type: ignore[attr-defined]
        broker.answer(alive())
        broker.advance(50)
    assert broker.sent[-1].request.want_fence is True  # type: ignore[attr-defined]
    broker.answer(alive(is_fenced=True, should_shut_down=True))
    assert broker.replies[2:] == [("stop", OK)]


def test_a_broker_that_has_given_up_its_hand_over_stops_though_no_controller_lets_it_go(
    broker: LifecycleFixture,
) -> None:
    broker.running()
    broker.step(MetadataApplied(image(60, broker_image(1, EPOCH), broker_image(2, 55))))
    broker.step(BeginControlledShutdown("stop"))
    stops_ms = broker.now_ms + CONFIG.hand_over_timeout_ms + CONFIG.shutdown_request_timeout_ms
    while broker.now_ms < stops_ms:
        assert broker.machine.state is not BrokerState.SHUTTING_DOWN
        broker.answer(alive())
        broker.advance(50)
    ((token, outcome),) = broker.replies[2:]
    assert (token, outcome.error) == ("stop", ErrorCode.REQUEST_TIMED_OUT)
    assert broker.machine.state is BrokerState.SHUTTING_DOWN and not broker.timers


def test_who_stops_twice_is_told_twice_and_waits_no_longer(broker: LifecycleFixture) -> None:
    broker.running()
    broker.step(BeginControlledShutdown("stop"))
    until_ms = broker.timers["shutdown"]
    broker.advance(1_000)
    assert broker.step(BeginControlledShutdown("again")) == []
    assert broker.timers["shutdown"] == until_ms
    broker.answer(alive(is_fenced=True, should_shut_down=True))
    assert broker.replies[2:] == [("stop", OK), ("again", OK)]


def test_a_controller_that_does_not_let_it_go_does_not_keep_it(broker: LifecycleFixture) -> None:
    broker.running()
    broker.step(BeginControlledShutdown("stop"))
    until = broker.now_ms + CONFIG.shutdown_request_timeout_ms
    while broker.now_ms < until:
        broker.answer(alive())
        broker.advance(50)
    ((token, outcome),) = broker.replies[2:]
    assert (token, outcome.error) == ("stop", ErrorCode.REQUEST_TIMED_OUT)


@pytest.mark.parametrize(
    "answer",
    [STALE, ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT],
)
def test_it_stops_without_a_controller_and_without_a_registration(
    broker: LifecycleFixture, answer: object
) -> None:
    broker.running()
    broker.step(BeginControlledShutdown("stop"))
    broker.answer(answer)
    ((token, outcome),) = broker.replies[2:]
    assert token == "stop" and outcome.error != ErrorCode.NONE
    assert broker.advance(10 * INTERVAL_MS) == []


def test_a_controller_that_is_silent_is_waited_for_a_while(broker: LifecycleFixture) -> None:
    broker.running()
    broker.step(BeginControlledShutdown("stop"))
    assert broker.sent[-1].timeout_ms == CONFIG.shutdown_request_timeout_ms
    broker.advance(CONFIG.shutdown_request_timeout_ms)
    assert [token for token, _ in broker.replies[2:]] == ["stop"]


def test_another_error_during_the_shutdown_is_retried(broker: LifecycleFixture) -> None:
    broker.running()
    broker.step(BeginControlledShutdown("stop"))
    broker.answer(ErrorCode.UNKNOWN_SERVER_ERROR)
    (beat,) = broker.advance(100)
    assert beat.want_shut_down is True


def test_a_heartbeat_that_was_under_way_says_nothing_of_the_shutdown(
    broker: LifecycleFixture,
) -> None:
    broker.running()
    broker.advance(INTERVAL_MS)
    assert broker.step(BeginControlledShutdown("stop")) == []
    (beat,) = broker.answer(alive(should_shut_down=True))
    assert beat.want_shut_down is True and len(broker.replies) == 2


def test_who_learns_while_it_stops_that_it_is_forgotten_stops(broker: LifecycleFixture) -> None:
    broker.running()
    broker.advance(INTERVAL_MS)
    broker.step(BeginControlledShutdown("stop"))
    assert broker.answer(STALE) == []
    assert [token for token, _ in broker.replies[2:]] == ["stop"]
    assert broker.advance(10 * INTERVAL_MS) == []


def test_who_was_never_unfenced_has_nothing_to_hand_over(broker: LifecycleFixture) -> None:
    for come in (lambda one: None, LifecycleFixture.start, LifecycleFixture.recovering):
        broker = LifecycleFixture()
        come(broker)
        sent = len(broker.sent)
        assert broker.step(BeginControlledShutdown("stop")) == []
        assert broker.replies[-1] == ("stop", OK)
        broker.advance(10 * INTERVAL_MS)
        assert len(broker.sent) == sent


def test_who_waits_for_the_start_hears_of_the_shutdown(broker: LifecycleFixture) -> None:
    broker.start()
    broker.step(BeginControlledShutdown("stop"))
    ((start, outcome), (stop, _)) = broker.replies
    assert (start, stop) == ("start", "stop")
    assert outcome.reason == "the broker is shutting down"


def test_who_may_have_been_unfenced_hands_over(broker: LifecycleFixture) -> None:
    """The controller may have carried out the heartbeat that is under way."""
    broker.ready()
    broker.step(BeginControlledShutdown("stop"))
    assert [token for token, _ in broker.replies] == ["start", "ready"]
    (beat,) = broker.answer(alive())
    assert beat.want_shut_down is True


def test_after_the_end_it_asks_nothing_and_answers_everybody(broker: LifecycleFixture) -> None:
    broker.step(BeginControlledShutdown("stop"))
    broker.step(BeginControlledShutdown("again"))
    assert broker.replies == [("stop", OK), ("again", OK)]
    assert broker.step(Start(OWN, "start")) == []
    assert broker.step(ReadyToUnfence("ready")) == []
    assert broker.step(MetadataApplied(image(60))) == []
    assert broker.step(ControllerChanged(3)) == []
    assert broker.step(LogDirFailed(DIRECTORY)) == []
    assert broker.step(TimerFired("communication")) == []
    assert [outcome.reason for _, outcome in broker.replies[2:]] == [
        "the broker is shutting down"
    ] * 2
    assert not broker.timers
