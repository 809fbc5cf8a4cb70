"""A broker as its parts see it: its ports, its storage, its fetches, and what serves requests."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Protocol

from fencepost.machines.image import ClusterImage
from fencepost.runtime.alter_partition import AlterPartitions
from fencepost.runtime.authorizer import NodeAuthorizer
from fencepost.runtime.delayed_fetches import FetchHost
from fencepost.runtime.groups import GroupCoordinators
from fencepost.runtime.metadata.host import MetadataHost
from fencepost.runtime.producer_ids import ProducerIds
from fencepost.runtime.registrations import Registrations
from fencepost.runtime.replicas import HostedPartition, ReplicaManager
from fencepost.sim.surroundings import Process


class BrokerProcess(Process, Protocol):
    """See the module docstring."""

    replicas: ReplicaManager
    alter_partitions: AlterPartitions
    producer_ids: ProducerIds
    registrations: Registrations
    groups: GroupCoordinators
    fetches: FetchHost
    authorizer: NodeAuthorizer | None
    metadata: MetadataHost

    @property
    def transactions(self) -> Any:
        """What it has for transactions."""
        ...

    @property
    def shares(self) -> Any:
        """What it has for share groups."""
        ...

    @property
    def followers(self) -> Any:
        """What fetches for the replicas that follow."""
        ...

    @property
    def broker_epoch(self) -> int:
        """The epoch of its registration, or -1."""
        ...

    def cannot_load(self) -> None:
        """A log cannot be opened."""
        ...

    def produced(self, hosted: HostedPartition, base_offset: int, acks: int) -> None:
        """A batch of a producer is answered."""
        ...

    @property
    def image(self) -> ClusterImage:
        """The cluster as the broker knows it."""
        ...

    def hosted(self, key: Hashable) -> HostedPartition | None:
        """The replica behind a key of the driver, if it is one."""
        ...

    def hosts(self, hosted: HostedPartition) -> bool:
        """Whether this replica is still the broker's."""
        ...

    def look_at_replica(self, hosted: HostedPartition) -> None:
        """Show the observer what has changed of a replica."""
        ...

    def look_at_epochs(self, hosted: HostedPartition) -> None:
        """Show the observer a replica's epoch cache."""
        ...
