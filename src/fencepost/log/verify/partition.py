"""A partition's directory: its segments from the first batch to the last, and all beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import NamedTuple, TypeVar

from fencepost.log.dump.kinds import kind_of
from fencepost.log.errors import CorruptFileError
from fencepost.log.meta import decode_partition_metadata
from fencepost.log.names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LEADER_EPOCH_FILE,
    LOG_SUFFIX,
    PARTITION_METADATA_FILE,
    QUORUM_STATE_FILE,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TEMPORARY_SUFFIX,
    parse_offset_file,
    parse_partition_dir,
)
from fencepost.log.quorum_state import decode_quorum_state
from fencepost.log.verify.epochs import EpochCheck
from fencepost.log.verify.facts import PartitionFacts
from fencepost.log.verify.files import Files
from fencepost.log.verify.metadata_log import METADATA_DIR, check_snapshot, is_snapshot
from fencepost.log.verify.offsets import OffsetCheck
from fencepost.log.verify.problems import Counts, Problem, Severity, unreadable
from fencepost.log.verify.segments import Checks, Progress, SegmentVerifier
from fencepost.log.verify.transactions import TransactionCheck
from fencepost.wire.types import Uuid

T = TypeVar("T")


class Listing(NamedTuple):
    """The names in a partition's directory; base offsets of its segments, and of snapshots."""

    names: list[str]
    bases: list[int]
    snapshots: list[int]

    @classmethod
    def of(cls, names: list[str]) -> Listing:
        """Of these names, sorted."""
        bases, snapshots = [], []
        for name in names:
            parsed = parse_offset_file(name)
            if parsed is not None and not parsed[2]:
                if parsed[1] == LOG_SUFFIX:
                    bases.append(parsed[0])
                elif parsed[1] == SNAPSHOT_SUFFIX:
                    snapshots.append(parsed[0])
        return cls(names, bases, snapshots)


