"""The archive of classes: a JVM of a test maps it, where it was written for that JVM."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from .. import quick_java
from ..quick_java import ARCHIVE, COMPILE_LITTLE, choose_quick_java, quick_jvm
from ..spark_classes import is_current


@pytest.mark.parametrize("name", ["SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS"])
def test_an_archive_is_used_if_it_is_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    archive = tmp_path / "spark-classes.jsa"
    monkeypatch.setattr(quick_java, "ARCHIVE", archive)
    monkeypatch.delenv(name, raising=False)
    assert quick_jvm() == COMPILE_LITTLE
    archive.touch()
    assert quick_jvm() == f"{COMPILE_LITTLE} -Xlog:disable -XX:SharedArchiveFile={archive}"
    choose_quick_java()
    assert f"-XX:SharedArchiveFile={archive}" in os.environ[name]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long  # `make test-long` writes the archive
def test_a_driver_maps_the_archive(spark: Any) -> None:
    if not (ARCHIVE.exists() and is_current()):
        pytest.skip("`python -m tests.spark_classes` has not written it, or for another Java")
    if str(ARCHIVE) not in os.environ["SPARK_SUBMIT_OPTS"]:
        pytest.skip("it was written after these tests began, or the environment says otherwise")
    jvm = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    assert str(ARCHIVE) in Path(f"/proc/{jvm}/maps").read_text()
