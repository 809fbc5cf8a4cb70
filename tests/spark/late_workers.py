"""Spark waits 10 s for a Python process of a source, however busy the machine is, and no setting
changes that. A query fails of it before a batch, so jobs of tests start it again."""

from __future__ import annotations

from collections.abc import Callable

LATE_WORKER = "Python worker failed to connect back"
STARTS_MAX = 20


def run_despite_late_workers(run: Callable[[], None]) -> None:
    """Again while a late Python process makes it fail; what else fails is raised."""
    for attempt in range(STARTS_MAX):
        try:
            run()
        except Exception as error:  # Spark raises it in several classes
            if LATE_WORKER not in str(error) or attempt == STARTS_MAX - 1:
                raise
        else:
            return
