"""`fencepost groups` against a served broker."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from fencepost.cli.failures import UsageError
from fencepost.cli.groups_offsets import _before_now_ms, existing
from fencepost.cli.times import now_ms
from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.consumer import Consumer
from fencepost.client.errors import BrokerError
from fencepost.client.group_descriptions import GroupDescription
from fencepost.client.groups import CommittedOffset
from fencepost.client.lag import PartitionLag
from fencepost.client.metadata import TopicPartition
from fencepost.views.groups import Progress, progress_of
from fencepost.views.times import iso_time
from fencepost.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from fencepost.wire.api.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    Topology,
)

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
        list(Progress.columns),
        [topic, "0", "1", "3", "2", "-", "-", "-"],
        [topic, "1", "0", "0", "0", "-", "-", "-"],
    ]
    settings: dict[str, Any] = {"group_id": group, "client_id": "me", "heartbeat_interval_ms": 50}
    stopped = threading.Event()

    def poll_until_stopped() -> None:
        """There is nothing to assign of a topic that is not there."""
        with Cluster(served, **settings) as cluster, Consumer(cluster, [f"{topic}-x"]) as idle:
            while not stopped.is_set():
                idle.poll()

    polling = threading.Thread(target=poll_until_stopped)
    polling.start()
    try:
        with Cluster(served, **settings) as cluster, Consumer(cluster, [topic]) as member:

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
    (row,) = progress_of(group.members, {gone: PartitionLag(CommittedOffset(5, -1, ""), None)})
    assert (row.offset, row.end, row.lag, row.member) == (5, None, None, None)


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


def reset(run: Fencepost, group: str, *words: str) -> dict[int, int]:
    """The offsets by partition that a reset has set."""
    ran = run("groups", "offsets", group, *words, "--json")
    assert ran.code == 0, ran.err
    rows: Any = ran.json
    return {row["partition"]: row["offset"] for row in rows}


def test_a_dry_run_says_what_would_be_set_and_sets_nothing(
    run: Fencepost, topic: str, produce: Callable[..., Ran]
):
    produce(topic, "1\n2\n3\n", "--partition", "0")
    group = f"g-{uuid.uuid4().hex[:10]}"
    words = ("groups", "offsets", group, "--topic", topic, "--to", "latest", "--dry-run")
    assert [line.split() for line in run(*words).lines] == [
        ["topic", "partition", "offset", "new-offset", "end"],
        [topic, "0", "-", "3", "3"],
        [topic, "1", "-", "0", "0"],
    ]
    assert group not in run("groups", "list").out
    assert reset(run, group, "--topic", f"{topic}:0", "--to", "1") == {0: 1}
    (row,) = run(
        "groups", "offsets", group, "--all-topics", "--to", "latest", "--dry-run", "--json"
    ).json
    assert (row["offset"], row["new_offset"]) == (1, 3)
    assert reset(run, group) == {0: 1}


def test_offsets_are_shifted_and_clamped_with_a_warning(
    run: Fencepost, topic: str, produce: Callable[..., Ran]
):
    produce(topic, "1\n2\n3\n4\n5\n", "--partition", "0")
    group = f"g-{uuid.uuid4().hex[:10]}"
    assert reset(run, group, "--topic", f"{topic}:0", "--to", "3") == {0: 3}
    assert reset(run, group, "--all-topics", "--shift-by", "-2") == {0: 1}
    assert reset(run, group, "--all-topics", "--shift-by", "1") == {0: 2}
    for words, warning, offset in (
        (("--shift-by", "50"), f"{topic}-0: 52 is beyond the log's end; 5 is taken", 5),
        (("--shift-by", "-50"), f"{topic}-0: -45 is before the log's start; 0 is taken", 0),
        (("--to", "99"), f"{topic}-0: 99 is beyond the log's end; 5 is taken", 5),
    ):
        ran = run("groups", "offsets", group, "--topic", f"{topic}:0", *words)
        assert ran.err == f"fencepost groups: {warning}\n"
        assert ran.lines[1].split() == [topic, "0", str(offset), "5", str(5 - offset)]
    refused = run("groups", "offsets", group, "--topic", topic, "--shift-by", "1")
    assert refused.code == 1
    assert f"group {group} has committed no offset of {topic}-1" in refused.err
    assert reset(run, group, "--topic", topic, "--to", "current") == {0: 5, 1: 0}


def test_offsets_are_set_by_time_and_by_duration(
    run: Fencepost, topic: str, produce: Callable[..., Ran]
):
    hour_ms, now = 3_600_000, now_ms()
    for hours in (5, 3, 1):
        line = f'{{"value": "{hours}", "timestamp": {now - hours * hour_ms}, "partition": 0}}\n'
        produce(topic, line, "--lines-json")
    group = f"g-{uuid.uuid4().hex[:10]}"
    words = ("--topic", f"{topic}:0")
    assert reset(run, group, *words, "--by-duration", "PT4H") == {0: 1}
    assert reset(run, group, *words, "--by-duration", "P1D") == {0: 0}
    assert reset(run, group, *words, "--by-duration", "PT0S") == {0: 3}
    assert reset(run, group, *words, "--to", iso_time(now - 2 * hour_ms)) == {0: 2}
    assert reset(run, group, *words, "--to", f"@{now - 4 * hour_ms}") == {0: 1}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--to", "1"), "say --topic or --all-topics"),
        (("--topic", "{topic}:0", "--to", "sideways"), "--to 'sideways': must be earliest, latest"),
        (("--topic", "{topic}:0,x", "--to", "1"), "must be TOPIC or TOPIC:0,1"),
        (
            ("--topic", "{topic}:\N{ARABIC-INDIC DIGIT ZERO}", "--to", "1"),
            "must be TOPIC or TOPIC:0,1",
        ),
        (("--topic", "{topic}:7", "--to", "1"), "has no partition 7"),
        (("--topic", "{topic}", "--by-duration", "1h"), "--by-duration '1h': must be like"),
        (("--topic", "{topic}", "--by-duration", "PT"), "--by-duration 'PT': must be like"),
        (("--topic", "{topic}", "--by-duration", "P999999D"), "allowed is up to 100000 days"),
        (("--topic", "{topic}", "--dry-run"), "--dry-run goes with"),
    ],
)
def test_resets_that_cannot_be(run: Fencepost, topic: str, words: tuple[str, ...], why: str):
    ran = run("groups", "offsets", "g", *(word.format(topic=topic) for word in words))
    assert (ran.code, ran.out) == (2, "")
    assert why in ran.err


def test_committed_offsets_are_deleted_by_partition(
    run: Fencepost, topic: str, cluster: Cluster, served: str
):
    group = f"g-{uuid.uuid4().hex[:10]}"
    assert reset(run, group, "--topic", topic, "--to", "latest") == {0: 0, 1: 0}
    assert run("groups", "delete-offsets", group, f"{topic}:1").lines[1].split() == [
        *(topic, "1", "deleted", "-")
    ]
    assert reset(run, group) == {0: 0}
    settings: dict[str, Any] = {"group_id": group, "heartbeat_interval_ms": 50}
    with Cluster(served, **settings) as joined, Consumer(joined, [topic]) as member:
        eventually(lambda: member.poll() or member.assignment, "an assignment")
        refused = run("groups", "delete-offsets", group, topic)
        dry = run("groups", "offsets", group, "--topic", topic, "--to", "1", "--dry-run")
    assert (refused.code, dry.code) == (1, 1)
    assert refused.out.count("GROUP_SUBSCRIBED_TO_TOPIC") == 2
    assert f"group {group} has members" in dry.err
    assert (
        "no such topic, nor an offset of it"
        in run("groups", "delete-offsets", group, f"{topic}-not").err
    )
    unknown = run("groups", "delete-offsets", f"{group}-not", topic)
    assert (unknown.code, "GROUP_ID_NOT_FOUND" in unknown.err) == (1, True)


def test_offsets_of_a_deleted_topic_are_left_out_of_a_reset(
    cluster: Cluster, topic: str, capsys: pytest.CaptureFixture[str]
):
    there = TopicPartition(topic, 1)
    found = existing(Admin(cluster), [there, TopicPartition("gone", 0), TopicPartition(topic, 9)])
    assert found == [there]
    assert capsys.readouterr().err == (
        "fencepost groups: gone-0 does not exist any more, and is left out\n"
        f"fencepost groups: {topic}-9 does not exist any more, and is left out\n"
    )


@pytest.mark.parametrize(
    ("text", "ago_ms"),
    [
        ("P1DT2H3M4.5S", 86_400_000 + 2 * 3_600_000 + 3 * 60_000 + 4_500),
        ("PT1440M", 86_400_000),
        ("pt0.25s", 250),
        ("PT240000H", 864_000_000_000),
        ("PT14400000M", 864_000_000_000),
        ("PT864000000S", 864_000_000_000),
    ],
)
def test_a_duration_is_counted_back_from_now(text: str, ago_ms: int):
    earliest = now_ms()
    found = _before_now_ms(text)
    assert earliest - ago_ms <= found <= now_ms() - ago_ms


@pytest.mark.parametrize("text", ["PT2400001H", "PT144000001M", "PT8640000001S", "P100000DT1S"])
def test_a_duration_has_a_bound_in_every_unit(text: str):
    assert _before_now_ms("PT2400000H") == _before_now_ms("P100000D") == 0
    with pytest.raises(UsageError, match="allowed is up to 100000 days"):
        _before_now_ms(text)


def test_current_is_what_is_committed_or_else_the_end(
    run: Fencepost, topic: str, produce: Callable[..., Ran]
):
    for partition, values in ((0, "a\nb\nc\n"), (1, "d\ne\n")):
        produce(topic, values, "--partition", str(partition))
    group = f"g-{uuid.uuid4().hex[:10]}"
    assert reset(run, group, "--topic", f"{topic}:0", "--to", "1") == {0: 1}
    assert reset(run, group, "--topic", topic, "--to", "current") == {0: 1, 1: 2}


# -- groups of the consumer protocol ---------------------------------------------------------------


def heartbeat(cluster: Cluster, group: str, member_id: str, epoch: int, **said: Any) -> Any:
    """A heartbeat's answer."""
    if epoch == 0:
        said |= {"rebalance_timeout_ms": 60_000, "topic_partitions": []}
    request = ConsumerGroupHeartbeatRequest(
        group_id=group, member_id=member_id, member_epoch=epoch, **said
    )
    return cluster.request_coordinator(group, request, lambda r: r.error_code, what="heartbeat")


