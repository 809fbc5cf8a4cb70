"""The rules a world is played by: the product's own classes, unless an ablation replaces one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from fencepost.machines.controller import Controller
from fencepost.machines.quorum import QuorumMachine
from fencepost.runtime.controller_host import ControllerHost


@dataclass(frozen=True)
class Rules:
    """`patches` are (class or module, name, replacement), in force while the world is played.

    They are for rules that no class of a node's parts holds, such as the order in which a file is
    synced and renamed.
    """

    machine: type[QuorumMachine] = QuorumMachine
    controller_host: type[ControllerHost] = ControllerHost
    controller: type[Controller] = Controller
    patches: tuple[tuple[Any, str, Any], ...] = ()

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
