"""What the product logs while a world runs: any error but those of `FORESEEN` fails the run.

The product logs, with its traceback, what it catches and does not understand, and goes on. That
may be right for a broker; in a run it must not pass for a node that is well.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from fencepost.log.errors import LogError
from fencepost.sim.oracle import Violation

FORESEEN: Final = (LogError, OSError)
"""What faults bring about; what a node makes of it, other checks judge."""


class _Unforeseen(logging.Handler):
    """Raises Violation in the place of a log record that has an unforeseen error with it."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, FORESEEN):
            what = f"{record.getMessage()}: {type(error).__name__}: {error}"
            raise Violation("swallowed", what) from error


@contextmanager
def unforeseen_errors_fail() -> Iterator[None]:
    """Have the product's log raise Violation as above, and print nothing; afterwards as before."""
    logger = logging.getLogger("fencepost")
    before = logger.level, logger.propagate, logger.handlers
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    logger.handlers = [_Unforeseen()]
    try:
        yield
    finally:
        logger.level, logger.propagate, logger.handlers = before
        logger.setLevel(before[0])