def test_what_members_of_a_consumer_group_wait_for(run: Fencepost, topic: str, served: str):
    group = f"g-{uuid.uuid4().hex[:10]}"
    with Cluster(served) as cluster:
        first = heartbeat(cluster, group, "a", 0, subscribed_topic_names=[topic])
        assert run("groups", "explain", group).lines[1:] == ["no member waits: 1 member at rest"]
        owned = first.assignment.topic_partitions
        joined = heartbeat(cluster, group, "b", 0, subscribed_topic_names=[topic])
        epochs = {"b": joined.member_epoch}

        def waits() -> Any:
            """The target is computed a second after the one before, in a heartbeat of either."""
            epochs["b"] = heartbeat(cluster, group, "b", epochs["b"]).member_epoch
            heartbeat(cluster, group, "a", first.member_epoch, topic_partitions=owned)
            described: Any = run("groups", "describe", group, "--json").json
            states = {one["member"]: one["state"] for one in described["members"]}
            if states != {"a": "UnrevokedPartitions", "b": "UnreleasedPartitions"}:
                return None
            found: Any = run("groups", "explain", group, "--json").json
            return found if found["waits"] and found["waits"][0]["holder_is_asked"] else None

        found = eventually(waits, "b to wait for a")
        (wait,) = found["waits"]
        assert (wait["member"], wait["holder"]) == ("b", "a")
        assert wait["partition"].rpartition("-")[0] == topic
        assert now_ms() - 60_000 < wait["since_ms"] <= now_ms()
        assert wait["ends_ms"] == wait["since_ms"] + 60_000
        assert f"b at /127.0.0.1 waits for {wait['partition']} since" in (
            run("groups", "explain", group).out
        )
        described: Any = run("groups", "describe", group, "--json").json
        assert (described["kind"], described["state"]) == ("consumer", "Reconciling")
        table = run("groups", "describe", group, "--members").lines
        assert table[0].endswith(
            f"epoch {described['group_epoch']}  assignment-epoch {described['assignment_epoch']}"
        )
        assert [line.split()[0] for line in table[1:]] == ["member", "a", "b"]
        assert [sorted(one.partitions) for one in owned] == [[0, 1]]
        for member_id in "ab":
            heartbeat(cluster, group, member_id, -1)


