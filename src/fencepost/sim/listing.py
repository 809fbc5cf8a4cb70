"""What the simulator has: faults, checks, ablations, commands of scenarios, each in a line."""

from __future__ import annotations

import inspect
import sys

from fencepost.sim.ablations import ablation_names, load_ablation
from fencepost.sim.checks import load_checks
from fencepost.sim.faults import fault_classes
from fencepost.sim.script import commands
from fencepost.views.simulation import SimulatorParts


def everything() -> SimulatorParts:
    """By kind and name, what each is, from its own words."""
    return SimulatorParts(
        faults={name: first_words(kind) for name, kind in fault_classes().items()},
        checks={
            check.kind: first_words(type(check)).removeprefix(f"{check.kind}: ")
            for check in load_checks()
        },
        ablations={name: load_ablation(name).says for name in ablation_names()},
        commands={name: _usage(run.__doc__ or "") for name, run in commands().items()},
    )


def first_words(kind: type) -> str:
    """The first line that a fault's or check's file, or else its class, says of itself."""
    for text in (sys.modules[kind.__module__].__doc__, kind.__dict__.get("__doc__")):
        if text and text.strip():
            return text.strip().splitlines()[0]
    return "(says nothing of itself)"


def _usage(text: str) -> str:
    return " ".join(inspect.cleandoc(text).split())
