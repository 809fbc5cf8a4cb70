"""Logs that are opened by threads: what is said of them, and what a stop leaves."""

from __future__ import annotations

import logging
import threading
from types import SimpleNamespace
from typing import Any

from fencepost.broker.storage.data_dirs import DataDir
from fencepost.broker.storage.log_recovery_pool import RecoveryPool
from fencepost.broker.storage.storage import PartitionOpening
from fencepost.log.open_job import OpenJob

from ...waiting import DEADLINE_S


class Opened:
    """A log that says how it was closed."""

    closed: bool | None = None

    def close(self, *, clean: bool) -> None:
        self.closed = clean


class Logs:
    """Stands for `Storage`: logs of one directory, all of which have to be recovered."""

    def __init__(self) -> None:
        self.data_dir = DataDir("d")
        self.go = threading.Event()
        self.pool = RecoveryPool(self, lambda: 2)  # type: ignore[arg-type]

    def begin_open(self, key: Any, *of: Any) -> PartitionOpening:
        job = OpenJob(self.load, self.load, needs_recovery=True)
        return PartitionOpening(self.data_dir, str(key), job)

    def load(self) -> Any:
        assert self.go.wait(DEADLINE_S)
        return Opened()

    def finish_open(self, opening: PartitionOpening, running: Any) -> Any:
        running.result(DEADLINE_S)
        return opening.job.opened

    def begin(self, number: int) -> PartitionOpening:
        return self.pool.begin(("t", number), *[SimpleNamespace()] * 3)  # type: ignore[arg-type]


def test_each_recovery_is_counted_by_itself(caplog: Any) -> None:
    caplog.set_level(logging.INFO)
    logs = Logs()
    logs.go.set()
    for count in (3, 2):
        begun = [logs.begin(number) for number in range(count)]
        assert logs.begin(0) is begun[0]
        for number, opening in enumerate(begun):
            assert logs.pool.waiting_for(("t", number)) is not None
            logs.pool.finish(("t", number), opening)
    assert [record.args[0] for record in caplog.records] == [3, 2]


def test_what_was_opened_and_not_wanted_any_more_is_left_for_the_next_recovery() -> None:
    logs = Logs()
    opening = logs.begin(0)
    running = logs.pool.waiting_for(("t", 0))
    logs.go.set()
    assert running is not None
    running.result(DEADLINE_S)
    logs.pool.close()
    assert opening.job.opened is not None and opening.job.opened.closed is False
    assert logs.pool.waiting_for(("t", 0)) is None
