"""What a broker answers share consumers with: share sessions, share partitions, dead letters.

Loaded and made when the first share consumer comes.
"""

from __future__ import annotations

from typing import Final

from fencepost.broker.cluster.broker_channel import BrokerChannel
from fencepost.broker.net.listener import Listener
from fencepost.broker.node.core import NodeCore
from fencepost.broker.node.fetch_serving import FetchServing
from fencepost.broker.shares.letter_box import BrokerLetterBox
from fencepost.machines.group.settings import GroupSettings
from fencepost.runtime.dead_letters import DeadLetters
from fencepost.runtime.replicas import HostedPartition, ReplicaManager
from fencepost.runtime.requests.parts import LogReads
from fencepost.runtime.share_partitions import SharePartitions
from fencepost.runtime.share_persister import SharePersister
from fencepost.runtime.share_sessions import ShareSessionHost

MAX_SESSIONS_KEY: Final = "group.share.max.share.sessions"


class ShareServing:
    """See the module. From now on it hears of what moves in `replicas`, beside `fetches`, and of
    connections of the `listener` that are gone."""

    def __init__(
        self,
        core: NodeCore,
        replicas: ReplicaManager,
        listener: Listener,
        fetches: FetchServing,
        reads: LogReads,
        persister: SharePersister,
        brokers: BrokerChannel,
    ) -> None:
        settings = GroupSettings(core.settings.get)
        lane = core.ports.scheduler.lane()
        box = BrokerLetterBox(
            core.config,
            core.settings,
            core.ports,
            lambda: core.image,
            replicas,
            core.channel,
            brokers,
        )
        letters = DeadLetters(core.ports.timers, core.ports, lane, reads, lambda: core.image, box)
        self.partitions = SharePartitions(
            core.ports.timers,
            core.ports,
            lane,
            replicas,
            reads,
            persister,
            lambda group_id: settings.share(core.image, group_id),
            letters,
        )
        self.sessions = ShareSessionHost(
            self.partitions, lambda: int(core.settings.get(MAX_SESSIONS_KEY))
        )

        def moved(hosted: HostedPartition, log_end_alone: bool) -> None:
            fetches.host.moved(hosted, log_end_alone)
            self.partitions.moved(hosted, log_end_alone)

        replicas.on_moved = moved
        listener.on_disconnected = self.sessions.disconnected

    def close(self) -> None:
        """Deliver nothing any more."""
        self.partitions.close()