def test_groups_are_listed_by_type_state_and_protocol(run: Fencepost, topic: str, served: str):
    classic, consumer = (f"g-{uuid.uuid4().hex[:10]}" for _ in range(2))
    assert run("groups", "offsets", classic, "--topic", topic, "--to", "1").code == 0
    with Cluster(served) as cluster:
        heartbeat(cluster, consumer, "a", 0, subscribed_topic_names=[topic])

        def listed(*filters: str) -> set[str]:
            found: Any = run("groups", "list", *filters, "--json").json
            return {one["group_id"] for one in found} & {classic, consumer}

        assert listed() == {classic, consumer}
        assert listed("--type", "Consumer") == {consumer}
        assert listed("--type", "classic", "--type", "share") == {classic}
        assert listed("--type", "share") == set()
        assert listed("--state", "stable") == {consumer}
        assert listed("--state", "empty", "--type", "consumer") == set()
        assert listed("--protocol", "CONSUMER") == {consumer}
        heartbeat(cluster, consumer, "a", -1)
    assert run("groups", "delete", consumer).code == 0
    assert run("groups", "explain", consumer).code == 1


def test_a_streams_group_is_described_by_its_tasks(run: Fencepost, topic: str, served: str):
    group = f"g-{uuid.uuid4().hex[:10]}"
    part = Subtopology(subtopology_id="0", source_topics=[topic])
    request = StreamsGroupHeartbeatRequest(
        group_id=group,
        member_id="a",
        rebalance_timeout_ms=60_000,
        process_id="p",
        topology=Topology(subtopologies=[part]),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )
    with Cluster(served) as cluster:
        cluster.request_coordinator(group, request, lambda r: r.error_code, what="heartbeat")
        admin = Admin(cluster)
        assert admin.describe_streams_group(group).subtopologies == {"0": (topic,)}
        described: Any = run("groups", "describe", group, "--json").json
        assert (described["kind"], described["subtopologies"]) == ("streams", {"0": [topic]})
        (member,) = described["members"]
        assert (member["member"], member["process"]) == ("a", "p")
        lines = run("groups", "describe", group).lines
        assert lines[0].startswith(f"group {group}  state {described['state']}")
        assert lines[1].split()[:4] == ["member", "client-id", "host", "epoch"]
        assert lines[2].split()[0] == "a"
        with pytest.raises(BrokerError, match="GROUP_ID_NOT_FOUND"):
            admin.describe_group(group)
