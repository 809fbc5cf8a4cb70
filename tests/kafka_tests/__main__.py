"""`python -m tests.kafka_tests [PART OF A NAME...]`: runs what has not been run, and says so."""

from __future__ import annotations

import collections
import os
import sys
from concurrent.futures import ThreadPoolExecutor

from . import suite as kafka

CLASSES = 5
"""As many classes as a JVM runs."""


def main(parts: list[str]) -> int:
    """Run the classes with one of `parts` in their names, all of them without."""
    reason = kafka.why_not()
    if reason is not None:
        print(f"Apache Kafka's tests cannot be run: {reason}", file=sys.stderr)
        return 1
    kafka.compiled()
    chosen = [
        suite
        for suite in kafka.suites()
        if not kafka.is_done(suite) and (not parts or any(part in suite.name for part in parts))
    ]
    runs = [chosen[start : start + CLASSES] for start in range(0, len(chosen), CLASSES)]
    with ThreadPoolExecutor(int(os.environ.get("FENCEPOST_KAFKA_TESTS_JOBS", "1"))) as pool:
        for suites, _ in zip(runs, pool.map(kafka.run, runs)):
            for suite in suites:
                count = collections.Counter(line["status"] for line in kafka.results(suite))
                told = ", ".join(f"{count[status]} {status}" for status in sorted(count))
                print(f"{suite.name}: {told}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
