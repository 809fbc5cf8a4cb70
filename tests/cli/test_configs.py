"""`fencepost configs` against a served broker."""

from __future__ import annotations

from .commands import Fencepost, Ran


def test_configs_of_a_topic_are_set_appended_to_and_deleted(run: Fencepost, topic: str):
    changed = run("configs", "alter", "--topic", topic, "--set", "retention.ms=5000")
    assert (changed.code, changed.out) == (0, f"1 config(s) of topic {topic} changed\n")
    shown = {
        entry["name"]: entry
        for entry in run("configs", "describe", "--topic", topic, "--json").json
    }
    assert (shown["retention.ms"]["value"], shown["retention.ms"]["source"]) == ("5000", "topic")
    everything = run("configs", "describe", "--topic", topic, "--all", "--json").json
    assert len(everything) > 20
    (one,) = run("configs", "describe", "--topic", topic, "retention.ms", "--json").json
    assert one["value"] == "5000"
    assert run("configs", "alter", "--topic", topic, "--delete", "retention.ms").code == 0
    assert "retention.ms" not in run("configs", "describe", "--topic", topic).out
    wrong = run("configs", "alter", "--topic", topic, "--set", "retention.ms=soon")
    assert wrong.code == 1
    reason = "Invalid value soon for configuration retention.ms: Not a number of type LONG"
    assert f"cannot alter configs of topic {topic}: {reason}" in wrong.err
    assert run("configs", "describe", "--topic", topic, "no.such.config").code == 2
    mistyped = run("configs", "describe", "--topic", topic, "retention.mss")
    assert mistyped.code == 2
    assert "did you mean retention.ms for retention.mss?" in mistyped.err
    for command in (
        ("configs", "alter", "--topic", topic, "--set", "cleanup.polcy=compact"),
        ("topics", "create", "other", "--config", "cleanup.polcy=compact"),
    ):
        mistyped = run(*command)
        assert mistyped.code == 1
        assert "did you mean cleanup.policy for cleanup.polcy?" in mistyped.err
    assert "node.id" in run("configs", "describe", "--broker", "1", "--all").out
    assert "log.dirs" in run("configs", "describe", "--broker", "1").out
    assert "log.dirs" not in run("configs", "describe", "--topic", topic).out
    unknown = run("configs", "describe", "--broker", "77")
    assert unknown.code == 1
    assert "no broker '77'" in unknown.err


def test_configs_of_one_broker_and_of_all(run: Fencepost):
    def change(action: str, *whose: str) -> Ran:
        return run("configs", "alter", *whose, action, "log.cleaner.backoff.ms=14000")

    def described(*whose: str) -> list[list[str]]:
        ran = run("configs", "describe", *whose, "log.cleaner.backoff.ms")
        return [line.split(maxsplit=2) for line in ran.lines[1:]]

    one, everyone = ("--broker", "1"), ("--broker-defaults",)
    assert change("--set", *everyone).out == "1 config(s) of all brokers changed\n"
    source = "dynamic default broker"
    try:
        assert described(*one) == [["log.cleaner.backoff.ms", "14000", source]]
        assert described(*everyone) == [["log.cleaner.backoff.ms", "14000", source]]
        assert change("--set", *one).out == "1 config(s) of broker 1 changed\n"
        assert described(*one) == [["log.cleaner.backoff.ms", "14000", "dynamic broker"]]
    finally:
        for whose in (one, everyone):
            run("configs", "alter", *whose, "--delete", "log.cleaner.backoff.ms")
    assert described(*one) == [["log.cleaner.backoff.ms", "15000", "default"]]
    for whose, text in ((one, "broker 1"), (everyone, "all brokers")):
        refused = run("configs", "alter", *whose, "--set", "node.id=9")
        assert refused.code == 1
        assert f"cannot alter configs of {text}: " in refused.err


def test_configs_of_a_group_that_need_not_exist(run: Fencepost):
    key = "consumer.session.timeout.ms"

    def described(*more: str) -> list[list[str]]:
        return [line.split() for line in run("configs", "describe", *group, *more).lines[1:]]

    group = ("--group", "billing")
    assert described() == []
    assert described(key) == [[key, "45000", "default"]]
    changed = run("configs", "alter", *group, "--set", f"{key}=50000")
    assert changed.out == "1 config(s) of group billing changed\n"
    try:
        assert described() == [[key, "50000", "group"]]
        assert len(described("--all")) > 20
        refused = run("configs", "alter", *group, "--set", f"{key}=5")
        assert refused.code == 1
        assert f"{key} must be in the range 45000 to 60000 inclusive." in refused.err
    finally:
        run("configs", "alter", *group, "--delete", key)
    assert described() == []
