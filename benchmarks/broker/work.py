"""What a request takes on any machine: instructions, system calls and wake-ups for each.

    python benchmarks/broker/work.py [--only TEXT]... [--skip instructions|calls]

Microseconds differ between machines, and between days on one; these counts hardly do, so that a row
which has changed tells of a change here.

Instructions are those of the process, without the kernel's, from the bytes of a request to the
bytes of its answer, without a sync: `produce_path` and `fetch_path` are run by valgrind with few
and with many requests, and the difference is what the requests took. System calls are counted by
strace, in all threads of a broker that serves the load of the row. A wake-up is a wait that a
thread of the broker ended (a voluntary context switch), counted in a window without strace, which
slows the broker down. Linux; a column whose tool is missing is left out, and that is said.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks import peers
from benchmarks.broker import loads
from benchmarks.broker.pipes import Figures

HERE: Final = Path(__file__).resolve().parent
REQUESTS: Final = (800, 2400)
"""With so many requests a path is run, and then with so many."""
WINDOW_S: Final = 2.0
ATTACHED_S: Final = 30.0
SHOWN_CALLS: Final = 4
COLLECTED: Final = re.compile(r"Collected : (\d+)")
WAITS: Final = re.compile(r"^voluntary_ctxt_switches:\s+(\d+)", re.MULTILINE)


class Row(NamedTuple):
    """A load of `loads.LOADS`, and the path in one process that is nearest to it."""

    load: str
    path: tuple[str, ...] = ()


ROWS: Final = (
    Row("1 record x 1", ("produce_path.py", "--connections", "1", "--depth", "1")),
    Row("1 record x 16", ("produce_path.py", "--connections", "16", "--depth", "5")),
    Row("1 record x 50", ("produce_path.py", "--connections", "50", "--depth", "5")),
    Row("1 record, 1,000/s"),
    Row("Fetch 4 KB x 16", ("fetch_path.py",)),
    Row("Fetch 4 KB x 16, sessions", ("fetch_path.py", "--sessions")),
    Row("Fetch 1 MB x 4"),
    Row("long poll, woken x 50"),
    Row("long poll, expired x 50"),
)


# -- instructions ----------------------------------------------------------------------------------


def instructions(path: tuple[str, ...]) -> float:
    """Of one request of a path, in this process and not in the kernel."""
    few, many = (_collected(path, requests) for requests in REQUESTS)
    # A path gives its requests once to warm up and once to be measured.
    return (many - few) / (2 * (REQUESTS[1] - REQUESTS[0]))


def _collected(path: tuple[str, ...], requests: int) -> int:
    with tempfile.TemporaryDirectory() as home:
        run = subprocess.run(
            [
                *("valgrind", "--tool=callgrind", f"--callgrind-out-file={home}/out"),
                *(sys.executable, str(HERE / path[0]), *path[1:]),
                *("--requests", str(requests), "--rounds", "1"),
            ],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": "0"},
            check=False,
        )
    found = COLLECTED.search(run.stderr)
    if run.returncode != 0 or found is None:
        raise RuntimeError(f"valgrind of {path[0]} failed:\n{run.stdout}{run.stderr}")
    return int(found[1])


# -- system calls and wake-ups ---------------------------------------------------------------------


class Counted(NamedTuple):
    """Of one request."""

    calls: float
    most: list[tuple[str, float]]
    """The commonest system calls."""
    wakeups: float


def counted(peer: peers.Peer, measure: loads.Measure) -> Counted:
    """What a broker asks of the kernel while it serves a load."""
    assert peer.pid is not None, "a broker in a process of its own"
    measure(peer, WINDOW_S)  # what is made with the first requests is made
    before = _waits(peer.pid)
    figures, window_s = _timed(peer, measure)
    wakeups = (_waits(peer.pid) - before) / (figures.requests_per_s * window_s)
    with tempfile.TemporaryDirectory() as home, _traced(peer.pid, Path(home, "calls")) as calls:
        figures, window_s = _timed(peer, measure)
    requests = figures.requests_per_s * window_s
    each = sorted(((name, n / requests) for name, n in calls.items()), key=lambda one: -one[1])
    return Counted(sum(n for _, n in each), each[:SHOWN_CALLS], wakeups)


def _timed(peer: peers.Peer, measure: loads.Measure) -> tuple[Figures, float]:
    """What a window shows, and how long the load was on the broker: its warm-up is load, too."""
    figures = measure(peer, WINDOW_S)
    return figures, WINDOW_S + loads.WARM_S


def _waits(pid: int) -> int:
    """How often the threads of a process have waited; those that have ended are not counted."""
    found = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        said = WAITS.search((thread / "status").read_text())
        found += int(said[1]) if said else 0
    return found


@contextmanager
def _traced(pid: int, out: Path) -> Iterator[dict[str, int]]:
    """System calls by name, filled in at the end."""
    calls: dict[str, int] = {}
    tracer = subprocess.Popen(
        ["strace", "-f", "-c", "-U", "calls,name", "-o", str(out), "-p", str(pid)],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _wait_until(lambda: _is_traced(pid), "strace to be attached")
        yield calls
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.communicate(timeout=ATTACHED_S)
    for line in out.read_text().splitlines():
        count, _, name = line.strip().partition(" ")
        if count.isdigit() and name.strip() != "total":
            calls[name.strip()] = int(count)


def _is_traced(pid: int) -> bool:
    threads = [*Path(f"/proc/{pid}/task").iterdir()]
    return all("TracerPid:\t0\n" not in (one / "status").read_text() for one in threads)


def _wait_until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + ATTACHED_S
    while not is_so():
        if time.monotonic() > deadline:
            raise RuntimeError(f"waited {ATTACHED_S:.0f} s for {what}")
        time.sleep(0.01)


# -- the table -------------------------------------------------------------------------------------


def missing(skipped: list[str]) -> dict[str, str]:
    """The columns that cannot be had, and why."""
    tools = {"instructions": "valgrind", "calls": "strace"}
    return {
        column: "skipped" if column in skipped else f"{tool} is not installed"
        for column, tool in tools.items()
        if column in skipped or shutil.which(tool) is None
    }


def row(one: Row, peer: peers.Peer, without: dict[str, str]) -> list[str]:
    """The cells of a row; "-" for what is not measured."""
    cells = [one.load, "-", "-", "-", "-"]
    if one.path and "instructions" not in without:
        cells[1] = f"{instructions(one.path) / 1000:.0f}"
    if "calls" not in without:
        measure = next(load.measure for load in loads.LOADS if load.name == one.load)
        found = counted(peer, measure)
        named = ", ".join(f"{name} {n:.2f}" for name, n in found.most)
        cells[2:] = [f"{found.calls:.1f}", named, f"{found.wakeups:.2f}"]
    return cells


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", action="append", default=[], help="rows with this in their name")
    parser.add_argument("--skip", action="append", default=[], choices=["instructions", "calls"])
    arguments = parser.parse_args()
    chosen = [
        one
        for one in ROWS
        if not arguments.only or any(text in one.load for text in arguments.only)
    ]
    without = missing(arguments.skip)
    for column, why in without.items():
        print(f"without {column}: {why}", file=sys.stderr)
    rows = []
    with peers.fencepost() as peer:
        for one in chosen:
            rows.append(row(one, peer, without))
            print(*rows[-1], sep="; ", file=sys.stderr, flush=True)
    headings = ["load", "thousand instructions", "system calls", "the commonest", "wake-ups"]
    print(peers.table(headings, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
