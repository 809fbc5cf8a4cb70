"""What a job has written, and what it should have."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
from pyarrow.dataset import dataset

from fencepost.arrow.archive.layout import Layout
from fencepost.arrow.storage import storage_at
from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.config import ClientConfig
from fencepost.client.fetcher import Fetcher
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import LATEST, list_offsets
from fencepost.spark.archive.checking import verify as verify_archive
from fencepost.spark.tables.bucket_task import read_file
from fencepost.spark.tables.upkeep import verify as verify_table
from fencepost.spark.tables.versions import Versions

from ...waiting import eventually

Found = dict[str, object]


def written(job: str, servers: str, folder: Path) -> Found:
    """The numbers in each of the job's outputs, sorted, and what is wrong with it."""
    if job == "tables":
        return in_table(folder / "checkpoint-latest")
    if job == "archive":
        return in_archive(folder / "checkpoint-archive")
    found: Found = {topic: values(servers, topic) for topic in ("to", "to-dead")}
    if job == "each-batch":
        files = sorted((folder / "checkpoint-table").rglob("*.parquet"))
        found["table"] = sorted(pq.read_table(files).column("number").to_pylist())
    return found


def expected(job: str, count: int) -> Found:
    """Of a job that was given the numbers up to `count`."""
    whole = list(range(count))
    if job == "tables":
        return {"table": whole, "upserts": count, "late": 0, "repeated": 0, "problems": []}
    if job == "archive":
        return {"archive": whole, "gaps": [], "problems": []}
    if job == "each-batch":
        return {"to": [one for one in whole if one % 5], "to-dead": whole[::5], "table": whole}
    return {"to": whole, "to-dead": []}


def values(servers: str, topic: str) -> list[int]:
    """All numbers that readers of committed records see, sorted, once nothing is being ended."""
    config = ClientConfig(bootstrap_servers=servers, isolation_level="read_committed")
    with Cluster(config=config) as cluster:
        ending = ("PrepareCommit", "PrepareAbort")
        eventually(lambda: not list(Admin(cluster).list_transactions(states=ending)))
        wanted = [TopicPartition(topic, number) for number in cluster.topic(topic).partitions]
        ends = list_offsets(cluster, dict.fromkeys(wanted, LATEST))
        return sorted(
            int(record.value or b"")
            for one in wanted
            for fetched in Fetcher(cluster).read_range(one, 0, ends[one].offset)
            for record in fetched.read_records(ends[one].offset)
        )


def in_table(place: Path) -> Found:
    """A batch that is taken in twice shows as repeated events, though the rows are the same."""
    versions = Versions(storage_at(str(place)))
    newest, problems = verify_table(versions)
    files = [one.rows for one in newest.buckets.values() if one.rows is not None]
    tables = [read_file(versions.storage, file) for file in files]
    totals = {name: newest.totals[name] for name in ("upserts", "late", "repeated")}
    numbers = sorted(int(value) for table in tables for value in table["value"].to_pylist())
    linked = pq.read_table(sorted((place / "current").resolve().glob("*.parquet")))
    if sorted(map(int, linked["value"].to_pylist())) != numbers:
        problems = [*problems, "current is another version"]
    return {"table": numbers, **totals, "problems": problems}


def in_archive(place: Path) -> Found:
    """As a reader sees it that lists directories, and as `verify` does."""
    found = verify_archive(Layout(place))
    rows = dataset(str(place), format="parquet", partitioning="hive").to_table(columns=["value"])
    return {
        "archive": sorted(map(int, rows["value"].to_pylist())),
        "gaps": [gap for one in found.partitions for gap in one.gaps],
        "problems": found.all_problems,
    }
