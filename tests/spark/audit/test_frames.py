"""What an audit has found, as files: on disks and in stores, in place of an earlier audit's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from fencepost.arrow.storage import Storage, StorageError
from fencepost.spark.audit import AuditResult
from fencepost.spark.audit.auditing import Outcome
from fencepost.spark.audit.model import ComparedRange, Finding

from ..storage.stores import Failing, faulty

FOUND = Outcome(
    findings=[
        Finding("t", 0, 2, "error", "crc", 3, 9, None, None, None, "/a/0.log", 70, "é: corrupt"),
        Finding("", -1, 1, "note", "file", None, None, None, None, None, "/a", None, "left over"),
    ],
    ranges=[
        ComparedRange("t", 0, 0, 8, (1, 2), 4, False),
        ComparedRange("t", 0, 8, 9, (1,), 1, True),
    ],
)


def rows_of(storage: Storage, name: str, format: str) -> list[dict[str, Any]]:
    (entry,) = storage.list(name)
    assert entry.path == f"{name}/part-00000.{format}"
    if format == "json":
        return [json.loads(line) for line in storage.read_bytes(entry.path).splitlines()]
    with storage.open_input(entry.path) as file:
        rows: list[dict[str, Any]] = pq.ParquetFile(file).read().to_pylist()
    return rows


def check(storage: Storage, format: str, outcome: Outcome = FOUND) -> None:
    findings = [one._asdict() for one in outcome.findings]
    ranges = [{**one._asdict(), "replicas": list(one.replicas)} for one in outcome.ranges]
    if format == "json":
        findings = [{n: v for n, v in row.items() if v is not None} for row in findings]
    assert rows_of(storage, "findings", format) == findings
    assert rows_of(storage, "ranges", format) == ranges


@pytest.mark.parametrize("format", ["parquet", "json"])
def test_results_in_a_store_replace_those_of_an_earlier_audit(format: str):
    storage, _ = faulty()
    for name in ("findings", "ranges"):
        storage.write_bytes(f"{name}/_SUCCESS", b"")
        storage.write_bytes(f"{name}/part-00000-3a.c000.snappy.parquet", b"by Spark")
    storage.write_bytes("beside", b"kept")
    result = AuditResult(None, FOUND)
    other = {"parquet": "json", "json": "parquet"}[format]
    for each in (format, other, format):
        result.write(storage, each)
        check(storage, each)
    empty = Outcome()
    AuditResult(None, empty).write(storage, format)
    check(storage, format, empty)
    assert storage.read_bytes("beside") == b"kept"


def test_results_on_a_disk_are_a_directory_that_others_read(tmp_path: Path):
    place = tmp_path / "not yet" / "there"
    AuditResult(None, FOUND).write(place)
    assert pq.read_table(place / "findings").num_rows == 2
    assert pq.read_table(place / "ranges")["is_equal"].to_pylist() == [False, True]


@pytest.mark.parametrize("seed", range(6))
def test_a_store_that_fails_says_so_and_the_next_run_puts_it_right(seed: int):
    failing = Failing(seed, 0.4, frozenset({"write", "list", "delete"}))
    storage, handler = faulty(failing)
    result = AuditResult(None, FOUND)
    told = []
    for _ in range(20):
        try:
            result.write(storage, "json")
        except StorageError as error:
            told.append(str(error))
    assert failing.failed >= len(told) > 0
    assert all("s3://bucket/dir" in one for one in told)
    handler.before = lambda what, path: None
    result.write(storage, "parquet")
    check(storage, "parquet")


def test_formats_that_are_none(tmp_path: Path):
    with pytest.raises(ValueError, match="'orc' is none of parquet, json"):
        AuditResult(None, FOUND).write(tmp_path, "orc")
    with pytest.raises(OSError, match="no file system for ftp:"):
        AuditResult(None, FOUND).write("ftp://h/x")
