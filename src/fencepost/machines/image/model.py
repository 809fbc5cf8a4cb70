"""What a cluster image is made of: values, without a rule of how they come about.

Everything here is immutable. A new image is made by `apply.py` from an old one and records; the
parts that did not change are the same objects in both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from fencepost.machines.image.acls import Acl
from fencepost.machines.image.persistent import PersistentMap
from fencepost.machines.image.quotas import Quotas
from fencepost.machines.image.scram import ScramImage
from fencepost.machines.image.tokens import TokensImage
from fencepost.wire.message import Message
from fencepost.wire.records.metadata import PartitionChangeRecord, PartitionRecord
from fencepost.wire.types import Uuid

METADATA_VERSION = "metadata.version"
"""The feature whose level says which records and fields there may be in the metadata log."""
NEWEST_LEVEL = 1 << 15
"""Above all levels there are."""
SCRAM_SINCE = 11
"""The `metadata.version` from which on users may have SCRAM credentials: 3.5-IV2 (KIP-900)."""

TOKENS_SINCE = 14
"""The `metadata.version` from which on there may be delegation tokens: 3.6-IV2."""

DIRECTORIES_SINCE = 17
"""The `metadata.version` from which on replicas have directories: 3.7-IV2 (KIP-858)."""

CORDONED_SINCE = 30
"""The `metadata.version` from which on directories may be cordoned: 4.3-IV0 (KIP-1066)."""

NO_LEADER = -1
"""The leader of a partition that has none."""

NO_LEADER_CHANGE = -2
"""In a change record: the leader stays, and so does the leader epoch."""

RECOVERED = 0
RECOVERING = 1
"""Leader recovery states: a leader elected uncleanly is recovering until it says otherwise."""

RESOURCE_TOPIC = 2
RESOURCE_BROKER = 4
RESOURCE_BROKER_LOGGER = 8
RESOURCE_CLIENT_METRICS = 16
RESOURCE_GROUP = 32
"""Config resource types, as in config records and requests."""

DIRECTORY_MIGRATING = Uuid(bytes(16))
DIRECTORY_UNASSIGNED = Uuid(bytes(15) + b"\x01")
DIRECTORY_LOST = Uuid(bytes(15) + b"\x02")
"""Directory ids with a meaning of their own (KIP-858); those below 100 are reserved."""

_NO_CONFIGS: Mapping[str, str] = MappingProxyType({})

Shared = dict[tuple[Any, ...], tuple[Any, ...]]
"""Tuples by their value, so that one object stands for all that are equal."""


class ListenerImage(Struct, frozen=True):
    """Where one listener of a node is reached."""

    name: str
    host: str
    port: int
    security_protocol: int


class FeatureRange(Struct, frozen=True):
    """The levels of one feature that a node can run."""

    name: str
    min_level: int
    max_level: int


class BrokerImage(Struct, frozen=True):
    """A registered broker, under its present broker epoch."""

    broker_id: int
    epoch: int
    incarnation_id: Uuid
    listeners: tuple[ListenerImage, ...]
    features: tuple[FeatureRange, ...]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    log_dirs: tuple[Uuid, ...]
    cordoned_log_dirs: tuple[Uuid, ...] | None = None

    @property
    def is_active(self) -> bool:
        """Whether the broker may lead and be in an ISR: neither fenced nor about to stop."""
        return not self.fenced and not self.in_controlled_shutdown

    @property
    def is_cordoned(self) -> bool:
        """Whether none of the broker's directories takes new replicas (KIP-1066)."""
        cordoned = self.cordoned_log_dirs
        return bool(cordoned) and set(self.log_dirs) <= set(cordoned or ())

    def has_online_directory(self, directory: Uuid) -> bool:
        """Whether a replica in `directory` is there to be used; unknown directories count as such.

        A broker that registered without directories cannot lose one (KIP-858).
        """
        if not self.log_dirs or directory in (DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED):
            return True
        return directory in self.log_dirs

    @property
    def default_directory(self) -> Uuid:
        """Where a new replica on this broker goes, as far as the controller can tell."""
        if not self.log_dirs:
            return DIRECTORY_MIGRATING
        return self.log_dirs[0] if len(self.log_dirs) == 1 else DIRECTORY_UNASSIGNED


