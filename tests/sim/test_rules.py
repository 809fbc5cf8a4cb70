"""The rules that have names, and the ablations that take them away."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

import pytest

from fencepost.machines.broker import rules as lifecycle_rules
from fencepost.machines.controller import rules as controller_rules
from fencepost.machines.fetch import rules as fetch_rules
from fencepost.machines.fetcher import rules as fetcher_rules
from fencepost.machines.group import rules as group_rules
from fencepost.machines.partition import rules as partition_rules
from fencepost.machines.quorum import rules as quorum_rules
from fencepost.machines.transaction import rules as transaction_rules
from fencepost.runtime.coordinator import rules as coordinator_rules
from fencepost.runtime.metadata import rules as metadata_rules
from fencepost.sim.ablations import ablation_names, load_ablation
from fencepost.sim.rules import Rules

from ..in_turn import in_turn
from .explore_bugs import RULES_WITH_BUGS


class Declared(NamedTuple):
    """A class of named rules, and where `sim.rules.Rules` has one of it."""

    field: str
    production: Any
    names: tuple[str, ...]

    def of(self, rules: Rules) -> Any:
        """What these rules have of it."""
        return getattr(rules, self.field)

    def overridden(self, rules: Any) -> set[str]:
        """The names that a set of rules has of its own."""
        classes = type(rules).__mro__[: -len(type(self.production).__mro__)]
        return {name for each in classes for name in vars(each) if not name.startswith("_")}


DECLARED = (
    Declared("quorum", quorum_rules.RULES, quorum_rules.RULE_NAMES),
    Declared("metadata", metadata_rules.RULES, metadata_rules.RULE_NAMES),
    Declared("controller", controller_rules.RULES, controller_rules.RULE_NAMES),
    Declared("groups", group_rules.RULES, group_rules.RULE_NAMES),
    Declared("transactions", transaction_rules.RULES, transaction_rules.RULE_NAMES),
    Declared("lifecycle", lifecycle_rules.RULES, lifecycle_rules.RULE_NAMES),
    Declared("partition", partition_rules.RULES, partition_rules.RULE_NAMES),
    Declared("fetcher", fetcher_rules.RULES, fetcher_rules.RULE_NAMES),
    Declared("fetch", fetch_rules.RULES, fetch_rules.RULE_NAMES),
    Declared("coordinator", coordinator_rules.RULES, coordinator_rules.RULE_NAMES),
)


@pytest.mark.parametrize("declared", DECLARED, ids=lambda one: one.field)
def test_every_rule_has_an_ablation_or_a_bug_of_the_explorer(declared: Declared) -> None:
    ablated = [declared.of(load_ablation(name).rules) for name in ablation_names()]
    if declared.field == "quorum":
        ablated += RULES_WITH_BUGS
    without = set(declared.names).difference(*map(declared.overridden, ablated))
    assert not without, "a rule that nothing can take away is not tested"


@in_turn("name", ablation_names())
def test_an_ablation_overrides_declared_rules_only(name: str) -> None:
    ablated = load_ablation(name).rules
    for declared in DECLARED:
        rules = declared.of(ablated)
        overridden = declared.overridden(rules)
        assert overridden <= set(declared.names)
        assert bool(overridden) is (type(rules) is not type(declared.production))


PATCHES = [
    pytest.param(*patch, id=f"{name}-{patch[1]}")
    for name in ablation_names()
    for patch in load_ablation(name).rules.patches
]


@pytest.mark.parametrize(("target", "name", "replacement"), PATCHES)
def test_a_patch_takes_the_place_of_something_like_it(
    target: Any, name: str, replacement: Any
) -> None:
    own = target.__dict__[name]
    assert type(own) is type(replacement), "what is there is called in another way"
    if callable(own):
        parameters = inspect.signature(own).parameters.values()
        positional = [one.name for one in parameters if one.kind is not one.KEYWORD_ONLY]
        named = {one.name: None for one in parameters if one.kind is one.KEYWORD_ONLY}
        inspect.signature(replacement).bind(*positional, **named)


@pytest.mark.parametrize("declared", DECLARED, ids=lambda one: one.field)
def test_every_rule_says_what_it_is_about(declared: Declared) -> None:
    for name in declared.names:
        assert getattr(type(declared.production), name).__doc__, name
