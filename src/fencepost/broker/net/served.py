"""What is served, in which versions, on which listeners: the one list, and what ApiVersions says.

A row names the module under `broker/apis/` that has the handler, which is loaded when the first
request comes: a start does not wait for sixty modules, most of which a broker may never need.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from msgspec import Struct

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
    Served(0, "produce", "3-13", advertise_from=0),
    Served(1, "fetch", "4-18"),
    Served(1, "raft_fetch", "4-18", listeners=(CONTROLLER,)),
    Served(2, "list_offsets", "1-11"),
    Served(3, "metadata", "0-13"),
    Served(8, "offset_commit", "2-10"),
    Served(9, "offset_fetch", "1-10"),
    Served(10, "find_coordinator", "0-6"),
    Served(11, "join_group", "0-9"),
    Served(12, "heartbeat", "0-4"),
    Served(13, "leave_group", "0-5"),
    Served(14, "sync_group", "0-5"),
    Served(15, "describe_groups", "0-6"),
    Served(16, "list_groups", "0-5"),
    Served(17, "sasl", "0-1", listeners=BOTH),
    Served(18, "api_versions", "0-5", listeners=BOTH),
    Served(19, "create_topics", "2-7", listeners=BOTH),
    Served(20, "delete_topics", "1-6", listeners=BOTH),
    Served(21, "delete_records", "0-2"),
    Served(22, "init_producer_id", "0-5", unstable=6),
    Served(23, "offset_for_leader_epoch", "2-4"),
    Served(24, "add_partitions_to_txn", "0-5"),
    Served(25, "add_offsets_to_txn", "0-4"),
    Served(26, "end_txn", "0-5"),
    Served(27, "write_txn_markers", "1-2"),
    Served(28, "txn_offset_commit", "0-5"),
    Served(29, "acls", "1-3", listeners=BOTH),
    Served(30, "acls", "1-3", listeners=BOTH),
    Served(31, "acls", "1-3", listeners=BOTH),
    Served(32, "describe_configs", "1-4", listeners=BOTH),
    Served(33, "alter_configs", "0-2", listeners=BOTH),
    Served(34, "alter_replica_log_dirs", "1-2"),
    Served(35, "describe_log_dirs", "1-5"),
    Served(36, "sasl", "0-2", listeners=BOTH),
    Served(37, "create_partitions", "0-3", listeners=BOTH),
    Served(38, "delegation_tokens", "1-3", listeners=BOTH),
    Served(39, "delegation_tokens", "1-2", listeners=BOTH),
    Served(40, "delegation_tokens", "1-2", listeners=BOTH),
    Served(41, "delegation_tokens", "1-3", listeners=BOTH),
    Served(42, "delete_groups", "0-2"),
    Served(43, "elect_leaders", "0-2", listeners=BOTH),
    Served(44, "incremental_alter_configs", "0-1", listeners=BOTH),
    Served(45, "alter_partition_reassignments", "0-1", listeners=BOTH),
    Served(46, "list_partition_reassignments", "0", listeners=BOTH),
    Served(47, "offset_delete", "0"),
    Served(48, "client_quotas", "0-1"),
    Served(49, "client_quotas", "0-1", listeners=BOTH),
    Served(50, "scram_credentials", "0", listeners=BOTH),
    Served(51, "scram_credentials", "0", listeners=BOTH),
    Served(52, "vote", "0-2", listeners=(CONTROLLER,)),
    Served(53, "begin_quorum_epoch", "0-1", listeners=(CONTROLLER,)),
    Served(54, "end_quorum_epoch", "0-1", listeners=(CONTROLLER,)),
    Served(55, "describe_quorum", "0-2", listeners=BOTH),
    Served(56, "alter_partition", "2-3", listeners=(CONTROLLER,)),
    Served(57, "update_features", "0-2", listeners=BOTH),
    Served(58, "envelope", "0", listeners=(CONTROLLER,)),
    Served(59, "fetch_snapshot", "0-1", listeners=(CONTROLLER,)),
    Served(60, "describe_cluster", "0-2", listeners=BOTH),
    Served(61, "describe_producers", "0"),
    Served(62, "broker_registration", "0-4", listeners=(CONTROLLER,)),
    Served(63, "broker_heartbeat", "0-2", listeners=(CONTROLLER,)),
    Served(64, "unregister_broker", "0", listeners=BOTH),
    Served(65, "describe_transactions", "0"),
    Served(66, "list_transactions", _LIST_TRANSACTIONS),
    Served(67, "allocate_producer_ids", "0", listeners=(CONTROLLER,)),
    Served(68, "consumer_group_heartbeat", "0-1"),
    Served(70, "controller_registration", "0", listeners=(CONTROLLER,)),
    Served(73, "assign_replicas_to_dirs", "0", listeners=(CONTROLLER,)),
    Served(74, "list_config_resources", "0-1"),
    Served(75, "describe_topic_partitions", "0"),
    Served(80, "add_raft_voter", "0-1", listeners=BOTH),
    Served(81, "remove_raft_voter", "0", listeners=BOTH),
    Served(82, "update_raft_voter", "0", listeners=(CONTROLLER,)),
    Served(94, "unregister_controller", "0", listeners=BOTH),
)

SERVED_BY_KIND: Final = {
    kind: {row.api_key: row for row in SERVED if kind in row.listeners} for kind in BOTH
}
"""The rows by kind of listener and API key."""
