"""Tables written by Spark itself, in this process's session."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.arrow.storage import storage_at
from fencepost.cli.main import main
from fencepost.client.cluster import Cluster
from fencepost.client.producer import Producer
from fencepost.spark.query_look import look_at_query
from fencepost.spark.tables import MergeOptions, TableError, latest, read, read_errors
from fencepost.spark.tables.upkeep import verify
from fencepost.spark.tables.versions import Version, Versions

from ..conftest import spark as spark_session
from ..test_session import make_topic
from .worlds import envelope, grow_structs, key_of, row_of

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]
spark = spark_session
SCHEMA = "id long, name string, big string"


@pytest.fixture
def cluster(served: str) -> Iterator[Cluster]:
    with Cluster(served) as opened:
        yield opened


def forget_last_commit(table: Path) -> None:
    """As if the driver had died between the version and Spark's own note of the batch."""
    commits = table / "_table/checkpoint/commits"
    last = max(int(path.name) for path in commits.glob("[0-9]*"))
    for path in (commits / str(last), commits / f".{last}.crc"):
        path.unlink(missing_ok=True)


def test_a_topic_of_changes_becomes_a_table(
    spark: Any, cluster: Cluster, served: str, topic: str, tmp_path: Path, capsys: Any
):
    make_topic(cluster, topic)
    place = tmp_path / "a table"
    source = {"kafka.bootstrap.servers": served, "subscribe": topic}
    told: list[Version] = []

    def run(**options: Any) -> None:
        query = latest(
            spark,
            source,
            place,
            decode="debezium",
            schema=options.pop("schema", SCHEMA),
            key="id",
            buckets=4,
            on_batch=told.append,
            options=MergeOptions(on_error="keep"),
        )
        try:
            query.awaitTermination()
        finally:
            query.stop()

    def names() -> dict[int, str]:
        return {row.id: (row.name, row.big) for row in read(spark, place).collect()}

    with Producer(cluster) as producer:
        for number in range(40):
            value = envelope("c", number + 1, after=row_of(number, f"n{number}", "B"))
            producer.send(topic, value, key_of(number))
        producer.send(topic, b"nonsense", key_of(1))
    run()
    assert names() == {number: (f"n{number}", "B") for number in range(40)}
    assert told[-1].counts["errors"] == 1
    assert [bytes(row.value) for row in read_errors(spark, place).collect()] == [b"nonsense"]
    with Producer(cluster) as producer:
        for number in range(0, 40, 2):
            value = envelope("u", 100 + number, after=row_of(number, "new"))
            producer.send(topic, value, key_of(number))
        for number in range(0, 40, 4):
            producer.send(topic, envelope("d", 200 + number), key_of(number))
            producer.send(topic, None, key_of(number))
        late = envelope("u", 1, after=row_of(0, "late", "B"))
        producer.send(topic, late, key_of(0))
    expected = {
        number: ("new" if number % 2 == 0 else f"n{number}", "B")
        for number in range(40)
        if number % 4
    }
    run()
    assert names() == expected
    counts = told[-1].counts
    assert (counts["late"], counts["overtaken"]) == (0, 1), "what overtook it was in its own batch"
    before = len(told)
    forget_last_commit(place)
    run()
    assert len(told) == before
    assert names() == expected
    versions = Versions(storage_at(place))
    assert verify(versions) == (versions.require_newest(), [])
    assert read(spark, place, version=2).count() == 40
    assert spark.read.parquet(f"file:{place}/current").count() == len(expected)
    view = look_at_query(cluster, place / "_table/checkpoint")
    assert sum(one.lag or 0 for one in view.partitions) == 0
    with pytest.raises(TableError, match="column name is string"):
        run(schema="id long, name long")
    with pytest.raises(TableError, match="decode=debezium, key=id"):
        latest(spark, source, place, decode="json", schema=SCHEMA, key="id")
    capsys.readouterr()


def test_structs_that_grew_are_read_from_old_files_too(spark: Any, tmp_path: Path):
    expected = grow_structs(tmp_path)
    rows = read(spark, tmp_path).collect()
    assert {row.id: row.of.asDict() for row in rows} == expected
    assert all(row.all == [row.of, None] for row in rows)


def test_the_command_keeps_the_latest_value_of_each_key(
    spark: Any, cluster: Cluster, served: str, topic: str, tmp_path: Path, capsys: Any
):
    make_topic(cluster, topic)
    with Producer(cluster) as producer:
        for number in range(30):
            producer.send(topic, b"v%d" % number, b"k%d" % (number % 10))
        producer.send(topic, None, b"k0")
    place = str(tmp_path / "latest")
    command = ["tables", "run", place, topic, "-b", served, "--json", "--buckets", "2"]
    assert main(command) == 0
    done = json.loads(capsys.readouterr().out)
    assert (done["rows"], done["events"], done["version"]) == (9, 31, 2)
    rows = {bytes(row.key): bytes(row.value) for row in read(spark, place).collect()}
    assert rows == {b"k%d" % number: b"v%d" % (20 + number) for number in range(1, 10)}
    assert main(["tables", "verify", place]) == 0
    assert main([*command, "--order", "timestamp"]) == 1
    assert "is a table with decode=bytes" in capsys.readouterr().err
