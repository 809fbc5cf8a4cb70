"""Standard input, output and error of a command, whatever the shell has made of them.

* Output that cannot be written (a full disk, a pipe whose reader has left, a closed descriptor)
  ends any command with one line on standard error (none for the pipe), at the last flush as well:
  `OutputFailed` is no `Exception`, so no command takes it for an error of its own.
* Text that the output's encoding does not have is written with backslash escapes.
* Standard error that cannot be written is no reason to stop: the exit code still says it.
* A descriptor below 3 that was closed is held by /dev/null, so that no socket and no log file gets
  its number; reading or writing it fails with EBADF.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, Final, TextIO

from fencepost.cli.readiness import WRITABLE, wait_until

BUFFER_BYTES: Final = 64 * 1024
EXIT_FAILED: Final = 1
EXIT_INTERRUPTED: Final = 128 + signal.SIGINT


class OutputFailed(BaseException):
    """Standard output cannot be written; `reason` is the system's error."""

    def __init__(self, reason: OSError) -> None:
        super().__init__(str(reason))
        self.reason = reason


class _Descriptor(io.RawIOBase):
    """The unbuffered bytes below a text stream. The first failed write ends all: what comes later,
    such as what is still buffered at the end of the process, is thrown away."""

    def __init__(self, below: Any, *, fails: bool) -> None:
        super().__init__()
        self._below = below
        self._fails = fails
        self.failure: OSError | None = None

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return int(self._below.fileno())

    def isatty(self) -> bool:
        return bool(self._below.isatty())

    def write(self, data: Any) -> int:
        """See `io.RawIOBase`. Raises OutputFailed once."""
        if self.failure is None:
            try:
                while (written := self._below.write(data)) is None:  # another's O_NONBLOCK
                    wait_until(self.fileno(), WRITABLE)
                return int(written)
            except OSError as error:
                self.failure = error
                if self._fails:
                    raise OutputFailed(error) from None
        return len(data)


def _wrapped(stream: TextIO | None, number: int, *, fails: bool) -> tuple[TextIO, _Descriptor]:
    """`stream`, or a closed one's descriptor `number`, with failures as this module has them."""
    if stream is None:
        below: Any = io.FileIO(number, "w", closefd=False)
    else:
        stream.flush()
        buffer: Any = stream.buffer
        below = getattr(buffer, "raw", buffer)
    descriptor = _Descriptor(below, fails=fails)
    return io.TextIOWrapper(
        io.BufferedWriter(descriptor, BUFFER_BYTES),
        encoding=stream.encoding if stream is not None else "utf-8",
        errors="backslashreplace",
        line_buffering=not fails or below.isatty() or getattr(stream, "write_through", False),
    ), descriptor


def _hold_closed_descriptors() -> None:
    """Put /dev/null where a descriptor below 3 is closed, opened so that its use fails."""
    for number, mode in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, mode)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), "utf-8")


def with_standard_streams(run: Callable[[], int], program: str) -> int:
    """Call `run` and write out what it has printed; its exit code, or why there is none.

    `program` begins the line about output that cannot be written. SystemExit passes through.
    """
    _hold_closed_descriptors()
    streams = sys.stdout, sys.stderr
    sys.stdout, output = _wrapped(streams[0], 1, fails=True)
    sys.stderr, _ = _wrapped(streams[1], 2, fails=False)
    try:
        return _interruptible(run)
    except OutputFailed as failure:
        if failure.reason.errno != errno.EPIPE:  # a reader that left, as `head` does, needs no text
            text = failure.reason.strerror
            print(f"{program}: cannot write to standard output: {text}", file=sys.stderr)
        return EXIT_FAILED
    finally:
        output.failure = output.failure or OSError(errno.EBADF, "given back")
        sys.stderr.flush()
        sys.stdout, sys.stderr = streams


def _interruptible(run: Callable[[], int]) -> int:
    try:
        return run()
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    finally:
        sys.stdout.flush()
