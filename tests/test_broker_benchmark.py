"""`benchmarks/broker`: what it makes of its figures, and one short run of it."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import peers  # noqa: E402 - the benchmarks are no package of the installation
from benchmarks.broker import loads, report, warming, work  # noqa: E402
from benchmarks.broker.pipes import Figures  # noqa: E402


def figures(cpu_us: float, load: float = 1.0) -> Figures:
    return Figures(1000.0, cpu_us, 0.5, 0.75, 1.0, 2.0, 3.0, load)


def test_medians_and_ratios_are_shown_and_what_was_not_measured_is_not_made_up() -> None:
    found = {
        "one record": {
            "ours": [figures(30), figures(10), figures(20)],
            "kafka": [figures(40)],
        },
        "a fetch": {"ours": [figures(5)], "kafka": []},
    }
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in report.table(found, "kafka").splitlines()[2:]
    ]
    assert [row[:4] for row in rows] == [
        ["one record", "ours", "20", "0.50"],
        ["one record", "kafka", "40", "1.00"],
        ["a fetch", "ours", "5.00", "-"],
        ["a fetch", "kafka", "-", "-"],
    ]
    assert rows[0][4:] == ["0.500", "0.75", "1,000", "1.00", "2.00", "3.00"]
    assert "1.25" not in report.table(found, None)
    drawn = report.picture(found, "ours", "kafka")
    assert "one record" in drawn
    assert "20 us of CPU, 40 us of CPU with kafka" in drawn
    assert "a fetch" not in drawn


def test_windows_of_a_busy_machine_are_told_of() -> None:
    quiet, busy = figures(1, load=0.5), figures(1, load=9.0)
    assert report.machine({"row": {"ours": [quiet]}}) == "load of the machine: 0.5 to 0.5"
    assert "in 1 of 2 windows: not a quiet" in report.machine({"row": {"ours": [quiet, busy]}})
    assert report.machine({}) == "nothing was measured"


def test_rows_of_work_are_those_of_loads_and_paths_that_there_are() -> None:
    assert {one.load for one in work.ROWS} <= {one.name for one in loads.LOADS}
    for path in (one.path for one in work.ROWS if one.path):
        assert (ROOT / "benchmarks/broker" / path[0]).is_file()


def test_a_column_of_work_without_its_tool_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work.shutil, "which", lambda tool: None if tool == "valgrind" else tool)
    assert work.missing([]) == {"instructions": "valgrind is not installed"}
    assert work.missing(["calls"]).keys() == {"instructions", "calls"}


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_system_calls_of_all_threads_are_counted(tmp_path: Path) -> None:
    asking = "import os, sys, threading\n"
    asking += "def ask():\n    while True: os.getppid(); os.getpgrp()\n"
    asking += "threading.Thread(target=ask, daemon=True).start()\nprint(flush=True)\nask()"
    with subprocess.Popen([sys.executable, "-c", asking], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            deadline = time.monotonic() + 30
            threads = Path(f"/proc/{process.pid}/task")
            while len([*threads.iterdir()]) < 2:
                assert time.monotonic() < deadline, "the thread has not begun"
            calls: dict[str, int] = {}
            while not {"getppid", "getpgrp"} <= calls.keys():  # neither may have had its turn
                assert time.monotonic() < deadline, calls
                with work._traced(process.pid, tmp_path / "calls") as calls:
                    time.sleep(0.05)
            assert calls["getppid"] > 0
            assert calls["getpgrp"] > 0
            assert "total" not in calls
        finally:
            process.kill()


class Warmed:
    """A load that costs each broker less every time, until it does not."""

    def __init__(self, **costs: list[float]) -> None:
        self.left: dict[str, Iterator[float]] = {
            name: itertools.chain(each, itertools.repeat(each[-1])) for name, each in costs.items()
        }
        self.measured = dict.fromkeys(costs, 0)

    def measure(self, peer: peers.Peer, _seconds: float) -> Figures:
        self.measured[peer.name] += 1
        return figures(next(self.left[peer.name]))


def test_warming_ends_for_each_broker_when_its_cost_has_stopped_falling() -> None:
    warmed = Warmed(ours=[20, 20], kafka=[200, 100, 50, 49])
    running = [peers.Peer(name, "", 0) for name in warmed.measured]
    load = loads.Load("any", warmed.measure)
    assert warming.warm(running, [load], 0.1, until=float("inf")) == []
    assert warmed.measured == {"ours": 2, "kafka": 4}
    assert warming.warm(running, [load], 0.1, until=0) == ["ours", "kafka"]


@pytest.mark.long
def test_a_run_prints_a_row_for_each_load_and_broker() -> None:
    bench = ROOT / "benchmarks/broker/bench.py"
    asked = ["--minutes", "0.05", "--only", "1 record x 50", "--peer", "fencepost"]
    ran = subprocess.run(
        [sys.executable, str(bench), *asked], capture_output=True, text=True, timeout=600
    )
    assert ran.returncode == 0, ran.stderr
    assert "| fencepost" in ran.stdout
    assert "load of the machine" in ran.stdout
    wrong = subprocess.run(
        [sys.executable, str(bench), "--only", "no such load"], capture_output=True, text=True
    )
    assert wrong.returncode == 2
    assert "no load is called so; there are:" in wrong.stderr
