"""Kafka's requests and responses, one module per API.

`from fencepost.wire.api import FetchRequest` imports only the module it needs, and so do
`request_class` and `response_class`, which go by API key. `dir(fencepost.wire.api)` names every
request and response, `API_NAMES` every API; `help(FetchRequest)` says what its fields are. The
structs inside of a message are in the API's module. Adding an API is a
module, a row here with its twin for type checkers, and a row of `facts`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from fencepost.wire.errors import UnknownApiError
from fencepost.wire.message import Message, Request

if TYPE_CHECKING:
    from fencepost.wire.api import (
        streams_group_topology_description_update as _topology_description,
    )
    from fencepost.wire.api.add_offsets_to_txn import (
        AddOffsetsToTxnRequest as AddOffsetsToTxnRequest,
        AddOffsetsToTxnResponse as AddOffsetsToTxnResponse,
    )
    from fencepost.wire.api.add_partitions_to_txn import (
        AddPartitionsToTxnRequest as AddPartitionsToTxnRequest,
        AddPartitionsToTxnResponse as AddPartitionsToTxnResponse,
    )
    from fencepost.wire.api.add_raft_voter import (
        AddRaftVoterRequest as AddRaftVoterRequest,
        AddRaftVoterResponse as AddRaftVoterResponse,
    )
    from fencepost.wire.api.allocate_producer_ids import (
        AllocateProducerIdsRequest as AllocateProducerIdsRequest,
        AllocateProducerIdsResponse as AllocateProducerIdsResponse,
    )
    from fencepost.wire.api.alter_client_quotas import (
        AlterClientQuotasRequest as AlterClientQuotasRequest,
        AlterClientQuotasResponse as AlterClientQuotasResponse,
    )
    from fencepost.wire.api.alter_configs import (
        AlterConfigsRequest as AlterConfigsRequest,
        AlterConfigsResponse as AlterConfigsResponse,
    )
    from fencepost.wire.api.alter_partition import (
        AlterPartitionRequest as AlterPartitionRequest,
        AlterPartitionResponse as AlterPartitionResponse,
    )
    from fencepost.wire.api.alter_partition_reassignments import (
        AlterPartitionReassignmentsRequest as AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse as AlterPartitionReassignmentsResponse,
    )
    from fencepost.wire.api.alter_replica_log_dirs import (
        AlterReplicaLogDirsRequest as AlterReplicaLogDirsRequest,
        AlterReplicaLogDirsResponse as AlterReplicaLogDirsResponse,
    )
    from fencepost.wire.api.alter_share_group_offsets import (
        AlterShareGroupOffsetsRequest as AlterShareGroupOffsetsRequest,
        AlterShareGroupOffsetsResponse as AlterShareGroupOffsetsResponse,
    )
    from fencepost.wire.api.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest as AlterUserScramCredentialsRequest,
        AlterUserScramCredentialsResponse as AlterUserScramCredentialsResponse,
    )
    from fencepost.wire.api.api_versions import (
        ApiVersionsRequest as ApiVersionsRequest,
        ApiVersionsResponse as ApiVersionsResponse,
    )
    from fencepost.wire.api.assign_replicas_to_dirs import (
        AssignReplicasToDirsRequest as AssignReplicasToDirsRequest,
        AssignReplicasToDirsResponse as AssignReplicasToDirsResponse,
    )
    from fencepost.wire.api.begin_quorum_epoch import (
        BeginQuorumEpochRequest as BeginQuorumEpochRequest,
        BeginQuorumEpochResponse as BeginQuorumEpochResponse,
    )
    from fencepost.wire.api.broker_heartbeat import (
        BrokerHeartbeatRequest as BrokerHeartbeatRequest,
        BrokerHeartbeatResponse as BrokerHeartbeatResponse,
    )
    from fencepost.wire.api.broker_registration import (
        BrokerRegistrationRequest as BrokerRegistrationRequest,
        BrokerRegistrationResponse as BrokerRegistrationResponse,
    )
    from fencepost.wire.api.consumer_group_describe import (
        ConsumerGroupDescribeRequest as ConsumerGroupDescribeRequest,
        ConsumerGroupDescribeResponse as ConsumerGroupDescribeResponse,
    )
    from fencepost.wire.api.consumer_group_heartbeat import (
        ConsumerGroupHeartbeatRequest as ConsumerGroupHeartbeatRequest,
        ConsumerGroupHeartbeatResponse as ConsumerGroupHeartbeatResponse,
    )
    from fencepost.wire.api.controlled_shutdown import (
        ControlledShutdownRequest as ControlledShutdownRequest,
        ControlledShutdownResponse as ControlledShutdownResponse,
    )
    from fencepost.wire.api.controller_registration import (
        ControllerRegistrationRequest as ControllerRegistrationRequest,
        ControllerRegistrationResponse as ControllerRegistrationResponse,
    )
    from fencepost.wire.api.create_acls import (
        CreateAclsRequest as CreateAclsRequest,
        CreateAclsResponse as CreateAclsResponse,
    )
    from fencepost.wire.api.create_delegation_token import (
        CreateDelegationTokenRequest as CreateDelegationTokenRequest,
        CreateDelegationTokenResponse as CreateDelegationTokenResponse,
    )
    from fencepost.wire.api.create_partitions import (
        CreatePartitionsRequest as CreatePartitionsRequest,
        CreatePartitionsResponse as CreatePartitionsResponse,
    )
    from fencepost.wire.api.create_topics import (
        CreateTopicsRequest as CreateTopicsRequest,
        CreateTopicsResponse as CreateTopicsResponse,
    )
    from fencepost.wire.api.delete_acls import (
        DeleteAclsRequest as DeleteAclsRequest,
        DeleteAclsResponse as DeleteAclsResponse,
    )
    from fencepost.wire.api.delete_groups import (
        DeleteGroupsRequest as DeleteGroupsRequest,
        DeleteGroupsResponse as DeleteGroupsResponse,
    )
    from fencepost.wire.api.delete_records import (
        DeleteRecordsRequest as DeleteRecordsRequest,
        DeleteRecordsResponse as DeleteRecordsResponse,
    )
    from fencepost.wire.api.delete_share_group_offsets import (
        DeleteShareGroupOffsetsRequest as DeleteShareGroupOffsetsRequest,
        DeleteShareGroupOffsetsResponse as DeleteShareGroupOffsetsResponse,
    )
    from fencepost.wire.api.delete_share_group_state import (
        DeleteShareGroupStateRequest as DeleteShareGroupStateRequest,
        DeleteShareGroupStateResponse as DeleteShareGroupStateResponse,
    )
    from fencepost.wire.api.delete_topics import (
        DeleteTopicsRequest as DeleteTopicsRequest,
        DeleteTopicsResponse as DeleteTopicsResponse,
    )
    from fencepost.wire.api.describe_acls import (
        DescribeAclsRequest as DescribeAclsRequest,
        DescribeAclsResponse as DescribeAclsResponse,
    )
    from fencepost.wire.api.describe_client_quotas import (
        DescribeClientQuotasRequest as DescribeClientQuotasRequest,
        DescribeClientQuotasResponse as DescribeClientQuotasResponse,
    )
    from fencepost.wire.api.describe_cluster import (
        DescribeClusterRequest as DescribeClusterRequest,
        DescribeClusterResponse as DescribeClusterResponse,
    )
    from fencepost.wire.api.describe_configs import (
        DescribeConfigsRequest as DescribeConfigsRequest,
        DescribeConfigsResponse as DescribeConfigsResponse,
    )
    from fencepost.wire.api.describe_delegation_token import (
        DescribeDelegationTokenRequest as DescribeDelegationTokenRequest,
        DescribeDelegationTokenResponse as DescribeDelegationTokenResponse,
    )
    from fencepost.wire.api.describe_groups import (
        DescribeGroupsRequest as DescribeGroupsRequest,
        DescribeGroupsResponse as DescribeGroupsResponse,
    )
    from fencepost.wire.api.describe_log_dirs import (
        DescribeLogDirsRequest as DescribeLogDirsRequest,
        DescribeLogDirsResponse as DescribeLogDirsResponse,
    )
    from fencepost.wire.api.describe_producers import (
        DescribeProducersRequest as DescribeProducersRequest,
        DescribeProducersResponse as DescribeProducersResponse,
    )
    from fencepost.wire.api.describe_quorum import (
        DescribeQuorumRequest as DescribeQuorumRequest,
        DescribeQuorumResponse as DescribeQuorumResponse,
    )
    from fencepost.wire.api.describe_share_group_offsets import (
        DescribeShareGroupOffsetsRequest as DescribeShareGroupOffsetsRequest,
        DescribeShareGroupOffsetsResponse as DescribeShareGroupOffsetsResponse,
    )
    from fencepost.wire.api.describe_topic_partitions import (
        DescribeTopicPartitionsRequest as DescribeTopicPartitionsRequest,
        DescribeTopicPartitionsResponse as DescribeTopicPartitionsResponse,
    )
    from fencepost.wire.api.describe_transactions import (
        DescribeTransactionsRequest as DescribeTransactionsRequest,
        DescribeTransactionsResponse as DescribeTransactionsResponse,
    )
    from fencepost.wire.api.describe_user_scram_credentials import (
        DescribeUserScramCredentialsRequest as DescribeUserScramCredentialsRequest,
        DescribeUserScramCredentialsResponse as DescribeUserScramCredentialsResponse,
    )
    from fencepost.wire.api.elect_leaders import (
        ElectLeadersRequest as ElectLeadersRequest,
        ElectLeadersResponse as ElectLeadersResponse,
    )
    from fencepost.wire.api.end_quorum_epoch import (
        EndQuorumEpochRequest as EndQuorumEpochRequest,
        EndQuorumEpochResponse as EndQuorumEpochResponse,
    )
    from fencepost.wire.api.end_txn import (
        EndTxnRequest as EndTxnRequest,
        EndTxnResponse as EndTxnResponse,
    )
    from fencepost.wire.api.envelope import (
        EnvelopeRequest as EnvelopeRequest,
        EnvelopeResponse as EnvelopeResponse,
    )
    from fencepost.wire.api.expire_delegation_token import (
        ExpireDelegationTokenRequest as ExpireDelegationTokenRequest,
        ExpireDelegationTokenResponse as ExpireDelegationTokenResponse,
    )
    from fencepost.wire.api.fetch import (
        FetchRequest as FetchRequest,
        FetchResponse as FetchResponse,
    )
    from fencepost.wire.api.fetch_snapshot import (
        FetchSnapshotRequest as FetchSnapshotRequest,
        FetchSnapshotResponse as FetchSnapshotResponse,
    )
    from fencepost.wire.api.find_coordinator import (
        FindCoordinatorRequest as FindCoordinatorRequest,
        FindCoordinatorResponse as FindCoordinatorResponse,
    )
    from fencepost.wire.api.get_telemetry_subscriptions import (
        GetTelemetrySubscriptionsRequest as GetTelemetrySubscriptionsRequest,
        GetTelemetrySubscriptionsResponse as GetTelemetrySubscriptionsResponse,
    )
    from fencepost.wire.api.heartbeat import (
        HeartbeatRequest as HeartbeatRequest,
        HeartbeatResponse as HeartbeatResponse,
    )
    from fencepost.wire.api.incremental_alter_configs import (
        IncrementalAlterConfigsRequest as IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse as IncrementalAlterConfigsResponse,
    )
    from fencepost.wire.api.init_producer_id import (
        InitProducerIdRequest as InitProducerIdRequest,
        InitProducerIdResponse as InitProducerIdResponse,
    )
    from fencepost.wire.api.initialize_share_group_state import (
        InitializeShareGroupStateRequest as InitializeShareGroupStateRequest,
        InitializeShareGroupStateResponse as InitializeShareGroupStateResponse,
    )
    from fencepost.wire.api.join_group import (
        JoinGroupRequest as JoinGroupRequest,
        JoinGroupResponse as JoinGroupResponse,
    )
    from fencepost.wire.api.leader_and_isr import (
        LeaderAndIsrRequest as LeaderAndIsrRequest,
        LeaderAndIsrResponse as LeaderAndIsrResponse,
    )
    from fencepost.wire.api.leave_group import (
        LeaveGroupRequest as LeaveGroupRequest,
        LeaveGroupResponse as LeaveGroupResponse,
    )
    from fencepost.wire.api.list_config_resources import (
        ListConfigResourcesRequest as ListConfigResourcesRequest,
        ListConfigResourcesResponse as ListConfigResourcesResponse,
    )
    from fencepost.wire.api.list_groups import (
        ListGroupsRequest as ListGroupsRequest,
        ListGroupsResponse as ListGroupsResponse,
    )
    from fencepost.wire.api.list_offsets import (
        ListOffsetsRequest as ListOffsetsRequest,
        ListOffsetsResponse as ListOffsetsResponse,
    )
    from fencepost.wire.api.list_partition_reassignments import (
        ListPartitionReassignmentsRequest as ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsResponse as ListPartitionReassignmentsResponse,
    )
    from fencepost.wire.api.list_transactions import (
        ListTransactionsRequest as ListTransactionsRequest,
        ListTransactionsResponse as ListTransactionsResponse,
    )
    from fencepost.wire.api.metadata import (
        MetadataRequest as MetadataRequest,
        MetadataResponse as MetadataResponse,
    )
    from fencepost.wire.api.offset_commit import (
        OffsetCommitRequest as OffsetCommitRequest,
        OffsetCommitResponse as OffsetCommitResponse,
    )
    from fencepost.wire.api.offset_delete import (
        OffsetDeleteRequest as OffsetDeleteRequest,
        OffsetDeleteResponse as OffsetDeleteResponse,
    )
    from fencepost.wire.api.offset_fetch import (
        OffsetFetchRequest as OffsetFetchRequest,
        OffsetFetchResponse as OffsetFetchResponse,
    )
    from fencepost.wire.api.offset_for_leader_epoch import (
        OffsetForLeaderEpochRequest as OffsetForLeaderEpochRequest,
        OffsetForLeaderEpochResponse as OffsetForLeaderEpochResponse,
    )
    from fencepost.wire.api.produce import (
        ProduceRequest as ProduceRequest,
        ProduceResponse as ProduceResponse,
    )
    from fencepost.wire.api.push_telemetry import (
        PushTelemetryRequest as PushTelemetryRequest,
        PushTelemetryResponse as PushTelemetryResponse,
    )
    from fencepost.wire.api.read_share_group_state import (
        ReadShareGroupStateRequest as ReadShareGroupStateRequest,
        ReadShareGroupStateResponse as ReadShareGroupStateResponse,
    )
    from fencepost.wire.api.read_share_group_state_summary import (
        ReadShareGroupStateSummaryRequest as ReadShareGroupStateSummaryRequest,
        ReadShareGroupStateSummaryResponse as ReadShareGroupStateSummaryResponse,
    )
    from fencepost.wire.api.remove_raft_voter import (
        RemoveRaftVoterRequest as RemoveRaftVoterRequest,
        RemoveRaftVoterResponse as RemoveRaftVoterResponse,
    )
    from fencepost.wire.api.renew_delegation_token import (
        RenewDelegationTokenRequest as RenewDelegationTokenRequest,
        RenewDelegationTokenResponse as RenewDelegationTokenResponse,
    )
    from fencepost.wire.api.sasl_authenticate import (
        SaslAuthenticateRequest as SaslAuthenticateRequest,
        SaslAuthenticateResponse as SaslAuthenticateResponse,
    )
    from fencepost.wire.api.sasl_handshake import (
        SaslHandshakeRequest as SaslHandshakeRequest,
        SaslHandshakeResponse as SaslHandshakeResponse,
    )
    from fencepost.wire.api.share_acknowledge import (
        ShareAcknowledgeRequest as ShareAcknowledgeRequest,
        ShareAcknowledgeResponse as ShareAcknowledgeResponse,
    )
    from fencepost.wire.api.share_fetch import (
        ShareFetchRequest as ShareFetchRequest,
        ShareFetchResponse as ShareFetchResponse,
    )
    from fencepost.wire.api.share_group_describe import (
        ShareGroupDescribeRequest as ShareGroupDescribeRequest,
        ShareGroupDescribeResponse as ShareGroupDescribeResponse,
    )
    from fencepost.wire.api.share_group_heartbeat import (
        ShareGroupHeartbeatRequest as ShareGroupHeartbeatRequest,
        ShareGroupHeartbeatResponse as ShareGroupHeartbeatResponse,
    )
    from fencepost.wire.api.stop_replica import (
        StopReplicaRequest as StopReplicaRequest,
        StopReplicaResponse as StopReplicaResponse,
    )
    from fencepost.wire.api.streams_group_describe import (
        StreamsGroupDescribeRequest as StreamsGroupDescribeRequest,
        StreamsGroupDescribeResponse as StreamsGroupDescribeResponse,
    )
    from fencepost.wire.api.streams_group_heartbeat import (
        StreamsGroupHeartbeatRequest as StreamsGroupHeartbeatRequest,
        StreamsGroupHeartbeatResponse as StreamsGroupHeartbeatResponse,
    )
    from fencepost.wire.api.sync_group import (
        SyncGroupRequest as SyncGroupRequest,
        SyncGroupResponse as SyncGroupResponse,
    )
    from fencepost.wire.api.txn_offset_commit import (
        TxnOffsetCommitRequest as TxnOffsetCommitRequest,
        TxnOffsetCommitResponse as TxnOffsetCommitResponse,
    )
    from fencepost.wire.api.unregister_broker import (
        UnregisterBrokerRequest as UnregisterBrokerRequest,
        UnregisterBrokerResponse as UnregisterBrokerResponse,
    )
    from fencepost.wire.api.unregister_controller import (
        UnregisterControllerRequest as UnregisterControllerRequest,
        UnregisterControllerResponse as UnregisterControllerResponse,
    )
    from fencepost.wire.api.update_features import (
        UpdateFeaturesRequest as UpdateFeaturesRequest,
        UpdateFeaturesResponse as UpdateFeaturesResponse,
    )
    from fencepost.wire.api.update_metadata import (
        UpdateMetadataRequest as UpdateMetadataRequest,
        UpdateMetadataResponse as UpdateMetadataResponse,
    )
    from fencepost.wire.api.update_raft_voter import (
        UpdateRaftVoterRequest as UpdateRaftVoterRequest,
        UpdateRaftVoterResponse as UpdateRaftVoterResponse,
    )
    from fencepost.wire.api.vote import VoteRequest as VoteRequest, VoteResponse as VoteResponse
    from fencepost.wire.api.write_share_group_state import (
        WriteShareGroupStateRequest as WriteShareGroupStateRequest,
        WriteShareGroupStateResponse as WriteShareGroupStateResponse,
    )
    from fencepost.wire.api.write_txn_markers import (
        WriteTxnMarkersRequest as WriteTxnMarkersRequest,
        WriteTxnMarkersResponse as WriteTxnMarkersResponse,
    )

    # `X as X`, as above, does not fit into a line.
    StreamsGroupTopologyDescriptionUpdateRequest = (
        _topology_description.StreamsGroupTopologyDescriptionUpdateRequest
    )
    StreamsGroupTopologyDescriptionUpdateResponse = (
        _topology_description.StreamsGroupTopologyDescriptionUpdateResponse
    )

API_NAMES: Final[dict[int, str]] = {
    0: "Produce",
    1: "Fetch",
    2: "ListOffsets",
    3: "Metadata",
    4: "LeaderAndIsr",
    5: "StopReplica",
    6: "UpdateMetadata",
    7: "ControlledShutdown",
    8: "OffsetCommit",
    9: "OffsetFetch",
    10: "FindCoordinator",
    11: "JoinGroup",
    12: "Heartbeat",
    13: "LeaveGroup",
    14: "SyncGroup",
    15: "DescribeGroups",
    16: "ListGroups",
    17: "SaslHandshake",
    18: "ApiVersions",
    19: "CreateTopics",
    20: "DeleteTopics",
    21: "DeleteRecords",
    22: "InitProducerId",
    23: "OffsetForLeaderEpoch",
    24: "AddPartitionsToTxn",
    25: "AddOffsetsToTxn",
    26: "EndTxn",
    27: "WriteTxnMarkers",
    28: "TxnOffsetCommit",
    29: "DescribeAcls",
    30: "CreateAcls",
    31: "DeleteAcls",
    32: "DescribeConfigs",
    33: "AlterConfigs",
    34: "AlterReplicaLogDirs",
    35: "DescribeLogDirs",
    36: "SaslAuthenticate",
    37: "CreatePartitions",
    38: "CreateDelegationToken",
    39: "RenewDelegationToken",
    40: "ExpireDelegationToken",
    41: "DescribeDelegationToken",
    42: "DeleteGroups",
    43: "ElectLeaders",
    44: "IncrementalAlterConfigs",
    45: "AlterPartitionReassignments",
    46: "ListPartitionReassignments",
    47: "OffsetDelete",
    48: "DescribeClientQuotas",
    49: "AlterClientQuotas",
    50: "DescribeUserScramCredentials",
    51: "AlterUserScramCredentials",
    52: "Vote",
    53: "BeginQuorumEpoch",
    54: "EndQuorumEpoch",
    55: "DescribeQuorum",
    56: "AlterPartition",
    57: "UpdateFeatures",
    58: "Envelope",
    59: "FetchSnapshot",
    60: "DescribeCluster",
    61: "DescribeProducers",
    62: "BrokerRegistration",
    63: "BrokerHeartbeat",
    64: "UnregisterBroker",
    65: "DescribeTransactions",
    66: "ListTransactions",
    67: "AllocateProducerIds",
    68: "ConsumerGroupHeartbeat",
    69: "ConsumerGroupDescribe",
    70: "ControllerRegistration",
    71: "GetTelemetrySubscriptions",
    72: "PushTelemetry",
    73: "AssignReplicasToDirs",
    74: "ListConfigResources",
    75: "DescribeTopicPartitions",
    76: "ShareGroupHeartbeat",
    77: "ShareGroupDescribe",
    78: "ShareFetch",
    79: "ShareAcknowledge",
    80: "AddRaftVoter",
    81: "RemoveRaftVoter",
    82: "UpdateRaftVoter",
    83: "InitializeShareGroupState",
    84: "ReadShareGroupState",
    85: "WriteShareGroupState",
    86: "DeleteShareGroupState",
    87: "ReadShareGroupStateSummary",
    88: "StreamsGroupHeartbeat",
    89: "StreamsGroupDescribe",
    90: "DescribeShareGroupOffsets",
    91: "AlterShareGroupOffsets",
    92: "DeleteShareGroupOffsets",
    93: "StreamsGroupTopologyDescriptionUpdate",
    94: "UnregisterController",
}
"""API key -> Kafka's name of the API. The module is the name in snake_case, the classes are the
name with `Request` and `Response` behind it."""


def api_name(api_key: int) -> str:
    """Kafka's name of an API, such as `Fetch`; a number we do not know keeps it: `UNKNOWN(999)`."""
    return API_NAMES.get(api_key, f"UNKNOWN({api_key})")


def request_class(api_key: int) -> type[Request[Message]]:
    """The request with this key; UnknownApiError, which is a KeyError, when there is none."""
    loaded: type[Request[Message]] = _load(_known(api_key), "Request")
    return loaded


def response_class(api_key: int) -> type[Message]:
    """The response to requests with this key; UnknownApiError when there is none."""
    loaded: type[Message] = _load(_known(api_key), "Response")
    return loaded


def _known(api_key: int) -> str:
    name = API_NAMES.get(api_key)
    if name is None:
        raise UnknownApiError(api_key)
    return name


def _module_name(api: str) -> str:
    words = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in api)
    return f"{__name__}.{words[1:]}"


def _load(api: str, suffix: str) -> Any:
    name = api + suffix
    if name not in globals():
        globals()[name] = getattr(import_module(_module_name(api)), name)
    return globals()[name]


if not TYPE_CHECKING:  # or type checkers would believe that every name is here

    def __getattr__(name: str) -> Any:
        for suffix in ("Request", "Response"):
            api = name.removesuffix(suffix)
            if api != name and api in API_NAMES.values():
                return _load(api, suffix)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    classes = [api + suffix for api in API_NAMES.values() for suffix in ("Request", "Response")]
    return sorted({*globals(), *classes})
