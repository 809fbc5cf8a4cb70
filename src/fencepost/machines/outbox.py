"""The effects of one step of a machine, in the order in which they are to be carried out.

A machine has one outbox, which its parts share: what a part decides leaves through it and through
nothing else, and `take` ends the step. The quorum's outbox (`machines.quorum.outbox`) also keeps
the durable state in front of the effects that depend on it; machines whose only durable state is
their log need no more than this.
"""

from __future__ import annotations

from typing import Any

from fencepost.machines.effects import Effect, Reply, SetTimer


class StepOutbox:
    """Collects the effects of the present step; empty between steps that end well."""

    __slots__ = ("_effects",)

    def __init__(self) -> None:
        self._effects: list[Effect] = []

    def emit(self, effect: Effect) -> None:
        """Add an effect behind those that there are."""
        self._effects.append(effect)

    def reply(self, token: Any, value: Any) -> None:
        """Answer the request that came with `token`."""
        self._effects.append(Reply(token, value))

    def set_timer(self, name: str, deadline_ms: int | None) -> None:
        """Arm the machine's timer of that name, or disarm it with None."""
        self._effects.append(SetTimer(name, deadline_ms))

    def drop(self) -> None:
        """Forget the effects of a step that broke down: they were never carried out."""
        self._effects = []

    def take(self) -> list[Effect]:
        """End the step: the effects that were emitted in it."""
        effects = self._effects
        self._effects = []
        return effects
