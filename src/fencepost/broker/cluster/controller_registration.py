"""A controller registers with the active one, and looks after its registration (KIP-919).

A registration is a record of the metadata log, and no session goes with it. So the image says
whether there is anything to do: the registration is missing, or is that of an earlier process, or
says something else than is true now. Then it is sent, and again after a while if it was refused.
Clusters with an older `metadata.version` do not know of such registrations. A node without a
listener for controllers has nothing to say: nobody could reach it.

No asyncio here: a simulator runs it on its own timers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from fencepost.broker.cluster.controller_channel import ControllerChannel, TimerSource
from fencepost.broker.config.features import SUPPORTED_FEATURES
from fencepost.machines.controller.config import METADATA_VERSION_FEATURE
from fencepost.machines.controller.features import CONTROLLER_REGISTRATION_LEVEL
from fencepost.machines.image import ClusterImage, FeatureRange, ListenerImage
from fencepost.wire.api.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
    Feature,
    Listener,
)
from fencepost.wire.errors import ErrorCode, error_name
from fencepost.wire.types import Uuid

log = logging.getLogger(__name__)

RETRY_MS: Final = 1_000
"""How long after a refusal the registration is sent again."""


class ControllerRegistration:
    """Keeps the registration of one controller; `image_changed` is told of every image."""

    def __init__(
        self,
        node_id: int,
        incarnation_id: Uuid,
        listeners: Sequence[ListenerImage],
        channel: ControllerChannel,
        timers: TimerSource,
        image: Callable[[], ClusterImage],
    ) -> None:
        self._node_id = node_id
        self._incarnation_id = incarnation_id
        self._listeners = tuple(listeners)
        self._features = tuple(
            FeatureRange(f.name, f.min_level, f.max_level) for f in SUPPORTED_FEATURES
        )
        self._channel = channel
        self._timers = timers
        self._image = image
        self._is_asking = False
        self._closed = False

    def image_changed(self) -> None:
        """Register, if the committed metadata do not say what they should."""
        if self._closed or self._is_asking or not self._listeners or self._is_registered():
            return
        self._is_asking = True
        self._channel.ask(self._request(), self._note_reply)

    def close(self) -> None:
        """Ask no more."""
        self._closed = True

    def _is_registered(self) -> bool:
        """Whether the registration stands, or cannot be."""
        image = self._image()
        if image.features.get(METADATA_VERSION_FEATURE, 0) < CONTROLLER_REGISTRATION_LEVEL:
            return True
        present = image.controllers.get(self._node_id)
        return (
            present is not None
            and present.incarnation_id == self._incarnation_id
            and present.listeners == self._listeners
            and present.features == self._features
        )

    def _request(self) -> ControllerRegistrationRequest:
        return ControllerRegistrationRequest(
            controller_id=self._node_id,
            incarnation_id=self._incarnation_id,
            zk_migration_ready=False,
            listeners=[
                Listener(
                    name=one.name,
                    host=one.host,
                    port=one.port,
                    security_protocol=one.security_protocol,
                )
                for one in self._listeners
            ],
            features=[
                Feature(
                    name=one.name,
                    min_supported_version=one.min_level,
                    max_supported_version=one.max_level,
                )
                for one in self._features
            ],
        )

    def _note_reply(self, error: ErrorCode, reply: ControllerRegistrationResponse | None) -> None:
        """Done, for as long as the image says so; it is looked at again soon in any case."""
        code = int(error) if reply is None else reply.error_code
        if code and not self._closed:
            log.warning("this controller's registration was refused: %s", error_name(code))
        self._timers.after(RETRY_MS, self._look_again)

    def _look_again(self) -> None:
        self._is_asking = False
        self.image_changed()


def registered_listeners(endpoints: Sequence[Any]) -> list[ListenerImage]:
    """Listeners without encryption or authentication at (name, host, port)."""
    return [ListenerImage(one.name, one.host, one.port, 0) for one in endpoints]
