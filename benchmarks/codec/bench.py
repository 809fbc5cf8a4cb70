"""Encode and decode messages: ours on both backends, and other projects' codecs on the same bytes.

    python benchmarks/codec/bench.py [--rounds R] [--least] [--gc] [--message TEXT] [--part PART]...

Parts: `messages` (versions of today, then the older ones that aiokafka has), `fresh` (messages that
differ instead of the same one over and over), `startup` (imports, first use of a version),
`scaling` (cost of an element in arrays of 10 to 100,000) and `readers` (what part decoding is of
what a client does with an answer).

Apache Kafka's Java classes take part where the interop suite has put its jars (`make interop`).
Every codec first has to read the bytes and write the very same ones. Then rounds are interleaved,
so that a slow moment of the machine falls on all of them; the tables show medians, in microseconds
and as the speed-up over kafka-python. With `--least` `messages`, `fresh` and `readers` show the
least of the rounds instead, and their rounds are shorter: on a machine that others use, medians
measure those. All go through the calls that a program would use.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.codec.contestants import BASE, NAMES, contestants, kio_reader
from benchmarks.codec.fresh import fresh_table
from benchmarks.codec.java import java_classes
from benchmarks.codec.messages import Case, current_cases, old_cases
from benchmarks.codec.readers import readers_table
from benchmarks.codec.scaling import scaling_table
from benchmarks.codec.startup import startup_table
from benchmarks.codec.timing import measure, pin_collector
from benchmarks.peers import table

PARTS = ("messages", "fresh", "startup", "scaling", "readers")

Medians = dict[str, tuple[float, float]]


def mean_speed_up(results: list[Medians], name: str, base: str, direction: int) -> str:
    """Geometric mean of how much faster `name` is than `base`, where both took part."""
    both = [one for one in results if name in one and base in one]
    if not both:
        return "-"
    logs = [math.log(one[base][direction] / one[name][direction]) for one in both]
    return f"{math.exp(statistics.fmean(logs)):.2f}x"


def message_table(results: dict[str, Medians], direction: int) -> str:
    """One row for each message, and the means over kafka-python and over kio."""
    every = list(results.values())
    names = [name for name in NAMES if any(name in one for one in every)]
    rows = []
    for title, medians in results.items():
        row = [title]
        for name in names:
            if name not in medians:
                row.append("-")
                continue
            cell = f"{medians[name][direction] * 1e6:.2f} us"
            if BASE in medians:
                cell += f" ({medians[BASE][direction] / medians[name][direction]:.1f}x)"
            row.append(cell)
        rows.append(row)
    for base in (BASE, "kio"):
        means = [mean_speed_up(every, name, base, direction) for name in names]
        rows.append([f"geometric mean over {base}", *means])
    return table([("decode", "encode")[direction], *names], rows)


def compare(cases: list[Case], rounds: int, *, least: bool) -> None:
    """Measure some messages and print one table for each direction."""
    if not cases:
        return
    results = {}
    for case in cases:
        data = case.message.encode(case.version)
        results[f"{case.title} ({len(data)} B)"] = measure(
            case, data, contestants(case), rounds, java_classes(), least=least
        )
    for direction in (0, 1):
        print(f"\n{message_table(results, direction)}", flush=True)


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--least", action="store_true", help="least of the rounds, not medians")
    parser.add_argument("--gc", action="store_true", help="leave the garbage collector on")
    parser.add_argument("--message", default="", help="only messages with this in their row")
    parser.add_argument("--part", choices=PARTS, action="append")
    options = parser.parse_args()
    parts = options.part or PARTS
    print(f"Python {sys.version.split()[0]}; kio reads with {kio_reader()}; ", end="")
    print(f"{pin_collector(enabled=options.gc)}; ", end="")
    print(f"{'least' if options.least else 'medians'} of {options.rounds} rounds", flush=True)
    if "messages" in parts:
        for cases in (current_cases(), old_cases()):
            chosen = [case for case in cases if options.message in case.title]
            compare(chosen, options.rounds, least=options.least)
    if "fresh" in parts:
        print(f"\n{fresh_table(options.rounds, least=options.least)}", flush=True)
    if "startup" in parts:
        print(f"\n{startup_table(options.rounds)}", flush=True)
    if "scaling" in parts:
        print(f"\n{scaling_table(options.rounds)}", flush=True)
    if "readers" in parts:
        print(f"\n{readers_table(options.rounds, least=options.least)}", flush=True)


if __name__ == "__main__":
    main()