class ControllerImage(Struct, frozen=True):
    """A registered controller (KIP-919): the process that registered last, and what it can run."""

    controller_id: int
    incarnation_id: Uuid
    listeners: tuple[ListenerImage, ...]
    features: tuple[FeatureRange, ...]
    zk_migration_ready: bool = False


class PartitionImage(Struct, frozen=True):
    """The controller's word on one partition."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    leader_recovery_state: int = RECOVERED
    directories: tuple[Uuid, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    eligible_leader_replicas: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()

    @classmethod
    def from_record(cls, record: PartitionRecord, shared: Shared | None = None) -> PartitionImage:
        """The partition as it is born.

        `shared` are tuples to use again: a cluster has few sets of replicas and directories, and a
        hundred thousand partitions on them.
        """
        if shared is None:
            shared = {}
        replicas = tuple(record.replicas)
        replicas = shared.setdefault(replicas, replicas)
        isr = tuple(record.isr)
        directories: tuple[Uuid, ...] = tuple(record.directories)
        if len(directories) != len(replicas):
            directories = (DIRECTORY_MIGRATING,) * len(replicas)
        return cls(
            replicas,
            replicas if isr == replicas else shared.setdefault(isr, isr),
            record.leader,
            record.leader_epoch,
            record.partition_epoch,
            record.leader_recovery_state,
            shared.setdefault(directories, directories),
            tuple(record.removing_replicas),
            tuple(record.adding_replicas),
            tuple(record.eligible_leader_replicas or ()),
            tuple(record.last_known_elr or ()),
        )

    def merged_with(self, change: PartitionChangeRecord) -> PartitionImage:
        """The partition after `change`.

        The partition epoch rises by one with every change, the leader epoch with every change
        that names a leader, even the same one: that is how replicas are fenced.
        """
        keeps_leader = change.leader == NO_LEADER_CHANGE
        recovery = change.leader_recovery_state
        replicas = _changed(self.replicas, change.replicas)
        directories = self.directories
        if change.directories is not None:
            directories = tuple(change.directories)
        elif replicas != self.replicas:
            known = dict(zip(self.replicas, self.directories, strict=True))
            directories = tuple(known.get(id_, DIRECTORY_UNASSIGNED) for id_ in replicas)
        return PartitionImage(
            replicas=replicas,
            isr=_changed(self.isr, change.isr),
            leader=self.leader if keeps_leader else change.leader,
            leader_epoch=self.leader_epoch if keeps_leader else self.leader_epoch + 1,
            partition_epoch=self.partition_epoch + 1,
            leader_recovery_state=self.leader_recovery_state if recovery < 0 else recovery,
            directories=directories,
            removing_replicas=_changed(self.removing_replicas, change.removing_replicas),
            adding_replicas=_changed(self.adding_replicas, change.adding_replicas),
            eligible_leader_replicas=_changed(
                self.eligible_leader_replicas, change.eligible_leader_replicas
            ),
            last_known_elr=_changed(self.last_known_elr, change.last_known_elr),
        )

    def directory_of(self, broker_id: int) -> Uuid:
        """The log directory that holds this broker's replica. ValueError if it holds none."""
        return self.directories[self.replicas.index(broker_id)]

    @property
    def is_reassigning(self) -> bool:
        """Whether replicas are being added or taken away."""
        return bool(self.removing_replicas or self.adding_replicas)


def _changed(old: tuple[int, ...], new: list[int] | None) -> tuple[int, ...]:
    return old if new is None else tuple(new)


