"""Many logs are made ready to be closed: as many at a time as the disk syncs in parallel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from fencepost.log.flush import FlushJob
from fencepost.log.partition_log import PartitionLog

FILES_WHILE_CLOSING: Final = 4
"""Files that are written when one log is closed, and open until they are synced."""

_Map = Callable[[Callable[[FlushJob], OSError | None], list[FlushJob]], Iterator[OSError | None]]


def flush_to_close(logs: list[PartitionLog], at_once: int, sync_threads: int) -> OSError | None:
    """Flush logs that are to be closed, whatever becomes of one of them; the first problem met.

    `at_once` is for how many logs there are files to spare, `sync_threads` how many syncs the disk
    does at a time.
    """
    at_once = max(1, at_once)
    threads = min(at_once, len(logs), sync_threads)
    if threads < 2:
        problems = [_flush_some([opened], map) for opened in logs]
    else:
        with ThreadPoolExecutor(threads) as pool:
            problems = [
                _flush_some(logs[first : first + at_once], pool.map)
                for first in range(0, len(logs), at_once)
            ]
    return next((problem for problem in problems if problem is not None), None)


def _flush_some(logs: list[PartitionLog], run: _Map) -> OSError | None:
    """Make some logs ready to be closed, `run` being what does many jobs; likewise."""
    jobs: list[tuple[PartitionLog, FlushJob]] = []
    problem: OSError | None = None
    for opened in logs:
        try:
            job = opened.begin_close()
        except OSError as error:
            problem = problem or error
            continue
        if job is not None:
            jobs.append((opened, job))
    errors = list(run(_run, [job for _, job in jobs]))
    for (opened, job), failure in zip(jobs, errors, strict=True):
        if failure is None:
            opened.finish_flush(job)
        else:
            problem = problem or failure
    return problem


def _run(job: FlushJob) -> OSError | None:
    try:
        job.run()
    except OSError as error:
        return error
    return None
