"""The tables of docs/KAFKA_TESTS.md, from `tests/kafka_tests/ledger.json`; see `docs_tables`."""

from __future__ import annotations

import collections
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

LEDGER = Path(__file__).resolve().parent.parent / "tests" / "kafka_tests" / "ledger.json"
KINDS = ("failed", "not offered", "internals", "skipped")
"""In the order of the columns."""

AREAS = {
    "security": ("SASL", "SSL", "TLS", "authorizer", "principal", "SCRAM"),
    "tiered storage": ("remote.log",),
    "quotas": ("quota",),
    "plugins": (".policy.class", "metric.reporters", ".assignors"),
    "observation": ("client metrics", "loggers"),
}
"""What is not offered, by words of the reasons."""


def _ledger() -> dict[str, Any]:
    ledger: dict[str, Any] = json.loads(LEDGER.read_text())
    return ledger


def totals() -> str:
    """How many executions of each module passed, and what became of the others."""
    rows = []
    everything: collections.Counter[str] = collections.Counter()
    by_module: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    classes: collections.Counter[str] = collections.Counter()
    for found in _ledger().values():
        by_module[found["module"]].update(_counted(found))
        everything.update(_counted(found))
        classes[found["module"]] += 1
    for module in sorted(by_module):
        rows.append([f"`{module}`", classes[module], *_columns(by_module[module])])
    rows.append(["all", classes.total(), *_columns(everything)])
    return _table(["module", "classes", "passed", *KINDS], rows)


def by_class() -> str:
    """The same of each class."""
    rows = [[f"`{name}`", *_columns(_counted(found))] for name, found in sorted(_ledger().items())]
    return _table(["class", "passed", *KINDS], rows)


def failures() -> str:
    """Every method that was offered all it needs and failed, with the reason."""
    return _reasons("failed")


def not_offered() -> str:
    """What is not offered, by area, and how many executions ask for it."""
    needs = _needs("not offered")
    areas: collections.Counter[str] = collections.Counter()
    for need, count in needs.items():
        areas[_area(need)] += count
    rows = [
        [f"{area}: {total}" if is_first else "", _cell(need), needs[need]]
        for area, total in sorted(areas.items(), key=_most_first)
        for is_first, need in _first_marked(need for need in needs if _area(need) == area)
    ]
    return _table(["area", "what", "executions"], rows)


def internals() -> str:
    """The objects inside of Kafka's process, and how many executions ask for them."""
    rows = [[_cell(need), count] for need, count in _needs("internals").items()]
    return _table(["what", "executions"], rows)


def _counted(found: dict[str, Any]) -> collections.Counter[str]:
    counted = collections.Counter(kind for kind, _ in found["others"].values())
    counted["passed"] = len(found["passed"])
    return counted


def _columns(counted: collections.Counter[str]) -> list[object]:
    return [counted[kind] for kind in ("passed", *KINDS)]


def _reasons(wanted: str) -> str:
    rows = []
    for name, found in sorted(_ledger().items()):
        reasons: dict[tuple[str, str], int] = collections.Counter()
        for execution, (kind, reason) in found["others"].items():
            if kind == wanted:
                reasons[execution.partition("#")[0], reason] += 1
        for (method, reason), count in sorted(reasons.items()):
            rows.append([f"`{name.rpartition('.')[2]}`", f"`{method}`", count, _cell(reason)])
    return _table(["class", "method", "executions", "reason"], rows)


def _needs(wanted: str) -> dict[str, int]:
    """What the executions of this kind ask for, most first."""
    needs: collections.Counter[str] = collections.Counter()
    for found in _ledger().values():
        needs.update(reason for kind, reason in found["others"].values() if kind == wanted)
    return dict(sorted(needs.items(), key=_most_first))


def _area(need: str) -> str:
    """The area of what is not offered."""
    found = (area for area, words in AREAS.items() if any(word in need for word in words))
    return next(found, "others")


def _first_marked(needs: Iterable[str]) -> Iterator[tuple[bool, str]]:
    return ((number == 0, need) for number, need in enumerate(needs))


def _most_first(row: tuple[str, int]) -> tuple[int, str]:
    return -row[1], row[0]


def _cell(text: str) -> str:
    """What would end a cell or begin a tag, so that it shows."""
    for letter, shown in (("\\", "\\\\"), ("|", "\\|"), ("<", "\\<"), ("*", "\\*"), ("_", "\\_")):
        text = text.replace(letter, shown)
    return text.replace("\n", " ")


def _table(head: list[str], rows: Iterable[Iterable[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)
