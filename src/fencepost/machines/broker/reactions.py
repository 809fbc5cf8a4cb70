"""What a broker makes of the controller's answers: two tables (KIP-631).

Errors; `-` stands for every error that is not named:

| request                      | answered with                                    | reaction       |
|------------------------------|--------------------------------------------------|----------------|
| first registration           | INCONSISTENT_CLUSTER_ID, INVALID_REGISTRATION,   | STOP           |
|                              | UNSUPPORTED_VERSION, INVALID_REQUEST,            |                |
|                              | BROKER_ID_NOT_REGISTERED,                        |                |
|                              | CLUSTER_AUTHORIZATION_FAILED                     |                |
| first registration           | DUPLICATE_BROKER_REGISTRATION, -                 | RETRY          |
| registration again           | -                                                | RETRY          |
| fence an earlier incarnation | STALE_BROKER_EPOCH, BROKER_ID_NOT_REGISTERED     | ACCEPT         |
| fence an earlier incarnation | -                                                | RETRY          |
| heartbeat                    | STALE_BROKER_EPOCH, BROKER_ID_NOT_REGISTERED     | REGISTER_AGAIN |
| heartbeat                    | -                                                | RETRY          |
| heartbeat in the shutdown    | STALE_BROKER_EPOCH, BROKER_ID_NOT_REGISTERED,    | STOP           |
|                              | NOT_CONTROLLER, REQUEST_TIMED_OUT                |                |
| heartbeat in the shutdown    | -                                                | RETRY          |

DUPLICATE_BROKER_REGISTRATION means that another incarnation of this broker still has its session.
It may be the own one of before a crash, and ends within `broker.session.timeout.ms`. A registration
that claims to migrate from ZooKeeper is answered BROKER_ID_NOT_REGISTERED. Kafka's brokers repeat a
registration that can never succeed until `initial.broker.registration.timeout.ms`; here the
operator reads the reason at once. Kafka's brokers never register again, either: one that an
administrator has unregistered stays a zombie until it is restarted. UNSUPPORTED_VERSION is retried
until this node has read which features are finalized, so that it can name what it lacks. A broker
that is shutting down and finds no controller stops, as every broker of a cluster does that is
stopped as a whole.

Heartbeats without an error; `-` stands for both:

| state                       | caught up | fenced | should stop | next state    | heartbeat |
|-----------------------------|-----------|--------|-------------|---------------|-----------|
| STARTING                    | no        | -      | -           | STARTING      | INTERVAL  |
| STARTING                    | yes       | -      | -           | RECOVERY      | INTERVAL  |
| RECOVERY                    | -         | yes    | -           | RECOVERY      | INTERVAL  |
| RECOVERY                    | -         | no     | -           | RUNNING       | INTERVAL  |
| RUNNING, and fenced before  | -         | -      | -           | RUNNING       | INTERVAL  |
| RUNNING, unfenced before    | -         | yes    | -           | RUNNING       | SOON      |
| RUNNING, unfenced before    | -         | no     | -           | RUNNING       | INTERVAL  |
| PENDING_CONTROLLED_SHUTDOWN | -         | -      | no          | the same      | SOON      |
| PENDING_CONTROLLED_SHUTDOWN | -         | -      | yes         | SHUTTING_DOWN | NEVER     |

Kafka's brokers send the next heartbeat 10 ms after every answer in STARTING, to start up quicker.
Here the machine gets an input when the metadata reach the registration, or the logs are loaded, and
sends one then.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from fencepost.wire.errors import ErrorCode


class BrokerState(Enum):
    """Where a broker is between its start and its end; Kafka's names."""

    NOT_RUNNING = "not running"
    STARTING = "starting"
    """It registers, and reads the metadata log up to its registration."""
    RECOVERY = "recovery"
    """It loads its logs, then asks to be unfenced."""
    RUNNING = "running"
    """It was unfenced; it may be fenced again meanwhile."""
    PENDING_CONTROLLED_SHUTDOWN = "pending controlled shutdown"
    """It gives up what it leads."""
    SHUTTING_DOWN = "shutting down"
    """It asks the controller nothing any more."""


class Ask(Enum):
    """What a request to the controller is for."""

    FIRST_REGISTRATION = "registration"
    REGISTRATION_AGAIN = "registering again"
    FENCE_EARLIER_INCARNATION = "fencing an earlier incarnation"
    HEARTBEAT = "a heartbeat"
    SHUTDOWN_HEARTBEAT = "a heartbeat of a controlled shutdown"


class Reaction(Enum):
    """What follows an answer."""

    ACCEPT = "what was asked is done"
    RETRY = "ask again after a back-off"
    REGISTER_AGAIN = "the registration is gone: register under the same incarnation"
    STOP = "there is no use in asking again"


class Next(Enum):
    """When the next heartbeat is sent, unless something happens before."""

    SOON = "after 50 ms"
    INTERVAL = "after broker.heartbeat.interval.ms"
    NEVER = "never"


_NOT_REGISTERED: Final = (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED)

_REACTIONS: Final[Mapping[Ask, Mapping[int, Reaction]]] = {
    Ask.FIRST_REGISTRATION: dict.fromkeys(
        (
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            ErrorCode.INVALID_REGISTRATION,
            ErrorCode.UNSUPPORTED_VERSION,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ),
        Reaction.STOP,
    ),
    Ask.REGISTRATION_AGAIN: {},
    Ask.FENCE_EARLIER_INCARNATION: dict.fromkeys(_NOT_REGISTERED, Reaction.ACCEPT),
    Ask.HEARTBEAT: dict.fromkeys(_NOT_REGISTERED, Reaction.REGISTER_AGAIN),
    Ask.SHUTDOWN_HEARTBEAT: dict.fromkeys(
        (*_NOT_REGISTERED, ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT), Reaction.STOP
    ),
}


def reaction_to(ask: Ask, error: int) -> Reaction:
    """The first table; NONE is always accepted, and a code of later days an error like others."""
    if error == ErrorCode.NONE:
        return Reaction.ACCEPT
    return _REACTIONS[ask].get(error, Reaction.RETRY)


def after_heartbeat(
    state: BrokerState,
    *,
    is_caught_up: bool,
    is_fenced: bool,
    should_shut_down: bool,
    was_fenced: bool,
) -> tuple[BrokerState, Next]:
    """The second table; `was_fenced` is what the broker knew before the answer."""
    if state is BrokerState.STARTING:
        return (BrokerState.RECOVERY if is_caught_up else state), Next.INTERVAL
    if state is BrokerState.RECOVERY:
        return (state if is_fenced else BrokerState.RUNNING), Next.INTERVAL
    if state is BrokerState.RUNNING:
        return state, Next.SOON if is_fenced and not was_fenced else Next.INTERVAL
    if state is BrokerState.PENDING_CONTROLLED_SHUTDOWN and not should_shut_down:
        return state, Next.SOON
    return BrokerState.SHUTTING_DOWN, Next.NEVER
