"""The one effect driver: it carries out what machines decide, over ports that a shell provides.

Theory of operation
-------------------
The broker gives it ports made of asyncio, files and sockets; a simulator gives it ports made of a
queue and a seed. The driver knows neither. It keeps, per machine, the messages that wait for
durability, and nothing else.

Order: effects of one step are carried out in order, and a step that is fed while another is being
carried out (a reply handler that produces a new input) waits for its turn in a queue, so a machine
is never re-entered and sees inputs in the order in which they came to be.

A disk port that raises `OSError` turns into the input `DiskFailed` for that machine; what was still
to be carried out of the failed step is dropped, because it was decided on the assumption that the
disk works, and named in that input, so that the machine can answer those requests with an error.
Any other error that comes out of a step is a mistake of ours: the machine is broken and takes no
further input, `Ports.failed` reports it to the shell, and `feed` raises it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from typing import Any, Protocol

from fencepost.machines.effects import (
    Append,
    DiskFailed,
    DropPrefix,
    Effect,
    Fail,
    InstallSnapshot,
    Machine,
    Persist,
    Persisted,
    RepairBatch,
    Reply,
    Send,
    SendAfterPersist,
    SetTimer,
    StoreSnapshot,
    Tell,
    TimerFired,
    Truncate,
    TruncatedBelow,
    WriteState,
)

Key = Hashable


class Ports(Protocol):
    """What a shell must be able to do for machines. `key` names the machine."""

    def now_ms(self) -> int:
        """Milliseconds of a monotonic clock of any origin: what timers are measured with."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch: what timestamps are stamped with."""
        ...

    def append(self, key: Key, work: Append, wall_ms: int) -> int:
        """Append to the machine's log (page cache is enough); the new end offset. OSError.

        `wall_ms` is the time that the step which decided it was given: answers carry it
        (LogAppendTime).
        """
        ...

    def request_flush(self, key: Key) -> None:
        """Make all appended so far durable soon, then call `Driver.persisted`; may coalesce."""
        ...

    def truncate(self, key: Key, work: Truncate) -> int:
        """Cut the machine's log, durably; where it ends now. OSError.

        That is lower than `work` says where the offset lies in a batch, which goes as a whole.
        """
        ...

    def write_state(self, key: Key, state: Any) -> None:
        """Replace the machine's durable state, fsynced. OSError."""
        ...

    def store_snapshot(self, key: Key, work: StoreSnapshot) -> None:
        """Write a piece of the partial snapshot; durable only when it is installed. OSError."""
        ...

    def install_snapshot(self, key: Key, work: InstallSnapshot) -> None:
        """Check the partial snapshot, put it in place of the log, then feed the machine
        `SnapshotInstalled` or `SnapshotRefused`: at once, or when a thread is done. OSError."""
        ...

    def drop_prefix(self, key: Key, work: DropPrefix) -> None:
        """Let the log start at the offset. OSError."""
        ...

    def repair_batch(self, key: Key, work: RepairBatch) -> None:
        """Put a good copy of a batch in the place of a damaged one, durably. OSError."""
        ...

    def send(self, key: Key, to: Any, message: Any) -> None:
        """Send to another node; losing it is allowed, delivering it twice too."""
        ...

    def reply(self, token: Any, value: Any) -> None:
        """Answer the request behind `token`."""
        ...

    def tell(self, machine: Any, input_: Any) -> None:
        """Give `input_` to the machine that the shell named `machine`, by `Driver.feed`."""
        ...

    def set_timer(self, key: Key, name: str, deadline_ms: int | None) -> None:
        """Arm or disarm; at the deadline the shell calls `Driver.timer_fired`."""
        ...

    def stepped(self, key: Key, machine: Machine) -> None:
        """Called after each step, once its effects are carried out: the place to look at what
        moved (a high watermark, a role)."""
        ...

    def failed(self, key: Key, reason: str) -> None:
        """The machine gave up, or broke down."""
        ...


class _Hosted:
    """A machine and the messages it holds back until its log is durable up to an offset."""

    __slots__ = ("disk_has_failed", "end_offset", "held", "is_broken", "machine", "truncated_below")

    def __init__(self, machine: Machine) -> None:
        self.disk_has_failed = False
        self.is_broken = False
        self.machine = machine
        self.end_offset = -1
        self.truncated_below: TruncatedBelow | None = None
        self.held: deque[tuple[int, SendAfterPersist]] = deque()


