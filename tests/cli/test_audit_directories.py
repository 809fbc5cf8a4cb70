"""`fencepost audit` of directories that are not there: known before Spark, and the JVM, start."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.cli.spark_session import runs_here

from ..waiting import DEADLINE_S

RUN = """
import sys
from fencepost.cli.main import main
code = main(sys.argv[1:])
print("pyspark" in sys.modules)
sys.exit(code)
"""


@pytest.mark.parametrize(
    "words",
    [("{there}", "{missing}"), ("{there}", "--replica", "1={missing}"), ("{file}",)],
    ids=["directory", "replica", "file"],
)
def test_a_directory_that_is_not_there_is_told_at_once(tmp_path: Path, words: tuple[str, ...]):
    missing, file = tmp_path / "missing", tmp_path / "file"
    file.touch()
    given = [word.format(there=tmp_path, missing=missing, file=file) for word in words]
    done = subprocess.run(
        [sys.executable, "-c", RUN, "audit", *given],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "False\n")
    named = file if words == ("{file}",) else missing
    assert done.stderr == f"fencepost audit: {named} is no directory, or is not there\n"


@pytest.mark.parametrize(
    ("master", "environment", "is_here"),
    [
        (None, {}, True),
        ("local[2]", {"MASTER": "spark://head:7077"}, True),
        ("spark://head:7077", {}, False),
        (None, {"MASTER": "yarn"}, False),
        (None, {"SPARK_CONF_DIR": "{conf}"}, False),
        (None, {"SPARK_HOME": "{conf}"}, True),
    ],
)
def test_only_tasks_of_this_machine_are_known_to_see_its_files(
    master: str | None,
    environment: dict[str, str],
    is_here: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    (tmp_path / "spark-defaults.conf").write_text("spark.master yarn\n")
    for name in ("MASTER", "SPARK_HOME", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value.format(conf=tmp_path))
    assert runs_here(argparse.Namespace(master=master, conf=[], packages=None)) is is_here