class TopicImage(Struct, frozen=True, weakref=True):
    """A topic: its partitions stand at their numbers."""

    name: str
    topic_id: Uuid
    partitions: tuple[PartitionImage, ...]


class ClusterImage(Struct, frozen=True):
    """All that the metadata log says up to `offset`.

    `topics_by_name` and `topics_by_id` hold the same topics. `configs` is keyed by (resource type,
    resource name). `acls` are keyed by their ids, `scram` by (user, number of the mechanism),
    `tokens` by token id, `quotas` by entity. `others` holds the records of kinds that no machine
    interprets, keyed so that a later record replaces or removes an earlier one.
    `pending` are the records of a metadata transaction that has begun and not ended: they are part
    of the log but not yet of the cluster (KIP-868).
    """

    offset: int = -1
    epoch: int = 0
    features: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    brokers: PersistentMap[int, BrokerImage] = field(default_factory=PersistentMap)
    controllers: PersistentMap[int, ControllerImage] = field(default_factory=PersistentMap)
    topics_by_name: PersistentMap[str, TopicImage] = field(default_factory=PersistentMap)
    topics_by_id: PersistentMap[Uuid, TopicImage] = field(default_factory=PersistentMap)
    configs: PersistentMap[tuple[int, str], Mapping[str, str]] = field(
        default_factory=PersistentMap
    )
    next_producer_id: int = 0
    acls: PersistentMap[Uuid, Acl] = field(default_factory=PersistentMap)
    scram: ScramImage = field(default_factory=PersistentMap)
    tokens: TokensImage = field(default_factory=PersistentMap)
    quotas: Quotas = field(default_factory=PersistentMap)
    others: PersistentMap[tuple[object, ...], Message] = field(default_factory=PersistentMap)
    pending: tuple[Message, ...] | None = None

    @property
    def metadata_version(self) -> int:
        """The level of `metadata.version`; NEWEST_LEVEL as long as none is finalized."""
        return self.features.get(METADATA_VERSION, NEWEST_LEVEL)

    @property
    def has_directories(self) -> bool:
        """Whether the metadata say in which directories replicas are."""
        return self.metadata_version >= DIRECTORIES_SINCE

    @property
    def has_cordoned_directories(self) -> bool:
        """Whether the metadata may say which directories take no new replicas (KIP-1066)."""
        return METADATA_VERSION in self.features and self.metadata_version >= CORDONED_SINCE

    def standing_at(self, offset: int, epoch: int) -> ClusterImage:
        """This image as the log's up to `offset`, the record there being of `epoch`."""
        return replace(self, offset=offset, epoch=epoch)

    def configs_of(self, resource_type: int, name: str) -> Mapping[str, str]:
        """The dynamic configs of one resource; empty if it has none."""
        return self.configs.get((resource_type, name), _NO_CONFIGS)

    def topic_configs(self, name: str) -> Mapping[str, str]:
        """The dynamic configs of one topic, without the defaults under them."""
        return self.configs_of(RESOURCE_TOPIC, name)

    def broker_configs(self, broker_id: int | None = None) -> Mapping[str, str]:
        """The dynamic configs of one broker, or with None those that all brokers share."""
        return self.configs_of(RESOURCE_BROKER, "" if broker_id is None else str(broker_id))

    def partition(self, topic_id: Uuid, index: int) -> PartitionImage | None:
        """One partition, or None if there is no such topic or partition."""
        topic = self.topics_by_id.get(topic_id)
        if topic is None or not 0 <= index < len(topic.partitions):
            return None
        return topic.partitions[index]

    def partitions(self) -> Iterator[tuple[TopicImage, int, PartitionImage]]:
        """Every partition, by topic name and number."""
        for name in sorted(self.topics_by_name):
            topic = self.topics_by_name[name]
            for index, partition in enumerate(topic.partitions):
                yield topic, index, partition

    @property
    def is_empty(self) -> bool:
        """Whether the log has not said anything about a cluster yet."""
        return not self.features and not self.brokers and not self.topics_by_id
