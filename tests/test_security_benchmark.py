"""`benchmarks/security`: its tables, and one short run of each of its parts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.security import acls, logins, quotas_beside  # noqa: E402 - no package


def cells(table: str) -> list[list[str]]:
    """The rows of a table, without its heading."""
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]


def test_authorization_is_compared_with_the_same_broker_without_it() -> None:
    found = {
        ("ours", acls.WITHOUT): [(300.0, 10.0), (100.0, 30.0), (200.0, 20.0)],
        ("ours", "100"): [(190.0, 21.0)],
        ("kafka", acls.WITHOUT): [(100.0, 40.0)],
        ("kafka", "100"): [(100.0, 30.0)],
    }
    assert sorted(cells(acls.table(found))) == [
        ["kafka", "100", "100", "30.0", "-25 %"],
        ["kafka", "none", "100", "40.0", "+0 %"],
        ["ours", "100", "190", "21.0", "+5 %"],
        ["ours", "none", "200", "20.0", "+0 %"],
    ]


def test_all_rules_but_one_are_about_others() -> None:
    rules = {acls.binding(number) for number in range(100)}
    assert len(rules) == 100
    assert [rule.name for rule in rules if rule.principal == "User:*"] == [acls.PREFIX]
    assert all(not rule.name.startswith(acls.PREFIX) for rule in rules - {acls.binding(0)})


def test_logins_are_shown_by_mechanism_with_the_first() -> None:
    figures = [logins.Figures(10, 1, 3), logins.Figures(30, 3, 1), logins.Figures(20, 2, 2)]
    found = {("ours", "PLAIN"): figures, ("kafka", "PLAIN"): figures[:1]}
    firsts = {("ours", "PLAIN"): 40.0, ("kafka", "PLAIN"): 70.5}
    assert cells(logins.table(found, firsts)) == [
        ["PLAIN", "ours", "20", "2.00", "2.00", "40.00"],
        ["PLAIN", "kafka", "10", "1.00", "3.00", "70.50"],
    ]


def test_charging_is_compared_with_the_same_broker_without_quotas() -> None:
    without, charged = quotas_beside.CASES
    found = {
        ("Fetch", "ours", without): [30.0, 10.0, 20.0],
        ("Fetch", "ours", charged): [23.0],
        ("Fetch", "kafka", without): [50.0],
        ("Fetch", "kafka", charged): [45.0, 47.0],
    }
    assert cells(quotas_beside.table(found)) == [
        ["Fetch", "kafka", without, "50.0", "+0.0"],
        ["Fetch", "kafka", charged, "46.0", "-4.0"],
        ["Fetch", "ours", without, "20.0", "+0.0"],
        ["Fetch", "ours", charged, "23.0", "+3.0"],
    ]


@pytest.mark.long
@pytest.mark.parametrize(
    ("part", "words", "rows"),
    [
        ("logins", ["--peer", "fencepost", "--rounds", "0", "--seconds", "0.1"], 6),
        ("acls", ["--peer", "fencepost", "--rounds", "0", "--seconds", "0.1", "--acls", "2"], 2),
        ("quotas", ["--rounds", "1", "--requests", "32"], 6),
        ("quotas_beside", ["--peer", "fencepost", "--rounds", "1", "--seconds", "0.1"], 4),
    ],
)
def test_a_short_run_prints_its_rows(part: str, words: list[str], rows: int) -> None:
    ran = subprocess.run(
        [sys.executable, str(ROOT / f"benchmarks/security/{part}.py"), *words],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stderr
    shown = [line for line in ran.stdout.splitlines() if "fencepost" in line or " us " in line]
    assert len(shown) >= rows, ran.stdout
