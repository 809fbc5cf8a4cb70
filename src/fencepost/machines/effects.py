"""What a machine may ask of the world: a closed set of effects, and the inputs every machine knows.

Theory of operation
-------------------
A machine is stepped with an input and answers with effects, in the order in which they must be
carried out. It never waits, reads a clock, opens a file or sends a byte; the driver (`driver.py`)
does that, the same one in the broker and under simulation.

What must wait for the disk is a different type from what may go at once:

* `Persist` names the work for the disk. `Append` goes to the page cache at once and becomes
  durable later; the machine hears of it as `Persisted(end_offset)`. `Truncate` and `WriteState` are
  durable before the next effect of the same step is carried out. `StoreSnapshot` writes to a
  partial file that is not read and need not be durable; `InstallSnapshot` is carried out whole or
  not at all, perhaps later, and the machine gets the result as an input. `DropPrefix` moves the
  start of the log at once; the files below it may go at leisure.
* `Send` leaves at once. `SendAfterPersist` is held until everything this machine appended before
  it is durable.
* `Reply` answers a waiting request at once. A machine whose answer depends on durability keeps the
  token and emits the `Reply` when `Persisted` tells it so.
* `Tell` gives an input to another machine of the same node.
* `SetTimer` arms (or, with None, disarms) the machine's timer of that name.
* `Fail` says that the machine cannot go on (its disk refused, an invariant is broken).

Tokens and destinations are opaque to machines: the shell chooses them when it makes an input, and
gets them back in the effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

from msgspec import Struct

from fencepost.batch.record_batch import RecordBatch
from fencepost.log.snapshots import SnapshotId

Buffer = bytes | bytearray | memoryview

CONTROLLER: Final = "controller"
"""Destination of messages to the active controller, whichever node that is."""


class Append(Struct, frozen=True):
    """Batches for the end of the machine's log, with their headers as they were read once.

    Their data must be writable where the leader is to stamp base offset and epoch in place.
    `as_leader` False means the offsets inside are already final.
    """

    batches: Sequence[RecordBatch]
    leader_epoch: int
    as_leader: bool = True


class Truncate(Struct, frozen=True):
    """Cut the log so that it ends at `end_offset`; `start_over` empties it and starts there."""

    end_offset: int
    start_over: bool = False


class WriteState(Struct, frozen=True):
    """Replace the machine's small durable state (`quorum-state`), fsynced before anything else."""

    state: Any


class StoreSnapshot(Struct, frozen=True):
    """Write `data` at `position_bytes` of the partial file of a snapshot that is being fetched.

    Position 0 starts again, throwing away what there was of this or another snapshot; any other is
    the size that the partial file has. `size_bytes` is what the leader says it has in all. Where
    that cannot be, the machine gets `SnapshotRefused`.
    """

    snapshot_id: SnapshotId
    position_bytes: int
    data: Buffer
    size_bytes: int


class InstallSnapshot(Struct, frozen=True):
    """Put the partial file in place of the log, if it is a whole and sound snapshot.

    It is checked (header, footer, every CRC), synced, renamed, its directory is synced; then the
    log is emptied and starts at the snapshot's end. The machine gets `SnapshotInstalled` or
    `SnapshotRefused` (`machines.quorum.inputs`); until then it leaves the log alone. With
    `keeps_log` the log has all of it and more, and stays as it is.
    """

    snapshot_id: SnapshotId
    keeps_log: bool = False


class DropPrefix(Struct, frozen=True):
    """The log starts at `start_offset` from now on: where a snapshot ends, or what is to be kept.

    Segments that lie wholly below it may be deleted, and so may snapshots that end below it.
    """

    start_offset: int


class RepairBatch(Struct, frozen=True):
    """Write a good copy of the damaged batch at `offset` in its place, durably.

    If that cannot be, reading the log will say so again (`LogDamaged`).
    """

    offset: int
    batch: Buffer


class Persist(Struct, frozen=True):
    """Work for the disk; see the module docstring for when each kind counts as durable."""

    work: (
        Append | Truncate | WriteState | StoreSnapshot | InstallSnapshot | DropPrefix | RepairBatch
    )


class Send(Struct, frozen=True):
    """A message to another node, which may leave at once."""

    to: Any
    message: Any


class SendAfterPersist(Struct, frozen=True):
    """A message that must not leave before this machine's earlier appends are durable."""

    to: Any
    message: Any


class Reply(Struct, frozen=True):
    """The answer to the request that came with `token`."""

    token: Any
    value: Any


class Tell(Struct, frozen=True):
    """An input for another machine of this node, which the shell knows as `machine`."""

    machine: Any
    input_: Any


class SetTimer(Struct, frozen=True):
    """Arm the timer `name` for `deadline_ms` of the monotonic clock, or disarm it with None."""

    name: str
    deadline_ms: int | None


class Fail(Struct, frozen=True):
    """The machine cannot go on; the shell takes its log offline and says why."""

    reason: str


Effect = Persist | Send | SendAfterPersist | Reply | Tell | SetTimer | Fail


class Persisted(Struct, frozen=True):
    """Input: everything below `end_offset` of the machine's log is on stable storage."""

    end_offset: int


class TruncatedBelow(Struct, frozen=True):
    """Input: a `Truncate` has ended the log at `end_offset`, below the offset that it named.

    That offset lay in a batch, which goes as a whole. The machine hears of it before anything else.
    """

    end_offset: int


class TimerFired(Struct, frozen=True):
    """Input: the timer `name` has reached its deadline."""

    name: str


class DiskFailed(Struct, frozen=True):
    """Input: an append, flush or state write failed; nothing of it may be acknowledged.

    `dropped` is what was still to be carried out of the step that failed, and is not.
    """

    reason: str
    dropped: tuple[Effect, ...] = ()


class Machine(Protocol):
    """Anything the driver can step."""

    def step(self, input_: Any, now_ms: int, wall_ms: int) -> list[Effect]:
        """Take one input at `now_ms` and say what is to be done about it, in order.

        `now_ms` is a monotonic clock of any origin: deadlines, sessions and how long ago something
        was are reckoned with it. `wall_ms` is milliseconds since the Unix epoch, and may be set to
        anything at any time: it is for timestamps and the age of what has one, nothing else.
        """
        ...
