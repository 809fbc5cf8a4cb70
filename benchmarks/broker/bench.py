"""What a request costs a broker, in CPU time of its own: ours, and a warmed Apache Kafka.

    python benchmarks/broker/bench.py [--minutes M] [--only TEXT]... [--peer NAME]...
                                      [--picture FILE.svg]

One table: microseconds of the broker's CPU for each request (each record, with confluent-kafka),
taken from the kernel's accounting at the edges of a window, their ratio to Apache Kafka's, the
cores that broker and generator had while so many requests a second were answered, and the times
that clients wait. Peers: Fencepost as it is (fsync before ack), Fencepost with Kafka's page-cache
behaviour, and Apache Kafka where it can run; and if it is named, Apache Kafka that syncs before it
acknowledges, as Fencepost does. All are warmed first, with every load but the idle
ones, until their cost stops falling; for a third of the minutes at most. Then windows of all peers
are interleaved, round by round, and medians shown. The generator shares the machine with the
brokers, so compare rows of one run with each other and with nothing else.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks import peers
from benchmarks.broker import loads, report, warming
from benchmarks.broker.frames import RefusedError

ROUNDS: Final = 3
WINDOW_S: Final = (0.3, 3.0)
OVERHEAD_S: Final = 1.5
"""What a window takes beside itself: its warm-up, its topic made and deleted."""
WARMING_SHARE: Final = 1 / 3
WARMING_SLICE_S: Final = 0.5

PEERS: Final = ("fencepost", "page-cache", "apache", "apache-fsync")

Made = AbstractContextManager[peers.Peer]


@contextmanager
def page_cache() -> Iterator[peers.Peer]:
    """Fencepost that acknowledges what is in the page cache, as Kafka does."""
    with peers.fencepost(**{"log.flush.before.ack": "false"}) as peer:
        yield peers.Peer("page cache", peer.bootstrap, peer.pid)


@contextmanager
def apache_flushing() -> Iterator[peers.Peer]:
    """Apache Kafka that acknowledges what is on the disk, as Fencepost does."""
    with peers.apache(**{"log.flush.interval.messages": "1"}) as peer:
        yield peers.Peer(f"{peer.name}, fsync", peer.bootstrap, peer.pid)


def contenders(only: list[str] | None) -> dict[str, Callable[[], Made]]:
    """The brokers to measure, by the name they go by on the command line."""
    found: dict[str, Callable[[], Made]] = {"fencepost": peers.fencepost, "page-cache": page_cache}
    if "apache" in peers.available():
        found |= {"apache": peers.apache, "apache-fsync": apache_flushing}
    chosen = only or [name for name in found if name != "apache-fsync"]
    return {name: make for name, make in found.items() if name in chosen}


def run(running: list[peers.Peer], chosen: list[loads.Load], minutes: float) -> report.Rounds:
    """Warm all peers, then measure as many rounds as there is time for: one at least, three at
    most."""
    ends = time.monotonic() + minutes * 60
    warmed_until = time.monotonic() + minutes * 60 * WARMING_SHARE
    with_all = [load for load in chosen if load in loads.WARMING]
    cold = warming.warm(running, with_all, WARMING_SLICE_S, warmed_until)
    if cold:
        print(f"not warmed to the end, for want of minutes: {', '.join(cold)}")
    windows = ROUNDS * len(chosen) * len(running)
    window_s = (ends - time.monotonic()) / windows - OVERHEAD_S
    window_s = min(max(window_s, WINDOW_S[0]), WINDOW_S[1])
    found: report.Rounds = {load.name: {peer.name: [] for peer in running} for load in chosen}
    for number in range(1, ROUNDS + 1):
        for load in chosen:
            if number > 1 and time.monotonic() > ends:
                print(f"the time is over in round {number}", file=sys.stderr)
                return found
            print(f"round {number} of {ROUNDS}, {window_s:.1f} s: {load.name}", file=sys.stderr)
            for peer in running:
                try:
                    found[load.name][peer.name].append(load.measure(peer, window_s))
                except (OSError, RefusedError) as error:
                    print(f"{peer.name}, {load.name}: {error}", file=sys.stderr)
    return found


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--minutes",
        type=float,
        default=12.0,
        help="after that, no window begins but those of the first round",
    )
    parser.add_argument("--only", action="append", help="loads whose name has this in it")
    parser.add_argument("--peer", action="append", choices=PEERS)
    parser.add_argument("--picture", type=Path, help="where to draw the chart, as SVG")
    arguments = parser.parse_args()
    only = arguments.only or [""]
    chosen = [load for load in loads.LOADS if any(text in load.name for text in only)]
    if not chosen:
        parser.error(f"no load is called so; there are: {'; '.join(x.name for x in loads.LOADS)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and the brokers stop, too
    with ExitStack() as stack:
        running = [stack.enter_context(make()) for make in contenders(arguments.peer).values()]
        found = run(running, chosen, arguments.minutes)
    kafka = next((peer.name for peer in running if peer.name.startswith("apache")), None)
    print(report.table(found, kafka))
    print(report.machine(found))
    if arguments.picture and kafka and running[0].name != kafka:
        arguments.picture.write_text(report.picture(found, running[0].name, kafka))
    return 0


if __name__ == "__main__":
    sys.exit(main())
