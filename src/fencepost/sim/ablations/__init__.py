"""Old bugs, one a file, to be put back: what the checks and the scenarios are tested with.

An ablation takes one rule away, as somebody once had it or forgot it. The simulator must find it by
search (`fencepost sim run --ablation NAME`), or a scenario must turn red under it. To add one: a
file here with an `Ablation` named `ABLATION`; the file's name with dashes is the ablation's.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass, field, replace

from fencepost.sim.options import Options, with_brokers
from fencepost.sim.rules import Rules


@dataclass(frozen=True)
class Ablation:
    """A bug: what goes wrong in a line, the scenarios it belongs to, and the rules as it has them.

    `is_found_by_search` says whether random seeds are expected to find it, too, `search_within` in
    how many, and `faults` which faults to search with; None lets the seeds draw. One that is
    `in_brokers` is searched for in worlds with three brokers, by `base`, and one that is
    `in_transactions` in those with three transactional producers and two groups besides; one that
    is `in_compaction` in those with compacted topics.
    """

    says: str
    rules: Rules
    scenarios: tuple[str, ...] = ()
    is_found_by_search: bool = True
    search_within: int = 40
    faults: tuple[str, ...] | None = None
    in_brokers: bool = False
    in_transactions: bool = False
    in_compaction: bool = False
    name: str = field(default="", compare=False)

    def base(self, options: Options) -> Options:
        """The options of worlds in which it is searched for, `options` for all that is free."""
        if (self.in_brokers or self.in_transactions) and not options.brokers:
            options = with_brokers(options, 3)
        if self.in_transactions and not options.transactors:
            options = replace(options, transactors=3, committers=2)
        if self.in_compaction and not options.compacts:
            options = replace(options, compacts=True)
        return options


def ablation_names() -> list[str]:
    """The names of all ablations, sorted."""
    return sorted(found.name.replace("_", "-") for found in pkgutil.iter_modules(__path__))


def load_ablation(name: str) -> Ablation:
    """The ablation of that name. KeyError if there is none."""
    if name not in ablation_names():
        raise KeyError(name)
    module = importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
    ablation: Ablation = module.ABLATION
    object.__setattr__(ablation, "name", name)
    return ablation
