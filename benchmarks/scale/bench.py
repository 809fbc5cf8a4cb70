"""A cluster of a hundred brokers and a hundred thousand partitions, in one process.

    python benchmarks/scale/bench.py [--brokers 100] [--partitions 100000] [--heavy 3000]
                                     [--alone BROKERS,PARTITIONS ...] [--picture FILE]

The product's controller, images, fetchers and fetch sessions run in virtual time, in which a step
takes as long as its CPU takes here; `broker.py` and `cluster.py` say what is modelled. A broker
that leads `--heavy` partitions dies, then a rack, then the active controller and another broker.
`--alone` is metadata without brokers that fetch, for clusters that are larger yet. What it prints
is in docs/SCALE.md; CPU counts, so other load on the machine matters little. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import gc
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks import peers
from benchmarks.scale.picture import draw
from benchmarks.scale.scenarios import RACKS, Happened, Play, Size, controller_alone


def at_percent(times_ms: list[float], percent: int) -> str:
    """When so many of them were there."""
    return f"{peers.percentile(times_ms, percent):.0f}" if times_ms else "-"


def show_happened(happened: list[Happened]) -> None:
    """Print what came of each event."""
    rows = [
        [
            one.name,
            f"{one.course.records:,}",
            f"{one.course.size_bytes / 1000:,.0f}",
            f"{one.course.controller_ms:.0f} + {one.course.sending_ms:.0f}",
            f"{one.course.follow_ms:.0f}",
            f"{one.busiest_ms:.0f}",
            f"{len(one.course.serving_ms):,}",
            f"{at_percent(one.course.serving_ms, 50)} / {at_percent(one.course.serving_ms, 100)}",
            f"{at_percent(one.course.acknowledging_ms, 50)}"
            f" / {at_percent(one.course.acknowledging_ms, 100)}",
        ]
        for one in happened
    ]
    headings = [
        "",
        "records",
        "KB",
        "controller ms, + sending",
        "each node ms",
        "busiest broker ms",
        "leaders",
        "serves ms, p50 / last",
        "acks=all ms, p50 / last",
    ]
    print(peers.table(headings, rows), flush=True)


def show_play(size: Size, picture: Path | None) -> None:
    """Make a cluster, and let it all happen."""
    play = Play(size)
    print(
        "CPU ms of one partition: becomes leader {lead_ms:.3f}, follower {follow_ms:.4f}, its"
        " follower has asked {fetched_ms:.4f}".format(**vars(play.costs)),
        flush=True,
    )
    made = play.make()
    show_made([(size, made)])
    play.settle()
    idle = play.idle()
    print(
        f"idle: {idle.fetchers:,} fetchers, {idle.rounds:,.0f} rounds/s, each broker"
        f" {idle.broker_ms:.1f} ms CPU and {idle.bytes_each:,.0f} bytes per second, the controller"
        f" {idle.controller_ms:.1f} ms",
        flush=True,
    )
    happened = [play.kill(f"a broker with {size.heavy:,} leaderships dies", [1])]
    rack = [id_ for id_ in play.cluster.brokers if id_ % RACKS == 2]
    happened.append(play.kill(f"a rack of {len(rack)} brokers dies", rack))
    took_ms, last = play.fail_over()
    happened.append(last)
    show_happened(happened)
    print(f"the next controller: {took_ms:.1f} ms CPU until it may decide")
    print(f"partitions without a leader in the end: {play.leaderless()}")
    if picture is not None:
        picture.write_text(draw(size, happened))


def show_made(made: list[tuple[Size, object]]) -> None:
    """Print what creating clusters cost."""
    rows = [
        [
            f"{size.brokers:,}",
            f"{size.partitions:,}",
            f"{one.records:,}",  # type: ignore[attr-defined]
            f"{one.size_bytes / 1e6:.1f}",  # type: ignore[attr-defined]
            f"{one.controller_ms / 1000:.1f}",  # type: ignore[attr-defined]
            f"{one.follow_ms / 1000:.1f}",  # type: ignore[attr-defined]
            f"{one.image_mb:.0f}",  # type: ignore[attr-defined]
        ]
        for size, one in made
    ]
    headings = ["brokers", "partitions", "records", "MB", "controller s", "each node s", "image MB"]
    print(peers.table(headings, rows), flush=True)


def show_alone(size: Size) -> None:
    """Metadata of a cluster, without brokers that fetch."""
    made, fenced, (written_ms, size_bytes, loaded_ms) = controller_alone(size)
    show_made([(size, made)])
    print(
        f"a broker is fenced: {fenced.records:,} records, {fenced.size_bytes / 1000:,.0f} KB,"
        f" controller {fenced.controller_ms:.0f} ms, each node {fenced.follow_ms:.0f} ms;"
        f" snapshot of {size_bytes / 1e6:.0f} MB written in {written_ms / 1000:.1f} s, loaded in"
        f" {loaded_ms / 1000:.1f} s",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--heavy", type=int, default=3_000)
    parser.add_argument("--alone", action="append", default=[])
    parser.add_argument("--picture", type=Path)
    given = parser.parse_args()
    gc.disable()  # what a collection costs over a hundred brokers' objects, none of them would pay
    for text in given.alone:
        brokers, partitions = map(int, text.split(","))
        show_alone(Size(brokers, partitions, 0))
    if given.brokers:
        show_play(Size(given.brokers, given.partitions, given.heavy), given.picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
