"""The side of a cleaning that belongs to the log's owner: which one is under way, and its swap.

At most one cleaning of a log is under way, and at most one of its copies is being put in place.
Readers get the copy as soon as the swap begins; its files have their own names only when the swap
has run. The log calls `stop` before it truncates or deletes segments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fencepost.log.cleaner.errors import CleaningAbortedError
from fencepost.log.cleaner.plan import Dirt, sources_below
from fencepost.log.config import LogConfig
from fencepost.log.disk import Disk
from fencepost.log.health import Health
from fencepost.log.producers import ProducerStates
from fencepost.log.segment_row import SegmentRow
from fencepost.wire.records.txn_index import AbortedTxn

if TYPE_CHECKING:
    from fencepost.log.cleaner.job import Cleaning, Copied
    from fencepost.log.cleaner.swap import Swap


class CleaningOwner:
    """Of the log in `directory`, whose segments are those of `row`."""

    def __init__(self, disk: Disk, directory: str, row: SegmentRow, health: Health) -> None:
        self._disk = disk
        self.directory = directory
        self._row = row
        self._health = health
        self._cleaning: Cleaning | None = None
        self._swap: Swap | None = None

    @property
    def is_at_work(self) -> bool:
        """Whether a cleaning, or the swap of one, is under way."""
        return self._cleaning is not None or self._swap is not None

    def begin_cleaning(
        self,
        dirt: Dirt,
        config: LogConfig,
        start_offset: int,
        producers: ProducerStates,
        aborted_transactions: Callable[[int, int], list[AbortedTxn]],
        wall_ms: int,
    ) -> Cleaning:
        """See `PartitionLog.begin_cleaning`."""
        # What copies segments is loaded for the first that are copied: most logs never are.
        from fencepost.log.cleaner.filter import ProducerTail
        from fencepost.log.cleaner.job import Cleaning, CleaningInput

        assert self._cleaning is None, f"{self.directory} is being cleaned"
        self.settle_swap()
        sources = sources_below(self._row.segments, dirt.first_uncleanable)
        begin = sources[0].base_offset if sources else start_offset
        tails = {
            state.producer_id: ProducerTail(state.last_offset, state.producer_epoch)
            for state in producers.active()
        }
        self._cleaning = Cleaning(
            CleaningInput(
                self._disk,
                self._row.cache,
                self.directory,
                config,
                sources,
                dirt,
                aborted_transactions(begin, dirt.first_uncleanable),
                tails,
                wall_ms,
            )
        )
        return self._cleaning

    def begin_swap(self, cleaning: Cleaning, copied: Copied) -> Swap:
        """See `PartitionLog.begin_swap`."""
        from fencepost.log.cleaner.swap import Swap  # likewise

        assert self._swap is None, "one at a time"
        old = [source.segment for source in copied.sources]
        if cleaning.is_aborted or any(segment.is_retired or segment.is_active for segment in old):
            cleaning.abort()
            raise CleaningAbortedError(f"{self.directory} has changed meanwhile")
        copied.is_taken = True
        self._row.replace(old, copied.segment)
        old_bases = [segment.base_offset for segment in old]
        self._swap = Swap(self._disk, self.directory, self._health, old_bases, copied.segment)
        return self._swap

    def finish_swap(self, swap: Swap) -> None:
        """The job has run, or runs now. LogFailedError, OSError."""
        if swap is not self._swap:
            self._health.check()
            return
        swap.run()
        self._swap = None
        swap.new.unpin()
        self._row.note_deleted(swap.deleted)
        try:
            self._row.drop_snapshots(swap.old_bases[1:])
        except OSError as error:
            self._health.fail(f"deleting a snapshot failed: {error}")
            raise

    def end_cleaning(self, cleaning: Cleaning) -> None:
        """The job has run, or will not; another one may begin."""
        if cleaning is self._cleaning:
            self._cleaning = None

    def settle_swap(self) -> None:
        """Have files under their own names, whatever thread is at it. OSError."""
        if self._swap is not None:
            self.finish_swap(self._swap)

    def abort(self) -> None:
        """Call off what is under way; a swap that has begun still needs its names."""
        if self._cleaning is not None:
            self._cleaning.abort()

    def stop(self) -> None:
        """Segments are about to be cut or deleted. OSError."""
        self.abort()
        self.settle_swap()
