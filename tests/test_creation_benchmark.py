"""`benchmarks/creation`: the requests it makes of what is wanted, its table, and one short run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.creation import bench  # noqa: E402 - the benchmarks are no package
from benchmarks.creation.asking import Wanted, pieces_of  # noqa: E402


@pytest.mark.parametrize(
    ("wanted", "records_max", "requests"),
    [
        (Wanted(1, 10_000), 20_000, 1),
        (Wanted(1, 10_000), 10_000, 2),
        (Wanted(1_000, 10), 10_000, 2),
        (Wanted(1_000, 1), 10_000, 1),
        (Wanted(2, 25), 10, 6),
    ],
)
def test_no_request_is_larger_than_a_cluster_takes(
    wanted: Wanted, records_max: int, requests: int
) -> None:
    pieces = pieces_of(wanted, records_max)
    assert len(pieces) == requests
    made: dict[str, int] = {}
    for creation in pieces.creations:
        assert sum(1 + topic.num_partitions for topic in creation.topics) <= records_max
        made |= {topic.name: topic.num_partitions for topic in creation.topics}
    for addition in pieces.additions:
        [topic] = addition.topics
        assert 0 < topic.count - made[topic.name] <= records_max
        made[topic.name] = topic.count
    assert made == dict.fromkeys(wanted.names, wanted.partitions)


def test_what_was_not_measured_is_not_made_up() -> None:
    wanted = Wanted(1, 10)
    ours = bench.Cost(1.0, 2.0, 3.0, 0.5, 1.0, 1, 2.0)
    kinds = list(bench.brokers.KINDS)
    found = {("one", wanted, kinds[0]): [ours, ours], ("one", wanted, kinds[1]): []}
    rows = bench.rows_of(found, kinds)
    assert rows[0][3:] == ["1.00", "2.00", "3.00", "0.50", "1.00", "1", "2.0"]
    assert set(rows[1][3:]) == {"-"}
    assert rows[2][3:8] == ["-"] * 5
    found["one", wanted, kinds[1]] = [ours._replace(led_s=4.0)]
    assert bench.rows_of(found, kinds)[2][3:8] == ["1.00", "0.50", "1.00", "1.00", "1.00"]


@pytest.mark.long
def test_a_run_prints_a_row_for_each_kind() -> None:
    script = ROOT / "benchmarks/creation/bench.py"
    asked = [
        "--minutes",
        "1",
        "--nodes",
        "one",
        "--kind",
        "fencepost",
        "--only",
        "10 topics of 100",
    ]
    ran = subprocess.run(
        [sys.executable, str(script), *asked], capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0, ran.stderr
    assert "| one   | 10 topics of 100 | fencepost |" in ran.stdout
    wrong = subprocess.run(
        [sys.executable, str(script), "--only", "no such case"], capture_output=True, text=True
    )
    assert wrong.returncode == 2
    assert "no case is called so; there are:" in wrong.stderr
