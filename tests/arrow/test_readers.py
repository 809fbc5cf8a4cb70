"""What reads Arrow streams reads scans: pandas, Polars and DuckDB, by their own doors."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import pyarrow as pa
import pytest

import fencepost.arrow
from fencepost.batch.records import build_batch

from ..client.fake_cluster import FakeCluster
from .conftest import Properties
from .test_scanning import cut_and_grow, fill

ROWS = [
    (partition, offset, f"k{offset}" if offset % 3 else None, f"wert {offset} €")
    for partition in (0, 1)
    for offset in range(10 + partition)
]
COLUMNS = ["partition", "offset", "key", "value", "timestamp", "headers"]


@pytest.fixture(scope="module", autouse=True)
def polars_is_loaded() -> None:
    """It leaves a setting of its allocator in the environment: before a test looks."""
    with contextlib.suppress(ImportError):
        importlib.import_module("polars")


@pytest.fixture
def scan(fake: FakeCluster, servers: Properties) -> fencepost.arrow.Scan:
    """Of two partitions, as text, with headers and nulls."""
    for partition, rows in itertools.groupby(ROWS, key=lambda row: row[0]):
        for _, offset, key, value in rows:
            item = (key.encode() if key else None, value.encode(), [("h", b"x"), ("h", None)])
            fake.partition("t", partition).append(
                bytes(build_batch([item], timestamp_ms=1_700_000_000_000 + offset))
            )
    return fencepost.arrow.scan(servers, topics="t", columns=COLUMNS, text=True)


def test_arrow(scan: fencepost.arrow.Scan):
    assert pa.table(scan).equals(scan.read_all())
    reader = pa.RecordBatchReader.from_stream(scan)
    assert reader.schema == scan.schema
    assert reader.read_all().num_rows == len(ROWS)
    assert scan.reader().read_next_batch().num_rows > 0


def test_pandas(scan: fencepost.arrow.Scan):
    frame = scan.reader().read_pandas()
    chosen = frame[["partition", "offset", "key", "value"]]
    assert [tuple(row) for row in chosen.itertuples(index=False)] == ROWS
    assert str(frame["timestamp"].dtype) == "datetime64[us, UTC]"
    assert frame["timestamp"][1].isoformat() == "2023-11-14T22:13:20.001000+00:00"


def test_polars(scan: fencepost.arrow.Scan):
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(scan)
    assert frame.select("partition", "offset", "key", "value").rows() == ROWS
    assert frame.schema["timestamp"] == pl.Datetime("us", "UTC")
    assert frame["headers"][0].to_list() == [
        {"key": "h", "value": b"x"},
        {"key": "h", "value": None},
    ]
    per_partition = frame.lazy().group_by("partition").agg(pl.len()).sort("partition").collect()
    assert per_partition.rows() == [(0, 10), (1, 11)]


def test_duckdb(scan: fencepost.arrow.Scan):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        connection.register("records", scan)
        chosen = 'select "partition", "offset", key, value from records order by all'
        assert connection.execute(chosen).fetchall() == ROWS
        text = "select len(headers), headers[1].key, timestamp::text from records limit 1"
        assert connection.execute(text).fetchone() == (2, "h", "2023-11-14 22:13:20+00")
        # A scan can be read as often as it is asked for.
        assert connection.execute("select count(*) from records").fetchone() == (len(ROWS),)


def polars_reads(scan: Any) -> Any:
    return pytest.importorskip("polars").DataFrame(scan)


def duckdb_reads(scan: Any) -> Any:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        connection.register("records", scan)
        return connection.execute("select count(*) from records").fetchall()


@pytest.mark.parametrize("reads", [pa.table, polars_reads, duckdb_reads])
def test_a_loss_is_no_short_table(fake: FakeCluster, servers: Properties, reads: Any):
    """Each has exceptions of its own, whose text has ours."""
    fill(fake, 10)
    scan = fencepost.arrow.scan(servers, topics="t", start={"t": {0: 2, 1: 0}})
    cut_and_grow(fake)
    with pytest.raises(Exception, match="t-0: rewritten, offsets 6 to 10") as raised:
        reads(scan)
    assert "fencepost.arrow.errors.DataLossError" in str(raised.value)


def count(pickled: bytes) -> int:
    """In another process."""
    scan: fencepost.arrow.Scan = pickle.loads(pickled)
    return sum(batch.num_rows for batch in scan)


def test_pieces_are_read_by_other_processes(scan: fencepost.arrow.Scan):
    """As Ray, Dask or Daft would have it."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        counts = list(pool.map(count, [pickle.dumps(piece) for piece in scan.split()]))
    assert counts == [10, 11]
