"""`fencepost pipeline init`: what it writes, and what it refuses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.cli.main import main

yaml = pytest.importorskip("yaml")


def written(directory: Path) -> set[str]:
    return {str(one.relative_to(directory)) for one in directory.rglob("*") if one.is_file()}


def test_a_project_has_what_its_readme_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    place = tmp_path / "flow"
    assert main(["pipeline", "init", str(place), "--topic", "orders", "-b", "kafka-1:9092"]) == 0
    assert str(place) in capsys.readouterr().out
    assert written(place) == {
        "README.md",
        "spark-pipeline.yml",
        "conf/spark-defaults.conf",
        "conf/log4j2.properties",
        "run",
        "transformations/raw.py",
        "transformations/cleaned.py",
        "transformations/aggregates.py",
        "transformations/publish.py",
    }
    specification = yaml.safe_load((place / "spark-pipeline.yml").read_text())
    assert specification["name"] == "flow"
    assert specification["storage"] == f"file://{place}/data/storage"
    assert specification["configuration"] == {
        "spark.pipeline.bootstrap.servers": "kafka-1:9092",
        "spark.pipeline.topic": "orders",
        "spark.pipeline.output.topic": "orders-sums",
        "spark.pipeline.event": "name string, amount double",
        "spark.sql.shuffle.partitions": "2",
    }
    readme = (place / "README.md").read_text()
    for name in written(place) - {"README.md", "conf/log4j2.properties"}:
        assert name in readme


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--topic", "a b"], 2, "'a b' is no name of a topic"),
        (["--topic", ".."], 2, "is no name of a topic"),
        (["--output-topic", "x" * 250], 2, "is no name of a topic"),
        (["--output-topic", "events"], 2, "would read its own output"),
        (["-b", "a\nb: c"], 2, "must be HOST:PORT"),
    ],
)
def test_names_that_cannot_be(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    code: int,
    said: str,
):
    assert main(["pipeline", "init", str(tmp_path / "flow"), *words]) == code
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
    assert not (tmp_path / "flow").exists()


def test_directories_that_it_leaves_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "mine").write_text("")
    assert main(["pipeline", "init", str(tmp_path)]) == 1
    assert "is not empty" in capsys.readouterr().err
    assert main(["pipeline", "init", str(tmp_path / "mine")]) == 1
    assert "File exists" in capsys.readouterr().err
    assert main(["pipeline", "init", str(tmp_path / "a;b")]) == 1
    assert "take letters, digits" in capsys.readouterr().err
    assert written(tmp_path) == {"mine"}


def test_run_gives_any_command_the_projects_settings(tmp_path: Path):
    place = tmp_path / "flow"
    assert main(["pipeline", "init", str(place)]) == 0
    asked = ["sh", "-c", 'echo "$SPARK_CONF_DIR $PYSPARK_PYTHON $PWD $1"', "sh", "a b"]
    for chosen, expected in ({}, sys.executable), ({"PYSPARK_PYTHON": "/other"}, "/other"):
        done = subprocess.run(
            [str(place / "run"), *asked],
            env={"PATH": os.environ["PATH"], **chosen},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == f"{place}/conf {expected} {place} a b\n"
