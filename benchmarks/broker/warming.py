"""Brokers are warmed before anything is measured: a JVM compiles what it runs often, and only then.

All loads in turn, on each peer, until a pass over them costs hardly less CPU than the one before:
the figure of a pass is the geometric mean over its loads, so that each counts the same.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from typing import Final

from benchmarks.broker.loads import Load
from benchmarks.peers import Peer

STILL_FALLS: Final = 0.95
PASSES_MIN: Final = 2


def warm(running: Sequence[Peer], loads: Sequence[Load], slice_s: float, until: float) -> list[str]:
    """Pass over all peers until none of them gets cheaper, or `until` of the monotonic clock.

    The names of those that might still get cheaper.
    """
    before = {peer.name: math.inf for peer in running}
    falling = list(running) if loads else []
    passes = 0
    while falling:
        passes += 1
        for peer in list(falling):
            logarithms = []
            for load in loads:
                if time.monotonic() > until:
                    return [one.name for one in falling]
                logarithms.append(math.log(load.measure(peer, slice_s).cpu_us))
            now = math.exp(sum(logarithms) / len(logarithms))
            print(f"warming, pass {passes}: {peer.name} {now:.1f} us on average", file=sys.stderr)
            if passes >= PASSES_MIN and now > before[peer.name] * STILL_FALLS:
                falling.remove(peer)
            before[peer.name] = now
    return []
