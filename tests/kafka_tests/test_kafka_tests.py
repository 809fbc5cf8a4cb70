"""Apache Kafka's own integration tests on nodes of Fencepost: what passed before still passes.

A class at a time, for hours in all; `python -m tests.kafka_tests` runs them in parallel and can be
interrupted: what it has run is not run again here, and the other way round.
"""

import pytest

from . import ledger, suite as kafka

PASSED = {name: found["passed"] for name, found in ledger.load().items() if found["passed"]}


@pytest.fixture(scope="module")
def suites() -> dict[str, kafka.Suite]:
    """All classes by name; the tests are skipped where the jars cannot be had."""
    reason = kafka.why_not()
    if reason is not None:
        pytest.skip(f"Apache Kafka's tests cannot be run: {reason}")
    return {suite.name: suite for suite in kafka.suites()}


@pytest.mark.kafka_tests
@pytest.mark.parametrize("name", sorted(PASSED))
def test_what_passed_passes(suites: dict[str, kafka.Suite], name: str):
    suite = suites[name]
    kafka.run([suite])
    came = ledger.outcome(suite, kafka.results(suite))
    lost = {
        execution: came["others"].get(execution, "was not run")
        for execution in sorted(set(PASSED[name]) - set(came["passed"]))
    }
    assert not lost, "\n".join(f"{execution}: {why}" for execution, why in lost.items())
