"""Old bugs to be put back: what the checks and the scenarios are tested with.

An ablation takes one rule away, as it was wrong in Kafka or here once. The simulator must find it
by search (`fencepost sim run --ablation NAME`), or a scenario must turn red under it. There is a
table for each part of the product. To add an ablation, add a row: a rule that the product names
(`rules.py` of that part) gets another function, or a patch replaces a function of the product.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from fencepost.sim.ablations.ablation import Ablation


def ablation_names() -> list[str]:
    """The names of all ablations, sorted."""
    return sorted(_ablations())


def load_ablation(name: str) -> Ablation:
    """The ablation of that name. KeyError if there is none."""
    return _ablations()[name]


@cache
def _ablations() -> Mapping[str, Ablation]:
    """All rows of all tables: the modules here that have a `TABLE`."""
    names = (found.name for found in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    tables = [module.TABLE for module in modules if hasattr(module, "TABLE")]
    rows = {name: replace(row, name=name) for table in tables for name, row in table.items()}
    assert len(rows) == sum(map(len, tables)), "an ablation is in two tables"
    return rows
