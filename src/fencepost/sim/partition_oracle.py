"""What really happened to partitions, as only an observer of all brokers can know it.

`PartitionOracle` is told of every append, flush, cut and crash of every replica, of what producers
were acknowledged, and of every step of a replica that can be seen from outside. It judges nothing;
the checks do. A partition is named by (topic id, number): a topic that is created again under its
old name is another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Final, NamedTuple

from fencepost.batch.control import read_control
from fencepost.batch.header import check_crc, iter_headers, read_header
from fencepost.log.disk import Buffer
from fencepost.log.producers import SEQUENCE_MAX
from fencepost.sim.cleaned_batches import CleanedBatches
from fencepost.sim.log_contents import LogContents, position
from fencepost.wire.records.control import ControlType
from fencepost.wire.types import Uuid

NO_BROKER: Final = -1
FIRST_SEQUENCES: Final = (0, SEQUENCE_MAX - 20)
"""Where the sequences of an idempotent producer begin: also so that they soon begin again at 0."""

PartitionKey = tuple[Uuid, int]
ReplicaKey = tuple[int, PartitionKey]
"""A broker's id, and the partition that it has a replica of."""


class PartitionBatch(NamedTuple):
    """One batch of a partition. The producer's id and epoch are -1 where it is not idempotent.

    `commits` is whether a transaction's marker commits it; None of what is no marker.
    """

    base_offset: int
    next_offset: int
    epoch: int
    crc: int
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    is_transactional: bool = False
    commits: bool | None = None


def partition_batch(batch: Buffer) -> PartitionBatch:
    """What the oracle keeps of a batch."""
    header = read_header(batch)
    return PartitionBatch(
        header.base_offset,
        header.next_offset,
        header.partition_leader_epoch,
        header.crc,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.is_transactional,
        _commits(batch) if header.is_control else None,
    )


def _commits(batch: Buffer) -> bool | None:
    """Whether a control batch commits a transaction; None if it ends none."""
    types = {ControlType.COMMIT: True, ControlType.ABORT: False}
    return next((types.get(ControlType(one.type)) for one in read_control(batch)), None)


class ReplicaView(NamedTuple):
    """What can be seen of one replica after a step of its machine.

    `incarnation` is its broker process's. `isr` is the in-sync set as the replica knows it, and
    `maximal_isr` what the controller might have made of it, both empty unless it leads; `min_isr`
    is how many of `isr` are needed to acknowledge anything.
    """

    broker_id: int
    incarnation: int
    key: PartitionKey
    is_leader: bool
    leader_epoch: int
    high_watermark: int
    start_offset: int
    durable_offset: int
    end_offset: int
    isr: frozenset[int] = frozenset()
    min_isr: int = 1
    maximal_isr: frozenset[int] = frozenset()


class Place(Enum):
    """Where bytes of a batch are looked at."""

    SERVED = "is served by"
    TAKEN_OVER = "is taken over by"
    READ = "is read from"


class Passed(NamedTuple):
    """A batch as it passes a place; `is_sound` is whether its bytes fit its checksum.

    `broker_id` serves it, or has it from its leader; what a consumer has read is of `NO_BROKER`.
    """

    place: Place
    broker_id: int
    key: PartitionKey
    batch: PartitionBatch
    is_sound: bool


def passed(place: Place, broker_id: int, key: PartitionKey, data: Buffer) -> Iterator[Passed]:
    """The batches of a stretch of records, whole ones, as they pass."""
    view = memoryview(data)
    for at, header in iter_headers(view):
        batch = partition_batch(view[at : at + header.size_bytes])
        yield Passed(place, broker_id, key, batch, check_crc(view, at, header))


class Checkpoints(NamedTuple):
    """What the checkpoint files of a broker's disk say of a replica; 0 where they say nothing.

    `high_watermark` is -1 unless it was written just now: it may come to lie behind the end of a
    log that is cut, and is not believed then.
    """

    recovery_point: int
    start_offset: int
    high_watermark: int = -1


class Stage(Enum):
    """What an incarnation of a broker begins."""

    STARTS = "starts"
    LOADS = "makes replicas of what the metadata say"
    IS_READY = "has loaded its logs, and asks to be unfenced"
    SERVES = "takes requests"


class BrokerBegun(NamedTuple):
    """An incarnation of a broker is that far; its broker epoch is -1 before it is registered."""

    stage: Stage
    broker_id: int
    incarnation_id: Uuid
    broker_epoch: int


