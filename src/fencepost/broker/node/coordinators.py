"""The coordinators of a broker, of groups, transactions and share partitions, and what works with
them.

Loaded and made when the first of them is needed, see `broker.node.late_parts`.
"""

from __future__ import annotations

from fencepost.broker.cluster.broker_channel import BrokerChannel
from fencepost.broker.groups.group_host import GroupHost
from fencepost.broker.node.core import NodeCore
from fencepost.broker.shares.end_offsets import LeaderEndOffsets
from fencepost.broker.shares.share_state_host import (
    ShareStateHost,
    ShareStateLink,
    share_state_client,
)
from fencepost.broker.storage.cold_reads import ColdReads
from fencepost.broker.storage.coordinator_kinds import CoordinatorKinds
from fencepost.broker.storage.decompression import Decompression
from fencepost.broker.transactions.transaction_host import TransactionHost
from fencepost.runtime.cooperative import Pieces
from fencepost.runtime.internal_topics import SHARE_STATE_TOPIC
from fencepost.runtime.markers import MarkerWriter
from fencepost.runtime.producer_ids import ProducerIds
from fencepost.runtime.replicas import HostedPartition, ReplicaManager
from fencepost.runtime.requests.add_partitions_to_txn import add_partitions
from fencepost.runtime.requests.parts import InternalTopicCreation
from fencepost.runtime.transactional_commits import TransactionalCommits
from fencepost.runtime.transactional_writes import TransactionalWrites
from fencepost.runtime.verification import OnResponse
from fencepost.wire.api.add_partitions_to_txn import AddPartitionsToTxnRequest


class Coordinators:
    """See the module. It watches the broker's replicas (`runtime.replicas.ReplicaWatcher`)."""

    def __init__(
        self,
        core: NodeCore,
        replicas: ReplicaManager,
        cold_reads: ColdReads,
        decompression: Decompression,
        producer_ids: ProducerIds,
        channel: BrokerChannel,
        writes: TransactionalWrites,
        topic_creation: InternalTopicCreation,
    ) -> None:
        config, ports = core.config, core.ports
        self._core = core
        kinds = CoordinatorKinds(cold_reads, decompression)
        self.share_states = ShareStateHost(config, ports, core.metadata, kinds)
        self.share_persister = share_state_client(
            config,
            ports,
            core.metadata,
            ShareStateLink(channel, ports, self.share_states),
            lambda: topic_creation.create([SHARE_STATE_TOPIC]),
        )
        self.end_offsets = LeaderEndOffsets(config.node_id, replicas, channel, lambda: core.image)
        self.groups = GroupHost(
            config,
            ports,
            core.metadata,
            kinds,
            self.share_persister,
            core.settings,
        )
        self.markers = MarkerWriter(
            ports,
            ports.scheduler.lane(),
            replicas,
            self.groups,
            lambda: core.image,
            config.get("request.timeout.ms"),
        )
        self.transactions = TransactionHost(
            config,
            ports,
            core.metadata,
            kinds,
            producer_ids,
            channel,
            self.markers.write,
        )
        self.commits = TransactionalCommits(ports, self.groups, writes, lambda: core.image)

    def verify(self, request: AddPartitionsToTxnRequest, on_response: OnResponse) -> Pieces[None]:
        """What a leader on this node asks about transactions; in pieces."""
        version = AddPartitionsToTxnRequest.max_version
        return add_partitions(self.transactions, self._core.image, request, version, on_response)

    def became_leader(self, hosted: HostedPartition, leader_epoch: int) -> None:
        """This node leads the partition, from now on or in a new epoch."""
        self.groups.became_leader(hosted, leader_epoch)
        self.transactions.became_leader(hosted, leader_epoch)
        self.share_states.became_leader(hosted, leader_epoch)

    def lost_leadership(self, hosted: HostedPartition, leader_epoch: int | None) -> None:
        """Another node leads the partition in that epoch; None if it is not here any more."""
        self.groups.lost_leadership(hosted, leader_epoch)
        self.transactions.lost_leadership(hosted, leader_epoch)
        self.share_states.lost_leadership(hosted, leader_epoch)

    def close(self) -> None:
        """Serve no more groups, transactions and share partitions."""
        self.share_persister.close()
        self.groups.close()
        self.transactions.close()
        self.share_states.close()
