"""What people do with exactly-once queries and foreachBatch, with Spark itself: rows are there
once, or an error says why not. Without Spark there is more of it in `test_exactly_once_uses`."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fencepost.client.cluster import Cluster
from fencepost.spark import in_batch
from fencepost.spark.errors import condition_of
from fencepost.spark.sinks import Sink, known_sinks
from fencepost.spark.stream import HAS_ADMISSION_CONTROL

from .test_exactly_once_session import numbers, wait_for_markers, writing
from .test_session import make_topic, produce, reading

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200)]
COUNT = 30
ROWS = list(range(COUNT))


@pytest.fixture
def copied(spark: Any, served: str, topic: str) -> Copied:
    """A topic with rows, and one for copies."""
    with Cluster(served) as cluster:
        make_topic(cluster, topic)
        make_topic(cluster, f"{topic}-out", 2)
        produce(cluster, topic, 0, COUNT)
    return Copied(spark, served, topic)


class Copied:
    """Queries that copy one topic to another, and what they leave."""

    def __init__(self, spark: Any, served: str, topic: str) -> None:
        self.spark, self.served, self.source, self.target = spark, served, topic, f"{topic}-out"

    def rows(self) -> Any:
        options = {"startingOffsets": "earliest"}
        return reading(self.spark.readStream, self.served, self.source, **options).load()

    def options(self, **options: str) -> dict[str, str]:
        return {
            "kafka.bootstrap.servers": self.served,
            "topic": self.target,
            "deliveryGuarantee": "exactly-once",
            **options,
        }

    def copy(self, name: str = "", **options: str) -> None:
        writer = self.rows().select("key", "value").writeStream.format("fencepost")
        if name:
            writer = writer.queryName(name)
        finish(writer.options(**self.options(**options)))

    def each_batch(self, function: Callable[[Any, int], None], checkpoint: Path) -> None:
        finish(
            self.rows().writeStream.foreachBatch(function).option("checkpointLocation", checkpoint)
        )

    def written(self, topic: str = "") -> list[int]:
        with Cluster(self.served) as cluster:
            wait_for_markers(cluster, "")
        return numbers(self.spark, self.served, topic or self.target)

    def sinks(self) -> list[Sink]:
        """Those that have written to the target."""
        with Cluster(self.served) as cluster:
            return [
                one
                for one in known_sinks(cluster)
                if one.decision is not None and self.target in one.decision.topics
            ]


def finish(writer: Any) -> None:
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()


def forget_last_batch(checkpoint: Path) -> None:
    """As a kill leaves it between the sink's commit and Spark's note of that."""
    commits = checkpoint / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdecimal())
    for name in (str(last), f".{last}.crc"):
        (commits / name).unlink(missing_ok=True)


def condition(raised: pytest.ExceptionInfo[BaseException]) -> str:
    found = condition_of(raised.value)
    assert found is not None, raised.value
    return found.name.rpartition(".")[2]


# -- queries --------------------------------------------------------------------------------------


def test_queries_that_share_a_prefix_in_turn(copied: Copied, tmp_path: Path):
    first, second = ({"checkpointLocation": str(tmp_path / name)} for name in "ab")
    prefix = {"transactionalIdPrefix": f"shared-{copied.source}"}
    copied.copy(**first, **prefix)
    forget_last_batch(tmp_path / "a")
    copied.copy(**second, **prefix)
    forget_last_batch(tmp_path / "b")
    copied.copy(**first, **prefix)
    copied.copy(**second, **prefix)
    assert copied.written() == sorted(ROWS * 2)
    (sink,) = copied.sinks()
    assert sink.name == prefix["transactionalIdPrefix"]


def test_a_checkpoint_is_one_sink_however_it_is_spelt_and_wherever_it_is_moved(
    copied: Copied, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    place = tmp_path / "query"
    copied.copy(checkpointLocation=str(place))
    (tmp_path / "link").symlink_to(place)
    moved = tmp_path / "moved"
    for location in (
        f"file://{place}/",
        str(tmp_path / "link"),
    ):
        forget_last_batch(place)
        copied.copy("now it has a name", checkpointLocation=location)
    forget_last_batch(place)
    place.rename(moved)
    copied.copy(checkpointLocation=str(moved))
    assert copied.written() == ROWS
    (sink,) = copied.sinks()
    assert sink.name.startswith(f"fencepost-spark-{copied.target}-")
    assert sink.decision is not None
    assert sink.decision.label.application == "fencepost tests"


def test_a_copy_of_a_checkpoint_that_went_on(copied: Copied, tmp_path: Path):
    """The original has written more since; to another topic, under another name, a copy goes on."""
    copied.copy(checkpointLocation=str(tmp_path / "a"))
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    with Cluster(copied.served) as cluster:
        produce(cluster, copied.source, COUNT, COUNT + 5)
    copied.copy(checkpointLocation=str(tmp_path / "a"))
    copied.copy(checkpointLocation=str(tmp_path / "b"))  # the same batch: it is not written again
    with Cluster(copied.served) as cluster:
        produce(cluster, copied.source, COUNT + 5, COUNT + 10)
        make_topic(cluster, f"{copied.target}-b", 1)
    copied.copy(checkpointLocation=str(tmp_path / "a"))
    forget_last_batch(tmp_path / "b")
    with pytest.raises(Exception, match="is a copy of one that went on") as raised:
        copied.copy(checkpointLocation=str(tmp_path / "b"))
    assert condition(raised) == "CHECKPOINT_WENT_BACK"
    # In PySpark 4.1 a run that repeats a batch ends with it, and the next one reads what is new.
    for _ in range(1 if HAS_ADMISSION_CONTROL else 2):
        copied.copy(
            checkpointLocation=str(tmp_path / "b"),
            topic=f"{copied.target}-b",
            transactionalIdPrefix=f"fork-{copied.source}",
        )
    assert copied.written() == list(range(COUNT + 10))
    assert copied.written(f"{copied.target}-b") == list(range(COUNT, COUNT + 10))


def test_where_the_session_says_where_checkpoints_are(copied: Copied, tmp_path: Path):
    """The sink does not see that; the query's name, which Spark calls the directory by, it does."""
    setting = "spark.sql.streaming.checkpointLocation"
    copied.spark.conf.set(setting, str(tmp_path))
    try:
        name = f"copy of {copied.source}"
        for _ in range(2):
            copied.copy(name)
            forget_last_batch(tmp_path / name)
        copied.copy(name)
        with pytest.raises(Exception, match="needs a name that stays"):
            copied.copy()
    finally:
        copied.spark.conf.unset(setting)
    assert copied.written() == ROWS
    (sink,) = copied.sinks()
    assert sink.name.startswith(f"fencepost-spark-copy_of_{copied.source}-{copied.target}-")
    assert sink.decision is not None
    assert sink.decision.label.query == name


