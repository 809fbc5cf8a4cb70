"""What a step lets out, in order, with the durable state in front of whatever depends on it.

Persist before anything leaves: `remember` changes the durable state in memory, and `emit` puts a
`WriteState` in front of the first effect that follows; `take`, at the end of a step, does so if
none did. Nothing else holds the durable state or makes effects, so no part can answer or send what
depends on a vote or an epoch that is not on disk.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from fencepost.machines.effects import Effect, Persist, Reply, SetTimer, WriteState
from fencepost.machines.quorum.component import Component
from fencepost.machines.quorum.rules import QuorumRules
from fencepost.machines.quorum.state import NO_NODE, QuorumState


class Outbox(Component):
    """The effects of the present step, and the durable state as of the last of them.

    `state` is to be looked at; it is changed by the methods alone.
    """

    def __init__(self, state: QuorumState, rules: QuorumRules) -> None:
        self.state = state
        self._rules = rules
        self._effects: list[Effect] = []
        self._is_unwritten = False

    def emit(self, effect: Effect) -> None:
        """Add an effect, behind the durable state if that has changed."""
        if self._is_unwritten and not isinstance(effect, SetTimer):
            self._write()
        self._effects.append(effect)

    def reply(self, token: Any, value: Any) -> None:
        """Answer the request behind `token`."""
        self.emit(Reply(token, value))

    def take(self) -> list[Effect]:
        """The effects of the step that ends here."""
        if self._is_unwritten:
            self._write()
        effects, self._effects = self._effects, []
        return effects

    def _write(self) -> None:
        self._is_unwritten = False
        self._effects.append(Persist(WriteState(self.state)))

    # -- the durable state ---------------------------------------------------------------------

    def begin_with(self, state: QuorumState) -> None:
        """Go by this state from the start on; what was acknowledged of the log stays so."""
        self._change(replace(state, acknowledged_end=self.state.acknowledged_end))

    def remember(self, state: QuorumState) -> None:
        """Change the durable state. Within an epoch a leader and a vote are set at most once.

        What was acknowledged of the log is another matter, and stays; see `acknowledge_log_end`.
        """
        old = self.state
        state = replace(state, acknowledged_end=old.acknowledged_end)
        if state == old:
            return
        assert state.epoch >= old.epoch, "epochs do not fall"
        if state.epoch == old.epoch:
            assert old.leader_id in (NO_NODE, state.leader_id), "an epoch has one leader"
            assert old.voted_id in (NO_NODE, state.voted_id), "a voter votes once per epoch"
        self._change(state)

    def forget_leader(self) -> None:
        """The leader on record is not believed any more; the vote of the epoch stays given."""
        self._change(replace(self.state, leader_id=NO_NODE))

    def acknowledge_log_end(self, log_end: tuple[int, int]) -> None:
        """Have the durable state say what others may count on; (0, 0): the log has all of it."""
        self._change(replace(self.state, acknowledged_end=log_end))

    def drop_unwritten_state(self) -> None:
        """What was decided trusting that the disk holds is void: the node has failed."""
        self._is_unwritten = False

    def _change(self, state: QuorumState) -> None:
        if self._rules.must_write_state(self.state, state):
            self._is_unwritten = True
        self.state = state
