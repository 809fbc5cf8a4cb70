"""`fencepost spark checkpoint` as people call it; what is written is in tests/spark."""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path
from typing import Any

import pytest

from fencepost.cli.main import main
from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.producer import Producer

from ..spark.checkpoints import QUERY_ID, write_checkpoint
from .commands import Fencepost, Ran

pytestmark = pytest.mark.slow
NOW = ("--execute", "--force")


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes]) -> Fencepost:
    """Runs a command line as it is: most of these commands ask no broker unless they are told."""

    def run_command(*words: str) -> Ran:
        capfdbinary.readouterr()
        code = main(list(words))
        sys.stdout.flush()
        captured = capfdbinary.readouterr()
        return Ran(code, captured.out.decode(), captured.err.decode())

    return run_command


@pytest.fixture
def address(served: str) -> str:
    return served


def produce(cluster: Cluster, topic: str, partitions: int = 2) -> None:
    """Five records in each partition, a second apart."""
    with Producer(cluster) as producer:
        for number in range(5 * partitions):
            at = 1_700_000_000_000 + number // partitions * 1000
            producer.send(topic, b"v", partition=number % partitions, timestamp_ms=at)


def stored(folder: Path, batch: int = 0) -> Any:
    return json.loads((folder / "offsets" / str(batch)).read_text().split("\n")[2])


def test_show(run: Fencepost, tmp_path: Path):
    ours = {"#fencepost": {"t": {"id": "x", "epochs": {"0": 3}}}, "t": {"0": 7, "1": 9}}
    folder = write_checkpoint(tmp_path, [ours, {"logOffset": 1}], committed=0)
    ran = run("spark", "checkpoint", "show", str(folder))
    assert ran.lines[:2] == [
        f"query {QUERY_ID}: committed; planned batch: 0, committed: 0, batches kept: 1",
        "sources: 0 fencepost, 1 other",
    ]
    assert ran.lines[3].split() == ["0", "t", "0", "7", "7", "-", "3", "x"]
    document = run("spark", "checkpoint", "show", folder.as_uri(), "--json").json
    assert isinstance(document, dict)
    assert (document["query"], document["sinks"], document["backups"]) == (QUERY_ID, None, [])
    assert document["partitions"][1]["committed"] == 9


def test_show_has_the_epochs_of_the_batch_that_is_planned(run: Fencepost, tmp_path: Path):
    planned, committed = (
        {"#fencepost": {"t": {"id": "x", "epochs": {"0": epoch}}}, "t": {"0": at}}
        for epoch, at in ((4, 9), (3, 7))
    )
    folder = write_checkpoint(tmp_path, [committed], [planned], committed=0)
    document = run("spark", "checkpoint", "show", str(folder), "--json").json
    assert isinstance(document, dict)
    (found,) = document["partitions"]
    assert (found["committed"], found["planned"], found["leader_epoch"]) == (7, 9, 4)


@pytest.mark.parametrize("action", ["show", "convert --to kafka", "move --offsets {}"])
def test_what_is_no_checkpoint(run: Fencepost, tmp_path: Path, action: str):
    ran = run("spark", "checkpoint", *action.split(), str(tmp_path))
    assert (ran.code, ran.out) == (1, "")
    told = f"{tmp_path}: not a checkpoint: it has no offsets and no metadata"
    assert ran.err == f"fencepost spark: {told}\n"
    ran = run("spark", "checkpoint", *action.split(), "dbfs:/x")
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert "there is no file system for dbfs" in ran.err
    ran = run("spark", "checkpoint", *action.split(), "s3://b/x", "--storage", "anonymous=perhaps")
    assert (ran.code, "neither true nor false" in ran.err) == (1, True)


