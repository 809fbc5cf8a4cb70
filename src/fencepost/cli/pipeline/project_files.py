"""The files of a Spark Declarative Pipelines project, and what must be written for each again.

Spark takes the settings of a pipeline's specification into a session that runs already, so what
has to be known before (which catalog there is, and where) stands in `conf/spark-defaults.conf`, and
SPARK_CONF_DIR has to name that directory: the project's script `run` sees to it. The catalog is
Spark's Hive catalog over an embedded Derby: PySpark comes with both, and tables made by one run are
there in the next.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Final

from fencepost.cli.failures import InputError, UsageError

_TEMPLATE: Final = Path(__file__).resolve().parent / "project"
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_LOG_SETTINGS: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""


_RUN: Final = """\
#!/bin/sh
# Runs `spark-pipelines run`, or the command that it is given, with this project's settings and
# catalog, and with the Python that has Fencepost unless PYSPARK_PYTHON names another.
cd "$(dirname "$0")" || exit
export SPARK_CONF_DIR="$PWD/conf"
[ -n "$PYSPARK_PYTHON" ] || PYSPARK_PYTHON=%s
export PYSPARK_PYTHON
PATH="$PATH:$(dirname "$PYSPARK_PYTHON")"
[ $# -gt 0 ] || set -- spark-pipelines run
exec "$@"
"""


def write_project(location: str, *, servers: str, topic: str, output_topic: str) -> Path:
    """Write the project into a new or empty directory; its path.

    UsageError for names that no topic can have, InputError for a directory that has something in
    it or a path that Spark's property files cannot hold, OSError.
    """
    for name in (topic, output_topic):
        if not _TOPIC.fullmatch(name) or name in (".", ".."):
            raise UsageError(f"{name!r} is no name of a topic")
    if topic == output_topic:
        raise UsageError(f"the pipeline would read its own output: both topics are {topic}")
    if not servers.strip() or not servers.isprintable():
        raise UsageError(f"--bootstrap-server {servers!r}: must be HOST:PORT,HOST:PORT")
    directory = Path(location).absolute()
    if not re.fullmatch(r"[\w/.,@+~-]+", str(directory)):
        raise InputError(
            f"{directory}: Spark's and Derby's settings take letters, digits and /.,@+~-_ in a path"
        )
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise InputError(f"{directory}: is not empty")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(_TEMPLATE, directory, ignore=ignored, dirs_exist_ok=True)
    (directory / "spark-pipeline.yml").write_text(
        _specification(directory, servers, topic, output_topic)
    )
    (directory / "conf").mkdir()
    (directory / "conf" / "spark-defaults.conf").write_text(_defaults(directory))
    (directory / "conf" / "log4j2.properties").write_text(_LOG_SETTINGS)
    (directory / "run").write_text(_RUN % shlex.quote(sys.executable))
    (directory / "run").chmod(0o755)
    return directory


def _specification(directory: Path, servers: str, topic: str, output_topic: str) -> str:
    # A JSON text is a YAML text.
    name, storage, *values = (
        json.dumps(text)
        for text in (
            directory.name,
            (directory / "data" / "storage").as_uri(),
            servers,
            topic,
            output_topic,
        )
    )
    return f"""\
# A Spark Declarative Pipelines project; see README.md beside this file.
name: {name}
catalog: spark_catalog
database: default
storage: {storage} # checkpoints
libraries:
  - glob:
      include: transformations/**
configuration:
  spark.pipeline.bootstrap.servers: {values[0]}
  spark.pipeline.topic: {values[1]}
  spark.pipeline.output.topic: {values[2]}
  spark.pipeline.event: "name string, amount double" # what the JSON of an event has
  spark.sql.shuffle.partitions: "2" # as small as the data
"""


def _defaults(directory: Path) -> str:
    data = directory / "data"
    catalog = f"jdbc:derby:;databaseName={data / 'catalog'};create=true"
    settings = {
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": (data / "tables").as_uri(),
        "spark.hadoop.javax.jdo.option.ConnectionURL": catalog,
        "spark.hadoop.datanucleus.schema.autoCreateAll": "true",
        "spark.hadoop.hive.metastore.schema.verification": "false",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={data}",
        "spark.ui.enabled": "false",
    }
    return "".join(f"{name} {value}\n" for name, value in settings.items())
