"""Java for tests: a JVM that lives for a minute is not to spend it compiling.

Spark's scripts hand these options to what they start, also to what a test's process starts later:
drivers, executors unless an application names options of its own, masters and workers. It prints
nothing of them.
"""

from __future__ import annotations

import os
from typing import Final

QUICK_JVM: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Most of what a JVM does that soon ends would be to compile, and to begin a thread of the garbage
collector for every core."""


def choose_quick_java() -> None:
    """Set what Spark's scripts read, unless the environment has it."""
    executors = f'-Dspark.executor.extraJavaOptions="{QUICK_JVM}"'
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", QUICK_JVM)
    os.environ.setdefault("SPARK_SUBMIT_OPTS", f"{QUICK_JVM} {executors}")
    os.environ.setdefault("SPARK_DAEMON_JAVA_OPTS", QUICK_JVM)