def test_move_says_what_it_would_do_and_does_it(
    run: Fencepost, cluster: Cluster, topic: str, tmp_path: Path, address: str
):
    produce(cluster, topic)
    folder = write_checkpoint(tmp_path, [{topic: {"0": 4, "1": 5}}], committed=0)
    before = stored(folder)
    words = ("spark", "checkpoint", "move", str(folder), "-b", address, "--shift-by", "-2")
    ran = run(*words)
    assert ran.code == 0
    assert ran.lines[1].split() == ["0", topic, "0", "4", "2"]
    assert ran.lines[-1] == "would change offsets/0; nothing is changed without --execute"
    assert stored(folder) == before
    ran = run(*words, "--execute")
    assert ran.code == 1
    assert "was written less than 10 s ago" in ran.err
    assert run(*words, *NOW, "--topic", f"{topic}:1").code == 0
    assert stored(folder) == {topic: {"0": 4, "1": 3}}
    assert run(*words[:-2], "--to", "earliest", *NOW).code == 0
    assert stored(folder) == {topic: {"0": 0, "1": 0}}
    ran = run(*words[:-2], "--to", "@1700000002000", *NOW, "--json")
    assert isinstance(ran.json, dict)
    assert (ran.json["done"], ran.json["files"]) == (True, ["offsets/0"])
    assert Path(ran.json["backup"].removeprefix("file://"), "offsets", "0").is_file()
    assert stored(folder) == {topic: {"0": 2, "1": 2}}
    ran = run(*words[:-2], "--to", "99", *NOW)
    assert stored(folder) == {topic: {"0": 5, "1": 5}}


@pytest.mark.parametrize(
    ("named", "missing"),
    [
        (["t", "u"], "u: the checkpoint has no offset of it"),
        (["t:7"], "t:7: the checkpoint has no offset of it"),
        (["t:1,2"], "t:1,2: the checkpoint has no offset of t-2"),
    ],
)
def test_move_refuses_to_pass_over_what_is_misspelt(
    run: Fencepost, tmp_path: Path, named: list[str], missing: str
):
    folder = write_checkpoint(tmp_path, [{"t": {"0": 4, "1": 5}}], committed=0)
    words = [part for one in named for part in ("--topic", one)]
    ran = run(
        "spark", "checkpoint", "move", str(folder), "--offsets", '{"t": {"1": 0}}', *words, *NOW
    )
    assert (ran.code, missing in ran.err) == (1, True)
    assert stored(folder) == {"t": {"0": 4, "1": 5}}


def test_a_moved_offset_of_ours_has_id_and_epoch(
    run: Fencepost, cluster: Cluster, topic: str, tmp_path: Path, address: str
):
    produce(cluster, topic)
    old = {"#fencepost": {topic: {"id": "AAAAAAAAAAAAAAAAAAAAAQ"}}, topic: {"0": 4, "1": 5}}
    folder = write_checkpoint(tmp_path, [old], committed=0)
    words = ("spark", "checkpoint", "move", str(folder), "-b", address, "--to", "earliest", *NOW)
    ran = run(*words, "--topic", f"{topic}:0")
    assert ran.code == 1
    assert "was deleted and created again" in ran.err
    assert run(*words).code == 0
    id_now = str(cluster.topic(topic).topic_id)
    assert stored(folder) == {
        "#fencepost": {topic: {"epochs": {"0": 0, "1": 0}, "id": id_now}},
        topic: {"0": 0, "1": 0},
    }


def test_partitions_that_are_gone(
    run: Fencepost, cluster: Cluster, topic: str, tmp_path: Path, address: str
):
    folder = write_checkpoint(
        tmp_path, [{topic: {"0": 0, "7": 5}, "no-such": {"0": 1}}], committed=0
    )
    words = ("spark", "checkpoint", "move", str(folder), "-b", address, "--to", "latest", *NOW)
    ran = run(*words)
    assert ran.code == 1
    assert "no-such-0 does not exist any more: --forget-missing leaves it out" in ran.err
    assert run(*words, "--forget-missing").code == 0
    assert stored(folder) == {topic: {"0": 0}}


