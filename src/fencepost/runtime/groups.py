"""The group coordinators of a node: one for each partition of `__consumer_offsets` it leads.

A group belongs to the partition that its id hashes to, and to that partition's leader
(`runtime.coordinator.topic`). What a coordinator does is `machines.group`, how it is run is
`runtime.coordinator`; here it gets changes of the metadata, deleted topics among them. A broker
and a simulated broker run this class.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from fencepost.machines.group.coordinator import GroupCoordinator
from fencepost.machines.group.shard import Decision
from fencepost.machines.group.share.state import InitializeStates
from fencepost.machines.image import ClusterImage, ImageDelta
from fencepost.runtime.coordinator import Coordinator, CoordinatorKind
from fencepost.runtime.coordinator.topic import TopicCoordinators
from fencepost.runtime.internal_topics import OFFSETS_TOPIC
from fencepost.runtime.metadata.host import MetadataHost
from fencepost.runtime.ports import MachinePorts
from fencepost.runtime.share_group_states import Failures, ShareGroupStates
from fencepost.runtime.share_persister import SharePersister
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

log = logging.getLogger(__name__)

REBALANCE_PROTOCOLS: Final = frozenset({"classic", "consumer", "streams"})
"""By default; share groups are switched by their feature alone."""

Decide = Callable[[GroupCoordinator, Any], Decision]
"""Decides about a request, given the coordinator and the token to decide with."""


class GroupCoordinators(TopicCoordinators[GroupCoordinator]):
    """See the module."""

    def __init__(
        self,
        node_id: int,
        ports: MachinePorts,
        metadata: MetadataHost,
        kind: CoordinatorKind[GroupCoordinator],
        share_persister: SharePersister | None = None,
    ) -> None:
        """`kind` is how they are run; what they do once they are loaded is added here.

        `share_persister` is the way to share coordinators: without it no partition gets a state,
        and share groups have none to share.
        """
        kind = replace(kind, on_loaded=self._loaded, on_send=self._send)
        super().__init__(OFFSETS_TOPIC, node_id, ports, metadata, kind)
        self.new_member_suffix: Callable[[], str] = _random_suffix
        """Makes what makes the id of a new member unique; the simulator sets its own."""
        self.rebalance_protocols: frozenset[str] = REBALANCE_PROTOCOLS
        """What members may speak here (`group.coordinator.rebalance.protocols`)."""
        self.share_states = (
            None if share_persister is None else ShareGroupStates(share_persister, self.submit)
        )
        metadata.on_image(self._image_changed)

    # -- metadata --------------------------------------------------------------------------

    def _image_changed(self, image: ClusterImage, delta: ImageDelta) -> None:
        self.runtime.tell_all(lambda machine: machine.decide_image_changed(delta))
        if not delta.deleted_topics:
            return
        ids = {topic.name: topic.topic_id for topic in delta.deleted_topics}

        def is_gone(name: str, topic_id: Uuid) -> bool:
            return name in ids and topic_id in (Uuid.ZERO, ids[name])

        self.runtime.tell_all(lambda machine: machine.decide_topics_deleted(is_gone))

    def _loaded(self, coordinator: Coordinator[GroupCoordinator]) -> None:
        """Topics may have been deleted while no broker coordinated its groups."""
        if coordinator.machine.groups:
            count = len(coordinator.machine.groups)
            log.info(
                "%s: loaded %d groups in %d ms", coordinator.partition, count, coordinator.load_ms
            )
        is_gone = missing_from(self._metadata.image)
        coordinator.tell(lambda machine: machine.decide_topics_deleted(is_gone))

    # -- what coordinators send --------------------------------------------------------------

    def _send(self, message: Any, leader_epoch: int) -> None:
        assert isinstance(message, InitializeStates), message
        if self.share_states is not None:
            self.share_states.initialize(message, partial(_log_failures, message))


def _log_failures(message: InitializeStates, error: ErrorCode, failures: Failures) -> None:
    """A later heartbeat of a member has the states begun that were not."""
    if failures:
        (topic_id, index), (reason, words) = next(iter(failures.items()))
        log.warning(
            "share group %r: %d partitions got no state, %s-%d for one: %s (%s)",
            message.group_id,
            len(failures),
            topic_id,
            index,
            reason.name,
            words,
        )


def _random_suffix() -> str:
    return str(uuid.uuid4())


def missing_from(image: ClusterImage) -> Callable[[str, Uuid], bool]:
    """Whether a topic of that name, and id if one is known, is not in the cluster."""

    def is_gone(name: str, topic_id: Uuid) -> bool:
        topic = image.topics_by_name.get(name)
        return topic is None or topic_id not in (Uuid.ZERO, topic.topic_id)

    return is_gone
