"""What a simulated broker has for groups: the product's coordinators, with settings of worlds."""

from __future__ import annotations

from typing import Any, Final

from fencepost.machines.group.codec import GroupCodec
from fencepost.machines.group.config import GroupConfig
from fencepost.machines.group.configs import BROKER_DEFAULTS
from fencepost.machines.group.coordinator import GroupCoordinator
from fencepost.machines.group.memory import GroupMemory
from fencepost.machines.group.settings import GroupSettings
from fencepost.runtime.coordinator import CoordinatorKind
from fencepost.runtime.groups import GroupCoordinators
from fencepost.sim.brokers.drawn_threads import DrawnThreads
from fencepost.sim.brokers.process import BrokerProcess

OFFSETS_COMMIT_TIMEOUT_MS: Final = 5_000
GROUPS: Final = GroupConfig(
    min_session_timeout_ms=1_000, initial_rebalance_delay_ms=300, offsets_retention_check_ms=20_000
)
SETTINGS: Final = dict.fromkeys(
    [f"group.{kind}.session.timeout.ms" for kind in ("consumer", "share", "streams")], 8_000
)
"""Members that have ended without a word are put out while a world lasts."""
SETTINGS["group.streams.num.standby.replicas"] = 1


def _setting(key: str) -> Any:
    return SETTINGS.get(key, BROKER_DEFAULTS[key])


def groups_of(broker: BrokerProcess) -> GroupCoordinators:
    """The coordinators of groups in one incarnation of a broker."""
    memory, rules = GroupMemory(), broker.world.rules
    settings = GroupSettings(_setting)
    kind = CoordinatorKind(
        lambda: GroupCoordinator(
            GROUPS, memory, rules.groups, lambda: broker.metadata.image, settings=settings
        ),
        GroupCodec(),
        write_timeout_ms=OFFSETS_COMMIT_TIMEOUT_MS,
        elsewhere=DrawnThreads(broker).run,
        rules=rules.coordinator,
    )
    return GroupCoordinators(
        broker.id, broker.ports, broker.metadata, kind, broker.shares.persister
    )