def test_offsets_that_are_given_need_no_broker(run: Fencepost, tmp_path: Path):
    folder = write_checkpoint(tmp_path, [{"t": {"0": 4, "1": 5}}], committed=0)
    words = ("spark", "checkpoint", "move", str(folder), *NOW, "--offsets")
    assert run(*words, '{"t":{"1":77}}').code == 0
    assert stored(folder) == {"t": {"0": 4, "1": 77}}
    (tmp_path / "offsets.json").write_text('{"t":{"0":6}}')
    assert run(*words, f"@{tmp_path}/offsets.json").code == 0
    assert stored(folder) == {"t": {"0": 6, "1": 77}}
    for text, words_told in (
        ('{"t":{"2":1}}', "t-2 is not among the partitions"),
        ('{"t":{"0":-1}}', "negative offset"),
        ("{", "--offsets must be JSON"),
        ("{}", "names no partition"),
        ("@/no/such", "No such file"),
        ("[" * 100_000, "--offsets must be JSON"),
    ):
        ran = run(*words, text)
        assert (ran.code, ran.err.count("\n")) == (1, 1)
        assert words_told in ran.err
    ran = run("spark", "checkpoint", "move", str(folder), "--source", "3", "--offsets", "{}")
    assert "has no source '3' with committed offsets" in ran.err
    assert stored(folder) == {"t": {"0": 6, "1": 77}}


def test_convert(run: Fencepost, cluster: Cluster, topic: str, tmp_path: Path, address: str):
    produce(cluster, topic)
    folder = write_checkpoint(tmp_path, [{topic: {"0": 4, "1": 9}}], committed=0)
    words = ("spark", "checkpoint", "convert", str(folder))
    assert run(*words, "--to", "fencepost", "-b", address, *NOW).code == 0
    extra = stored(folder)["#fencepost"][topic]
    # Nothing is known of an offset that the log has not reached.
    assert extra == {"id": str(cluster.topic(topic).topic_id), "epochs": {"0": 0}}
    ran = run(*words, "--to", "kafka", *NOW)
    assert ran.lines[0].startswith("note: topic ids and leader epochs are left out")
    assert (folder / "offsets/0").read_text().endswith(f'{{"{topic}":{{"0":4,"1":9}}}}')
    assert run(*words, "--to", "kafka", *NOW).lines == ["nothing to change"]


def test_translate_by_time_and_by_syncs(
    run: Fencepost, cluster: Cluster, topic: str, tmp_path: Path, address: str
):
    new = f"{topic}-new"
    for name in (new, f"{topic}-syncs"):
        Admin(cluster).create_topic(name, 2 if name == new else 1)
        Admin(cluster).wait_for_topic(name)
    produce(cluster, topic)
    produce(cluster, new)
    with Producer(cluster) as producer:
        for upstream, downstream in ((0, 0), (2, 1)):
            for partition in range(2):
                name = topic.encode()
                key = struct.pack(">h", len(name)) + name + struct.pack(">i", partition)
                value = struct.pack(">qq", upstream, downstream)
                producer.send(f"{topic}-syncs", value, key, partition=0)
    folder = write_checkpoint(tmp_path, [{topic: {"0": 3, "1": 5}}], committed=0)
    words = ("spark", "checkpoint", "translate", str(folder), "-b", address)
    words = (*words, "--rename", f"{topic}={new}")
    ran = run(*words, "--by-time")
    assert [line.split()[1:] for line in ran.lines[1:5]] == [
        [topic, "0", "3", "-"],
        [topic, "1", "5", "-"],
        [new, "0", "-", "3"],
        [new, "1", "-", "5"],
    ]
    ran = run(*words, "--by-time", "--old-servers", "a:b")
    assert (ran.code, "'a:b' is not HOST:PORT" in ran.err) == (2, True)
    assert run(*words, "--syncs", f"{topic}-syncs", *NOW).code == 0
    assert stored(folder) == {new: {"0": 2, "1": 2}}
    ran = run(*words, "--same-offsets")
    assert "no source has committed offsets of" in ran.err
    folder = write_checkpoint(tmp_path / "again", [{topic: {"0": 3, "1": 5}}], committed=0)
    words = (*words[:3], str(folder), *words[4:])
    assert "has no offset syncs" in run(*words, "--syncs", topic).err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--replay", "x"], "--replay and --archive belong together"),
        (["--same-offsets"], "--rename OLD=NEW says which topics"),
        (["--same-offsets", "--rename", "a=c", "--rename", "b=c"], "cannot become one"),
        (["--replay", "x", "--archive", "y", "--rename", "a=b"], "a replay knows its topics"),
    ],
)
def test_translate_of_what_cannot_be(run: Fencepost, tmp_path: Path, words: list[str], told: str):
    ran = run("spark", "checkpoint", "translate", str(tmp_path), *words)
    assert (ran.code, told in ran.err) == (2, True)
