"""What came of Apache Kafka's tests, in `ledger.json`, from which docs/KAFKA_TESTS.md is made.

    python -m tests.kafka_tests.ledger      (after make kafka-tests: takes over what has been run)

For each class: the executions that passed, and for each other one its kind and reason. A kind is
one of `KINDS`; `reasons.py` finds it in the error.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from . import reasons, suite as kafka

LEDGER = Path(__file__).parent / "ledger.json"
INVOCATION = re.compile(r"\[test-template-invocation:#(\d+)\]")


def load() -> dict[str, Any]:
    """The ledger: by class, its module, what passed and what did not."""
    return json.loads(LEDGER.read_text()) if LEDGER.exists() else {}


def save(ledger: dict[str, Any]) -> None:
    """Write it, sorted, so that a later run differs in what came out otherwise."""
    LEDGER.write_text(json.dumps(ledger, indent=1, sort_keys=True) + "\n")


def outcome(suite: kafka.Suite, lines: list[dict[str, Any]]) -> dict[str, Any]:
    """What the lines of a class come to."""
    passed: set[str] = set()
    others: dict[str, list[str]] = {}
    is_whole = any(line["status"] == "end" for line in lines)  # if not, one may be at work
    open_tests = {execution(line): line for line in lines if line["status"] == "began"}
    for line in lines:
        if line["status"] in ("began", "end"):
            continue
        name = execution(line)
        open_tests.pop(name, None)
        if line["status"] == "successful":
            passed.add(name)
            others.pop(name, None)
        elif name not in passed:
            others[name] = list(reasons.of(suite.name, name, line["status"], line.get("error", "")))
    for name in open_tests if is_whole else ():
        others[name] = list(reasons.of(suite.name, name, "killed", "it did not end"))
    return {"module": suite.module, "passed": sorted(passed), "others": others}


def execution(line: dict[str, Any]) -> str:
    """A short name of one execution: the method and, where it has several, its number."""
    method = line.get("method") or "(class)"
    number = INVOCATION.search(line["id"])
    return f"{method}#{number[1]}" if number else str(method)


def with_rest(known: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """What came of a class whose run was interrupted; methods before their turn keep theirs."""
    had = {name.partition("#")[0] for name in (*found["passed"], *found["others"])}
    others = {
        name: why for name, why in known["others"].items() if name.partition("#")[0] not in had
    }
    passed = {name for name in known["passed"] if name.partition("#")[0] not in had}
    return {
        "module": found["module"],
        "passed": sorted(passed.union(found["passed"])),
        "others": others | found["others"],
    }


def main() -> int:
    """Take over everything that has been run."""
    ledger = load()
    for suite in kafka.suites():
        found = outcome(suite, kafka.results(suite))
        if found["passed"] or found["others"]:
            if suite.name in ledger and not kafka.is_done(suite):
                found = with_rest(ledger[suite.name], found)
            ledger[suite.name] = found
    save(ledger)
    return 0


if __name__ == "__main__":
    sys.exit(main())
