"""Which brokers have been heard of lately: the only state of a controller that is not in the log.

A broker that is not fenced must be heard of within the session timeout, or it is fenced. What is
kept here is soft: a controller that has just become active knows nothing, and gives every broker a
whole session from then on. It is also remembered how far each broker has read the metadata, so that
a broker that stops is held back until the others know of its new leaders.
"""

from __future__ import annotations

from msgspec import Struct

from fencepost.machines.image import BrokerImage, ClusterImage


class _Contact(Struct, frozen=True):
    """The last heartbeat under one broker epoch."""

    broker_epoch: int
    heard_ms: int
    metadata_offset: int


class Sessions:
    """When each broker was last heard of, and how far it was."""

    def __init__(self, timeout_ms: int, since_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._since_ms = since_ms
        self._contacts: dict[int, _Contact] = {}

    def hear(self, broker_id: int, broker_epoch: int, metadata_offset: int, now_ms: int) -> None:
        """A heartbeat has come under this broker epoch."""
        self._contacts[broker_id] = _Contact(broker_epoch, now_ms, metadata_offset)

    def forget(self, broker_id: int) -> None:
        """The broker is gone."""
        self._contacts.pop(broker_id, None)

    def deadline_ms(self, broker: BrokerImage) -> int:
        """When the session of an unfenced broker ends, if nothing is heard of it."""
        contact = self._contacts.get(broker.broker_id)
        heard_ms = self._since_ms
        if contact is not None and contact.broker_epoch == broker.epoch:
            heard_ms = contact.heard_ms
        return heard_ms + self._timeout_ms

    def has_session(self, broker: BrokerImage, now_ms: int) -> bool:
        """Whether a broker counts as alive: not fenced, and heard of lately."""
        return not broker.fenced and now_ms < self.deadline_ms(broker)

    def heard_since(self, broker: BrokerImage, since_ms: int) -> bool:
        """Whether the broker has sent a heartbeat after that time."""
        contact = self._contacts.get(broker.broker_id)
        is_current = contact is not None and contact.broker_epoch == broker.epoch
        return contact is not None and is_current and contact.heard_ms > since_ms

    def lowest_active_offset(self, image: ClusterImage) -> int | None:
        """How far the slowest active broker has read the metadata; None if there is none.

        A broker that has not been heard of yet has read nothing.
        """
        offsets = []
        for broker in image.brokers.values():
            if broker.is_active:
                contact = self._contacts.get(broker.broker_id)
                is_current = contact is not None and contact.broker_epoch == broker.epoch
                offsets.append(contact.metadata_offset if contact and is_current else -1)
        return min(offsets, default=None)
