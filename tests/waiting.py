"""Waiting in tests, in one place: for a condition, with patience, and never for a length of time.

What a test waits for must come, so the deadline says only when to give up. It is long: on a machine
whose cores are busy with other things a process may not get its turn for seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

DEADLINE_S = 60.0
"""When to give up. Socket timeouts, joins and results of futures in tests take it, too."""

DEADLINE_MS = int(DEADLINE_S * 1000)
"""The same for what counts in milliseconds, as the timeouts of our client's connections do."""

POLL_S = 0.005

T = TypeVar("T")


def eventually(condition: Callable[[], T], what: str = "") -> T:
    """Ask until `condition()` is true; what it returned then.

    AssertionError that names `what` if that takes longer than DEADLINE_S.
    """
    deadline = time.monotonic() + DEADLINE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {DEADLINE_S:.0f} s in vain: {what}"
        time.sleep(POLL_S)
    return found
