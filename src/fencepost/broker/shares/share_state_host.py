"""The share coordinators of this node, as its configuration wants them, and the way to others.

What they do is `runtime.share_states`. The topic is created when a broker first asks for a share
coordinator (`find_coordinator`, `runtime.share_state_client`).
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from typing import Any, Final

from fencepost.broker.cluster.broker_channel import BrokerChannel
from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.loop.ports import AsyncPorts
from fencepost.broker.net.log_limit import LimitedLog
from fencepost.broker.storage.coordinator_kinds import CoordinatorKinds
from fencepost.machines.share_state.config import ShareStateConfig
from fencepost.machines.share_state.coordinator import ShareStateCoordinator
from fencepost.machines.share_state.records import ShareStateCodec
from fencepost.runtime.metadata.host import MetadataHost
from fencepost.runtime.share_state_client import OnResponse, ShareStateClient
from fencepost.runtime.share_states import ShareStateCoordinators

log = logging.getLogger(__name__)

PURPOSE: Final = "share-group-state"


class ShareStateHost(ShareStateCoordinators):
    """See the module."""

    def __init__(
        self,
        config: BrokerConfig,
        ports: AsyncPorts,
        metadata: MetadataHost,
        kinds: CoordinatorKinds,
    ) -> None:
        settings = share_state_config(config)
        kind = kinds.make(
            lambda: ShareStateCoordinator(settings, lambda: metadata.image),
            ShareStateCodec(),
            LimitedLog(log, "share states"),
            write_timeout_ms=config.get("share.coordinator.write.timeout.ms"),
            compression=config.get("share.coordinator.state.topic.compression.codec"),
        )
        super().__init__(config.node_id, ports, metadata, kind)


class ShareStateLink:
    """`runtime.share_state_client.ShareCoordinatorLink` of a broker process."""

    def __init__(
        self, channel: BrokerChannel, ports: AsyncPorts, here: ShareStateCoordinators
    ) -> None:
        self._channel = channel
        self._lane = ports.scheduler.lane()
        self._here = here

    def ask_here(self, request: Any, on_response: OnResponse) -> None:
        """Ask the coordinators of this node."""
        self._lane.begin(self._here.answer(request, on_response))

    def ask(
        self,
        node_id: int,
        request: Any,
        on_response: OnResponse,
        on_failure: Callable[[str], None],
    ) -> None:
        """Ask another broker; one of the two is called, never before this returns."""
        self._channel.ask(node_id, request, on_response, on_failure, purpose=PURPOSE)


def share_state_client(
    config: BrokerConfig,
    ports: AsyncPorts,
    metadata: MetadataHost,
    link: ShareStateLink,
    create_topic: Callable[[], None],
) -> ShareStateClient:
    """What leaders of share partitions, and coordinators of share groups, ask through."""
    return ShareStateClient(
        config.node_id, ports, lambda: metadata.image, link, create_topic, random.random
    )


def share_state_config(config: BrokerConfig) -> ShareStateConfig:
    """What the broker's configuration says about the share coordinator."""
    get = config.get
    return ShareStateConfig(
        updates_per_snapshot=get("share.coordinator.snapshot.update.records.per.snapshot"),
        cold_snapshot_interval_ms=get("share.coordinator.cold.partition.snapshot.interval.ms"),
        prune_interval_ms=get("share.coordinator.state.topic.prune.interval.ms"),
    )
