"""Reading several partitions at once: threads that fetch and decode, and a caller that takes.

Each thread has a Cluster of its own, since a Cluster belongs to one thread at a time, and takes one
lane after another: the ranges of one partition, in order. What is read waits in one bounded queue,
which stops the threads when the caller is slower. The first error ends the read. When the caller
stops early, threads end at their next batch; one that waits for a broker is not waited for long.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from fencepost.client.cluster import Cluster
from fencepost.client.config import ClientConfig

WAITING_PER_THREAD: Final = 3
"""Items that wait for the caller, for each thread."""
_PUT_TIMEOUT_S: Final = 0.1
_JOIN_TIMEOUT_S: Final = 2.0

T = TypeVar("T")


class _Ended:
    """A thread has no lane left, or has failed with `error`."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def read_lanes(
    lanes: Sequence[Sequence[int]],
    threads: int,
    config: ClientConfig,
    read: Callable[[Cluster, int], Iterator[T]],
) -> Iterator[T]:
    """What `read` gives for every number of every lane; the order holds within a lane."""
    left: queue.SimpleQueue[Sequence[int]] = queue.SimpleQueue()
    for lane in lanes:
        left.put(lane)
    count = min(threads, len(lanes))
    taken: queue.Queue[T | _Ended] = queue.Queue(WAITING_PER_THREAD * count)
    stopping = threading.Event()

    def work() -> None:
        error: BaseException | None = None
        try:
            with Cluster(config=config) as cluster:
                _read_some(left, cluster, read, taken, stopping)
        except BaseException as raised:  # noqa: BLE001 - raised again where it is waited for
            error = raised
        _put(taken, _Ended(error), stopping)

    workers = [
        threading.Thread(target=work, name=f"fencepost-arrow-{number}", daemon=True)
        for number in range(count)
    ]
    try:
        for worker in workers:
            worker.start()
        running = count
        while running:
            item = taken.get()
            if not isinstance(item, _Ended):
                yield item
                continue
            running -= 1
            if item.error is not None:
                raise item.error
    finally:
        stopping.set()
        for worker in workers:
            if worker.ident is not None:
                worker.join(_JOIN_TIMEOUT_S)


def _read_some(
    left: queue.SimpleQueue[Sequence[int]],
    cluster: Cluster,
    read: Callable[[Cluster, int], Iterator[T]],
    taken: queue.Queue[T | _Ended],
    stopping: threading.Event,
) -> None:
    while not stopping.is_set():
        try:
            lane = left.get_nowait()
        except queue.Empty:
            return
        for number in lane:
            for item in read(cluster, number):
                if not _put(taken, item, stopping):
                    return


def _put(taken: queue.Queue[T], item: T, stopping: threading.Event) -> bool:
    """Whether the caller still takes."""
    while not stopping.is_set():
        try:
            taken.put(item, timeout=_PUT_TIMEOUT_S)
        except queue.Full:
            continue
        return True
    return False
