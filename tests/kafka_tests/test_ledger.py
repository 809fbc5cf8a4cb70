"""The ledger of Apache Kafka's tests, and how reasons are found in errors. Needs neither Maven nor
Java."""

import json

import pytest

from . import ledger, reasons, suite as kafka

CLASS = "[engine:junit-jupiter]/[class:a.b.SomeTest]"


def line(status: str, method: str = "testIt", number: int | None = None, error: str = ""):
    invocation = "" if number is None else f"/[test-template-invocation:#{number}]"
    return {
        "id": f"{CLASS}/[method:{method}()]{invocation}",
        "name": f"{method} with words",
        "method": method,
        "status": status,
        "error": error,
    }


def test_the_ledger_says_of_every_execution_one_thing():
    found = ledger.load()
    assert found
    for name, outcome in found.items():
        assert outcome["module"] in kafka.SUITES, name
        assert not set(outcome["passed"]) & set(outcome["others"]), name
        assert {kind for kind, _ in outcome["others"].values()} <= set(reasons.KINDS), name
        assert all(reason for _, reason in outcome["others"].values()), name


def test_what_is_left_out_is_in_no_ledger():
    assert not [method for method in kafka.LEFT_OUT if method in ledger.LEDGER.read_text()]


def test_reasons_that_are_known_belong_to_what_is_in_the_ledger():
    simple = {name.rpartition(".")[2] for name in ledger.load()}
    assert {key.partition("#")[0] for key in reasons.KNOWN} <= simple


def test_lines_become_an_outcome():
    lines = [
        line("began", number=1),
        line("successful", number=1),
        line("began", number=2),
        line("failed", number=2, error="java.lang.AssertionError: 1 is not 2\n\tat a.b.C"),
        line("skipped", "testNever", error="KAFKA-1 is open"),
        line("began", "testHangs"),
        {"id": CLASS, "name": "SomeTest", "status": "end"},
    ]
    suite = kafka.Suite("kafka-tools", "a.b.SomeTest")
    assert ledger.outcome(suite, json.loads(json.dumps(lines))) == {
        "module": "kafka-tools",
        "passed": ["testIt#1"],
        "others": {
            "testIt#2": ["failed", "AssertionError: 1 is not 2"],
            "testNever": ["skipped", "KAFKA-1 is open"],
            "testHangs": ["failed", "it did not end"],
        },
    }


def test_an_interrupted_run_says_nothing_of_methods_before_their_turn():
    known = {
        "module": "kafka-tools",
        "passed": ["testA#1", "testB"],
        "others": {"testA#2": ["failed", "old"], "testC": ["not offered", "TLS"]},
    }
    found = {"module": "kafka-tools", "passed": ["testA#2"], "others": {}}
    assert ledger.with_rest(known, found) == {
        "module": "kafka-tools",
        "passed": ["testA#2", "testB"],
        "others": {"testC": ["not offered", "TLS"]},
    }


@pytest.mark.parametrize(
    ("error", "kind", "reason"),
    [
        ("fencepost.NeedsInternals: LogManager.getLog\n\tat x", "internals", "LogManager.getLog"),
        (
            "java.lang.NoSuchMethodError: 'int kafka.server.BrokerServer.x()'",
            "internals",
            "BrokerServer.x",
        ),
        (
            "e: fencepost.NotOffered: fencepost serve: authorizer.class.name='a' is not allowed",
            "not offered",
            "the config authorizer.class.name",
        ),
        (
            "fencepost.NotOffered: a listener of security protocol SSL",
            "not offered",
            "a listener of security protocol SSL",
        ),
        ("org.x.SomeException: said | so", "failed", "SomeException: said | so"),
    ],
)
def test_the_reason_is_found_in_the_error(error, kind, reason):
    assert reasons.of("a.b.SomeTest", "testIt#1", "failed", error) == (kind, reason)
