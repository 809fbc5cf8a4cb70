"""`fencepost topics` against a served broker."""

from __future__ import annotations

import uuid
from typing import Any

from .commands import Fencepost


def test_a_topic_is_created_described_altered_and_deleted(run: Fencepost):
    name = f"t-{uuid.uuid4().hex[:10]}"
    created = run("topics", "create", name, "--partitions", "2", "--config", "retention.ms=1000")
    assert created.code == 0
    assert created.out.startswith(f"created topic {name} with id ")
    assert name in run("topics", "list").lines
    (described,) = run("topics", "describe", name, "--json").json
    assert described["name"] == name
    assert described["configs"]["retention.ms"] == "1000"
    assert [p["partition"] for p in described["partitions"]] == [0, 1]
    assert all(p["leader"] in p["replicas"] for p in described["partitions"])
    table = run("topics", "describe", name).lines
    assert table[0].startswith(f"topic {name}  id ")
    assert table[1].split() == [
        "partition",
        "leader",
        "epoch",
        "replicas",
        "isr",
        "offline",
        "elr",
        "last-known-elr",
    ]
    assert len(table) == 4
    assert run("topics", "alter", name, "--partitions", "5").code == 0
    listed = {entry["name"]: entry for entry in run("topics", "list", "--json").json}
    assert listed[name]["partitions"] == 5
    assert run("topics", "delete", name).out == f"deleted topic {name}\n"
    assert name not in run("topics", "list").lines


def test_creating_an_existing_topic_and_deleting_a_missing_one_fail_unless_allowed(
    run: Fencepost, topic: str
):
    again = run("topics", "create", topic)
    assert again.code == 1
    assert "TOPIC_ALREADY_EXISTS" in again.err
    assert again.err.count("\n") == 1
    assert run("topics", "create", topic, "--if-not-exists").code == 0
    missing = run("topics", "delete", f"{topic}-not")
    assert (missing.code, missing.out) == (1, "")
    assert f"cannot delete topic {topic}-not: no such topic [" in missing.err
    grown = run("topics", "alter", f"{topic}-not", "--partitions", "3")
    assert grown.code == 1
    assert f"{topic}-not: no such topic [" in grown.err
    assert run("topics", "delete", f"{topic}-not", "--if-exists").code == 0
    described = run("topics", "describe", f"{topic}-not")
    assert described.code == 1
    assert "no such topic" in described.err
    checked = run("topics", "create", f"{topic}-not", "--validate-only")
    assert checked.out == f"topic {topic}-not could be created\n"
    assert f"{topic}-not" not in run("topics", "list").lines


def test_a_pattern_has_to_match_whole_names(run: Fencepost, topic: str):
    found: Any = run("topics", "match", f"^{topic[:-1]}", "--json").json
    assert (found["matched"], found["in_part"]) == ([], [topic])
    assert found["advice"] == f"^{topic[:-1]}.*"
    told = run("topics", "match", f"^{topic[:-1]}")
    assert told.out == "(no topic matches)\n"
    assert f"'^{topic[:-1]}.*' would match all of these" in told.err
    whole = run("topics", "match", f"{topic[:-1]}.")
    assert (whole.out, whole.err) == (f"{topic}\n", "")
    refused = run("topics", "match", "a(")
    assert (refused.code, "`a(` is not valid" in refused.err) == (2, True)
