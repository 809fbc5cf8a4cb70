"""The share partitions of a node: of partitions that it leads, as the share groups read them.

Theory of operation
-------------------
A share partition is made when the first member of its group fetches from it. Its state is read from
the share coordinator under the partition's leader epoch, and then its machine (`machines.share`)
decides. Until then, and while there is nothing to acquire, fetches wait (`FetchWaiter`).

It goes when the partition's leader epoch changes or the partition is gone, when the share
coordinator says that another leader or another state has taken over, when its state cannot be read,
and when the last session of its group here has ended and nothing is being written: so the number of
share partitions is bounded by what sessions name (`machines.share.sessions`), and the memory of one
by the group's limit of record locks.

Inputs are taken in their order, each when the effects of the one before are carried out. One that
concerns thousands of records with a state of their own is taken in pieces; meanwhile there is
nothing to acquire. Nothing here waits for a disk: writes go through the `SharePersister`, dead
letters through `DeadLetterQueue`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from typing import Any, Protocol

from fencepost.log.error_codes import LOG_ERRORS
from fencepost.machines.effects import Reply, SetTimer, TimerFired
from fencepost.machines.group.settings import ShareSettings
from fencepost.machines.share.inputs import (
    LOCKS_TIMER,
    Acknowledge,
    AcknowledgedBatch,
    AcknowledgeResult,
    Acquire,
    Acquired,
    DeadLettersDone,
    Fenced,
    LetterRange,
    LogStartMoved,
    MayAcquire,
    Release,
    SendDeadLetters,
    ShareEffect,
    ShareInput,
    ShareLimits,
    StateWritten,
    WriteShareState,
)
from fencepost.machines.share.part import error_for_consumer
from fencepost.machines.share.partition import InvalidStateError, SharePartition
from fencepost.machines.share.state_batch import (
    NO_START_OFFSET,
    STATE_BATCHES_MAX,
    ReadState,
    SharePartitionKey,
)
from fencepost.runtime.clock import Clocks
from fencepost.runtime.cooperative import InOrder, Lane, Pieces
from fencepost.runtime.log_errors import answer_log_error
from fencepost.runtime.ports import ArmedTimer, TimerQueue
from fencepost.runtime.replicas import HostedPartition, ReplicaManager
from fencepost.runtime.requests.parts import LogReads
from fencepost.runtime.share_offsets import first_offset_for
from fencepost.runtime.share_persister import SharePersister
from fencepost.wire.errors import ErrorCode

log = logging.getLogger(__name__)


class DeadLetterQueue(Protocol):
    """Writes records that are given up to the group's dead letter topic (KIP-1191)."""

    def is_active(self, settings: ShareSettings) -> bool:
        """Whether the group has a dead letter topic, and the cluster the feature."""
        ...

    def send(
        self,
        key: SharePartitionKey,
        hosted: HostedPartition,
        letters: LetterRange,
        settings: ShareSettings,
        done: Callable[[], None],
    ) -> None:
        """Write letters for the records; `done` is called when they are, or cannot be."""
        ...


class FetchWaiter(Protocol):
    """A fetch that waits for records of share partitions."""

    def wake(self, share: HostedSharePartition) -> None:
        """There may be something to acquire of the share partition."""
        ...

    def fail(self, share: HostedSharePartition, error: ErrorCode) -> None:
        """The share partition is gone, for that reason."""
        ...


