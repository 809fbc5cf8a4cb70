"""What fails in `archive compact`, `maintain` and `verify` is a line, not a stack."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from fencepost.arrow.archive.layout import STATE, Layout
from fencepost.cli.archive import compacting, upkeep
from fencepost.cli.main import main
from fencepost.spark.archive import checking, compaction, maintaining

FAILURES = {
    "Java": Py4JError("An error occurred while calling o1.x.\n: java.io.IOException: no disk\n"),
    "Spark": PySparkException(message="no disk\n\tat org.apache.spark.x"),
}


@pytest.fixture(params=FAILURES)
def archive(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """As much of one as is looked at before the work, which fails."""
    state = Layout(tmp_path).local(STATE)
    state.parent.mkdir(parents=True)
    state.write_text('{"format": 1}')

    @contextlib.contextmanager
    def session(*_: object) -> Iterator[None]:
        yield None

    def fails(*_: object, **__: object) -> None:
        raise FAILURES[request.param]

    monkeypatch.setattr(upkeep, "open_session", session)
    monkeypatch.setattr(compacting, "open_session", session)
    monkeypatch.setattr("fencepost.spark.archive.running.in_tasks", lambda spark: None)
    monkeypatch.setattr("fencepost.arrow.archive.state.read_state", fails)
    monkeypatch.setattr(maintaining, "read_state", fails)
    monkeypatch.setattr(checking, "verify", fails)
    monkeypatch.setattr(compaction, "compact", fails)
    return tmp_path


@pytest.mark.parametrize("action", ["compact", "maintain", "verify"])
def test_a_failure_in_spark_is_said_in_a_line(
    capsys: pytest.CaptureFixture[str], archive: Path, action: str
) -> None:
    assert main(["archive", action, str(archive)]) == 1
    out, err = capsys.readouterr()
    assert not out and "no disk" in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("action", ["compact", "maintain", "verify"])
def test_what_is_no_archive_is_said_in_a_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, action: str
) -> None:
    assert main(["archive", action, str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert not out and str(tmp_path) in err
    assert len(err.splitlines()) == 1
