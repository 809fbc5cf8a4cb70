"""Care of tables: what expires, what is purged, what is unused, and what `verify` finds."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fencepost.cli.main import main
from fencepost.spark.tables.batches import MergeOptions
from fencepost.spark.tables.errors import TableError
from fencepost.spark.tables.upkeep import maintain, verify
from fencepost.spark.tables.versions import Version, place_from_json, place_to_json

from .test_batches import BATCHES, KEEP, STATES
from .worlds import Record, StoredTable, envelope, key_of, row_of


@pytest.fixture
def table(tmp_path: Path) -> StoredTable:
    """Six versions."""
    made = StoredTable(tmp_path, options=KEEP)
    for number, records in enumerate(BATCHES):
        made.take(number, records)
    return made


def test_old_versions_expire_with_the_files_that_only_they_have(table: StoredTable, tmp_path: Path):
    assert maintain(table.versions, MergeOptions(keep_versions=2)).expired_versions == 0
    done = maintain(table.versions, MergeOptions(keep_versions=2, keep_ms=0), unused_ms=0)
    assert done.expired_versions == 4
    assert done.unused_files == 0, "files that expired versions had went with them"
    assert table.versions.numbers() == [5, 6]
    assert [table.names(5), table.names(6)] == STATES[4:]
    with pytest.raises(TableError, match="there is no version 4"):
        table.versions.read(4)
    files = {f"data/{path.name}" for path in (tmp_path / "data").iterdir()}
    assert files == {file for number in (5, 6) for file in table.versions.read(number).files}
    assert [path.name[-1] for path in sorted((tmp_path / "snapshots").iterdir())] == ["5", "6"]
    assert maintain(table.versions, MergeOptions(keep_versions=0, keep_ms=0)).expired_versions == 1


def test_versions_that_were_replaced_just_now_are_kept(tmp_path: Path):
    options = MergeOptions(on_error="keep", keep_versions=1, keep_ms=3_600_000)
    table = StoredTable(tmp_path, options=options)
    for number, records in enumerate(BATCHES):
        table.take(number, records)
    assert table.versions.numbers() == [1, 2, 3, 4, 5, 6]


def test_files_of_no_version_go_when_they_are_old(table: StoredTable, tmp_path: Path):
    stray = tmp_path / "data/b00001-000000000000.parquet"
    stray.write_bytes(b"12345")
    (tmp_path / "errors/e-000000000000.parquet").write_bytes(b"1")
    assert maintain(table.versions, KEEP).unused_files == 0
    done = maintain(table.versions, KEEP, unused_ms=0)
    assert (done.unused_files, done.unused_bytes) == (2, 6)
    assert not stray.exists()
    assert verify(table.versions)[1] == []
    assert len(pq.read_table(tmp_path / table.versions.require_newest().errors[0])) == 1


def test_old_deletions_are_forgotten_by_the_clock_of_the_records(tmp_path: Path):
    options = MergeOptions(delete_retention_ms=1000)
    table = StoredTable(tmp_path, options=options)
    for number, at in ((1, 0), (2, 500)):
        created = envelope("c", number, after=row_of(number, "a", "A"))
        gone = envelope("d", 10 + number)
        table.take(
            number,
            [
                Record(0, 10 * number, key_of(number), created, at),
                Record(0, 10 * number + 1, key_of(number), gone, at),
            ],
        )
    kept = envelope("c", 100, after=row_of(3, "c", "C"))
    table.take(3, [Record(0, 90, key_of(3), kept, 1100)])

    def deletions() -> int:
        return sum(one.delete_count for one in table.versions.require_newest().buckets.values())

    before = deletions()
    done = maintain(table.versions, options)
    assert deletions() == 1
    assert done.purged_deletes == before - 1
    assert table.names() == {3: ("c", "C")}
    assert verify(table.versions)[1] == []
    assert maintain(table.versions, MergeOptions(delete_retention_ms=None)).purged_deletes == 0
    assert deletions() == 1


def test_a_record_of_the_far_future_has_no_deletion_forgotten(tmp_path: Path):
    table = StoredTable(tmp_path)
    table.take(0, [Record(0, 0, key_of(1), envelope("d", 1), time.time_ns() // 1_000_000)])
    far = envelope("c", 2, after=row_of(2, "b", "B"))
    table.take(1, [Record(0, 1, key_of(2), far, 2**53)])
    assert maintain(table.versions, table.options).purged_deletes == 0


def rewritten(change: Callable[[pa.Table], pa.Table]) -> Callable[[Path], None]:
    return lambda path: pq.write_table(change(pq.read_table(path)), path)


def other_key(rows: pa.Table) -> pa.Table:
    keys = pa.array([b"[123456]"] * rows.num_rows, pa.binary())
    return rows.set_column(rows.schema.get_field_index("__key"), "__key", keys)


def deleted(rows: pa.Table) -> pa.Table:
    flags = pa.array([True] * rows.num_rows)
    return rows.set_column(rows.schema.get_field_index("__deleted"), "__deleted", flags)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda path: path.unlink(), "is missing, though a version has it"),
        (lambda path: path.write_bytes(b"PAR1"), "cannot be read"),
        (rewritten(lambda rows: pa.concat_tables([rows, rows])), "has 2 rows, not 1"),
        (rewritten(lambda rows: pa.concat_tables([rows, rows])), "1 keys are there twice"),
        (rewritten(other_key), "has 1 rows of other buckets"),
        (rewritten(deleted), "has rows and deletions"),
        (rewritten(lambda rows: rows.select(["id"])), "__key"),
    ],
)
def test_verify_finds_what_is_wrong(
    table: StoredTable, tmp_path: Path, damage: Callable[[Path], None], reason: str, capsys: object
):
    version, problems = verify(table.versions)
    assert problems == []
    (file,) = [one.rows for one in version.buckets.values() if one.rows is not None]
    assert file is not None
    damage(tmp_path / file)
    assert any(reason in problem for problem in verify(table.versions)[1])
    assert main(["tables", "verify", str(tmp_path)]) == 1


def test_verify_finds_missing_errors_and_rows_without_a_file(table: StoredTable, tmp_path: Path):
    version = table.versions.require_newest()
    (tmp_path / version.errors[0]).unlink()
    path = tmp_path / f"_table/versions/{version.number:020}.json"
    document = json.loads(path.read_text())
    empty = next(one for one in document["buckets"].values() if one["rows"] is None)
    empty["row_count"] = 3
    path.write_text(json.dumps(document))
    problems = verify(table.versions)[1]
    assert any("3 rows are in no file" in one for one in problems)
    assert any("errors/" in one and "is missing" in one for one in problems)


def test_a_version_is_what_it_was_after_a_round_trip(table: StoredTable):
    for number in table.versions.numbers():
        version = table.versions.read(number)
        assert Version.from_json(json.loads(json.dumps(version.to_json()))) == version
        for mark in version.marks:
            assert place_from_json(place_to_json(mark)) == mark
    assert table.versions.require_newest().marks


def test_commands_print_documents(
    table: StoredTable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    place = str(tmp_path)
    assert main(["tables", "status", place, "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert (status["version"], status["rows"], status["topic"]) == (6, 1, "orders")
    assert status["types"] == {"id": "int64", "name": "string", "big": "string"}
    assert main(["tables", "verify", place, "--version", "3"]) == 0
    assert "version 3 (oldest 1)" in capsys.readouterr().out
    words = ["--keep-versions", "1", "--keep-hours", "0", "--keep-deletions-days", "-1"]
    assert main(["tables", "maintain", place, *words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["expired_versions"] == 5


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--keep-versions", "0"], "--keep-versions 0"),
        (["--keep-hours", "-1"], "--keep-hours -1"),
        (["--keep-hours", "nan"], "--keep-hours nan"),
        (["--keep-deletions-days", "-2"], "--keep-deletions-days -2"),
        (["--unused-hours", "1e9"], "--unused-hours 1e+09"),
    ],
)
def test_wrong_words_are_refused(
    table: StoredTable,
    tmp_path: Path,
    words: list[str],
    reason: str,
    capsys: pytest.CaptureFixture[str],
):
    assert main(["tables", "maintain", str(tmp_path), *words]) == 2
    assert reason in capsys.readouterr().err
    assert table.versions.numbers() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("action", ["status", "verify", "maintain"])
def test_where_there_is_no_table_commands_say_so(
    tmp_path: Path, action: str, capsys: pytest.CaptureFixture[str]
):
    assert main(["tables", action, str(tmp_path)]) == 1
    assert "there is no table" in capsys.readouterr().err
    assert not os.listdir(tmp_path)
