"""Replays of archives that are tables, here in ORC, for which Spark needs no package."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fencepost.arrow.archive.layout import REPLAYS, ArchiveError, Layout
from fencepost.arrow.archive.state import STOPPED_AT_LOSS, read_state, update_state
from fencepost.arrow.storage import LocalStorage, storage_at
from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.spark import exactly_once
from fencepost.spark.archive import replay_plan, table_copy
from fencepost.spark.archive.query import prepare
from fencepost.spark.archive.replaying import StepDone, last_topic_id, replay
from fencepost.spark.archive.running import here
from fencepost.spark.archive.table_copy import copy_topic
from fencepost.spark.archive.tables import DATE, TABLE, read_table, require_columns
from fencepost.spark.columns import default_schema

from ..conftest import spark as spark_session
from .test_replay import ALL, KilledError, check, check_offsets, sink
from .worlds import SCHEMA, World, record

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]
spark = spark_session
NO_TAG = "0" * 8


@pytest.fixture
def cluster(served: str) -> Iterator[Cluster]:
    with Cluster(served, isolation_level="read_committed") as opened:
        yield opened


def rows_of(spark: Any, place: Path, records: list[dict[str, Any]], topic: str = "t") -> Any:
    """Records as a stream of the source has them."""
    from pyspark.sql import functions as F  # noqa: N812

    pq.write_table(pa.Table.from_pylist(records, SCHEMA), place)
    return spark.read.parquet(str(place)).withColumn("topic", F.lit(topic))


@pytest.fixture
def world(spark: Any, tmp_path: Path) -> World:
    """An archive in ORC of a topic with a name of digits, of four partitions: two have records,
    which lie in its files in no order."""
    from pyspark.sql import functions as F  # noqa: N812

    made = World(tmp_path / "a", topic="007", format="orc")
    made.plan(0, {0: 50, 1: 35, 3: 0})
    records = [record(p, offset) for p, (first, end) in ALL.items() for offset in range(first, end)]
    for topic, some in (("007", records[::-1]), ("7", [record(0, 0)])):
        rows = rows_of(spark, tmp_path / "rows", some, topic).withColumn("date", F.expr(DATE))
        writer = rows.write.mode("append").partitionBy("topic", "date")
        writer.orc(str(made.layout.directory / TABLE))
    return made


def dying(*arguments: Any) -> Any:
    raise KilledError


def dying_at(count: int, original: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which dies when it is called so often."""
    calls = 0

    def function(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        return dying() if calls == count else original(*arguments)

    return function


def test_a_killed_replay_of_a_table_goes_on_and_repeats_nothing(
    spark: Any,
    cluster: Cluster,
    served: str,
    topic: str,
    world: World,
    monkeypatch: pytest.MonkeyPatch,
):
    place = world.layout.local(REPLAYS) / "r"
    done: list[StepDone] = []

    def go_on() -> None:
        exactly_once._given.clear()  # what the process remembered is gone with it
        wanted = partial(replay, name="r", topic="007", step_records=20, on_step=done.append)
        wanted(world.layout, sink(served, topic), spark=spark)

    monkeypatch.setattr(table_copy, "COPY_RECORDS", 15)
    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "write_bytes", dying)
        with pytest.raises(KilledError):
            go_on()
    left = set((place / "records").iterdir())
    assert len(left) >= 7  # of 50 and 35 records
    assert not (place / "plan.json").exists()
    commit = exactly_once.SinkDriver.commit
    with monkeypatch.context() as patch:
        patch.setattr(exactly_once.SinkDriver, "commit", dying_at(2, commit))
        with pytest.raises(KilledError):
            go_on()
    assert [one.step for one in done] == [0]
    assert not left & set((place / "records").iterdir())
    # What becomes of the table now is no part of the replay.
    shutil.rmtree(world.layout.directory / TABLE)
    go_on()
    assert [one.step for one in done] == [0, 1, 2]
    assert sum(one.rows for one in done) == 85
    assert not (place / "records").exists()
    check(cluster, topic)
    check_offsets(cluster, world, "r", topic)
    assert Admin(cluster).describe_topic(topic).partitions.keys() == {0, 1, 2, 3}
    assert last_topic_id(world.layout, "r") == ["id-1"]


