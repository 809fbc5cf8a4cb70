"""What tools want to know of an API beside its messages: who sends it to whom, and who may.

As Kafka 4.1 to trunk of 2026 have it. The APIs only ZooKeeper clusters had are here too.

`cluster_action` is what handlers ask for. Kafka's own list of APIs has a mark of that name, which
matters for throttling and differs: DescribeQuorum and UpdateFeatures have the mark, but ask for
DESCRIBE and ALTER; FetchSnapshot, ControllerRegistration, AssignReplicasToDirs and UpdateRaftVoter
do not have it, but ask for CLUSTER_ACTION.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Listener = Literal["broker", "controller"]
Sender = Literal["client", "broker", "controller"]


class ApiFacts(NamedTuple):
    """One API."""

    api_key: int
    """Key of the API, as in requests."""
    listeners: tuple[Listener, ...]
    """Kinds of nodes that take it, be it to forward it to a controller; empty when it is gone."""
    senders: tuple[Sender, ...]
    """Who sends it; `client` is any sender that is not a node of the cluster."""
    oldest_served: int | None
    """Oldest version that is still served (KIP-896 dropped many in 4.0); None when it is gone.

    Brokers name 0 as the oldest of Produce in ApiVersions all the same, for the sake of old
    librdkafka, and do not understand it (KAFKA-18659).
    """
    forwardable: bool = False
    """Whether it may go to the controller inside of an Envelope."""
    cluster_action: bool = False
    """Whether it always takes CLUSTER_ACTION on the cluster, the permission of the nodes.

    False where just some senders or versions need it: Fetch of followers and of controllers,
    AddPartitionsToTxn from v4 on, FindCoordinator for share partitions. For WriteTxnMarkers, ALTER
    does too (KIP-1037).
    """
    removed_in: str | None = None
    """First release without it; None when it is still there."""


_BROKER: Final = ("broker",)
_CONTROLLER: Final = ("controller",)
_BOTH: Final = ("broker", "controller")
_CLIENT: Final = ("client",)

_ROWS: Final = (
    ApiFacts(0, _BROKER, _CLIENT, 3),  # Produce
    ApiFacts(1, _BOTH, ("client", "broker", "controller"), 4),  # Fetch
    ApiFacts(2, _BROKER, ("client", "broker"), 1),  # ListOffsets
    ApiFacts(3, _BROKER, _CLIENT, 0),  # Metadata
    ApiFacts(4, (), _CONTROLLER, None, cluster_action=True, removed_in="4.0"),  # LeaderAndIsr
    ApiFacts(5, (), _CONTROLLER, None, cluster_action=True, removed_in="4.0"),  # StopReplica
    ApiFacts(6, (), _CONTROLLER, None, cluster_action=True, removed_in="4.0"),  # UpdateMetadata
    ApiFacts(7, (), _BROKER, None, cluster_action=True, removed_in="4.0"),  # ControlledShutdown
    ApiFacts(8, _BROKER, _CLIENT, 2),  # OffsetCommit
    ApiFacts(9, _BROKER, _CLIENT, 1),  # OffsetFetch
    ApiFacts(10, _BROKER, _CLIENT, 0),  # FindCoordinator
    ApiFacts(11, _BROKER, _CLIENT, 0),  # JoinGroup
    ApiFacts(12, _BROKER, _CLIENT, 0),  # Heartbeat
    ApiFacts(13, _BROKER, _CLIENT, 0),  # LeaveGroup
    ApiFacts(14, _BROKER, _CLIENT, 0),  # SyncGroup
    ApiFacts(15, _BROKER, _CLIENT, 0),  # DescribeGroups
    ApiFacts(16, _BROKER, _CLIENT, 0),  # ListGroups
    ApiFacts(17, _BOTH, _CLIENT, 0),  # SaslHandshake
    ApiFacts(18, _BOTH, ("client", "broker", "controller"), 0),  # ApiVersions
    ApiFacts(19, _BOTH, _CLIENT, 2, forwardable=True),  # CreateTopics
    ApiFacts(20, _BOTH, _CLIENT, 1, forwardable=True),  # DeleteTopics
    ApiFacts(21, _BROKER, _CLIENT, 0),  # DeleteRecords
    ApiFacts(22, _BROKER, _CLIENT, 0),  # InitProducerId
    ApiFacts(23, _BROKER, ("client", "broker"), 2),  # OffsetForLeaderEpoch
    ApiFacts(24, _BROKER, ("client", "broker"), 0),  # AddPartitionsToTxn
    ApiFacts(25, _BROKER, _CLIENT, 0),  # AddOffsetsToTxn
    ApiFacts(26, _BROKER, _CLIENT, 0),  # EndTxn
    ApiFacts(27, _BROKER, _BROKER, 1, cluster_action=True),  # WriteTxnMarkers
    ApiFacts(28, _BROKER, _CLIENT, 0),  # TxnOffsetCommit
    ApiFacts(29, _BOTH, _CLIENT, 1),  # DescribeAcls
    ApiFacts(30, _BOTH, _CLIENT, 1, forwardable=True),  # CreateAcls
    ApiFacts(31, _BOTH, _CLIENT, 1, forwardable=True),  # DeleteAcls
    ApiFacts(32, _BOTH, _CLIENT, 1),  # DescribeConfigs
    ApiFacts(33, _BOTH, _CLIENT, 0, forwardable=True),  # AlterConfigs
    ApiFacts(34, _BROKER, _CLIENT, 1),  # AlterReplicaLogDirs
    ApiFacts(35, _BROKER, _CLIENT, 1),  # DescribeLogDirs
    ApiFacts(36, _BOTH, _CLIENT, 0),  # SaslAuthenticate
    ApiFacts(37, _BOTH, _CLIENT, 0, forwardable=True),  # CreatePartitions
    ApiFacts(38, _BOTH, _CLIENT, 1, forwardable=True),  # CreateDelegationToken
    ApiFacts(39, _BOTH, _CLIENT, 1, forwardable=True),  # RenewDelegationToken
    ApiFacts(40, _BOTH, _CLIENT, 1, forwardable=True),  # ExpireDelegationToken
    ApiFacts(41, _BOTH, _CLIENT, 1),  # DescribeDelegationToken
    ApiFacts(42, _BROKER, _CLIENT, 0),  # DeleteGroups
    ApiFacts(43, _BOTH, _CLIENT, 0, forwardable=True),  # ElectLeaders
    ApiFacts(44, _BOTH, _CLIENT, 0, forwardable=True),  # IncrementalAlterConfigs
    ApiFacts(45, _BOTH, _CLIENT, 0, forwardable=True),  # AlterPartitionReassignments
    ApiFacts(46, _BOTH, _CLIENT, 0, forwardable=True),  # ListPartitionReassignments
    ApiFacts(47, _BROKER, _CLIENT, 0),  # OffsetDelete
    ApiFacts(48, _BROKER, _CLIENT, 0),  # DescribeClientQuotas
    ApiFacts(49, _BOTH, _CLIENT, 0, forwardable=True),  # AlterClientQuotas
    ApiFacts(50, _BOTH, _CLIENT, 0),  # DescribeUserScramCredentials
    ApiFacts(51, _BOTH, _CLIENT, 0, forwardable=True),  # AlterUserScramCredentials
    ApiFacts(52, _CONTROLLER, _CONTROLLER, 0, cluster_action=True),  # Vote
    ApiFacts(53, _CONTROLLER, _CONTROLLER, 0, cluster_action=True),  # BeginQuorumEpoch
    ApiFacts(54, _CONTROLLER, _CONTROLLER, 0, cluster_action=True),  # EndQuorumEpoch
    ApiFacts(55, _BOTH, ("client", "controller"), 0, forwardable=True),  # DescribeQuorum
    ApiFacts(56, _CONTROLLER, _BROKER, 2, cluster_action=True),  # AlterPartition
    ApiFacts(57, _BOTH, _CLIENT, 0, forwardable=True),  # UpdateFeatures
    ApiFacts(58, _CONTROLLER, _BROKER, 0, cluster_action=True),  # Envelope
    ApiFacts(59, _CONTROLLER, ("broker", "controller"), 0, cluster_action=True),  # FetchSnapshot
    ApiFacts(60, _BOTH, _CLIENT, 0),  # DescribeCluster
    ApiFacts(61, _BROKER, _CLIENT, 0),  # DescribeProducers
    ApiFacts(62, _CONTROLLER, _BROKER, 0, cluster_action=True),  # BrokerRegistration
    ApiFacts(63, _CONTROLLER, _BROKER, 0, cluster_action=True),  # BrokerHeartbeat
    ApiFacts(64, _BOTH, _CLIENT, 0, forwardable=True),  # UnregisterBroker
    ApiFacts(65, _BROKER, _CLIENT, 0),  # DescribeTransactions
    ApiFacts(66, _BROKER, _CLIENT, 0),  # ListTransactions
    ApiFacts(
        67, _CONTROLLER, _BROKER, 0, forwardable=True, cluster_action=True
    ),  # AllocateProducerIds
    ApiFacts(68, _BROKER, _CLIENT, 0),  # ConsumerGroupHeartbeat
    ApiFacts(69, _BROKER, _CLIENT, 0),  # ConsumerGroupDescribe
    ApiFacts(70, _CONTROLLER, _CONTROLLER, 0, cluster_action=True),  # ControllerRegistration
    ApiFacts(71, _BROKER, _CLIENT, 0),  # GetTelemetrySubscriptions
    ApiFacts(72, _BROKER, _CLIENT, 0),  # PushTelemetry
    ApiFacts(73, _CONTROLLER, _BROKER, 0, cluster_action=True),  # AssignReplicasToDirs
    ApiFacts(74, _BROKER, _CLIENT, 0),  # ListConfigResources
    ApiFacts(75, _BROKER, _CLIENT, 0),  # DescribeTopicPartitions
    ApiFacts(76, _BROKER, _CLIENT, 1),  # ShareGroupHeartbeat
    ApiFacts(77, _BROKER, _CLIENT, 1),  # ShareGroupDescribe
    ApiFacts(78, _BROKER, _CLIENT, 1),  # ShareFetch
    ApiFacts(79, _BROKER, _CLIENT, 1),  # ShareAcknowledge
    ApiFacts(80, _BOTH, ("client", "controller"), 0, forwardable=True),  # AddRaftVoter
    ApiFacts(81, _BOTH, ("client", "controller"), 0, forwardable=True),  # RemoveRaftVoter
    ApiFacts(82, _CONTROLLER, _CONTROLLER, 0, cluster_action=True),  # UpdateRaftVoter
    ApiFacts(83, _BROKER, _BROKER, 0, cluster_action=True),  # InitializeShareGroupState
    ApiFacts(84, _BROKER, _BROKER, 0, cluster_action=True),  # ReadShareGroupState
    ApiFacts(85, _BROKER, _BROKER, 0, cluster_action=True),  # WriteShareGroupState
    ApiFacts(86, _BROKER, _BROKER, 0, cluster_action=True),  # DeleteShareGroupState
    ApiFacts(87, _BROKER, _BROKER, 0, cluster_action=True),  # ReadShareGroupStateSummary
    ApiFacts(88, _BROKER, _CLIENT, 0),  # StreamsGroupHeartbeat
    ApiFacts(89, _BROKER, _CLIENT, 0),  # StreamsGroupDescribe
    ApiFacts(90, _BROKER, _CLIENT, 0),  # DescribeShareGroupOffsets
    ApiFacts(91, _BROKER, _CLIENT, 0),  # AlterShareGroupOffsets
    ApiFacts(92, _BROKER, _CLIENT, 0),  # DeleteShareGroupOffsets
    ApiFacts(93, _BROKER, _CLIENT, 0),  # StreamsGroupTopologyDescriptionUpdate
    ApiFacts(94, _BOTH, _CLIENT, 0, forwardable=True),  # UnregisterController
)

API_FACTS: Final[dict[int, ApiFacts]] = {facts.api_key: facts for facts in _ROWS}
"""The facts by API key, in the order of keys."""