# -- batch writes ---------------------------------------------------------------------------------


def test_a_batch_write_with_a_key(spark: Any, copied: Copied):
    def write(version: int, values: list[int], **options: str) -> None:
        frame = spark.createDataFrame([(str(one),) for one in values], "value string")
        key = {"txnAppId": "nightly export", "txnVersion": str(version), **options}
        chosen = copied.options(**key)
        frame.write.format("fencepost").options(**chosen).mode("append").save()

    write(20, [0, 1])
    write(20, [0, 1])
    write(21, [2])
    with pytest.raises(Exception, match="version 20 of txn/nightly export") as raised:
        write(20, [3])
    assert condition(raised) == "OLDER_VERSION"
    write(20, [4], txnAppId="another")
    assert copied.written() == [0, 1, 2, 4]
    names = {sink.name.rpartition("-")[0] for sink in copied.sinks()}
    applications = ("nightly_export", "another")
    assert names == {f"fencepost-spark-{one}-{copied.target}" for one in applications}


@pytest.mark.long
def test_each_batch_to_two_topics_and_a_table_with_dead_letters(
    spark: Any, copied: Copied, tmp_path: Path
):
    """The function fails before each of its writes in turn, and behind the last."""
    out, dead, table = copied.target, f"{copied.target}-dead", str(tmp_path / "table")
    with Cluster(copied.served) as cluster:
        make_topic(cluster, dead, 1)
    failing_at = 0

    def step(number: int) -> None:
        if number == failing_at:
            raise RuntimeError(f"killed before {number}")

    def publish(frame: Any, batch_id: int) -> None:
        rows = frame.selectExpr("key", "value", "int(string(value)) % 3 = 0 bad")
        sink = {"kafka.bootstrap.servers": copied.served, **in_batch(frame, batch_id)}
        step(0)
        good = rows.where("not bad").write.format("fencepost").options(**sink)
        good.option("topic", out).mode("append").save()
        step(1)
        bad = rows.where("bad").write.format("fencepost").options(**sink)
        bad.option("topic", dead).mode("append").save()
        step(2)
        rows.selectExpr("string(value) value").write.mode("overwrite").parquet(
            f"{table}/batch={batch_id}"
        )
        step(3)

    for failing_at in range(4):
        with pytest.raises(Exception, match=f"killed before {failing_at}"):
            copied.each_batch(publish, tmp_path / "query")
    failing_at = -1
    copied.each_batch(publish, tmp_path / "query")
    forget_last_batch(tmp_path / "query")
    copied.each_batch(publish, tmp_path / "query")
    assert copied.written(out) == [one for one in ROWS if one % 3]
    assert copied.written(dead) == ROWS[::3]
    assert sorted(int(row.value) for row in spark.read.parquet(table).collect()) == ROWS


