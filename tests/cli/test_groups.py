"""`fencepost groups` against a served broker."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import Any

from fencepost.cli.groups import COLUMNS, _progress
from fencepost.client.cluster import Cluster
from fencepost.client.group_consumer import GroupConsumer
from fencepost.client.groups import CommittedOffset, GroupDescription
from fencepost.client.metadata import TopicPartition

from ..waiting import eventually
from .commands import Fencepost, Ran


def test_a_group_is_described_with_its_lag(
    run: Fencepost, topic: str, produce: Callable[..., Ran], served: str
):
    produce(topic, "1\n2\n3\n", "--partition", "0")
    group = f"g-{uuid.uuid4().hex[:10]}"
    assert run("groups", "offsets", group, "--topic", topic, "--to", "1").code == 0
    lines = run("groups", "describe", group).lines
    assert lines[0].startswith(f"group {group}  state Empty ")
    assert [line.split() for line in lines[1:]] == [
        list(COLUMNS),
        [topic, "0", "1", "3", "2", "-", "-", "-"],
        [topic, "1", "0", "0", "0", "-", "-", "-"],
    ]
    settings: dict[str, Any] = {"group_id": group, "client_id": "me", "heartbeat_interval_ms": 50}
    stopped = threading.Event()

    def poll_until_stopped() -> None:
        """There is nothing to assign of a topic that is not there."""
        with Cluster(served, **settings) as cluster, GroupConsumer(cluster, [f"{topic}-x"]) as idle:
            while not stopped.is_set():
                idle.poll()

    polling = threading.Thread(target=poll_until_stopped)
    polling.start()
    try:
        with Cluster(served, **settings) as cluster, GroupConsumer(cluster, [topic]) as member:

            def told_of_both() -> Any:
                member.poll()
                found: Any = run("groups", "describe", group, "--json").json
                return found if found["state"] == "Stable" and len(found["members"]) == 2 else None

            told = eventually(told_of_both, "two members")
            moved = run("groups", "offsets", group, "--topic", topic, "--to", "latest")
            deleted = run("groups", "delete", group)
    finally:
        stopped.set()
        polling.join()
    assert (moved.code, deleted.code) == (1, 1)
    assert f"group {group} has members, and offsets can be set without them only" in moved.err
    assert f"cannot delete group {group}: the group has members [NON_EMPTY_GROUP]" in deleted.err
    rows = [
        (r["topic"], r["partition"], r["offset"], r["end"], r["lag"]) for r in told["partitions"]
    ]
    assert rows[:2] == [(topic, 0, 1, 3, 2), (topic, 1, 0, 0, 0)]
    assert {(row["client"], row["host"]) for row in told["partitions"]} == {("me", "/127.0.0.1")}
    assert {row["member"] for row in told["partitions"]} == {m["member"] for m in told["members"]}


def test_a_group_keeps_offsets_of_a_topic_that_is_gone_or_has_no_end(run: Fencepost):
    group = GroupDescription("g", "Stable", "consumer", "range", 1, ())
    gone = TopicPartition("gone", 0)
    (row,) = _progress(group, {gone: CommittedOffset(5, -1, "")}, {})
    assert (row["offset"], row["end"], row["lag"], row["member"]) == (5, None, None, None)


def test_groups_and_their_offsets(run: Fencepost, topic: str, produce: Callable[..., Ran]):
    produce(topic, "1\n2\n3\n", "--partition", "0")
    group = f"g-{uuid.uuid4().hex[:10]}"
    moved = run("groups", "offsets", group, "--topic", topic, "--to", "1", "--json")
    assert [(r["partition"], r["offset"], r["end"], r["lag"]) for r in moved.json] == [
        (0, 1, 3, 2),
        (1, 0, 0, 0),
    ]
    assert run("groups", "offsets", group, "--topic", topic, "--to", "latest").code == 0
    table = run("groups", "offsets", group).lines
    assert table[0].split() == ["topic", "partition", "offset", "end", "lag"]
    assert table[1].split() == [topic, "0", "3", "3", "0"]
    assert run("groups", "offsets", group, "--topic", topic, "--to", "sideways").code == 2
    assert group in {entry["group_id"] for entry in run("groups", "list", "--json").json}
    assert run("groups", "describe", group, "--json").json["state"] == "Empty"
    assert run("groups", "delete", group).out == f"deleted group {group}\n"
    assert group not in run("groups", "list").out
    for action in ("delete", "describe", "offsets"):
        gone = run("groups", action, group)
        assert (gone.code, gone.out) == (1, "")
        assert group in gone.err
        assert "no such group" in gone.err


def test_offsets_beyond_the_end(run: Fencepost, topic: str, produce: Callable[..., Ran]):
    produce(topic, "1\n2\n", "--partition", "0")
    ran = run("consume", topic, "--offset", "1")
    assert (ran.code, ran.lines) == (0, ["2"])
    assert f"{topic}-1 ends at offset 0" in ran.err
    ran = run("consume", topic, "--offset", "100")
    assert (ran.code, ran.out) == (1, "")
    assert f"nothing to read: {topic}-0 ends at offset 2, {topic}-1 ends at offset 0" in ran.err
