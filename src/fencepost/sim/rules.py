"""The rules a world is played by: the product's own, unless an ablation replaces one.

The rules of the quorum, the metadata log, the active controller, groups, transactions, a broker's
lifecycle, the leaders and followers of partitions, fetch sessions and what hosts coordinators have
names (`machines/quorum/rules.py`, `runtime/metadata/rules.py`, `machines/controller/rules.py`,
`machines/group/rules.py`, `machines/transaction/rules.py`, `machines/broker/rules.py`,
`machines/partition/rules.py`, `machines/fetcher/rules.py`, `machines/fetch/rules.py`,
`runtime/coordinator/rules.py`), and an ablation is another set of the same names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fencepost.machines.broker.rules import RULES as LIFECYCLE_RULES, LifecycleRules
from fencepost.machines.controller.rules import RULES as CONTROLLER_RULES, ControllerRules
from fencepost.machines.fetch.rules import RULES as FETCH_RULES, FetchRules
from fencepost.machines.fetcher.rules import RULES as FETCHER_RULES, FetcherRules
from fencepost.machines.group.rules import RULES as GROUP_RULES, GroupRules
from fencepost.machines.partition.rules import RULES as PARTITION_RULES, PartitionRules
from fencepost.machines.quorum import MachineMaker, QuorumMachine
from fencepost.machines.quorum.rules import RULES as QUORUM_RULES, QuorumRules
from fencepost.machines.transaction.rules import RULES as TRANSACTION_RULES, TransactionRules
from fencepost.runtime.coordinator.rules import RULES as COORDINATOR_RULES, CoordinatorRules
from fencepost.runtime.metadata.rules import RULES as METADATA_RULES, MetadataRules


@dataclass(frozen=True)
class Rules:
    """`patches` are (class or module, name, replacement), in force while the world is played.

    They are for rules that have no name yet, such as the order in which a file is synced and
    renamed.
    """

    quorum: QuorumRules = QUORUM_RULES
    machine: MachineMaker = QuorumMachine
    metadata: MetadataRules = METADATA_RULES
    controller: ControllerRules = CONTROLLER_RULES
    groups: GroupRules = GROUP_RULES
    transactions: TransactionRules = TRANSACTION_RULES
    lifecycle: LifecycleRules = LIFECYCLE_RULES
    partition: PartitionRules = PARTITION_RULES
    fetcher: FetcherRules = FETCHER_RULES
    fetch: FetchRules = FETCH_RULES
    coordinator: CoordinatorRules = COORDINATOR_RULES
    patches: tuple[tuple[Any, str, Any], ...] = ()
    draft_versions: Mapping[int, int] = field(default_factory=dict)
    """The nodes that follow with the draft FetchQuorumRecords, and with which version of it."""

    @property
    def make_machine(self) -> MachineMaker:
        """Makes quorum machines that go by these rules."""
        return partial(self.machine, rules=self.quorum)

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Put the patches in place, and the product's own back afterwards."""
        own = [(target, name, target.__dict__[name]) for target, name, _ in self.patches]
        try:
            for target, name, replacement in self.patches:
                setattr(target, name, replacement)
            yield
        finally:
            for target, name, original in own:
                setattr(target, name, original)
