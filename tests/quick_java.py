"""Java for tests: a JVM that lives for a minute is not to spend it compiling and loading classes.

Spark's scripts hand these options to what they start, also to what a test's process starts later:
drivers, executors unless an application names options of its own, masters and workers. It prints
nothing of them.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

COMPILE_LITTLE: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Most of what a JVM does that soon ends would be to compile, and to begin a thread of the garbage
collector for every core."""
ARCHIVE: Final = Path(sys.prefix) / "spark-classes.jsa"
"""What `tests/spark_classes.py` writes, beside the jars whose paths are in it."""
QUIET: Final = "-Xlog:disable"
"""A JVM to which the archive does not apply would say so, among what it prints."""


def quick_jvm() -> str:
    """Options for a JVM of Spark."""
    if not ARCHIVE.exists():
        return COMPILE_LITTLE
    return f"{COMPILE_LITTLE} {QUIET} -XX:SharedArchiveFile={ARCHIVE}"


def choose_quick_java() -> None:
    """Set what Spark's scripts read, unless the environment has it."""
    options = quick_jvm()
    executors = f'-Dspark.executor.extraJavaOptions="{options}"'
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", COMPILE_LITTLE)
    os.environ.setdefault("SPARK_SUBMIT_OPTS", f"{options} {executors}")
    os.environ.setdefault("SPARK_DAEMON_JAVA_OPTS", options)