class Driver:
    """Steps machines and carries out their effects over `ports`."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._hosted: dict[Key, _Hosted] = {}
        self._queue: deque[tuple[Key, Any]] = deque()
        self._running = False
        self._wall_ms = 0  # of the step that is being carried out

    def add(self, key: Key, machine: Machine) -> None:
        """Host `machine` under `key`, which must be free."""
        assert key not in self._hosted, f"machine {key!r} is already hosted"
        self._hosted[key] = _Hosted(machine)

    def remove(self, key: Key) -> None:
        """Forget the machine; inputs that still arrive for it are dropped."""
        self._hosted.pop(key, None)

    def machine(self, key: Key) -> Machine | None:
        """The machine under `key`, if it is hosted."""
        hosted = self._hosted.get(key)
        return hosted.machine if hosted is not None else None

    def feed(self, key: Key, input_: Any) -> None:
        """Step the machine with `input_`; at once, or after the step that is being carried out.

        Raises the first unexpected error of a step, once all inputs that wait have had their turn.
        """
        self._queue.append((key, input_))
        if self._running:
            return
        self._running = True
        unforeseen: Exception | None = None
        try:
            while self._queue:
                try:
                    self._step(*self._queue.popleft())
                except Exception as error:  # noqa: BLE001 - raised below
                    unforeseen = unforeseen or error
        finally:
            self._running = False
        if unforeseen is not None:
            raise unforeseen

    def drain(self, key: Key) -> None:
        """Step the machine now with all that waits for it, although others were first.

        Called before the machine is removed: inputs that were fed before must not be lost. Not to
        be called from within a step of its own.
        """
        while waiting := [entry for entry in self._queue if entry[0] == key]:
            self._queue = deque(entry for entry in self._queue if entry[0] != key)
            for _, input_ in waiting:
                self._step(key, input_)

    def persisted(self, key: Key, end_offset: int) -> None:
        """The shell's flush is done: release what waited for it, then feed the machine."""
        hosted = self._hosted.get(key)
        if hosted is None:
            return
        while hosted.held and hosted.held[0][0] <= end_offset:
            _, effect = hosted.held.popleft()
            self._ports.send(key, effect.to, effect.message)
        self.feed(key, Persisted(end_offset))

    def disk_failed(self, key: Key, reason: str) -> None:
        """The shell's flush failed: nothing that waited for it may leave."""
        hosted = self._hosted.get(key)
        if hosted is not None:
            hosted.held.clear()
            self.feed(key, DiskFailed(reason))

    def disk_has_failed(self, key: Key) -> bool:
        """Whether the machine got `DiskFailed`, and is offline for that."""
        hosted = self._hosted.get(key)
        return hosted is not None and hosted.disk_has_failed

    def is_broken(self, key: Key) -> bool:
        """Whether a step of the machine has ended in an unexpected error."""
        hosted = self._hosted.get(key)
        return hosted is not None and hosted.is_broken

    def timer_fired(self, key: Key, name: str) -> None:
        """A timer reached its deadline."""
        self.feed(key, TimerFired(name))

    def _step(self, key: Key, input_: Any) -> None:
        hosted = self._hosted.get(key)
        if hosted is None:
            return
        if type(input_) is DiskFailed:
            hosted.disk_has_failed = True
        elif hosted.is_broken:
            return
        left: Iterator[Effect] = iter(())
        try:
            self._wall_ms = self._ports.wall_ms()
            while input_ is not None:
                left = iter(hosted.machine.step(input_, self._ports.now_ms(), self._wall_ms))
                for effect in left:
                    self._carry_out(key, hosted, effect)
                input_, hosted.truncated_below = hosted.truncated_below, None
        except OSError as error:
            hosted.held.clear()
            hosted.truncated_below = None
            self._queue.appendleft((key, DiskFailed(str(error), tuple(left))))
            return
        except Exception as error:
            self._break(key, hosted, error)
            raise
        self._ports.stepped(key, hosted.machine)

    def _break(self, key: Key, hosted: _Hosted, error: Exception) -> None:
        """A step ended in an unexpected error.

        What the machine takes for done and what is done may differ from now on, so it goes no
        further: its shell is called (`Ports.failed`), and of later inputs it gets `DiskFailed`
        alone.
        """
        hosted.held.clear()
        if hosted.is_broken:
            return
        hosted.is_broken = True
        try:
            self._ports.failed(key, f"{type(error).__name__}: {error}")
        except Exception as another:  # noqa: BLE001 - it must not hide the first
            error.add_note(f"and its shell failed, too: {another!r}")

    def _carry_out(self, key: Key, hosted: _Hosted, effect: Effect) -> None:
        kind = type(effect)
        if kind is Reply:
            self._ports.reply(effect.token, effect.value)  # type: ignore[union-attr]
        elif kind is Persist:
            self._persist(key, hosted, effect)  # type: ignore[arg-type]
        elif kind is SetTimer:
            self._ports.set_timer(key, effect.name, effect.deadline_ms)  # type: ignore[union-attr]
        elif kind is Send:
            self._ports.send(key, effect.to, effect.message)  # type: ignore[union-attr]
        elif kind is Tell:
            self._ports.tell(effect.machine, effect.input_)  # type: ignore[union-attr]
        elif kind is SendAfterPersist:
            self._send_after_persist(key, hosted, effect)  # type: ignore[arg-type]
        elif kind is Fail:
            hosted.held.clear()  # it says nothing more
            self._ports.failed(key, effect.reason)  # type: ignore[union-attr]
        else:
            raise AssertionError(f"unknown effect {effect!r}")

    def _persist(self, key: Key, hosted: _Hosted, effect: Persist) -> None:
        work = effect.work
        if isinstance(work, Append):
            hosted.end_offset = self._ports.append(key, work, self._wall_ms)
            self._ports.request_flush(key)
        elif isinstance(work, Truncate):
            hosted.held.clear()
            hosted.end_offset = end_offset = self._ports.truncate(key, work)
            if end_offset < work.end_offset:
                hosted.truncated_below = TruncatedBelow(end_offset)
        elif isinstance(work, WriteState):
            self._ports.write_state(key, work.state)
        elif isinstance(work, StoreSnapshot):
            self._ports.store_snapshot(key, work)
        elif isinstance(work, InstallSnapshot):
            # What waits for the log that is replaced will never be durable.
            hosted.held.clear()
            self._ports.install_snapshot(key, work)
        elif isinstance(work, RepairBatch):
            self._ports.repair_batch(key, work)
        else:
            self._ports.drop_prefix(key, work)

    def _send_after_persist(self, key: Key, hosted: _Hosted, effect: SendAfterPersist) -> None:
        if hosted.end_offset < 0:
            self._ports.send(key, effect.to, effect.message)
        else:
            hosted.held.append((hosted.end_offset, effect))
            self._ports.request_flush(key)
