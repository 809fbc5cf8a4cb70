"""Spark sessions of commands: where tasks run, settings, and failures in a line."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
from collections.abc import Iterator
from typing import Any, Final

from fencepost.cli.commands import add_repeatable
from fencepost.cli.failures import InputError, UsageError, as_input_errors
from fencepost.cli.key_values import pairs

_REASON: Final = re.compile(r"^(?:[\w.]+\.)?(\w+Error): (.+)$")
_CALL_FAILED: Final = "An error occurred while calling "
_REASON_MAX: Final = 2_000


def add_spark_options(parser: argparse.ArgumentParser) -> None:
    """Add the options by which a command finds Spark."""
    group = parser.add_argument_group("Spark")
    group.add_argument(
        "--master",
        metavar="URL",
        help="where tasks run, such as spark://HOST:7077 "
        "(default: Spark's own spark.master or $MASTER, else this machine)",
    )
    add_repeatable(
        group,
        "--conf",
        metavar="KEY=VALUE",
        help="a setting of Spark (repeatable); spark.log.level=ERROR shows stacks of what fails",
    )
    group.add_argument("--packages", metavar="COORDINATES", help="Maven packages that Spark loads")


@contextlib.contextmanager
def open_session(arguments: argparse.Namespace, name: str) -> Iterator[Any]:
    """A session that ends with the block; one that is active in this process is used as it is, and
    left open. UsageError for settings, InputError where there is no Spark, or it cannot start."""
    try:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession

        from fencepost.spark.java import JavaNotFoundError, ensure_java_home
    except ImportError as error:
        raise InputError(f"this needs PySpark (pip install 'fencepost[spark]'): {error}") from error
    settings = _settings(arguments)
    if (active := SparkSession.getActiveSession()) is not None:
        yield active
        return
    with as_input_errors(JavaNotFoundError):
        ensure_java_home()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
    except (PySparkException, Py4JError) as error:
        raise InputError(f"Spark does not start: {reason_of(error)}") from error
    try:
        yield session
    finally:
        session.stop()


@contextlib.contextmanager
def spark_failures(*kinds: type[Exception]) -> Iterator[None]:
    """Errors of these kinds as InputError, and what else fails in Spark, with its reason alone."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        with as_input_errors(*kinds):
            yield
    except (PySparkException, Py4JError) as error:
        raise InputError(reason_of(error)) from error


def runs_here(arguments: argparse.Namespace) -> bool:
    """Whether tasks certainly run on this machine, and see the files that it has. UsageError."""
    master = _settings(arguments).get("spark.master") or os.environ.get("MASTER")
    if master:
        return master.startswith("local")
    home = os.environ.get("SPARK_HOME")
    place = os.environ.get("SPARK_CONF_DIR") or (home and os.path.join(home, "conf"))
    return not (place and os.path.exists(os.path.join(place, "spark-defaults.conf")))


def _settings(arguments: argparse.Namespace) -> dict[str, str]:
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "FATAL",  # what fails is told in a line, without Spark's pages of stacks
        "spark.sql.session.timeZone": "UTC",
        **pairs(arguments.conf, "--conf"),
    }
    if arguments.packages:
        settings["spark.jars.packages"] = arguments.packages
    if arguments.master is not None:
        settings["spark.master"] = arguments.master
    if wrong := [key for key in settings if not key.startswith("spark.")]:
        raise UsageError(f"--conf {wrong[0]}: settings of Spark begin with spark.")
    return settings


def reason_of(error: BaseException) -> str:
    """Why something failed in Spark: what Python raised in one of its processes, else the first
    line of what Spark says, which is followed by pages of stacks."""
    lines = str(error).splitlines()
    found = [match for match in map(_REASON.match, map(str.strip, lines)) if match]
    own = [one for one in found if not one[1].startswith(("Py4J", "PySpark"))]
    # Py4J says which call failed, and on the next line what Java threw.
    said = [line.removeprefix(": ") for line in lines if not line.startswith(_CALL_FAILED)]
    text = own[-1][2] if own else next(filter(str.strip, said), type(error).__name__)
    return text[:_REASON_MAX]
