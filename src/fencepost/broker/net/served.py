"""What is served, in which versions, on which listeners, and to which clients.

The one list of APIs: ApiVersions answers from it. The last column has the permissions that an API
asks a client for; the handler says what a client without one is answered.

A row names the module under `broker/apis/` that registers the handler. It is loaded when the first
request arrives: a start does not wait for sixty modules, most of which a broker may never need.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from msgspec import Struct

from fencepost.runtime.requests.permissions import (
    ALTER_CLUSTER,
    ALTER_CLUSTER_CONFIGS,
    ALTER_GROUP_CONFIGS,
    ALTER_TOPIC,
    ALTER_TOPIC_CONFIGS,
    CLUSTER_ACTION,
    CREATE_CLUSTER,
    CREATE_TOKENS,
    CREATE_TOPIC,
    DELETE_CLUSTER,
    DELETE_GROUP,
    DELETE_TOPIC,
    DESCRIBE_CLUSTER,
    DESCRIBE_CLUSTER_CONFIGS,
    DESCRIBE_DELEGATION_TOKEN,
    DESCRIBE_GROUP,
    DESCRIBE_GROUP_CONFIGS,
    DESCRIBE_TOKENS,
    DESCRIBE_TOPIC,
    DESCRIBE_TOPIC_CONFIGS,
    DESCRIBE_TRANSACTIONAL_ID,
    IDEMPOTENT_WRITE,
    READ_GROUP,
    READ_TOPIC,
    TWO_PHASE_COMMIT,
    WRITE_TOPIC,
    WRITE_TRANSACTIONAL_ID,
    Permission,
)

BROKER: Final = "broker"
CONTROLLER: Final = "controller"
BOTH: Final = (BROKER, CONTROLLER)
_LIST_TRANSACTIONS: Final = "0-1" if find_spec("re2") is None else "0-2"
"""Patterns of ids (v2) are there with google-re2; see `broker/transactions/id_pattern.py`."""


class Served(Struct, frozen=True):
    """One API on listeners of some kinds."""

    api_key: int
    module: str
    versions: str
    """The lowest and the highest: "2-7", or "0" for one alone."""
    listeners: tuple[str, ...] = (BROKER,)
    advertise_from: int | None = None
    """A lower minimum to advertise than is served (Produce, KAFKA-18659)."""
    asks: tuple[Permission, ...] = ()
    """The permissions that Kafka asks a client for, each for the resources that the request is
    about; empty: every client is answered the same. A handler asks `runtime.requests.access` for no
    others."""
    unstable: int | None = None
    """The version behind `versions`, which Kafka may still change: it is served with
    `unstable.api.versions.enable` alone."""

    @property
    def min_version(self) -> int:
        """The lowest version that is served."""
        return int(self.versions.partition("-")[0])

    @property
    def max_version(self) -> int:
        """The highest version that is served, unstable ones aside."""
        return int(self.versions.rpartition("-")[2])

    @property
    def advertised_min_version(self) -> int:
        """The lowest version that ApiVersions says."""
        return self.min_version if self.advertise_from is None else self.advertise_from


SERVED: Final = (
    Served(0, "produce", "3-13", advertise_from=0, asks=(WRITE_TRANSACTIONAL_ID, WRITE_TOPIC)),
    Served(1, "fetch", "4-18", asks=(READ_TOPIC, CLUSTER_ACTION)),
    Served(1, "raft_fetch", "4-18", listeners=(CONTROLLER,), asks=(CLUSTER_ACTION,)),
    Served(2, "offsets", "1-11", asks=(DESCRIBE_TOPIC,)),
    Served(
        3, "metadata", "0-13", asks=(DESCRIBE_TOPIC, CREATE_CLUSTER, CREATE_TOPIC, DESCRIBE_CLUSTER)
    ),
    Served(8, "groups", "2-10", asks=(READ_GROUP, READ_TOPIC)),
    Served(9, "groups", "1-10", asks=(DESCRIBE_GROUP, DESCRIBE_TOPIC)),
    Served(
        10,
        "find_coordinator",
        "0-6",
        asks=(DESCRIBE_GROUP, DESCRIBE_TRANSACTIONAL_ID, CLUSTER_ACTION),
    ),
    Served(11, "groups", "0-9", asks=(READ_GROUP,)),
    Served(12, "groups", "0-4", asks=(READ_GROUP,)),
    Served(13, "groups", "0-5", asks=(READ_GROUP,)),
    Served(14, "groups", "0-5", asks=(READ_GROUP,)),
    Served(15, "group_administration", "0-6", asks=(DESCRIBE_GROUP,)),
    Served(16, "group_administration", "0-5", asks=(DESCRIBE_CLUSTER, DESCRIBE_GROUP)),
    Served(17, "sasl", "0-1", listeners=BOTH),
    Served(18, "api_versions", "0-5", listeners=BOTH),
    Served(
        19,
        "create_topics",
        "2-7",
        listeners=BOTH,
        asks=(CREATE_CLUSTER, CREATE_TOPIC, DESCRIBE_TOPIC_CONFIGS),
    ),
    Served(
        20,
        "delete_topics",
        "1-6",
        listeners=BOTH,
        asks=(DELETE_CLUSTER, DESCRIBE_TOPIC, DELETE_TOPIC),
    ),
    Served(21, "offsets", "0-2", asks=(DELETE_TOPIC,)),
    Served(
        22,
        "transactions",
        "0-5",
        unstable=6,
        asks=(WRITE_TRANSACTIONAL_ID, TWO_PHASE_COMMIT, IDEMPOTENT_WRITE, WRITE_TOPIC),
    ),
    Served(23, "offsets", "2-4", asks=(CLUSTER_ACTION, DESCRIBE_TOPIC)),
    Served(
        24,
        "transactions",
        "0-5",
        asks=(WRITE_TRANSACTIONAL_ID, WRITE_TOPIC, CLUSTER_ACTION),
    ),
    Served(25, "transactions", "0-4", asks=(WRITE_TRANSACTIONAL_ID, READ_GROUP)),
    Served(26, "transactions", "0-5", asks=(WRITE_TRANSACTIONAL_ID,)),
    Served(27, "transactions", "1-2", asks=(ALTER_CLUSTER, CLUSTER_ACTION)),
    Served(28, "transactions", "0-6", asks=(WRITE_TRANSACTIONAL_ID, READ_GROUP, READ_TOPIC)),
    Served(29, "acls", "1-3", listeners=BOTH, asks=(DESCRIBE_CLUSTER,)),
    Served(30, "acls", "1-3", listeners=BOTH, asks=(ALTER_CLUSTER,)),
    Served(31, "acls", "1-3", listeners=BOTH, asks=(ALTER_CLUSTER,)),
    Served(
        32,
        "describe_configs",
        "1-4",
        listeners=BOTH,
        asks=(DESCRIBE_TOPIC_CONFIGS, DESCRIBE_GROUP_CONFIGS, DESCRIBE_CLUSTER_CONFIGS),
    ),
    Served(
        33,
        "alter_configs",
        "0-2",
        listeners=BOTH,
        asks=(ALTER_TOPIC_CONFIGS, ALTER_GROUP_CONFIGS, ALTER_CLUSTER_CONFIGS, CLUSTER_ACTION),
    ),
    Served(34, "alter_replica_log_dirs", "1-2", asks=(ALTER_CLUSTER,)),
    Served(35, "describe_log_dirs", "1-5", asks=(DESCRIBE_CLUSTER,)),
    Served(36, "sasl", "0-2", listeners=BOTH),
    Served(37, "create_partitions", "0-3", listeners=BOTH, asks=(ALTER_TOPIC,)),
    Served(38, "delegation_tokens", "1-3", listeners=BOTH, asks=(CREATE_TOKENS,)),
    Served(39, "delegation_tokens", "1-2", listeners=BOTH),
    Served(40, "delegation_tokens", "1-2", listeners=BOTH),
    Served(
        41,
        "delegation_tokens",
        "1-3",
        listeners=BOTH,
        asks=(DESCRIBE_DELEGATION_TOKEN, DESCRIBE_TOKENS),
    ),
    Served(42, "group_administration", "0-3", asks=(DELETE_GROUP,)),
    Served(43, "elect_leaders", "0-2", listeners=BOTH, asks=(ALTER_CLUSTER,)),
    Served(
        44,
        "incremental_alter_configs",
        "0-1",
        listeners=BOTH,
        asks=(ALTER_TOPIC_CONFIGS, ALTER_GROUP_CONFIGS, ALTER_CLUSTER_CONFIGS, CLUSTER_ACTION),
    ),
    Served(45, "alter_partition_reassignments", "0-1", listeners=BOTH, asks=(ALTER_CLUSTER,)),
    Served(46, "list_partition_reassignments", "0", listeners=BOTH, asks=(DESCRIBE_CLUSTER,)),
    Served(47, "group_administration", "0", asks=(DELETE_GROUP, READ_TOPIC)),
    Served(48, "client_quotas", "0-1", asks=(DESCRIBE_CLUSTER_CONFIGS,)),
    Served(49, "client_quotas", "0-1", listeners=BOTH, asks=(ALTER_CLUSTER_CONFIGS,)),
    Served(50, "scram_credentials", "0", listeners=BOTH, asks=(DESCRIBE_CLUSTER,)),
    Served(51, "scram_credentials", "0", listeners=BOTH, asks=(ALTER_CLUSTER,)),
    Served(52, "vote", "0-2", listeners=(CONTROLLER,), asks=(CLUSTER_ACTION,)),
    Served(53, "begin_quorum_epoch", "0-1", listeners=(CONTROLLER,), asks=(CLUSTER_ACTION,)),
    Served(54, "end_quorum_epoch", "0-1", listeners=(CONTROLLER,), asks=(CLUSTER_ACTION,)),
    Served(55, "describe_quorum", "0-2", listeners=BOTH, asks=(DESCRIBE_CLUSTER,)),
    Served(56, "alter_partition", "2-3", listeners=(CONTROLLER,), asks=(CLUSTER_ACTION,)),
    Served(57, "update_features", "0-2", listeners=BOTH, asks=(ALTER_CLUSTER,)),
    Served(58, "envelope", "0", listeners=(CONTROLLER,), asks=(CLUSTER_ACTION,)),
    Served(59, "fetch_snapshot", "0-1", listeners=(CONTROLLER,), asks=(CLUSTER_ACTION,)),
    Served(60, "describe_cluster", "0-2", listeners=BOTH, asks=(DESCRIBE_CLUSTER, ALTER_CLUSTER)),
    Served(61, "describe_producers", "0", asks=(READ_TOPIC,)),
    Served(62, "broker_registration", "0-4", listeners=(CONTROLLER,), asks=(CLUSTER_ACTION,)),
    Served(63, "broker_heartbeat", "0-2", listeners=(CONTROLLER,), asks=(CLUSTER_ACTION,)),
    Served(64, "unregister_broker", "0", listeners=BOTH, asks=(ALTER_CLUSTER,)),
    Served(65, "describe_transactions", "0", asks=(DESCRIBE_TRANSACTIONAL_ID, DESCRIBE_TOPIC)),
    Served(66, "list_transactions", _LIST_TRANSACTIONS, asks=(DESCRIBE_TRANSACTIONAL_ID,)),
    Served(67, "allocate_producer_ids", "0", listeners=(CONTROLLER,), asks=(CLUSTER_ACTION,)),
    Served(68, "consumer_group_heartbeat", "0-1", asks=(READ_GROUP, DESCRIBE_TOPIC)),
    Served(69, "group_administration", "0-1", asks=(DESCRIBE_GROUP, DESCRIBE_TOPIC)),
    Served(70, "controller_registration", "0", listeners=(CONTROLLER,), asks=(CLUSTER_ACTION,)),
    Served(73, "assign_replicas_to_dirs", "0", listeners=(CONTROLLER,), asks=(CLUSTER_ACTION,)),
    Served(74, "list_config_resources", "0-1", asks=(DESCRIBE_CLUSTER_CONFIGS,)),
    Served(75, "describe_topic_partitions", "0", asks=(DESCRIBE_TOPIC,)),
    Served(76, "share_groups", "1", asks=(READ_GROUP, DESCRIBE_TOPIC)),
    Served(77, "share_groups", "1", asks=(DESCRIBE_GROUP, DESCRIBE_TOPIC)),
    Served(78, "share_consumers", "1-2", asks=(READ_GROUP, READ_TOPIC)),
    Served(79, "share_consumers", "1-2", asks=(READ_GROUP, READ_TOPIC)),
    Served(80, "add_raft_voter", "0-1", listeners=BOTH, asks=(ALTER_CLUSTER,)),
    Served(81, "remove_raft_voter", "0", listeners=BOTH, asks=(ALTER_CLUSTER,)),
    Served(82, "update_raft_voter", "0", listeners=(CONTROLLER,), asks=(CLUSTER_ACTION,)),
    Served(83, "share_group_state", "0", asks=(CLUSTER_ACTION,)),
    Served(84, "share_group_state", "0", asks=(CLUSTER_ACTION,)),
    Served(85, "share_group_state", "0-1", asks=(CLUSTER_ACTION,)),
    Served(86, "share_group_state", "0", asks=(CLUSTER_ACTION,)),
    Served(87, "share_group_state", "0-1", asks=(CLUSTER_ACTION,)),
    Served(
        88,
        "streams_groups",
        "0-1",
        asks=(READ_GROUP, DESCRIBE_TOPIC, CREATE_CLUSTER, CREATE_TOPIC),
    ),
    Served(89, "streams_groups", "0-1", asks=(DESCRIBE_GROUP, DESCRIBE_TOPIC)),
    Served(90, "share_groups", "0-1", asks=(DESCRIBE_GROUP, DESCRIBE_TOPIC)),
    Served(91, "share_groups", "0", asks=(READ_GROUP, READ_TOPIC)),
    Served(92, "share_groups", "0", asks=(DELETE_GROUP, READ_TOPIC)),
    Served(93, "streams_groups", "0", asks=(READ_GROUP,)),
    Served(94, "unregister_controller", "0", listeners=BOTH, asks=(ALTER_CLUSTER,)),
)

SERVED_BY_KIND: Final = {
    kind: {row.api_key: row for row in SERVED if kind in row.listeners} for kind in BOTH
}
"""The rows by kind of listener and API key."""
