"""What Kafka writes down rather than sends: records of its logs, contents of its files.

`names()` has every message class that is neither request nor response, the headers included, and
`message_class` gives one by its name, importing only the module that declares it. Bodies stand
behind different things in different places; the module of a class has functions for the whole:

| module | where | what stands in front of the body |
|---|---|---|
| `metadata` | `__cluster_metadata` | uvarints: frame version, record id, version |
| `remote_log` | `__remote_log_metadata` | the same |
| `group` | `__consumer_offsets` | keys: int16 type; values: int16 version |
| `share` | `__share_group_state` | the same |
| `transaction` | `__transaction_state` | the same |
| `control` | control batches of any log | keys: int16 version; values: see there |
| `consumer` | JoinGroup, SyncGroup | int16 version |
| `principal` | Envelope | int16 version |
| `txn_index` | `*.txnindex` | int16 version, in every entry |
| `producer_snapshot` | `*.snapshot` | int16 version |
| `quorum_state` | `quorum-state` | JSON, with the version as a key |

Adding a record class is a class in a module and its name here.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

from fencepost.wire.message import Message

_MODULES: Final[dict[str, tuple[str, ...]]] = {
    "consumer": (
        "ConsumerProtocolAssignment",
        "ConsumerProtocolSubscription",
    ),
    "control": (
        "ControlRecordTypeSchema",
        "EndTxnMarker",
        "KRaftVersionRecord",
        "LeaderChangeMessage",
        "SnapshotFooterRecord",
        "SnapshotHeaderRecord",
        "VotersRecord",
    ),
    "group_classic": (
        "GroupMetadataKey",
        "GroupMetadataValue",
        "LegacyOffsetCommitKey",
        "LegacyOffsetCommitValue",
        "OffsetCommitKey",
        "OffsetCommitValue",
    ),
    "group_consumer": (
        "ConsumerGroupCurrentMemberAssignmentKey",
        "ConsumerGroupCurrentMemberAssignmentValue",
        "ConsumerGroupMemberMetadataKey",
        "ConsumerGroupMemberMetadataValue",
        "ConsumerGroupMetadataKey",
        "ConsumerGroupMetadataValue",
        "ConsumerGroupPartitionMetadataKey",
        "ConsumerGroupPartitionMetadataValue",
        "ConsumerGroupRegularExpressionKey",
        "ConsumerGroupRegularExpressionValue",
        "ConsumerGroupTargetAssignmentMemberKey",
        "ConsumerGroupTargetAssignmentMemberValue",
        "ConsumerGroupTargetAssignmentMetadataKey",
        "ConsumerGroupTargetAssignmentMetadataValue",
    ),
    "group_share": (
        "ShareGroupCurrentMemberAssignmentKey",
        "ShareGroupCurrentMemberAssignmentValue",
        "ShareGroupMemberMetadataKey",
        "ShareGroupMemberMetadataValue",
        "ShareGroupMetadataKey",
        "ShareGroupMetadataValue",
        "ShareGroupPartitionMetadataKey",
        "ShareGroupPartitionMetadataValue",
        "ShareGroupStatePartitionMetadataKey",
        "ShareGroupStatePartitionMetadataValue",
        "ShareGroupTargetAssignmentMemberKey",
        "ShareGroupTargetAssignmentMemberValue",
        "ShareGroupTargetAssignmentMetadataKey",
        "ShareGroupTargetAssignmentMetadataValue",
    ),
    "group_streams": (
        "StreamsGroupCurrentMemberAssignmentKey",
        "StreamsGroupCurrentMemberAssignmentValue",
        "StreamsGroupMemberMetadataKey",
        "StreamsGroupMemberMetadataValue",
        "StreamsGroupMetadataKey",
        "StreamsGroupMetadataValue",
        "StreamsGroupTargetAssignmentMemberKey",
        "StreamsGroupTargetAssignmentMemberValue",
        "StreamsGroupTargetAssignmentMetadataKey",
        "StreamsGroupTargetAssignmentMetadataValue",
        "StreamsGroupTopologyKey",
        "StreamsGroupTopologyValue",
    ),
    "metadata_nodes": (
        "BrokerRegistrationChangeRecord",
        "FeatureLevelRecord",
        "FenceBrokerRecord",
        "RegisterBrokerRecord",
        "RegisterControllerRecord",
        "UnfenceBrokerRecord",
        "UnregisterBrokerRecord",
        "UnregisterControllerRecord",
        "ZkMigrationStateRecord",
    ),
    "metadata_security": (
        "AccessControlEntryRecord",
        "ClientQuotaRecord",
        "DelegationTokenRecord",
        "RemoveAccessControlEntryRecord",
        "RemoveDelegationTokenRecord",
        "RemoveUserScramCredentialRecord",
        "UserScramCredentialRecord",
    ),
    "metadata_topics": (
        "AbortTransactionRecord",
        "BeginTransactionRecord",
        "ClearElrRecord",
        "ConfigRecord",
        "EndTransactionRecord",
        "NoOpRecord",
        "PartitionChangeRecord",
        "PartitionRecord",
        "ProducerIdsRecord",
        "RemoveTopicRecord",
        "TopicRecord",
    ),
    "principal": ("DefaultPrincipalData",),
    "producer_snapshot": ("ProducerSnapshot",),
    "quorum_state": ("QuorumStateData",),
    "remote_log": (
        "RemoteLogSegmentMetadataRecord",
        "RemoteLogSegmentMetadataSnapshotRecord",
        "RemoteLogSegmentMetadataUpdateRecord",
        "RemotePartitionDeleteMetadataRecord",
    ),
    "share": (
        "ShareSnapshotKey",
        "ShareSnapshotValue",
        "ShareUpdateKey",
        "ShareUpdateValue",
    ),
    "transaction": (
        "TransactionLogKey",
        "TransactionLogValue",
    ),
    "txn_index": ("AbortedTxn",),
}

_MODULE_OF: Final[dict[str, str]] = {
    "RequestHeader": "fencepost.wire.header",
    "ResponseHeader": "fencepost.wire.header",
    **{name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names},
}


def names() -> list[str]:
    """Kafka's names of all record classes and headers, sorted."""
    return sorted(_MODULE_OF)


def message_class(name: str) -> type[Message]:
    """The class with Kafka's name, such as `TopicRecord`; KeyError when there is none."""
    loaded: type[Message] = getattr(import_module(_MODULE_OF[name]), name)
    return loaded
