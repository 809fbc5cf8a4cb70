"""Random histories against a model: whatever is refused, lost or taken over, state and log agree.

After every step the machine holds what a machine loaded from the log would hold; if the step was
refused, exactly what it held before. What a client was told is in the committed log for good, and
a read never tells of something that is lost later.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from fencepost.machines.coordinator import Decision
from fencepost.runtime.coordinator import CoordinatorState
from fencepost.wire.errors import ErrorCode

from .coordinator_world import CoordinatorWorld

NAMES = st.sampled_from("abc")
PRODUCERS = st.sampled_from([7, 8])
NONE = ErrorCode.NONE


class Histories(RuleBasedStateMachine):
    """One partition, two replicas, leaders that come and go."""

    def __init__(self) -> None:
        super().__init__()
        self.world = CoordinatorWorld(followers=1)
        self.world.start()
        self.epoch = 1
        self.is_leading = True
        self.text = 0
        self.written: dict[int, tuple[str, str]] = {}  # token -> what it set
        self.reads: dict[int, str] = {}  # token -> name
        self.told_texts: dict[str, set[str]] = {}  # name -> what readers were told

    # Operations

    def ask(self, decide: Any) -> int:
        before = self.world.toy.view() if self.is_active else None
        applied = list(self.world.toy.applied) if self.is_active else []
        token = self.world.ask(decide)
        error, _ = self.world.replies.get(token, (NONE, None))
        if before is not None and error is not NONE:
            texts, pending, waiting = self.world.toy.view()
            assert (texts, pending) == before[:2], "refused, and yet something has changed"
            assert self.world.toy.applied == applied
            # Tokens that waited for what was refused get the error: `Decision.on_refused`.
            assert {name: before[2][name] for name in waiting} == waiting
        return token

    @property
    def is_active(self) -> bool:
        coordinator = self.world.runtime.get(3)
        return coordinator is not None and coordinator.state is CoordinatorState.ACTIVE

    @rule(name=NAMES, more=st.lists(NAMES, max_size=2), has_mistake=st.sampled_from([0, 0, 0, 1]))
    def set(self, name: str, more: list[str], has_mistake: int) -> None:
        self.text += 1
        text = str(self.text)
        records = [(one, text) for one in (name, *more)]
        if self.is_active:
            self.world.toy.cannot_apply = records[-1][0] if has_mistake else None
        token = self.ask(lambda toy, token: toy.decide_set(token, *records))
        if self.is_active:
            self.world.toy.cannot_apply = None
        self.written[token] = records[-1]  # type: ignore[assignment]

    @rule(name=NAMES)
    def remove(self, name: str) -> None:
        self.ask(lambda toy, token: toy.decide_set(token, (name, None), expires_ms=1_000))

    @rule(name=NAMES)
    def get(self, name: str) -> None:
        self.reads[self.ask(lambda toy, token: toy.decide_get(token, name))] = name

    @rule(name=NAMES)
    def wait(self, name: str) -> None:
        self.ask(lambda toy, token: toy.decide_wait(token, name))

    @rule(producer=PRODUCERS, name=NAMES)
    def write_in_transaction(self, producer: int, name: str) -> None:
        self.text += 1
        record = name, str(self.text)
        self.ask(lambda toy, token: toy.decide_write(token, producer, record))

    @rule(producer=PRODUCERS, committed=st.booleans())
    def end_transaction(self, producer: int, committed: bool) -> None:
        self.ask(lambda toy, token: toy.decide_end(token, producer, committed=committed))

    @rule()
    def fail(self) -> None:
        def decide(toy: Any, token: Any) -> Decision[Any]:
            raise AssertionError("a mistake of ours")

        self.ask(decide)

    # The world

    @rule(alone=st.booleans())
    def in_sync(self, alone: bool) -> None:
        if self.is_leading:
            self.world.set_in_sync(*((1,) if alone else (1, 2)))

    @rule()
    def commit(self) -> None:
        if self.is_leading:
            self.world.commit()

    @rule(by_ms=st.sampled_from([100, 1_000, 6_000]))
    def time_passes(self, by_ms: int) -> None:
        self.world.advance(by_ms)

    @rule(turns=st.integers(1, 3))
    def turns(self, turns: int) -> None:
        self.world.run(turns)

    @rule(unloads=st.booleans(), keeps=st.integers(0, 3))
    def another_leads(self, unloads: bool, keeps: int) -> None:
        """It may have less than we have, but never less than what is committed."""
        self.epoch += 1
        self.is_leading = False
        self.world.follow(self.epoch, unload=unloads)
        log = self.world.log
        log.truncate_to(max(self.world.machine.high_watermark, log.end_offset - keeps))

    @rule()
    def leads_again(self) -> None:
        self.epoch += 1
        self.is_leading = True
        self.world.lead(self.epoch)

    @rule(back=st.integers(0, 2))
    def late_unload(self, back: int) -> None:
        """Of an epoch that is over: it must not unload what is loaded now."""
        if self.is_leading:
            before = self.world.runtime.get(3)
            self.world.runtime.unload(3, self.epoch - back)
            assert self.world.runtime.get(3) is before

    @rule()
    def late_load(self) -> None:
        before = self.world.runtime.get(3)
        self.world.load(self.epoch - 1)
        if before is not None and self.is_leading:
            assert self.world.runtime.get(3) is before

    # What must hold

    @invariant()
    def state_and_log_agree(self) -> None:
        if self.is_active and self.is_leading:
            texts, pending, _ = self.world.toy.view()
            stored = self.world.reloaded().view()
            assert (texts, pending) == stored[:2]

    @invariant()
    def what_was_told_is_committed(self) -> None:
        world = self.world
        committed = [
            record
            for offset, record in world.reloaded().applied
            if offset < world.machine.high_watermark
        ]
        for token, (error, reply) in list(world.replies.items()):
            if error is NONE and token in self.written:
                assert self.written.pop(token) in committed
            if error is NONE and token in self.reads and reply is not None:
                assert (self.reads[token], reply) in committed, "a reader was told what is lost"

    @invariant()
    def nobody_is_forgotten(self) -> None:
        """Who is not answered is known to the coordinator."""
        coordinator = self.world.runtime.get(3)
        waiting = 0 if coordinator is None else coordinator.waiting_count
        assert waiting == self.world.last_token - len(self.world.replies)

    def teardown(self) -> None:
        self.world.runtime.close()
        assert len(self.world.replies) == self.world.last_token


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
