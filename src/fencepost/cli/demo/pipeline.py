"""Runs the Spark Declarative Pipelines project of the demo and reads what it wrote.

The project in `examples/flights` is copied into the demo's directory with a specification that
keeps its checkpoints there, so that it can be edited and run again. Tables are read back with
PyArrow, not with Spark: the proof does not lean on the engine that it checks.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fencepost.cli.demo.dataset import Fingerprint, fingerprint
from fencepost.spark.java import ensure_java_home
from fencepost.testing.sessions import session_members, stop_session

if TYPE_CHECKING:
    import pyarrow as pa

_LOG_SETTINGS = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""
_CHECKOUT_PROJECT = Path(__file__).resolve().parents[4] / "examples" / "flights"
_PACKAGED_PROJECT = Path(__file__).resolve().parent / "flights"


class PipelineFailedError(RuntimeError):
    """The pipeline did not complete; the message has the end of its log."""


def project_source() -> Path:
    """The directory of the project: in the checkout, or beside this module in a wheel."""
    for path in (_PACKAGED_PROJECT, _CHECKOUT_PROJECT):
        if (path / "spark-pipeline.yml").is_file():
            return path
    raise PipelineFailedError(
        f"the pipeline project is neither at {_CHECKOUT_PROJECT} nor at {_PACKAGED_PROJECT}"
    )


def prepare_project(directory: Path) -> Path:
    """Copy the project under `directory`, with its checkpoints there; the copy's path."""
    project = directory / "pipeline"
    shutil.copytree(project_source(), project, ignore=shutil.ignore_patterns("__pycache__"))
    spec = project / "spark-pipeline.yml"
    lines = [
        f"storage: {(directory / 'checkpoints').as_uri()}" if line.startswith("storage:") else line
        for line in spec.read_text().splitlines()
    ]
    spec.write_text("\n".join(lines) + "\n")
    conf = directory / "conf"
    conf.mkdir()
    (conf / "log4j2.properties").write_text(_LOG_SETTINGS)
    write_tables_to(directory, "tables")
    return project


def write_tables_to(directory: Path, name: str) -> None:
    """From now on runs write their tables there. Checkpoints stay.

    Each run has a catalog of its own, in memory, and does not take tables over that others wrote.
    """
    settings = {
        "spark.sql.warehouse.dir": str(directory / name),
        "spark.ui.enabled": "false",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        # What fails is told, not tried again: a retry would hide that a source had failed.
        "spark.sql.pipelines.maxFlowRetryAttempts": "0",
        "spark.python.unix.domain.socket.enabled": "true",
    }
    lines = [f"{name} {value}\n" for name, value in settings.items()]
    (directory / "conf" / "spark-defaults.conf").write_text("".join(lines))


def command(directory: Path) -> list[str]:
    """The command line that runs the prepared project once."""
    launcher = Path(sys.executable).with_name("spark-pipelines")
    return [str(launcher), "run", "--spec", str(directory / "pipeline" / "spark-pipeline.yml")]


def environment(directory: Path, bootstrap_servers: str, topic: str) -> dict[str, str]:
    """The environment of the pipeline's processes."""
    java = ensure_java_home()
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return {
        **os.environ,
        "JAVA_HOME": str(java.home),
        "PATH": path,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        # Spark Connect on a free port, not on its fixed 15002: two demos may run (SPARK-42272).
        "SPARK_TESTING": "1",
        "SPARK_CONF_DIR": str(directory / "conf"),
        "FLIGHTS_BOOTSTRAP_SERVERS": bootstrap_servers,
        "FLIGHTS_TOPIC": topic,
    }


def loss_in_log(directory: Path, topic: str, partition: int) -> str | None:
    """What the last run said it lost of a partition; None if it said nothing."""
    text = (directory / "pipeline.log").read_text()
    found = re.search(rf"\b{re.escape(topic)}-{partition}: [^;\n]+, offsets [^;\n]+", text)
    return found.group().partition(". Set failOnDataLoss")[0] if found else None


class Finished(NamedTuple):
    """What a run of the pipeline took: seconds, and the most memory its largest JVM had."""

    took_s: float
    jvm_peak_mb: float


def run(
    directory: Path, environ: Mapping[str, str], progress: Callable[[str], None], timeout_s: float
) -> Finished:
    """Run the prepared project, passing its event lines on; nothing of it is left running."""
    started = time.monotonic()
    log_path = directory / "pipeline.log"
    peak_mb = 0.0
    process = subprocess.Popen(
        command(directory),
        cwd=directory / "pipeline",
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    alarm = threading.Timer(timeout_s, stop_session, [process.pid])
    alarm.start()
    try:
        with log_path.open("w") as log:
            for line in process.stdout:
                log.write(line)
                peak_mb = max(peak_mb, _largest_java_mb(process.pid))
                if "Flow " in line and ("STARTING" in line or " has " in line):
                    progress(line.split("Flow ", 1)[1].strip().rstrip("."))
        code = process.wait()
    finally:
        alarm.cancel()
        stop_session(process.pid)
        process.wait()
    took_s = time.monotonic() - started
    if took_s > timeout_s:
        raise PipelineFailedError(f"the pipeline took more than {timeout_s:.0f} s; see {log_path}")
    if code != 0:
        tail = "".join(log_path.read_text().splitlines(keepends=True)[-25:])
        raise PipelineFailedError(f"spark-pipelines exited with {code}; see {log_path}\n{tail}")
    return Finished(took_s, peak_mb)


def peak_rss_mb(pid: int) -> float:
    """The most memory the process has had resident (Linux), in MB; 0 for one that has ended."""
    status = Path(f"/proc/{pid}/status").read_text()
    _, found, rest = status.partition("VmHWM:")
    return int(rest.split(None, 1)[0]) / 1024 if found else 0.0


def _largest_java_mb(session_id: int) -> float:
    largest = 0.0
    for pid in session_members(session_id):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/comm").read_text().strip() == "java":
                largest = max(largest, peak_rss_mb(pid))
    return largest


def read_table(directory: Path, name: str) -> pa.Table:
    """A table that the pipeline wrote, from its Parquet files."""
    import pyarrow.parquet as pq

    path = directory / "tables" / name
    files = [file for file in sorted(path.rglob("*.parquet")) if file.stat().st_size]
    if not files:
        raise PipelineFailedError(f"the pipeline wrote no table {name} in {directory / 'tables'}")
    return pq.read_table(files)


def raw_fingerprint(table: pa.Table) -> Fingerprint:
    """What arrived: the fingerprint of the streaming table's keys and values."""
    keys = table.column("tailnum").to_pylist()
    events = table.column("event").to_pylist()
    return fingerprint(
        (key.encode() if key is not None else None, event.encode())
        for key, event in zip(keys, events, strict=True)
    )


def offset_problems(table: pa.Table, end_offsets: Mapping[int, int]) -> list[str]:
    """Where the table's (partition, offset) pairs are not exactly 0 .. end - 1 of each partition.

    `end_offsets` are the log end offsets by partition.
    """
    seen: dict[int, list[int]] = {partition: [] for partition in end_offsets}
    partitions = table.column("partition").to_pylist()
    for partition, offset in zip(partitions, table.column("offset").to_pylist(), strict=True):
        seen.setdefault(partition, []).append(offset)
    problems = []
    for partition, offsets in sorted(seen.items()):
        expected = end_offsets.get(partition, 0)
        if sorted(offsets) != list(range(expected)):
            lost = len(set(range(expected)) - set(offsets))
            repeated = len(offsets) - len(set(offsets))
            problems.append(f"partition {partition}: {lost} offsets lost, {repeated} repeated")
    return problems
