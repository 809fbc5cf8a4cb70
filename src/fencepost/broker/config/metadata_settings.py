"""What the broker's configs say of the metadata log, its snapshots and its quorum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.config.endpoints import Endpoint
from fencepost.log.config import LogConfig
from fencepost.machines.quorum import QuorumConfig
from fencepost.machines.quorum.draft import NOT_SPOKEN
from fencepost.machines.quorum.voters import Endpoint as VoterEndpoint
from fencepost.runtime.metadata.log import MetadataLogSettings
from fencepost.runtime.metadata.snapshot_generation import SnapshotRules
from fencepost.wire.types import Uuid

METADATA_CONFIGS: Final = {
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "max.message.bytes": str(64 * 1024 * 1024),
}
"""Retention is by snapshots, and what a controller decides together is one batch."""


def metadata_log_settings(config: BrokerConfig) -> MetadataLogSettings:
    """How the metadata log is kept."""
    log_config = LogConfig.from_props(
        {
            **METADATA_CONFIGS,
            "segment.bytes": config.get("metadata.log.segment.bytes"),
            "segment.ms": config.get("metadata.log.segment.ms"),
        }
    )
    rules = SnapshotRules(
        max_bytes=config.get("metadata.log.max.record.bytes.between.snapshots"),
        interval_ms=config.get("metadata.log.max.snapshot.interval.ms"),
    )
    return MetadataLogSettings(log_config, rules)


def quorum_config(
    config: BrokerConfig, cluster_id: str, directory_id: Uuid, bound: Sequence[Endpoint]
) -> QuorumConfig:
    """The quorum machine's settings; `bound` is where the controllers' listeners are bound."""
    get, part = config.get, config.quorum
    told = config.advertised_controllers(list(bound))
    return QuorumConfig(
        cluster_id=cluster_id,
        directory_id=directory_id,
        election_timeout_ms=get("controller.quorum.election.timeout.ms"),
        election_backoff_max_ms=get("controller.quorum.election.backoff.max.ms"),
        fetch_timeout_ms=get("controller.quorum.fetch.timeout.ms"),
        request_timeout_ms=get("controller.quorum.request.timeout.ms"),
        retry_backoff_ms=get("controller.quorum.retry.backoff.ms"),
        fetch_max_bytes=get("controller.quorum.fetch.max.bytes"),
        fetch_snapshot_max_bytes=get("controller.quorum.fetch.snapshot.max.bytes"),
        listener=part.listener_names[0] if part.listener_names else "CONTROLLER",
        endpoints=tuple(VoterEndpoint(one.name, one.host, one.port) for one in told),
        can_become_voter=part.is_controller,
        auto_join=get("controller.quorum.auto.join.enable"),
        bootstrap_servers=len(part.servers),
        retention_bytes=get("metadata.max.retention.bytes"),
        retention_ms=get("metadata.max.retention.ms"),
        can_load_snapshots=not follows_with_draft(config),
    )


def follows_with_draft(config: BrokerConfig) -> bool:
    """Whether this node fetches with FetchQuorumRecords, which has no snapshots."""
    version: int = config.get("fencepost.draft.fetch.quorum.records.follow.version")
    return version != NOT_SPOKEN
