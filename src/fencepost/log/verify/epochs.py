"""Leader epochs: batches' own, which never fall, and what `leader-epoch-checkpoint` says of them.

The file may have epochs without a batch (a leader that was elected and wrote nothing), and after an
unclean end may lack the newest. It says nothing of the records in front of the log's start, which
are deleted, although their batches may still be there; where the start is not known for certain, it
may be where the first epoch begins.
"""

from __future__ import annotations

from collections.abc import Iterator

from fencepost.batch.header import NO_LEADER_EPOCH, BatchHeader
from fencepost.log.epochs import EpochEntry, LeaderEpochCache, decode_epochs
from fencepost.log.errors import CorruptFileError
from fencepost.log.verify.facts import PartitionFacts
from fencepost.log.verify.files import Files
from fencepost.log.verify.problems import Problem, Severity, unreadable


class EpochCheck:
    """Sees the batches of a partition. `path` is the checkpoint file's."""

    def __init__(self, files: Files, path: str, facts: PartitionFacts) -> None:
        self._path = path
        self._facts = facts
        self._latest = -1
        self._told: set[int] = set()
        self._problem: Problem | None = None
        self._entries: list[EpochEntry] | None = None
        try:
            if data := files.read(path):  # Kafka makes the file before it has anything to write
                self._entries = decode_epochs(path, data)
        except FileNotFoundError:
            pass
        except CorruptFileError as error:
            self._problem = Problem(path, None, Severity.WARNING, "epochs", error.reason)
        except OSError as error:
            self._problem = unreadable(path, "epochs", error)
        self._known = LeaderEpochCache(self._entries or ())
        self._start = facts.start_offset or 0
        earliest = self._known.earliest()
        if earliest is not None and not (facts.is_clean and facts.is_recorded):
            self._start = max(self._start, earliest.start_offset)

    def begin(self) -> Iterator[Problem]:
        """What the file shows by itself."""
        if self._problem is not None:
            yield self._problem

    def batch(self, log_path: str, position: int, header: BatchHeader) -> Iterator[Problem]:
        """A batch, in order."""
        epoch = header.partition_leader_epoch
        known = self._known.epoch_at(header.base_offset)
        if epoch == NO_LEADER_EPOCH and self._latest < 0 and known is None:
            return  # of before there were epochs
        if epoch < max(self._latest, 0):
            offsets = header.base_offset, header.next_offset
            yield falling_epoch(log_path, position, epoch, max(self._latest, known or 0), *offsets)
            return
        self._latest = epoch
        if self._entries is None or epoch in self._told or self._may_be_missing(header):
            return
        if self._is_known(header):
            return
        self._told.add(epoch)
        entry = self._known.entry_for(epoch)
        says = "is not there" if entry is None else f"begins at {entry.start_offset}"
        first, last = header.base_offset, header.last_offset
        reason = f"epoch {epoch} {says}, but has a batch of offsets {first}-{last}"
        yield Problem(self._path, None, Severity.WARNING, "epochs", reason, first, last + 1)

    def _is_known(self, header: BatchHeader) -> bool:
        epoch = header.partition_leader_epoch
        first = self._known.epoch_at(max(header.base_offset, self._start))
        if header.last_offset < self._start:
            return first is None or epoch <= first
        return first == epoch == self._known.epoch_at(header.last_offset)

    def _may_be_missing(self, header: BatchHeader) -> bool:
        latest = self._known.latest_epoch()
        is_newer = latest is None or header.partition_leader_epoch > latest
        return is_newer and not self._facts.is_settled(header.next_offset)

    def check_presence(self, end_offset: int) -> Iterator[Problem]:
        """Batches up to there have been seen: the file is to be there if they have epochs."""
        is_needed = self._latest >= 0 and self._facts.is_settled(end_offset)
        if self._entries is None and self._problem is None and is_needed:
            reason = "is not there, and batches have epochs"
            yield Problem(self._path, None, Severity.WARNING, "epochs", reason)

    def end(self, end_offset: int) -> Iterator[Problem]:
        """The log ends here."""
        yield from self.check_presence(end_offset)
        for entry in self._entries or ():
            if entry.start_offset > end_offset and self._facts.is_clean:
                reason = f"epoch {entry.epoch} begins at {entry.start_offset}, behind the end"
                yield Problem(self._path, None, Severity.WARNING, "epochs", reason)


def falling_epoch(
    path: str, position: int | None, epoch: int, latest: int, start_offset: int, end_offset: int
) -> Problem:
    """The problem of batches of an epoch behind one of a later epoch."""
    reason = f"epoch {epoch} behind epoch {latest}"
    return Problem(path, position, Severity.ERROR, "epochs", reason, start_offset, end_offset)
