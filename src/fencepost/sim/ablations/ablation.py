"""`Ablation`, and how the tables beside this module write one down."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from fencepost.sim.options import Options, with_brokers
from fencepost.sim.rules import Rules


@dataclass(frozen=True)
class Ablation:
    """A bug: what goes wrong in a line, and the rules as it has them.

    `scenarios` are those that come out otherwise under it. `is_found_by_search` says whether random
    seeds are expected to find it, too, and `faults` which faults to search with; None lets the
    seeds draw. One that is `in_brokers` is searched for in worlds with three brokers, by `base`,
    and one that is `in_transactions` in those with three transactional producers and two groups
    besides; one that is `in_compaction` in those with compacted topics. `having` are other options
    of its worlds, by name.
    """

    says: str
    rules: Rules
    scenarios: tuple[str, ...] = ()
    is_found_by_search: bool = True
    faults: tuple[str, ...] | None = None
    in_brokers: bool = False
    in_transactions: bool = False
    in_compaction: bool = False
    having: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""

    def base(self, options: Options) -> Options:
        """The options of worlds in which it is searched for, `options` for all that is free."""
        if (self.in_brokers or self.in_transactions) and not options.brokers:
            options = with_brokers(options, 3)
        if self.in_transactions and not options.transactors:
            options = replace(options, transactors=3, committers=2)
        if self.in_compaction and not options.compacts:
            options = replace(options, compacts=True)
        return replace(options, **self.having)


def ablation(
    says: str, rules: Rules, *scenarios: str, searched: bool = True, **where: Any
) -> Ablation:
    """A row of a table: in worlds of the quorum alone, if `where` has no more of `Ablation`."""
    return Ablation(says, rules, scenarios, searched, **where)


in_brokers = partial(ablation, in_brokers=True)
"""A row whose bug shows in worlds with brokers."""

in_transactions = partial(ablation, in_transactions=True)
"""A row whose bug shows in worlds with brokers and transactions."""

_PRODUCTS = vars(Rules())


def changed(field: str, **overrides: Callable[..., Any]) -> Rules:
    """The product's rules, but for some of those in a `field` of `Rules`.

    Each of `overrides` is a method. AttributeError for a rule that the product does not have.
    """
    own = type(_PRODUCTS[field])
    for name in overrides:
        getattr(own, name)
    ablated = type(f"Ablated{own.__name__}", (own,), {"__slots__": (), **overrides})
    return Rules(**{field: ablated()})


def patched(*patches: tuple[Any, str, Any]) -> Rules:
    """The product's rules, with other functions (class or module, name, replacement) in place."""
    return Rules(patches=patches)


def both(first: Rules, second: Rules) -> Rules:
    """What either of them changes; `second` where both do."""
    changes = {name: getattr(second, name) for name in _PRODUCTS}
    return replace(first, **{n: new for n, new in changes.items() if new is not _PRODUCTS[n]})


def always(value: object) -> Callable[..., Any]:
    """A function that returns `value`, whatever it is called with."""
    return lambda *_, **__: value
