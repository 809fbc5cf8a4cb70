"""`BackgroundLogReads`: the `LogReads` of a broker, whose threads read and decompress.

What is in the page cache is read on the event loop, and what has little output is decompressed
there; threads do the rest (`cold_reads`, `decompression`). When the process has no descriptor left
to open a file with, a read fails with a retriable error: the event loop must not wait for one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from fencepost.broker.storage.cold_reads import ColdReads
from fencepost.broker.storage.decompression import Decompression
from fencepost.log.descriptors import Descriptors
from fencepost.runtime.cooperative import Pieces

T = TypeVar("T")


class BackgroundLogReads:
    """See the module."""

    def __init__(
        self, cold_reads: ColdReads, decompression: Decompression, descriptors: Descriptors
    ) -> None:
        self._cold_reads = cold_reads
        self._descriptors = descriptors
        self.decompress = decompression.inline_or_run

    def read(self, work: Callable[[], T]) -> Pieces[T]:
        """What `work` returns, called again after a thread has read what it needs; see
        `ColdReads.read`."""

        def read_without_waiting() -> T:
            with self._descriptors.without_waiting():
                return work()

        return self._cold_reads.read(read_without_waiting)
