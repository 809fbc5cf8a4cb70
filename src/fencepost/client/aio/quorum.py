"""`AsyncQuorumAdmin`: look at the metadata quorum, add voters and remove them, with asyncio."""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.client.aio.cluster import AsyncCluster
from fencepost.client.quorum import (
    QuorumDescription,
    QuorumLeader,
    VoterListener,
    adding_voter,
    describing_quorum,
    removing_voter,
)
from fencepost.wire.types import Uuid


class AsyncQuorumAdmin:
    """The methods of `QuorumAdmin` through an AsyncCluster, which it does not own. Its addresses
    are brokers', or controllers' with `controllers`. All methods raise ClientError."""

    def __init__(self, cluster: AsyncCluster, *, controllers: bool = False) -> None:
        self.cluster = cluster
        self.leader = QuorumLeader(asks_controllers=controllers)

    async def describe(self) -> QuorumDescription:
        """Who leads, who votes, who follows, and how far everybody is."""
        return await self.cluster.run(describing_quorum(self.cluster, self.leader))

    async def add_voter(
        self,
        node_id: int,
        directory_id: Uuid,
        listeners: Sequence[VoterListener],
        *,
        timeout_ms: int = 30_000,
    ) -> None:
        """Make a controller that follows already a voter; returns when that is committed."""
        voter = node_id, directory_id, listeners
        adding = adding_voter(self.cluster, self.leader, *voter, timeout_ms=timeout_ms)
        await self.cluster.run(adding)

    async def remove_voter(self, node_id: int, directory_id: Uuid) -> None:
        """Take a controller's vote away; returns when that is committed."""
        await self.cluster.run(removing_voter(self.cluster, self.leader, node_id, directory_id))
