"""The rules of the quorum by name, and the ablations that take them away."""

from __future__ import annotations

import pytest

from fencepost.machines.quorum.rules import RULE_NAMES, QuorumRules
from fencepost.sim.ablations import ablation_names, load_ablation

from .explore_bugs import RULES_WITH_BUGS


def overridden(rules: QuorumRules) -> set[str]:
    """The names that a set of rules has of its own."""
    classes = type(rules).__mro__[: -len(QuorumRules.__mro__)]
    return {name for each in classes for name in vars(each) if not name.startswith("_")}


def test_every_rule_has_an_ablation_or_a_bug_of_the_explorer() -> None:
    ablated = [load_ablation(name).rules.quorum for name in ablation_names()]
    without = set(RULE_NAMES).difference(*map(overridden, (*ablated, *RULES_WITH_BUGS)))
    assert not without, "a rule that nothing can take away is not tested"


@pytest.mark.parametrize("name", ablation_names())
def test_an_ablation_of_the_quorum_overrides_declared_rules_only(name: str) -> None:
    rules = load_ablation(name).rules.quorum
    assert overridden(rules) <= set(RULE_NAMES)
    assert bool(overridden(rules)) is (type(rules) is not QuorumRules)


def test_every_rule_says_what_it_is_about() -> None:
    for name in RULE_NAMES:
        assert getattr(QuorumRules, name).__doc__, name