class PartitionOracle:
    """See the module docstring."""

    def __init__(self) -> None:
        self.logs: dict[ReplicaKey, LogContents[PartitionBatch]] = {}
        """What is on the disks of brokers, replica by replica."""
        self.views: dict[ReplicaKey, ReplicaView] = {}
        """What was last seen of each replica whose broker is alive."""
        self.visible: dict[PartitionKey, list[PartitionBatch]] = {}
        """What consumers may have read: the log up to the highest watermark of any leader."""
        self.acknowledged: dict[PartitionKey, dict[int, PartitionBatch]] = {}
        """By base offset, what producers were told is on all in-sync replicas (acks=all)."""
        self.may_start_at: dict[PartitionKey, int] = {}
        """By partition, the highest offset below which a client has asked to delete records."""
        self.closed_in_order: set[int] = set()
        """Brokers that have stopped in order, and not started since."""
        self.may_lose: set[PartitionKey] = set()
        """Partitions for which a scenario has asked for an unclean election."""
        self.deleted: set[PartitionKey] = set()
        """Partitions whose topic was deleted."""
        self._cleaned: dict[PartitionKey, CleanedBatches[PartitionBatch]] = {}

    def log(self, broker_id: int, key: PartitionKey) -> LogContents[PartitionBatch]:
        """The log of a replica; an empty one if nothing was ever known of it."""
        log = self.logs.get((broker_id, key))
        if log is None:
            log = self.logs[broker_id, key] = LogContents()
        return log

    def cleaned(self, key: PartitionKey) -> CleanedBatches[PartitionBatch]:
        """What compaction has made of the partition's batches, on whatever disk."""
        return self._cleaned.setdefault(key, CleanedBatches())

    def visible_offset(self, key: PartitionKey) -> int:
        """The true high watermark: what is below it, some consumer may have read."""
        visible = self.visible.get(key)
        return visible[-1].next_offset if visible else 0

    def visible_batch(self, key: PartitionKey, base_offset: int) -> PartitionBatch | None:
        """The batch with that base offset, if some consumer may have read it."""
        visible = self.visible.get(key, [])
        at = position(visible, base_offset)
        found = visible[at] if at < len(visible) else None
        return found if found is not None and found.base_offset == base_offset else None

    def note_acknowledged(self, key: PartitionKey, base_offset: int) -> None:
        """A producer was told that the batch there is on all in-sync replicas."""
        batch = self.visible_batch(key, base_offset)
        assert batch is not None, "a check has seen to it"
        self.acknowledged.setdefault(key, {})[base_offset] = batch

    def acknowledged_offset(self, key: PartitionKey) -> int:
        """Where the acknowledged batches end; 0 if there are none."""
        batches = self.acknowledged.get(key)
        return max(batch.next_offset for batch in batches.values()) if batches else 0

    def newly_visible(self, view: ReplicaView) -> Iterable[PartitionBatch]:
        """What no consumer could read before this leader moved its high watermark."""
        known = self.visible_offset(view.key)
        if not view.is_leader or view.high_watermark <= known:
            return ()
        log = self.log(view.broker_id, view.key)
        return log.entries[log.position(known) : log.position(view.high_watermark)]

    def may_delete(self, key: PartitionKey, offset: int) -> None:
        """A client asks to delete the records below `offset`."""
        self.may_start_at[key] = max(offset, self.may_start_at.get(key, 0))

    def leader_recovers(self, key: PartitionKey, leader: int) -> None:
        """It is written down that the partition may have lost what its new leader has not.

        If a scenario has asked for the election, no check expects any of that from now on.
        """
        if key not in self.may_lose:
            return
        log, visible = self.log(leader, key), self.visible.get(key, [])
        held = [batch for batch in visible if batch in log.entries]
        self.visible[key] = held
        known = self.acknowledged.get(key, {})
        self.acknowledged[key] = {at: one for at, one in known.items() if one in held}

    def stepped(self, view: ReplicaView) -> None:
        """A replica looks different from before."""
        self.visible.setdefault(view.key, []).extend(self.newly_visible(view))
        self.views[view.broker_id, view.key] = view

    def gone(self, broker_id: int, key: PartitionKey) -> None:
        """A broker has this replica no longer."""
        self.logs.pop((broker_id, key), None)
        self.views.pop((broker_id, key), None)

    def disk_is_gone(self, broker_id: int) -> None:
        """A broker has lost all of its replicas."""
        for key in [one for one in self.logs if one[0] == broker_id]:
            del self.logs[key]

    def died(self, broker_id: int) -> None:
        """A broker's process is gone."""
        for key in [one for one in self.views if one[0] == broker_id]:
            del self.views[key]

    def replicas_of(self, key: PartitionKey) -> dict[int, LogContents[PartitionBatch]]:
        """The logs of a partition by broker."""
        return {broker: log for (broker, of), log in self.logs.items() if of == key}
