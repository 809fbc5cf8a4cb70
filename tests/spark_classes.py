"""The classes that Spark loads, in a file that each JVM of a test maps into memory.

    python -m tests.spark_classes

writes it (class-data sharing, a dynamic archive), unless it is there for this PySpark and this
Java. A JVM of Spark that runs a few small jobs otherwise spends half of its processor time on
finding, checking and linking classes of the jars. To write it takes what some nine of them save, so
`make test-long` does, which starts dozens. Tests work without it, too, and a JVM to which it does
not apply, of another version or with another class path, ignores it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from typing import Any, Final

from .quick_java import ARCHIVE, COMPILE_LITTLE, QUIET

STAMP: Final = ARCHIVE.with_suffix(".of")
"""What the archive was written for; there also if that Java cannot write one."""
EXIT_TIMEOUT_S: Final = 600.0


def wanted_stamp() -> str:
    """What an archive for the PySpark and Java of now is stamped with. JavaNotFoundError."""
    import pyspark

    from fencepost.spark.java import ensure_java_home

    binary = (ensure_java_home().home / "bin" / "java").resolve()
    return f"PySpark {pyspark.__version__}, {binary} of {binary.stat().st_mtime_ns}\n"


def is_current() -> bool:
    """Whether there is nothing to write. JavaNotFoundError."""
    return STAMP.exists() and STAMP.read_text() == wanted_stamp()


def main() -> None:
    """Write the archive, if it is not there. JavaNotFoundError."""
    if is_current():
        return
    draft = ARCHIVE.with_suffix(f".{os.getpid()}.draft")
    os.environ["SPARK_SUBMIT_OPTS"] = f"{COMPILE_LITTLE} {QUIET} -XX:ArchiveClassesAtExit={draft}"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    try:
        with tempfile.TemporaryDirectory() as place:
            _load_classes(place)
        if draft.exists():
            draft.replace(ARCHIVE)
        STAMP.write_text(wanted_stamp())
    finally:
        draft.unlink(missing_ok=True)


def _load_classes(place: str) -> None:
    """What many tests do, in a session whose JVM has ended when this returns."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    java = SparkContext._gateway.proc  # type: ignore[union-attr]
    try:
        _run_jobs(session, place)
    finally:
        session.stop()
        java.stdin.close()  # it ends, and writes the archive then
        try:
            java.wait(EXIT_TIMEOUT_S)
        finally:
            java.kill()


def _run_jobs(session: Any, place: str) -> None:
    from pyspark.sql.datasource import DataSource, DataSourceReader

    class Reader(DataSourceReader):
        def read(self, partition: Any) -> Iterator[tuple[int, str]]:
            yield from ((number, f"{number % 7}") for number in range(100))

    class Numbers(DataSource):
        def schema(self) -> str:
            return "number int, word string"

        def reader(self, schema: Any) -> DataSourceReader:
            return Reader()

    session.dataSource.register(Numbers)
    rows = session.read.format("Numbers").load()
    files = f"{place}/files"
    rows.mapInArrow(lambda batches: batches, rows.schema).write.partitionBy("word").parquet(files)
    read = session.read.schema("number int, word string").parquet(files)
    counted = read.groupBy("word").agg({"number": "sum"})
    assert counted.join(rows, "word").orderBy("number").count() == 100
    session.createDataFrame([(1, "a")], rows.schema).toPandas()
    (
        session.readStream.schema(read.schema)
        .parquet(files)
        .writeStream.foreachBatch(lambda batch, _: batch.collect())
        .option("checkpointLocation", f"{place}/checkpoint")
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )


if __name__ == "__main__":
    main()
