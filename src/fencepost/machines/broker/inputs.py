"""The inputs of a broker's machines, and what they ask of the active controller.

All plain values. Times are milliseconds of the driver's clock, offsets those of the metadata log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from fencepost.machines.image import ClusterImage, FeatureRange, ListenerImage
from fencepost.wire.message import Message
from fencepost.wire.types import Uuid


class LifecycleConfig(Struct, frozen=True):
    """How often a broker speaks to the controller, and how long it waits."""

    heartbeat_interval_ms: int = 2_000
    """`broker.heartbeat.interval.ms`: from one answered heartbeat to the next."""
    session_timeout_ms: int = 9_000
    """`broker.session.timeout.ms`: a broker that is silent for so long is fenced."""
    startup_timeout_ms: int = 60_000
    """`initial.broker.registration.timeout.ms`: for the whole state STARTING, and once more from
    `ReadyToUnfence` until the broker is unfenced."""
    log_dir_failure_timeout_ms: int = 30_000
    """`log.dir.failure.timeout.ms`: a failed directory that could not be reported to a controller
    in that time ends the broker."""
    hand_over_timeout_ms: int = 10_000
    """How long a controlled shutdown waits for others to take what the broker leads."""
    shutdown_request_timeout_ms: int = 3_000
    """How long a controlled shutdown waits for an answer of a controller."""

    @property
    def request_timeout_ms(self) -> int:
        """How long a request may take while the broker runs.

        After one without an answer the session must have time for another (KAFKA-14392).
        """
        return max(1, min(self.heartbeat_interval_ms, self.session_timeout_ms // 2))


class Registration(Struct, frozen=True):
    """What a broker says of itself when it registers."""

    broker_id: int
    cluster_id: str
    incarnation_id: Uuid
    """Random, for each start of the process."""
    listeners: tuple[ListenerImage, ...]
    """The advertised listeners of a broker, none of a controller."""
    features: tuple[FeatureRange, ...]
    """Every feature this software can run, `metadata.version` and `kraft.version` included."""
    rack: str | None = None
    log_dirs: tuple[Uuid, ...] = ()
    """Ids of the log directories that are online at this start."""
    offline_log_dirs: tuple[Uuid, ...] = ()
    """Ids, as far as they are known, of those that are not."""
    previous_broker_epoch: int = -1
    """The epoch in the `.kafka_cleanshutdown` of all directories if they agree, else -1."""


class Outcome(Struct, frozen=True):
    """The value of every `Reply` of the lifecycle: NONE, or why it did not come to it."""

    error: int
    reason: str = ""


# Effects: the message of a Send to CONTROLLER


class ControllerRequest(Struct, frozen=True):
    """Send `request` to the active controller, and feed its answer.

    `number` comes back in `ControllerAnswered`. After `timeout_ms` milliseconds the machine does
    not wait for the answer any more, and the request must not be sent later than that
    (KAFKA-19294).
    """

    number: int
    request: Message
    timeout_ms: int


# Inputs


class ControllerAnswered(Struct, frozen=True):
    """The controller's response to request `number`; or `error`, and None, if there is none."""

    number: int
    error: int
    response: Any


class MetadataApplied(Struct, frozen=True):
    """This node has applied the metadata log up to `image.offset`."""

    image: ClusterImage


class ControllerChanged(Struct, frozen=True):
    """Another node is the active controller now; -1 as long as none is known."""

    controller_id: int


class Start(Struct, frozen=True):
    """Register. Reply(token, Outcome) when the broker has caught up with the metadata log."""

    registration: Registration
    token: Any = None


class ReadyToUnfence(Struct, frozen=True):
    """The logs are loaded. Reply(token, Outcome) when the broker is unfenced.

    Only after `Start` was replied to.
    """

    token: Any = None


class LogDirFailed(Struct, frozen=True):
    """A log directory of this broker has failed (KIP-858)."""

    directory_id: Uuid


class CordonLogDirs(Struct, frozen=True):
    """These of the broker's log directories, and no others, take no new replicas (KIP-1066)."""

    directory_ids: tuple[Uuid, ...]


class BeginControlledShutdown(Struct, frozen=True):
    """The broker is to stop. Reply(token, Outcome) when it may; nothing is asked any more then."""

    token: Any = None


class ReplicasPlaced(Struct, frozen=True):
    """Replicas, as (topic id, partition, directory id), are in directories that the metadata does
    not have them in."""

    placed: Sequence[tuple[Uuid, int, Uuid]]
