"""A transactional producer that does as it is drawn: it writes, commits, aborts, crashes, waits.

It writes a batch at a time into some partitions, commits offsets of a group of its own and of
others, and commits or aborts. It may crash in the midst of all that: then it starts again under its
transactional id, and so does one that was fenced. It may wait no more for a batch, and abort its
transaction while the batch is on its way; and it may find its epochs nearly used up, as after so
many transactions. A slow one now and then ponders for longer than a transaction may take before it
commits one. Two clients may have one transactional id. Every other one speaks version 1, as clients
without KIP-890 do, whatever the cluster's level.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fencepost.client.protocol.transaction_manager import (
    TRANSACTION,
    State,
)
from fencepost.machines.transaction.epochs import EXHAUSTED
from fencepost.runtime.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from fencepost.sim.clients.keys import Keys
from fencepost.sim.clients.transactional import TransactionalClient
from fencepost.sim.surroundings import Surroundings

RESTART_MS: Final = 2_000
TIMEOUTS_MS: Final = (15_000, 2_000)
"""How long a transaction may take."""
CRASHES_ONE_IN: Final = 40
GIVES_UP_ONE_IN: Final = 4
"""Of turns in which a batch is on its way still."""
AGES_ONE_IN: Final = 30
OLD_EPOCH: Final = EXHAUSTED - 1
STEPS: Final = 4
SHARES_ONE_IN: Final = 4
SLOW_ONE_IN: Final = 4
PONDERS_ONE_IN: Final = 4
"""Of transactions of a slow client."""
PONDERS_MS: Final = 4_000
"""Longer than the shorter of `TIMEOUTS_MS`, and until the coordinator looks at what timed out."""


class Transactor(TransactionalClient):
    """See the module docstring."""

    def __init__(
        self,
        world: Surroundings,
        client_id: int,
        transactional_id: str,
        *,
        knows_kip_890: bool,
        groups: Sequence[str] = (),
    ) -> None:
        """It commits offsets of a group of its own, and of `groups`, of which others do, too."""
        drawn_ms = TIMEOUTS_MS[world.tape.lane(f"client.{client_id}").pick(len(TIMEOUTS_MS))]
        self._slowness = world.tape.lane(f"client.{client_id}.slowness")
        self._is_slow = self._slowness.pick(SLOW_ONE_IN) == SLOW_ONE_IN - 1
        super().__init__(
            world,
            client_id,
            transactional_id,
            knows_kip_890=knows_kip_890,
            timeout_ms=min(TIMEOUTS_MS) if self._is_slow else drawn_ms,
        )
        self.groups = (f"of-{client_id}", *groups)
        self._keys = Keys(world, client_id)

    def restart(self) -> None:
        """Crash, and start again under the same transactional id."""
        super().restart()
        self._steps = 0

    def begin(self) -> None:
        self.later(2 * self.world.options.transact_every_ms, self._turn)

    def _turn(self) -> None:
        self.begin()
        if not self.is_closing and self.lane.pick(CRASHES_ONE_IN) == CRASHES_ONE_IN - 1:
            self.restart()
        if self._waits:
            if self._batch is not None and self.lane.pick(GIVES_UP_ONE_IN) == GIVES_UP_ONE_IN - 1:
                self.give_up()
            return
        if self._coordinator(TRANSACTION, self.transactional_id) is None:
            self._create_topics()
            return
        state = self.manager.state
        if state is State.UNINITIALIZED:
            self.initialize()
        elif state is State.FATAL_ERROR and not self.is_closing:
            self._waits = True
            self._later(RESTART_MS, self.restart)
        elif state is State.READY and not self.is_closing:
            if self.lane.pick(AGES_ONE_IN) == AGES_ONE_IN - 1:
                self.age(OLD_EPOCH)
                return
            self.begin_transaction()
            self._steps = 1 + self.lane.pick(STEPS)
        elif state is State.IN_TRANSACTION:
            self._step()
        elif state is State.ABORTABLE_ERROR:
            self.end(commit=False)
        elif state in (State.INITIALIZING, State.COMMITTING, State.ABORTING):
            self._go()

    def _create_topics(self) -> None:
        image = self.image()
        for name in (TRANSACTIONS_TOPIC, OFFSETS_TOPIC):
            if image is not None and name not in image.topics_by_name:
                self.world.workload.create_internal_topic(name, 1 + self.lane.pick(2))

    def _step(self) -> None:
        keys = self.partitions()
        self._steps -= 1
        if self._steps < 0 or self.is_closing or not keys:
            self._finish(commit=self.lane.pick(4) != 3)
            return
        key = keys[self.lane.pick(len(keys))]
        group_id = self.groups[self.lane.pick(len(self.groups))]
        if self.lane.pick(4) == 3 and self._coordinator(0, group_id) is not None:
            self.commit_offset(key, group_id)
        else:
            count = 1 + self.lane.pick(2)
            self.produce(key, count, self._keys.draw(count))

    def _finish(self, *, commit: bool) -> None:
        """End the transaction, perhaps after its coordinator has: who is slow learns of it then."""
        ponders = self._is_slow and commit and not self.is_closing
        if ponders and self._slowness.pick(PONDERS_ONE_IN) == PONDERS_ONE_IN - 1:
            self._waits = True
            self.world.trace.note(f"{self.id} ponders")
            life = self._life
            self.world.schedule_in(
                1_000 * PONDERS_MS,
                "client",
                lambda: self.end(commit=True) if self._life is life else None,
            )
        else:
            self.end(commit=commit)

    def age(self, epoch: int) -> None:
        """Have it be as after so many transactions, and start again."""
        id_ = self.transactional_id
        broker_id = self._coordinator(TRANSACTION, id_)
        if broker_id is not None and (broker := self.world.brokers[broker_id]).is_up:
            self.world.guard(lambda: broker.transactions.age(id_, epoch), broker)
        self.restart()
