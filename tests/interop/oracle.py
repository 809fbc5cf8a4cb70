"""Programs in Java beside the tests, which ask the classes of Apache Kafka's own or of Java itself.

They are run from their sources, so this needs a Java that has a compiler.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from .apache import QUICK_JVM, java
from .maven import JarSet

PROGRAMS = Path(__file__).parent / "java"
TIMEOUT_S = 300
NO_COMPILER = ("jdk.compiler", "sun.tools.javac")
"""What Java names when it lacks one."""


def ask(
    program: Path, *arguments: str, jars: JarSet | None = None, questions: Iterable[str] = ()
) -> str:
    """What the program prints, with these jars on its class path and these lines as its input.

    AssertionError with its errors if it fails; the test is skipped where Java has no compiler.
    """
    class_path = () if jars is None else ("-cp", jars.class_path())
    done = subprocess.run(
        [str(java()), *QUICK_JVM, *class_path, str(program), *arguments],
        input="".join(f"{question}\n" for question in questions),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if any(name in done.stderr for name in NO_COMPILER):
        pytest.skip(f"{java()} has no compiler (of a JDK), which {program.name} needs")
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout
