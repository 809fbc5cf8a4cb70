"""What a simulated broker has for share groups: the product's own parts, over the world's network.

They are put together as `broker/node` does it: share coordinators, the way to those of other
brokers, the share partitions of what is led here, with the sessions of their members, and dead
letters.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import structs

from fencepost.machines.group.settings import ShareSettings
from fencepost.machines.share_state.config import ShareStateConfig
from fencepost.machines.share_state.coordinator import ShareStateCoordinator
from fencepost.machines.share_state.records import ShareStateCodec
from fencepost.runtime.coordinator import CoordinatorKind
from fencepost.runtime.internal_topics import SHARE_STATE_TOPIC
from fencepost.runtime.replicas import HostedPartition
from fencepost.runtime.requests.parts import LogReads
from fencepost.runtime.share_partitions import SharePartitions
from fencepost.runtime.share_sessions import ShareSessionHost
from fencepost.runtime.share_state_client import ShareStateClient
from fencepost.runtime.share_states import ShareStateCoordinators
from fencepost.sim.brokers.letters import ObservedDeadLetters
from fencepost.sim.brokers.peers import OnAnswer, Peers
from fencepost.sim.brokers.process import BrokerProcess
from fencepost.sim.workload import DEAD_LETTERS

WRITE_TIMEOUT_MS: Final = 5_000
STATE_PARTITIONS: Final = 2
MOST_SESSIONS: Final = 100
SETTINGS: Final = ShareSettings(
    record_lock_duration_ms=2_500,
    delivery_count_limit=3,
    partition_max_record_locks=100,
    auto_offset_reset="earliest",
)
"""Of every share group: records come back, and are given up, while a world lasts."""
ISOLATION_LEVELS: Final = ("read_uncommitted", "read_committed")
STATES: Final = ShareStateConfig(
    updates_per_snapshot=5, cold_snapshot_interval_ms=10_000, prune_interval_ms=5_000
)
"""Snapshots are written and the log is pruned while a world lasts."""


class ObservedShareStates(ShareStateCoordinators):
    """The share coordinators of a broker; the observer hears what they have pruned."""

    def __init__(self, broker: BrokerProcess, kind: CoordinatorKind[ShareStateCoordinator]) -> None:
        super().__init__(broker.id, broker.ports, broker.metadata, kind)
        self._broker = broker

    def _prune(self, message: Any, leader_epoch: int) -> None:
        index = self.partition_of(message.key.coordinator_key)
        topic = self._broker.image.topics_by_name.get(SHARE_STATE_TOPIC)
        if index is not None and topic is not None:
            partitions = self._broker.world.observer.oracle.partitions
            partitions.may_delete((topic.topic_id, index), message.offset)
        super()._prune(message, leader_epoch)


class BrokerShares:
    """See the module docstring; good for one incarnation of its broker."""

    def __init__(self, broker: BrokerProcess, reads: LogReads) -> None:
        self._broker = broker
        ports, options = broker.ports, broker.world.options
        settings = structs.replace(
            SETTINGS,
            isolation_level=ISOLATION_LEVELS[options.shares_read_committed],
            dead_letter_topic=DEAD_LETTERS if options.has_dead_letters else "",
            dead_letter_copy_record_enable=options.has_dead_letters,
        )
        broker.world.observer.oracle.shares.reads_committed = options.shares_read_committed
        self._lane = ports.scheduler.lane()
        kind = CoordinatorKind(
            lambda: ShareStateCoordinator(STATES, lambda: broker.image),
            ShareStateCodec(),
            write_timeout_ms=WRITE_TIMEOUT_MS,
            rules=broker.world.rules.coordinator,
        )
        self.states = ObservedShareStates(broker, kind)
        broker.replicas.watchers.append(self.states)
        self.persister = ShareStateClient(
            broker.id,
            ports,
            lambda: broker.image,
            Peers(broker, self._ask_here),
            self._create_topic,
        )
        self.partitions = SharePartitions(
            broker.timers,
            broker.clocks,
            ports.scheduler.lane(),
            broker.replicas,
            reads,
            self.persister,
            lambda group_id: settings,
            ObservedDeadLetters(broker, reads),
        )
        self.sessions = ShareSessionHost(self.partitions, lambda: MOST_SESSIONS)

    def moved(self, hosted: HostedPartition, log_end_alone: bool) -> None:
        """A partition's offsets or role have changed: fetches of either kind may have waited."""
        self._broker.fetches.moved(hosted, log_end_alone)
        self.partitions.moved(hosted, log_end_alone)

    def _ask_here(self, request: Any, on_response: OnAnswer) -> None:
        """Ask the coordinators of this broker."""
        self._lane.begin(self.states.answer(request, on_response))

    def _create_topic(self) -> None:
        self._broker.world.workload.create_internal_topic(SHARE_STATE_TOPIC, STATE_PARTITIONS)
