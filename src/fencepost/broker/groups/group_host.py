"""The group coordinators of this node, as its configuration wants them.

What they do is `runtime.groups`. Here are their settings, threads for large batches and for work of
decisions, and a log
that clients cannot fill. The topic is created when the first client asks for a coordinator
(`find_coordinator`).
"""

from __future__ import annotations

import logging

from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.config.settings import Settings
from fencepost.broker.groups.background import GroupThreads
from fencepost.broker.loop.ports import AsyncPorts
from fencepost.broker.net.log_limit import LimitedLog
from fencepost.broker.storage.coordinator_kinds import CoordinatorKinds
from fencepost.machines.group.codec import GroupCodec
from fencepost.machines.group.config import GroupConfig
from fencepost.machines.group.coordinator import GroupCoordinator
from fencepost.machines.group.memory import GroupMemory
from fencepost.machines.group.settings import GroupSettings
from fencepost.runtime.groups import GroupCoordinators
from fencepost.runtime.metadata.host import MetadataHost
from fencepost.runtime.share_persister import SharePersister

log = logging.getLogger(__name__)

_MINUTE_MS = 60_000


class GroupHost(GroupCoordinators):
    """See the module."""

    def __init__(
        self,
        config: BrokerConfig,
        ports: AsyncPorts,
        metadata: MetadataHost,
        kinds: CoordinatorKinds,
        share_persister: SharePersister,
        settings: Settings,
    ) -> None:
        self.group_settings = group_settings = GroupSettings(settings.get)
        """What holds for a group, by its own configs and those of this broker."""
        self._threads = GroupThreads(ports.loop)
        self.memory = memory = GroupMemory(config.get("fencepost.groups.max.bytes"))
        groups = group_config(config)
        kind = kinds.make(
            lambda: GroupCoordinator(
                groups, memory, image=lambda: metadata.image, settings=group_settings
            ),
            GroupCodec(),
            LimitedLog(log, "groups"),
            write_timeout_ms=config.get("offsets.commit.timeout.ms"),
            compression=config.get("offsets.topic.compression.codec"),
            elsewhere=self._threads.run,
        )
        super().__init__(config.node_id, ports, metadata, kind, share_persister)
        self.rebalance_protocols = frozenset(config.get("group.coordinator.rebalance.protocols"))

    def close(self) -> None:
        """Unload all coordinators, and begin no more work on threads."""
        super().close()
        self._threads.close()


def group_config(config: BrokerConfig) -> GroupConfig:
    """What the broker's configuration says about groups."""
    get = config.get
    return GroupConfig(
        min_session_timeout_ms=get("group.min.session.timeout.ms"),
        max_session_timeout_ms=get("group.max.session.timeout.ms"),
        initial_rebalance_delay_ms=get("group.initial.rebalance.delay.ms"),
        max_size=get("group.max.size"),
        max_bytes=get("fencepost.group.max.bytes"),
        offset_metadata_max_length=get("offset.metadata.max.bytes"),
        offsets_retention_ms=get("offsets.retention.minutes") * _MINUTE_MS,
        offsets_retention_check_ms=get("offsets.retention.check.interval.ms"),
        consumer_max_size=get("group.consumer.max.size"),
        consumer_assignors=tuple(get("group.consumer.assignors")),
        consumer_regex_refresh_interval_ms=get("group.consumer.regex.refresh.interval.ms"),
        migration_policy=get("group.consumer.migration.policy").lower(),
        share_max_size=get("group.share.max.size"),
        share_initialize_retry_interval_ms=get("group.share.initialize.retry.interval.ms"),
        streams_max_size=get("group.streams.max.size"),
        streams_assignors=tuple(get("group.streams.assignors")),
    )