class HostedSharePartition:
    """One share partition. Its machine is there once its state has been read."""

    def __init__(
        self,
        node: SharePartitions,
        key: SharePartitionKey,
        hosted: HostedPartition,
    ) -> None:
        self._node = node
        self.key = key
        self.hosted = hosted
        self.leader_epoch = hosted.machine.leader_epoch
        self.machine: SharePartition | None = None
        self.waiters: dict[FetchWaiter, None] = {}
        self.is_gone = False
        self.error = ErrorCode.NONE
        """Why it is gone."""
        self.is_idle = False
        """Whether no member of its group has a session here."""
        self._state_epoch = 0
        self._letters_under_way = 0
        self._effects: deque[ShareEffect] = deque()
        self._is_carrying_out = False
        self._inputs = InOrder(node.lane, at_once=1)
        self._is_stepping = False
        """Whether the machine is in the middle of an input."""
        self._timer: ArmedTimer | None = None

    def __str__(self) -> str:
        return f"{self.key.group_id}:{self.hosted.key}"

    @property
    def settings(self) -> ShareSettings:
        """The group's settings, as they are now."""
        return self._node.settings_of(self.key.group_id)

    @property
    def reads_committed(self) -> bool:
        """Whether the group reads nothing of open or aborted transactions."""
        return self.settings.isolation_level.lower() == "read_committed"

    @property
    def upper_bound(self) -> int:
        """Records below it may be delivered."""
        machine = self.hosted.machine
        return machine.last_stable_offset if self.reads_committed else machine.high_watermark

    @property
    def has_records(self) -> bool:
        """Whether there is something to acquire now."""
        machine = self.machine
        return (
            machine is not None
            and not self._is_stepping
            and machine.can_acquire
            and machine.next_fetch_offset < self.upper_bound
        )

    @property
    def may_go(self) -> bool:
        """Whether it is of no use to a session, and has nothing under way."""
        is_busy = self.machine is None or self.machine.is_writing or self._letters_under_way
        return self.is_idle and not is_busy and not self._is_stepping and not self.is_gone

    # -- beginning -------------------------------------------------------------------------

    def begin_read(self) -> None:
        """Have the state read."""
        self._node.persister.read(self.key, self.leader_epoch, self._have_read)

    def _have_read(self, state: ReadState) -> None:
        if self.is_gone:
            return
        if state.error:
            log.debug("%s: the state cannot be read: %s", self, state.error.name)
            self._node.drop(self, error_for_consumer(state.error))
            return
        self._node.lane.begin(self._restore(state))

    def _restore(self, state: ReadState) -> Generator[Future[Any] | None, None, None]:
        """Begin with what was read; where the group has no offset yet, its settings say where."""
        start_offset = state.start_offset
        if start_offset == NO_START_OFFSET:
            reset = self.settings.auto_offset_reset
            try:
                start_offset = yield from first_offset_for(
                    reset, self.hosted, self._node.reads, self._node.clocks.wall_ms()
                )
            except LOG_ERRORS as error:
                code = answer_log_error(self._node.replicas, self.hosted, "reading", error)
                self._node.drop(self, code)
                return
        if self.is_gone:
            return
        try:
            self.machine = SharePartition.restore(start_offset, state.batches, self._limits())
        except InvalidStateError as error:
            log.error("%s: the stored state is not valid: %s", self, error)
            self._node.drop(self, ErrorCode.UNKNOWN_SERVER_ERROR)
            return
        self._state_epoch = state.state_epoch
        self.carry_out(self.machine.begin())
        self.feed(LogStartMoved(self.hosted.machine.log_start_offset))

    def _limits(self) -> ShareLimits:
        settings = self.settings
        return ShareLimits(
            settings.record_lock_duration_ms,
            settings.delivery_count_limit,
            settings.partition_max_record_locks,
            settings.renew_acknowledge_enable,
            self._node.letters is not None and self._node.letters.is_active(settings),
        )

    # -- steps -----------------------------------------------------------------------------

    def feed(self, input_: ShareInput | TimerFired) -> None:
        """Step the machine, which is there, and carry out what it asks for; see the module."""
        self._inputs.add(self._take(input_))

    def _take(self, input_: ShareInput | TimerFired) -> Pieces[None]:
        machine = self.machine
        assert machine is not None, "its state has been read"
        machine.limits = self._limits()
        steps = machine.in_pieces(input_, self._node.clocks.now_ms())
        is_whole = True
        self._is_stepping = True
        try:
            while True:
                next(steps)
                is_whole = False
                yield None
        except StopIteration as end:
            effects: list[ShareEffect] = end.value
        finally:
            self._is_stepping = False
        self.carry_out(effects)
        if not is_whole and not self.is_gone:
            self.wake()  # fetches found nothing meanwhile

    def acquire(self, wanted: Acquire) -> tuple[tuple[int, int, int], ...]:
        """Acquire records that were read just now: (first, last, delivery count) of each range."""
        assert self.machine is not None, "its state has been read"
        if self._is_stepping:
            return ()
        self.machine.limits = self._limits()
        records: tuple[tuple[int, int, int], ...] = ()
        others: list[ShareEffect] = []
        for effect in self.machine.step(wanted, self._node.clocks.now_ms()):
            if isinstance(effect, Acquired):
                records = effect.records
            else:
                others.append(effect)
        self.carry_out(others)
        return records

    def carry_out(self, effects: Iterable[ShareEffect]) -> None:
        """See the module docstring."""
        self._effects.extend(effects)
        if self._is_carrying_out:
            return
        self._is_carrying_out = True
        try:
            while self._effects:
                self._do(self._effects.popleft())
        finally:
            self._is_carrying_out = False
        if self.may_go:
            self._node.drop(self, ErrorCode.NONE)

    def _do(self, effect: ShareEffect) -> None:
        if isinstance(effect, Reply):
            effect.token(effect.value)
        elif isinstance(effect, WriteShareState):
            self._write(effect)
        elif self.is_gone:
            return
        elif isinstance(effect, MayAcquire):
            self.wake()
        elif isinstance(effect, SetTimer):
            self._arm(effect.deadline_ms)
        elif isinstance(effect, SendDeadLetters):
            for letters in effect.letters:
                self._send_letters(letters)
        elif isinstance(effect, Fenced):
            self._node.drop(self, effect.error)

    def _write(self, effect: WriteShareState) -> None:
        def done(error: ErrorCode, message: str | None) -> None:
            if error:
                log.warning("%s: the state was not written: %s %s", self, error.name, message or "")
            self.feed(StateWritten(effect.ticket, error))

        if len(effect.batches) > STATE_BATCHES_MAX:
            done(ErrorCode.INVALID_REQUEST, "more batches than the share coordinator takes")
            return
        self._node.persister.write(
            self.key,
            state_epoch=self._state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=effect.start_offset,
            delivery_complete_count=effect.delivery_complete_count,
            batches=effect.batches,
            done=done,
        )

    def _send_letters(self, letters: LetterRange) -> None:
        self._letters_under_way += 1

        def done() -> None:
            self._letters_under_way -= 1
            self.feed(DeadLettersDone(letters))

        queue = self._node.letters
        if queue is None:
            done()
        else:
            queue.send(self.key, self.hosted, letters, self.settings, done)

    def _arm(self, deadline_ms: int | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if deadline_ms is not None:
            self._timer = self._node.timers.at(deadline_ms, self._locks_due)

    def _locks_due(self) -> None:
        self._timer = None
        if not self.is_gone:
            self.feed(TimerFired(LOCKS_TIMER))

    # -- waiting fetches -------------------------------------------------------------------

    def wake(self) -> None:
        """Let fetches look, in the order of their arrival, as long as there are records."""
        for waiter in list(self.waiters):
            if not self.has_records or self.is_gone:
                return
            waiter.wake(self)

    def end(self, error: ErrorCode) -> None:
        """It is dropped: fetches that wait are told, timers are stopped."""
        self.is_gone = True
        self.error = error
        self._arm(None)
        waiters, self.waiters = list(self.waiters), {}
        for waiter in waiters:
            waiter.fail(self, error)


class SharePartitions:
    """See the module docstring."""

    def __init__(
        self,
        timers: TimerQueue,
        clocks: Clocks,
        lane: Lane,
        replicas: ReplicaManager,
        reads: LogReads,
        persister: SharePersister,
        settings_of: Callable[[str], ShareSettings],
        letters: DeadLetterQueue | None,
    ) -> None:
        """`settings_of` says what is in force for a group. Without `letters` there are none."""
        self.timers = timers
        self.clocks = clocks
        self.lane = lane
        self.replicas = replicas
        self.reads = reads
        self.persister = persister
        self.settings_of = settings_of
        self.letters = letters
        self._all: dict[SharePartitionKey, HostedSharePartition] = {}
        self._by_partition: dict[str, dict[SharePartitionKey, HostedSharePartition]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def find(self, key: SharePartitionKey) -> HostedSharePartition | None:
        """The share partition, if there is one."""
        return self._all.get(key)

    def find_or_begin(
        self, key: SharePartitionKey, hosted: HostedPartition
    ) -> HostedSharePartition:
        """The share partition of a partition that this node leads; begun if there is none."""
        share = self._all.get(key)
        if share is not None and share.leader_epoch != hosted.machine.leader_epoch:
            self.drop(share, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            share = None
        if share is None:
            share = HostedSharePartition(self, key, hosted)
            self._all[key] = share
            self._by_partition.setdefault(hosted.key, {})[key] = share
            share.begin_read()
        share.is_idle = False
        return share

    def drop(self, share: HostedSharePartition, error: ErrorCode) -> None:
        """Forget the share partition; fetches that wait for it are answered the error."""
        if self._all.get(share.key) is not share:
            return
        del self._all[share.key]
        of_partition = self._by_partition[share.hosted.key]
        del of_partition[share.key]
        if not of_partition:
            del self._by_partition[share.hosted.key]
        share.end(error)

    def acknowledge(
        self,
        key: SharePartitionKey,
        member_id: str,
        batches: Iterable[AcknowledgedBatch],
        done: Callable[[AcknowledgeResult], None],
    ) -> None:
        """A member says what became of records; `done` is called with what came of that."""
        share = self._all.get(key)
        if share is None or share.machine is None:
            done(AcknowledgeResult(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            return
        share.feed(Acknowledge(member_id, list(batches), done))

    def release(
        self,
        key: SharePartitionKey,
        member_id: str,
        done: Callable[[AcknowledgeResult], None] | None = None,
    ) -> None:
        """The member's session has ended: it gives back what it holds."""
        share = self._all.get(key)
        if share is not None and share.machine is not None:
            share.feed(Release(member_id, done))
        elif done is not None:
            done(AcknowledgeResult(ErrorCode.NONE))

    def leave_group(self, group_id: str) -> None:
        """No member of the group has a session here any more."""
        for share in [one for key, one in self._all.items() if key.group_id == group_id]:
            share.is_idle = True
            if share.may_go or share.machine is None:
                self.drop(share, ErrorCode.NONE)

    # -- what replicas report ----------------------------------------------------------------

    def moved(self, hosted: HostedPartition, log_end_alone: bool) -> None:
        """A partition's offsets or role have changed."""
        if log_end_alone:
            return
        for share in list(self._by_partition.get(hosted.key, {}).values()):
            machine = hosted.machine
            refusal = machine.check_asker(-1, True)
            if refusal is None and machine.leader_epoch != share.leader_epoch:
                refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER
            if refusal is not None:
                self.drop(share, refusal)
            elif share.machine is not None:
                if machine.log_start_offset > share.machine.start_offset:
                    share.feed(LogStartMoved(machine.log_start_offset))
                share.wake()

    def gone(self, hosted: HostedPartition) -> None:
        """The partition is not here any more."""
        for share in list(self._by_partition.get(hosted.key, {}).values()):
            self.drop(share, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def close(self) -> None:
        """The node stops: nothing is delivered any more."""
        for share in list(self._all.values()):
            self.drop(share, ErrorCode.NOT_LEADER_OR_FOLLOWER)
