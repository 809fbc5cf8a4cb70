"""`fencepost spark watch` on checkpoints as Spark and its own connector write them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from fencepost.cli.spark import CLEAR
from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.producer import Producer

from ..ports import address_of, refusing_port
from ..spark.checkpoints import QUERY_ID, write_checkpoint
from .commands import Fencepost

pytestmark = pytest.mark.slow
HOUR_MS = 3_600_000


def produce(cluster: Cluster, topic: str, *, age_ms: int = 0) -> None:
    """Five records in each of the two partitions."""
    timestamp_ms = int(time.time() * 1000) - age_ms
    with Producer(cluster) as producer:
        for number in range(10):
            producer.send(topic, b"v", partition=number % 2, timestamp_ms=timestamp_ms)


def rows(document: Any) -> dict[int, dict[str, Any]]:
    return {row["partition"]: row for row in document["partitions"]}


def test_what_is_committed_planned_and_behind(
    run: Fencepost, cluster: Cluster, topic: str, tmp_path: Path
):
    produce(cluster, topic, age_ms=2 * HOUR_MS)
    batches = [{topic: {"0": 2, "1": 0}}], [{topic: {"0": 4, "1": 5}}]
    folder = write_checkpoint(tmp_path, *batches, committed=0)
    document = run("spark", "watch", str(folder), "--once", "--json").json
    assert isinstance(document, dict)
    assert (document["query"], document["state"]) == (QUERY_ID, "planned")
    assert (document["planned_batch"], document["committed_batch"]) == (1, 0)
    first, second = rows(document)[0], rows(document)[1]
    assert (first["committed"], first["planned"], first["end"], first["lag"]) == (2, 4, 5, 3)
    assert (second["committed"], second["lag"], second["condition"]) == (0, 5, "ok")
    assert first["leader_epoch"] == 0
    assert 2 * HOUR_MS <= first["oldest_unread_age_ms"] < 3 * HOUR_MS
    (folder / "commits" / "1").write_text("v1\n{}")
    ran = run("spark", "watch", folder.as_uri(), "--once")
    assert ran.code == 0
    assert ran.lines[0] == f"query {QUERY_ID}  batch 1 committed"
    assert ran.lines[1].split() == [
        "source", "topic", "partition", "committed", "planned", "end", "lag", "epoch",
        "oldest-unread", "condition",
    ]  # fmt: skip
    assert ran.lines[2].split()[:8] == ["0", topic, "0", "4", "4", "5", "1", "0"]
    assert ran.lines[3].split()[1:] == [topic, "1", "5", "5", "5", "0", "0", "-", "ok"]


def test_a_first_batch_that_is_planned_only(
    run: Fencepost, cluster: Cluster, topic: str, tmp_path: Path
):
    produce(cluster, topic)
    ours = {"#fencepost": {topic: {"from": {"1": 2}}}, topic: {"0": 1, "1": 3}}
    folder = write_checkpoint(tmp_path, [ours, {"logOffset": 1}])
    document = run("spark", "watch", str(folder), "--once", "--json").json
    assert isinstance(document, dict)
    assert document["other_sources"] == ["1"]
    first, second = rows(document)[0], rows(document)[1]
    assert (first["committed"], first["planned"], first["lag"]) == (None, 1, None)
    assert (second["committed"], second["planned"], second["lag"]) == (2, 3, 3)
    ran = run("spark", "watch", str(folder), "--once")
    assert ran.lines[0].endswith("batch 0 planned, none committed")
    assert ran.lines[-1] == "source 1 does not read topics"


def test_a_topic_made_anew_under_a_query(
    run: Fencepost, cluster: Cluster, topic: str, tmp_path: Path
):
    produce(cluster, topic)
    old = str(cluster.topic(topic).topic_id)
    stored = {"#fencepost": {topic: {"id": old, "epochs": {"0": 0}}}, topic: {"0": 3}}
    folder = write_checkpoint(tmp_path, [stored], committed=0)
    Admin(cluster).delete_topic(topic)
    Admin(cluster).create_topic(topic, 1)
    Admin(cluster).wait_for_topic(topic)
    ran = run("spark", "watch", str(folder), "--once")
    assert ran.lines[2].split()[-1] == "recreated"
    assert ran.lines[3].startswith(f"{topic}-0: recreated: the topic was deleted and created again")


def test_a_query_that_has_done_nothing_yet(run: Fencepost, tmp_path: Path):
    ran = run("spark", "watch", str(write_checkpoint(tmp_path)), "--once")
    assert (ran.code, ran.lines) == (0, [f"query {QUERY_ID}  no batch yet"])


@pytest.mark.parametrize("words", [[], ["--once"], ["--json"]])
def test_a_file_that_is_half_written_is_one_line(run: Fencepost, tmp_path: Path, words: list[str]):
    folder = write_checkpoint(tmp_path, [{"t": {"0": 1}}], committed=0)
    (folder / "offsets" / "1").write_text('v1\n{}\n{"t":{"0"')
    ran = run("spark", "watch", str(folder), *words)
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert "offsets/1: line 3 is not JSON" in ran.err


def test_other_file_systems_and_wrong_intervals(run: Fencepost):
    ran = run("spark", "watch", "dbfs:/checkpoint", "--once")
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert "there is no file system for dbfs" in ran.err
    for text in ("0", "nan", "x", "4000"):
        with pytest.raises(SystemExit, match="2"):
            run("spark", "watch", "x", "--interval", text)


def test_the_view_goes_on_through_errors_until_it_is_interrupted(
    served: str, cluster: Cluster, topic: str, tmp_path: Path
):
    produce(cluster, topic)
    folder = write_checkpoint(tmp_path, [{topic: {"0": 2, "1": 0}}], committed=0)
    command = [sys.executable, "-m", "fencepost.cli.main", "spark", "watch", str(folder)]
    with subprocess.Popen(
        [*command, "--json", "--interval", "0.1", "-b", served], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            assert rows(json.loads(process.stdout.readline()))[0]["lag"] == 3
            (folder / "offsets" / "1").write_text("v1")
            assert any("cut after" in line for line in process.stdout)
            (folder / "offsets" / "1").unlink()
            assert any('"lag": 3' in line for line in process.stdout)
        finally:
            process.kill()


def test_the_screen_is_for_terminals_only(run: Fencepost, tmp_path: Path):
    assert CLEAR not in run("spark", "watch", str(write_checkpoint(tmp_path)), "--once").out


def test_it_needs_a_cluster(run: Fencepost, tmp_path: Path):
    with refusing_port() as held:
        folder = write_checkpoint(tmp_path, [{"t": {"0": 1}}], committed=0)
        words = ["spark", "watch", str(folder), "--once", "--timeout", "0.2"]
        ran = run(*words, bootstrap=address_of(held))
        assert (ran.code, ran.err.count("\n")) == (1, 1)
