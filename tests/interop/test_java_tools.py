"""Apache Kafka's own command-line tools against the broker."""

from __future__ import annotations

import json

import pytest

from ..waiting import eventually
from .apache import ToolFailedError, consume, run_tool

pytestmark = [pytest.mark.interop, pytest.mark.slow]


def create(bootstrap: str, topic: str, *more: str, partitions: int = 2) -> None:
    run_tool(
        "topics", "--bootstrap-server", bootstrap, "--create", "--topic", topic,
        "--partitions", str(partitions), "--replication-factor", "1", *more,
    )  # fmt: skip


def produce(bootstrap: str, topic: str, lines: list[str], *more: str) -> None:
    run_tool(
        "console-producer", "--bootstrap-server", bootstrap, "--topic", topic, *more,
        stdin="".join(f"{line}\n" for line in lines),
    )  # fmt: skip


def test_topics_create_list_describe_alter_delete(bootstrap: str, topic: str):
    create(bootstrap, topic, "--config", "retention.ms=3600000")
    server = ("--bootstrap-server", bootstrap)
    assert topic in run_tool("topics", *server, "--list").lines
    described = run_tool("topics", *server, "--describe", "--topic", topic).stdout
    assert "PartitionCount: 2" in described
    assert "retention.ms=3600000" in described
    assert "Leader: 1" in described.replace("\t", " ")
    run_tool("topics", *server, "--alter", "--topic", topic, "--partitions", "4")
    assert "PartitionCount: 4" in run_tool(
        "topics", *server, "--describe", "--topic", topic
    ).stdout  # fmt: skip
    run_tool("topics", *server, "--delete", "--topic", topic)
    eventually(lambda: topic not in run_tool("topics", *server, "--list").lines, "it is gone")


def test_creating_a_topic_twice_and_with_a_bad_name_is_refused(bootstrap: str, topic: str):
    create(bootstrap, topic)
    with pytest.raises(ToolFailedError, match="TopicExistsException"):
        create(bootstrap, topic)
    with pytest.raises(ToolFailedError, match=r"InvalidTopicException|illegal|invalid"):
        create(bootstrap, "no/slash")
    with pytest.raises(ToolFailedError, match="InvalidReplicationFactorException"):
        run_tool(
            "topics", "--bootstrap-server", bootstrap, "--create", "--topic", f"{topic}-rf",
            "--partitions", "1", "--replication-factor", "3",
        )  # fmt: skip


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_console_producer_to_console_consumer(bootstrap: str, topic: str, codec: str):
    create(bootstrap, topic, partitions=1)
    lines = [f"k{i}:value {i} " + "x" * 50 for i in range(200)]
    produce(
        bootstrap, topic, lines, "--compression-codec", codec,
        "--reader-property", "parse.key=true", "--reader-property", "key.separator=:",
    )  # fmt: skip
    got = consume(
        bootstrap, topic, 200, "--from-beginning",
        "--formatter-property", "print.key=true", "--formatter-property", "key.separator=:",
    )  # fmt: skip
    assert got == lines


def test_console_consumer_by_partition_and_offset(bootstrap: str, topic: str):
    create(bootstrap, topic, partitions=1)
    produce(bootstrap, topic, [f"m{i}" for i in range(10)])
    got = consume(bootstrap, topic, 3, "--partition", "0", "--offset", "7")
    assert got == ["m7", "m8", "m9"]


def test_get_offsets_earliest_latest_and_by_time(bootstrap: str, topic: str):
    create(bootstrap, topic, partitions=1)
    produce(bootstrap, topic, ["a", "b", "c"])
    common = ("--bootstrap-server", bootstrap, "--topic", topic)
    assert run_tool("get-offsets", *common).lines == [f"{topic}:0:3"]
    assert run_tool("get-offsets", *common, "--time", "earliest").lines == [f"{topic}:0:0"]
    assert run_tool("get-offsets", *common, "--time", "1000").lines == [f"{topic}:0:0"]
    last = run_tool("get-offsets", *common, "--time", "max-timestamp").lines
    assert last[0].rsplit(":", 1)[1] in {"0", "1", "2"}


