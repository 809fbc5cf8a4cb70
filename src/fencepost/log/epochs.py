"""The leader-epoch cache: which leader's word counts from which offset on.

Theory of operation
-------------------
A log is a sequence of stretches, each written under one leader epoch. The cache keeps the
fenceposts: (epoch, start offset) pairs, strictly increasing in both. From them follows the answer
to the one question by which diverged replicas find where they part (KIP-101, KIP-279): "where does
the stretch of epoch e end in your log?" What leader and follower make of it is in `divergence`.

A leader assigns (its epoch, its end offset) when it becomes leader, before it appends anything,
also to an empty log. A follower assigns from the batches it appends. An epoch in which nothing was
written leaves no trace once the next one begins at the same offset. Deleting the records in front
of an offset leaves the epoch that covers it, beginning there, also where that is the log's end: a
log that was emptied still knows the epoch of its last record.

The file, `leader-epoch-checkpoint`, is a checkpoint file of `epoch startOffset` lines. It is
written with the flush that makes the epoch's records durable, not with every assignment: an epoch
whose records were all lost is not needed. What the file lacks after a crash is found again in the
log, whose batches carry their epochs; what it has too much is cut off at the log's end. `version`
counts changes, so that a flush knows whether it must write the file.

A log may have seen a million epochs: two arrays hold them, 12 bytes an epoch, look-ups bisect them,
a cut takes off one end, and the file is read and written with a few calls for all lines.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from operator import lt
from typing import Final, NamedTuple, Self

from fencepost.log.checkpoints import decode_lines, encode_lines, parse_number
from fencepost.log.errors import CorruptFileError

UNDEFINED_EPOCH: Final = -1
UNDEFINED_OFFSET: Final = -1
_EPOCH_MAX: Final = (1 << 31) - 1
_WITHOUT_ENTRIES: Final = encode_lines(())
# Numbers that are in range for certain. Possessive, or a million lines would each leave a way back.
_PLAIN_LINES: Final = rb"0\n([0-9]{1,9})\n((?:[0-9]{1,9} [0-9]{1,18}\n)*+)"


class EpochEntry(NamedTuple):
    """From `start_offset` on, records were written under `epoch`."""

    epoch: int
    start_offset: int


class EpochEndOffset(NamedTuple):
    """Where an epoch ends in a log; (-1, -1) where that cannot be said."""

    epoch: int
    end_offset: int


UNDEFINED_END: Final = EpochEndOffset(UNDEFINED_EPOCH, UNDEFINED_OFFSET)


class LeaderEpochCache:
    """The fenceposts of one log; look-ups are bisections."""

    __slots__ = ("_epochs", "_starts", "version")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._epochs = array("i")
        self._starts = array("q")
        self.version = 0
        for epoch, start in entries:
            self.assign(epoch, start)

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        """The cache that a leader-epoch checkpoint tells of.

        CorruptFileError unless its entries strictly increase in both fields.
        """
        cache = cls()
        plain = re.fullmatch(_PLAIN_LINES, data)
        if plain is not None:
            numbers = list(map(int, plain[2].split()))
            epochs, starts = numbers[0::2], numbers[1::2]
            if (
                len(epochs) == int(plain[1])
                and all(map(lt, epochs, epochs[1:]))
                and all(map(lt, starts, starts[1:]))
            ):
                cache._epochs.extend(epochs)
                cache._starts.extend(starts)
                return cache
        for epoch, start in _decode_one_by_one(path, data):
            cache._epochs.append(epoch)
            cache._starts.append(start)
        return cache

    def copy(self) -> LeaderEpochCache:
        """Another cache of the same entries."""
        other = LeaderEpochCache()
        other._epochs, other._starts = self._epochs[:], self._starts[:]
        return other

    def __len__(self) -> int:
        return len(self._epochs)

    def __iter__(self) -> Iterator[EpochEntry]:
        return map(EpochEntry, self._epochs, self._starts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LeaderEpochCache):
            return NotImplemented
        return self._epochs == other._epochs and self._starts == other._starts

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"LeaderEpochCache({[tuple(entry) for entry in self]})"

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that `epoch` begins at `start_offset`; whether that changed anything.

        Nothing changes if the latest entry has this epoch and begins there or earlier. Otherwise
        entries of the same or a later epoch, or that begin there or later, are removed.
        """
        assert epoch >= 0 and start_offset >= 0, f"assign({epoch}, {start_offset})"
        epochs, starts = self._epochs, self._starts
        if epochs and epochs[-1] == epoch and starts[-1] <= start_offset:
            return False
        while epochs and (epochs[-1] >= epoch or starts[-1] >= start_offset):
            epochs.pop()
            starts.pop()
        epochs.append(epoch)
        starts.append(start_offset)
        self.version += 1
        return True

    def newest(self, most: int) -> list[EpochEntry]:
        """The last entries, up to `most`, in order."""
        return list(map(EpochEntry, self._epochs[-most:], self._starts[-most:]))

    def latest_epoch(self) -> int | None:
        """The last entry's epoch; None if there is no entry."""
        return self._epochs[-1] if self._epochs else None

    def latest(self) -> EpochEntry | None:
        """The last entry."""
        return EpochEntry(self._epochs[-1], self._starts[-1]) if self._epochs else None

    def earliest(self) -> EpochEntry | None:
        """The first entry."""
        return EpochEntry(self._epochs[0], self._starts[0]) if self._epochs else None

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEndOffset:
        """Where the stretch of `epoch` ends: (largest known epoch <= `epoch`, its end offset).

        | `epoch`                       | answer                                        |
        |-------------------------------|-----------------------------------------------|
        | -1                            | (-1, -1)                                      |
        | the latest                    | (epoch, log end offset)                       |
        | later than the latest         | (-1, -1)                                      |
        | earlier than the first        | (epoch, start of the first)                   |
        | anything else                 | (largest epoch <= it, start of the next)      |
        """
        epochs = self._epochs
        if epoch == UNDEFINED_EPOCH or not epochs or epoch > epochs[-1]:
            return UNDEFINED_END
        if epoch == epochs[-1]:
            return EpochEndOffset(epoch, log_end_offset)
        above = bisect_right(epochs, epoch)
        return EpochEndOffset(epochs[above - 1] if above else epoch, self._starts[above])

    def epoch_at(self, offset: int) -> int | None:
        """The epoch under which the record at `offset` was (or would be) written, if known."""
        index = bisect_right(self._starts, offset)
        return self._epochs[index - 1] if index else None

    def entry_for(self, epoch: int) -> EpochEntry | None:
        """The entry of exactly this epoch."""
        index = bisect_left(self._epochs, epoch)
        if index == len(self._epochs) or self._epochs[index] != epoch:
            return None
        return EpochEntry(epoch, self._starts[index])

    def previous_epoch(self, epoch: int) -> int | None:
        """The largest known epoch below `epoch`."""
        index = bisect_left(self._epochs, epoch)
        return self._epochs[index - 1] if index else None

    def truncate_from_end(self, end_offset: int) -> bool:
        """Forget entries that begin at or after `end_offset`; whether there were any."""
        index = bisect_left(self._starts, end_offset)
        if index == len(self._starts):
            return False
        del self._epochs[index:]
        del self._starts[index:]
        self.version += 1
        return True

    def truncate_from_start(self, start_offset: int) -> bool:
        """Forget what lies below `start_offset`; the entry that covers it now begins there."""
        covering = bisect_right(self._starts, start_offset) - 1
        if covering < 0 or (covering == 0 and self._starts[0] == start_offset):
            return False
        del self._epochs[:covering]
        del self._starts[:covering]
        self._starts[0] = start_offset
        self.version += 1
        return True

    def clear(self) -> None:
        """Forget everything."""
        if self._epochs:
            del self._epochs[:], self._starts[:]
            self.version += 1

    def replace(self, entries: Iterable[tuple[int, int]]) -> None:
        """Take over other entries, in order."""
        self.clear()
        for epoch, start in entries:
            self.assign(epoch, start)

    def count_in_file(self, end_offset: int) -> int:
        """How many entries the checkpoint file has of a log that ends at `end_offset`.

        Not one that begins at the end: it has no records, and opening the log would drop it. But if
        it is the only one, it may be that of the last records that were deleted, and is kept.
        """
        count = bisect_left(self._starts, end_offset)
        return count or min(len(self._starts), end_offset, 1)

    def encode(self, end_offset: int | None = None) -> bytes:
        """The content of the checkpoint file; see `count_in_file`."""
        count = len(self._starts) if end_offset is None else self.count_in_file(end_offset)
        if not count:
            return _WITHOUT_ENTRIES
        entries = zip(self._epochs[:count], self._starts[:count], strict=True)
        return encode_lines(map("%d %d".__mod__, entries))


def decode_epochs(path: str, data: bytes) -> list[EpochEntry]:
    """The entries of a leader-epoch checkpoint. CorruptFileError unless they strictly increase."""
    return list(LeaderEpochCache.decode(path, data))


def _decode_one_by_one(path: str, data: bytes) -> list[EpochEntry]:
    """The same, for files that are not as plain as ours, or not right: it finds out why."""
    entries: list[EpochEntry] = []
    for fields in decode_lines(path, data):
        if len(fields) != 2:
            raise CorruptFileError(path, f"has a line of {len(fields)} fields, not 2")
        entry = EpochEntry(parse_number(path, fields[0]), parse_number(path, fields[1]))
        if entry.epoch > _EPOCH_MAX:
            raise CorruptFileError(path, f"has epoch {entry.epoch}, more than 31 bits")
        if entries and not (
            entry.epoch > entries[-1].epoch and entry.start_offset > entries[-1].start_offset
        ):
            raise CorruptFileError(path, f"has {tuple(entry)} behind {tuple(entries[-1])}")
        entries.append(entry)
    return entries
