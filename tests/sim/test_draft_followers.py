"""Whole runs of quorums of which some nodes follow with the draft FetchQuorumRecords (KIP-595)."""

from __future__ import annotations

import pytest

from fencepost.sim.faults import fault_classes
from fencepost.sim.options import Options
from fencepost.sim.rules import Rules
from fencepost.sim.run import Plan, run_seed

# The draft has no snapshots, and its messages are not encoded at drawn versions.
WITHOUT = ("wipe", "version-mix", "rollback", "stale-file", "corrupt-snapshot", "voter-changes")


def plan(draft_versions: dict[int, int]) -> Plan:
    assert set(WITHOUT) <= set(fault_classes()), "these faults are known by these names"
    base = Options(voters=3, observers=1, safety_ms=20_000, faults_off=WITHOUT)
    return Plan(base=base, rules=Rules(draft_versions=draft_versions), draws_options=False)


@pytest.mark.slow
@pytest.mark.parametrize("draft_versions", [{2: 0, 4: 1}, {1: 1, 2: 1, 3: 1}])
def test_quorums_with_followers_of_the_draft_recover(draft_versions: dict[int, int]) -> None:
    acked = 0
    for seed in range(1, 9):
        outcome = run_seed(seed, plan(draft_versions))
        assert outcome.violation is None, f"seed {seed}: {outcome.violation}"
        acked += outcome.acked
    assert acked > 8 * 20, "writes were done all the same"
