"""Leader failover: from the leader's end to the first write that another one acknowledges.

Killed, its port refuses connections, which a follower may take for what it is; stopped (SIGSTOP),
it is as silent as a machine without power, and only the fetch timeout tells.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import statistics
import tempfile
import time
from pathlib import Path

from tests.interop.quorum import Quorum
from tests.waiting import eventually

from benchmarks import peers
from benchmarks.quorum.voters import KINDS, first_write, quorum_of

GIVE_UP_S = 60.0
SETTLE_S = 1.0


def fail_over(quorum: Quorum, number: int, draw: random.Random, silently: bool) -> float:
    """End the leader at a random moment, wait for a write, bring it back; milliseconds."""
    leader = quorum.wait_for_leader()
    others = [node for node in quorum.voters if node is not leader]
    time.sleep(SETTLE_S + draw.random() * SETTLE_S)
    assert leader.process is not None
    os.kill(leader.process.pid, signal.SIGSTOP if silently else signal.SIGKILL)
    killed = time.monotonic()
    written = first_write(others, number, killed + GIVE_UP_S)
    leader.kill()
    leader.start()
    eventually(lambda: _all_follow(quorum), "the killed controller is back")
    return (written - killed) * 1000


def _all_follow(quorum: Quorum) -> bool:
    leader = quorum.leader()
    said = leader.describe() if leader is not None else None
    if said is None:
        return False
    return all(v.log_end_offset >= said.high_watermark for v in said.current_voters)


def compare(
    kills: dict[str, int], fetch_timeout_ms: int, seed: int, silently: bool
) -> dict[str, list[float]]:
    """Milliseconds by kind; both quorums run all the time, and their kills take turns.

    Followers find out by the fetch timeout that a leader is gone; it is the larger part.
    """
    timeouts = {"controller.quorum.fetch.timeout.ms": str(fetch_timeout_ms)}
    found: dict[str, list[float]] = {kind: [] for kind in KINDS}
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as home, contextlib.ExitStack() as stack:
        quorums = {
            kind: stack.enter_context(quorum_of(kind, Path(home), **timeouts))
            for kind in KINDS
            if kills[kind]
        }
        for number in range(max(kills.values())):
            for kind, quorum in quorums.items():
                if number < kills[kind]:
                    found[kind].append(fail_over(quorum, number, draw, silently))
                    print(f"  kill {number + 1} of {kind}: {found[kind][-1]:.0f} ms", flush=True)
    return found


def rows(found: dict[str, list[float]]) -> list[list[str]]:
    """Of the table."""
    p50 = {kind: statistics.median(times) for kind, times in found.items() if times}
    base = p50.get(KINDS[-1], float("nan"))
    return [
        [kind, str(len(times)), f"{p50[kind]:.0f}", f"{peers.percentile(times, 99):.0f}"]
        + [f"{max(times):.0f}", f"{p50[kind] / base:.2f}"]
        for kind, times in found.items()
        if times
    ]


HEADINGS = ["controllers", "kills", "p50 ms", "p99 ms", "worst ms", "ratio of p50"]