class PartitionVerifier:
    """Verifies one partition's directory, once.

    Afterwards `topic_id` is what its `partition.metadata` says, and `end_offset` where the log
    ends.
    """

    def __init__(
        self,
        files: Files,
        directory: str,
        facts: PartitionFacts,
        counts: Counts,
        *,
        is_deep: bool = False,
        progress: Progress | None = None,
    ) -> None:
        name = directory.rstrip("/").rpartition("/")[2]
        parsed = parse_partition_dir(name)
        self._files = files
        self._directory = directory
        self._facts = facts
        self._counts = counts
        self._is_deep = is_deep
        self._progress = progress
        self._topic = None if parsed is None else parsed[0]
        self._latest_epoch = -1
        self.topic_id: Uuid | None = None
        self.end_offset: int | None = None

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"

    def run(self) -> Iterator[Problem]:
        """All problems. OSError."""
        listing = Listing.of(self._files.list(self._directory))
        bases = listing.bases
        yield from self._check_names(listing.names, set(bases))
        offsets = OffsetCheck(self._topic, self._facts.cleaned_offset)
        epochs = EpochCheck(self._files, self._path(LEADER_EPOCH_FILE), self._facts)
        yield from epochs.begin()
        transactions = TransactionCheck(
            self._files, self._directory, self._facts, listing.snapshots
        )
        if bases:
            yield from transactions.start(bases[0])
        segments = SegmentVerifier(
            self._files,
            self._directory,
            self._facts,
            Checks(offsets, epochs, transactions),
            self._counts,
            is_deep=self._is_deep,
            progress=self._progress,
        )
        for base, following in zip_longest(bases, bases[1:]):
            yield from segments.run(base, following)
        self._latest_epoch = segments.latest_epoch
        self.end_offset = end_offset = offsets.next_offset or 0
        yield from transactions.finish(end_offset)
        yield from epochs.end(end_offset)
        yield from check_facts(self._facts, self._directory, bases[0] if bases else 0, end_offset)
        yield from self._check_documents(listing.names)
        self._counts.partitions += 1

    def run_beside_segments(self) -> Iterator[Problem]:
        """The problems of everything in the directory but segments and what says of them. OSError.

        With those of each segment and `check_facts` this is what `run` finds.
        """
        listing = Listing.of(self._files.list(self._directory))
        yield from self._check_names(listing.names, set(listing.bases))
        yield from EpochCheck(self._files, self._path(LEADER_EPOCH_FILE), self._facts).begin()
        yield from self._check_documents(listing.names)

    # -- names

    def _check_names(self, names: list[str], bases: set[int]) -> Iterator[Problem]:
        for name in names:
            parsed = parse_offset_file(name)
            stage = parsed[2] if parsed is not None else ""
            if stage == DELETED_SUFFIX:
                yield self._leftover(name, Severity.NOTE, "waits to be deleted")
            elif stage in (CLEANED_SUFFIX, SWAP_SUFFIX):
                yield self._leftover(name, Severity.WARNING, "of an unfinished compaction")
            elif name.endswith((TEMPORARY_SUFFIX, ".part")):
                yield self._leftover(name, Severity.WARNING, "was being written")
            elif parsed is not None and parsed[1] in SEGMENT_SUFFIXES and parsed[0] not in bases:
                yield self._leftover(name, Severity.WARNING, "there is no segment of that offset")
            elif kind_of(self._path(name)) is None and not self._files.is_dir(self._path(name)):
                yield self._leftover(name, Severity.NOTE, "is no file of a log")

    def _leftover(self, name: str, severity: Severity, text: str) -> Problem:
        return Problem(self._path(name), None, severity, "leftover", text)

    # -- what others say

    def _check_documents(self, names: list[str]) -> Iterator[Problem]:
        path = self._path(PARTITION_METADATA_FILE)
        found = self._document(path, decode_partition_metadata)
        if isinstance(found, Problem):
            yield found
        else:
            self.topic_id = found
        path = self._path(QUORUM_STATE_FILE)
        state = self._document(path, decode_quorum_state)
        if isinstance(state, Problem):
            yield state
        elif state is not None and state.state.leader_epoch < self._latest_epoch:
            reason = f"epoch {state.state.leader_epoch}, but the log has {self._latest_epoch}"
            yield Problem(path, None, Severity.ERROR, "document", reason)
        for name in filter(is_snapshot, names):
            yield from check_snapshot(self._files, self._path(name))

    def _document(self, path: str, decode: Callable[[str, bytes], T]) -> T | Problem | None:
        """What a small file says, or what is wrong with it; None if it is not there."""
        try:
            return decode(path, self._files.read(path))
        except FileNotFoundError:
            return None
        except CorruptFileError as error:
            return Problem(path, None, Severity.ERROR, "document", error.reason)
        except OSError as error:
            return unreadable(path, "document", error)


def check_facts(
    facts: PartitionFacts, path: str, first_base: int, end_offset: int
) -> Iterator[Problem]:
    """What is said of the partition in `path` against where its log begins and ends."""
    for name, offset in (
        ("recovery point", facts.recovery_point),
        ("start offset", facts.start_offset),
        ("high watermark", facts.high_watermark),
        ("cleaner's offset", facts.cleaned_offset),
    ):
        if offset is not None and offset > end_offset:
            reason = f"its {name} is {offset}, behind the log's end, {end_offset}"
            yield Problem(path, None, Severity.ERROR, "checkpoint", reason)
    if not (facts.is_recorded and facts.is_clean) or path.rpartition("/")[2] == METADATA_DIR:
        return  # Kafka keeps no recovery point for the metadata log
    if facts.recovery_point is None:
        if end_offset > first_base:
            reason = "was closed cleanly, but no recovery point says so"
            yield Problem(path, None, Severity.WARNING, "checkpoint", reason)
    elif facts.recovery_point < end_offset:
        reason = f"was closed at {facts.recovery_point}, and ends at {end_offset}"
        yield Problem(path, None, Severity.ERROR, "checkpoint", reason)
