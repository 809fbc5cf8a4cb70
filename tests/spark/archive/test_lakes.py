"""Which package is for which Spark, and which snapshots maintenance leaves."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from fencepost.arrow.archive.layout import ArchiveError, Layout
from fencepost.spark.archive.lakes import DELTA, ICEBERG, PACKAGES, SETTINGS, how_to_load
from fencepost.spark.archive.maintaining import (
    DELTA_CHECK,
    LISTING_TASKS,
    maintain,
    maintain_table,
    snapshots_to_keep,
)
from fencepost.spark.archive.query import prepare
from fencepost.spark.archive.running import here

from .worlds import World, expected

QUERY = "spark.sql.streaming.queryId"
DOCS = Path(__file__).parents[3] / "docs" / "LAKES.md"


class Row(NamedTuple):
    parent_id: int | None
    summary: dict[str, str] | None


def test_a_format_is_loaded_by_the_release_for_this_spark() -> None:
    told = how_to_load(DELTA, "4.2.1")
    assert told.startswith("give it with --packages io.delta:delta-spark_4.2_2.13:")
    for key, value in SETTINGS[DELTA].items():
        assert f"--conf {key}={value}" in told
    assert how_to_load(ICEBERG, "4.1.0") == f"give it with --packages {PACKAGES[ICEBERG]['4.1']}"
    for format, minors in PACKAGES.items():
        told = how_to_load(format, "4.9.0-SNAPSHOT")
        assert told.startswith("no release of it for Spark 4.9 was known")
        for minor, package in minors.items():
            assert f"{package} for Spark {minor}" in told
    assert how_to_load("orc", "4.1.0") == ""


def test_the_docs_have_the_same_table() -> None:
    text = DOCS.read_text()
    (head,) = (line for line in text.splitlines() if line.startswith("| | PySpark 4.1 "))
    minors = [cell.strip().removeprefix("PySpark ") for cell in head.strip("|").split("|")[1:]]
    for format in PACKAGES:
        begins = re.compile(rf"\| {format.title()} \| `[a-z.]+:")
        (row,) = (line for line in text.splitlines() if begins.match(line))
        cells = [cell.strip().strip("`") for cell in row.strip("|").split("|")[1:]]
        wanted = [PACKAGES[format].get(minor, "none yet") for minor in minors]
        assert cells == wanted


@pytest.mark.parametrize(
    ("rows", "current", "kept"),
    [
        ({1: Row(None, {QUERY: "q"})}, 1, 1),
        ({1: Row(None, {QUERY: "q"}), 2: Row(1, {QUERY: "q"})}, 2, 1),
        ({1: Row(None, {QUERY: "q"}), 2: Row(1, {}), 3: Row(2, None)}, 3, 3),
        ({1: Row(None, {QUERY: "q"}), 2: Row(1, {QUERY: "other"})}, 2, 2),
        ({2: Row(1, {}), 3: Row(2, {})}, 3, 2),  # the chain ends at what expired
        ({1: Row(None, {}), 2: Row(1, {})}, 2, 2),
        ({}, 7, 1),
    ],
)
def test_the_newest_snapshot_with_a_batch_of_the_query_stays(
    rows: dict[int, Row], current: int, kept: int
) -> None:
    assert snapshots_to_keep(rows, current, "q") == kept


def test_maintenance_of_parquet_compacts_and_leaves_nothing(tmp_path: Path) -> None:
    world = World(tmp_path / "a")
    for start in (0, 5):
        world.archive({0: (start, start + 5), 1: (start, start + 5)})
    done = maintain(None, world.layout, here, 1 << 28)
    assert (done.compacted.files_before, done.compacted.files_after) == (8, 4)
    assert not (tmp_path / "a" / "_fencepost" / "compaction").exists()
    assert world.offsets() == expected({0: (0, 10), 1: (0, 10)})


def test_too_short_a_retention_and_formats_without_commands(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "a")
    prepare(layout, "orc")
    spark: Any = type("Session", (), {"version": "4.3.0"})()
    with pytest.raises(ArchiveError, match=r"a retention of 23\.5 hours .* at least 24"):
        maintain_table(spark, layout, "delta", 1 << 28, timedelta(hours=23.5))
    with pytest.raises(ArchiveError, match="only Parquet, Delta and Iceberg are compacted"):
        maintain(spark, layout, here, 1 << 28)


class Session:
    """Of Spark: the settings, and what they were at each command."""

    version = "4.2.1"

    def __init__(self, **settings: str) -> None:
        self.settings = {name.replace("__", "."): value for name, value in settings.items()}
        self.at: dict[str, dict[str, str]] = {}
        self.conf = self

    def get(self, name: str, default: str | None = None) -> str | None:
        return self.settings.get(name, default)

    def set(self, name: str, value: str) -> None:
        self.settings[name] = value

    def unset(self, name: str) -> None:
        del self.settings[name]

    def sql(self, command: str) -> Any:
        self.at[command.split()[0]] = dict(self.settings)
        return self

    def collect(self) -> list[Any]:
        return []

    def first(self) -> Any:
        return SimpleNamespace(metrics=SimpleNamespace(numFilesRemoved=0))


@pytest.mark.parametrize(
    ("shuffled", "listing", "tasks"),
    [("16", None, "16"), ("16", "4", "4"), ("auto", None, "10000")],
)
def test_vacuum_lists_in_no_more_tasks_than_a_shuffle_has(
    shuffled: str, listing: str | None, tasks: str, tmp_path: Path
) -> None:
    spark = Session(spark__sql__shuffle__partitions=shuffled)
    if listing is not None:
        spark.set(LISTING_TASKS, listing)
    maintain_table(spark, Layout(tmp_path), DELTA, 1 << 28, timedelta(days=7))
    assert spark.at["VACUUM"][LISTING_TASKS] == tasks
    assert spark.at["VACUUM"][DELTA_CHECK] == "false"
    assert spark.get(LISTING_TASKS) == listing
    assert DELTA_CHECK not in spark.settings
