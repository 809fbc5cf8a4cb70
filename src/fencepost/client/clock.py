"""The clock of clients."""

import time


def now_ms() -> float:
    """Milliseconds of a clock that only goes forward."""
    return time.monotonic() * 1000
