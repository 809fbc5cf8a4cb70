"""What the simulator has: faults, checks, ablations, commands of scenarios, each in a line."""

from __future__ import annotations

import inspect
import sys

from fencepost.sim.ablations import ablation_names, load_ablation
from fencepost.sim.checks import load_checks
from fencepost.sim.faults import fault_classes
from fencepost.sim.script import commands


def everything() -> dict[str, dict[str, str]]:
    """By kind and name, what each is, from its own words."""
    return {
        "faults": {name: _first_line(_module(kind)) for name, kind in fault_classes().items()},
        "checks": {
            check.kind: _first_line(_module(type(check))).partition(": ")[2]
            for check in load_checks()
        },
        "ablations": {name: load_ablation(name).says for name in ablation_names()},
        "commands": {name: _usage(run.__doc__ or "") for name, run in commands().items()},
    }


def _module(kind: type) -> str:
    return sys.modules[kind.__module__].__doc__ or ""


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0]


def _usage(text: str) -> str:
    return " ".join(inspect.cleandoc(text).split())
