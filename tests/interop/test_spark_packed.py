"""A packed environment: workers that have Spark alone get Fencepost in an archive.

The Spark that runs is laid out as its distributions are, PySpark in an archive of its own, from the
files that the package `pyspark` brings; no process but the driver has the suite's Python.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.producer import Producer
from fencepost.spark.java import ensure_java_home, find_java
from fencepost.testing.spark_standalone import SparkStandalone

from .maven import ROOT

pytestmark = [
    pytest.mark.interop,
    pytest.mark.spark,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds processes in /proc"),
]
COUNT = 40
NO_MODULES = {"bin", "data", "examples", "jars", "licenses", "python", "sbin"}
"""Directories of the package `pyspark` that a distribution has beside its archive."""
PYTHON = "./environment/bin/python"
JOB = """
import json, sys
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

servers, source, target, place = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
options = {"kafka.bootstrap.servers": servers}

def told(batches):
    import fencepost, pyarrow
    for batch in batches:
        where = json.dumps([sys.prefix, fencepost.__file__]).encode()
        yield pyarrow.RecordBatch.from_pydict(
            {"key": [where] * batch.num_rows, "value": batch.column("value")})

def copied(reader):
    rows = reader.format("fencepost").options(**options, subscribe=source)
    rows = rows.option("startingOffsets", "earliest").load().select("value")
    return rows.mapInArrow(told, "key binary, value binary")

def found(topic):
    rows = spark.read.format("fencepost").options(**options, subscribe=topic).load().collect()
    return [[row.key.decode(), int(row.value)] for row in rows]

copied(spark.read).write.format("fencepost").options(**options, topic=target).mode("append").save()
print("batch", json.dumps(found(target)), flush=True)
for attempt in range(5):
    query = (copied(spark.readStream).writeStream.format("fencepost")
             .options(**options, topic=f"{target}-once", deliveryGuarantee="exactly-once")
             .option("checkpointLocation", place).trigger(availableNow=True).start())
    try:
        query.awaitTermination()
        break
    except StreamingQueryException as error:  # Spark waits 10 s, which a busy machine may need
        if "failed to connect back" not in str(error):
            raise
print("stream", json.dumps(found(f"{target}-once")), flush=True)
spark.stop()
"""


@pytest.fixture(scope="module")
def spark_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Spark as a distribution has it."""
    installed = Path(pyspark.__file__).parent
    home = tmp_path_factory.mktemp("spark")
    for name in ("bin", "sbin", "jars"):
        (home / name).symlink_to(installed / name)
    libraries = home / "python" / "lib"
    libraries.mkdir(parents=True)
    for path in (installed / "python" / "lib").iterdir():
        (libraries / path.name).symlink_to(path)
    with zipfile.ZipFile(libraries / "pyspark.zip", "w") as archive:
        for path in installed.rglob("*"):
            name = path.relative_to(installed)
            if path.suffix in (".py", ".json") and name.parts[0] not in NO_MODULES:
                archive.write(path, "pyspark" / name)
    return home


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive, made as docs/SPARK.md says."""
    directory = tmp_path_factory.mktemp("packed")
    python = str(directory / "environment" / "bin" / "python")
    made = directory / "environment.tar.gz"
    subprocess.run([sys.executable, "-m", "venv", str(directory / "environment")], check=True)
    pip = [python, "-m", "pip", "install", "-q", f"{ROOT}[arrow,regex]", "pandas<3", "venv-pack2"]
    done = subprocess.run(pip, capture_output=True, text=True, check=False, timeout=1800)
    if done.returncode != 0 and "No matching distribution" in done.stderr:
        pytest.skip(f"pip finds no packages: {done.stderr[-300:]}")
    assert done.returncode == 0, done.stderr
    pack = [str(Path(python).with_name("venv-pack")), "-q", "-o", str(made)]
    environ = {**os.environ, "VIRTUAL_ENV": str(directory / "environment")}
    subprocess.run(pack, check=True, env=environ, timeout=900)
    return made


@pytest.fixture(scope="module")
def standalone(spark_home: Path) -> Iterator[SparkStandalone]:
    """Two workers whose environment leads to no Python of the suite's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", "/usr/bin:/bin")
        for name in ("PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "VIRTUAL_ENV"):
            patch.delenv(name, raising=False)
        with SparkStandalone(workers=2, spark_home=spark_home) as made:
            yield made


def test_workers_read_and_write_by_the_archive_alone(
    standalone: SparkStandalone, spark_home: Path, packed: Path, served: str, tmp_path: Path
):
    with Cluster(served) as client:
        for name in ("packed", "packed-to", "packed-to-once"):
            Admin(client).create_topic(name, 2)
            Admin(client).wait_for_topic(name)
        with Producer(client) as producer:
            for number in range(COUNT):
                producer.send("packed", b"%d" % number, partition=number % 2)
    (tmp_path / "job.py").write_text(JOB)
    # For the processes beside the driver, which are started by the path that executors know.
    (tmp_path / "environment").symlink_to(sys.prefix)
    words = [str(spark_home / "bin" / "spark-submit"), "--master", standalone.master_url]
    words += ["--archives", f"{packed}#environment"]
    settings = {
        **standalone.settings,
        "spark.pyspark.driver.python": sys.executable,
        "spark.python.authenticate.socketTimeout": "120s",  # machines of tests are busy
    }
    for name, value in settings.items():
        words += ["--conf", f"{name}={value}"]
    java = find_java() or ensure_java_home()
    environ = {key: value for key, value in os.environ.items() if not key.startswith("PYSPARK_")}
    environ |= {"SPARK_HOME": str(spark_home), "JAVA_HOME": str(java.home)}
    done = subprocess.run(
        [*words, "job.py", served, "packed", "packed-to", str(tmp_path / "checkpoint")],
        capture_output=True, text=True, check=False, timeout=1800, cwd=tmp_path,
        env={**environ, "PYSPARK_PYTHON": PYTHON},
    )  # fmt: skip
    told = dict(
        line.split(" ", 1)
        for line in done.stdout.splitlines()
        if line.startswith(("batch ", "stream "))
    )
    assert list(told) == ["batch", "stream"], (done.stdout[-3000:], done.stderr[-3000:])
    for rows in map(json.loads, told.values()):
        assert sorted(value for _, value in rows) == list(range(COUNT))
        for where in {key for key, _ in rows}:
            prefix, module = json.loads(where)
            assert Path(prefix).is_relative_to(standalone.directory), prefix
            assert Path(module).is_relative_to(standalone.directory), module
