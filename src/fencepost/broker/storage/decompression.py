"""Threads that undo compression which would keep the event loop for too long.

A kilobyte can stand for 64 MiB of records, and nothing that its producer says about that can be
trusted. So a batch is decompressed on the event loop first, up to `INLINE_BYTES_MAX` of output,
which costs less than another thread would. What turns out larger is done again here:

* up to `MEDIUM_BYTES_MAX` of output by one thread, which every honest batch gets by with;
* beyond that by another, so that what is meant to take long waits for its like alone.

Both do what they are given in the order it comes. A connection waits for its batch before it gives
the next (`runtime.cooperative`), so connections take turns. The codecs, CRC-32C and the kernels
that walk over records release the interpreter's lock, so the event loop goes on meanwhile.

Memory: two batches are decompressed at a time, and their output is let go of before the next is
(`cooperative.result_of`). Those that wait are copies of what was sent, since receive buffers are
used again, and `QUEUED_BYTES_MAX` bounds their sum. `used_bytes` counts both.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, TypeVar

from fencepost.batch.compression import DECOMPRESSED_BYTES_MAX
from fencepost.batch.errors import DecompressionError
from fencepost.runtime.cooperative import result_of
from fencepost.runtime.requests.parts import INLINE_BYTES_MAX
from fencepost.wire.errors import ErrorCode

T = TypeVar("T")

MEDIUM_BYTES_MAX: Final = 8 * 1024 * 1024
QUEUED_BYTES_MAX: Final = 256 * 1024 * 1024


class Decompression:
    """The two threads of a node."""

    def __init__(self) -> None:
        self._medium = ThreadPoolExecutor(1, "decompress")
        self._large = ThreadPoolExecutor(1, "decompress-large")
        self._output_bytes = {MEDIUM_BYTES_MAX: 0, DECOMPRESSED_BYTES_MAX: 0}
        self.queued_bytes = 0

    @property
    def used_bytes(self) -> int:
        """What waits here, and how much output the batches at work may have."""
        return self.queued_bytes + sum(self._output_bytes.values())

    @property
    def used_bytes_max(self) -> int:
        """How much `used_bytes` can become."""
        return QUEUED_BYTES_MAX + sum(self._output_bytes)

    def reserve(self, size_bytes: int) -> bool:
        """Whether so much may be copied to wait here; `release` it when it is done with."""
        if self.queued_bytes + size_bytes > QUEUED_BYTES_MAX:
            return False
        self.queued_bytes += size_bytes
        return True

    def release(self, size_bytes: int) -> None:
        """What was reserved is not needed any more."""
        self.queued_bytes -= size_bytes

    def inline_or_run(self, work: Callable[[int], T]) -> Generator[Future[Any] | None, None, T]:
        """What `work(max_bytes)` returns: called here, and by `run` if there is too much output."""
        try:
            return work(INLINE_BYTES_MAX)
        except DecompressionError as error:
            if error.code is not ErrorCode.MESSAGE_TOO_LARGE:
                raise
        return (yield from self.run(work))

    def run(self, work: Callable[[int], T]) -> Generator[Future[Any] | None, None, T]:
        """What `work(max_bytes)` returns, for a handler in pieces: called in a thread.

        `work` must raise DecompressionError MESSAGE_TOO_LARGE if there is more output than
        `max_bytes`; it is called again with a larger limit then, at last with the batches' own.
        """
        try:
            return (yield from self._submit(self._medium, work, MEDIUM_BYTES_MAX))
        except DecompressionError as error:
            if error.code is not ErrorCode.MESSAGE_TOO_LARGE:
                raise
        return (yield from self._submit(self._large, work, DECOMPRESSED_BYTES_MAX))

    def _submit(
        self, thread: ThreadPoolExecutor, work: Callable[[int], T], max_bytes: int
    ) -> Generator[Future[Any] | None, None, T]:
        return result_of(thread.submit(self._work, work, max_bytes))

    def _work(self, work: Callable[[int], T], max_bytes: int) -> T:
        """In a thread, each of which has a limit of its own."""
        self._output_bytes[max_bytes] = max_bytes
        try:
            return work(max_bytes)
        finally:
            self._output_bytes[max_bytes] = 0

    def close(self) -> None:
        """Begin nothing more; what is being done ends by itself."""
        for executor in (self._medium, self._large):
            executor.shutdown(wait=False, cancel_futures=True)
