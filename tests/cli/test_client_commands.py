"""`fencepost topics|configs|groups|produce|consume|epochs` against a served broker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fencepost.cli.cluster_options import BOOTSTRAP_VARIABLE
from fencepost.cli.consume import parse_time_ms
from fencepost.cli.groups import COLUMNS, _progress
from fencepost.cli.main import main
from fencepost.cli.output import print_table
from fencepost.cli.record_printer import json_record
from fencepost.client.cluster import Cluster
from fencepost.client.group_consumer import GroupConsumer
from fencepost.client.groups import CommittedOffset, GroupDescription
from fencepost.client.metadata import TopicPartition

from ..client.fake_cluster import FakeCluster
from ..client.records import batch
from ..ports import address_of, refusing_port
from ..waiting import DEADLINE_S, eventually


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> object:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Fencepost = Callable[..., Ran]


@pytest.fixture
def run(served: str, capfdbinary: pytest.CaptureFixture[bytes]) -> Fencepost:
    """Runs a command line in this process."""

    def run_command(*words: str, bootstrap: str = served) -> Ran:
        capfdbinary.readouterr()
        code = main([*words, "--bootstrap-server", bootstrap])
        sys.stdout.flush()
        captured = capfdbinary.readouterr()
        return Ran(code, captured.out.decode(), captured.err.decode())

    return run_command


@pytest.fixture
def topic(run: Fencepost) -> str:
    """A topic of two partitions."""
    name = f"t-{uuid.uuid4().hex[:10]}"
    assert run("topics", "create", name, "--partitions", "2").code == 0
    return name


@pytest.fixture
def produce(run: Fencepost, tmp_path: Path) -> Callable[..., Ran]:
    """Feeds lines to `fencepost produce`."""

    def feed(topic: str, text: str, *options: str) -> Ran:
        path = tmp_path / "lines"
        path.write_text(text)
        return run("produce", topic, str(path), *options)

    return feed


def test_topics_from_birth_to_death(run: Fencepost):
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
    assert table[1].split() == ["partition", "leader", "epoch", "replicas", "isr", "offline"]
    assert len(table) == 4
    assert run("topics", "alter", name, "--partitions", "5").code == 0
    listed = {entry["name"]: entry for entry in run("topics", "list", "--json").json}
    assert listed[name]["partitions"] == 5
    assert run("topics", "delete", name).out == f"deleted topic {name}\n"
    assert name not in run("topics", "list").lines


def test_topics_that_are_there_or_not(run: Fencepost, topic: str):
    again = run("topics", "create", topic)
    assert again.code == 1
    assert "TOPIC_ALREADY_EXISTS" in again.err
    assert again.err.count("\n") == 1
    assert run("topics", "create", topic, "--if-not-exists").code == 0
    missing = run("topics", "delete", f"{topic}-not")
    assert (missing.code, missing.out) == (1, "")
    assert run("topics", "delete", f"{topic}-not", "--if-exists").code == 0
    described = run("topics", "describe", f"{topic}-not")
    assert described.code == 1
    assert "no such topic" in described.err
    checked = run("topics", "create", f"{topic}-not", "--validate-only")
    assert checked.out == f"topic {topic}-not could be created\n"
    assert f"{topic}-not" not in run("topics", "list").lines


@pytest.mark.parametrize(
    "words",
    [
        ("topics", "create", "x", "--config", "nonsense"),
        ("topics", "create", "x", "--assignment", "1:a"),
        ("topics", "create", "x", "--assignment", "1", "--partitions", "2"),
        ("configs", "alter", "--topic", "x"),
        ("configs", "alter", "--topic", "x", "--set", "nonsense"),
        ("groups", "offsets", "g", "--to", "earliest"),
        ("topics", "list", "-X", "no.such.property=1"),
        ("topics", "list", "-X", "nonsense"),
        ("topics", "list", "--client-config", "surely/not/there"),
        ("produce", "x", "surely/not/there"),
        ("produce", "x", "--lines-json", "--key-separator", ":"),
        ("consume", "x", "--max-messages", "0"),
        ("topics", "create", "x", "--partitions", "0"),
        ("topics", "create", "x", "--partitions", "-1"),
        ("topics", "create", "x", "--partitions", "99999999999"),
        ("topics", "create", "x", "--replication-factor", "0"),
        ("topics", "create", "x", "--replication-factor", "32768"),
        ("topics", "create", "x", "--assignment", "1:99999999999"),
        ("topics", "create", "not-utf-8-\udcff"),
        ("topics", "create", "x" * 40_000),
        ("topics", "alter", "x", "--partitions", "0"),
        ("topics", "describe", "\udcff"),
        ("topics", "delete", "\udcff"),
        ("topics", "list", "-X", f"client.id={'x' * 40_000}"),
        ("configs", "alter", "--topic", "x", "--set", f"k={'v' * 70_000}"),
        ("configs", "describe", "--topic", "\udcff"),
        ("groups", "describe", "\udcff"),
        ("groups", "delete", "\udcff"),
        ("groups", "offsets", "g", "--topic", "\udcff", "--to", "1"),
        ("features", "upgrade", "\udcff=1"),
        ("consume", "\udcff"),
        ("epochs", "\udcff"),
    ],
    ids=lambda words: " ".join(words)[:60].encode("ascii", "backslashreplace").decode(),
)
def test_wrong_command_lines_exit_with_2(run: Fencepost, words: tuple[str, ...]):
    ran = run(*words)
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.startswith(f"fencepost {words[0]}: ")
    assert ran.err.count("\n") == 1


def test_times_that_no_record_can_have(run: Fencepost, topic: str, tmp_path: Path):
    for words in (
        ("consume", topic, "--timestamp", "99999999999999999999999"),
        ("consume", topic, "--timestamp", "1900-01-01T00:00:00"),
        ("groups", "offsets", "g", "--topic", topic, "--to", "@99999999999999999999"),
    ):
        ran = run(*words)
        assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
        assert "allowed is 0 to 9223372036854775807" in ran.err
    latin = tmp_path / "latin.properties"
    latin.write_bytes(b"client.id=\xe9\n")
    ran = run("topics", "list", "--client-config", str(latin))
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)


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


def test_nobody_listening_exits_with_1(run: Fencepost):
    with refusing_port() as held:
        address = address_of(held)
        ran = run("topics", "list", "-X", "default.api.timeout.ms=200", bootstrap=address)
    assert ran.code == 1
    assert address in ran.err
    assert ran.err.count("\n") == 1


def test_configs(run: Fencepost, topic: str):
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
    assert f"cannot alter configs of topic {topic}: retention.ms" in wrong.err
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
    nobody = run("configs", "describe", "--broker", "77")
    assert nobody.code == 1
    assert "no broker '77'" in nobody.err


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


def test_text_in_text_out(run: Fencepost, topic: str, produce: Callable[..., Ran]):
    written = produce(topic, "".join(f"{n}\n" for n in range(20)), "--partition", "1")
    assert written.err == f"20 record(s) written to {topic}\n"
    assert run("consume", topic).lines == [str(n) for n in range(20)]
    assert run("consume", topic, "--max-messages", "3").lines == ["0", "1", "2"]
    assert run("consume", topic, "--offset", "17").lines == ["17", "18", "19"]
    assert run("consume", topic, "--offset", "-2").lines == ["18", "19"]
    assert run("consume", topic, "--offset", "latest").lines == []
    assert run("consume", topic, "--partition", "0").lines == []
    assert run("consume", topic, "--partition", "7").code == 2


def test_keys_headers_and_json(run: Fencepost, topic: str, produce: Callable[..., Ran]):
    produce(topic, "a:1\nb:2:3\n", "--key-separator", ":", "--partition", "0", "--header", "h=x")
    assert run("consume", topic, "--key-separator", "=").lines == ["a=1", "b=2:3"]
    record = {"key": None, "value": None, "headers": {"n": None}, "timestamp": 1700000000123}
    assert produce(
        topic, json.dumps(record), "--lines-json", "--partition", "0", "--json"
    ).json == {
        "topic": topic,
        "records": 1,
    }
    found = [json.loads(line) for line in run("consume", topic, "--json").lines]
    assert [(r["offset"], r["key"], r["value"]) for r in found] == [
        (0, "a", "1"),
        (1, "b", "2:3"),
        (2, None, None),
    ]
    assert [r["headers"] for r in found] == [[["h", "x"]], [["h", "x"]], [["n", None]]]
    assert found[2]["timestamp"] == 1700000000123


def test_a_file_may_be_named_behind_the_options(run: Fencepost, topic: str, tmp_path: Path):
    path = tmp_path / "records.jsonl"
    path.write_text('{"key": "k", "value": "from a file"}\n')
    assert run("produce", topic, "--lines-json", str(path)).code == 0
    assert run("consume", topic).lines == ["from a file"]


def test_reading_from_a_time_on(run: Fencepost, topic: str, produce: Callable[..., Ran]):
    base = int(time.time()) * 1000 - 100_000
    for number in range(5):
        record = {"value": str(number), "timestamp": base + number, "partition": 0}
        assert produce(topic, json.dumps(record), "--lines-json").code == 0
    assert run("consume", topic, "--timestamp", str(base + 3)).lines == ["3", "4"]
    moment = datetime.fromtimestamp(base / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.004Z")
    assert run("consume", topic, "--timestamp", moment).lines == ["4"]
    assert run("consume", topic, "--timestamp", "yesterday").code == 2


def test_compressed_records(run: Fencepost, topic: str, produce: Callable[..., Ran]):
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        assert produce(topic, "x" * 500, "--compression", codec, "--partition", "0").code == 0
    assert run("consume", topic).lines == ["x" * 500] * 4
    assert produce(topic, "x", "--compression", "brotli").code == 2


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


def test_mistakes_are_not_tried_until_time_is_up(run: Fencepost, topic: str):
    patient = ("-X", "default.api.timeout.ms=2000000000")  # longer than any test may take
    assert run("topics", "describe", f"{topic}-not", *patient).code == 1
    assert run("consume", f"{topic}-not", *patient).code == 1


def test_epochs_of_a_young_topic(run: Fencepost, topic: str, produce: Callable[..., Ran]):
    produce(topic, "1\n2\n", "--partition", "0")
    assert run("epochs", topic, "--partition", "0", "--json").json == {
        "topic": topic,
        "epochs": [{"partition": 0, "leader_epoch": 0, "start_offset": 0, "end_offset": 2}],
    }
    assert run("epochs", topic, "--partition", "9").code == 2


def test_epochs_of_an_eventful_one(run: Fencepost):
    with FakeCluster(brokers=2) as fake:
        fake.create_topic("t")
        partition = fake.partition("t")
        partition.append(batch(b"a", b"b", b"c"))
        partition.elect(2)
        partition.append(batch(b"d"))
        partition.elect(1, cut_to=3)
        partition.append(batch(b"e", b"f"))
        shown = run("epochs", "t", bootstrap=fake.bootstrap_servers).lines
    assert shown == [
        "partition  leader epoch  start offset  end offset",
        "        0             0             0           3",
        "        0             2             3           5",
    ]


def test_properties_come_from_a_file_and_the_command_line_wins(run: Fencepost, tmp_path: Path):
    path = tmp_path / "client.properties"
    path.write_text("# a comment\n\nclient.id = me\nrequest.timeout.ms=nonsense\n")
    assert "request.timeout.ms" in run("topics", "list", "--client-config", str(path)).err
    ran = run("topics", "list", "--client-config", str(path), "-X", "request.timeout.ms=5000")
    assert ran.code == 0


def test_the_environment_names_the_cluster(served: str):
    done = subprocess.run(
        [sys.executable, "-m", "fencepost.cli.main", "topics", "list", "--json"],
        env={**os.environ, BOOTSTRAP_VARIABLE: served},
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert isinstance(json.loads(done.stdout), list)


@pytest.mark.parametrize("name", ["topics", "configs", "groups", "produce", "consume", "epochs"])
def test_help_has_examples(name: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as caught:
        main([name, "--help"])
    assert caught.value.code == 0
    assert f"fencepost {name} " in capsys.readouterr().out.split("examples:")[1]


def test_unknown_numbers_stay_below_the_others(capsys: pytest.CaptureFixture[str]):
    print_table(("a", "lag", "none", "-1"), [("x", 5, None, -1), ("y", None, None, 10)])
    assert capsys.readouterr().out.splitlines() == [
        "a  lag  none  -1",
        "x    5  -     -1",
        "y    -  -     10",
    ]


def test_times():
    assert parse_time_ms("1700000000123") == 1700000000123
    assert parse_time_ms("2023-11-14T22:13:20") == 1700000000000
    assert parse_time_ms("2023-11-14T23:13:20+01:00") == 1700000000000


def test_bytes_that_are_no_text_are_shown_in_hex():
    from fencepost.batch.records import Record

    shown = json_record(TopicPartition("t", 0), Record(0, 1, 1, b"\xff\x00", b"ok", ()))
    assert (shown["key"], shown["value"]) == ({"hex": "ff00"}, "ok")
    assert shown["timestamp_type"] == "append"