def test_configs_describe_and_alter(bootstrap: str, topic: str):
    create(bootstrap, topic)
    entity = ("--bootstrap-server", bootstrap, "--entity-type", "topics", "--entity-name", topic)
    run_tool("configs", *entity, "--alter", "--add-config", "segment.bytes=2097152")
    described = run_tool("configs", *entity, "--describe").stdout
    assert "segment.bytes=2097152" in described
    assert "DYNAMIC_TOPIC_CONFIG" in described
    everything = run_tool("configs", *entity, "--describe", "--all").stdout
    assert "cleanup.policy=delete" in everything
    run_tool("configs", *entity, "--alter", "--delete-config", "segment.bytes")
    assert "segment.bytes=2097152" not in run_tool("configs", *entity, "--describe").stdout
    with pytest.raises(ToolFailedError, match=r"InvalidConfiguration|Unknown"):
        run_tool("configs", *entity, "--alter", "--add-config", "no.such.key=1")


def test_consumer_groups_list_describe_reset_delete(bootstrap: str, topic: str):
    create(bootstrap, topic, partitions=1)
    produce(bootstrap, topic, [f"m{i}" for i in range(20)])
    group = f"group-{topic}"
    consume(bootstrap, topic, 20, "--from-beginning", "--group", group)
    server = ("--bootstrap-server", bootstrap)
    assert group in run_tool("consumer-groups", *server, "--list").lines
    row = described_row(run_tool("consumer-groups", *server, "--describe", "--group", group).stdout)
    assert row["CURRENT-OFFSET"] == "20"
    assert row["LAG"] == "0"
    run_tool(
        "consumer-groups", *server, "--group", group, "--topic", topic,
        "--reset-offsets", "--to-offset", "5", "--execute",
    )  # fmt: skip
    row = described_row(run_tool("consumer-groups", *server, "--describe", "--group", group).stdout)
    assert row["CURRENT-OFFSET"] == "5"
    assert consume(bootstrap, topic, 15, "--group", group) == [f"m{i}" for i in range(5, 20)]
    run_tool("consumer-groups", *server, "--delete", "--group", group)
    assert group not in run_tool("consumer-groups", *server, "--list").lines


def described_row(text: str) -> dict[str, str]:
    lines = [line for line in text.splitlines() if line.strip()]
    start = next(number for number, line in enumerate(lines) if line.startswith("GROUP"))
    return dict(zip(lines[start].split(), lines[start + 1].split(), strict=False))


def test_delete_records_moves_the_start(bootstrap: str, topic: str, tmp_path):
    create(bootstrap, topic, partitions=1)
    produce(bootstrap, topic, [f"m{i}" for i in range(10)])
    wanted = tmp_path / "offsets.json"
    wanted.write_text(
        json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 6}]})
    )
    server = ("--bootstrap-server", bootstrap)
    run_tool("delete-records", *server, "--offset-json-file", str(wanted))
    assert consume(bootstrap, topic, 4, "--from-beginning") == ["m6", "m7", "m8", "m9"]
    common = (*server, "--topic", topic, "--time", "earliest")
    assert run_tool("get-offsets", *common).lines == [f"{topic}:0:6"]


def test_log_dirs_and_api_versions_are_understood(bootstrap: str, topic: str):
    create(bootstrap, topic, partitions=1)
    produce(bootstrap, topic, ["x" * 1000])
    out = run_tool("log-dirs", "--bootstrap-server", bootstrap, "--describe").stdout
    document = json.loads(next(line for line in out.splitlines() if line.startswith("{")))
    sizes = {
        partition["partition"]: partition["size"]
        for broker in document["brokers"]
        for log_dir in broker["logDirs"]
        for partition in log_dir["partitions"]
    }
    assert sizes[f"{topic}-0"] > 1000
    versions = run_tool("broker-api-versions", "--bootstrap-server", bootstrap).stdout
    assert "Fetch(1): " in versions
    assert "OffsetForLeaderEpoch(23): 2 to 4" in versions


def test_performance_tools_run_with_idempotence(bootstrap: str, topic: str):
    create(bootstrap, topic, partitions=3)
    sent = run_tool(
        "producer-perf", "--topic", topic, "--num-records", "20000", "--record-size", "100",
        "--throughput", "-1",
        "--producer-props", f"bootstrap.servers={bootstrap}", "acks=all", "enable.idempotence=true",
    ).stdout  # fmt: skip
    assert "20000 records sent" in sent
    got = run_tool(
        "consumer-perf", "--bootstrap-server", bootstrap, "--topic", topic,
        "--num-records", "20000", "--timeout", "60000",
    ).stdout  # fmt: skip
    assert any(", 20000," in line for line in got.splitlines())