def test_each_batch_without_a_key(copied: Copied, tmp_path: Path):
    """A sink with a prefix knows query and batch by itself; one without is refused."""

    def publish(frame: Any, batch_id: int) -> None:
        writing(frame.select("value"), copied.served, copied.target, f"p-{copied.source}").save()

    copied.each_batch(publish, tmp_path / "query")
    forget_last_batch(tmp_path / "query")
    copied.each_batch(publish, tmp_path / "query")
    assert copied.written() == ROWS

    def unnamed(frame: Any, batch_id: int) -> None:
        options = copied.options()
        frame.select("value").write.format("fencepost").options(**options).mode("append").save()

    with pytest.raises(Exception, match="in_batch\\(frame, batch_id\\)") as raised:
        copied.each_batch(unnamed, tmp_path / "unnamed")
    assert condition(raised) == "KEY_NEEDED"
    assert copied.written() == ROWS


def test_two_writes_to_one_topic_in_each_batch(copied: Copied, tmp_path: Path):
    """They need names; without, the second would be taken for the first and be left out."""

    def publish(names: tuple[str, str]) -> Callable[[Any, int], None]:
        def write(frame: Any, batch_id: int) -> None:
            for name, where in zip(names, ("= 0", "= 1"), strict=True):
                rows = frame.where(f"int(string(value)) % 2 {where}").select("value")
                options = copied.options(**in_batch(frame, batch_id, name))
                rows.write.format("fencepost").options(**options).mode("append").save()

        return write

    with pytest.raises(Exception, match="is another write with the same txnAppId") as raised:
        copied.each_batch(publish(("", "")), tmp_path / "query")
    assert condition(raised) == "SAME_KEY_TWICE"
    copied.each_batch(publish(("", "odd")), tmp_path / "query")
    assert copied.written() == ROWS


def test_a_key_outside_of_a_batch(spark: Any):
    frame = spark.range(1)
    with pytest.raises(ValueError, match="does not say here which query"):
        in_batch(frame, 0)
    assert in_batch(frame, 3, "late", app_id="orders") == {
        "deliveryGuarantee": "exactly-once",
        "txnAppId": "orders/late",
        "txnVersion": "3",
    }
    for wrong in (-1, True, "1"):
        with pytest.raises(ValueError, match="is no batch id"):
            in_batch(frame, wrong, app_id="orders")  # type: ignore[arg-type]
