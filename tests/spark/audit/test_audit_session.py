"""Audits by Spark: the same findings, as DataFrames and files, and from the command line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from fencepost.cli.main import main
from fencepost.spark.audit import AuditError, Progress, audit as audit_with
from fencepost.spark.audit.model import Copy
from fencepost.spark.audit.spark_runner import GROUP_BYTES_MAX, group

from .test_audit import rewrite
from .world import audit, batches_of, copy_replica, flip, make_replica, segment

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Path:
    """Three replicas; the second has other records, the third a corrupt batch."""
    first = make_replica(tmp_path_factory.mktemp("cluster") / "1")
    second, third = copy_replica(first, 2), copy_replica(first, 3)
    rewrite(segment(second, "orders-1", 12), 1)
    path = segment(third, "other-0", 16)
    flip(path, batches_of(path)[0] + 70)
    return first.parent


@pytest.mark.long
def test_executors_find_what_this_process_does(spark: Any, cluster: Path, tmp_path: Path):
    heard: list[Progress] = []
    result = audit_with(spark, cluster, range_offsets=8, progress=heard.append)
    here = audit(cluster)
    assert result.findings == here.findings
    assert result.ranges == here.ranges
    assert not result.is_clean
    errors = result.findings_frame().where("severity = 'error'")
    found = errors.select("replica", "check", "start_offset").collect()
    assert found == [(2, "divergence", 15), (3, "crc", 16)]
    result.write(str(tmp_path / "parquet"))
    read = spark.read.parquet(str(tmp_path / "parquet" / "ranges"))
    assert read.where("not is_equal").count() == here.totals.differing_ranges
    assert read.count() == len(here.ranges)
    over = [one for one in heard if one.is_over]
    assert [one.title for one in over] == ["listing", "reading logs", "comparing replicas"]
    assert all(one.groups_done == one.groups and one.bytes_done == one.bytes_total for one in over)


def test_what_executors_cannot_do(spark: Any, cluster: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(AuditError, match="is no directory, or is not there, on "):
        audit_with(spark, cluster / "nowhere")
    with pytest.raises(AuditError, match="no directory to audit"):
        audit_with(spark)


def test_the_command(spark: Any, cluster: Path, tmp_path: Path, capsys: Any):
    svg, output = tmp_path / "audit.svg", tmp_path / "out"
    words = [str(cluster), "--svg", str(svg), "--output", str(output), "--format", "json"]
    assert main(["audit", *words]) == 1
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert [line.partition(": ")[0] for line in lines] == ["note"] * 3 + ["error"] * 2 + [
        "not sound"
    ]
    assert "error: orders-1 replica 2 offsets 15-17: " in captured.out
    assert "2 errors, 0 warnings, 3 notes in 3 partitions of 3 brokers" in lines[-1]
    assert "reading logs: " in captured.err
    rows = [
        json.loads(line)
        for path in (output / "findings").glob("part-*.json")
        for line in path.read_text().splitlines()
    ]
    assert [row["check"] for row in rows if row["severity"] == "error"] == ["divergence", "crc"]
    drawn = ElementTree.parse(svg).getroot()
    titles = [one.text or "" for one in drawn.iter() if one.tag.endswith("title")]
    assert any("differ from replica 1" in title for title in titles)
    assert any("CRC mismatch" in title for title in titles)


def test_the_command_with_replicas_by_number(spark: Any, cluster: Path, capsys: Any):
    """In a session that is active already, which stays open."""
    words = [f"--replica=8={cluster / '1'}", f"--replica=9={cluster / '2'}", "--topic=oth.*"]
    assert main(["audit", *words, "--quiet", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["findings"] == []
    assert (found["summary"]["replicas"], found["summary"]["partitions"]) == (2, 1)
    assert spark.range(3).count() == 3


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "name a directory"),
        (["--replica", "x=/tmp"], "must be like 1="),
        (["/tmp", "--topic", "("], "--topic"),
        (["/nowhere"], "is no directory"),
        (["/", "--topic", "nothing-at-all"], "neither a log directory nor one of a cluster"),
        (["/", "--conf", "master=local"], "settings of Spark begin with spark."),
        (["/", "--output", "ftp://h/x"], "--output ftp://h/x: ftp://h/x: there is no file system"),
        (["/", "--output", "/etc/hostname"], "--output /etc/hostname: "),
    ],
)
def test_what_the_command_cannot_do(spark: Any, capsys: Any, words: list[str], text: str):
    assert main(["audit", *words]) == 2
    assert text in capsys.readouterr().err


def test_a_session_that_cannot_be_had(cluster: Path, capsys: Any, monkeypatch: Any):
    monkeypatch.setitem(__import__("sys").modules, "pyspark.sql", None)
    assert main(["audit", str(cluster)]) == 2
    assert "needs PySpark (pip install 'fencepost[spark]')" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "master"), [([], "local[env]"), (["--master", "local[option]"], "local[option]")]
)
def test_the_master_is_the_options_else_of_the_environment(
    cluster: Path, words: list[str], master: str
):
    """In a process of its own, where no session is active; and a start that fails is one line."""
    done = subprocess.run(
        [sys.executable, "-m", "fencepost.cli.main", "audit", str(cluster), *words],
        env={**os.environ, "MASTER": "local[env]"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    told = [line for line in done.stderr.splitlines() if line.startswith("fencepost audit: ")]
    assert len(told) == 1
    assert f"Could not parse Master URL: '{master}'" in told[0]


class _Work:
    def __init__(self, weight: int) -> None:
        self.weight_bytes = weight

    def run(self) -> Copy:
        raise AssertionError


def test_groups_have_every_task_once_and_bounded_weight():
    weights = [GROUP_BYTES_MAX * 3, *[1000] * 500, *[GROUP_BYTES_MAX // 3] * 20]
    groups = group([_Work(weight) for weight in weights], 2)
    assert sorted(number for one in groups for number in one) == list(range(len(weights)))
    assert all(groups)
    assert groups[0] == [0]
    assert all(sum(weights[number] for number in one) <= GROUP_BYTES_MAX for one in groups[1:])
    assert len(group([_Work(0)] * 64, 2)) >= 2 * 4


def test_damage_is_left_as_it_was(cluster: Path, tmp_path: Path):
    """An audit changes nothing."""
    shutil.copytree(cluster, tmp_path / "copy")
    before = {path: path.read_bytes() for path in cluster.rglob("*") if path.is_file()}
    audit(cluster)
    assert {path: path.read_bytes() for path in cluster.rglob("*") if path.is_file()} == before