def test_an_offset_that_is_there_twice_is_found_in_a_file_and_between_two(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    records = [record(p, offset) for p in (0, 1) for offset in range(20)]
    twice = rows_of(spark, tmp_path / "twice", [*records, record(1, 9)])
    twice = twice.repartition(1)
    copies = storage_at(tmp_path / "copies")
    for most in (100, 10):  # the second 9 is the first of a file
        monkeypatch.setattr(table_copy, "COPY_RECORDS", most)
        with pytest.raises(ArchiveError, match=r"of t .*: offset 9 of partition 1 is there twice"):
            copy_topic(twice, "t", copies, NO_TAG, here)
    assert copy_topic(twice, "other", copies, NO_TAG, here) == []
    assert copies.list() == []


@pytest.mark.parametrize("column", ["partition", "offset"])
@pytest.mark.parametrize(
    ("value", "problem"), [(None, "no partition, or no offset"), (-1, "or an offset below 0")]
)
def test_rows_that_are_no_records(tmp_path: Path, column: str, value: int | None, problem: str):
    rows = [{**record(0, 5), column: value}, record(0, 6)]
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), tmp_path / "x.parquet")
    look = table_copy._look_at(storage_at(tmp_path), "x.parquet")
    with pytest.raises(ArchiveError, match=f"of t cannot be replayed: .*{problem}"):
        table_copy._require_each_once("t", [look])


@pytest.mark.parametrize("topic", [None, "t"])
def test_an_archive_without_topics_says_so(tmp_path: Path, topic: str | None):
    with pytest.raises(ArchiveError, match="has no topic yet"):
        replay_plan._choose(Layout(tmp_path), [], topic)


def test_tables_that_are_refused(spark: Any, served: str, topic: str, world: World):
    layout, options = world.layout, sink(served, topic)
    with pytest.raises(ArchiveError, match="as orc: give `spark`"):
        replay(layout, options, name="r")
    with pytest.raises(ArchiveError, match="has topics 007, 7: say which"):
        replay(layout, options, name="r", spark=spark)
    with pytest.raises(ArchiveError, match="has no topic 'x', but 007, 7"):
        replay(layout, options, name="r", topic="x", spark=spark)
    prepare(layout, "orc", stops_at_loss=False)
    prepare(layout, "orc")
    with pytest.raises(ArchiveError, match="one that was created again may be mixed"):
        replay(layout, options, name="r", topic="007", spark=spark)
    state = read_state(layout)
    settings = {key: value for key, value in state.settings.items() if key != STOPPED_AT_LOSS}
    # As it was before that was kept.
    update_state(layout, lambda state: replace(state, settings=settings))
    with pytest.raises(ArchiveError, match="not every run is known"):
        replay(layout, options, name="r", topic="007", spark=spark)
    assert not list(layout.local(REPLAYS).rglob("plan.json"))


def test_a_table_that_is_none_of_an_archive(spark: Any, tmp_path: Path):
    layout = Layout(tmp_path / "a")
    prepare(layout, "orc")
    with pytest.raises(ArchiveError, match="there is no table yet"):
        read_table(spark, layout, "orc")


def altered(**types: str | None) -> Any:
    """An archive's columns, some of another type, and others; None: gone."""
    from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

    kinds = {"bigint": LongType(), "string": StringType(), "int": IntegerType()}
    columns = {one.name: one for one in default_schema(include_headers=True)}
    for name, told in types.items():
        if told is None:
            del columns[name]
        else:
            kind, _, more = told.partition(" ")
            columns[name] = StructField(name, kinds[kind], more != "not null")
    return StructType(list(columns.values()))


@pytest.mark.parametrize(
    "types",
    [{}, {"partition": "bigint", "timestampType": "bigint"}, {"note": "string", "date": "int"}],
)
def test_tables_that_take_an_archives_records(types: Any):
    require_columns(altered(**types), "here")


@pytest.mark.parametrize(
    ("types", "told"),
    [
        ({"headers": None}, "here: has no column headers, which is array<struct<.*ADD COLUMNS"),
        ({"offset": "int"}, "column offset is int in the table and bigint in an archive, and only"),
        ({"partition": "string"}, "column partition is string in the table and int in an archive"),
        ({"value": "string"}, "column value is string in the table and binary in an archive"),
        ({"note": "int not null"}, "column note is int and may not be null.*DROP NOT NULL"),
    ],
)
def test_tables_that_would_lose_something_are_refused(types: Any, told: str):
    with pytest.raises(ArchiveError, match=told):
        require_columns(altered(**types), "here")


def test_a_copy_that_is_gone(tmp_path: Path):
    plan = {
        "format": 1, "id": "0" * 16, "topic": "t", "new_topic": "n", "keep_partitions": True,
        "partitions": 1, "steps": [], "copies": ["../../p.parquet"],
    }  # fmt: skip
    place = storage_at(tmp_path)
    place.write_bytes("plan.json", json.dumps(plan).encode())
    with pytest.raises(ArchiveError, match=r"records/p\.parquet: is gone"):
        replay_plan.files_of(Layout(tmp_path), place, replay_plan.read_plan(place))


def test_a_plan_of_more_steps_than_any(tmp_path: Path):
    most = replay_plan.STEPS_MAX
    with pytest.raises(ArchiveError, match=f"more than {most} steps of 2"):
        replay_plan._steps({0: (0, 2 * most + 1)}, "", 2)
