"""`AsyncAdmin`: managing a cluster, and looking at it, with asyncio."""

from __future__ import annotations

from fencepost.client import (
    acls,
    admin,
    client_quotas,
    delegation_tokens,
    group_descriptions,
    group_waits,
    groups,
    lag,
    lineage,
    offsets,
    replicas,
    scram_users,
    share_groups,
    stable_offset,
    transaction_admin as transactions,
)
from fencepost.client.aio.cluster import AsyncCluster
from fencepost.client.aio.faces import awaiting
from fencepost.client.group_offsets import reading_offsets


class AsyncAdmin:
    """Administration through an AsyncCluster, which it does not own: the methods of `Admin`, and
    what a blocking client has as functions (lineages, stable offsets, lag)."""

    def __init__(self, cluster: AsyncCluster) -> None:
        self.cluster = cluster

    # -- topics, configs, records, brokers -------------------------------------------------------

    list_topics = awaiting(admin.listing_topics)
    describe_topic = awaiting(admin.describing_topic)
    create_topic = awaiting(admin.creating_topic)
    wait_for_topic = awaiting(admin.waiting_for_topic)
    delete_topic = awaiting(admin.deleting_topic)
    create_partitions = awaiting(admin.creating_partitions)
    describe_configs = awaiting(admin.describing_configs)
    alter_configs = awaiting(admin.altering_configs)
    delete_records = awaiting(admin.deleting_records)
    unregister_broker = awaiting(admin.unregistering_broker)
    describe_cluster = awaiting(admin.describing_cluster)
    list_config_resources = awaiting(admin.listing_config_resources)

    # -- groups ----------------------------------------------------------------------------------

    list_groups = awaiting(groups.listing_groups)
    describe_group = awaiting(group_descriptions.describing_group)
    describe_streams_group = awaiting(group_descriptions.describing_streams_group)
    delete_group = awaiting(groups.deleting_group)
    group_offsets = awaiting(reading_offsets)
    alter_group_offsets = awaiting(groups.altering_group_offsets)
    delete_group_offsets = awaiting(groups.deleting_group_offsets)
    explain_group_waits = awaiting(group_waits.explaining_waits)
    share_group_offsets = awaiting(share_groups.describing_share_offsets)
    alter_share_group_offsets = awaiting(share_groups.altering_share_offsets)
    delete_share_group_offsets = awaiting(share_groups.deleting_share_offsets)
    lag_of_group = awaiting(lag.finding_lag)

    # -- replicas --------------------------------------------------------------------------------

    alter_reassignments = awaiting(replicas.altering_reassignments)
    list_reassignments = awaiting(replicas.listing_reassignments)
    elect_leaders = awaiting(replicas.electing_leaders)
    describe_partitions = awaiting(replicas.describing_partitions)
    describe_log_dirs = awaiting(replicas.describing_log_dirs)
    alter_replica_log_dirs = awaiting(replicas.altering_replica_log_dirs)

    # -- logs ------------------------------------------------------------------------------------

    list_offsets = awaiting(offsets.listing_offsets)
    offsets_for_leader_epochs = awaiting(offsets.finding_epoch_ends)
    epoch_spans = awaiting(offsets.finding_epoch_spans)
    replica_lineages = awaiting(lineage.reading_lineages)

    # -- transactions ----------------------------------------------------------------------------

    list_transactions = awaiting(transactions.listing_transactions)
    describe_transaction = awaiting(transactions.describing_transaction)
    describe_producers = awaiting(transactions.describing_producers)
    coordinator_epoch = awaiting(transactions.reading_coordinator_epoch)
    newest_coordinator_epoch = awaiting(transactions.reading_newest_coordinator_epoch)
    abort_in_partition = awaiting(transactions.aborting_in_partition)
    force_terminate = awaiting(transactions.force_terminating)
    transactions_of = awaiting(transactions.finding_transactions_of)
    explain_stable_offsets = awaiting(stable_offset.explaining)
    open_transactions = awaiting(stable_offset.finding_open_transactions)
    refused_ends = awaiting(stable_offset.finding_refused_ends)
    refused_by = awaiting(stable_offset.finding_refusals)

    # -- security --------------------------------------------------------------------------------

    describe_acls = awaiting(acls.describing_acls)
    create_acls = awaiting(acls.creating_acls)
    delete_acls = awaiting(acls.deleting_acls)
    describe_user_scram_credentials = awaiting(scram_users.describing_scram_users)
    alter_user_scram_credentials = awaiting(scram_users.altering_scram_users)
    describe_client_quotas = awaiting(client_quotas.describing_client_quotas)
    alter_client_quotas = awaiting(client_quotas.altering_client_quotas)
    create_delegation_token = awaiting(delegation_tokens.creating_delegation_token)
    renew_delegation_token = awaiting(delegation_tokens.renewing_delegation_token)
    expire_delegation_token = awaiting(delegation_tokens.expiring_delegation_token)
    describe_delegation_token = awaiting(delegation_tokens.describing_delegation_tokens)
